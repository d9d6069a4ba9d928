from __future__ import annotations

import statistics
from typing import Any

import pytest
from tests.conftest import scaled
from tests.strategies.temporal_view.brute_force import Row, Variable, pattern_part
from tests.strategies.temporal_view.streams import Stream, moment, stamped

import viewmill as vm

TABLE = "CREATE TABLE m (ts TIMESTAMP, g STRING, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH {n}"
MEASURES = "count(*) AS ct, sum(x) AS s, min(x) AS lo, max(x) AS hi, first(x) AS f, last(x) AS l"


def is_more(row: Row, before: Row | None, is_first: bool) -> bool:
    return before is not None and row[2] > before[2]


def is_more_at_first(row: Row, before: Row | None, is_first: bool) -> bool:
    return not is_first or is_more(row, before, is_first)


ANY = Variable(lambda row, before, first: True)
POSITIVE = Variable(lambda row, before, first: row[2] > 0)
POSITIVES = Variable(lambda row, before, first: row[2] > 0, plus=True)
NEGATIVE = Variable(lambda row, before, first: row[2] < 1)

PATTERNS = {
    "[a, b, c, d+]": (
        "a.x > 0 AND b.x > 0 AND c.x > 0 AND d.x > 0",
        [POSITIVE, POSITIVE, POSITIVE, POSITIVES],
    ),
    "[a, b+, c]": (
        "b.x > 0",
        [ANY, POSITIVES, ANY],
    ),
    "[a+, b+, c]": (
        "a.x > 0 AND b.x < 2 AND c.x < 1",
        [POSITIVES, Variable(lambda r, b, f: r[2] < 2, plus=True), NEGATIVE],
    ),
    "[a, b+]": (
        "b.x > PREV(b.x)",
        [ANY, Variable(is_more, plus=True)],
    ),
    "[a, b+, c+]": (
        "b.x > a.x AND c.x > 0",
        [ANY, Variable(is_more_at_first, plus=True), POSITIVES],
    ),
    "[a]": ("x > 1", [Variable(lambda r, b, f: r[2] > 1)]),
}


def expected(rows: list[Row], part: int, length: int, variables: list[Variable]) -> list[Row]:
    shown = []
    for match in pattern_part(rows, part, length, variables):
        xs = [row[2] for row in match]
        shown.append((match[0][1], len(xs), sum(xs), min(xs), max(xs), xs[0], xs[-1]))
    return sorted(shown)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("length", [60, 300])
def test_patterns_equal_a_matcher_that_tries_everything(pattern, length):
    where, variables = PATTERNS[pattern]
    for seed in range(scaled(0.05)):
        mill = vm.connect()
        mill.sql(TABLE.format(n=length))
        mill.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT g, {MEASURES} FROM m PATTERN {pattern} "
            f"WHERE {where} GROUP BY g"
        )
        stream = Stream(seed)
        for change, rows in stream.changes(25):
            getattr(mill, change)("m", stamped(rows))
            history = mill.sql("SELECT PART_TIMESTAMP, * FROM v").rows()
            for part in {row[0] // length for row in stream.rows}:
                found = sorted(row[1:] for row in history if row[0] == moment(part * length))
                assert found == expected(stream.rows, part, length, variables), (seed, part)
        assert mill["v"].verify() == []


def test_result_does_not_depend_on_the_partition_length_or_on_batches():
    stream = Stream(11)
    last = {}
    for length in (60, 600):
        for size in (1, 7):
            mill = vm.connect()
            mill.sql(TABLE.format(n=length))
            mill.sql(
                "CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS ct FROM m PATTERN [a, b+] "
                "WHERE b.x >= 0 GROUP BY g"
            )
            rows = stream.rows or [r for _, rs in stream.changes(40) for r in rs]
            for i in range(0, len(rows), size):
                mill.insert("m", stamped(rows[i : i + size]))
            last[length, size] = sorted(mill["v"].rows())
    assert last[60, 1] == last[60, 7]
    assert last[600, 1] == last[600, 7]


def test_pattern_starts_at_the_oldest_part_and_survives_reopening(tmp_path):
    stream = Stream(5)
    changes = list(stream.changes(30))
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(TABLE.format(n=60))
        for change, rows in changes[:15]:
            getattr(mill, change)("m", stamped(rows))
        mill.sql(
            "CREATE VIEW v AS SELECT g, count(*) AS ct FROM m PATTERN [a, b+] "
            "WHERE a.x > 0 AND b.x > 0 GROUP BY g"
        )
        mill.checkpoint()
        for change, rows in changes[15:]:
            getattr(mill, change)("m", stamped(rows))
        shown = sorted(mill.sql("SELECT PART_TIMESTAMP, * FROM v").rows())
    with vm.connect(tmp_path / "m.mill") as mill:
        assert sorted(mill.sql("SELECT PART_TIMESTAMP, * FROM v").rows()) == shown
        assert mill["v"].verify() == []


def test_an_error_rolls_runs_back():
    mill = vm.connect()
    mill.sql(TABLE.format(n=60))
    mill.sql(
        "CREATE VIEW v AS SELECT g, count(*) AS ct, sum(x) AS s FROM m PATTERN [a, b+] "
        "WHERE a.x > 0 AND b.x > 0 GROUP BY g"
    )
    mill.insert("m", stamped([(0, "ann", 2**62), (1, "bob", 1)]))
    with pytest.raises(vm.errors.Overflow):
        mill.insert("m", stamped([(61, "bob", 1), (62, "ann", 2**62)]))
    mill.insert("m", stamped([(61, "bob", 1)]))
    assert mill["v"].rows() == [("bob", 2, 2)]


def test_late_row_takes_only_its_own_group_through_later_parts():
    mill = vm.connect()
    mill.sql(TABLE.format(n=60))
    mill.sql(
        "CREATE VIEW v AS SELECT g, count(*) AS ct FROM m PATTERN [a, b+] "
        "WHERE a.x > 0 AND b.x > 0 GROUP BY g"
    )
    names = [f"g{i}" for i in range(50)]
    for part in range(30):
        mill.insert("m", stamped([(60 * part, name, int(part % 9 > 0)) for name in names]))
    maintainer: Any = mill.core.catalog.view("v").block.maintainer
    before = maintainer.advanced_rows
    mill.insert("m", stamped([(60 * 3 + 30, "g7", 0)]))
    # Its own part has two rows of g7 now; from the next zero on, in part 9, all is as it was.
    assert maintainer.advanced_rows - before <= 2 + 6
    assert mill["v"].verify() == []


def test_patterns_over_one_stream_sort_each_part_once():
    mill = vm.connect()
    mill.sql(TABLE.format(n=60))
    for i in range(3):
        mill.sql(
            f"CREATE VIEW v{i} AS SELECT g, count(*) AS ct FROM m PATTERN [a, b+] "
            f"WHERE a.x > {i} AND b.x > {i} GROUP BY g"
        )
    stream = Stream(4)
    for change, rows in stream.changes(20):
        getattr(mill, change)("m", stamped(rows))
    (shared,) = mill.core.catalog.table("m").table.parts.orders.values()
    alone = vm.connect()
    alone.sql(TABLE.format(n=60))
    alone.sql(
        "CREATE VIEW v0 AS SELECT g, count(*) AS ct FROM m PATTERN [a, b+] "
        "WHERE a.x > 0 AND b.x > 0 GROUP BY g"
    )
    for change, rows in Stream(4).changes(20):
        getattr(alone, change)("m", stamped(rows))
    (own,) = alone.core.catalog.table("m").table.parts.orders.values()
    assert shared.sorted_parts == own.sorted_parts
    assert [mill[f"v{i}"].verify() for i in range(3)] == [[], [], []]


def test_patterns_together_are_what_each_is_alone_and_ask_no_engine():
    queries = [
        "SELECT g, count(*) AS ct FROM m PATTERN [a, b+] WHERE a.x > 2 AND b.x > 2 GROUP BY g",
        "SELECT g, count(*) AS ct, sum(x) AS t FROM m PATTERN [a, b+] "
        "WHERE b.x > PREV(b.x) GROUP BY g",
        "SELECT g, last(x) AS x FROM m PATTERN [a, b, c] WHERE b.x > a.x AND c.x < b.x GROUP BY g",
    ]
    mills = [vm.connect() for _ in range(4)]
    for mill in mills:
        mill.sql(TABLE.format(n=60))
    for i, query in enumerate(queries):
        mills[0].sql(f"CREATE VIEW v{i} AS {query}")
        mills[1 + i].sql(f"CREATE VIEW v{i} AS {query}")
    for change, rows in Stream(11).changes(25):
        for mill in mills:
            getattr(mill, change)("m", stamped(rows))
        for i in range(3):
            assert sorted(mills[0][f"v{i}"].rows()) == sorted(mills[1 + i][f"v{i}"].rows())
    for i in range(3):
        status = mills[0][f"v{i}"].status()
        assert (status["engine_calls"], status["refresh_kind"]) == (0, "incremental")
    assert [mills[0][f"v{i}"].verify() for i in range(3)] == [[], [], []]


def test_measures_of_one_variable_and_average():
    mill = vm.connect()
    mill.sql(TABLE.format(n=60))
    mill.sql(
        "CREATE VIEW v AS SELECT g, sum(b.x) AS rise, first(a.x) AS low, avg(x) AS mean, "
        "count(x) AS n FROM m PATTERN [a, b+] WHERE b.x > PREV(b.x) GROUP BY g HAVING sum(b.x) > 5"
    )
    mill.insert("m", stamped([(0, "ann", 1), (10, "ann", 2), (20, "ann", 4), (0, "bob", 1)]))
    mill.insert("m", stamped([(30, "bob", 3)]))
    assert mill["v"].rows() == [("ann", 6, 1, statistics.mean([1, 2, 4]), 3)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT g FROM m PATTERN [a, b, c] WHERE c.x > a.x GROUP BY g", "neighbouring"),
        ("SELECT x FROM m PATTERN [a] GROUP BY g", "neither grouped"),
        ("SELECT g FROM m PATTERN [a, a] GROUP BY g", "twice"),
        ("SELECT g FROM m PATTERN [a] WHERE z.x > 1 GROUP BY g", "no variable"),
        ("SELECT g, median(x) FROM m PATTERN [a] GROUP BY g", "not kept"),
    ],
)
def test_what_a_pattern_cannot_say_is_refused(query, message):
    mill = vm.connect()
    mill.sql(TABLE.format(n=60))
    with pytest.raises(vm.ViewmillError, match=message):
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")

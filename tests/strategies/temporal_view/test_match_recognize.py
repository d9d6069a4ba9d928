from __future__ import annotations

from decimal import Decimal

import pytest
from tests.conftest import scaled
from tests.strategies.temporal_view.brute_force import Row, Variable
from tests.strategies.temporal_view.streams import Stream, stamped

import viewmill as vm
from viewmill.errors import UnsupportedQuery

TABLE = "CREATE TABLE m (ts TIMESTAMP, g STRING, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH {n}"
VIEW = """
CREATE MATERIALIZED VIEW v AS SELECT * FROM m MATCH_RECOGNIZE (
  PARTITION BY g ORDER BY ts
  MEASURES COUNT(*) AS n, SUM(x) AS s, FIRST({first}.x) AS f, LAST({last}.x) AS l,
    COUNT({last}.x) AS k
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN ({pattern}) DEFINE {define})
"""


def greedy(rows: list[Row], start: int, variables: list[Variable]) -> list[int] | None:
    """The preferred match from a start: how many rows each variable takes, by backtracking."""

    def deal(at: int, variable: int) -> list[int] | None:
        if variable == len(variables):
            return []
        most = 0
        while at + most < len(rows) and (most == 0 or variables[variable].plus):
            before = rows[at + most - 1] if at + most > 0 else None
            if not variables[variable].test(rows[at + most], before, most == 0):
                break
            most += 1
        for taken in range(most, 0, -1):
            rest = deal(at + taken, variable + 1)
            if rest is not None:
                return [taken, *rest]
        return None

    return deal(start, 0)


def matched(rows: list[Row], variables: list[Variable]) -> list[Row]:
    """All matches: leftmost, greedy, on past the last row."""
    shown: list[Row] = []
    for group in {row[1] for row in rows}:
        own, at = sorted(row for row in rows if row[1] == group), 0
        while at < len(own):
            sizes = greedy(own, at, variables)
            if sizes is None:
                at += 1
                continue
            match = own[at : at + sum(sizes)]
            xs = [row[2] for row in match]
            shown.append((group, len(xs), sum(xs), xs[0], xs[-1], sizes[-1]))
            at += len(match)
    return sorted(shown)


POSITIVE = Variable(lambda r, b, f: r[2] > 0)
CASES = {
    "a b+ c": ("a", "c", "b AS b.x > 0, c AS x < 2", [
        Variable(lambda r, b, f: True), Variable(lambda r, b, f: r[2] > 0, plus=True),
        Variable(lambda r, b, f: r[2] < 2)]),
    "a+ b+": ("a", "b", "a AS x > 0, b AS x > 1", [
        Variable(lambda r, b, f: r[2] > 0, plus=True),
        Variable(lambda r, b, f: r[2] > 1, plus=True)]),
    "a b+": ("a", "b", "b AS b.x > PREV(b.x)", [
        Variable(lambda r, b, f: True),
        Variable(lambda r, b, f: b is not None and r[2] > b[2], plus=True)]),
    "a b c": ("a", "c", "a AS x > 0, b AS b.x < a.x, c AS x > 0", [
        POSITIVE, Variable(lambda r, b, f: b is not None and r[2] < b[2]), POSITIVE]),
}  # fmt: skip


@pytest.mark.parametrize("pattern", CASES)
@pytest.mark.parametrize("length", [60, 600])
def test_matches_equal_backtracking(pattern, length):
    first, last, define, variables = CASES[pattern]
    for seed in range(scaled(0.06)):
        mill = vm.connect()
        mill.sql(TABLE.format(n=length))
        mill.sql(VIEW.format(pattern=pattern, define=define, first=first, last=last))
        stream = Stream(seed)
        for change, rows in stream.changes(25):
            getattr(mill, change)("m", stamped(rows))
            assert sorted(mill["v"].rows()) == matched(stream.rows, variables), seed
        assert mill["v"].verify() == []


def test_trailing_plus_grows_by_retracting_and_emitting():
    mill = vm.connect()
    mill.sql(TABLE.format(n=60))
    mill.sql(VIEW.format(pattern="a b+", define="a AS x < 1, b AS x > 0", first="a", last="b"))
    heard: list[list[tuple[Row, int]]] = []
    mill["v"].subscribe(lambda change: heard.append(sorted(change)))
    for i, x in enumerate([0, 1, 1]):
        mill.insert("m", stamped([(60 * i, "ann", x)]))
    assert heard == [
        [(("ann", 2, 1, 0, 1, 1), 1)],
        [(("ann", 2, 1, 0, 1, 1), -1), (("ann", 3, 2, 0, 1, 2), 1)],
    ]


def test_match_can_be_filtered_and_projected_and_survives_reopening(tmp_path):
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(TABLE.format(n=60))
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT g, e - s AS rise FROM m MATCH_RECOGNIZE ("
            "PARTITION BY g ORDER BY ts MEASURES a.x AS s, b.x AS e PATTERN (a b+) "
            "DEFINE b AS x > PREV(x)) AS mr WHERE e > 2"
        )
        mill.insert("m", stamped([(i, "ann", x) for i, x in enumerate([1, 2, 3, 0, 1])]))
        assert mill["v"].rows() == [("ann", 2)]
    with vm.connect(tmp_path / "m.mill") as mill:
        assert mill["v"].rows() == [("ann", 2)]
        mill.insert("m", stamped([(5, "ann", 9)]))
        assert sorted(mill["v"].rows()) == [("ann", 2), ("ann", 9)]


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        (
            "PARTITION BY g ORDER BY g MEASURES a.x AS s PATTERN (a) DEFINE a AS x > 1",
            "order of a time",
        ),
        (
            "PARTITION BY g ORDER BY ts MEASURES a.x AS s SEEK PATTERN (a) DEFINE a AS x > 1",
            "SEEK",
        ),
        ("ORDER BY ts MEASURES SUM(DISTINCT x) AS s PATTERN (a b+)", "not kept"),
    ],
)
def test_what_is_not_supported_says_so(inside, message):
    mill = vm.connect()
    mill.sql(TABLE.format(n=60))
    with pytest.raises(vm.ViewmillError, match=message):
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT * FROM m MATCH_RECOGNIZE ({inside})")


@pytest.mark.parametrize("shown", ["count(*) AS n", "sum(top) AS s, count(*) AS n",
                                   "top, (SELECT max(x) FROM m) AS most"],
                         ids=["count", "sum", "subquery"])  # fmt: skip
def test_what_is_of_all_matches_stands_in_a_view_over_them(shown):
    match = (
        "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES LAST(b.x) AS top"
        " PATTERN (a b+) DEFINE b AS b.x > PREV(b.x))"
    )
    with vm.connect() as mill:
        options = "TIMESTAMP BY ts PARTITION LENGTH 60"
        mill.sql(f"CREATE TABLE m (ts TIMESTAMP, k STRING, x BIGINT) {options}")
        with pytest.raises(UnsupportedQuery, match="only columns and WHERE"):
            mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {shown} FROM m {match}")


@pytest.mark.parametrize(
    ("define", "kind"),
    [
        ("x > PREV(x)", "incremental"),
        ("g LIKE 'a%' AND length(g) = 3 AND x > coalesce(PREV(x), 0) / 2", "incremental"),
        ("date_format(ts, 'yyyy') = '1970' AND x > 1", "incremental"),  # computed in Python
    ],
)
def test_a_refresh_asks_no_engine(define, kind, uncompiled):
    with vm.connect() as mill:
        mill.sql(TABLE.format(n=60))
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT upper(g) AS g, n + 1 AS n FROM m MATCH_RECOGNIZE "
            "(PARTITION BY g ORDER BY ts MEASURES COUNT(*) AS n, LAST(x) AS l PATTERN (a b+) "
            f"DEFINE b AS {define}) WHERE l > 0"
        )
        mill.sql(
            "CREATE VIEW p AS SELECT upper(g) AS g, sum(x) + 1 AS s FROM m PATTERN [a, b+] "
            f"WHERE {define.replace('x', 'b.x').replace('g ', 'b.g ')} GROUP BY g "
            "HAVING count(*) > 2"
        )
        for i, x in enumerate([0, 1, 2, 3, 2, 5]):
            mill.insert("m", stamped([(30 * i, "ann", x), (30 * i, "bob", 1)]))
        for name in "vp":
            status = mill[name].status()
            assert (status["engine_calls"], status["refresh_kind"]) == (0, kind)
            assert mill[name].verify() == []
        assert mill["v"].rows()


def test_matches_stay_when_retention_ends_their_rows(tmp_path, uncompiled):
    kept = " RETENTION INTERVAL '3' MINUTES"
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(TABLE.format(n=60) + kept)
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM m MATCH_RECOGNIZE (PARTITION BY g "
            "ORDER BY ts MEASURES a.x AS f, LAST(b.x) AS l PATTERN (a b+) DEFINE b AS x > PREV(x))"
        )
        heard: list[tuple[Row, int]] = []
        mill["v"].subscribe(heard.extend)
        for i, x in enumerate([0, 1, 5, 2, 3, 4, 5, 6]):
            mill.insert("m", stamped([(60 * i, "ann", x)]))
        # The second one began in a part that is gone, and still grows.
        assert sorted(mill["v"].rows()) == [("ann", 0, 5), ("ann", 2, 6)]
        assert (("ann", 0, 5), -1) not in heard
        assert mill.sql("SELECT count(*) FROM m").rows() == [(3,)]
        assert mill["v"].verify() == []
        mill.checkpoint()
        mill.insert("m", stamped([(60 * 8, "ann", 7)]))
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.insert("m", stamped([(60 * 9, "ann", 8), (60 * 10, "ann", 0)]))
        mill.delete("m", stamped([(60 * 9, "ann", 8)]))
        assert sorted(mill["v"].rows()) == [("ann", 0, 5), ("ann", 2, 7)]
        assert mill["v"].verify() == []


@pytest.mark.parametrize("kept", ["", " RETENTION INTERVAL '4' MINUTES"])
def test_verify_finds_a_match_that_is_shown_wrongly(uncompiled, kept):
    with vm.connect() as mill:
        mill.sql(TABLE.format(n=60) + kept)
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM m MATCH_RECOGNIZE (PARTITION BY g "
            "ORDER BY ts MEASURES LAST(b.x) AS l PATTERN (a b) DEFINE b AS x > PREV(x))"
        )
        mill.sql(
            "CREATE MATERIALIZED VIEW p AS SELECT g, sum(x) AS s FROM m PATTERN [a+] GROUP BY g"
        )
        for i in range(8):
            mill.insert("m", stamped([(60 * i, "ann", i)]))
        for name, at in (("v", -1), ("p", 0)):
            assert mill[name].verify() == []
            mill.core.catalog.view(name).block.maintainer.contents().columns[1][at] += 10
            assert len(mill[name].verify()) > 0


def test_deferred_patterns_see_rows_that_ended_while_they_waited(uncompiled):
    with vm.connect() as mill:
        mill.sql(TABLE.format(n=60) + " RETENTION INTERVAL '2' MINUTES")
        mill.sql(
            "CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS SELECT * FROM m MATCH_RECOGNIZE ("
            "PARTITION BY g ORDER BY ts MEASURES a.x AS f, b.x AS l PATTERN (a b) "
            "DEFINE b AS x > PREV(x))"
        )
        mill.sql(
            "CREATE MATERIALIZED VIEW p REFRESH ON DEMAND AS SELECT g, count(*) AS n "
            "FROM m PATTERN [a, b+] WHERE b.x > PREV(b.x) GROUP BY g"
        )
        mill.sql("CREATE MATERIALIZED VIEW s AS SELECT sum(x) AS s FROM m")
        for i in range(6):
            mill.insert("m", stamped([(60 * i, "ann", i), (60 * i, f"g{i // 2}", i)]))
        mill["v"].refresh()
        mill["p"].refresh()
        assert mill["s"].rows() == [(18,)]
        pairs = [(0, 1), (2, 3), (4, 5)]
        wanted = [("ann", *each) for each in pairs]
        wanted += [(f"g{i}", *each) for i, each in enumerate(pairs)]
        assert sorted(mill["v"].rows()) == wanted
        assert sorted(mill["p"].rows()) == [("ann", 6), ("g2", 2)]
        assert mill["v"].verify() == mill["p"].verify() == []


def test_wide_decimals_are_shown_and_not_computed_with(uncompiled):
    table = "CREATE TABLE m (ts TIMESTAMP, d DECIMAL(38,10)) TIMESTAMP BY ts PARTITION LENGTH 60"
    match = (
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM m MATCH_RECOGNIZE (ORDER BY ts MEASURES {} "
        "PATTERN (a b+) DEFINE b AS d > PREV(d))"
    )
    low = Decimal("12345678901234567890.12345678")
    rows = stamped([(i, low + i) for i in range(3)])
    with vm.connect() as mill:
        mill.sql(table)
        mill.sql(match.format("FIRST(d) AS f, LAST(d, 1) AS l, COUNT(d) AS n"))
        mill.insert("m", rows)
        assert mill["v"].rows() == [(low, low + 1, 3)]
        assert mill["v"].verify() == []
    for function in ("SUM", "MIN", "MAX", "AVG"):
        with vm.connect() as mill:
            mill.sql(table)
            mill.sql(match.format(f"{function}(d) AS x"))
            with pytest.raises(vm.Overflow, match="18 digits"):
                mill.insert("m", rows)
            assert mill["v"].rows() == []


@pytest.mark.parametrize("late", [False, True])
def test_matches_stay_when_another_view_refuses_the_batch(late, uncompiled):
    """The pattern has taken the rows already; what it cut and matched for them goes again."""
    first, last, define, variables = CASES["a+ b+"]
    view = VIEW.format(first=first, last=last, pattern="a+ b+", define=define)
    with vm.connect() as mill:
        mill.sql(TABLE.format(n=60) + " LATENESS INTERVAL '10' MINUTES")
        mill.sql(view)
        mill.sql("CREATE MATERIALIZED VIEW w AS SELECT x, 10 DIV (x - 99) AS q FROM m")
        rows = stamped([(10 * i, g, x) for i, x in enumerate([3, 0, 2, 5, 0, 4]) for g in "ab"])
        mill.insert("m", rows)
        shown = matched(rows, variables)
        assert sorted(mill["v"].rows()) == shown
        at = 15 if late else 61
        with pytest.raises(vm.ViewmillError, match="division by zero"):
            mill.insert("m", stamped([(at, "a", 7), (at + 1, "a", 99), (at + 2, "b", 9)]))
        assert sorted(mill["v"].rows()) == shown
        more = stamped([(at + 3, "a", 6), (at + 4, "b", 0), (70, "b", 8)])
        mill.insert("m", more)
        assert sorted(mill["v"].rows()) == matched(rows + more, variables)
        assert mill["v"].verify() == []

"""Sliding windows kept by helper parts equal the query over their rows, at every step."""

import datetime as dt
import random
from collections import defaultdict

import pytest

import viewmill as vm
from viewmill.errors import UnsupportedQuery

START = dt.datetime(2024, 1, 1)
COLUMNS = "ts TIMESTAMP, k STRING, x BIGINT, d DOUBLE, c DECIMAL(10,2)"
CUMULATIVE = "count(*) AS n, sum(x) AS t, avg(x) AS a, count(x) AS nx, avg(c) AS m"
BY_PART = "count(*) AS n, max(x) AS high, min(d) AS low, sum(d) AS td, sum(x) AS t"


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Every view has programs of its own; compiling them is tested elsewhere."""
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def at(seconds):
    return START + dt.timedelta(seconds=seconds)


def connect(options="", path=None):
    mill = vm.connect() if path is None else vm.connect(path)
    mill.sql(f"CREATE TABLE s ({COLUMNS}) TIMESTAMP BY ts PARTITION LENGTH 10 {options}")
    return mill


def create(mill, what, size, slide, where="", having="", name="v"):
    mill.sql(
        f"CREATE MATERIALIZED VIEW {name} STRATEGY temporal_view AS SELECT k, {what}"
        f" FROM s [WINDOW {size} SECONDS SLIDE {slide} SECONDS] {where} GROUP BY k {having}"
    )


def random_rows(chance, now, late):
    rows = []
    for _ in range(chance.randint(1, 12)):
        now += chance.random() * 6
        moment = at(round(now - chance.random() * late, 6))
        k = chance.choice(["a", "b", "c", None, f"g{int(now) // 40}"])
        x = None if chance.random() < 0.2 else chance.randrange(-50, 50)
        rows.append((moment, k, x, round(chance.random(), 6), round(chance.random() * 100, 2)))
    return rows, now


def slides(rows, size, slide, end):
    """By hand: for each slide that has ended, each group's count, sum, largest x and smallest d."""
    found = {}
    for start in range(0, int(end - slide) + 1, slide):
        low, high = start + slide - size, start + slide
        groups = defaultdict(list)
        for moment, k, x, d, _ in rows:
            if low <= (moment - START).total_seconds() < high:
                groups[k].append((x, d))
        shown = set()
        for k, each in groups.items():
            xs = [x for x, _ in each if x is not None]
            total, high_x = (sum(xs), max(xs)) if xs else (None, None)
            shown.add((k, len(each), total, high_x, min(d for _, d in each)))
        found[at(start)] = shown
    return found


HISTORY = {
    "cumulative": ("count(*) AS n, sum(x) AS t", lambda row: row[:3]),
    "by_part": ("count(*) AS n, sum(x) AS t, max(x) AS h, min(d) AS l", lambda row: row),
}


@pytest.mark.parametrize("kind", ["cumulative", "by_part"])
@pytest.mark.parametrize(
    ("size", "slide", "lateness"),
    [(40, 10, 0), (60, 20, 30), (10, 10, 0), (10, 30, 0), (150, 10, 5)],
)
def test_every_window_equals_the_query_over_its_rows(kind, size, slide, lateness):
    what, shown = HISTORY[kind]
    chance = random.Random(size + slide)
    late = f"LATENESS INTERVAL '{lateness}' SECONDS" if lateness else ""
    with connect(late) as mill:
        create(mill, what, size, slide)
        held, now = [], 30.0
        for step in range(24):
            rows, now = random_rows(chance, now, min(lateness or 25, 25))
            now += 200 * (step % 11 == 10)
            mill.insert("s", rows)
            held += rows
            if step % 5 == 3 and not lateness:
                gone = chance.sample(held, min(3, len(held)))
                for row in gone:
                    held.remove(row)
                mill.delete("s", gone)
        end = (max(row[0] for row in held) - START).total_seconds() - lateness
        expected = slides(held, size, slide, end // slide * slide)
        for moment, answer in expected.items():
            rows = mill.sql(f"SELECT * FROM v WHERE PART_TIMESTAMP = '{moment}'").rows()
            assert sorted(map(repr, rows)) == sorted(repr(shown(row)) for row in answer), moment
        assert set(mill["v"].rows()) == set(map(shown, expected[max(expected)]))
        assert mill["v"].verify() == []
        assert mill["v"].status()["engine_calls"] == 0


@pytest.mark.parametrize("what", [CUMULATIVE, BY_PART], ids=["cumulative", "by_part"])
def test_filters_and_having_equal_recompute(what):
    chance = random.Random(7)
    with connect() as mill:
        create(mill, what, 40, 10, "WHERE d > 0.3", "HAVING count(*) > 1 AND sum(x) < 60")
        now = 0.0
        seen = 0
        for _ in range(12):
            rows, now = random_rows(chance, now, 25)
            mill.insert("s", rows)
            mill.delete("s", rows[:1])
            assert mill["v"].verify() == []
            seen += len(mill["v"].rows())
        assert seen


def test_sums_that_are_zero_or_negative_are_shown_and_groups_without_rows_are_not():
    with connect() as mill:
        create(mill, "sum(x) AS t, count(*) AS n", 20, 10)
        rows = [(1, "a", 5), (2, "a", -5), (3, "b", -7), (11, "b", 0), (21, "c", 1)]
        mill.insert("s", [(at(t), k, x, 0.0, 0.0) for t, k, x in rows])
        assert sorted(mill["v"].rows()) == [("a", 0, 2), ("b", -7, 2)]
        mill.advance("s", to=at(30))
        assert sorted(mill["v"].rows()) == [("b", 0, 1), ("c", 1, 1)]
        mill.advance("s", to=at(1000))
        assert mill["v"].rows() == []
        assert mill["v"].verify() == []


def test_dead_groups_are_removed_and_may_return():
    with connect("LATENESS INTERVAL '10' SECONDS") as mill:
        create(mill, "sum(x) AS t", 30, 10)
        for minute in range(40):
            names = ["always", f"once {minute}", "returns" if minute % 13 == 0 else "often"]
            mill.insert("s", [(at(10 * minute), k, minute, 0.0, 0.0) for k in names])
            assert mill["v"].verify() == [] or minute % 10
        maintainer = mill._core.catalog.view("v").block.maintainer
        assert maintainer.helper_parts <= 3 + 1 + 3
        assert maintainer.group_count < 30
        assert mill["v"].verify() == []


def test_a_late_row_is_added_to_the_helper_parts_that_are_kept():
    with connect() as mill:
        create(mill, "sum(x) AS t", 1000, 10)
        mill.insert("s", [(at(10 * i), "a", 1, 0.0, 0.0) for i in range(1200)])
        kept = mill._core.catalog.view("v").block.maintainer
        assert kept.helper_parts <= 101 + 1
        before = mill.parts("v")
        mill.insert("s", [(at(10 * 200 + 1), "a", 100, 0.0, 0.0)])
        changed = [b for a, b in zip(before, mill.parts("v"), strict=True) if a != b]
        assert len(changed) == 100
        assert mill["v"].rows() == [("a", 100)]
        mill.insert("s", [(at(10 * 1150 + 1), "a", 100, 0.0, 0.0)])
        assert mill["v"].rows() == [("a", 200)]
        assert mill["v"].verify() == []


def test_without_group_by_there_is_always_one_answer():
    with connect() as mill:
        mill.sql(
            "CREATE MATERIALIZED VIEW v STRATEGY temporal_view AS SELECT count(*) AS n, sum(x) AS t"
            " FROM s [WINDOW 20 SECONDS SLIDE 10 SECONDS]"
        )
        assert mill["v"].rows() == [(0, None)]
        mill.insert("s", [(at(1), "a", 5, 0.0, 0.0), (at(11), "a", 6, 0.0, 0.0)])
        assert mill["v"].rows() == [(1, 5)]
        mill.advance("s", to=at(25))
        assert mill["v"].rows() == [(2, 11)]
        mill.advance("s", to=at(500))
        assert mill["v"].rows() == [(0, None)]
        assert mill["v"].verify() == []


def test_a_sum_that_does_not_fit_is_an_error_and_changes_nothing():
    big = 2**62
    with connect() as mill:
        create(mill, "sum(x) AS t", 20, 10)
        mill.insert("s", [(at(1), "a", big, 0.0, 0.0), (at(11), "a", 1, 0.0, 0.0)])
        assert mill["v"].rows() == [("a", big)]
        with pytest.raises(vm.ViewmillError):
            mill.insert("s", [(at(12), "a", big, 0.0, 0.0), (at(21), "a", 1, 0.0, 0.0)])
        assert mill["v"].rows() == [("a", big)]
        mill.insert("s", [(at(12), "a", -big, 0.0, 0.0), (at(21), "a", 1, 0.0, 0.0)])
        assert mill["v"].rows() == [("a", 1)]
        # Cumulative sums far beyond 64 bits: differences stay right.
        for i in range(3, 12):
            mill.insert(
                "s", [(at(10 * i), "a", big, 0.0, 0.0), (at(10 * i + 9), "a", -5, 0.0, 0.0)]
            )
            assert mill["v"].verify() == []


def test_answers_survive_a_restart(tmp_path):
    path = tmp_path / "windows.mill"
    options = "RETENTION INTERVAL '100' SECONDS LATENESS INTERVAL '10' SECONDS"
    with connect(options, path) as mill:
        create(mill, CUMULATIVE, 40, 10)
        create(mill, BY_PART, 40, 20, name="w")
        for i in range(30):
            mill.insert("s", [(at(7 * i + j), "abc"[j % 3], i, 0.5, 1.5) for j in range(4)])
            if i == 12:
                mill.checkpoint()
        before = {name: (mill[name].rows(), mill.parts(name)) for name in "vw"}
    with vm.connect(path) as mill:
        for name in "vw":
            rows, parts = before[name]
            assert sorted(mill[name].rows()) == sorted(rows)
            assert [p["rows"] for p in mill.parts(name)] == [p["rows"] for p in parts]
            assert mill[name].verify() == []
        mill.insert("s", [(at(300), "a", 1, 0.5, 1.5)])
        assert mill["v"].verify() == [] == mill["w"].verify()


def test_a_deferred_window_takes_everything_when_it_is_refreshed():
    with connect() as mill:
        mill.sql(
            "CREATE MATERIALIZED VIEW v STRATEGY temporal_view REFRESH ON DEMAND AS SELECT k,"
            " max(x) AS t FROM s [WINDOW 20 SECONDS SLIDE 10 SECONDS] GROUP BY k"
        )
        row = (at(2), "a", 9, 0.0, 0.0)
        mill.insert("s", [(at(1), "a", 5, 0.0, 0.0), row])
        mill.delete("s", [row])
        mill.insert("s", [(at(11), "b", 6, 0.0, 0.0), (at(25), "b", 7, 0.0, 0.0)])
        assert mill["v"].rows() == []
        mill["v"].refresh()
        assert sorted(mill["v"].rows()) == [("a", 5), ("b", 6)]
        assert mill["v"].verify() == []


def test_the_planner_chooses_by_the_rows_of_a_part_and_says_why():
    query = "SELECT k, sum(x) AS t FROM s [WINDOW 40 SECONDS SLIDE 10 SECONDS] GROUP BY k"
    with connect() as mill:
        mill.sql(f"CREATE MATERIALIZED VIEW few AS {query}")
        assert mill["few"].status()["strategy"] == "shared_window"
        assert "temporal_view" in str(mill["few"].explain())
        rows = [
            (at(10 * part + i / 10_000), "a", 1, 0.0, 0.0)
            for part in range(2)
            for i in range(20_000)
        ]
        mill.insert("s", rows)
        mill.sql(f"CREATE MATERIALIZED VIEW many AS {query}")
        assert mill["many"].status()["strategy"] == "temporal_view"
        text = str(mill["many"].explain())
        assert "the cheapest at 20000 changed rows per refresh, as many as a time part has" in text
        assert "cumulative" in text
        assert "shared_window" in text
        assert sorted(mill["few"].rows()) == sorted(mill["many"].rows())


@pytest.mark.parametrize(
    ("window", "what", "reason"),
    [
        ("15 SECONDS SLIDE 10 SECONDS", "sum(x)", "whole parts"),
        ("20 SECONDS SLIDE 5 SECONDS", "sum(x)", "whole parts"),
        ("20 SECONDS SLIDE 10 SECONDS", "stddev(d)", "helper parts"),
    ],
    ids=["size", "slide", "stddev"],
)
def test_what_is_not_translated_is_refused_with_the_reason(window, what, reason):
    with connect() as mill, pytest.raises(UnsupportedQuery) as error:
        mill.sql(
            f"CREATE MATERIALIZED VIEW v STRATEGY temporal_view AS SELECT k, {what} AS t"
            f" FROM s [WINDOW {window}] GROUP BY k"
        )
    assert reason in str(error.value)


def test_a_window_of_a_table_in_parts_slides_by_a_part_unless_it_says_otherwise():
    with connect() as mill:
        mill.sql(
            "CREATE MATERIALIZED VIEW v STRATEGY temporal_view AS SELECT k, sum(x) AS t"
            " FROM s [WINDOW 20 SECONDS] GROUP BY k"
        )
        mill.insert("s", [(at(t), "a", 1, 0.0, 0.0) for t in (1, 11, 21, 31)])
        assert mill["v"].rows() == [("a", 2)]
        mill.sql("CREATE TABLE loose (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts")
        with pytest.raises(UnsupportedQuery, match="how far it slides"):
            mill.sql("CREATE MATERIALIZED VIEW w AS SELECT sum(x) AS t FROM loose [WINDOW 1 HOUR]")


def test_a_budget_is_kept_by_the_strategy_that_can():
    query = "SELECT k, sum(x) AS t FROM s [WINDOW 40 SECONDS SLIDE 10 SECONDS] GROUP BY k"
    with connect() as mill:
        mill.insert("s", [(at(i / 10_000), "a", 1, 0.0, 0.0) for i in range(20_000)])
        mill.sql(f"CREATE MATERIALIZED VIEW v MEMORY '64 MB' AS {query}")
        assert mill["v"].status()["strategy"] == "shared_window"
        with pytest.raises(UnsupportedQuery, match="takes no MEMORY"):
            mill.sql(f"CREATE MATERIALIZED VIEW w STRATEGY temporal_view MEMORY '1 MB' AS {query}")

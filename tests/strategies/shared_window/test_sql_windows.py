"""Windows written in SQL equal the query over the rows of the last window, at every step."""

import datetime as dt
import random
from collections import defaultdict

import pytest

import viewmill as vm
from viewmill.errors import InvalidArgument, MalformedSQL, TypeMismatch, UnsupportedQuery

START = dt.datetime(2024, 1, 1)
COLUMNS = "ts TIMESTAMP, k BIGINT, x BIGINT, d DOUBLE, c DECIMAL(10,2)"


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Every view has programs of its own; compiling them is tested elsewhere."""
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def at(seconds):
    return START + dt.timedelta(seconds=seconds)


def seconds(moment):
    return (moment - dt.datetime(1970, 1, 1)) / dt.timedelta(seconds=1)


def random_rows(chance, now, late):
    rows = []
    for _ in range(chance.randint(1, 12)):
        now += chance.random() * 4
        moment = at(round(now - chance.random() * late, 6))
        k, x = chance.randrange(4), chance.randrange(-50, 50)
        rows.append((moment, k, x, round(chance.random(), 6), round(chance.random() * 100, 2)))
    return rows, now


def connect(options="TIMESTAMP BY ts LATENESS INTERVAL '5' SECONDS"):
    mill = vm.connect()
    mill.sql(f"CREATE TABLE s ({COLUMNS}) {options}")
    return mill


@pytest.mark.parametrize(("size", "slide"), [(60, 7), (20, 20), (10, 1), (5, 9), (21, 6)])
def test_a_window_equals_the_query_over_its_rows(size, slide):
    chance = random.Random(size)
    with connect() as mill:
        mill.sql(
            "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS SELECT k,"
            " count(*) AS n, sum(x) AS t, avg(x) AS a, avg(c) AS m, max(x) AS high, min(d) AS low,"
            f" stddev(d) AS s, var_pop(d) AS v FROM s [WINDOW {size} SECONDS SLIDE {slide} SECONDS]"
            " WHERE d > 0.2 GROUP BY k HAVING count(*) > 1"
        )
        held, now, newest = [], 0.0, None
        for step in range(25):
            rows, now = random_rows(chance, now, 5)
            held += rows
            newest = max([each[0] for each in rows] + ([newest] if newest else []))
            mill.insert("s", rows)
            if step % 3 == 2:
                gone = chance.sample(held, min(3, len(held)))
                for each in gone:
                    held.remove(each)
                mill.delete("s", gone)
            end = (seconds(newest) - 5) // slide * slide
            assert shown(mill) == brute(held, end - size, end)
            assert mill["v"].verify() == []
        assert mill["v"].status()["engine_calls"] == 0


def shown(mill):
    return {row[0]: row[1:3] + row[5:7] for row in mill["v"].rows()}


def brute(rows, first, end):
    groups = defaultdict(list)
    for moment, k, x, d, _ in rows:
        if d > 0.2 and first <= seconds(moment) < end:
            groups[k].append((x, d))
    return {
        k: (len(each), sum(x for x, _ in each), max(x for x, _ in each), min(d for _, d in each))
        for k, each in groups.items()
        if len(each) > 1
    }


@pytest.mark.parametrize(("size", "slide"), [(10, 4), (6, 2), (3, 7), (5, 5), (4, 1)])
def test_a_window_of_rows_counts_arrivals_before_where(size, slide):
    chance = random.Random(size)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (k BIGINT, x BIGINT) APPEND ONLY")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS t, first(x) AS f, last(x) AS l"
            f" FROM s [WINDOW {size} ROWS SLIDE {slide} ROWS] WHERE x > -20 GROUP BY k"
        )
        held = []
        for _ in range(25):
            rows = [(chance.randrange(3), chance.randrange(-50, 50)) for _ in range(5)]
            rows = rows[: chance.randint(1, 5)]
            mill.insert("s", rows)
            held += rows
            end = len(held) // slide * slide
            groups = defaultdict(list)
            for k, x in held[max(0, end - size) : end]:
                if x > -20:
                    groups[k].append(x)
            expected = sorted((k, sum(x), x[0], x[-1]) for k, x in groups.items())
            assert sorted(mill["v"].rows()) == expected


def test_each_slide_deletes_the_answer_before_and_inserts_its_own_in_order():
    with connect("TIMESTAMP BY ts") as mill:
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS t"
            " FROM s [WINDOW 2 SECONDS SLIDE 1 SECONDS] GROUP BY k"
        )
        seen = []
        mill["v"].subscribe(lambda change: seen.append(change.to_arrow().to_pylist()))
        mill.insert("s", [(at(i + 0.5), 1, 10**i, 0.0, 0) for i in range(4)])
        (rows,) = seen
        assert [(row["t"], row["_multiplicity"]) for row in rows] == [
            (1, 1),
            (1, -1),
            (11, 1),
            (11, -1),
            (110, 1),
        ]
        assert mill["v"].rows() == [(1, 110)]


def test_a_tick_closes_windows_and_quiet_groups_answer():
    with connect("TIMESTAMP BY ts") as mill:
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n"
            " FROM s [WINDOW 10 SECONDS SLIDE 5 SECONDS] GROUP BY k"
        )
        mill.sql(
            "CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(x) AS t"
            " FROM s [WINDOW 10 SECONDS SLIDE 5 SECONDS]"
        )
        assert mill["total"].rows() == [(0, None)]
        mill.insert("s", [(at(1), 1, 7, 0.0, 0), (at(3), 2, 8, 0.0, 0)])
        assert mill["v"].rows() == []
        mill.advance("s", to=at(5))
        assert sorted(mill["v"].rows()) == [(1, 1), (2, 1)]
        assert mill["total"].rows() == [(2, 15)]
        # A row for the window that was answered already: the answer is corrected.
        mill.insert("s", [(at(2), 2, 1, 0.0, 0)])
        assert sorted(mill["v"].rows()) == [(1, 1), (2, 2)]
        assert mill["total"].rows() == [(3, 16)]
        mill.advance("s", to=at(15))
        assert mill["v"].rows() == []
        assert mill["total"].rows() == [(0, None)]
        mill.insert("s", [(at(2), 2, 1, 0.0, 0)])  # no window will see it
        assert mill["v"].status()["late_rows"] == 1
        assert mill["v"].verify() == mill["total"].verify() == []


def test_time_does_not_move_back():
    with connect("TIMESTAMP BY ts") as mill:
        mill.advance("s", to=at(10))
        with pytest.raises(InvalidArgument, match="cannot move back"):
            mill.advance("s", to=at(9))
        mill.insert("s", [(at(20), 1, 1, 0.0, 0)])
        with pytest.raises(InvalidArgument, match="cannot move back"):
            mill.advance("s", to=at(15))


def test_an_answer_that_overflows_undoes_the_batch():
    with connect("TIMESTAMP BY ts") as mill:
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS t"
            " FROM s [WINDOW 10 SECONDS SLIDE 1 SECONDS]"
        )
        mill.insert("s", [(at(1), 1, 2**62, 0.0, 0), (at(3), 1, 1, 0.0, 0)])
        before = mill["v"].rows()
        with pytest.raises(vm.ViewmillError, match="does not fit"):
            mill.insert("s", [(at(4), 1, 2**62, 0.0, 0), (at(6), 1, 0, 0.0, 0)])
        assert mill["v"].rows() == before == [(2**62,)]
        mill.insert("s", [(at(4), 1, 5, 0.0, 0), (at(6), 1, 0, 0.0, 0)])
        assert mill["v"].rows() == [(2**62 + 6,)]
        assert mill["v"].verify() == []


def test_ties_and_order_are_those_of_time_then_arrival():
    with connect("APPEND ONLY TIMESTAMP BY ts") as mill:
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k, max_by(x, c) AS best, min_by(x, c) AS worst,"
            " first(x) AS f, last(x) AS l FROM s [WINDOW 10 SECONDS SLIDE 10 SECONDS] GROUP BY k"
        )
        rows = [(at(3), 1, 3, 0.0, 5), (at(1), 1, 1, 0.0, 5), (at(2), 1, 2, 0.0, 4)]
        mill.insert("s", [*rows, (at(12), 1, 9, 0.0, 0)])
        assert mill["v"].rows() == [(1, 1, 2, 1, 3)]


def test_a_window_survives_a_restart(tmp_path):
    sql = (
        "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, max(x) AS m"
        " FROM s [WINDOW 10 SECONDS SLIDE 3 SECONDS] GROUP BY k"
    )
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(f"CREATE TABLE s ({COLUMNS}) TIMESTAMP BY ts")
        mill.sql(sql)
        mill.insert("s", [(at(i), i % 3, i, 0.0, 0) for i in range(40)])
        before = sorted(mill["v"].rows())
    with vm.connect(tmp_path / "m.mill") as mill:
        assert sorted(mill["v"].rows()) == before
        mill.insert("s", [(at(i), i % 3, i, 0.0, 0) for i in range(40, 50)])
        assert mill["v"].verify() == []


def test_a_tick_survives_a_restart_and_not_its_table(tmp_path):
    table = f"CREATE TABLE s ({COLUMNS}) TIMESTAMP BY ts"
    view = (
        "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n"
        " FROM s [WINDOW 10 SECONDS SLIDE 5 SECONDS]"
    )
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(table)
        mill.sql(view)
        mill.insert("s", [(at(i), 1, i, 0.0, 0) for i in range(8)])
        mill.advance("s", to=at(15))
        assert mill["v"].rows() == [(3,)]
        version = mill["v"].status()["version"]
        mill.advance("s", to=at(15))
        assert mill["v"].status()["version"] == version
    with vm.connect(tmp_path / "m.mill") as mill:
        assert mill["v"].rows() == [(3,)]
        with pytest.raises(InvalidArgument, match="cannot move back"):
            mill.advance("s", to=at(14))
        mill.sql("DROP MATERIALIZED VIEW v")
        mill.sql("DROP TABLE s")
        mill.sql(table)
        mill.sql(view)
        mill.insert("s", [(at(i), 1, i, 0.0, 0) for i in range(8)])
        assert mill["v"].rows() == [(5,)]
        assert mill["v"].verify() == []


def test_a_view_made_later_answers_like_one_that_was_there():
    sql = "AS SELECT k, sum(x) AS t FROM s [WINDOW 9 SECONDS SLIDE 4 SECONDS] GROUP BY k"
    with connect() as mill:
        mill.sql(f"CREATE MATERIALIZED VIEW early {sql}")
        mill.insert("s", [(at(i), i % 3, i, 0.0, 0) for i in range(40)])
        mill.sql(f"CREATE MATERIALIZED VIEW late {sql}")
        mill.insert("s", [(at(i), i % 3, i, 0.0, 0) for i in range(40, 60)])
        assert sorted(mill["early"].rows()) == sorted(mill["late"].rows()) != []
        mill.sql("DROP MATERIALIZED VIEW early")
        mill.insert("s", [(at(70), 1, 1, 0.0, 0)])
        assert mill["late"].verify() == []


def test_what_panes_do_not_take_is_a_filter_by_time():
    with connect("TIMESTAMP BY ts") as mill:
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT count(DISTINCT k) AS n"
            " FROM s [WINDOW 10 SECONDS SLIDE 5 SECONDS]"
        )
        mill.sql(
            "CREATE MATERIALIZED VIEW w AS SELECT x FROM s [WINDOW 10 SECONDS SLIDE 5 SECONDS]"
        )
        mill.insert("s", [(at(i), i % 3, i, 0.0, 0) for i in range(17)])
        assert mill["v"].status()["strategy"] == "dataflow"
        assert mill["v"].rows() == [(3,)]
        assert sorted(mill["w"].rows()) == [(i,) for i in range(5, 15)]
        mill.advance("s", to=at(20))
        assert sorted(mill["w"].rows()) == [(i,) for i in range(10, 17)]


WINDOW = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM s"


@pytest.mark.parametrize(
    "suffix",
    [
        "[WINDOW 0 SECONDS SLIDE 1 SECONDS]",
        "[WINDOW 5 SECONDS SLIDE 0 SECONDS]",
        "[WINDOW -5 SECONDS SLIDE 1 SECONDS]",
        "[WINDOW 5 SECONDS SLIDE -1 SECONDS]",
        "[WINDOW 5 SECONDS SLIDE 1 ROWS]",
    ],
)
def test_a_window_or_slide_that_is_not_positive_is_refused(suffix):
    with connect() as mill, pytest.raises((MalformedSQL, UnsupportedQuery)):
        mill.sql(f"{WINDOW} {suffix}")


def test_a_slide_longer_than_the_window_leaves_gaps():
    with connect("TIMESTAMP BY ts") as mill:
        mill.sql(f"{WINDOW} [WINDOW 2 SECONDS SLIDE 5 SECONDS]")
        mill.insert("s", [(at(i), 1, 1, 0.0, 0) for i in range(11)])
        assert mill["v"].rows() == [(2,)]
        assert mill["v"].verify() == []


def test_a_time_column_that_is_no_time_is_refused():
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (day DATE, x BIGINT) TIMESTAMP BY day")
        with pytest.raises(TypeMismatch, match="needs a TIMESTAMP"):
            mill.sql(f"{WINDOW} [WINDOW 5 DAYS SLIDE 1 DAYS]")


def test_a_window_says_what_its_table_must_be():
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (ts TIMESTAMP, x BIGINT)")
        with pytest.raises(UnsupportedQuery, match="names none"):
            mill.sql(f"{WINDOW} [WINDOW 5 SECONDS SLIDE 1 SECONDS]")
        with pytest.raises(UnsupportedQuery, match="APPEND ONLY"):
            mill.sql(f"{WINDOW} [WINDOW 5 ROWS SLIDE 1 ROWS]")
        with pytest.raises(InvalidArgument, match="no time column"):
            mill.advance("s", to=at(1))


@pytest.mark.parametrize(
    "shown", ["10 DIV sum(x) AS q", "sum(x) AS q", "CASE WHEN 10 DIV sum(x) > 0 THEN 5 END AS q"]
)
def test_a_window_whose_answer_cannot_be_shown_refuses_the_batch(shown):
    """Answers that may fail are computed before the commit, also behind HAVING."""
    having = "" if "DIV" in shown else " HAVING 10 DIV sum(x) > 0"
    with connect("TIMESTAMP BY ts") as mill:
        mill.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT {shown} FROM s"
            f" [WINDOW 2 MINUTES SLIDE 30 SECONDS]{having}"
        )
        assert mill["v"].status()["strategy"] == "shared_window"
        mill.insert("s", [(at(0), 1, 5, 0.0, 0), (at(31), 1, 5, 0.0, 0)])
        before = mill["v"].rows()
        assert before == [(2 if shown.startswith("10") else 5,)]
        with pytest.raises(vm.ViewmillError, match="division by zero"):
            mill.insert("s", [(at(40), 1, -10, 0.0, 0), (at(61), 1, 1, 0.0, 0)])
        assert mill["v"].rows() == before
        assert len(mill.sql("SELECT * FROM s").rows()) == 2

"""Ticks: time goes on without rows, for windows, views in parts, retention, deferred views."""

import datetime as dt
from collections import Counter

import pytest

import viewmill as vm
from viewmill.errors import UnsupportedQuery

EPOCH = dt.datetime(2024, 1, 1)


def at(seconds):
    return EPOCH + dt.timedelta(seconds=seconds)


@pytest.fixture
def mill(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as mill:
        yield mill


def stream(mill, options, name="s"):
    mill.sql(f"CREATE TABLE {name} (t TIMESTAMP, k BIGINT, x BIGINT) TIMESTAMP BY t {options}")


def view(mill, name, query, clauses=""):
    mill.sql(f"CREATE MATERIALIZED VIEW {name} {clauses} AS {query}")
    return mill[name]


def test_a_table_in_another_case_fills_its_windows_before_rows_come(mill):
    stream(mill, "", "Bids")
    mill.insert("bids", [(at(i), 1, 1) for i in range(600)])
    v = view(mill, "w", "SELECT sum(x) AS s FROM BIDS [WINDOW 5 MINUTES SLIDE 1 MINUTE]")
    mill.insert("BIDS", [(at(600 + i), 1, 1) for i in range(100)])
    assert v.rows() == [(300,)]


def test_a_view_that_is_replaced_in_another_case_keeps_its_readers(mill, tmp_path):
    stream(mill, "")
    view(mill, "Total", "SELECT sum(x) AS s FROM s")
    reader = view(mill, "reader", "SELECT s + 1 AS q FROM TOTAL")
    mill.sql("CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT 2 * sum(x) AS s FROM S")
    mill.insert("s", [(at(0), 1, 5)])
    assert (reader.rows(), mill["total"].name) == ([(11,)], "Total")


def test_a_replaced_view_is_opened_and_dropped_under_its_first_name(monkeypatch, tmp_path):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect(tmp_path / "m.mill") as mill:
        stream(mill, "")
        view(mill, "Total", "SELECT sum(x) AS s FROM s")
        mill.sql("CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT 2 * sum(x) AS s FROM s")
    with vm.connect(tmp_path / "m.mill") as mill:
        assert mill.views() == ["Total"]
        mill.sql("DROP MATERIALIZED VIEW TOTAL")
    with vm.connect(tmp_path / "m.mill") as mill:
        assert mill.views() == []


def test_a_tick_after_windows_were_planned_again(mill):
    stream(mill, "")
    v = view(mill, "v", "SELECT sum(x) AS a FROM s [WINDOW 7 SECONDS SLIDE 3 SECONDS]")
    heard = []
    v.subscribe(lambda change: heard.extend(change))
    mill.insert("s", [(at(i), 1, i) for i in range(10)])
    view(mill, "w", "SELECT max(x) AS a FROM s [WINDOW 1 SECOND SLIDE 2 SECONDS]")
    mill.advance("s", to=at(300))
    assert v.rows() == [(None,)]
    assert heard[-1] == ((None,), 1)


def test_a_tick_after_a_batch_with_many_new_keys(mill):
    stream(mill, "")
    for name, keys in (("a", "k"), ("b", "x"), ("c", "k, x")):
        query = f"SELECT {keys}, count(*) AS n FROM s [WINDOW 60 SECONDS SLIDE 1 SECOND]"
        view(mill, name, f"{query} GROUP BY {keys}").subscribe(lambda change: None)
    mill.insert("s", [(at(i / 100), i % 5, i % 3) for i in range(300)])
    mill.insert("s", [(at(30 + i / 100), i % 97, i % 89) for i in range(300)])
    mill.advance("s", to=at(500))
    assert [mill[name].rows() for name in "abc"] == [[], [], []]


@pytest.mark.parametrize(
    ("options", "clauses"),
    [
        ("", ""),
        ("PARTITION LENGTH 60", "STRATEGY temporal_view"),
        ("", "STRATEGY recompute"),
        ("", "MEMORY '0 MB'"),
    ],
)
def test_a_tick_waits_for_a_deferred_window(mill, options, clauses):
    stream(mill, options)
    query = "SELECT count(*) AS n FROM s [WINDOW 60 SECONDS SLIDE 60 SECONDS]"
    v = view(mill, "v", query, f"REFRESH ON DEMAND {clauses}")
    plain = view(mill, "plain", "SELECT count(*) AS n FROM s", "REFRESH ON DEMAND")
    mill.insert("s", [(at(i * 10), 1, i) for i in range(8)])
    v.refresh()
    plain.refresh()
    mill.advance("s", to=at(600))
    assert (v.rows(), v.status()["freshness"], v.verify()) == ([(6,)], "stale", [])
    assert plain.status()["freshness"] == "fresh"
    v.refresh()
    assert (v.rows(), v.status()["freshness"], v.verify()) == ([(0,)], "fresh", [])


def test_a_row_that_came_and_went_while_it_waited_has_moved_time(mill):
    stream(mill, "LATENESS INTERVAL '5' SECONDS")
    query = "SELECT count(*) AS n FROM s [WINDOW 10 SECONDS SLIDE 10 SECONDS]"
    v, now = view(mill, "v", query, "REFRESH ON DEMAND"), view(mill, "now", query)
    mill.insert("s", [(at(i), 1, i) for i in range(20)])
    mill.insert("s", [(at(100), 1, 1)])
    mill.delete("s", [(at(100), 1, 1)])
    assert v.verify() == []
    v.refresh()
    assert v.rows() == now.rows() == [(0,)]
    assert v.verify() == now.verify() == []


def parts(mill, name, query, length):
    mill.sql(
        f"CREATE VIEW {name} AS INITIALIZE {name}[i] AS {query} UPDATE {name}[i] AS {query}"
        f" PARTITION LENGTH {length}"
    )
    return mill[name]


def test_a_tick_closes_a_part_of_several(mill):
    stream(mill, "PARTITION LENGTH 60")
    v = parts(mill, "h", "SELECT sum(x) AS s FROM s[i*3..i*3+2]", 180)
    mill.insert("s", [(at(0), 1, 7)])
    assert v.rows() == []
    mill.advance("s", to=at(180))
    assert (v.rows(), v.verify()) == ([(7,)], [])
    mill.advance("s", to=at(900))
    assert (v.rows(), v.verify()) == ([(None,)], [])


def test_an_idle_source_does_not_block_a_join(mill):
    stream(mill, "PARTITION LENGTH 60")
    stream(mill, "PARTITION LENGTH 60", "idle")
    query = "SELECT (SELECT count(*) FROM s[i]) AS n, (SELECT count(*) FROM idle[i]) AS m"
    v = parts(mill, "v", query, 60)
    mill.insert("s", [(at(0), 1, 7), (at(310), 1, 7)])
    assert v.rows() == []
    mill.advance("idle", to=at(320))
    assert (v.rows(), v.verify()) == ([(1, 0)], [])
    mill.insert("idle", [(at(301), 1, 1)])
    assert (v.rows(), v.verify()) == ([(1, 1)], [])


def test_a_tick_applies_retention(mill):
    stream(mill, "PARTITION LENGTH 60 RETENTION INTERVAL '5' MINUTES")
    v = view(mill, "v", "SELECT count(*) AS n FROM s")
    kept = parts(mill, "kept", "SELECT count(*) AS n FROM s[i]", 60)
    mill.insert("s", [(at(0), 1, 7)])
    mill.advance("s", to=at(240))
    assert v.rows() == [(1,)]
    mill.advance("s", to=at(600))
    assert v.rows() == mill.sql("SELECT count(*) FROM s").rows() == kept.rows() == [(0,)]
    assert v.verify() == kept.verify() == []
    mill.insert("s", [(at(0), 1, 7)])
    assert (v.rows(), len(mill.refused("s"))) == ([(0,)], 1)


def test_ticks_and_the_largest_time_survive_a_restart(monkeypatch, tmp_path):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    query = "SELECT count(*) AS n FROM s [WINDOW 60 SECONDS SLIDE 60 SECONDS]"
    with vm.connect(tmp_path / "m.mill") as mill:
        stream(mill, "PARTITION LENGTH 60 RETENTION INTERVAL '5' MINUTES", "kept")
        parts(mill, "h", "SELECT count(*) AS n FROM kept[i]", 60)
        stream(mill, "")
        view(mill, "v", query)
        view(mill, "r", "SELECT count(*) AS n FROM kept")
        mill.insert("kept", [(at(0), 1, 1)])
        mill.advance("kept", to=at(600))
        mill.insert("s", [(at(i), 1, 1) for i in range(100)])
        mill.insert("s", [(at(500), 1, 1)])
        mill.delete("s", [(at(500), 1, 1)])
        mill.checkpoint()
        before = {name: mill[name].rows() for name in "hrv"}
    assert before == {"h": [(0,)], "r": [(0,)], "v": [(0,)]}
    with vm.connect(tmp_path / "m.mill") as mill:
        assert {name: mill[name].rows() for name in "hrv"} == before
        assert [mill[name].verify() for name in "hrv"] == [[], [], []]


def test_retention_takes_rows_from_the_windows_of_an_append_only_table(mill):
    mill.sql(
        "CREATE TABLE s (t TIMESTAMP, x BIGINT) APPEND ONLY TIMESTAMP BY t PARTITION LENGTH 10"
        " RETENTION INTERVAL '60' SECONDS"
    )
    query = (
        "SELECT window.start AS w, min(x) AS a, max(x) AS b FROM s GROUP BY window(t, '1 minute')"
    )
    v = view(mill, "v", query)
    mill.insert("s", [(at(0), 1), (at(5), 9), (at(50), 5)])
    mill.insert("s", [(at(70), 2)])
    assert sorted(row[1:] for row in v.rows()) == [(2, 2), (5, 5)]
    assert v.verify() == []
    with pytest.raises(UnsupportedQuery, match="APPEND ONLY"):
        view(mill, "w", "SELECT count(*) AS n FROM s [WINDOW 3 ROWS SLIDE 1 ROWS]")


def test_parts_around_1970_are_told_to_subscribers(mill):
    stream(mill, "PARTITION LENGTH 60")
    v = parts(mill, "v", "SELECT count(*) AS n FROM s[i]", 60)
    heard = []
    v.subscribe(lambda change: heard.extend(change))
    mill.insert("s", [(dt.datetime(1969, 12, 31, 23, 59, 59), 1, 1)])
    assert v.rows() == [(1,)]
    assert heard == [((1,), 1)]


def test_a_column_that_only_the_first_part_leaves_null(mill):
    stream(mill, "PARTITION LENGTH 60")
    mill.sql(
        "CREATE VIEW v AS INITIALIZE v[i] AS SELECT sum(x) AS s FROM s[i]"
        " UPDATE v[j] AS SELECT coalesce(sum(x), 0) AS s FROM s[j] PARTITION LENGTH 60"
    )
    above = view(mill, "above", "SELECT s IS NULL AS missing FROM v")
    mill.insert("s", [(at(0), 1, None)])
    assert (mill["v"].rows(), above.rows()) == ([(None,)], [(True,)])


def test_a_late_row_corrects_the_answer_that_was_told(mill):
    stream(mill, "PARTITION LENGTH 60")
    query = "SELECT count(*) AS n, sum(x) AS s FROM s [WINDOW 4 MINUTES SLIDE 1 MINUTE]"
    v = view(mill, "v", query, "STRATEGY temporal_view")
    mill.insert("s", [(at(0), 1, 1), (at(70), 1, 1)])
    told = Counter(v.rows())
    v.subscribe(lambda change: [told.update({row: times}) for row, times in change])
    mill.insert("s", [(at(5), 1, None), (at(130), 1, 1)])
    assert (+told, v.rows()) == ({(3, 2): 1}, [(3, 2)])


def test_a_view_of_helper_parts_that_was_built_anew_is_closed_and_opened(monkeypatch, tmp_path):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    query = "SELECT x, count(*) AS n FROM s [WINDOW 20 SECONDS SLIDE 20 SECONDS] GROUP BY x"
    with vm.connect(tmp_path / "m.mill") as mill:
        stream(mill, "PARTITION LENGTH 10")
        view(mill, "v", query, "STRATEGY temporal_view")
        mill.insert("s", [(at(5), 1, 1), (at(45), 1, 2), (at(95), 1, 2)])
        mill.delete("s", [(at(45), 1, 2)])
        mill.sql("REFRESH MATERIALIZED VIEW v FULL")
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.insert("s", [(at(100), 1, 3)])
        assert (mill["v"].rows(), mill["v"].verify()) == ([(2, 1)], [])


def test_equal_rows_keep_their_order_while_they_wait(mill):
    mill.sql(
        "CREATE TABLE s (t TIMESTAMP, x BIGINT) APPEND ONLY TIMESTAMP BY t PARTITION LENGTH 60"
        " RETENTION INTERVAL '2' MINUTES"
    )
    query = "SELECT first(x) AS a, last(x) AS b FROM s [WINDOW 10 SECONDS SLIDE 10 SECONDS]"
    v = view(mill, "v", query, "REFRESH ON DEMAND")
    mill.insert("s", [(at(0), 1)])
    mill.insert("s", [(at(204), 7), (at(204), 8), (at(204), 7), (at(210), 1)])
    v.refresh()
    assert (v.rows(), v.verify()) == ([(7, 7)], [])


def test_helper_parts_do_not_count_a_row_that_went_before_it_came(mill):
    stream(mill, "UNCHECKED PARTITION LENGTH 60")
    query = "SELECT min(x) AS a, max(x) AS b, count(*) AS n FROM s [WINDOW 1 MINUTE SLIDE 1 MINUTE]"
    v = view(mill, "v", query, "STRATEGY temporal_view")
    mill.delete("s", [(at(0), 1, -5)])
    mill.insert("s", [(at(1), 1, 3)])
    mill.insert("s", [(at(0), 1, -5)])
    mill.advance("s", to=at(60))
    assert (v.rows(), v.verify()) == ([(3, 3, 1)], [])

"""Each sentence of docs/meaning.md is the name of a test here."""

import datetime as dt
import re
import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

import viewmill as vm

PAGE = Path(__file__).resolve().parents[2] / "docs" / "meaning.md"
NAN, INFINITY = float("nan"), float("inf")


def at(seconds):
    return dt.datetime(2024, 1, 1) + dt.timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
def plain(uncompiled):
    """Uncompiled: what a view means does not depend on it."""


def test_every_sentence_has_a_test_and_every_test_a_sentence():
    sentences = re.findall(r"^- (.+)\.$", PAGE.read_text(encoding="utf-8"), re.M)
    named = {f"test_{re.sub(r'[^a-z0-9]+', '_', each.lower()).strip('_')}" for each in sentences}
    written = {name for name in globals() if name.startswith("test_")}
    written -= {"test_every_sentence_has_a_test_and_every_test_a_sentence"}
    assert named == written


# Rows.


def test_a_view_shows_a_row_as_often_as_its_query_gives_it(mill):
    mill.sql("CREATE TABLE t (k INT, x INT); CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    mill.insert("t", [(1, 1), (1, 2), (2, 3)])
    assert sorted(mill["v"].rows()) == [(1,), (1,), (2,)]


def test_deleting_a_row_that_is_not_there_is_refused(mill):
    mill.sql("CREATE TABLE t (k INT)")
    mill.insert("t", [(1,)])
    with pytest.raises(vm.errors.MissingRow, match="2"):
        mill.delete("t", [(1,), (2,)])


def test_a_refused_batch_changes_nothing(mill):
    mill.sql("CREATE TABLE t (k BIGINT); CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
    mill.sql("CREATE MATERIALIZED VIEW s AS SELECT sum(k) AS s FROM t")
    mill.insert("t", [(2**62,)])
    with pytest.raises(vm.errors.Overflow):
        mill.insert("t", [(5,), (2**62,)])
    assert (mill["n"].rows(), mill["s"].rows()) == ([(1,)], [(2**62,)])
    assert mill.sql("SELECT k FROM t").rows() == [(2**62,)]


def test_deletes_and_keys_are_judged_on_the_net_effect_of_a_batch(mill):
    mill.sql("CREATE TABLE t (id INT, x INT, PRIMARY KEY (id))")
    mill.insert("t", [(1, 1)])
    with mill.batch():
        mill.insert("t", [(1, 2)])
        mill.delete("t", [(1, 1)])
    assert mill.sql("SELECT * FROM t").rows() == [(1, 2)]


def test_reads_inside_a_batch_see_the_last_version(mill):
    mill.sql("CREATE TABLE t (k INT); CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
    with mill.batch():
        mill.insert("t", [(1,)])
        assert mill["v"].rows() == [(0,)]
    assert mill["v"].rows() == [(1,)]


def test_on_an_unchecked_table_a_delete_may_come_before_its_insert(mill):
    mill.sql("CREATE TABLE t (k INT) UNCHECKED")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM t GROUP BY k")
    mill.delete("t", [(1,)])
    mill.insert("t", [(1,), (1,)])
    assert mill["v"].rows() == [(1, 1)]


def test_a_row_deleted_too_often_is_never_shown(mill):
    mill.sql("CREATE TABLE t (k INT) UNCHECKED")
    mill.sql("CREATE MATERIALIZED VIEW listed AS SELECT k FROM t")
    mill.sql("CREATE MATERIALIZED VIEW grouped AS SELECT k, count(*) AS n FROM t GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM t")
    mill.delete("t", [(1,)])
    assert mill["listed"].rows() == mill["grouped"].rows() == []
    assert mill["counted"].rows() == [(0,)]


def test_a_row_deleted_before_it_comes_raises_the_errors_of_its_insert(mill):
    mill.sql("CREATE TABLE t (k INT, x INT) UNCHECKED")
    mill.sql("CREATE TABLE u (k INT, y INT) UNCHECKED")
    mill.delete("t", [(1, 0)])
    for query in ("SELECT 1 / x AS q FROM t", "SELECT SUM(1 / x) AS q FROM t"):
        with pytest.raises(vm.ViewmillError, match="division by zero"):
            mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    joined = "SELECT DISTINCT t.k, u.y / t.x AS q FROM t JOIN u ON t.k = u.k"
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {joined}")
    with pytest.raises(vm.ViewmillError, match="division by zero"):
        mill.delete("u", [(1, 5)])
    mill.insert("t", [(1, 0)])
    mill.delete("u", [(1, 5)])  # by now it joins nothing
    assert mill["v"].rows() == []


def test_names_match_in_any_case(mill):
    mill.sql("CREATE TABLE Orders (Id INT); CREATE MATERIALIZED VIEW Totals AS"
             " SELECT COUNT(*) AS n FROM ORDERS WHERE iD > 0")  # fmt: skip
    mill.insert("orders", [{"ID": 1}])
    assert mill["TOTALS"].rows() == [(1,)]
    assert mill.tables() == ["Orders"]


def test_the_changes_of_a_subscription_add_up_to_the_view(mill):
    mill.sql("CREATE TABLE t (k INT, x INT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS s FROM t GROUP BY k")
    total: Counter[tuple[object, ...]] = Counter()

    def add(change):
        for row, times in change:
            total[row] += times

    mill["v"].subscribe(add)
    mill.insert("t", [(1, 1), (2, 2)])
    mill.insert("t", [(1, 5)])
    mill.delete("t", [(2, 2)])
    assert {row: n for row, n in total.items() if n} == {(1, 6): 1}


# NULL, order and ties.


def test_null_is_a_group(mill):
    mill.sql("CREATE TABLE t (k INT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM t GROUP BY k")
    mill.insert("t", [(None,), (None,), (1,)])
    assert Counter(mill["v"].rows()) == Counter([(None, 2), (1, 1)])


def test_a_null_key_joins_nothing(mill):
    mill.sql("CREATE TABLE t (k INT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a.k FROM t a JOIN t b ON a.k = b.k")
    mill.insert("t", [(None,), (1,)])
    assert mill["v"].rows() == [(1,)]


def test_a_sum_of_no_rows_is_null_and_a_count_of_no_rows_is_zero(mill):
    mill.sql("CREATE TABLE t (k INT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(k) AS s, count(*) AS n FROM t")
    assert mill["v"].rows() == [(None, 0)]


def test_rollup_and_cube_over_no_rows_show_no_total(mill):
    mill.sql("CREATE TABLE t (k INT)")
    for name, sets in (("r", "ROLLUP (k)"), ("c", "CUBE (k)"), ("g", "GROUPING SETS (())")):
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT count(*) AS n FROM t GROUP BY {sets}")
    shown = [mill[name].rows() for name in "rcg"]
    mill.insert("t", [(1,)])
    assert mill["r"].rows() == mill["c"].rows() == [(1,), (1,)]
    mill.delete("t", [(1,)])
    assert shown == [mill[name].rows() for name in "rcg"] == [[], [], [(0,)]]
    assert not any(mill[name].verify() for name in "rcg")


def test_null_sorts_first_going_up_and_last_going_down(mill):
    mill.sql("CREATE TABLE t (k INT)")
    mill.sql("CREATE MATERIALIZED VIEW up AS SELECT k FROM t ORDER BY k LIMIT 2")
    mill.sql("CREATE MATERIALIZED VIEW down AS SELECT k FROM t ORDER BY k DESC LIMIT 2")
    mill.insert("t", [(2,), (None,), (1,)])
    assert (mill["up"].rows(), mill["down"].rows()) == ([(None,), (1,)], [(2,), (1,)])


def test_ties_at_a_limit_are_broken_by_the_other_columns(mill):
    mill.sql("CREATE TABLE t (k INT, x INT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, x FROM t ORDER BY k LIMIT 1")
    mill.insert("t", [(1, 9), (1, 3), (1, 5)])
    assert mill["v"].rows() == [(1, 3)]
    assert mill["v"].verify() == []


def test_strings_compare_as_utf_8_bytes(mill):
    mill.sql("CREATE TABLE t (s STRING)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT min(s) AS l, max(s) AS h FROM t")
    mill.insert("t", [("b",), ("Z",), ("é",), ("a",)])
    assert mill["v"].rows() == [("Z", "é")]


# Numbers.


def test_an_integer_that_overflows_is_an_error(mill):
    mill.sql("CREATE TABLE t (x INT); CREATE MATERIALIZED VIEW v AS SELECT x + 1 AS y FROM t")
    with pytest.raises(vm.errors.Overflow):
        mill.insert("t", [(2**31 - 1,)])


def test_overflow_is_judged_on_the_value_after_the_batch(mill):
    mill.sql("CREATE TABLE t (x BIGINT); CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
    mill.insert("t", [(2**62,), (2**62,), (-(2**62),)])
    assert mill["v"].rows() == [(2**62,)]


def test_a_float_sum_is_the_sum_of_the_rows_that_remain(mill):
    mill.sql("CREATE TABLE t (x DOUBLE); CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
    mill.insert("t", [(0.1,), (1e15,), (1e300,)])
    mill.delete("t", [(1e15,), (1e300,)])
    assert mill["v"].rows() == [(0.1,)]


def test_infinity_and_nan_leave_no_trace(mill):
    mill.sql("CREATE TABLE t (x DOUBLE); CREATE MATERIALIZED VIEW v AS SELECT avg(x) AS a FROM t")
    odd = [(INFINITY,), (-INFINITY,), (NAN,), (1.7e308,), (1.7e308,)]
    mill.insert("t", [(1.5,), *odd])
    mill.delete("t", odd)
    assert mill["v"].rows() == [(1.5,)]


def test_a_float_sum_is_infinite_only_while_the_total_is(mill):
    mill.sql("CREATE TABLE t (g INT, x DOUBLE)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT g, sum(x) AS s FROM t GROUP BY g")
    mill.insert("t", [(1, 1.7e308), (1, 1.7e308), (1, 0.5)])
    assert mill["v"].rows() == [(1, INFINITY)]
    mill.insert("t", [(1, -1.7e308), (1, -1.7e308)])
    assert mill["v"].rows() == [(1, 0.5)]


def test_a_regression_is_that_of_the_rows_that_remain(mill):
    mill.sql("CREATE TABLE t (x DOUBLE, y DOUBLE)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT linear_regression(y, x) AS l FROM t")
    mill.insert("t", [(i / 10, i / 5 + 1) for i in range(9)])
    mill.insert("t", [(1e100, 3.0)])
    mill.delete("t", [(1e100, 3.0)])
    ((found,),) = mill["v"].rows()
    assert found["coefficients"] == [pytest.approx(2.0, rel=1e-12)]


def test_nan_equals_nan_and_is_larger_than_every_number(mill):
    mill.sql("CREATE TABLE t (x DOUBLE)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT max(x) AS h, min(x) AS l FROM t")
    mill.sql("CREATE MATERIALIZED VIEW g AS SELECT count(*) AS n FROM t GROUP BY x")
    mill.insert("t", [(NAN,), (NAN,), (INFINITY,)])
    (high, low), *_ = mill["v"].rows()
    assert high != high
    assert low == INFINITY
    assert sorted(mill["g"].rows()) == [(1,), (2,)]


def test_minus_zero_equals_zero(mill):
    mill.sql("CREATE TABLE t (x DOUBLE)")
    mill.sql("CREATE MATERIALIZED VIEW g AS SELECT x, count(*) AS n FROM t GROUP BY x")
    mill.insert("t", [(0.0,), (-0.0,)])
    assert mill["g"].rows() == [(0.0, 2)]


def test_a_table_shows_the_zero_that_was_inserted_and_a_delete_of_one_finds_the_other(mill):
    mill.sql("CREATE TABLE t (x DOUBLE, y DOUBLE)")
    mill.insert("t", [(-0.0, 1.0), (-0.0, 2.0)])
    mill.delete("t", [(0.0, 1.0)])
    assert repr(mill.sql("SELECT * FROM t").rows()) == "[(-0.0, 2.0)]"


def test_a_decimal_is_exact_to_38_digits(mill):
    large = Decimal("12345678901234567890123456789012345.67")
    mill.sql("CREATE TABLE t (k INT, x DECIMAL(37,2))")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s, max(x) AS h FROM t")
    mill.insert("t", [(1, large), (2, Decimal("0.01"))])
    assert mill["v"].rows() == [(Decimal("12345678901234567890123456789012345.68"), large)]


def test_division_by_zero_is_an_error(mill):
    mill.sql("CREATE TABLE t (x INT); CREATE MATERIALIZED VIEW v AS SELECT 1 / x AS y FROM t")
    with pytest.raises(vm.errors.EvaluationFailed):
        mill.insert("t", [(0,)])


def test_a_guard_stops_the_error_behind_it(mill):
    mill.sql("CREATE TABLE t (x INT); CREATE MATERIALIZED VIEW v AS"
             " SELECT SUM(CASE WHEN x <> 0 THEN 6 / x END) AS y FROM t")  # fmt: skip
    mill.insert("t", [(0,), (2,)])
    assert mill["v"].rows() == [(3.0,)]


def test_a_row_that_joins_nothing_raises_no_error(mill):
    mill.sql("CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, y INT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(a.x / b.y) AS q FROM a JOIN b ON a.k = b.k")
    mill.insert("b", [(9, 0)])
    assert mill["v"].rows() == [(None,)]


def test_a_product_within_a_sum_over_a_join_may_exceed_its_type(mill):
    mill.sql("CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, y INT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(a.x * b.y) AS q FROM a JOIN b ON a.k = b.k")
    mill.insert("a", [(1, 2**31 - 1)])
    mill.insert("b", [(1, 2)])
    assert mill["v"].rows() == [(2**32 - 2,)]


def test_the_variance_of_one_remaining_row_is_zero_or_null(mill):
    mill.sql("CREATE TABLE t (x DOUBLE); CREATE MATERIALIZED VIEW v AS"
             " SELECT var_pop(x) AS p, stddev_pop(x) AS d, var_samp(x) AS s FROM t")  # fmt: skip
    mill.insert("t", [(0.1,), (0.7,), (123.4,)])
    mill.delete("t", [(0.7,), (123.4,)])
    assert mill["v"].rows() == [(0.0, 0.0, None)]


# Time.


def stream(mill, options=""):
    mill.sql(f"CREATE TABLE s (t TIMESTAMP, x INT) TIMESTAMP BY t {options}")


WINDOW = "SELECT count(*) AS n, sum(x) AS s FROM s [WINDOW 10 SECONDS SLIDE 5 SECONDS]"


def test_a_window_includes_its_start_and_not_its_end(mill):
    stream(mill)
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {WINDOW}")
    mill.insert("s", [(at(0), 1), (at(9.999999), 2), (at(10), 4)])
    assert mill["v"].rows() == [(2, 3)]


def test_a_sliding_window_ends_at_the_last_slide_that_time_has_reached(mill):
    stream(mill)
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {WINDOW}")
    mill.insert("s", [(at(1), 1), (at(6), 2), (at(14), 4)])
    assert mill["v"].rows() == [(2, 3)]  # [0, 10)


def test_lateness_holds_time_back(mill):
    stream(mill, "LATENESS INTERVAL '5' SECONDS")
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {WINDOW}")
    mill.insert("s", [(at(1), 1), (at(6), 2), (at(14), 4)])
    assert mill["v"].rows() == [(1, 1)]  # [-5, 5)


def test_a_tick_moves_windows_without_rows(mill):
    stream(mill)
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {WINDOW}")
    mill.insert("s", [(at(1), 1)])
    mill.advance("s", to=at(5))
    assert mill["v"].rows() == [(1, 1)]
    mill.advance("s", to=at(100))
    assert mill["v"].rows() == [(0, None)]


def test_rows_come_and_go_by_now_without_any_change_of_a_table():
    mill = vm.connect(clock="2024-01-01 12:00:00")
    mill.sql("CREATE TABLE r (id INT, ts TIMESTAMP)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM r WHERE ts > now() - INTERVAL 1 HOUR")
    mill.insert("r", [(1, dt.datetime(2024, 1, 1, 11, 30))])
    assert mill["v"].rows() == [(1,)]
    mill.advance(to="2024-01-01 12:30:00")
    assert mill["v"].rows() == []


def test_time_cannot_move_back(mill):
    stream(mill)
    mill.advance("s", to=at(100))
    with pytest.raises(vm.errors.InvalidArgument):
        mill.advance("s", to=at(50))


def test_a_late_row_corrects_the_windows_it_is_in(mill):
    stream(mill, "LATENESS INTERVAL '20' SECONDS")
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {WINDOW}")
    mill.insert("s", [(at(1), 1), (at(30), 4)])
    mill.insert("s", [(at(2), 2)])
    assert mill["v"].rows() == [(2, 3)]


def test_grouping_by_window_shows_open_windows_too(mill):
    stream(mill)
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT window.start AS w, count(*) AS n FROM s"
             " GROUP BY window(t, '10 seconds')")  # fmt: skip
    mill.insert("s", [(at(3), 1)])
    assert mill["v"].rows() == [(at(0), 1)]


def test_a_row_may_be_in_several_windows_of_any_ratio(mill):
    stream(mill)
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT window.start AS w, count(*) AS n FROM s"
             " GROUP BY window(t, '7 seconds', '3 seconds')")  # fmt: skip
    mill.insert("s", [(at(7.2), 1)])
    assert sorted(mill["v"].rows()) == [(at(3), 1), (at(6), 1)]


def test_a_reported_match_stays_when_its_rows_expire(mill):
    stream(mill, "PARTITION LENGTH 60 RETENTION INTERVAL '5' MINUTES")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES"
             " a.x AS f, b.x AS l PATTERN (a b) DEFINE b AS x > PREV(x))")  # fmt: skip
    seen = set()
    for i in range(9):
        mill.insert("s", [(at(i * 60), i)])
        seen |= set(mill["v"].rows())
    assert seen == {(0, 1), (2, 3), (4, 5), (6, 7)}


# Policies.


def counted(mill, policy):
    mill.sql("CREATE TABLE t (k INT)")
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH {policy} AS SELECT count(*) AS n FROM t")
    return mill["v"]


def test_a_view_on_demand_changes_when_it_is_refreshed(mill):
    view = counted(mill, "ON DEMAND")
    mill.insert("t", [(1,)])
    assert (view.rows(), view.status()["freshness"]) == ([(0,)], "stale")
    view.refresh()
    assert (view.rows(), view.status()["freshness"]) == ([(1,)], "fresh")


def test_a_view_refreshed_every_three_rows_takes_the_third_row(mill):
    view = counted(mill, "EVERY 3 ROWS")
    mill.insert("t", [(1,)])
    mill.insert("t", [(1,)])
    assert view.rows() == [(0,)]
    mill.insert("t", [(1,)])
    assert view.rows() == [(3,)]


def test_a_view_that_becomes_immediate_takes_the_rows_that_wait(mill):
    view = counted(mill, "ON DEMAND")
    mill.insert("t", [(1,)])
    view.set_policies("IMMEDIATE")
    assert view.rows() == [(1,)]
    mill.delete("t", [(1,)])
    assert view.rows() == [(0,)]


def test_rows_that_wait_go_on_waiting_under_another_deferred_policy(mill):
    stream(mill, "PARTITION LENGTH 10")
    kinds = {
        "kept": "AS SELECT count(*) AS n FROM s",
        "recomputed": "STRATEGY recompute AS SELECT count(*) AS n FROM s",
        "windowed": "AS SELECT count(*) AS n FROM s [WINDOW 10 SECONDS SLIDE 5 SECONDS]",
        "matched": "AS SELECT * FROM s MATCH_RECOGNIZE"
        " (ORDER BY t MEASURES COUNT(*) AS n PATTERN (a))",
        "parted": "AS INITIALIZE parted[i] AS SELECT count(*) AS n FROM s[i]"
        " UPDATE parted[i] AS SELECT count(*) AS n FROM s[i] PARTITION LENGTH 10",
    }
    for name, text in kinds.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} REFRESH ON DEMAND {text}")
        mill[name].refresh()
    before = {name: mill[name].rows() for name in kinds}
    mill.insert("s", [(at(second), 1) for second in (1, 2, 6, 12)])
    for name in kinds:
        mill[name].set_policies("EVERY 9 ROWS")
        assert (mill[name].rows(), mill[name].status()["freshness"]) == (before[name], "stale")
        mill[name].refresh()
        assert mill[name].rows() != before[name]
        assert mill[name].verify() == []


def test_a_deferred_window_is_stale_after_a_tick_until_it_is_refreshed(mill):
    stream(mill)
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS {WINDOW}")
    mill.insert("s", [(at(1), 1), (at(6), 2)])
    mill["v"].refresh()
    mill.advance("s", to=at(100))
    assert mill["v"].status()["freshness"] == "stale"
    mill["v"].refresh()
    assert (mill["v"].rows(), mill["v"].status()["freshness"]) == ([(0, None)], "fresh")


def test_a_deferred_view_in_parts_takes_what_retention_ended_meanwhile(mill):
    stream(mill, "PARTITION LENGTH 10 RETENTION INTERVAL '30' SECONDS")
    mill.sql("CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS INITIALIZE v[i] AS SELECT sum(x) AS n"
             " FROM s[i] UPDATE v[j] AS SELECT max(p.n) + max(c.n) AS n FROM v[j-1] p,"
             " (SELECT coalesce(sum(x), 0) AS n FROM s[j]) c PARTITION LENGTH 10")  # fmt: skip
    for i in range(12):
        mill.insert("s", [(at(10 * i), 1)])
    mill["v"].refresh()
    assert mill["v"].rows() == [(12,)]


@pytest.mark.parametrize("policy", ["IMMEDIATE", "ON DEMAND"])
def test_a_join_in_parts_waits_for_its_slower_side_beyond_retention(mill, policy):
    for name in ("l", "r"):
        mill.sql(f"CREATE TABLE {name} (t TIMESTAMP, x INT) TIMESTAMP BY t PARTITION LENGTH 10"
                 " RETENTION INTERVAL '30' SECONDS")  # fmt: skip
    joined = "SELECT {} + sum(l.x * r.x) AS s FROM l[{}] l, r[{}] r"
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH {policy} AS INITIALIZE v[i] AS "
             f"{joined.format('0', 'i', 'i')} UPDATE v[j] AS {joined.format('max(p.s)', 'j', 'j')},"
             " v[j-1] p PARTITION LENGTH 10")  # fmt: skip
    for i in range(12):
        mill.insert("l", [(at(10 * i), 1)])
    assert len(mill.sql("SELECT * FROM l").rows()) == 3
    for i in range(6):
        mill.insert("r", [(at(10 * i), 1)])
        mill.insert("r", [(at(10 * i + 1), 1)])  # the part is there already, and still changes
    mill["v"].refresh()
    assert mill["v"].rows() == [(12,)]
    assert len(mill.sql("SELECT * FROM l").rows()) == 3


def test_verify_compares_at_the_version_that_the_view_has(mill):
    view = counted(mill, "ON DEMAND")
    mill.insert("t", [(1,)])
    assert view.verify() == []
    assert view.rows() == [(0,)]


def test_an_acknowledged_change_survives_a_kill(tmp_path):
    """What is on disk when `insert` has returned is what a kill leaves."""
    mill = vm.connect(tmp_path / "a.mill")
    view = counted(mill, "IMMEDIATE")
    mill.insert("t", [(1,), (2,)])
    assert view.rows() == [(2,)]
    shutil.copytree(tmp_path / "a.mill", tmp_path / "b.mill")
    mill.close()
    with vm.connect(tmp_path / "b.mill") as again:
        assert again["v"].rows() == [(2,)]
        assert sorted(again.sql("SELECT k FROM t").rows()) == [(1,), (2,)]


def test_a_deferred_view_that_cannot_be_refreshed_comes_back_stale(tmp_path):
    with vm.connect(tmp_path / "a.mill") as mill:
        mill.sql("CREATE TABLE t (x INT)")
        mill.sql("CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS SELECT 6 div x AS q FROM t")
        mill.insert("t", [(2,)])
        mill["v"].refresh()
        mill.insert("t", [(0,)])
    with vm.connect(tmp_path / "a.mill") as mill:
        assert (mill["v"].rows(), mill["v"].status()["freshness"]) == ([(3,)], "stale")
        mill.delete("t", [(0,)])
        mill["v"].refresh()
        assert (mill["v"].rows(), mill["v"].status()["freshness"]) == ([(3,)], "fresh")

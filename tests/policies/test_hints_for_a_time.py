"""mill.expect(..., lasting=...), and what a view's status says of forecasts."""

import pytest

import viewmill as vm


def test_a_hint_lasts_for_a_time_and_its_accuracy_is_shown(uncompiled):
    mill = vm.connect()
    mill.sql("CREATE TABLE t (a INT)")
    mill.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
    mill.insert("t", [(1,)])
    assert mill["n"].status()["forecast_accuracy"] == {"t": None}
    mill.expect("t", rows=2, lasting="1 hour")
    for _ in range(3):
        mill.insert("t", [(1,), (2,)])
    assert mill.status()["tables"]["t"]["expected"]["basis"] == "hint"
    assert mill["n"].status()["forecast_accuracy"] == {"t": 1.0}
    mill.insert("t", [(1,)])
    assert mill["n"].status()["forecast_accuracy"]["t"] == pytest.approx(1 - 0.5 / 4)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"rows": 2, "lasting": "1 hour", "deltas": 3}, "not both"),
        ({"rows": 2, "every": "1 hour", "lasting": "1 hour"}, "are models"),
        ({"rows": 2, "lasting": "soon"}, "soon"),
    ],
)
def test_a_hint_that_says_too_much_is_refused(uncompiled, said, why):
    mill = vm.connect()
    mill.sql("CREATE TABLE t (a INT)")
    with pytest.raises(vm.ViewmillError, match=why):
        mill.expect("t", **said)
    assert mill.status()["tables"]["t"]["expected"]["basis"] == "nothing known"

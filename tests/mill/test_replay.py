"""`mill.replay`: one row at a time, the view after each."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest

import viewmill as vm
from viewmill.mill import adaptive_recompute

TABLE = "broker INT, volume BIGINT, price DECIMAL(6,1)"
VWAP = (
    "SELECT sum(b.price * b.volume) AS money FROM bids b WHERE 0.75 * (SELECT sum(x.volume) FROM "
    "bids x) < (SELECT sum(x.volume) FROM bids x WHERE x.price <= b.price)"
)
QUERIES = {  # "GROUP BY" says that a view shows changes
    "in the kernel": VWAP,
    "grouped": VWAP.replace("SELECT", "SELECT b.broker,", 1) + " GROUP BY b.broker",
    "by key": VWAP.replace("bids x)", "bids x WHERE x.broker = b.broker)").replace(
        "<= b.price", "<= b.price AND x.broker = b.broker"
    )
    + " GROUP BY b.broker",
    "in batches": "SELECT sum(volume) AS volume FROM bids",
    "grouped in batches": "SELECT broker, sum(volume) AS volume FROM bids GROUP BY broker",
}
ROWS = [(n % 2, n % 5, Decimal(n % 7), 1) for n in range(12)] + [(0, 0, Decimal(0), -1)]


def as_dicts(rows):
    return [dict(zip(("broker", "volume", "price", "m"), row, strict=True)) for row in rows]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES.keys())
def test_replay_shows_what_row_by_row_inserts_show(sql):
    with vm.connect() as one, vm.connect() as other:
        for mill in (one, other):
            mill.sql(f"CREATE TABLE bids ({TABLE})")
            mill.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
        shown = one.replay("bids", as_dicts(ROWS), view="v", multiplicity="m").to_pylist()
        held: list[dict[str, object]] = []
        for step, row in enumerate(as_dicts(ROWS)):
            other.apply("bids", [row], multiplicity="m")
            expected = other["v"].to_arrow().to_pylist()
            if "GROUP BY" not in sql:
                assert [shown[step]] == expected
                continue
            for change in [each for each in shown if each["_step"] == step]:
                row_ = {k: v for k, v in change.items() if not k.startswith("_")}
                if change["_multiplicity"] > 0:
                    held.append(row_)
                else:
                    held.remove(row_)
            assert sorted(held, key=str) == sorted(expected, key=str)
        assert one["v"].verify() == []
        assert one["v"].rows() == other["v"].rows()


@pytest.mark.usefixtures("uncompiled")
def test_a_replay_that_fails_changes_nothing(mill):
    mill.sql(f"CREATE TABLE bids ({TABLE})")
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERIES['grouped']}")
    mill.replay("bids", as_dicts(ROWS[:5]), view="v", multiplicity="m")
    before = mill["v"].rows()
    largest = (1, 2**63 - 1, Decimal(9), 1)
    bad = [*ROWS[5:8], largest, largest]  # their sum is no BIGINT
    with pytest.raises(vm.Overflow):
        mill.replay("bids", as_dicts(bad), view="v", multiplicity="m")
    assert mill["v"].rows() == before
    mill.replay("bids", as_dicts(ROWS[5:8]), view="v", multiplicity="m")
    assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
def test_replay_wants_a_view_that_reads_the_table(mill):
    mill.sql(f"CREATE TABLE bids ({TABLE}); CREATE TABLE asks ({TABLE})")
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {VWAP}")
    with pytest.raises(vm.ViewmillError, match="does not read"):
        mill.replay("asks", [(1, 1, 1)], view="v")


@pytest.mark.usefixtures("uncompiled")
def test_a_long_replay_is_not_computed_again(mill, monkeypatch):
    """A change of so many rows may be, elsewhere; here every step is asked for."""
    mill.sql(f"CREATE TABLE bids ({TABLE})")
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERIES['by key']}")
    mill.insert("bids", [(1, 1, Decimal(1))] * 100)
    monkeypatch.setattr(
        adaptive_recompute.RecomputeEstimate, "is_cheaper_for", lambda self, rows: True
    )
    row = {"broker": 1, "volume": 1, "price": Decimal(1)}
    rows = [{**row, "m": 1 - 2 * (n % 2)} for n in range(10_001)]
    shown = mill.replay("bids", rows, view="v", multiplicity="m")
    assert shown.num_rows == 2 * len(rows)
    assert mill["v"].rows() == [(Decimal(101),)]


@pytest.mark.usefixtures("uncompiled")
def test_rows_are_replayed_whose_strings_are_looked_up():
    """Nobody had computed the function of strings that came with a replay."""
    with vm.connect() as mill:
        mill.sql("CREATE TABLE bids (name STRING, volume BIGINT, price BIGINT)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT sum(b.volume) AS volume FROM bids b WHERE b.name "
            "LIKE 'a%' AND 0.5 * (SELECT sum(x.volume) FROM bids x) < (SELECT sum(x.volume) FROM "
            "bids x WHERE x.price <= b.price)"
        )
        assert mill["v"].status()["strategy"] == "aggregate_index"
        shown = mill.replay("bids", [("ab", 1, 2), ("b", 5, 3), ("ac", 7, 4)], view="v")
        assert shown.to_pylist() == [{"volume": 1}, {"volume": None}, {"volume": 7}]
        assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("kind", ["one thread", "two threads"])
def test_listeners_hear_at_once_of_what_came_before_a_row_that_fails(mill, kind):
    is_over = threading.Event()
    if kind == "two threads":  # then a twin of this thread makes the calls
        threading.Thread(target=is_over.wait).start()
    try:
        _fail_midway(mill)
    finally:
        is_over.set()


def _fail_midway(mill):
    mill.sql("CREATE TABLE t (a INT)")
    mill.sql("CREATE MATERIALIZED VIEW v REFRESH POLICY FULL AS SELECT 6 div a AS q FROM t")
    heard = []
    mill["v"].subscribe(lambda delta: heard.extend(delta))
    with pytest.raises(vm.ViewmillError, match="division by zero"):
        mill.replay("t", [(1,), (2,), (0,), (3,)], view="v")
    assert heard == [((6,), 1), ((3,), 1)]
    assert sorted(mill["v"].rows()) == [(3,), (6,)]

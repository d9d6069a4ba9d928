"""Views with nested aggregates against loops over lists, through inserts and deletes."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled
from tests.strategies.aggregate_index.nested_oracle import Row, answer, grouped, qualifying
from tests.strategies.aggregate_index.nested_streams import TABLE, changes, run

import viewmill as vm

INNER = {
    "sum": "(SELECT sum(x.volume) FROM bids x WHERE x.price {} b.price)",
    "count": "(SELECT count(*) FROM bids x WHERE x.price {} b.price)",
    "coalesce": "coalesce((SELECT sum(x.volume) FROM bids x WHERE x.price {} b.price), 0)",
}
SHARES = ("0.75", "0.5", "1.00")


def query(share: str, sign: str, correlation: str, function: str, *, by_broker: bool) -> str:
    inner = INNER[function].format(correlation)
    shown = "b.broker, " if by_broker else ""
    group = " GROUP BY b.broker" if by_broker else ""
    return (
        f"SELECT {shown}sum(b.price * b.volume) AS money, count(*) AS n FROM bids b "
        f"WHERE {share} * (SELECT sum(y.volume) FROM bids y) {sign} {inner}{group}"
    )


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("by_broker", [False, True], ids=["one row", "by broker"])
@pytest.mark.parametrize("signed", [False, True], ids=["volumes >= 0", "any volumes"])
@settings(max_examples=scaled(0.5))
@given(data=st.data())
def test_view_equals_the_loops(data, signed, by_broker):
    share = data.draw(st.sampled_from(SHARES))
    sign = data.draw(st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]))
    correlation = data.draw(st.sampled_from(["<", "<=", ">", ">=", "="] if not by_broker else
                                            ["<", "<=", ">", ">="]))  # fmt: skip
    function = data.draw(st.sampled_from(sorted(INNER)))

    def check(found: list[tuple[object, ...]], live: list[Row]) -> None:
        kept = qualifying(live, Decimal(share), sign, correlation, function)
        if by_broker:
            assert set(found) == grouped(kept)
        else:
            assert found == [answer(kept)]

    sql = query(share, sign, correlation, function, by_broker=by_broker)
    run(data.draw(changes(signed=signed)), sql, check)


VWAP = query("0.75", "<", "<=", "sum", by_broker=False)
VWAP_MONEY = VWAP.replace(", count(*) AS n", "")
MST = (
    "SELECT b.broker, sum(a.price * a.volume - b.price * b.volume) AS money FROM bids b, bids a "
    "WHERE 0.25 * (SELECT sum(x.volume) FROM bids x) > coalesce("
    "(SELECT sum(x.volume) FROM bids x WHERE x.price > a.price), 0) "
    "AND 0.25 * (SELECT sum(x.volume) FROM bids x) > coalesce("
    "(SELECT sum(x.volume) FROM bids x WHERE x.price > b.price), 0) GROUP BY b.broker"
)


@pytest.mark.parametrize(
    "sql", [VWAP, pytest.param(MST, marks=pytest.mark.slow)], ids=["vwap", "mst"]
)
def test_compiled_kernels_equal_recompute_through_splits_and_merges(mill, sql):
    """Thousands of levels come and go, so that leaves and groups of leaves split and join."""
    mill.sql(f"CREATE TABLE bids ({TABLE}) UNCHECKED")
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS {sql}")
    rows = [(n % 3, n * 7 % 11, Decimal(n * 7919 % 20011) / 10) for n in range(12_000)]
    mill.insert("bids", rows)
    mill.delete("bids", rows[:11_000])
    assert mill["v"].verify() == []
    mill.insert("bids", rows[:700])
    mill.insert("bids", [(1, -5, Decimal(3)), (1, None, None), (2, 5, None)])
    assert mill["v"].verify() == []
    mill.delete("bids", [*rows[11_000:], *rows[:700], (1, None, None), (2, 5, None)])
    mill.delete("bids", [(1, -5, Decimal(3))])
    assert mill["v"].verify() == []


def test_groups_are_gathered_again_when_a_bound_passes_one_of_their_levels(mill):
    """Rows one by one, a batch that fails after the groups were gathered, all rows gone."""
    mill.sql(f"CREATE TABLE bids ({TABLE})")
    sql = query("0.3", ">", ">", "coalesce", by_broker=True)
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS {sql}")
    mill.sql("CREATE MATERIALIZED VIEW fails AS SELECT sum(1 / (broker - 7)) AS s FROM bids")
    draw, live = random.Random(5), list[Row]()
    for step in range(120):
        if live and draw.random() < 0.45:
            mill.delete("bids", [live.pop(draw.randrange(len(live)))])
        else:
            price = draw.choice([None, *[Decimal(draw.randint(0, 40)) / 2] * 9])
            live.append((draw.randint(1, 4), draw.choice([None, 0, 1, 5, 9]), price))
            mill.insert("bids", live[-1:])
        if step % 10 == 0:
            with pytest.raises(vm.ViewmillError):
                mill.insert("bids", [(1, 3, Decimal(7)), (7, 2, Decimal(11)), (8, 2, None)])
        loops = qualifying(live, Decimal("0.3"), ">", ">", "coalesce")
        assert set(mill["v"].rows()) == grouped(loops)
    mill.delete("bids", live)
    assert mill["v"].rows() == []


def test_a_failed_batch_leaves_the_view_as_it_was(mill, uncompiled):
    mill.sql(f"CREATE TABLE bids ({TABLE})")
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS {VWAP}")
    mill.insert("bids", [(1, 5, Decimal(1)), (1, 5, Decimal(2))])
    before = mill["v"].rows()
    with pytest.raises(vm.ViewmillError):
        mill.insert("bids", [(1, 7, Decimal(3)), (1, 2**62, Decimal(9))])
    assert mill["v"].rows() == before
    mill.insert("bids", [(1, 7, Decimal(3))])
    assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("sql", "note"),
    [
        (VWAP, "aggregate index over b: levels of price"),
        ("SELECT sum(b.volume) FROM bids b WHERE (SELECT sum(x.volume) FROM bids x WHERE x.volume "
         "<= b.volume) < (SELECT sum(x.volume) FROM bids x WHERE x.price < b.price)",
         "general algorithm, a refresh visits every distinct row outside: several correlated"),
        ("SELECT sum(b.volume) FROM bids b WHERE 1 < (SELECT sum(x.volume) FROM bids x "
         "WHERE x.price <= b.price AND x.volume <= b.volume)",
         "general algorithm, a refresh visits every distinct row outside: a correlation by more"),
    ],
    ids=["index", "both sides", "two comparisons"],
)  # fmt: skip
def test_explain_says_which_plan_and_why(mill, sql, note):
    mill.sql(f"CREATE TABLE bids ({TABLE})")
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
    assert any(each.startswith(note) for each in mill["v"].explain()["chosen"]["notes"])


@pytest.mark.usefixtures("uncompiled")
def test_explain_says_why_neither(mill):
    mill.sql(f"CREATE TABLE bids ({TABLE})")
    with pytest.raises(vm.ViewmillError, match="no general algorithm: STDDEV_SAMP inside"):
        mill.sql(
            "CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS SELECT sum(b.volume) FROM bids "
            "b WHERE 1 < (SELECT stddev(x.volume) FROM bids x WHERE x.price <= b.price)"
        )


SHOWN = {
    "a ratio": f"SELECT ({VWAP_MONEY}) / (SELECT count(*) FROM bids) AS r",
    "twice": f"SELECT ({VWAP_MONEY}) + 1 AS a, ({VWAP_MONEY}) - (SELECT max(price) FROM bids) AS b",
    "beside rows": f"SELECT b.broker, b.volume * ({VWAP_MONEY}) AS v FROM bids b WHERE b.price > 0",
    "beside groups": f"SELECT b.broker, ({VWAP_MONEY}) AS v, count(*) AS n FROM bids b GROUP BY 1",
}


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("case", sorted(SHOWN))
def test_a_nested_aggregate_among_the_columns(mill, case):
    """It is a block of its own: the one row beside the rows that show it."""
    mill.sql(f"CREATE TABLE bids ({TABLE})")
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {SHOWN[case]}")
    assert "aggregate_index" in mill["v"].status()["strategy"]
    rows = [(n % 3, n % 4 + 1, Decimal(n * 5 % 7)) for n in range(18)]
    for at in range(0, 18, 6):
        mill.insert("bids", rows[at : at + 6])
        assert mill["v"].verify() == []
    calls = mill["v"].status()["engine_calls"]
    mill.delete("bids", rows[:17])
    assert mill["v"].status()["engine_calls"] == calls
    assert mill["v"].verify() == []

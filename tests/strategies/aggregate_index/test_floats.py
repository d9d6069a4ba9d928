"""Nested aggregates over DOUBLE columns: as levels, summed inside, summed outside."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled
from tests.strategies.aggregate_index.nested_oracle import Row, compare
from tests.strategies.aggregate_index.nested_streams import (
    FLOATS,
    Case,
    agree,
    by,
    changes,
    own,
    times,
    volume_sum,
)

import viewmill as vm

SIGNS = ["<", "<=", ">", ">=", "=", "<>"]


def case_of(sign: str, correlation: str, *, or_zero: bool, by_key: bool) -> Case:
    """0.75 * the sum of all, or of the key, against the sum up to a row."""
    key = "x.broker = b.broker" if by_key else "TRUE"
    inner = f"(SELECT sum(x.volume) FROM bids x WHERE x.price {correlation} b.price AND {key})"
    inner = f"coalesce({inner}, 0)" if or_zero else inner

    def test(b: Row, rows: list[Row]) -> bool:
        around = own(rows, b) if by_key else rows
        found = volume_sum(by(around, correlation, b))
        if found is None and or_zero:
            found = Decimal(0)
        return compare(times(Decimal("0.75"), volume_sum(around)), sign, found)

    whole = f"(SELECT sum(x.volume) FROM bids x WHERE {key})"
    return f"0.75 * {whole} {sign} {inner}", test


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("by_key", [False, True], ids=["of all", "of the key"])
@settings(max_examples=scaled(0.7))
@given(data=st.data())
def test_view_equals_the_loops(data, by_key):
    case = case_of(
        data.draw(st.sampled_from(SIGNS)), data.draw(st.sampled_from(["<", "<=", ">", ">="])),
        or_zero=data.draw(st.booleans()), by_key=by_key,
    )  # fmt: skip
    steps = data.draw(changes(signed=data.draw(st.booleans()), table=FLOATS))
    agree(case, steps, by_broker=data.draw(st.booleans()), table=FLOATS)


VWAP = (
    "SELECT sum(b.price * b.volume) AS money, count(*) AS n FROM bids b WHERE 0.75 * (SELECT "
    "sum(x.volume) FROM bids x) < (SELECT sum(x.volume) FROM bids x WHERE x.price <= b.price)"
)
ODD = [math.nan, math.inf, -math.inf, -0.0, 0.0]


@pytest.mark.usefixtures("uncompiled")
def test_what_is_no_number_comes_and_goes(mill):
    """NaN is the largest price and makes NaN of a sum; without it the sum is what it was."""
    mill.sql(f"CREATE TABLE bids ({FLOATS})")
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS {VWAP}")
    mill.insert("bids", [(1, 2.5, 1.0), (1, 0.5, 2.0), (2, 1.0, 3.0)])
    before = mill["v"].rows()
    chance = random.Random(5)
    for _ in range(12):
        rows = [(1, chance.choice([1.5, *ODD]), chance.choice([2.0, *ODD])) for _ in range(3)]
        mill.insert("bids", rows)
        assert mill["v"].verify() == []
        mill.delete("bids", rows)
        assert mill["v"].rows() == before


def test_compiled_kernels_equal_recompute_and_come_back(mill):
    """Ten thousand levels of floats that no binary fraction is come and go."""
    mill.sql(f"CREATE TABLE bids ({FLOATS}) UNCHECKED")
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS {VWAP}")
    chance = random.Random(1)
    rows = [(n % 3, chance.random(), chance.random() * 100) for n in range(10_000)]
    mill.insert("bids", rows[:50])
    before = mill["v"].rows()
    mill.insert("bids", rows[50:])
    assert mill["v"].verify() == []
    mill.insert("bids", [(1, math.nan, 4.0), (1, -3.0, math.inf), (2, None, None)])
    assert mill["v"].verify() == []
    mill.delete("bids", [(1, math.nan, 4.0), (1, -3.0, math.inf), (2, None, None)])
    mill.delete("bids", rows[50:])
    assert mill["v"].rows() == [(pytest.approx(before[0][0], rel=1e-12), before[0][1])]
    mill.delete("bids", rows[:50])
    assert mill["v"].rows() == [(None, 0)]


@pytest.mark.usefixtures("uncompiled")
def test_floats_survive_a_restart(tmp_path):
    rows = [(n % 3, n % 5 / 8, n % 7 / 2 - 1) for n in range(40)]
    with vm.connect(str(tmp_path / "m")) as mill:
        mill.sql(f"CREATE TABLE bids ({FLOATS})")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {VWAP}")
        mill.insert("bids", [*rows, (1, math.nan, -0.0)])
        shown = mill["v"].rows()
    with vm.connect(str(tmp_path / "m")) as mill:
        assert str(mill["v"].rows()) == str(shown)
        mill.delete("bids", [*rows[:20], (1, math.nan, 0.0)])
        assert mill["v"].verify() == []
        assert mill["v"].status()["strategy"] == "aggregate_index"


@pytest.mark.usefixtures("uncompiled")
def test_a_whole_number_that_meets_an_average(mill):
    """AVG of BIGINT is a DOUBLE: the column, and a sum of whole numbers, are compared as such."""
    mill.sql("CREATE TABLE bids (broker INT, volume BIGINT, price DECIMAL(6,1))")
    for name, sql in {
        "v": "SELECT count(*) AS n FROM bids b WHERE (SELECT avg(x.volume) FROM bids x WHERE "
        "x.broker = b.broker) <= b.volume",
        "w": "SELECT sum(b.price) AS s FROM bids b WHERE 1.5e0 * (SELECT sum(x.volume) FROM bids x)"
        " > (SELECT sum(x.volume) FROM bids x WHERE x.price <= b.price) * 2",
        "u": "SELECT sum(b.volume) AS s FROM bids b WHERE b.price > 0.1e0 * (SELECT count(*) "
        "FROM bids)",
    }.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
    for at in range(0, 40, 8):
        mill.insert("bids", [(n % 3, n * 7 % 5, Decimal(n % 6) / 2) for n in range(at, at + 8)])
        assert [d for name in "vwu" for d in mill[name].verify()] == []
    assert mill["v"].status()["strategy"] == "aggregate_index"
    assert mill["u"].status()["strategy"] == "aggregate_index"


@pytest.mark.usefixtures("uncompiled")
def test_infinite_times_no_row_is_nothing(mill):
    """Broker 2 has a row without price, which qualifies and has no product to be summed."""
    mill.sql(f"CREATE TABLE bids ({FLOATS})")
    mill.sql(
        "CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS SELECT b.broker, "
        "sum(a.price * a.volume - b.price * b.volume) AS missed FROM bids b, bids a WHERE "
        "0.25 * (SELECT sum(x.volume) FROM bids x) > coalesce((SELECT sum(x.volume) FROM bids x "
        "WHERE x.price > a.price), 0) AND 0.25 * (SELECT sum(x.volume) FROM bids x) > "
        "coalesce((SELECT sum(x.volume) FROM bids x WHERE x.price > b.price), 0) GROUP BY b.broker"
    )
    mill.insert("bids", [(1, 3.0, math.inf), (2, math.nan, None), (2, 0.0, -1.5)])
    assert mill["v"].verify() == []
    assert (2, math.inf) in mill["v"].rows()

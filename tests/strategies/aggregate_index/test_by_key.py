"""A column against an aggregate of its own key, against loops over lists."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled
from tests.strategies.aggregate_index.nested_oracle import Row, answer, compare, grouped
from tests.strategies.aggregate_index.test_aggregate_index import TABLE, changes, run
from tests.strategies.aggregate_index.test_general import mean_price, times, volume, volume_sum

NOTE = "aggregate index by broker"


def own(rows: list[Row], b: Row) -> list[Row]:
    return [row for row in rows if row[0] == b[0]]


CASES = {
    "avg": (
        "b.price < (SELECT 0.75 * avg(x.price) FROM bids x WHERE x.broker = b.broker)",
        lambda b, rows: compare(b[2], "<", times(Decimal("0.75"), mean_price(own(rows, b)))),
    ),
    "sum or 0": (
        "b.volume >= coalesce((SELECT sum(x.volume) FROM bids x "
        "WHERE x.broker = b.broker AND x.price > 1), 0)",
        lambda b, rows: compare(volume(b), ">=", volume_sum(
            [x for x in own(rows, b) if compare(x[2], ">", Decimal(1))]) or Decimal(0)),
    ),
    "count": (
        "b.price <> (SELECT count(*) FROM bids x WHERE x.broker = b.broker)",
        lambda b, rows: compare(b[2], "<>", Decimal(len(own(rows, b)))),
    ),
    "equal": (
        "(SELECT sum(x.volume) FROM bids x WHERE x.broker = b.broker) = b.volume",
        lambda b, rows: compare(volume_sum(own(rows, b)), "=", volume(b)),
    ),
}  # fmt: skip


def sql_of(condition: str, *, by_broker: bool) -> str:
    shown, group = ("b.broker, ", " GROUP BY b.broker") if by_broker else ("", "")
    money = "sum(b.price * b.volume) AS money, count(*) AS n"
    return f"SELECT {shown}{money} FROM bids b WHERE {condition}{group}"


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("case", sorted(CASES))
@settings(max_examples=scaled(0.25))
@given(data=st.data())
def test_view_equals_the_loops(data, case):
    condition, test = CASES[case]
    by_broker = data.draw(st.booleans())

    def check(found: list[tuple[object, ...]], live: list[Row]) -> None:
        kept = [row for row in live if test(row, live)]
        if by_broker:
            assert set(found) == grouped(kept)
        else:
            assert found == [answer(kept)]

    steps = data.draw(changes(signed=True))
    run(steps, sql_of(condition, by_broker=by_broker), check)


def test_compiled_kernels_equal_recompute(mill):
    mill.sql(f"CREATE TABLE bids ({TABLE}) UNCHECKED")
    sql = sql_of(CASES["avg"][0], by_broker=False)
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS {sql}")
    assert mill["v"].explain()["chosen"]["notes"][0].startswith(NOTE)
    rows = [(n % 3, n * 7 % 11 - 2, Decimal(n * 7919 % 211) / 10) for n in range(2000)]
    mill.insert("bids", rows)
    assert mill["v"].verify() == []
    mill.delete("bids", rows[:1900])
    mill.insert("bids", [(1, None, None), (2, 5, None), (2, None, Decimal(3))])
    assert mill["v"].verify() == []
    mill.delete("bids", rows[1900:])
    assert mill["v"].verify() == []

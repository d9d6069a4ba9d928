"""Streams of bids, and views over them held against loops over lists after every step."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

from hypothesis import strategies as st
from tests.strategies.aggregate_index.nested_oracle import (
    Row,
    answer,
    compare,
    grouped,
    inside,
    total,
    volumes,
)

import viewmill as vm

Number = Decimal | None
Test = Callable[[Row, list[Row]], bool]
Steps = list[tuple[str, list[Row]]]
Case = tuple[str, Test]

TABLE = "broker INT NOT NULL, volume BIGINT, price DECIMAL(6,1)"
ANY_BROKER = "broker INT, volume BIGINT, price DECIMAL(6,1)"
FLOATS = "broker INT, volume DOUBLE, price DOUBLE"

# Small domains: equal prices, equal sums, zero and negative volumes, NULLs, rows that are equal.
prices = st.sampled_from([None, *(Decimal(n) / 2 for n in range(5))])
some = st.sampled_from([None, 1, 2])
brokers = {TABLE: st.integers(1, 2), ANY_BROKER: some, FLOATS: some}
amounts = {False: [None, 0, 0, 1, 2, 3], True: [None, -2, -1, 0, 1, 3]}


def rows_of(table: str, *, signed: bool) -> st.SearchStrategy[list[Row]]:
    volumes_: st.SearchStrategy[float | None] = st.sampled_from(amounts[signed])
    if table == FLOATS:  # whole eighths: sums of them are exact in any order
        volumes_ = volumes_.map(lambda x: None if x is None else x / 8)
    one = st.tuples(brokers[table], volumes_, prices)
    return st.lists(one, max_size=4)


@st.composite
def changes(draw: st.DrawFn, *, signed: bool, table: str = TABLE) -> Steps:
    """Batches in and out; at the end everything goes, and something comes again."""
    rows = rows_of(table, signed=signed)
    live: list[Row] = []
    steps: Steps = []
    for _ in range(draw(st.integers(1, 6))):
        is_delete: bool = draw(st.booleans())
        if live and is_delete:
            gone = [live.pop(draw(st.integers(0, len(live) - 1)))]
            steps.append(("delete", gone))
        else:
            new: list[Row] = draw(rows)
            live += new
            steps.append(("insert", new))
    return [*steps, ("delete", list(live)), ("insert", draw(rows))]


def run(steps: Steps, sql: str, check, table: str = TABLE) -> None:
    """Keep the view through the steps; `check` sees what it shows and the rows that live."""
    with vm.connect() as mill:
        mill.sql(f"CREATE TABLE bids ({table})")
        mill.insert("bids", as_stored(steps[0][1], table))
        mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS {sql}")
        live = list(steps[0][1])
        check(mill["v"].rows(), live)
        for what, rows in steps[1:]:
            if what == "insert":
                mill.insert("bids", as_stored(rows, table))
                live += rows
            else:
                mill.delete("bids", as_stored(rows, table))
                for row in rows:
                    live.remove(row)
            check(mill["v"].rows(), live)
        assert mill["v"].status()["engine_calls"] <= len(mill["v"].explain()["states"])


def as_stored(rows: list[Row], table: str) -> list[Row]:
    """The rows as the table has them: floats are floats."""
    if table != FLOATS:
        return rows
    return [(b, v, None if p is None else float(p)) for b, v, p in rows]  # type: ignore[misc]


def money_of(condition: str, *, by_broker: bool) -> str:
    """The money and the number of the bids that meet a condition."""
    shown, group = ("b.broker, ", " GROUP BY b.broker") if by_broker else ("", "")
    money = "sum(b.price * b.volume) AS money, count(*) AS n"
    return f"SELECT {shown}{money} FROM bids b WHERE {condition}{group}"


def agree(case: Case, steps: Steps, *, by_broker: bool, table: str = TABLE) -> None:
    """The view of a condition equals what a loop finds, after every step."""
    condition, test = case

    def check(found: list[tuple[object, ...]], live: list[Row]) -> None:
        kept = [row for row in live if test(row, live)]
        if by_broker:
            assert set(found) == grouped(kept)
        else:
            assert found == [answer(kept)]

    run(steps, money_of(condition, by_broker=by_broker), check, table)


def hold_against_recompute(mill, condition: str, *, by_broker: bool, size: int) -> None:
    """Thousands of rows come and go, and some without price, volume or sense."""
    sql = money_of(condition, by_broker=by_broker)
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS {sql}")
    rows = [(n % 3, n * 7 % 11 - 2, Decimal(n * 7919 % 211) / 10) for n in range(size)]
    mill.insert("bids", rows)
    assert mill["v"].verify() == []
    mill.delete("bids", rows[: size - 100])
    mill.insert("bids", [(1, None, None), (2, 5, None), (2, None, Decimal(3))])
    assert mill["v"].verify() == []
    mill.delete("bids", rows[size - 100 :])
    assert mill["v"].verify() == []


# What conditions say, in loops.


def volume(row: Row) -> Number:
    return None if row[1] is None else Decimal(row[1])


def volume_sum(rows: list[Row]) -> Number:
    return total(volumes(rows))


def mean_price(rows: list[Row]) -> Number:
    """AVG of DECIMAL(6,1) is DECIMAL(10,5)."""
    found = [row[2] for row in rows if row[2] is not None]
    if not found:
        return None
    return (sum(found) / len(found)).quantize(Decimal("0.00001"), ROUND_HALF_UP)


def by(rows: list[Row], sign: str, row: Row) -> list[Row]:
    """The rows whose price compares so with this one's."""
    return inside(rows, sign, row[2])


def own(rows: list[Row], b: Row) -> list[Row]:
    """The rows of the same broker; nobody is the same as NULL."""
    return [row for row in rows if row[0] is not None and row[0] == b[0]]


def no_less(rows: list[Row], row: Row) -> list[Row]:
    """Rows of no larger volume than this one's."""
    return [each for each in rows if compare(volume(each), "<=", volume(row))]


def times(x: Number, y: Number) -> Number:
    return None if x is None or y is None else x * y

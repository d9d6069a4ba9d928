"""The general algorithm against loops over lists: any condition over nested aggregates."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled
from tests.strategies.aggregate_index.nested_oracle import Row, answer, compare, total, volumes
from tests.strategies.aggregate_index.nested_streams import (
    FLOATS,
    TABLE,
    Case,
    Number,
    agree,
    by,
    changes,
    hold_against_recompute,
    mean_price,
    money_of,
    no_less,
    run,
    times,
    volume,
    volume_sum,
)

import viewmill as vm


def largest(rows: list[Row]) -> Number:
    return max(volumes(rows), default=None)


def smallest_price(rows: list[Row]) -> Number:
    return min((row[2] for row in rows if row[2] is not None), default=None)


SUM = "(SELECT sum(x.volume) FROM bids x WHERE x.price {} b.price)"
CASES: dict[str, Case] = {
    "both sides": (
        "0.75 * (SELECT sum(y.volume) FROM bids y WHERE y.volume <= b.volume) < "
        + SUM.format("<="),
        lambda b, rows: compare(
            times(Decimal("0.75"), volume_sum(no_less(rows, b))), "<",
            volume_sum(by(rows, "<=", b)),
        ),
    ),
    "avg by inequality": (
        "b.price >= (SELECT avg(x.price) FROM bids x WHERE x.volume <= b.volume)",
        lambda b, rows: compare(b[2], ">=", mean_price(no_less(rows, b))),
    ),
    "avg by equality": (
        "b.volume > (SELECT avg(x.price) FROM bids x WHERE x.volume = b.volume)",
        lambda b, rows: compare(volume(b), ">", mean_price(
            [x for x in rows if x[1] is not None and x[1] == b[1]])),
    ),
    "max by inequality": (
        "b.volume >= (SELECT max(x.volume) FROM bids x WHERE x.price > b.price)",
        lambda b, rows: compare(volume(b), ">=", largest(by(rows, ">", b))),
    ),
    "min by equality": (
        "b.price = (SELECT min(x.price) FROM bids x WHERE x.broker = b.broker)",
        lambda b, rows: compare(b[2], "=", smallest_price([x for x in rows if x[0] == b[0]])),
    ),
    "max of all": (
        "b.volume = (SELECT max(x.volume) FROM bids x) OR "
        "b.price = (SELECT min(x.price) FROM bids x)",
        lambda b, rows: compare(volume(b), "=", largest(rows))
        or compare(b[2], "=", smallest_price(rows)),
    ),
    "or": (
        f"{SUM.format('<')} > 2 OR "
        "b.volume > (SELECT count(*) FROM bids x WHERE x.price = b.price)",
        lambda b, rows: compare(volume_sum(by(rows, "<", b)), ">", Decimal(2))
        or compare(volume(b), ">", Decimal(len(by(rows, "=", b)))),
    ),
    "two tests": (
        f"{SUM.format('<=')} >= 1 AND {SUM.format('>=')} >= 1",
        lambda b, rows: compare(volume_sum(by(rows, "<=", b)), ">=", Decimal(1))
        and compare(volume_sum(by(rows, ">=", b)), ">=", Decimal(1)),
    ),
    "two comparisons": (
        "b.volume < (SELECT sum(x.volume) FROM bids x "
        "WHERE x.price <= b.price AND x.broker <> b.broker)",
        lambda b, rows: compare(volume(b), "<", volume_sum(
            [x for x in by(rows, "<=", b) if x[0] != b[0]])),
    ),
    "product": (
        "1 < (SELECT count(x.volume) FROM bids x WHERE x.volume * b.price > b.volume + x.broker)",
        lambda b, rows: Decimal(1) < len([x for x in rows if b[1] is not None and compare(
            times(volume(x), b[2]), ">", Decimal(b[1] + (x[0] or 0)))]),
    ),
    "null tests": (
        f"{SUM.format('<')} IS NULL OR NOT ({SUM.format('>')} > b.volume)",
        lambda b, rows: volume_sum(by(rows, "<", b)) is None
        or compare(volume_sum(by(rows, ">", b)), "<=", volume(b)),
    ),
    "distinct by inequality": (
        "b.volume < (SELECT count(DISTINCT x.volume) FROM bids x WHERE x.price <= b.price)",
        lambda b, rows: compare(volume(b), "<", Decimal(len(set(volumes(by(rows, "<=", b)))))),
    ),
    "distinct sum by inequality": (
        "1 <= (SELECT sum(DISTINCT x.volume) FROM bids x WHERE x.price > b.price)",
        lambda b, rows: compare(Decimal(1), "<=", total(list(set(volumes(by(rows, ">", b)))))),
    ),
    "distinct average": (
        "b.price > (SELECT avg(DISTINCT x.price) FROM bids x WHERE x.volume <= b.volume)",
        lambda b, rows: compare(b[2], ">", mean_price(
            [(0, 0, price) for price in {x[2] for x in no_less(rows, b)}])),
    ),
    "not equal": (
        f"b.volume <> {SUM.format('<>')}",
        lambda b, rows: compare(volume(b), "<>", volume_sum(by(rows, "<>", b))),
    ),
}  # fmt: skip


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("case", sorted(CASES))
@settings(max_examples=scaled(0.25))
@given(data=st.data())
def test_view_equals_the_loops(data, case):
    steps = data.draw(changes(signed=data.draw(st.booleans())))
    agree(CASES[case], steps, by_broker=data.draw(st.booleans()))


def _mean(rows: list[Row]) -> Number:
    """AVG of DOUBLE rounds nothing that these small numbers have."""
    found = [row[2] for row in rows if row[2] is not None]
    return sum(found, Decimal(0)) / len(found) if found else None


@pytest.mark.usefixtures("uncompiled")
@settings(max_examples=scaled(0.25))
@given(data=st.data())
def test_averages_of_floats_by_inequality(data):
    case: Case = (
        "b.price >= (SELECT avg(x.price) FROM bids x WHERE x.volume <= b.volume)",
        lambda b, rows: compare(b[2], ">=", _mean(no_less(rows, b))),
    )
    steps = data.draw(changes(signed=True, table=FLOATS))
    agree(case, steps, by_broker=data.draw(st.booleans()), table=FLOATS)


@pytest.mark.usefixtures("uncompiled")
def test_explain_names_the_plan_of_what_no_shift_moves(mill):
    mill.sql(f"CREATE TABLE bids ({FLOATS})")
    average = "(SELECT avg(x.volume) FROM bids x WHERE x.price <= b.price)"
    mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM bids b WHERE 1 < {average}")
    assert "general algorithm" in str(mill["v"].explain())
    values = "(SELECT count(DISTINCT x.volume) FROM bids x WHERE x.price <= b.price)"
    mill.sql(f"CREATE MATERIALIZED VIEW w AS SELECT count(*) FROM bids b WHERE 1 < {values}")
    assert "aggregate index over b" in str(mill["w"].explain())


@pytest.mark.usefixtures("uncompiled")
@settings(max_examples=scaled(0.25))
@given(data=st.data())
def test_rows_that_qualify(data):
    """Without an aggregate outside the view is a bag of rows."""
    condition, test = CASES["both sides"]

    def check(found: list[tuple[object, ...]], live: list[Row]) -> None:
        kept = [(row[1], row[2]) for row in live if test(row, live)]
        assert Counter(found) == Counter(kept)

    sql = f"SELECT b.volume, b.price FROM bids b WHERE {condition}"
    run(data.draw(changes(signed=True)), sql, check)


@pytest.mark.parametrize("case", ["both sides", "max by inequality", "max of all"])
def test_compiled_kernels_equal_recompute(mill, case):
    mill.sql(f"CREATE TABLE bids ({TABLE}) UNCHECKED")
    hold_against_recompute(mill, CASES[case][0], by_broker=True, size=600)


@pytest.mark.usefixtures("uncompiled")
def test_a_failed_batch_leaves_the_view_as_it_was(mill):
    """The batch fails after the view was settled: what no journal has is computed again."""
    mill.sql(f"CREATE TABLE bids ({TABLE})")
    sql = money_of(CASES["both sides"][0], by_broker=False)
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS {sql}")
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT sum(volume) / (sum(volume) - 99) FROM bids")
    mill.insert("bids", [(1, 5, Decimal(1)), (1, 5, Decimal(2)), (2, 1, Decimal(3))])
    before = mill["v"].rows()
    with pytest.raises(vm.ViewmillError):
        mill.insert("bids", [(1, 88, Decimal(2))])
    assert mill["v"].rows() == before
    assert mill["v"].verify() == []
    mill.insert("bids", [(1, 7, Decimal(3))])
    mill.delete("bids", [(1, 5, Decimal(1))])
    assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
def test_replay_shows_the_view_after_every_row(mill):
    mill.sql(f"CREATE TABLE bids ({TABLE})")
    condition, test = CASES["both sides"]
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {money_of(condition, by_broker=False)}")
    rows = [(1, 5, Decimal(1)), (1, 3, Decimal(2)), (2, 4, Decimal(1)), (1, 1, Decimal(3))]
    named = [dict(zip(("broker", "volume", "price"), row, strict=True), m=1) for row in rows]
    shown = mill.replay("bids", named, view="v", multiplicity="m")
    live: list[Row] = []
    for row, found in zip(rows, shown.to_pylist(), strict=True):
        live.append(row)
        kept = [each for each in live if test(each, live)]
        assert (found["money"], found["n"]) == answer(kept)
    assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
def test_least_string_inside_is_not_the_first_that_came(mill):
    mill.sql("CREATE TABLE words (n INT NOT NULL, word STRING)")
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT w.n FROM words w WHERE w.word = "
        "(SELECT min(x.word) FROM words x WHERE x.n <= w.n)"
    )
    mill.insert("words", [(3, "pear"), (1, "plum"), (2, "apple")])
    assert sorted(mill["v"].rows()) == [(1,), (2,)]

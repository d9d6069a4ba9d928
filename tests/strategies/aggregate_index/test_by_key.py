"""Aggregates of a row's own key, against loops over lists."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled
from tests.strategies.aggregate_index.nested_oracle import Row, compare
from tests.strategies.aggregate_index.nested_streams import (
    ANY_BROKER,
    TABLE,
    Case,
    Number,
    agree,
    by,
    changes,
    hold_against_recompute,
    mean_price,
    money_of,
    own,
    times,
    volume,
    volume_sum,
)

import viewmill as vm

NOTE = "aggregate index by broker"

CASES: dict[str, Case] = {
    "avg": (
        "b.price < (SELECT 0.75 * avg(x.price) FROM bids x WHERE x.broker = b.broker)",
        lambda b, rows: compare(b[2], "<", times(Decimal("0.75"), mean_price(own(rows, b)))),
    ),
    "equal": (
        "(SELECT sum(x.volume) FROM bids x WHERE x.broker = b.broker) = b.volume",
        lambda b, rows: compare(volume_sum(own(rows, b)), "=", volume(b)),
    ),
    "of the key alone": (
        "(SELECT count(*) FROM bids x WHERE x.broker = b.broker) + 1 > "
        "(SELECT count(*) FROM bids x WHERE x.broker = b.broker AND x.price > 1) * b.broker",
        lambda b, rows: b[0] is not None
        and len(own(rows, b)) + 1 > len(by(own(rows, b), ">", (0, 0, Decimal(1)))) * b[0],
    ),
}  # fmt: skip
WITH_KEY: dict[str, Case] = {  # a row without key would have an aggregate too
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
}  # fmt: skip


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("case", sorted(CASES | WITH_KEY))
@settings(max_examples=scaled(0.25))
@given(data=st.data())
def test_view_equals_the_loops(data, case):
    table = ANY_BROKER if case in CASES else TABLE
    steps = data.draw(changes(signed=True, table=table))
    agree((CASES | WITH_KEY)[case], steps, by_broker=data.draw(st.booleans()), table=table)


BOUNDS = {
    "0.75 * (SELECT sum(y.volume) FROM bids y WHERE y.broker = b.broker)":
        lambda b, rows: times(Decimal("0.75"), volume_sum(own(rows, b))),
    "0.5 * (SELECT sum(y.volume) FROM bids y)":
        lambda b, rows: times(Decimal("0.5"), volume_sum(rows)),
    "(SELECT count(*) FROM bids y WHERE y.broker = b.broker AND y.volume > 0)":
        lambda b, rows: Decimal(len([x for x in own(rows, b) if x[1] is not None and x[1] > 0])),
    "2": lambda b, rows: Decimal(2),
}  # fmt: skip
INNER = {
    "sum": "(SELECT sum(x.volume) FROM bids x WHERE x.broker = b.broker AND x.price {} b.price)",
    "count": "(SELECT count(*) FROM bids x WHERE x.broker = b.broker AND x.price {} b.price)",
    "sum or 1": "coalesce((SELECT sum(x.volume) FROM bids x "
    "WHERE x.price {} b.price AND x.broker = b.broker), 1)",
}


def aggregate(function: str, rows: list[Row]) -> Number:
    if function == "count":
        return Decimal(len(rows))
    found = volume_sum(rows)
    return Decimal(1) if found is None and function == "sum or 1" else found


def run_case(bound: str, sign: str, function: str, correlation: str) -> Case:
    """A bound of the key against an aggregate over the rows of the key up to this one."""

    def test(b: Row, rows: list[Row]) -> bool:
        found = aggregate(function, by(own(rows, b), correlation, b))
        return compare(BOUNDS[bound](b, rows), sign, found)

    return f"{bound} {sign} {INNER[function].format(correlation)}", test


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("signed", [False, True], ids=["volumes >= 0", "any volumes"])
@settings(max_examples=scaled(1))
@given(data=st.data())
def test_runs_equal_the_loops(data, signed):
    case = run_case(
        data.draw(st.sampled_from(sorted(BOUNDS))),
        data.draw(st.sampled_from(["<", "<=", ">", ">=", "=", "<>"])),
        data.draw(st.sampled_from(sorted(INNER))),
        data.draw(st.sampled_from(["<", "<=", ">", ">="])),
    )
    table = data.draw(st.sampled_from([TABLE, ANY_BROKER]))
    steps = data.draw(changes(signed=signed, table=table))
    agree(case, steps, by_broker=data.draw(st.booleans()), table=table)


BY_BROKER = next(iter(BOUNDS))


@pytest.mark.parametrize("case", ["avg", "run"])
def test_compiled_kernels_equal_recompute(mill, case):
    mill.sql(f"CREATE TABLE bids ({ANY_BROKER}) UNCHECKED")
    runs = run_case(BY_BROKER, "<", "sum or 1", ">=")
    condition = (CASES["avg"] if case == "avg" else runs)[0]
    hold_against_recompute(mill, condition, by_broker=case == "run", size=2000)
    assert mill["v"].explain()["chosen"]["notes"][0].startswith(NOTE)


@pytest.mark.usefixtures("uncompiled")
def test_a_key_of_several_columns_and_another_table_inside(mill):
    mill.sql("CREATE TABLE bids (broker INT, day DATE, price DECIMAL(6,1), volume BIGINT)")
    mill.sql("CREATE TABLE asks (broker INT, day DATE, price DECIMAL(6,1), volume BIGINT)")
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT b.day, sum(b.volume) AS n FROM bids b WHERE "
        "(SELECT sum(x.volume) FROM bids x WHERE x.broker = b.broker AND x.day = b.day) < "
        "(SELECT sum(a.volume) FROM asks a WHERE a.day = b.day AND a.broker = b.broker "
        "AND a.price < b.price) GROUP BY b.day"
    )
    assert mill["v"].explain()["chosen"]["notes"][0].startswith(f"{NOTE}, day: levels of price")
    rows = [(n % 3, f"2024-01-{n % 2 + 1:02}", Decimal(n % 7), n % 5) for n in range(60)]
    for at in range(0, 60, 9):
        mill.insert("bids", [*rows[at : at + 9], (None, "2024-01-01", None, 1)])
        mill.insert("asks", [(b, day, p / 2, v * 4) for b, day, p, v in rows[at : at + 9]])
        assert mill["v"].verify() == []
    assert mill["v"].rows()
    mill.delete("asks", [(b, day, p / 2, v * 4) for b, day, p, v in rows])
    assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
def test_what_the_view_shows_survives_a_restart(tmp_path):
    condition = run_case(BY_BROKER, "<", "sum", "<=")[0]
    rows = [(n % 3, n % 5, Decimal(n % 7)) for n in range(40)]
    with vm.connect(str(tmp_path / "m")) as mill:
        mill.sql(f"CREATE TABLE bids ({ANY_BROKER})")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {money_of(condition, by_broker=True)}")
        mill.insert("bids", rows)
        shown = sorted(mill["v"].rows())
    with vm.connect(str(tmp_path / "m")) as mill:
        assert sorted(mill["v"].rows()) == shown
        mill.delete("bids", rows[:20])
        assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("inside", ["max(y.volume)", "count(DISTINCT y.volume)"])
def test_other_functions_over_all_rows_leave_the_query_to_others(inside):
    mill = vm.connect()
    mill.sql("CREATE TABLE bids (broker INT, price BIGINT, volume BIGINT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(b.price) AS s FROM bids b WHERE "
             "(SELECT sum(x.volume) FROM bids x WHERE x.broker = b.broker) > 2 * b.price "
             f"AND (SELECT {inside} FROM bids y) >= 3")  # fmt: skip
    mill.insert("bids", [(1, 2, 9), (1, 1, 3), (2, 9, 1)])
    assert mill["v"].rows() == [(3,)]
    mill.delete("bids", [(1, 2, 9)])
    assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
def test_rows_of_a_key_decide_between_joins_and_the_index(mill):
    """Where an aggregate is compared with many rows, joins meet all of them at every change."""
    mill.sql("CREATE TABLE l (k INT, q INT) UNCHECKED; CREATE TABLE p (k INT, b INT) UNCHECKED")
    sql = ("SELECT sum(l.q) AS s FROM l, p WHERE p.k = l.k AND p.b = 1 AND "
           "2 * l.q < (SELECT avg(m.q) FROM l m WHERE m.k = p.k)")  # fmt: skip
    mill.insert("p", [(k, k % 3) for k in range(500)])
    mill.insert("l", [(n % 50, n % 7) for n in range(20_000)])
    mill.sql(f"CREATE MATERIALIZED VIEW few AS {sql}")
    assert "aggregate_index" in mill["few"].status()["strategy"]
    mill.insert("l", [(1, 1), (4, 0), (None, 3)])
    assert mill["few"].verify() == []

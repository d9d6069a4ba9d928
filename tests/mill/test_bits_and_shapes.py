"""Bits, truths, skewness and kurtosis of groups, against Python lists and fractions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import reduce
from operator import and_, or_, xor
from typing import Any

import pytest

import viewmill as vm

TYPES = {"y": ("TINYINT", 8), "s": ("SMALLINT", 16), "i": ("INT", 32), "k": ("BIGINT", 64)}
FLOATS = (None, 1e6 + 1, 1e6 - 1, 1e6 + 0.1, -3.5, 0.1, 2.0, 1e15, 1e60, math.nan, math.inf)

Row = tuple[Any, ...]


def folded(fold: Callable[[int, int], int], values: Iterable[int | None]) -> int | None:
    known = [each for each in values if each is not None]
    return reduce(fold, known) if known else None


def shape(values: Iterable[float | None], power: int) -> float | None:
    known = [each for each in values if each is not None]
    if not all(map(math.isfinite, known)):
        return math.nan
    exact = [Fraction(each) for each in known]
    mean = sum(exact) / max(len(exact), 1)
    squares, powers = (float(sum((x - mean) ** k for x in exact)) for k in (2, power))
    if squares == 0:
        return None
    if power == 3:
        return math.sqrt(len(exact)) * powers / math.sqrt(squares * squares * squares)
    return len(exact) * powers / (squares * squares) - 3


def same(one: Any, other: Any) -> bool:
    if not isinstance(one, float) or not isinstance(other, float) or one == other:
        return bool(one == other)
    return (math.isnan(one) and math.isnan(other)) or abs(one - other) <= 1e-9 * abs(other)


def row_of(group: int, rows: list[Row]) -> Row:
    found: list[Any] = [group]
    for at in range(1, 5):
        found += [folded(each, (row[at] for row in rows)) for each in (or_, and_, xor)]
    some = [row[6] for row in rows if row[6] is not None]
    kept = [row[3] for row in rows if row[6]]
    floats = [row[5] for row in rows]
    truths = [all(some), any(some)] if some else [None, None]
    return (*found, *truths, folded(or_, kept), shape(floats, 3), shape(floats, 4))


def check(mill: Any, rows: list[Row]) -> None:
    found = {row[0]: row for row in mill["v"]}
    groups = {row[0] for row in rows}
    assert found.keys() == groups
    for group in groups:
        expected = row_of(group, [row for row in rows if row[0] == group])
        assert all(map(same, found[group], expected)), (found[group], expected)


def new_row(chance: random.Random) -> Row:
    limits = [1 << (bits - 1) for _, bits in TYPES.values()]
    whole = [chance.choice((None, 0, -1, m - 1, -m, chance.randrange(-m, m))) for m in limits]
    return (chance.randrange(2), *whole, chance.choice(FLOATS), chance.choice((None, True, False)))


def test_what_comes_and_goes_leaves_no_trace(tmp_path, uncompiled):
    chance = random.Random(4)
    bits = "bit_or({0}) AS {0}1, bit_and({0}) AS {0}2, bit_xor({0}) AS {0}3"
    calls = ", ".join(map(bits.format, TYPES))
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in TYPES.items())
    rows: list[Row] = []
    with vm.connect(tmp_path) as mill:
        mill.sql(f"CREATE TABLE t (g INT, {columns}, d DOUBLE, b BOOLEAN)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS "
            f"SELECT g, {calls}, every(b) AS e, any(b) AS a, bit_or(i) FILTER (WHERE b) AS f, "
            "skewness(d) AS s, kurtosis(d) AS q FROM t GROUP BY g"
        )
        for _ in range(15):
            gone = chance.sample(rows, len(rows) // 2) if chance.random() < 0.4 else []
            for each in gone:
                rows.remove(each)
            new = [new_row(chance) for _ in range(chance.randint(1, 4))]
            rows += [*new, new[0]]
            mill.delete("t", gone)
            mill.insert("t", [*new, new[0]])
            check(mill, rows)
        assert not mill["v"].verify()
    with vm.connect(tmp_path) as mill:
        check(mill, rows)


def test_a_change_does_not_walk_through_the_values_of_its_group(mill, uncompiled):
    mill.sql("CREATE TABLE t (g INT, k BIGINT, d DOUBLE)")
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT g, bit_or(k) AS o, bit_xor(k) AS x, "
        "bool_or(k > 1) AS b, skewness(d) AS s, kurtosis(d) AS q FROM t GROUP BY g"
    )
    program = mill._core.catalog.view("v").block.program
    assert [state.name for state in program.states] == ["groups"]


@pytest.mark.parametrize("compiler", ["on", "off"])
def test_shapes_are_exact_far_from_zero_and_after_large_values(monkeypatch, compiler):
    monkeypatch.setenv("VIEWMILL_COMPILER", compiler)
    values = [1e6 + each for each in (1, 2.25, 5.1, 11)]
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (d DOUBLE)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT skewness(d) AS s, kurtosis(d) AS k FROM t")
        mill.insert("t", [(each,) for each in values])
        mill.wait_until_compiled(60)
        (before,) = mill["v"]
        mill.insert("t", [(1e70,), (math.inf,), (1e300,), (1e-30,), (3.0,), (3.0,)])
        mill.delete("t", [(1e300,), (3.0,), (1e70,), (3.0,), (math.inf,), (1e-30,)])
        assert list(mill["v"]) == [before]
    assert all(map(same, before, (shape(values, 3), shape(values, 4))))

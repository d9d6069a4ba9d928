"""The moments of a star as DuckDB computes them: row by row, and from the moments of each table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

from viewmill.bench.joins import Scalar


@dataclass(frozen=True)
class Part:
    """A table with its keys and the columns whose moments are wanted."""

    table: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]


def listed(columns: Sequence[str], joined: str) -> str:
    """Count, sums and products over the rows of the join."""
    pairs = [f"{a}::DOUBLE * {b}" for a, b in combinations_with_replacement(columns, 2)]
    sums = [f"SUM({each}::DOUBLE)" for each in columns] + [f"SUM({each})" for each in pairs]
    return f"SELECT COUNT(*), {', '.join(sums)} FROM {joined}"


def factorized(parts: Sequence[Part], key: str) -> str:
    """An independent query for the moments: from sums by key; the key is the first column."""
    grouped = []
    for part in parts:
        pairs = combinations_with_replacement(part.columns, 2)
        kept = [f"SUM({c})::DOUBLE AS s_{c}" for c in part.columns]
        kept += [f"SUM({a} * {b})::DOUBLE AS q_{a}_{b}" for a, b in pairs]
        inside = ", ".join([key, f"COUNT(*)::DOUBLE AS n_{part.table}", *kept])
        grouped.append(f"(SELECT {inside} FROM {part.table} GROUP BY {key}) {part.table}")
    joined = grouped[0] + "".join(f" JOIN {each} USING ({key})" for each in grouped[1:])
    owner = {column: part.table for part in parts for column in part.columns}
    counts = [f"n_{part.table}" for part in parts]

    def total(*columns: str) -> str:
        return f"SUM({_product(columns, key, owner, counts)})"

    columns = (key, *owner)
    pairs = combinations_with_replacement(columns, 2)
    shown = [total(), *(total(each) for each in columns), *(total(a, b) for a, b in pairs)]
    return f"SELECT {', '.join(shown)} FROM {joined}"


def _product(
    columns: tuple[str, ...], key: str, owner: dict[str, str], counts: Sequence[str]
) -> str:
    """What a key contributes: moments of the tables that have the columns, counts of the others."""
    factors = [key for each in columns if each == key]
    own = [each for each in columns if each != key]
    tables = {owner[each] for each in own}
    if len(own) == 2 and len(tables) == 1:
        factors.append(f"q_{own[0]}_{own[1]}")
    else:
        factors += [f"s_{each}" for each in own]
    factors += [each for each in counts if each.removeprefix("n_") not in tables]
    return " * ".join(f"{each}::DOUBLE" for each in factors)


def by_number(columns: Sequence[str], joined: str) -> tuple[Scalar, ...]:
    """One of each kind of number of the moments: the count, a sum, a product of two columns of one
    table, and one of columns of two tables."""
    pairs = list(combinations_with_replacement(range(len(columns)), 2))
    table = [each.split(".")[0] for each in columns]
    within = [i for i, (a, b) in enumerate(pairs) if table[a] == table[b]]
    across = [i for i, (a, b) in enumerate(pairs) if table[a] != table[b]]
    first = len(columns) + 1  # where products begin

    def shown(expression: str) -> str:
        return f"SELECT {expression} AS v FROM {joined}"

    found = [
        Scalar(shown("COUNT(*)"), 0, 1),
        Scalar(shown(f"SUM({columns[-1]})"), len(columns), len(columns)),
    ]
    for chosen in (within, across):
        i = chosen[len(chosen) // 2]
        a, b = (columns[each] for each in pairs[i])
        found.append(Scalar(shown(f"SUM({a} * {b})"), first + i, len(chosen)))
    return tuple(found)


def is_same(shown: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> bool:
    """Whether a view of one cofactor shows these moments."""
    ((value,),) = shown
    (numbers,) = expected
    ours = [value["n"], *value["sums"], *value["products"]]
    return len(ours) == len(numbers) and all(
        math.isclose(a, b, rel_tol=1e-9) for a, b in zip(ours, numbers, strict=True)
    )

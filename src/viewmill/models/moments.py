"""What a model needs of a view: for each row its keys, and the moments of its columns.

takes  a view with one cofactor column; other columns are keys
gives  `Moments` of numbers and, from keys, of categories: a category is the sum of its rows
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.deltas.least_squares import square
from viewmill.errors import InvalidArgument, UnknownName, nearest

Floats = npt.NDArray[np.float64]
Category = tuple[str, Any]  # a key and one of its values: a column that is 0 or 1


@dataclass(frozen=True)
class Moments:
    """Count, sums and products of columns, by name."""

    columns: tuple[str | Category, ...]
    n: float
    sums: Floats
    products: Floats


@dataclass(frozen=True)
class Group:
    """A row of the view: its keys, and the moments of its columns."""

    keys: dict[str, Any]
    moments: Moments


def read_groups(view: Any) -> list[Group]:
    """The rows of a view that has one cofactor column."""
    table = view.to_arrow()
    found = [i for i, field in enumerate(table.schema) if _is_cofactor(field.type)]
    if len(found) != 1:
        raise InvalidArgument(
            f"the view has {len(found)} columns of moments, one is needed",
            hint="SELECT cofactor(y, x1, x2) AS c FROM ..., with GROUP BY for categories.",
        )
    (at,) = found
    names = [name for i, name in enumerate(table.column_names) if i != at]
    groups = []
    for row in table.to_pylist():
        value = row[table.column_names[at]]
        if value is not None:
            columns, m = tuple(value["names"]), len(value["names"])
            products = square(m, np.array(value["products"], np.float64))
            sums = np.array(value["sums"], np.float64)
            moments = Moments(columns, float(value["n"]), sums, products)
            groups.append(Group({name: row[name] for name in names}, moments))
    return groups


def _is_cofactor(type_: Any) -> bool:
    fields = {type_.field(i).name for i in range(type_.num_fields)}
    return fields == {"n", "names", "sums", "products"}


def with_categories(
    groups: Sequence[Group], numbers: Sequence[str], keys: Sequence[str]
) -> Moments:
    """The moments of numeric columns and of a column of 0 and 1 for each value of each key."""
    values = {key: _sorted({group.keys[key] for group in groups}) for key in keys}
    columns: list[str | Category] = [*numbers]
    columns += [(key, value) for key in keys for value in values[key]]
    m, count = len(columns), len(numbers)
    place = {each: i for i, each in enumerate(columns)}
    n, sums, products = 0.0, np.zeros(m), np.zeros((m, m))
    for group in groups:
        own = [column_of(group.moments.columns, name) for name in numbers]
        inside = group.moments
        n += inside.n
        sums[:count] += inside.sums[own]
        products[:count, :count] += inside.products[np.ix_(own, own)]
        ones = [place[key, group.keys[key]] for key in keys]
        for i in ones:
            sums[i] += inside.n
            products[i, :count] += inside.sums[own]
            products[:count, i] += inside.sums[own]
            for j in ones:
                products[i, j] += inside.n
    return Moments(tuple(columns), n, sums, products)


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda each: (each is None, str(type(each)), each))


def column_of(columns: Sequence[str | Category], name: str) -> int:
    """Where a column is, whatever its case."""
    wanted = name.lower()
    for i, each in enumerate(columns):
        if isinstance(each, str) and each.lower() == wanted:
            return i
    raise UnknownName(
        f'no column "{name}" among the moments',
        hint=nearest(name, [each for each in columns if isinstance(each, str)]),
    )

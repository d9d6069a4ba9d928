"""What a model needs of a view: for each row its keys, and the moments of its columns.

takes  a view with one cofactor column; other columns are keys
gives  `Moments` of numbers and, from keys, of categories: a category is the sum of its rows
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.deltas.least_squares import UNKNOWN, Pairs, read_pairs
from viewmill.errors import InvalidArgument, UnknownName, nearest

Floats = npt.NDArray[np.float64]
Category = tuple[str, Any]  # a key and one of its values: a column that is 0 or 1


@dataclass(frozen=True)
class Moments:
    """Count, sums and products of columns, by name."""

    columns: tuple[str | Category, ...]
    matrix: Pairs  # the full one, its first row the count and the sums
    is_known: bool = True  # whether the second parts say what rounding took

    @property
    def n(self) -> float:
        """The number of rows."""
        return float(self.matrix.high[0, 0])


@dataclass(frozen=True)
class Group:
    """A row of the view: its keys, and the moments of its columns."""

    keys: dict[str, Any]
    moments: Moments


def read_groups(view: Any) -> list[Group]:
    """The rows of a view that has one cofactor column."""
    table, words = _read(view)
    found = [i for i, field in enumerate(table.schema) if _is_cofactor(field.type)]
    if len(found) != 1:
        raise InvalidArgument(
            f"the view has {len(found)} columns of moments, one is needed",
            hint="SELECT cofactor(y, x1, x2) AS c FROM ..., with GROUP BY for categories.",
        )
    (at,) = found
    names = [name for i, name in enumerate(table.column_names) if i != at]
    groups = []
    column = table.column_names[at]
    for i, row in enumerate(table.to_pylist()):
        value = row[column]
        if value is not None:
            numbers = np.array([value["n"], *value["sums"], *value["products"]], np.float64)
            lows = words[column][i, len(numbers) :] if column in words else UNKNOWN + numbers
            columns = tuple(value["names"])
            moments = Moments(columns, *read_pairs(len(columns), numbers, lows))
            groups.append(Group({name: row[name] for name in names}, moments))
    return groups


def _read(view: Any) -> tuple[Any, Mapping[str, Floats]]:
    """The rows of a view, and of its moments the words if it knows them."""
    read: Callable[[], tuple[Any, Mapping[str, Floats]]] | None
    read = getattr(view, "with_low_parts", None)
    return (view.to_arrow(), {}) if read is None else read()


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
    size, place = len(columns) + 1, {each: i for i, each in enumerate(columns, 1)}
    total = Pairs(np.zeros((size, size)), np.zeros((size, size)))
    for group in groups:
        own = [1 + column_of(group.moments.columns, name) for name in numbers]
        ones = [place[key, group.keys[key]] for key in keys]
        # The group's value of a category is 1 in all of its rows, like the column of the count.
        read, to = [0, *own, *(0 for _ in ones)], [*range(len(numbers) + 1), *ones]
        there = np.ix_(to, to)
        added = total[there].plus(group.moments.matrix[np.ix_(read, read)])
        total.high[there], total.low[there] = added.high, added.low
    return Moments(tuple(columns), total, all(each.moments.is_known for each in groups))


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda each: (each is None, str(type(each)), each))


def column_of(columns: Sequence[str | Category], name: str) -> int:
    """The position of a column, ignoring case."""
    wanted = name.lower()
    for i, each in enumerate(columns):
        if isinstance(each, str) and each.lower() == wanted:
            return i
    raise UnknownName(
        f'no column "{name}" among the moments',
        hint=nearest(name, [each for each in columns if isinstance(each, str)]),
    )

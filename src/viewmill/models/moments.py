"""What a model needs of a view: for each row its keys, and the moments of its columns.

takes  a view with one cofactor column; other columns are keys
gives  `Moments` of numbers and of categories, which are keys or columns of the cofactor
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.mixed_moments import MixedMoments
from viewmill.deltas.least_squares import UNKNOWN, Centred, Pairs, read_pairs
from viewmill.deltas.mixed_values import Counts, MixedGroup
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

    def centred(self) -> Centred:
        """Around the means, in units of deviations; there are rows."""
        numbers = sum(isinstance(each, str) for each in self.columns)
        return Centred.from_pairs(self.matrix, self.is_known, numbers)


@dataclass(frozen=True)
class Levels:
    """The values of a category, and for each the count of its rows and the sums of the numbers."""

    values: list[Any]
    sums: Pairs  # a row for each value


@dataclass(frozen=True)
class Group:
    """A row of the view: its keys, the moments of its numbers, and what it has by category."""

    keys: dict[str, Any]
    moments: Moments
    categories: Mapping[str, Levels] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], Counts] = field(default_factory=dict)


def read_groups(view: Any) -> list[Group]:
    """The rows of a view that has one cofactor column."""
    read = getattr(view, "mixed_moments", None)
    found = None if read is None else read()
    if found is not None:
        type_, groups = found
        return [_mixed_group(keys, group, type_) for keys, group in groups]
    table, words = _read(view)
    columns = [i for i, each in enumerate(table.schema) if _is_cofactor(each.type)]
    if len(columns) != 1:
        raise InvalidArgument(
            f"the view has {len(columns)} columns of moments, one is needed",
            hint="SELECT cofactor(y, x1, x2) AS c FROM ..., with GROUP BY for categories.",
        )
    (at,) = columns
    column = table.column_names[at]
    names = [name for i, name in enumerate(table.column_names) if i != at]
    made = []
    for i, row in enumerate(table.to_pylist()):
        value = row[column]
        if value is None:
            continue
        keys = {name: row[name] for name in names}
        if "categories" in value:
            made.append(_shown_group(keys, value))
            continue
        numbers = np.array([value["n"], *value["sums"], *value["products"]], np.float64)
        lows = words[column][i, len(numbers) :] if column in words else UNKNOWN + numbers
        own = tuple(value["names"])
        made.append(Group(keys, Moments(own, *read_pairs(len(own), numbers, lows))))
    return made


def _mixed_group(keys: dict[str, Any], group: MixedGroup, type_: MixedMoments) -> Group:
    """A group as its maintainer holds it."""
    m = len(type_.numbers)
    size = 1 + m + m * (m + 1) // 2

    def halves(numbers: Floats) -> tuple[Floats, Floats]:
        low = numbers[..., size:] if m else np.zeros_like(numbers)
        return numbers[..., :size], low

    moments = Moments(type_.numbers, *read_pairs(m, *halves(group.numbers)))
    names = [name for name, _ in type_.categories]
    levels = {}
    for name, each in zip(names, group.levels, strict=True):
        high, low = halves(each.numbers)
        levels[name] = Levels(each.values.to_pylist(), Pairs(high[:, : m + 1], low[:, : m + 1]))
    pairs = {
        (names[i], names[j]): each for (i, j), each in zip(type_.pairs, group.pairs, strict=True)
    }
    return Group(keys, moments, levels, pairs)


def _shown_group(keys: dict[str, Any], value: Mapping[str, Any]) -> Group:
    """A group as SQL shows it: what rounding took is not known."""
    numbers = np.array([value["n"], *value["sums"], *value["products"]], np.float64)
    own = tuple(value["names"])
    moments = Moments(own, *read_pairs(len(own), numbers, UNKNOWN + numbers))
    levels, places = {}, {}
    for each in value["categories"]:
        rows = np.array([[e["n"], *e["sums"]] for e in each["levels"]], np.float64)
        rows = rows.reshape(-1, 1 + len(own))
        texts = [e["value"] for e in each["levels"]]
        places[each["name"]] = {text: i for i, text in enumerate(texts)}
        values = [_typed(text, each["type"]) for text in texts]
        levels[each["name"]] = Levels(values, Pairs(rows, np.zeros_like(rows)))
    pairs = {}
    for each in value["pairs"]:
        a, b = each["a"], each["b"]
        first = np.array([places[a][e["a"]] for e in each["counts"]], np.int64)
        second = np.array([places[b][e["b"]] for e in each["counts"]], np.int64)
        counts = np.array([e["n"] for e in each["counts"]], np.float64)
        pairs[a, b] = Counts(first, second, counts)
    return Group(keys, moments, levels, pairs)


def _typed(text: str, type_: str) -> Any:
    """A category's value from its text."""
    if type_ == "STRING":
        return text
    if type_ == "BOOLEAN":
        return text == "true"
    return dt.date.fromisoformat(text) if type_ == "DATE" else int(text)


def _read(view: Any) -> tuple[Any, Mapping[str, Floats]]:
    """The rows of a view, and of its moments the words if it knows them."""
    read: Callable[[], tuple[Any, Mapping[str, Floats]]] | None
    read = getattr(view, "with_low_parts", None)
    return (view.to_arrow(), {}) if read is None else read()


def _is_cofactor(type_: Any) -> bool:
    fields = {type_.field(i).name for i in range(type_.num_fields)}
    return fields - {"categories", "pairs"} == {"n", "names", "sums", "products"}


def with_categories(
    groups: Sequence[Group], numbers: Sequence[str], categories: Sequence[str]
) -> Moments:
    """The moments of numeric columns and of a column of 0 and 1 for each value of each category.

    A category is a key of the view, or one that its cofactor was given.
    """
    return OneHot(groups, numbers, categories).moments()


class OneHot:
    """Adds the moments of groups up, each category as columns of 0 and 1."""

    def __init__(
        self, groups: Sequence[Group], numbers: Sequence[str], categories: Sequence[str]
    ) -> None:
        self._groups, self._numbers, self._names = groups, numbers, categories
        values = {name: _sorted(_values(groups, name)) for name in categories}
        columns: list[str | Category] = [*numbers]
        columns += [(name, value) for name in categories for value in values[name]]
        self.columns = tuple(columns)
        self._place = {each: i for i, each in enumerate(columns, 1)}
        size = len(columns) + 1
        self._total = Pairs(np.zeros((size, size)), np.zeros((size, size)))

    def moments(self) -> Moments:
        """The sum over all groups."""
        for group in self._groups:
            self._add_group(group)
        known = all(each.moments.is_known for each in self._groups)
        return Moments(self.columns, self._total, known)

    def _add_group(self, group: Group) -> None:
        own = [0, *(1 + column_of(group.moments.columns, name) for name in self._numbers)]
        inner = [name for name in self._names if name in group.categories]
        # The group's value of a key is 1 in all of its rows, like the column of the count.
        ones = [self._place[n, group.keys[n]] for n in self._names if n not in group.categories]
        read, to = [*own, *(0 for _ in ones)], [*range(len(self._numbers) + 1), *ones]
        self._add(to, to, group.moments.matrix[np.ix_(read, read)])
        places = {
            name: np.array([self._place[name, each] for each in group.categories[name].values], int)
            for name in inner
        }
        for name, at in places.items():
            sums = group.categories[name].sums[:, read]
            self._add_twice(at, np.array(to), sums)
            self._add_places(at, at, sums.high[:, 0])
        for i, a in enumerate(inner):
            for b in inner[i + 1 :]:
                first, second, counts = _counts(group, a, b)
                self._add_places(places[a][first], places[b][second], counts)
                self._add_places(places[b][second], places[a][first], counts)

    def _add(self, rows: Any, columns: Any, more: Pairs) -> None:
        there = np.ix_(rows, columns)
        added = self._total[there].plus(more)
        self._total.high[there], self._total.low[there] = added.high, added.low

    def _add_twice(self, rows: Any, columns: Any, more: Pairs) -> None:
        self._add(rows, columns, more)
        self._add(columns, rows, Pairs(more.high.T, more.low.T))

    def _add_places(self, rows: Any, columns: Any, counts: Floats) -> None:
        """Counts are exact."""
        self._total.high[rows, columns] += counts


def _counts(group: Group, a: str, b: str) -> tuple[Any, Any, Floats]:
    if (a, b) in group.pairs:
        found = group.pairs[a, b]
        return found.first, found.second, found.counts
    found = group.pairs[b, a]
    return found.second, found.first, found.counts


def _values(groups: Sequence[Group], name: str) -> set[Any]:
    """The values of a category in all groups."""
    found: set[Any] = set()
    for group in groups:
        found |= (
            set(group.categories[name].values) if name in group.categories else {group.keys[name]}
        )
    return found


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

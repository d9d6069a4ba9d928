"""Find products in a bag of rows.

takes  rows as numbers: one code for each different value of a column
gives  terms, each a product of parts with signed multiplicities, whose union is the bag

First the bag as one product, cut as finely as it goes. Else one column against the others: rows
with the same partners go together, and partners that are almost those of a larger group are that
group's, with a correction of opposite sign. The way with the fewest values wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from viewmill.deltas.consolidate import group_rows

Ints = npt.NDArray[np.int64]

_MOST_UNITS = 10  # groups of columns up to which every cut in two is tried
_MOST_BASES = 32


@dataclass(frozen=True)
class Groups:
    """The different rows over some columns, and for each row of the bag its number."""

    rows: Ints
    number: Ints


@dataclass(frozen=True)
class Coded:
    """Rows as codes, with the values that the codes stand for."""

    names: tuple[str, ...]
    codes: Ints
    times: Ints
    dictionaries: tuple[Any, ...]

    @classmethod
    def of(cls, table: Any, times: Ints, *, consolidated: bool = True) -> Coded:
        """The rows of an Arrow table; equal ones become one unless told otherwise."""
        codes = np.empty((table.num_rows, table.num_columns), np.int64)
        dictionaries = []
        for i, column in enumerate(table.columns):
            encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
            if isinstance(encoded, pa.ChunkedArray):
                encoded = encoded.chunk(0)
            codes[:, i] = encoded.indices.to_numpy(zero_copy_only=False)
            dictionaries.append(encoded.dictionary)
        made = cls(tuple(table.column_names), codes, times, tuple(dictionaries))
        return made._consolidated() if consolidated else made

    def _consolidated(self) -> Coded:
        if not len(self.codes):
            return self
        first, number = group_rows(self.codes)
        times = np.zeros(len(first), np.int64)
        np.add.at(times, number, self.times)
        kept = np.flatnonzero(times)
        return Coded(self.names, self.codes[first[kept]], times[kept], self.dictionaries)

    def groups(self, columns: Sequence[int]) -> Groups:
        """The different rows over some columns."""
        words = np.ascontiguousarray(self.codes[:, columns])
        first, number = group_rows(words)
        return Groups(words[first], number)

    def values(self, column: int, codes: Ints) -> Any:
        """What codes of a column stand for."""
        return self.dictionaries[column].take(pa.array(codes))


@dataclass(frozen=True)
class Part:
    """A factor: different rows over some columns, with multiplicities."""

    columns: tuple[int, ...]
    rows: Ints
    times: Ints

    @property
    def values(self) -> int:
        """How many values it has."""
        return int(self.rows.size)


Term = tuple[Part, ...]


def decompose(coded: Coded) -> list[Term]:
    """Terms whose union is the bag, with few values."""
    if not len(coded.codes):
        return []
    whole = Part(tuple(range(len(coded.names))), coded.codes, coded.times)
    cut = product_parts(whole)
    # A union inside a product is a union of products, each with the other factors again.
    ways = [[cut]]
    for part in cut:
        others = tuple(each for each in cut if each is not part)
        ways += [[(*term, *others) for term in way] for way in _unions(part)]
    return min(ways, key=_cost)


def _unions(part: Part) -> Iterator[list[Term]]:
    """Ways to write a part that is no product: one column against the others."""
    for i in part.columns if len(part.columns) > 1 else ():
        rest = tuple(c for c in part.columns if c != i)
        for left, right in (((i,), rest), (rest, (i,))):
            terms = _by_partners(part, left, right)
            yield [tuple(p for each in term for p in product_parts(each)) for term in terms]


def _cost(terms: list[Term]) -> int:
    return sum(part.values for term in terms for part in term)


# One product.


def product_parts(part: Part) -> Term:
    """The finest product that a part is; itself if it is none."""
    units = _bound_together(part)
    for size in range(1, len(units) // 2 + 1 if len(units) <= _MOST_UNITS else 2):
        for chosen in combinations(units, size):
            left = tuple(sorted(c for unit in chosen for c in unit))
            right = tuple(c for c in part.columns if c not in left)
            halves = _halves(part, left, right)
            if halves is not None:
                # What was chosen first is smallest, so it cannot be cut any further.
                return (halves[0], *product_parts(halves[1]))
    return (part,)


def _bound_together(part: Part) -> list[tuple[int, ...]]:
    """Columns that depend on each other two by two cannot be in different factors."""
    units = [{c} for c in part.columns]
    if len(units) > 2:
        for a, b in combinations(part.columns, 2):
            pairs = len(group_rows(_of(part, (a, b)))[0])
            if pairs < _count(part, a) * _count(part, b):
                together = [unit for unit in units if a in unit or b in unit]
                if len(together) == 2:
                    units.remove(together[1])
                    together[0] |= together[1]
    return [tuple(sorted(unit)) for unit in units]


def _of(part: Part, columns: Sequence[int]) -> Ints:
    places = [part.columns.index(c) for c in columns]
    return np.ascontiguousarray(part.rows[:, places])


def _count(part: Part, column: int) -> int:
    return len(np.unique(_of(part, (column,))))


def _halves(part: Part, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[Part, Part] | None:
    """A part as the product of its rows over two sets of columns, or None."""
    a, b = _of(part, left), _of(part, right)
    first, ours = group_rows(a)
    second, theirs = group_rows(b)
    if len(first) * len(second) != len(part.rows):
        return None
    times = np.zeros((len(first), len(second)), np.int64)
    times[ours, theirs] = part.times
    v = times[0] // gcd(*times[0].tolist())
    u = times[:, 0] // v[0]
    if not np.array_equal(np.outer(u, v), times):
        return None
    return Part(left, a[first], u), Part(right, b[second], v)


# One set of columns against the others.


@dataclass(frozen=True)
class _Pattern:
    """Partners with their multiplicities, up to a common multiple, and the rows that have them."""

    partners: Ints
    times: Ints
    rows: list[int]
    multiples: list[int]


def _by_partners(part: Part, left: tuple[int, ...], right: tuple[int, ...]) -> list[Term]:
    a, b = _of(part, left), _of(part, right)
    first, ours = group_rows(a)
    second, theirs = group_rows(b)
    patterns = _patterns(ours, theirs, part.times, len(first))
    chosen = _corrected(patterns, len(second), len(left), len(right))
    return [
        (
            Part(left, a[first[np.array(rows, np.int64)]], np.array(multiples, np.int64)),
            Part(right, b[second[partners]], times),
        )
        for partners, times, rows, multiples in chosen
    ]


def _patterns(ours: Ints, theirs: Ints, times: Ints, count: int) -> list[_Pattern]:
    order = np.lexsort((theirs, ours))
    theirs, times = theirs[order], times[order]
    ends = np.searchsorted(ours[order], np.arange(count + 1))
    found: dict[tuple[bytes, bytes], _Pattern] = {}
    for i in range(count):
        partners, own = theirs[ends[i] : ends[i + 1]], times[ends[i] : ends[i + 1]]
        multiple = gcd(*own.tolist()) * (1 if own[0] > 0 else -1)
        own = own // multiple
        name = partners.tobytes(), own.tobytes()
        pattern = found.setdefault(name, _Pattern(partners, own, [], []))
        pattern.rows.append(i)
        pattern.multiples.append(multiple)
    return sorted(found.values(), key=lambda each: -len(each.partners))


_Chosen = tuple[Ints, Ints, list[int], list[int]]  # partners, times, rows, multiples


def _corrected(patterns: list[_Pattern], width: int, left: int, right: int) -> Iterator[_Chosen]:
    """Patterns that stand alone with those that lean on them, then the corrections of the latter.

    A row costs `left` values wherever it is listed, a partner `right`.
    """
    bases: list[tuple[_Pattern, Ints, list[_Pattern]]] = []
    corrections: list[_Chosen] = []
    for pattern in patterns:
        rows, partners = len(pattern.rows), len(pattern.partners)
        costs = [
            rows * left + _differences(pattern, dense, base) * right for base, dense, _ in bases
        ]
        best = min(costs, default=partners * right)
        if best >= partners * right:
            dense = np.zeros(width if len(bases) < _MOST_BASES else 0, np.int64)
            if len(dense):
                dense[pattern.partners] = pattern.times
                bases.append((pattern, dense, []))
            else:
                corrections.append(_alone(pattern))
            continue
        base, dense, leaning = bases[costs.index(best)]
        leaning.append(pattern)
        change = -dense
        change[pattern.partners] += pattern.times
        at = np.flatnonzero(change)
        corrections.append((at, change[at], pattern.rows, pattern.multiples))
    for base, _, leaning in bases:
        together = [base, *leaning]
        yield (
            base.partners,
            base.times,
            [row for each in together for row in each.rows],
            [multiple for each in together for multiple in each.multiples],
        )
    yield from corrections


def _alone(pattern: _Pattern) -> _Chosen:
    return pattern.partners, pattern.times, pattern.rows, pattern.multiples


def _differences(pattern: _Pattern, dense: Ints, base: _Pattern) -> int:
    """In how many partners a pattern differs from a base."""
    there = dense[pattern.partners]
    absent = len(base.partners) - np.count_nonzero(there)
    return int(absent + np.count_nonzero(there != pattern.times))

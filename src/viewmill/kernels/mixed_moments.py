"""Put cofactors with categories together: sparse maps by category and by pair of categories.

takes  Program with a MomentParts body, the Dictionary of the mill
gives  a Maintainer: a changed row of an input changes one entry of one map

What is shown of a group is as large as its maps. It is made when somebody reads it, so a change
costs as much as the entries that change.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.deltas.arrow import decode_column, encode_array
from viewmill.deltas.arrow_types import arrow_schema
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.lazy_columns import LazyColumns, LazyMasks, LazyWords, Pair
from viewmill.deltas.mixed_values import Counts, Levels, MixedGroup, mixed_array
from viewmill.program.program import Maintainer, MomentParts, Program

Key = tuple[int, ...]  # words and null bits
Floats = npt.NDArray[np.float64]
Row = tuple[Any, ...]  # the words and nulls of a row of `whole`

_ENTRY_BYTES = 150  # of the index of a map, roughly


def build(program: Program, dictionary: Dictionary) -> MixedMomentsMaintainer:
    """A maintainer for the program."""
    assert isinstance(program.body, MomentParts)
    return MixedMomentsMaintainer(program, program.body, dictionary)


class SparseNumbers:
    """Numbers by key, in arrays that are read as they are."""

    def __init__(self, key_words: int, width: int) -> None:
        self.index: dict[Key, int] = {}
        self.keys = np.zeros((4, key_words), np.int64)
        self.numbers = np.zeros((4, width))
        self.moves = 0  # how often a key came to count rows, or ceased to
        self._free: list[int] = []
        self._size = 0

    def set(self, key: Key, numbers: Floats | None) -> Floats | None:
        """Replace what a key has; gives what it had. None is nothing."""
        at = self.index.get(key)
        old = None if at is None else self.numbers[at].copy()
        if numbers is None:
            if at is not None:
                del self.index[key]
                self.moves += 1
                self.numbers[at] = 0.0
                self._free.append(at)
            return old
        if at is None:
            at = self._free.pop() if self._free else self._new()
            self.index[key] = at
            self.keys[at] = key
        if (self.numbers[at, 0] > 0) != (numbers[0] > 0):
            self.moves += 1
        self.numbers[at] = numbers
        return old

    def _new(self) -> int:
        if self._size == len(self.keys):
            self.keys = np.concatenate((self.keys, np.zeros_like(self.keys)))
            self.numbers = np.concatenate((self.numbers, np.zeros_like(self.numbers)))
        self._size += 1
        return self._size - 1

    def read(self) -> tuple[npt.NDArray[np.int64], Floats]:
        """The keys that count rows, and their numbers."""
        there = self.numbers[: self._size, 0] > 0
        return self.keys[: self._size][there], self.numbers[: self._size][there]

    def copy(self) -> SparseNumbers:
        """Another one with the same entries."""
        made = SparseNumbers(0, 0)
        made.moves = self.moves
        made.index, made._free, made._size = dict(self.index), list(self._free), self._size
        made.keys, made.numbers = self.keys.copy(), self.numbers.copy()
        return made

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.keys.nbytes + self.numbers.nbytes + _ENTRY_BYTES * len(self.index)


class GroupMoments:
    """A group: its row of `whole`, and a map for each of the other inputs."""

    def __init__(self, widths: Sequence[tuple[int, int]]) -> None:
        self.row: Row | None = None
        self.positions: tuple[list[int], Any] = ([], None)  # what `_positions` found, and when
        self.maps = [SparseNumbers(*each) for each in widths]

    def set(self, at: int, key: Key, value: Any) -> Any:
        """Replace an entry; the row is that of map -1."""
        if at >= 0:
            return self.maps[at].set(key, value)
        old, self.row = self.row, value
        return old

    def copy(self) -> GroupMoments:
        """Another one with the same entries."""
        made = GroupMoments(())
        made.row, made.maps = self.row, [each.copy() for each in self.maps]
        return made

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of the group."""
        return self.row is None and not any(each.index for each in self.maps)


class MixedMomentsMaintainer(Maintainer):
    """A block of cofactors with categories at work."""

    def __init__(self, program: Program, body: MomentParts, dictionary: Dictionary) -> None:
        self.program, self._body, self._dictionary = program, body, dictionary
        others = (*body.by_category, *body.by_pair)
        self._place = {body.whole: -1, **{name: i for i, name in enumerate(others)}}
        self._schemas = {each.name: each.schema for each in program.inputs}
        m = len(body.type.numbers)
        width = 2 * (1 + m + m * (m + 1) // 2) if m else 1
        self._widths = [(1, width)] * len(body.by_category) + [(2, 1)] * len(body.by_pair)
        self._categories = [self._schemas[name][body.key_count] for name in body.by_category]
        self._groups: dict[Key, GroupMoments] = {}
        self._changed: list[tuple[Key, int, Key, Any]] = []  # entries as they were, first to last
        self._is_committed = True
        self._emitted: weakref.ref[_Shown] | None = None

    def clear(self) -> None:
        """Forget everything, before a fill."""
        self._groups, self._changed, self._emitted = {}, [], None

    def apply(self, input: str, delta: Any) -> None:
        """Take changed entries: those that go, then those that come."""
        if not delta.size:
            return
        self._begin()
        place, keys = self._place[input], self._body.key_count
        groups, times = _keys(delta, range(keys)), delta.multiplicities().tolist()
        inner = _keys(delta, range(keys, keys + self._widths[place][0])) if place >= 0 else groups
        values = self._rows(delta) if place < 0 else self._numbers(delta)
        for group, key, n in zip(groups, inner, times, strict=True):
            if n < 0:
                self._set(group, place, key, None)
        for group, key, n, value in zip(groups, inner, times, values, strict=True):
            if n > 0:
                self._set(group, place, key, value)

    def _begin(self) -> None:
        """A new change: what somebody still holds of the last one is made now."""
        if not self._is_committed:
            return
        emitted = None if self._emitted is None else self._emitted()
        if emitted is not None:
            emitted.make()
        self._changed, self._is_committed, self._emitted = [], False, None

    def _set(self, group: Key, place: int, key: Key, value: Any) -> None:
        maps = self._groups.get(group)
        if maps is None:
            maps = self._groups[group] = GroupMoments(self._widths)
        key = key[: self._widths[place][0]] if place >= 0 else ()
        self._changed.append((group, place, key, maps.set(place, key, value)))

    def _rows(self, delta: Delta) -> Iterator[Row]:
        """Rows of `whole`: each column's word and null."""
        for i in range(delta.size):
            yield tuple(
                (column[i].copy() if column.ndim == 2 else column[i], mask is not None and mask[i])
                for column, mask in zip(delta.columns, delta.nulls, strict=True)
            )

    def _numbers(self, delta: Delta) -> Floats:
        """What an entry holds: the last column."""
        column = delta.columns[-1]
        return np.asarray(column if column.ndim == 2 else column[:, np.newaxis], np.float64)

    def flush(self) -> Delta:
        """The old and the new values of the groups that changed since the last commit."""
        touched = list(dict.fromkeys(group for group, _, _, _ in self._changed))
        if self._is_committed or not touched:
            return Delta.empty(self.program.output)
        had = dict.fromkeys(touched, False)
        seen = set[Key]()
        for group, place, _, old in self._changed:
            if place < 0 and group not in seen:
                seen.add(group)
                had[group] = old is not None
        has = {group: self._groups[group].row is not None for group in touched}
        before = [g for g in touched if (had[g] if g in seen else has[g])]
        after = [group for group in touched if has[group]]
        shown = _Shown(self, before, after)
        self._emitted = weakref.ref(shown)
        times = np.array([-1] * len(before) + [1] * len(after), np.int64)
        columns = LazyWords(shown)
        return Delta(self.program.output, columns, LazyMasks(shown), times, len(times))

    def commit(self) -> None:
        """Keep what was applied."""
        self._is_committed = True
        for group in {each[0] for each in self._changed}:
            if group in self._groups and self._groups[group].is_empty:
                del self._groups[group]

    def rollback(self) -> None:
        """Undo everything applied since the last commit, the last first."""
        if self._is_committed:
            return
        for group, place, key, old in reversed(self._changed):
            self._groups[group].set(place, key, old)
        self.commit()
        self._changed, self._emitted = [], None

    def contents(self) -> Delta:
        """The output as committed."""
        groups = self._groups
        if not self._is_committed:
            groups = groups | self.before({group for group, _, _, _ in self._changed})
        shown = [each for each in groups.values() if each.row is not None]
        lazy = LazyColumns(self.table(shown), _Encoding(self))
        return Delta(self.program.output, LazyWords(lazy), LazyMasks(lazy), None, len(shown))

    def before(self, groups: Iterable[Key]) -> dict[Key, GroupMoments]:
        """Groups as they were before the last change."""
        wanted = set(groups)
        found = {
            group: self._groups[group].copy()
            if group in self._groups
            else GroupMoments(self._widths)
            for group in wanted
        }
        for group, place, key, old in reversed(self._changed):
            if group in wanted:
                found[group].set(place, key, old)
        return found

    def current(self, groups: Iterable[Key]) -> list[GroupMoments]:
        """Groups as they are."""
        return [self._groups[each] for each in groups]

    # Reading.

    def table(self, groups: Sequence[GroupMoments]) -> Any:
        """The rows of some groups as Arrow."""
        schema, arrays = arrow_schema(self.program.output), []
        for i, at in enumerate(self._body.outputs):
            if at == self._body.place:
                arrays.append(mixed_array([*map(self.read, groups)], self._body.type))
                continue
            pairs = [each.row[at] for each in groups if each.row is not None]
            field = self._schemas[self._body.whole][at]
            words = np.array([word for word, _ in pairs])
            mask = np.array([null for _, null in pairs], np.uint8)
            words = words if len(pairs) else Delta.empty(self.program.output).columns[i]
            arrays.append(
                decode_column(words, mask if mask.any() else None, field, self._dictionary)
            )
        return pa.Table.from_arrays(arrays, schema=schema)

    def read(self, group: GroupMoments) -> MixedGroup:
        """The moments of a group, its categories' values decoded."""
        assert group.row is not None
        whole = np.atleast_1d(np.asarray(group.row[self._body.place][0], np.float64))
        count = len(self._body.by_category)
        read = [each.read() for each in group.maps]
        moves = [each.moves for each in group.maps]
        if group.positions[0] != moves:
            group.positions = moves, self._decode([keys for keys, _ in read])
        values, places = group.positions[1]
        levels = [Levels(v, numbers) for v, (_, numbers) in zip(values, read[:count], strict=True)]
        pairs = [
            Counts(place[0], place[1], numbers[:, 0])
            for place, (_, numbers) in zip(places, read[count:], strict=True)
        ]
        return MixedGroup(whole, levels, pairs)

    def _decode(self, keys: Sequence[npt.NDArray[np.int64]]) -> tuple[Any, Any]:
        """The values of each category, and for each pair of categories their positions there."""
        count = len(self._body.by_category)
        values = [
            decode_column(np.ascontiguousarray(words[:, 0]), None, field, self._dictionary)
            for words, field in zip(keys[:count], self._categories, strict=True)
        ]
        places = [
            (_positions(keys[i][:, 0], both[:, 0]), _positions(keys[j][:, 0], both[:, 1]))
            for (i, j), both in zip(self._body.type.pairs, keys[count:], strict=True)
        ]
        return values, places

    def moment_groups(self) -> list[tuple[dict[str, Any], MixedGroup]]:
        """The keys and other shown columns of each group, and its moments, without the struct."""
        shown = [each for each in self._groups.values() if each.row is not None]
        fields, found = self.program.output, []
        for maps in shown:
            keys = {}
            for field, at in zip(fields, self._body.outputs, strict=True):
                if at != self._body.place:
                    word, null = maps.row[at]  # type: ignore[index]
                    mask = np.ones(1, np.uint8) if null else None
                    array = decode_column(np.array([word]), mask, field, self._dictionary)
                    keys[field.name] = array[0].as_py()
            found.append((keys, self.read(maps)))
        return found

    @property
    def dictionary(self) -> Dictionary:
        """The dictionary of the mill."""
        return self._dictionary

    def state_bytes(self) -> Mapping[str, int]:
        """Bytes held, by state."""
        held = sum(each.nbytes for group in self._groups.values() for each in group.maps)
        return {"maps": held}


class _Shown(LazyColumns):
    """Old and new rows of some groups, made when they are read or before they change again."""

    __slots__ = ("__weakref__", "_after", "_before", "_made", "_maintainer")

    def __init__(
        self, maintainer: MixedMomentsMaintainer, before: list[Key], after: list[Key]
    ) -> None:
        self._maintainer, self._before, self._after = maintainer, before, after
        self._made: Any = None
        self.encode, self.made = _Encoding(maintainer), frozenset()
        self.size = len(before) + len(after)
        self._known: dict[int, Pair] = {}
        self._arrays, self._read = {}, ((), ())

    @property
    def width(self) -> int:
        """How many columns."""
        return len(self._maintainer.program.output)

    @property
    def table(self) -> Any:
        """The rows as Arrow."""
        self.make()
        return self._made

    def make(self) -> None:
        """Put the rows together."""
        if self._made is None:
            maintainer = self._maintainer
            old = maintainer.before(self._before)
            rows = [*(old[each] for each in self._before), *maintainer.current(self._after)]
            self._made = maintainer.table(rows)


class _Encoding:
    """Makes words of a column, where a later block wants them."""

    def __init__(self, maintainer: MixedMomentsMaintainer) -> None:
        self._maintainer = maintainer

    def one(self, array: Any, i: int) -> Pair:
        """One column."""
        field = self._maintainer.program.output[i]
        return encode_array(array, field, self._maintainer.dictionary)

    def many(self, table: Any, columns: tuple[int, ...], arrays: Mapping[int, Any]) -> None:
        """Each column is made when it is read."""

    def pushed_filter(self, columns: tuple[int, ...], tests: tuple[Any, ...]) -> None:
        """There is none."""


def _keys(delta: Delta, columns: range) -> list[Key]:
    """Words and null bits of some columns, row by row."""
    parts: list[list[int]] = []
    for i in columns:
        words, mask = delta.columns[i], delta.nulls[i]
        if words.dtype == np.float64:
            words = (words + 0.0).view(np.int64)
        parts.append(words.tolist())
    for i in columns:
        mask = delta.nulls[i]
        if mask is not None:
            parts.append(mask.tolist())
        elif delta.schema[i].nullable:
            parts.append([0] * delta.size)
    return list(zip(*parts, strict=True)) if parts else [()] * delta.size


def _positions(words: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> Any:
    """Where words stand among others."""
    order = np.argsort(words)
    return order[np.searchsorted(words, wanted, sorter=order)]

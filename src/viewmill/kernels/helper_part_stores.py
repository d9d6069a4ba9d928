"""Where the helper parts of a sliding window are kept: part by part, or cumulative.

ByPart      W helper parts make a window; aligned runs of them are rolled up into larger ones
Cumulative  a window is the helper part at its end less the one before its beginning

Both forget old parts; of a window that reaches further back they know nothing (None).
"""

from __future__ import annotations

from bisect import bisect_right
from math import isqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt

from viewmill.kernels.helper_parts import HelperPart, Ints, Layout

Bools = npt.NDArray[np.bool_]


class HelperPartStore(Protocol):
    """Helper parts, with what is not committed yet."""

    def add(self, part: int, change: HelperPart) -> None:
        """Add rows to a part, late ones as well."""

    def put(self, part: int, rows: HelperPart) -> None:
        """The rows of a part, from now on."""

    def window(self, first: int, last: int, known: int) -> HelperPart | None:
        """The groups with rows in these parts; None if some are not kept any more."""

    def next_after(self, part: int) -> int | None:
        """The first part after this one that has rows."""

    def commit(self) -> None:
        """Keep what was added."""

    def rollback(self) -> None:
        """Forget what was added."""

    def forget(self, before: int) -> None:
        """Drop what only windows that begin before this part need."""

    def live(self, known: int) -> Bools:
        """Which groups have rows in a part that is kept."""

    def renumber(self, kept: Ints) -> None:
        """Only these groups are left: group kept[i] is called i from now on."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


class ByPart:
    """Helper parts as they are; a window joins them."""

    def __init__(self, layout: Layout, width: int) -> None:
        self._layout = layout
        self._block = max(2, isqrt(width))  # parts that are rolled up into one
        self._parts: dict[int, HelperPart] = {}
        self._blocks: dict[int, HelperPart] = {}
        self._old: dict[int, HelperPart | None] = {}  # of parts that were touched
        self._floor: int | None = None

    def add(self, part: int, change: HelperPart) -> None:
        """Join the change with what is there."""
        if self._floor is None or part >= self._floor:
            held = self._parts.get(part)
            top = max(int(each.groups[-1]) + 1 for each in (change, held or change))
            self.put(part, change if held is None else self._layout.joined([held, change], top))

    def put(self, part: int, rows: HelperPart) -> None:
        """Replace a part."""
        if self._floor is not None and part < self._floor:
            return
        self._old.setdefault(part, self._parts.get(part))
        self._parts[part] = rows
        self._blocks.pop(part // self._block, None)

    def window(self, first: int, last: int, known: int) -> HelperPart | None:
        """Whole blocks rolled up, single parts at both ends."""
        if self._floor is not None and first < self._floor:
            return None
        found: list[HelperPart] = []
        part = first
        while part <= last:
            block = part // self._block
            if part % self._block == 0 and part + self._block - 1 <= last:
                found.append(self._rolled_up(block, known))
                part += self._block
            else:
                found += [self._parts[part]] if part in self._parts else []
                part += 1
        found = [each for each in found if len(each.groups)]
        return self._layout.joined(found, known) if found else self._layout.empty()

    def _rolled_up(self, block: int, known: int) -> HelperPart:
        made = self._blocks.get(block)
        if made is None:
            parts = range(block * self._block, (block + 1) * self._block)
            inside = [self._parts[each] for each in parts if each in self._parts]
            made = self._layout.joined(inside, known) if inside else self._layout.empty()
            if inside:
                self._blocks[block] = made
        return made

    def next_after(self, part: int) -> int | None:
        """The first part after this one that has rows."""
        return min((each for each in self._parts if each > part), default=None)

    def commit(self) -> None:
        """Keep what was added."""
        for part in self._old:
            if not len(self._parts[part].groups):
                del self._parts[part]
        self._old.clear()

    def rollback(self) -> None:
        """Back to the parts as they were."""
        for part, rows in self._old.items():
            self._blocks.pop(part // self._block, None)
            if rows is None:
                del self._parts[part]
            else:
                self._parts[part] = rows
        self._old.clear()

    def forget(self, before: int) -> None:
        """Drop parts, and what was rolled up of them."""
        gone = [each for each in self._parts if each < before]
        if gone:
            self._floor = before
        for part in gone:
            del self._parts[part]
        for block in [each for each in self._blocks if each * self._block < before]:
            del self._blocks[block]

    def live(self, known: int) -> Bools:
        """The groups of all parts."""
        found = np.zeros(known, np.bool_)
        for each in self._parts.values():
            found[each.groups] = True
        return found

    def renumber(self, kept: Ints) -> None:
        """Groups keep their order, so parts stay ascending."""
        self._blocks.clear()
        self._parts = {
            part: HelperPart(np.searchsorted(kept, h.groups), h.sums, h.keys, h.floats)
            for part, h in self._parts.items()
        }

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(each.nbytes for each in (*self._parts.values(), *self._blocks.values()))


class Cumulative:
    """Sums since the beginning, for every group that is not forgotten, after each part with rows.

    Late rows are added to all later parts. They may wrap around: differences are right.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._sums: dict[int, Ints] = {}
        self._order: list[int] = []
        self._is_cut = False  # the first part stands for all before it
        self._undo: list[tuple[int | None, int, HelperPart]] = []

    def add(self, part: int, change: HelperPart) -> None:
        """Add to this part and to all later ones."""
        if self._is_cut and part <= self._order[0]:
            return  # it would come off again in every difference
        created = None if part in self._sums else part
        if created is not None:
            at = bisect_right(self._order, part)
            self._order.insert(at, part)
            before = self._sums[self._order[at - 1]] if at else np.zeros((len(change.sums), 0))
            self._sums[part] = before.astype(np.int64)
        self._undo.append((created, part, change))
        self._spread(part, change.groups, change.sums)

    def _spread(self, part: int, groups: Ints, sums: Ints) -> None:
        width = int(groups.max(initial=-1)) + 1
        everything = len(groups) == width
        for each in self._order[bisect_right(self._order, part - 1) :]:
            held = self._sums[each]
            if held.shape[1] < width:
                held = np.pad(held, ((0, 0), (0, width - held.shape[1])))
                self._sums[each] = held
            if everything:
                held[:, :width] += sums
            else:
                held[:, groups] += sums

    def put(self, part: int, rows: HelperPart) -> None:
        """Sums are changed by what comes and goes only."""
        raise AssertionError(part)

    def window(self, first: int, last: int, known: int) -> HelperPart | None:
        """The difference of two parts, where it has rows."""
        end, begin = (bisect_right(self._order, each) - 1 for each in (last, first - 1))
        if self._is_cut and begin < 0:
            return None
        if end < 0 or end == begin:
            return self._layout.empty()
        sums = self._sums[self._order[end]].copy()  # late rows change what is kept, not the answer
        if begin >= 0:
            old = self._sums[self._order[begin]]
            sums[:, : old.shape[1]] -= old[:, : sums.shape[1]]
        groups = np.flatnonzero(sums[0] > 0)
        blank = self._layout.blank(groups)
        taken = sums if len(groups) == sums.shape[1] else sums[:, groups]
        return HelperPart(groups, taken, blank.keys, blank.floats)

    def next_after(self, part: int) -> int | None:
        """The first part after this one that has rows."""
        at = bisect_right(self._order, part)
        return self._order[at] if at < len(self._order) else None

    def commit(self) -> None:
        """Keep what was added."""
        self._undo.clear()

    def rollback(self) -> None:
        """Take off what was added."""
        for created, part, change in reversed(self._undo):
            self._spread(part, change.groups, -change.sums)
            if created is not None:
                self._order.remove(created)
                del self._sums[created]
        self._undo.clear()

    def forget(self, before: int) -> None:
        """Keep one part before those: what comes later is counted from there."""
        at = bisect_right(self._order, before - 1) - 1
        for part in self._order[: max(at, 0)]:
            del self._sums[part]
            self._is_cut = True
        del self._order[: max(at, 0)]

    def live(self, known: int) -> Bools:
        """The groups whose count of rows moves between the parts that are kept."""
        found = np.zeros(known, np.bool_)
        if not self._order:
            return found
        first = np.zeros(known, np.int64)
        if self._is_cut:
            oldest = self._sums[self._order[0]][0]
            first[: len(oldest)] = oldest
        for part in self._order:
            counts = self._sums[part][0]
            found[: len(counts)] |= counts != first[: len(counts)]
        return found

    def renumber(self, kept: Ints) -> None:
        """The dead are removed from all parts, or a group that returns would be subtracted."""
        for part, sums in self._sums.items():
            self._sums[part] = np.ascontiguousarray(sums[:, kept[kept < sums.shape[1]]])

    def __len__(self) -> int:
        return len(self._order)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(each.nbytes for each in self._sums.values())

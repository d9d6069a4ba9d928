"""The parts of a temporal view: committed ones, those of the batch under way, their catalog.

Both maintainers of temporal views keep their parts in this: the one that runs queries, and the one
that runs automata. Rows of the view are those of the newest part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakSet

import numpy as np

from viewmill.algebra.schema import Schema
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.rolled_parts import RolledParts
from viewmill.program.parts import PartInfo, Stamps, Unwritten


class KeptParts:
    """Parts `first` to before `next`; those that are not in the dictionaries are empty."""

    has_parts = True

    def __init__(self, schema: Schema, length: int, version: Callable[[], int]) -> None:
        self.schema, self.length = schema, length
        self._version = version
        self._empty = Delta.empty(schema)
        self._parts: dict[int, Delta] = {}
        self._rolled = RolledParts(schema)
        self._catalog: dict[int, PartInfo] = {}
        self._stamps = Stamps()
        self.first: int | None = None
        self.next: int | None = None
        self._saved: tuple[int | None, int | None] = (None, None)
        self._pending: dict[int, Delta] = {}
        self._reopened: set[int] = set()  # what changed while the mill was opened
        self._ahead: set[int] = set()  # parts that are newer than what else was restored
        self.archive: Callable[[int, int, Delta], bool] | None = None
        self.lookback = 0  # how many parts before the oldest shown one are read, by anyone
        self.holders: WeakSet[Any] = WeakSet()  # views above, that read parts later
        self.unwritten: Unwritten | None = None  # for the files of a mill with storage

    @property
    def kept_parts(self) -> KeptParts | None:
        """Itself."""
        return self

    # Changes.

    def keep(self, subscript: int, rows: Delta) -> None:
        """The rows of a part, from now on."""
        self._pending[subscript] = rows

    def has_moved(self) -> bool:
        """Whether parts changed or came, though the newest rows may be as before."""
        return bool(self._pending) or (self.first, self.next) != self._saved

    def commit(self) -> None:
        """Keep the new parts, and note when each changed."""
        now, version = self._stamps.next(), self._version()
        for subscript, rows in self._pending.items():
            old = self._catalog.get(subscript)
            loaded = now if old is None else old.loaded
            count = int(rows.multiplicities().sum())
            self._catalog[subscript] = PartInfo(subscript, count, loaded, now, version)
        for subscript in self._pending if len(self._rolled) else ():
            self._parts |= self._rolled.take_apart(subscript)
        if self.unwritten is not None:
            self.unwritten.change(self._pending)
        self._parts |= self._pending
        self._pending = {}
        self._saved = (self.first, self.next)

    def rollback(self) -> None:
        """Forget the new parts."""
        self.first, self.next = self._saved
        self._pending = {}

    def contents(self) -> Delta:
        """The committed rows of the newest part."""
        _, following = self._saved
        return self._empty if following is None else self._committed(following - 1)

    def _committed(self, subscript: int) -> Delta:
        found = self._parts.get(subscript)
        found = self._rolled.get(subscript) if found is None else found
        return self._empty if found is None else found

    def difference(self) -> Delta:
        """The newest part now minus the newest part before."""
        before = self.contents()
        after = self._empty if self.next is None else self.part(self.next - 1)
        if before is after:
            return self._empty
        return consolidate(concat(self.schema, [after, before.negated()]))

    # States, as maintainers are asked for them: parts are written and restored by the mill.

    def state_bytes(self) -> Mapping[str, int]:
        """Bytes of all parts."""
        size = sum(column.nbytes for part in self._parts.values() for column in part.columns)
        return {"parts": size + self._rolled.nbytes}

    # As a source of parts.

    def first_part(self) -> int | None:
        """The first part."""
        return self.first

    def newest_part(self) -> int | None:
        """The newest part, what is pending included."""
        return None if self.next is None or self.next == self.first else self.next - 1

    def changed_parts(self) -> Iterable[int]:
        """The parts since the last commit that came, or came out different."""
        return {*self._pending, *self._reopened} if self._reopened else self._pending

    def part(self, subscript: int) -> Delta:
        """The rows of a part."""
        found = self._pending.get(subscript)
        return self._committed(subscript) if found is None else found

    def parts_within(self, low: int, high: int) -> list[int]:
        """The parts from low to high that have rows."""
        if high - low < 64:
            return [each for each in range(low, high + 1) if self.part(each).size]
        known = {*self._parts, *self._pending, *self._rolled.subscripts()}
        return sorted(each for each in known if low <= each <= high and self.part(each).size)

    def catalog(self) -> list[PartInfo]:
        """The committed parts, ascending."""
        return [self._catalog[each] for each in sorted(self._catalog)]

    def info(self, subscript: int) -> PartInfo:
        """What the catalog says of a committed part."""
        return self._catalog[subscript]

    def oldest_changing(self) -> int | None:
        """The oldest part that readers must expect to change; None if there is none yet."""
        return self.newest_part()

    def oldest_shown(self) -> int | None:
        """The oldest part that retention leaves to readers."""
        return None

    # Retention, writing and opening.

    @property
    def reach(self) -> tuple[int | None, int | None]:
        """The first kept part and the next one to be made, as of the last commit."""
        return self._saved

    def begin(self, first: int) -> None:
        """Start at this part, whatever else there is."""
        self.first = self.next = first

    def forget(self) -> None:
        """Drop the parts that neither readers nor views can reach any more; the newest is shown."""
        oldest, (_, following) = self.oldest_shown(), self._saved
        if oldest is None or following is None:
            return
        before = min(oldest, following - 1) - self.lookback
        before = min([before, *(each.needs_from for each in self.holders)])
        for first, count, rows in self._ended(before):
            if self.archive is not None and not self.archive(first, count, rows):
                continue  # nothing is lost: it is tried again
            for subscript in range(first, first + count):
                self._parts.pop(subscript, None)
                if self._catalog.pop(subscript, None) is not None and self.unwritten is not None:
                    self.unwritten.end(subscript)
            if count > 1:
                self._rolled.drop(first)

    def _ended(self, before: int) -> list[tuple[int, int, Delta]]:
        single = [(p, 1, self._parts[p]) for p in self._parts if p < before]
        return [*self._rolled.before(before), *single]

    def roll_up(self, width: int, before: int) -> None:
        """Put the parts of whole blocks of `width` parts that end by `before` into one piece."""
        self._rolled.roll_up(self._parts, width, before)

    def block_of(self, subscript: int) -> tuple[int, int] | None:
        """The first part and the number of parts that a part is rolled up with; None: it is not."""
        return self._rolled.block_of(subscript)

    def restore(
        self,
        first: int | None,
        following: int | None,
        parts: Mapping[int, Delta],
        catalog: Iterable[PartInfo],
        ahead: Iterable[int] = (),
    ) -> None:
        """The parts of a checkpoint; those `ahead` are newer, so that what reads them is due."""
        self._parts, self._rolled = dict(parts), RolledParts(self.schema)
        self._catalog = {each.subscript: each for each in catalog}
        self._stamps.follow(self._catalog.values())
        self.first, self.next = first, following
        self._saved = (first, following)
        self._ahead = set(ahead)

    def take_over(self, old: Any, translate: Callable[[Delta], Delta]) -> None:
        """Continue with the parts of a view's maintainer before, with other ids of strings."""
        self._parts = {part: translate(rows) for part, rows in old._parts.items()}
        self._rolled = old._rolled.translated(translate)
        self._catalog, self._pending = dict(old._catalog), {}
        self._stamps = old._stamps
        self.first, self.next = self._saved = old._saved
        self.lookback, self.unwritten = old.lookback, old.unwritten

    def note_reopened(self) -> None:
        """Commit what changed since the checkpoint; views above see it until `settle`."""
        changed = {*self._pending, *self._ahead}
        self.commit()
        self._reopened, self._ahead = changed, set()

    def settle(self) -> None:
        """The mill is open."""
        self._reopened = set()


def is_change(before: Delta, after: Delta) -> bool:
    """Whether two parts differ as bags."""
    if before is after:
        return False
    if not (before.size and after.size):  # a part that is new, or gone
        return before.size != after.size
    return consolidate(concat(after.schema, [after, before.negated()])).size > 0


def is_same(before: Delta, after: Delta) -> bool:
    """Whether two parts are alike row by row: cheap, and sure only when it says yes."""
    if before.size != after.size or before.multiplicity is not None:
        return False
    pairs = zip((*before.columns, *before.nulls), (*after.columns, *after.nulls), strict=True)
    return after.multiplicity is None and all(_are_equal(a, b) for a, b in pairs)


def _are_equal(a: Any, b: Any) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))

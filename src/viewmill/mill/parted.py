"""The time parts of a table: its rows by part, the catalog of parts, and retention.

takes  deltas of a table with TIMESTAMP BY and PARTITION LENGTH
gives  the rows of each part; late rows are refused, counted and listed
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Date
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.part_rows import PartRows, split_parts
from viewmill.errors import NullViolation
from viewmill.program.parts import SECOND, PartInfo, Stamps, Unwritten
from viewmill.sql.statements import RollUp

DAY = 86_400 * SECOND
_LISTED = 1000  # so many refused rows are remembered

Archive = Callable[[int, int, Delta], bool]  # first part, how many, rows; whether it is written


@dataclass(frozen=True)
class PartOptions:
    """TIMESTAMP BY, PARTITION LENGTH (seconds), LATENESS and RETENTION (microseconds), ROLL UP."""

    timestamp_by: str
    length: int
    lateness: int | None = None
    retention: int | None = None
    roll_up: RollUp | None = None
    archive: str | None = None

    def __str__(self) -> str:
        words = f"TIMESTAMP BY {self.timestamp_by} PARTITION LENGTH {self.length}"
        if self.lateness is not None:
            words += f" LATENESS {self.lateness / SECOND:g} s"
        if self.retention is not None:
            words += f" RETENTION {self.retention / SECOND:g} s"
        if self.roll_up is not None:
            words += f" {self.roll_up}"
        return words + ("" if self.archive is None else f" ARCHIVE '{self.archive}'")


@dataclass(frozen=True)
class Refused:
    """A change that was refused because it was too late."""

    version: int
    subscript: int
    row: dict[str, Any]
    multiplicity: int


class Parted:
    """A table's rows in parts. It is a `PartSource`, and holds rows as `Segments` does."""

    def __init__(self, table: str, schema: Schema, options: PartOptions) -> None:
        self._table, self.schema, self.options = table, schema, options
        self.length = options.length
        position = schema.find(options.timestamp_by)
        assert position is not None
        self._time, self._unit = position, options.length * SECOND
        self._scale = DAY if isinstance(schema[position].type, Date) else 1
        self._rows = PartRows(schema)
        self._catalog: dict[int, PartInfo] = {}
        self._stamps = Stamps()
        self._newest: int | None = None
        self._staged_newest: int | None = None
        # How many parts before the oldest one that may still change views read.
        self.lookback = 0
        # During recovery no part is dropped, and the parts that the log changes are collected.
        self.is_loading = False
        self._replayed: set[int] = set()
        self.orders: dict[Any, Any] = {}  # what patterns over the table share, by GROUP BY
        self.holders: WeakSet[Any] = WeakSet()  # readers, each with the oldest part that it needs
        self.archive: Archive | None = None
        self._archived: set[tuple[int, int]] = set()  # first part, how many
        self.unwritten: Unwritten | None = None  # for the files of a mill with storage
        self._filed: dict[int, int] = {}  # during recovery: the version of each part's file
        self.refused_count = 0
        self.refused: deque[Refused] = deque(maxlen=_LISTED)

    def translated(self, translate: Callable[[Delta], Delta]) -> Parted:
        """The same parts with other ids of strings; nobody reads them yet.

        The archive is left out: it writes with the ids of its mill.
        """
        made = Parted(self._table, self.schema, self.options)
        made._rows = self._rows.translated(translate)
        made._catalog, made._newest = dict(self._catalog), self._newest
        made._stamps = self._stamps
        made.lookback, made.unwritten = self.lookback, self.unwritten
        made._archived = set(self._archived)
        made.refused_count, made.refused = self.refused_count, self.refused
        return made

    # Changes.

    def subscripts(self, delta: Delta) -> npt.NDArray[np.int64]:
        """The part of each row."""
        moments = self._moments(delta)
        moments = moments if self._scale == 1 else moments * self._scale
        found: npt.NDArray[np.int64] = np.floor_divide(moments, self._unit)
        return found

    def _moments(self, delta: Delta) -> npt.NDArray[np.int64]:
        """The time of each row, in the unit of the time column."""
        mask = delta.nulls[self._time]
        if mask is not None and mask.any():
            raise NullViolation(
                f'a row of table "{self._table}" has no time',
                detail=f'Column "{self.options.timestamp_by}" says which part it belongs to.',
            )
        return delta.columns[self._time]

    def span(self, delta: Delta) -> tuple[int, int]:
        """The first and the last part of some rows; cheap, and equal for most batches."""
        moments = self._moments(delta)
        low, high = (int(each) * self._scale for each in (moments.min(), moments.max()))
        return low // self._unit, high // self._unit

    def part_of(self, moment: int) -> int:
        """The part of a moment, in the unit of the time column."""
        return moment * self._scale // self._unit

    def end_of(self, subscript: int) -> int:
        """The first moment after a part, in the unit of the time column."""
        return -(-(subscript + 1) * self._unit // self._scale)

    def split(self, delta: Delta) -> Iterator[tuple[int, Delta]]:
        """The rows of each part, ascending."""
        if not delta.size:
            return
        low, high = self.span(delta)
        if low == high:
            yield low, delta
        else:
            yield from split_parts(delta, self.subscripts(delta))

    def too_late(self, delta: Delta) -> npt.NDArray[np.bool_] | None:
        """A mask of the rows below the horizon of the last commit; None if no row is."""
        horizon = self.horizon()
        if horizon is None or not delta.size or self.span(delta)[0] >= horizon:
            return None
        late = self.subscripts(delta) < horizon
        return late if late.any() else None

    def horizon(self) -> int | None:
        """The oldest part that may still change; None if all may."""
        if self._newest is None:
            return None
        found = []
        if self.options.lateness is not None:
            moment = self._newest * self.length * SECOND - self.options.lateness
            found.append(moment // (self.length * SECOND))
        if self.options.retention is not None:
            found.append(self._first_retained(self._newest))
        return max(found) if found else None

    def _first_retained(self, newest: int) -> int:
        assert self.options.retention is not None
        return newest + 1 - -(-self.options.retention // (self.length * SECOND))

    def stage(self, delta: Delta) -> None:
        """Apply a delta to its parts without committing it."""
        for subscript, rows in self.split(delta):
            self._rows.stage(subscript, rows)
            newest = self.newest_part()
            if newest is None or subscript > newest:
                self._staged_newest = subscript

    def reach(self, subscript: int) -> None:
        """Move time forward to a part, which may have no rows; not committed yet."""
        newest = self.newest_part()
        if newest is None or subscript > newest:
            self._staged_newest = subscript

    def missing(self) -> Delta | None:
        """A row with a negative multiplicity in the staged parts, None if there is none."""
        for subscript, deltas in self._rows.staged.items():
            if any(each.multiplicity is not None for each in deltas):
                part = self._rows.part(subscript)
                below = np.flatnonzero(part.multiplicities() < 0)
                if len(below):
                    return part.take(below[:1])
        return None

    def commit(self, version: int) -> None:
        """Commit the staged changes and update the catalog of parts."""
        now = self._stamps.next()
        for subscript, deltas in self._rows.staged.items():
            old = self._catalog.get(subscript)
            change = sum(int(each.multiplicities().sum()) for each in deltas)
            loaded, rows = (now, 0) if old is None else (old.loaded, old.rows)
            self._catalog[subscript] = PartInfo(subscript, rows + change, loaded, now, version)
        if self.is_loading:
            self._replayed.update(self._rows.staged)
        if self.unwritten is not None:
            self.unwritten.change(self._rows.staged)
        self._rows.commit()
        if self._staged_newest is not None:
            self._newest, self._staged_newest = self._staged_newest, None

    def rollback(self) -> None:
        """Drop the staged changes."""
        self._rows.rollback()
        self._staged_newest = None

    # Retention.

    def expired(self) -> Delta | None:
        """Deletes of the rows that expire with the current batch; None if none do."""
        newest = self.newest_part()
        if self.options.retention is None or newest is None:
            return None
        before = self._first_retained(self._newest) if self._newest is not None else None
        low, high = before, self._first_retained(newest) - 1
        gone = [p for p in self._rows.subscripts() if p <= high and (low is None or p >= low)]
        deltas = [self._rows.part(each) for each in gone]  # each is netted already
        if len(deltas) == 1:
            return deltas[0].negated()
        return concat(self.schema, deltas).negated() if deltas else None

    def forget(self) -> None:
        """Drop expired parts that are archived and that no view needs any more."""
        if self.options.retention is None or self._newest is None or self.is_loading:
            return
        ended = self._first_retained(self._newest)
        blocks = list(self._rows.before(ended))
        needed = min((each.needs_from for each in self.holders), default=ended) if blocks else ended
        for first, count, rows in blocks:
            is_written = self._is_archived(first, count, rows)
            if is_written and first + count <= min(ended - self.lookback, needed):
                self._rows.drop(first, count)
                self._archived.discard((first, count))
                for subscript in range(first, first + count):
                    if self._catalog.pop(subscript, None) is None:
                        continue
                    if self.unwritten is not None:
                        self.unwritten.end(subscript)

    def _is_archived(self, first: int, count: int, rows: Delta) -> bool:
        """Write parts to the archive, if there is one; False if that failed: they are kept."""
        if self.archive is not None and (first, count) not in self._archived:
            if not self.archive(first, count, rows):
                return False
            self._archived.add((first, count))
        return True

    def roll_up(self) -> None:
        """Merge small parts that are old enough into larger ones."""
        rolls, newest = self.options.roll_up, self._newest
        if rolls is not None and newest is not None and not self.is_loading:
            before = rolls.oldest_single(newest, self.length)
            self._rows.roll_up(rolls.length // self.length, before)

    def block_of(self, subscript: int) -> tuple[int, int] | None:
        """The first part and the number of parts of a rolled-up block; None if not rolled up."""
        return self._rows.rolled.block_of(subscript)

    # Reading.

    def first_part(self) -> int | None:
        """The oldest part that is kept."""
        found = self._rows.subscripts()
        return found[0] if found else None

    def newest_part(self) -> int | None:
        """The newest part, including staged changes."""
        return self._newest if self._staged_newest is None else self._staged_newest

    def changed_parts(self) -> Iterable[int]:
        """The parts with staged changes; during recovery, also those that the log changed."""
        return {*self._rows.staged, *self._replayed} if self._replayed else self._rows.staged

    def coming(self, subscript: int) -> list[Delta]:
        """The staged changes of a part."""
        return self._rows.staged.get(subscript, [])

    def end_replay(self) -> None:
        """The log has been replayed: forget what only the replay needed."""
        self.is_loading = False
        self._replayed.clear()
        self._filed.clear()

    def start_replay(self) -> None:
        """The log is replayed from here on; parts that it changes are new to the views."""
        self._replayed.clear()

    def oldest_shown(self) -> int | None:
        """The oldest part within RETENTION; None without RETENTION."""
        newest = self.newest_part()
        if self.options.retention is None or newest is None:
            return None
        return self._first_retained(newest)

    def oldest_changing(self) -> int | None:
        """The oldest part that may still change; the newest if nothing says how late rows come."""
        horizon = self.horizon()
        return self.newest_part() if horizon is None else horizon

    def note_catalog(self, catalog: Iterable[PartInfo], refused: int) -> None:
        """Restore the catalog of parts from a checkpoint."""
        self._catalog |= {each.subscript: each for each in catalog}
        self._stamps.follow(self._catalog.values())
        self.refused_count = refused

    def note_ahead(self, infos: Iterable[PartInfo]) -> None:
        """Register parts whose files are newer than the checkpoint; the log has their changes."""
        for each in infos:
            self._catalog[each.subscript] = each
            self._filed[each.subscript] = each.version
            self._replayed.add(each.subscript)
        self._stamps.follow(self._catalog.values())

    def not_filed(self, delta: Delta, version: int) -> Delta:
        """The rows of a logged change that are not in the part files yet."""
        if not delta.size or version > max(self._filed.values(), default=0):
            return delta
        found, at = np.unique(self.subscripts(delta), return_inverse=True)
        filed = np.array([self._filed.get(each, 0) for each in found.tolist()], np.int64)
        return delta.take(filed[at] < version)

    def part(self, subscript: int) -> Delta:
        """The rows of a part."""
        return self._rows.part(subscript)

    def info(self, subscript: int) -> PartInfo:
        """The catalog entry of a committed part."""
        return self._catalog[subscript]

    def parts_within(self, low: int, high: int) -> list[int]:
        """The parts from low to high that have rows."""
        if high - low < 64:
            return [each for each in range(low, high + 1) if each in self._rows]
        return [each for each in self._rows.subscripts() if low <= each <= high]

    def contents(self) -> Delta:
        """The rows of all parts within RETENTION."""
        first = self.oldest_shown()
        if first is None:
            return self._rows.contents()
        deltas = [self._rows.part(p) for p in self._rows.subscripts() if p >= first]
        return concat(self.schema, deltas) if deltas else Delta.empty(self.schema)

    def kept(self) -> Delta:
        """The rows of all parts, including expired ones that views still read."""
        return self._rows.contents()

    def catalog(self) -> list[PartInfo]:
        """The committed parts, ascending."""
        return [self._catalog[each] for each in sorted(self._catalog)]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._rows.nbytes

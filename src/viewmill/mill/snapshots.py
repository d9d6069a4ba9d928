"""A version of a mill that somebody reads while newer ones are committed.

takes  the changes committed since, noted by whoever commits
gives  the rows of a table or view as they were: those of now without the changes since

A commit only notes its deltas; the cost of looking back is the reader's. A version that many
changes came after is given up: its reader starts again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.product import Changed, as_delta
from viewmill.errors import SnapshotTooOld

MAX_NOTED_ROWS = 5_000_000


@dataclass(eq=False)
class Snapshot:
    """One version. `later` holds the changes since, by lower-case name of their table or view."""

    version: int
    generation: int  # of the catalog
    unlisted: Mapping[str, int]  # the refreshes of the views that do not list their changes
    later: dict[str, list[Changed]] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)  # of Arrow, read in this version before
    noted_rows: int = 0
    is_given_up: bool = False

    def note(self, changes: Mapping[str, Changed]) -> None:
        """Note what a commit changes."""
        for name, change in changes.items():
            if change.size:
                self.later.setdefault(name.lower(), []).append(change)
                self.noted_rows += change.size
        if self.noted_rows > MAX_NOTED_ROWS:
            self.is_given_up = True
            self.later.clear()

    def before(self, name: str, rows: Delta) -> Delta:
        """The rows of a source at this version, given those of now."""
        later = self.later.get(name.lower())
        if not later:
            return rows
        undone = [as_delta(each).negated() for each in later]
        return consolidate(concat(rows.schema, [rows, *undone]))

    def is_newest(self, version: int, generation: int) -> bool:
        """Whether nothing has changed since."""
        same = (self.version, self.generation) == (version, generation)
        return same and not self.later and not self.is_given_up

    def require_held(self, generation: int) -> None:
        """Raise if the version can no longer be read."""
        if self.is_given_up:
            raise too_old(f"More than {MAX_NOTED_ROWS:,} rows have changed since.")
        if generation != self.generation:
            raise too_old("Tables or views were created or dropped since.")


def too_old(detail: str) -> SnapshotTooOld:
    """The error for a version that can no longer be read."""
    return SnapshotTooOld(
        "the version that this transaction reads is gone",
        detail=detail,
        hint="Start a new transaction.",
    )


class LatestTables:
    """Rows of now as Arrow tables, kept until a commit changes them; the oldest go first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, tuple[object, Any]] = OrderedDict()
        self._bytes = 0

    def note(self, changes: Mapping[str, Changed]) -> None:
        """Forget what a commit changes."""
        for name in changes:
            self._forget(name.lower())

    def _forget(self, key: str) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._bytes -= found[1].nbytes

    def get(self, name: str, owner: object) -> Any:
        """The rows of a source, None if they are not kept. `owner` tells it from a namesake."""
        found = self._kept.get(name.lower())
        return found[1] if found is not None and found[0] is owner else None

    def keep(self, name: str, owner: object, table: Any) -> None:
        """Keep the rows of a source."""
        self._forget(name.lower())
        self._kept[name.lower()] = owner, table
        self._bytes += table.nbytes
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._kept)))


class Noting(Protocol):
    """Whoever wants to know what commits change."""

    def note(self, changes: Mapping[str, Changed]) -> None:
        """Take the change of each table and view."""


def note_changes(readers: list[Noting], changes: Mapping[str, Changed]) -> None:
    """Tell what a commit changes."""
    for each in list(readers):
        each.note(changes)
        if isinstance(each, Snapshot) and each.is_given_up:
            readers.remove(each)

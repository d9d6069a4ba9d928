"""Tables that say nothing for a while: IDLE AFTER INTERVAL '5' MINUTES.

takes  the clock of the mill, when each table changed last
does   a tick of each table that is idle: its time follows that of the tables beside it in views

The watermark of a view is the least of those of its tables, so one that is quiet holds up windows
and joins of the others. When it has been quiet for so long, it is advanced to where they have come.
Its own rows from then on are late if they are older.
"""

from __future__ import annotations

from viewmill.mill.catalog import TableEntry
from viewmill.mill.core import Core
from viewmill.mill.passing_time import tick
from viewmill.mill.windows import advance


class IdleTables:
    """The tables of a mill that may be idle, and those whose time they follow."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._generation = -1
        self._beside: list[tuple[TableEntry, list[list[TableEntry]]]] = []
        self._is_following = True  # until the mill is open

    def begin(self) -> None:
        """The mill is open: what it has not heard of is quiet from now on."""
        for entry, _ in self._tables():
            self._idle_from(entry)
        self._is_following = False

    def pass_time(self) -> None:
        """A tick of the mill, and of the tables that are idle."""
        tick(self._core)
        self.follow()

    def follow(self) -> None:
        """Advance the idle tables to where the others have come.

        The change that brings them on is committed, and whoever reads asked for no tick: a tick
        that fails is in the status, and is tried again.
        """
        if self._is_following or self._core.read_only:
            return
        self._is_following = True
        try:
            for entry, views in self._tables():
                moment = self._reached_beside(views) if self._is_idle(entry) else None
                reached = self._core.watermark(entry)
                if moment is not None and (reached is None or moment > reached):
                    with self._core.after_commit(f"advancing the quiet table {entry.name}"):
                        advance(self._core, entry.name, moment)
        finally:
            self._is_following = False

    def next_moment(self) -> int | None:
        """When the next table becomes idle that holds others up."""
        found = [
            self._idle_from(entry)
            for entry, views in self._tables()
            if not self._is_idle(entry) and views
        ]
        return min(found, default=None)

    def _tables(self) -> list[tuple[TableEntry, list[list[TableEntry]]]]:
        catalog = self._core.catalog
        if self._generation != catalog.generation:
            self._generation = catalog.generation
            quiet = [each for each in catalog.tables() if each.table.options.idle_after is not None]
            self._beside = [(each, self._views_of(each)) for each in quiet]
        return self._beside

    def _views_of(self, entry: TableEntry) -> list[list[TableEntry]]:
        """For each view that reads the table and others with a time, these."""
        catalog = self._core.catalog
        read = (catalog.time_tables(view.name) for view in catalog.views())
        others = ([n for n in names if n != entry.name] for names in read if entry.name in names)
        return [[catalog.table(name) for name in names] for names in others if names]

    def _idle_from(self, entry: TableEntry) -> int:
        if entry.heard is None:  # not since the mill was opened
            entry.heard = self._core.now()
        return entry.heard + (entry.table.options.idle_after or 0)

    def _is_idle(self, entry: TableEntry) -> bool:
        is_quiet = entry.table.options.idle_after is not None
        return is_quiet and self._core.now() >= self._idle_from(entry)

    def _reached_beside(self, views: list[list[TableEntry]]) -> int | None:
        """How far the tables beside one have come that are not idle themselves."""
        found = list[int]()
        for beside in views:
            times = [self._core.watermark(each) for each in beside if not self._is_idle(each)]
            known = [each for each in times if each is not None]
            if known and len(known) == len(times):
                found.append(min(known))
        return max(found, default=None)

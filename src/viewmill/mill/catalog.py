"""The catalog: case-insensitive names of tables and views, and which view reads what."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from viewmill.algebra.clock import watched_tables
from viewmill.algebra.packed import shown_schema
from viewmill.algebra.refresh import Policy
from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Schema
from viewmill.algebra.user_functions import UserFunction
from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Changed
from viewmill.errors import (
    BrokenView,
    ForbiddenChange,
    NameInUse,
    NameTaken,
    UnknownName,
    nearest,
)
from viewmill.mill.budgeted_states import BudgetedStates
from viewmill.mill.table import Table
from viewmill.planner.plan import Plan
from viewmill.policies.arrivals import Arrivals
from viewmill.policies.policies import Waiting, is_immediate
from viewmill.program.kept_parts import KeptParts
from viewmill.program.parts import SECOND
from viewmill.program.program import Queries
from viewmill.program.windows import Windowed
from viewmill.runtime.runtime import Block
from viewmill.sql.catalog import PlainView, RegisteredRing, Stream

GATHERED = "_viewmill_shards_"  # begins the name of a table that gathers what shards give


@dataclass
class TableEntry:
    """A table. `key` names it in the log and differs from the key of a dropped namesake."""

    name: str
    sql: str
    key: str
    table: Table
    arrivals: Arrivals | None = None  # its arrival history, from the first change on
    heard: int | None = None  # when it changed last, if it may be idle

    @property
    def is_gathered(self) -> bool:
        """Whether it holds what shards give for a view, and not rows of a source."""
        return self.name.startswith(GATHERED)


@dataclass
class PlainEntry:
    """A plain view: a name for a query."""

    name: str
    sql: str
    view: PlainView
    schema: Schema
    reads: frozenset[str]


@dataclass
class ViewEntry:
    """A materialized view: its query, plan and blocks, and the changes that wait for it."""

    name: str
    sql: str
    query: Relation
    plan: Plan
    blocks: list[Block]
    policies: tuple[Policy, ...]
    reads: frozenset[str]  # tables and materialized views, in lower case
    names: frozenset[str]  # every name in its text, plain views too
    created: int
    version: int = 0
    refreshed: int = 0  # UTC microseconds
    refresh_kind: str = "backfill"
    since: int | None = None  # the oldest part that a pattern saw when it was created
    engine_calls: int = 0
    refreshes: int = 0
    rows_changed: int = 0
    kept_rows: int = 0  # maintained from the deltas
    waiting: dict[str, list[Changed]] = field(default_factory=dict)
    waiting_rows: int = 0
    waiting_since: int = 0
    # The watermarks of tables with waiting changes, from before those changes.
    reached: dict[str, int | None] = field(default_factory=dict)
    stored_version: int | None = None  # its version when it became stale, if the store has it
    failure: str | None = None  # why the last due refresh failed
    outdated: str | None = None  # why it lacks rows that its sources have and its tables do not
    listeners: list[Callable[[int, Delta], None]] = field(default_factory=list)
    dropped: bool = False
    placed: dict[str, Block] = field(default_factory=dict)  # by the name of a block in the plan
    adapts: bool = False  # whether a large change may be handled by recomputing the view
    recompute_us: float | None = None  # the measured cost of a bulk load, per row read
    state_reads: tuple[Plan, list[set[str]]] | None = None  # the sources of each state of a plan
    budget: int | None = None  # bytes, from MEMORY
    budgeted: BudgetedStates | None = None  # None: all states are always in memory
    opened: str | None = None  # how it was opened: from its snapshot, or why it was computed
    careful: bool = False  # whether its plan avoids speculative evaluation
    sharding: tuple[str, ...] = ()  # how a pipeline shards it, in words

    @property
    def schema(self) -> Schema:
        """The columns a reader sees."""
        return self.query.schema

    @property
    def rows(self) -> int:
        """The number of rows; counted on demand if the view does not list its changes."""
        if self.enumerator is not None:
            return int(self.enumerator.count())
        count = self.block.maintainer.count_rows()
        return self.kept_rows if count is None else count

    @rows.setter
    def rows(self, rows: int) -> None:
        self.kept_rows = rows

    @property
    def block(self) -> Block:
        """The last block, which produces the view's rows."""
        return self.blocks[-1]

    @property
    def kept_parts(self) -> KeptParts | None:
        """The parts of a temporal view or a pattern."""
        return self.block.maintainer.kept_parts

    @property
    def enumerator(self) -> Any:
        """Reads the rows of a factorized result; None for a listed one."""
        return self.block.maintainer.enumerator

    def state_bytes(self) -> dict[str, dict[str, int]]:
        """Bytes in memory, by block of the plan and by state."""
        known = {id(block): name for name, block in self.placed.items()}
        return {
            known.get(id(each), each.name): dict(each.maintainer.state_bytes())
            for each in self.blocks
        }

    def kept_bytes(self) -> int:
        """Bytes of states, without the result rows of recomputed blocks."""
        blocks = [each for each in self.blocks if not isinstance(each.program.body, Queries)]
        return sum(sum(each.maintainer.state_bytes().values()) for each in blocks)

    def result_bytes(self) -> int:
        """Bytes of result rows that recomputed blocks hold for readers."""
        blocks = [each for each in self.blocks if isinstance(each.program.body, Queries)]
        return sum(sum(each.maintainer.state_bytes().values()) for each in blocks)

    @property
    def is_immediate(self) -> bool:
        """Whether every commit refreshes it."""
        return is_immediate(self.policies)

    def has_taken_all(self) -> None:
        """Forget the waiting changes: the view has taken them."""
        self.waiting.clear()
        self.reached.clear()
        self.waiting_rows, self.failure = 0, None

    def waits(self) -> Waiting:
        """The waiting changes in the form that policies judge."""
        return Waiting(self.waiting_rows, self.waiting_since, self.refreshed)


@dataclass
class BrokenEntry:
    """A view that could not be opened: its name and text without rows."""

    name: str
    sql: str
    reads: frozenset[str]  # every name in its text, in lower case
    reason: str
    saved: dict[str, Any]  # its record in the store

    def error(self) -> BrokenView:
        """The error for whoever reads it."""
        return BrokenView(
            f'view "{self.name}" could not be opened',
            detail=self.reason,
            hint=f"Mend the rows it reads, then REFRESH MATERIALIZED VIEW {self.name}; or drop it.",
        )


Entry = TableEntry | PlainEntry | ViewEntry | BrokenEntry


class Catalog:
    """All names of a mill. It also serves `sql.lower` as its catalog."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self.generation = 0  # how often an entry was added or removed
        # A hint how to import a table of Spark's catalog under a name; None if there is no such.
        self.bring_in: Callable[[str, str], str | None] | None = None
        self._tables: dict[str, TableEntry] = {}
        self._readers: dict[str, dict[str, Entry]] = {}  # by the name that their text mentions
        self.rings: dict[str, RegisteredRing] = {}  # by their names in lower case
        self.followed: dict[str, str] = {}  # titles of sources, by their tables in lower case
        self.functions: dict[str, UserFunction] = {}  # by their names in lower case
        self._views: list[ViewEntry] | None = None  # in order; None when something changed
        self._immediate: set[str] = set()
        self._deferred: list[ViewEntry] = []
        self._budgeted_views: list[ViewEntry] = []
        self._without_windows: list[ViewEntry] = []
        self._watched: tuple[int, set[str]] = (-1, set())  # as of a generation

    # For the lowering.

    def find(self, name: str) -> Schema | PlainView | None:
        """The schema or plain view that a name in FROM refers to."""
        match self._entries.get(name.lower()):
            case None:
                return None
            case TableEntry() as entry:
                return entry.table.schema
            case PlainEntry() as entry:
                return entry.view
            case ViewEntry() as entry:
                return shown_schema(entry.schema)
            case BrokenEntry() as entry:
                raise entry.error()

    def outside(self, name: str) -> str | None:
        """A hint how to import a table of Spark's catalog; views read only tables of the mill."""
        if self.bring_in is None:
            return None
        own = name.rsplit(".", 1)[-1]
        how = self.bring_in(name, own)
        return f'It is here as "{own}".' if how is not None and self.find(own) is not None else how

    def ring(self, name: str) -> RegisteredRing | None:
        """The ring that was registered under a name."""
        return self.rings.get(name.lower())

    def function(self, name: str) -> UserFunction | None:
        """The user's function that was registered under a name."""
        return self.functions.get(name.lower())

    def names(self) -> Iterable[str]:
        """Every name, in its own case."""
        return [entry.name for entry in self._entries.values()]

    def spelling(self, name: str) -> str:
        """A name in the case it was created with."""
        entry = self._entries.get(name.lower())
        return name if entry is None else entry.name

    def stream(self, name: str) -> Stream | None:
        """The properties of a table that a window over it depends on."""
        entry = self._entries.get(name.lower())
        if not isinstance(entry, TableEntry):
            return None
        options = entry.table.options
        parts = entry.table.parts
        length = None if parts is None else parts.length * SECOND
        only_grows = not entry.table.may_lose_rows
        key = {each.lower() for each in options.primary_key}
        keeps_versions = not key or (options.timestamp_by or "").lower() in key
        lateness = options.lateness or 0
        return Stream(options.timestamp_by, lateness, only_grows, length, keeps_versions)

    def time_tables(self, name: str) -> tuple[str, ...]:
        """The tables with a time that the rows of a table or a view come from."""
        found, ahead = set[str](), [name]
        while ahead:
            entry = self._entries.get(ahead.pop().lower())
            if isinstance(entry, TableEntry) and entry.table.options.timestamp_by is not None:
                found.add(entry.name)
            elif isinstance(entry, ViewEntry):
                ahead.extend(entry.reads)
        return tuple(sorted(found))

    # For the mill.

    def get(self, name: str) -> Entry | None:
        """The entry of a name, or None."""
        return self._entries.get(name.lower())

    def add(self, entry: Entry) -> None:
        """Add or replace."""
        key = entry.name.lower()
        self.generation += 1
        if key in self._entries:
            self._forget_readings(key)
            self._views = None
        self._entries[key] = entry
        if isinstance(entry, TableEntry):
            self._tables[key] = entry
        for name in _named(entry):
            self._readers.setdefault(name, {})[key] = entry
        if self._readers.get(key):
            self._views = None  # its readers exist already and must come after it
        if isinstance(entry, ViewEntry) and self._views is not None:
            self._views.append(entry)  # its sources exist already
            self._place(entry)

    def remove(self, name: str) -> None:
        """Forget a name."""
        key = name.lower()
        self.generation += 1
        self._forget_readings(key)
        entry = self._entries.pop(key)
        if isinstance(entry, ViewEntry) and self._views is not None:
            self._views = [each for each in self._views if each is not entry]
            self._immediate.discard(entry.name)
            self._deferred = [each for each in self._deferred if each is not entry]
            self._budgeted_views = [each for each in self._budgeted_views if each is not entry]
            others = self._without_windows
            self._without_windows = [each for each in others if each is not entry]

    def _forget_readings(self, key: str) -> None:
        self._tables.pop(key, None)
        for name in _named(self._entries[key]):
            self._readers[name].pop(key, None)

    def set_policies(self, entry: ViewEntry, policies: tuple[Policy, ...]) -> None:
        """Change when a view is refreshed."""
        entry.policies = policies
        self._views = None

    def table(self, name: str) -> TableEntry:
        """A table, or an error that names the nearest one."""
        table = self._tables.get(name)  # the common case: the name is in lower case
        if table is not None:
            return table
        entry = self._entries.get(name.lower())
        if isinstance(entry, TableEntry):
            return entry
        if entry is not None:
            raise UnknownName(
                f'"{entry.name}" is a view, not a table', hint="Change the tables that it reads."
            )
        raise UnknownName(f'no table "{name}"', hint=nearest(name, [e.name for e in self.tables()]))

    def view(self, name: str) -> ViewEntry:
        """A materialized view, or an error that names the nearest one."""
        entry = self._entries.get(name.lower())
        if isinstance(entry, ViewEntry):
            return entry
        if isinstance(entry, BrokenEntry):
            raise entry.error()
        if entry is not None:
            kind = "table" if isinstance(entry, TableEntry) else "plain view"
            raise UnknownName(
                f'"{entry.name}" is a {kind}, not a materialized view',
                hint=f'mill.sql("SELECT * FROM {entry.name}") reads it.',
            )
        raise UnknownName(f'no view "{name}"', hint=nearest(name, [e.name for e in self.views()]))

    def tables(self) -> list[TableEntry]:
        """All tables."""
        return list(self._tables.values())

    def views(self) -> list[ViewEntry]:
        """All materialized views."""
        return [each for each in self._entries.values() if isinstance(each, ViewEntry)]

    def broken(self) -> list[BrokenEntry]:
        """The views that could not be opened."""
        return [each for each in self._entries.values() if isinstance(each, BrokenEntry)]

    def require_free(self, name: str) -> None:
        """Raise if the name is taken."""
        entry = self.get(name)
        if entry is not None:
            kind = "table" if isinstance(entry, TableEntry) else "view"
            hint = "" if kind == "table" else "CREATE OR REPLACE replaces it."
            raise NameTaken(f'a {kind} named "{entry.name}" exists already', hint=hint)

    def readers(self, name: str) -> list[Entry]:
        """The views whose text names `name`."""
        wanted = name.lower()
        found = self._readers.get(wanted, {})
        return [entry for key, entry in found.items() if key != wanted]

    def require_unread(self, name: str) -> None:
        """Raise if a view reads `name`."""
        readers = self.readers(name)
        if readers:
            names = ", ".join(entry.name for entry in readers)
            raise NameInUse(
                f'"{name}" is in use', detail=f"It is read by {names}.", hint="Drop those first."
            )

    def require_unfollowed(self, name: str) -> None:
        """Raise if a table follows a source: nobody else changes or drops it."""
        title = self.followed.get(name.lower())
        if title is not None:
            raise ForbiddenChange(
                f'table "{name}" follows {title}',
                detail="Only its source changes it: the rows and how far the source was taken "
                "belong together.",
                hint="mill.unfollow(table) first.",
            )

    def reads_transitively(self, name: str) -> set[str]:
        """Every table and materialized view that a view rests on, in lower case."""
        found: set[str] = set()
        todo = [name.lower()]
        while todo:
            entry = self._entries.get(todo.pop())
            if isinstance(entry, ViewEntry):
                todo += [each for each in entry.reads if each not in found]
                found |= entry.reads
        return found

    def immediate(self) -> set[str]:
        """The names of the views that take every batch as it comes."""
        if self._views is None:
            self.in_order()
        return self._immediate

    def deferred(self) -> list[ViewEntry]:
        """The views that are not immediate, in dependency order."""
        if self._views is None:
            self.in_order()
        return self._deferred

    def watched_tables(self) -> set[str]:
        """The tables, in lower case, whose time changes views without any row."""
        if self._watched[0] != self.generation:
            found = (watched_tables(each.query) for each in self.views())
            self._watched = self.generation, set().union(*found)
        return self._watched[1]

    def budgeted_views(self) -> list[ViewEntry]:
        """The views under a memory budget."""
        if self._views is None:
            self.in_order()
        return self._budgeted_views

    def is_all_immediate(self) -> bool:
        """Whether every commit refreshes every view, and no view has a budget."""
        if self._views is None:
            self.in_order()
        return not (self._deferred or self._budgeted_views)

    def without_windows(self) -> list[ViewEntry]:
        """The views that are more than one shared window, in dependency order."""
        self.in_order()
        return self._without_windows

    def by_reading(self) -> list[Entry]:
        """All entries in dependency order."""
        found: list[Entry] = []
        seen: set[str] = set()  # broken views may read each other

        def visit(entry: Entry) -> None:
            if entry.name in seen:
                return
            seen.add(entry.name)
            for name in sorted(_named(entry)):
                if (below := self.get(name)) is not None:
                    visit(below)
            found.append(entry)

        for entry in self._entries.values():
            visit(entry)
        return found

    def in_order(self) -> list[ViewEntry]:
        """The materialized views in dependency order."""
        if self._views is None:
            self._views = self._sorted_views()
            self._immediate, self._deferred, self._budgeted_views = set(), [], []
            self._without_windows = []
            for entry in self._views:
                self._place(entry)
        return self._views

    def _place(self, entry: ViewEntry) -> None:
        if entry.is_immediate:
            self._immediate.add(entry.name)
        else:
            self._deferred.append(entry)
        if entry.budgeted is not None:
            self._budgeted_views.append(entry)
        if not all(isinstance(block.program.body, Windowed) for block in entry.blocks):
            self._without_windows.append(entry)

    def _sorted_views(self) -> list[ViewEntry]:
        done: dict[str, ViewEntry] = {}

        def visit(entry: ViewEntry) -> None:
            if entry.name.lower() in done:
                return
            for name in sorted(entry.reads):
                below = self._entries.get(name)
                if isinstance(below, ViewEntry) and below is not entry:
                    visit(below)
            done[entry.name.lower()] = entry

        for entry in self.views():
            visit(entry)
        return list(done.values())


def _named(entry: Entry) -> frozenset[str]:
    """Every name that an entry's text mentions."""
    match entry:
        case ViewEntry():
            return entry.names
        case PlainEntry() | BrokenEntry():
            return entry.reads
        case _:
            return frozenset()

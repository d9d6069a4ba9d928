"""Names to tables and views, whatever their case, and who reads whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from viewmill.algebra.packed import shown_schema
from viewmill.algebra.refresh import Policy
from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Changed
from viewmill.errors import BrokenView, NameInUse, NameTaken, UnknownName, nearest
from viewmill.mill.budgeted_states import BudgetedStates
from viewmill.mill.table import Table
from viewmill.planner.plan import Plan
from viewmill.policies.arrivals import Arrivals
from viewmill.policies.policies import Waiting, is_immediate
from viewmill.program.parts import SECOND
from viewmill.program.program import Queries
from viewmill.program.windows import Windowed
from viewmill.runtime.runtime import Block
from viewmill.sql.catalog import PlainView, RegisteredRing, Stream


@dataclass
class TableEntry:
    """A table; `key` names it in the log, so that a dropped namesake is never mistaken for it."""

    name: str
    sql: str
    key: str
    table: Table
    arrivals: Arrivals | None = None  # what came so far, from when the first change came


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
    """A materialized view: its query, its plan, its blocks, and what waits for it."""

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
    kept_rows: int = 0  # as counted from change to change
    waiting: dict[str, list[Changed]] = field(default_factory=dict)
    waiting_rows: int = 0
    waiting_since: int = 0
    # How far time had come, before what waits, for tables of which something waits.
    reached: dict[str, int | None] = field(default_factory=dict)
    stored_version: int | None = None  # that it had when it was left behind, as the store knows it
    failure: str | None = None  # why the last refresh that was due did not happen
    outdated: str | None = None  # why it lacks rows that its sources have and its tables do not
    listeners: list[Callable[[int, Delta], None]] = field(default_factory=list)
    dropped: bool = False
    placed: dict[str, Block] = field(default_factory=dict)  # by the name of a block in the plan
    adapts: bool = False  # whether a large change may be taken in by computing the view again
    recompute_us: float | None = None  # what building all states cost for each row that was read
    state_reads: tuple[Plan, list[set[str]]] | None = None  # of a plan: what each state reads
    budget: int | None = None  # bytes, by MEMORY
    budgeted: BudgetedStates | None = None  # which states are there; None: all of them, always
    careful: bool = False  # whether it was planned to evaluate nothing that SQL does not
    sharding: tuple[str, ...] = ()  # how a pipeline spreads it, in words

    @property
    def schema(self) -> Schema:
        """The columns a reader sees."""
        return self.query.schema

    @property
    def rows(self) -> int:
        """How many rows it has; what does not list its changes counts them when asked."""
        if self.enumerator is not None:
            return int(self.enumerator.count())
        count = getattr(self.block.maintainer, "count_rows", None)
        return self.kept_rows if count is None else int(count())

    @rows.setter
    def rows(self, rows: int) -> None:
        self.kept_rows = rows

    @property
    def block(self) -> Block:
        """The block whose rows are the view's."""
        return self.blocks[-1]

    @property
    def enumerator(self) -> Any:
        """What reads the rows of a factorized result, None of a listed one."""
        return getattr(self.block.maintainer, "enumerator", None)

    def state_bytes(self) -> dict[str, dict[str, int]]:
        """Bytes held, by block of the plan and state."""
        known = {id(block): name for name, block in self.placed.items()}
        return {
            known.get(id(each), each.name): dict(each.maintainer.state_bytes())
            for each in self.blocks
        }

    def kept_bytes(self) -> int:
        """Bytes of states. The rows that a recomputed view shows are no state."""
        blocks = [each for each in self.blocks if not isinstance(each.program.body, Queries)]
        return sum(sum(each.maintainer.state_bytes().values()) for each in blocks)

    def result_bytes(self) -> int:
        """Bytes of rows that are held for readers alone."""
        blocks = [each for each in self.blocks if isinstance(each.program.body, Queries)]
        return sum(sum(each.maintainer.state_bytes().values()) for each in blocks)

    @property
    def is_immediate(self) -> bool:
        """Whether it takes every batch as it comes."""
        return is_immediate(self.policies)

    def has_taken_all(self) -> None:
        """Nothing waits any more."""
        self.waiting.clear()
        self.reached.clear()
        self.waiting_rows, self.failure = 0, None

    def waits(self) -> Waiting:
        """What waits for the view, as its policies judge it."""
        return Waiting(self.waiting_rows, self.waiting_since, self.refreshed)


@dataclass
class BrokenEntry:
    """A view that could not be opened. It has its name and its text, and no rows."""

    name: str
    sql: str
    reads: frozenset[str]  # every name in its text, in lower case
    reason: str
    saved: dict[str, Any]  # its record in the store

    def error(self) -> BrokenView:
        """What readers are told."""
        return BrokenView(
            f'view "{self.name}" could not be opened',
            detail=self.reason,
            hint=f"Mend the rows it reads, then REFRESH MATERIALIZED VIEW {self.name}; or drop it.",
        )


Entry = TableEntry | PlainEntry | ViewEntry | BrokenEntry


class Catalog:
    """All names of a mill. It answers `sql.lower`, too."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        # How a table that Spark knows is brought in, under which name; None if it knows none.
        self.bring_in: Callable[[str, str], str | None] | None = None
        self._tables: dict[str, TableEntry] = {}
        self._readers: dict[str, dict[str, Entry]] = {}  # by the name that their text mentions
        self.rings: dict[str, RegisteredRing] = {}  # by their names in lower case
        self._views: list[ViewEntry] | None = None  # in order; None when something changed
        self._immediate: set[str] = set()
        self._deferred: list[ViewEntry] = []
        self._budgeted_views: list[ViewEntry] = []
        self._without_windows: list[ViewEntry] = []

    # For the lowering.

    def find(self, name: str) -> Schema | PlainView | None:
        """What a name in FROM stands for."""
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
        """How a table of Spark's catalog is read: views follow only tables of the mill."""
        if self.bring_in is None:
            return None
        own = name.rsplit(".", 1)[-1]
        how = self.bring_in(name, own)
        return f'It is here as "{own}".' if how is not None and self.find(own) is not None else how

    def ring(self, name: str) -> RegisteredRing | None:
        """The ring that was registered under a name."""
        return self.rings.get(name.lower())

    def names(self) -> Iterable[str]:
        """Every name, in its own case."""
        return [entry.name for entry in self._entries.values()]

    def spelling(self, name: str) -> str:
        """A name in the case it was created with."""
        entry = self._entries.get(name.lower())
        return name if entry is None else entry.name

    def stream(self, name: str) -> Stream | None:
        """What a window on a table must know of it."""
        entry = self._entries.get(name.lower())
        if not isinstance(entry, TableEntry):
            return None
        options = entry.table.options
        parts = entry.table.parts
        length = None if parts is None else parts.length * SECOND
        only_grows = not entry.table.may_lose_rows
        return Stream(options.timestamp_by, options.lateness or 0, only_grows, length)

    # For the mill.

    def get(self, name: str) -> Entry | None:
        """The entry of a name, or None."""
        return self._entries.get(name.lower())

    def add(self, entry: Entry) -> None:
        """Add or replace."""
        key = entry.name.lower()
        if key in self._entries:
            self._forget_readings(key)
            self._views = None
        self._entries[key] = entry
        if isinstance(entry, TableEntry):
            self._tables[key] = entry
        for name in _named(entry):
            self._readers.setdefault(name, {})[key] = entry
        if self._readers.get(key):
            self._views = None  # it comes back, and stands before those that read it
        if isinstance(entry, ViewEntry) and self._views is not None:
            self._views.append(entry)  # what it reads is there already
            self._place(entry)

    def remove(self, name: str) -> None:
        """Forget a name."""
        key = name.lower()
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
        table = self._tables.get(name)  # most are spelled in lower case, and are asked for so
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
        """The other views, each after those that it reads."""
        if self._views is None:
            self.in_order()
        return self._deferred

    def budgeted_views(self) -> list[ViewEntry]:
        """The views whose states are in a budget."""
        if self._views is None:
            self.in_order()
        return self._budgeted_views

    def is_all_immediate(self) -> bool:
        """Whether every view takes every batch as it comes, and none is in a budget."""
        if self._views is None:
            self.in_order()
        return not (self._deferred or self._budgeted_views)

    def without_windows(self) -> list[ViewEntry]:
        """The views that are more than a window of a stream, each after those that it reads."""
        self.in_order()
        return self._without_windows

    def by_reading(self) -> list[Entry]:
        """Everything, each after what it reads."""
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
        """The views, each after those that it reads."""
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

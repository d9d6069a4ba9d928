"""The components of a mill: dictionary, catalog, runtime, engine, store and version."""

from __future__ import annotations

import ctypes
import logging
import os
import pkgutil
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from viewmill.algebra.clock import CLOCK, clock_reads, with_moment
from viewmill.algebra.recursion import over
from viewmill.algebra.relations import Recursion, Relation
from viewmill.algebra.walk import sources, user_calls
from viewmill.deltas.consolidate import consolidate, without
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import as_delta
from viewmill.engines.engine import Engine
from viewmill.errors import MillClosed
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.catalog import Catalog, TableEntry, ViewEntry
from viewmill.mill.mill_time import MillTime
from viewmill.mill.read_only_store import ReadOnlyStore, refused
from viewmill.mill.snapshots import Noting
from viewmill.mill.storage.part_files import PartFiles
from viewmill.mill.store import Store
from viewmill.mill.tiers import Tiers
from viewmill.mill.write_lock import WriteLock
from viewmill.planner.allot import Selector
from viewmill.planner.operators import Costs
from viewmill.policies.arrivals import COMPLETE, Arrivals, Commits, Expectation
from viewmill.program.compiler_setting import compiler_setting
from viewmill.program.patterns import PatternQueries
from viewmill.rewrite.correlation import map_expressions, transform_everywhere
from viewmill.runtime.runtime import Runtime

if TYPE_CHECKING:
    from viewmill.engines.duckdb import DuckdbEngine

_LOG = logging.getLogger("viewmill")

RUNTIMES = {"in-process": "viewmill.runtime.in_process.runtime:InProcessRuntime"}
ENGINES = {
    "duckdb": "viewmill.engines.duckdb:DuckdbEngine",
    "spark": "viewmill.engines.spark:SparkEngine",
}

_ARROW_BYTES = 256 << 20
_MIN_COMPACTED = 200_000

Notice = tuple[int, Callable[[], None]]  # the thread that made the change; tells a listener
Preparation = Callable[[int, Mapping[str, Delta]], None]
Reshape = Callable[[Catalog, str, Relation, PatternQueries | None], Relation]


class ArrowParts:
    """An LRU cache of parts as Arrow tables: successive windows read mostly the same parts."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._known: OrderedDict[int, tuple[Delta, Any]] = OrderedDict()  # holding keeps ids apart
        self._bytes = 0

    def table(self, part: Delta) -> Any:
        """The rows of a part."""
        found = self._known.get(id(part))
        if found is None:
            found = part, expanded(part, self._dictionary)
            self._known[id(part)] = found
            self._bytes += found[1].nbytes
            while len(self._known) > 1 and self._bytes > _ARROW_BYTES:
                _, (_, dropped) = self._known.popitem(last=False)
                self._bytes -= dropped.nbytes
        else:
            self._known.move_to_end(id(part))
        return found[1]


class Core:
    """The components of a mill. Readers hold `lock`, writers hold `write_lock`."""

    def __init__(
        self,
        store: Store | None,
        spark: Any = None,
        budget: int | None = None,
        selection: Selector = "dynamic",
        reshape: Reshape | None = None,
        compile: str | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.tiers = Tiers(self, compiler_setting(compile))
        self.dictionary = Dictionary()
        self.catalog = Catalog()
        self.arrow_parts = ArrowParts(self.dictionary)
        self.runtime: Runtime = pkgutil.resolve_name(RUNTIMES["in-process"])()
        self.store = store
        self.version = 0
        self.time = MillTime(clock)
        # Lets time pass, and gives the record of the time with the views that are being created.
        self.tick: Callable[[], None] = lambda: None
        self.time_record: Callable[[Iterable[ViewEntry]], dict[str, str]] = lambda created: {}
        self._epoch = time.time_ns() - time.monotonic_ns()
        self.trouble: str | None = None  # what failed after a commit, for the status
        self.lock = threading.RLock()
        self.closed = False
        self.write_lock = WriteLock(self.lock, self._abandon)  # `lock`, for writers
        self.notices: deque[Notice] = deque()
        self.is_delivering = False
        # Called with the next version and the change of each view, before the commit point.
        self.preparations: list[Preparation] = []
        self.is_safe = False  # whether SQL comes from people who are not trusted
        # Stands around each commit and refresh, if somebody wants to know of them.
        self.watched: Callable[[], AbstractContextManager[None]] | None = None
        self.noting: list[Noting] = []  # those who read older versions, or keep rows of now
        # By temporal view: what gives its catalog record, if the current batch starts the view.
        self.starting: dict[str, Callable[[], dict[str, str]]] = {}
        # During recovery: restores the runs of a pattern view before it is filled.
        self.restore_pattern: Callable[[ViewEntry, Any], None] | None = None
        # Replans a view whose speculative plan failed; gives whether a safer plan was found.
        self.plan_carefully: Callable[[ViewEntry], bool] = lambda entry: False
        self.pass_on: Callable[[ViewEntry, Delta], None] = lambda entry, change: None
        self.is_releasing_states = False  # whether states are being selected
        # The catalog records of the deferred views that a change of these tables makes stale.
        self.stale_records: Callable[[Iterable[str]], dict[str, str]] = lambda tables: {}
        # Notes in the directory that a view is no longer stale.
        self.note_refreshed: Callable[[ViewEntry], None] = lambda entry: None
        self._given: dict[str, Delta] = {}  # rows to read in place of sources, by lower-case name
        # The Parquet files of what is in parts, by name.
        self.part_files: dict[str, PartFiles] = {}
        # The watermark set by `advance`, by table.
        self.ticks: dict[str, int] = {}
        # The window views that share partials, by their table in lower case and unit.
        self.families: dict[tuple[str, str], Any] = {}
        self.spark = spark  # the session for bulk work, None for DuckDB in this process
        if spark is not None:
            self.catalog.bring_in = self._bring_in
        self._engine: Engine | None = None
        self._local_engine: DuckdbEngine | None = None
        self.budget, self.selection = budget, selection  # of all views together
        self.costs: Costs | None = None  # measured when states are first selected
        self.commits = Commits()
        # The dictionary size at which dead entries are counted next, and the lower bound of that.
        self.compact_at = self.compact_at_least = _MIN_COMPACTED
        self.has_lost = False  # whether states must be refilled because memory ran out
        self._reshape = reshape
        _CORES.add(self)

    def reshape(
        self, view: str, query: Relation, pattern: PatternQueries | None = None
    ) -> Relation:
        """The query this mill maintains for a view; another one if shards compute part of it."""
        if self._reshape is None:
            return query
        return self._reshape(self.catalog, view, query, pattern)

    def _bring_in(self, name: str, own: str) -> str | None:
        if not self.engine.knows(name):
            return None
        return f'It is in Spark\'s catalog: mill.table("{name}") makes the table "{own}" of it.'

    @property
    def engine(self) -> Engine:
        """The bulk engine, imported when it is first needed."""
        if self._engine is None:
            if self.spark is None:
                made: Engine = pkgutil.resolve_name(ENGINES["duckdb"])(is_safe=self.is_safe)
            else:
                made = pkgutil.resolve_name(ENGINES["spark"])(self.spark)
            self._engine = made
        return self._engine

    @property
    def local_engine(self) -> DuckdbEngine:
        """DuckDB, also in a mill on Spark: for small inputs that are cheaper to process here."""
        if self.spark is None:
            return cast("DuckdbEngine", self.engine)
        if self._local_engine is None:
            made: DuckdbEngine = pkgutil.resolve_name(ENGINES["duckdb"])()
            self._local_engine = made
        return self._local_engine

    def close_engine(self) -> None:
        """Close the engines and release their memory."""
        for each in (self._engine, self._local_engine):
            if each is not None:
                each.close()
        self._engine = self._local_engine = None

    @property
    def read_only(self) -> bool:
        """Whether the mill was opened for reading."""
        return isinstance(self.store, ReadOnlyStore)

    def require_writable(self) -> None:
        """Raise in a mill that is only read; in a forked child, which must leave the directory to
        its parent; and after the disk failed in the middle of a commit."""
        if isinstance(self.store, ReadOnlyStore):
            raise refused(self.store.origin)
        if self.store is not None:
            self.store.require_open()

    def _after_fork(self) -> None:
        """In a forked child: make new locks; close the mill if another thread was changing it."""
        is_free = self.lock.acquire(False)
        self.lock = threading.RLock()
        self.write_lock = WriteLock(self.lock, self._abandon)
        self.closed = self.closed or not is_free
        for engine in (self._engine, self._local_engine):  # their threads are the parent's
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))  # never freed here
        self._engine = self._local_engine = None

    def _abandon(self) -> None:
        """Close the mill because a change was interrupted midway: memory is inconsistent."""
        self.closed = True

    def is_locked_here(self) -> bool:
        """Whether this thread holds the lock."""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]

    def require_open(self) -> None:
        """Raise if the mill was closed."""
        if self.closed:
            raise MillClosed("the mill is closed", hint="vm.connect(...) opens it again.")

    def now(self) -> int:
        """UTC microseconds that only go forward: the wall clock is read once, on opening."""
        if self.time.is_driven:
            return max(self.time.reached, self.time.read())
        return (time.monotonic_ns() + self._epoch) // 1000

    @contextmanager
    def after_commit(self, what: str) -> Iterator[None]:
        """Log errors of follow-up work instead of raising them: the change is committed."""
        try:
            yield
        except Exception as why:  # noqa: BLE001 (whatever it is, nobody may take it for a refusal)
            self.trouble = f"{what} failed: {why}"
            _LOG.warning("the change is committed, but %s", self.trouble)
        else:
            if self.trouble is not None and self.trouble.startswith(what):
                self.trouble = None

    # What is expected.

    def arrivals_of(self, entry: TableEntry) -> Arrivals:
        """The arrival history of a table, and the hints and models declared for it."""
        if entry.arrivals is None:
            entry.arrivals = Arrivals(static=entry.table.options.static, commits=self.commits)
        return entry.arrivals

    def expectation(self, name: str, now: int, span: int | None = None) -> Expectation:
        """The expected next delta of a table or view; that of a view follows from its sources.

        For who takes changes once per `span` microseconds it is all that comes in this time.
        """
        entry = self.catalog.get(name)
        if isinstance(entry, TableEntry):
            arrivals, held = self.arrivals_of(entry), entry.table.rows
            if span is None:
                return arrivals.expect(held, now)
            return arrivals.expect_within(held, now, span)
        assert isinstance(entry, ViewEntry)
        below = [self.expectation(each, now, span) for each in entry.reads]
        awaited = [each for each in below if not each.is_quiet]
        if not awaited:
            return COMPLETE if all(each.complete for each in below) else replace(below[0], rows=0.0)
        coming = min(sum(each.rows for each in awaited), max(1.0, 2.0 * entry.rows))
        return replace(max(awaited, key=lambda each: each.deltas), rows=coming)

    def row_count(self, name: str) -> int:
        """Rows of a table or view."""
        entry = self.catalog.get(name)
        rows = entry.table.rows if isinstance(entry, TableEntry) else getattr(entry, "rows", 0)
        return max(0, rows)  # a net count is negative where deletes came before their inserts

    # Reading sources.

    @contextmanager
    def reading(self, rows: Mapping[str, Delta]) -> Iterator[None]:
        """Let reads of these sources see the given rows, those of another version."""
        self._given = {name.lower(): each for name, each in rows.items()}
        try:
            yield
        finally:
            self._given = {}

    def contents(self, name: str) -> Delta:
        """The rows of a table or view, including the uncommitted changes of the current batch."""
        if self._given and name.lower() in self._given:
            return self._given[name.lower()]
        entry = self.catalog.get(name)
        if isinstance(entry, TableEntry):
            return entry.table.contents()
        assert isinstance(entry, ViewEntry)
        committed = entry.block.maintainer.contents()
        change = self.runtime.pending(entry.name)
        if change is None or not change.size:
            return committed
        return consolidate(concat(entry.schema, [committed, change]))

    def arrow(self, name: str) -> Any:
        """`contents` as an Arrow table."""
        entry = self.catalog.get(name)
        if isinstance(entry, TableEntry) and name.lower() not in self._given:
            return entry.table.arrow()
        return expanded(self.contents(name), self.dictionary)

    def watermark(self, entry: TableEntry) -> int | None:
        """The watermark of a table: its largest time minus LATENESS, or a later tick."""
        newest, tick = entry.table.newest, self.ticks.get(entry.name)
        if newest is None:
            return tick
        by_rows = newest - (entry.table.options.lateness or 0)
        return by_rows if tick is None else max(by_rows, tick)

    def time_of(
        self, tables: tuple[str, ...], reached: Mapping[str, int | None] | None = None
    ) -> int:
        """The time of the mill, or the least watermark of tables; `reached` replaces some."""
        known = reached or {}
        if not tables:
            return known.get(CLOCK) or self.time.reached
        found = []
        for each in tables:
            entry = self.catalog.table(each)
            moment = known[entry.name] if entry.name in known else self.watermark(entry)
            found.append(_BEFORE_ALL if moment is None else moment)
        return min(found)

    def watermark_seen(self, view: ViewEntry, entry: TableEntry) -> int | None:
        """The watermark of a table when a view was last refreshed."""
        if entry.name in view.reached:
            return view.reached[entry.name]
        return self.watermark(entry)

    def rows_seen(self, view: ViewEntry, name: str) -> Delta:
        """The rows of a source when a view was last refreshed: without the waiting changes."""
        waiting = view.waiting.get(name, [])
        rows = self.contents(name)
        if not waiting:
            return rows
        later = concat(rows.schema, [as_delta(each) for each in waiting])
        return without(rows, later)

    def run(
        self,
        relation: Relation,
        *,
        view: ViewEntry | None = None,
        tables: Any = None,
        reached: Mapping[str, int | None] | None = None,
        exactly: bool = False,
    ) -> Any:
        """Run a relation on the engine over the sources as they are now; counted for `view`.

        `tables` replaces the rows of some sources, `reached` the watermarks of some. Exactly means
        without rounding on the way to an aggregate of floats, which takes much longer.
        """
        relation, read = self.gather(relation, tables or {}, reached or {})
        if view is not None:
            view.engine_calls += 1
        if exactly:
            return self.local_engine.run_exactly(relation, read)
        # The user's functions run in this process, so Spark cannot call them.
        is_local = self.spark is not None and any(True for _ in user_calls(relation))
        return (self.local_engine if is_local else self.engine).run(relation, read)

    def gather(
        self, relation: Relation, tables: Mapping[str, Any], reached: Mapping[str, int | None]
    ) -> tuple[Relation, dict[str, Any]]:
        """A relation without windows, and its sources as Arrow tables, which never change."""
        relation = _at(relation, partial(self.time_of, reached=reached))
        cut = pkgutil.resolve_name("viewmill.mill.windows:cut_windows")
        relation, given = cut(self, relation, tables, reached)
        read = {name: given.get(name.lower(), None) for name in sources(relation)}
        with self.write_lock:  # reading may put rows in order: Ctrl-C waits for that
            read = {n: self.arrow(n) if table is None else table for n, table in read.items()}
        return relation, read


def _at(relation: Relation, moment: Callable[[tuple[str, ...]], int]) -> Relation:
    """A relation as of the moments that clocks tell, where it reads them."""

    def change(each: Relation) -> Relation:
        if isinstance(each, Recursion):
            return over(each, _at(each.base, moment), _at(each.step, moment))
        return map_expressions(each, lambda expression: with_moment(expression, moment))

    if next(clock_reads(relation), None) is None:
        return relation
    return transform_everywhere(relation, change)


_BEFORE_ALL = -62_135_596_800_000_000  # the first day of the calendar: no row has come yet
_CORES: weakref.WeakSet[Core] = weakref.WeakSet()


def _after_fork() -> None:
    for core in list(_CORES):
        core._after_fork()


os.register_at_fork(after_in_child=_after_fork)

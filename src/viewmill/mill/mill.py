"""The mill: what `vm.connect` gives.

takes  SQL and rows
does   keeps tables, and the views over them fresh, in this process; durable with a directory
"""

from __future__ import annotations

import datetime
import os
import pkgutil
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Protocol

from viewmill.algebra.display import display
from viewmill.algebra.names import check_name, quoted
from viewmill.algebra.operations import Operation
from viewmill.algebra.rings import Ring
from viewmill.algebra.user_functions import Function
from viewmill.deltas.delta import Delta
from viewmill.deltas.factorize import products_in
from viewmill.deltas.factors import to_product
from viewmill.deltas.product import Changed, Product, joined
from viewmill.deltas.rows import to_delta
from viewmill.errors import InvalidArgument, UnsupportedQuery
from viewmill.mill.backup import back_up
from viewmill.mill.batches import Batch
from viewmill.mill.broken_views import repair_callers
from viewmill.mill.careful_plans import plan_carefully
from viewmill.mill.catalog import TableEntry
from viewmill.mill.changes import Change, Changes
from viewmill.mill.clock import Clock
from viewmill.mill.compact_dictionary import compact_if_due
from viewmill.mill.core import Core, Reshape
from viewmill.mill.create import pass_on, plan_view
from viewmill.mill.execute import execute
from viewmill.mill.expect import check_selector, described_expectation, expect, memory_bytes
from viewmill.mill.fill import count_negative_rows
from viewmill.mill.follow import Follower, catch_up
from viewmill.mill.histories import parts_of, refused_rows
from viewmill.mill.idle_tables import IdleTables
from viewmill.mill.import_table import create_statement, rows_of
from viewmill.mill.memory_curve import Point, memory_curve, view_operators
from viewmill.mill.offsets import OFFSETS, forget, prepare, read_followed
from viewmill.mill.part_folders import write_parts
from viewmill.mill.passing_time import Clocks, microseconds, reader, tick, time_record
from viewmill.mill.read_only_store import open_read_only
from viewmill.mill.reading import reads_older_versions
from viewmill.mill.recovery import (
    checkpoint,
    checkpoint_on_closing,
    is_checkpoint_due,
    recover,
)
from viewmill.mill.refresh import commit_batch, deliver_notices, refresh_due
from viewmill.mill.register import register_one
from viewmill.mill.replay import replay
from viewmill.mill.servers import OPEN_CONSOLE, server
from viewmill.mill.sink import Delivery, flush
from viewmill.mill.small_commit import commit_small, is_small_commit
from viewmill.mill.stale_views import note_refreshed, stale_records
from viewmill.mill.store import Store
from viewmill.mill.uninterruptible import uninterruptible
from viewmill.mill.view import View
from viewmill.mill.window_families import note_followers
from viewmill.mill.windows import advance
from viewmill.planner.explain import explain
from viewmill.planner.operators import Operator
from viewmill.planner.plan import Plan
from viewmill.program.display import display_program
from viewmill.program.program import Body, Program, Triggers
from viewmill.program.threads import caller, mine
from viewmill.program.window_parts import WindowParts
from viewmill.program.windows import Windowed
from viewmill.sinks.files import file_sink
from viewmill.sinks.sink import Sink
from viewmill.sources.source import Source
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateMaterializedView, Query

STAGES = ("algebra", "plan", "program", "kernel")


class Server(Protocol):
    """What `mill.serve` gives: `serve.server.Server`."""

    @property
    def address(self) -> str:
        """Where it listens."""

    @property
    def port(self) -> int:
        """The port it listens on."""

    @property
    def connections(self) -> int:
        """How many clients are connected."""

    def wait(self) -> None:
        """Wait until it is closed."""

    def close(self) -> None:
        """Close all connections and stop listening."""

    def __enter__(self) -> Server: ...

    def __exit__(self, *error: object) -> None: ...


class Mill:
    """Tables and views in one place. Several threads may read, one writes."""

    @uninterruptible
    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        spark: Any = None,
        memory: str | int | None = None,
        selection: str = "dynamic",
        reshape: Reshape | None = None,
        register: Mapping[str, Ring | Operation | Function] | None = None,
        compile: str | None = None,
        read_only: bool = False,
        clock: Clocks = None,
        safe: bool = False,
    ) -> None:
        if safe and spark is not None:
            raise InvalidArgument(
                "a mill on Spark cannot be safe",
                detail="SQL on Spark reads the files and tables that the session can read.",
                hint="Leave out spark=, or safe=.",
            )
        budget = None if memory is None else memory_bytes(memory)
        selector = check_selector(selection)
        store: Store | None = None
        try:
            store = _open_store(path, read_only)
            self._core = Core(store, spark, budget, selector, reshape, compile, reader(clock))
            self._core.is_safe = safe
            # By the thread that opened it, which holds it: an exception from another thread may
            # come before it can take it out again.
            self._batches: weakref.WeakValueDictionary[int, Batch] = weakref.WeakValueDictionary()
            self.writer = caller()
            self.streams: list[Changes] = []
            self._followers: dict[str, Follower] = {}
            self._deliveries: dict[str, Delivery] = {}
            self._servers: list[weakref.ref[Server]] = []
            self._core.plan_carefully = partial(plan_carefully, self._core)
            self._core.pass_on = partial(pass_on, self._core)
            self._idle = IdleTables(self._core)
            self._core.tick = self._idle.pass_time
            self._core.time_record = partial(time_record, self._core)
            self._core.stale_records = partial(stale_records, self._core)
            self._core.note_refreshed = partial(note_refreshed, self._core)
            for name, ring in (register or {}).items():
                register_one(self._core, name, ring)
            if store is not None:
                recover(self._core, store)
            reference = weakref.ref(self)
            self.clock = Clock(self._core, lambda: _tick(reference), self._idle.next_moment)
            self._idle.begin()
            # A mill that is not closed explicitly is closed on garbage collection or at exit.
            self._release = weakref.finalize(self, _release, self._core, self.clock)
            self._core.catalog.followed = read_followed(self)
        except BaseException:
            if store is not None:
                store.close()
            raise

    # SQL.

    @uninterruptible
    def sql(self, text: str) -> Any:
        """Execute one statement, or several separated by `;`; gives the result of the last one."""
        self._core.require_open()
        result = None
        for statement in parse(text):
            result = execute(self, self._core, statement, text)
            self.clock.wake()
        return result

    @uninterruptible
    def register(self, name: str, aggregate: Ring | Operation | Function) -> None:
        """Make a `vm.Ring` an SQL aggregate of this name, or a `vm.Operation` one of windows; its
        laws are tried first. A `vm.Function` is registered as `mill.function` does.

        A durable mill does not keep Python functions: who opens it again gives them to
        `vm.connect(path, register={...})`.
        """
        self._core.require_open()
        with self._core.write_lock:
            register_one(self._core, name, aggregate)
            repair_callers(self._core, name)
        deliver_notices(self._core)

    @uninterruptible
    def function(
        self,
        name: str,
        function: Any,
        type: Any = None,
        *,
        vectorized: bool = False,
        deterministic: bool = True,
    ) -> None:
        """Make a Python function a scalar function of SQL; `type` is the SQL type of its result.

        A UDF of PySpark brings its type along. A vectorized function takes a `pyarrow.Array` for
        each argument. Views call it once for equal arguments, so it must always give the same for
        them; one that does not is registered with `deterministic=False`, and only queries use it.

        A durable mill does not keep Python functions: views that call one which is not registered
        wait until it is.
        """
        self._core.require_open()
        self.require_no_batch()
        declared = Function(function, type, vectorized, deterministic)
        with self._core.write_lock:
            register_one(self._core, name, declared)
            repair_callers(self._core, name)
        deliver_notices(self._core)

    @uninterruptible
    def table(
        self,
        source: Any,
        *,
        name: str | None = None,
        key: str | Sequence[str] = (),
        options: str = "",
    ) -> None:
        """Create a table with the columns and rows of a frame or of a table in Spark's catalog.

        `mill.table("sales.orders")` makes the table orders of what Spark has now; `name` calls it
        otherwise, `key` is its primary key, `options` are more of CREATE TABLE.
        """
        self._core.require_open()
        self.require_no_batch()
        if name is None and not isinstance(source, str):
            raise InvalidArgument("rows have no name", hint='mill.table(rows, name="orders").')
        called = source.rsplit(".", 1)[-1].strip("`") if name is None else name
        check_name(called, "a table")
        rows = rows_of(self._core, source)
        keys = (key,) if isinstance(key, str) else tuple(key)
        self.sql(create_statement(called, rows, keys, options))
        try:
            self.insert(called, rows)
        except BaseException:
            self.sql(f"DROP TABLE {quoted(called)}")
            raise

    # Following sources.

    def follow(
        self,
        table: str,
        source: Source,
        *,
        key: str | Sequence[str] = (),
        options: str = "UNCHECKED",
        every: float = 1.0,
        background: bool = True,
    ) -> None:
        """Keep a table equal to a source; create the table if there is none.

        Rows and offsets are committed together: a mill that is opened again and follows the same
        source goes on where it was. With background=False only `catch_up` looks for rows.
        """
        self._core.require_open()
        self.require_no_batch()
        if table.lower() in self._followers:
            raise InvalidArgument(f'table "{table}" follows a source already')
        keys = (key,) if isinstance(key, str) else tuple(key)
        made = Follower(self, prepare(self, table, source, keys, options), source, every)
        self._followers[table.lower()] = made
        if background:
            made.start()

    def catch_up(self, timeout: float | None = None) -> bool:
        """Take everything that the sources have now; False if that takes longer than `timeout`.

        All sources are tried; then the first error, if there is one, is raised.
        """
        self._core.require_open()
        self.require_no_batch()
        return catch_up([*self._followers.values()], timeout)

    def unfollow(self, table: str) -> None:
        """Stop following, and forget how far the source was taken; the rows stay."""
        self._core.require_open()
        self.require_no_batch()
        follower = self._followers.pop(table.lower(), None)
        if follower is not None:
            follower.stop()
            follower.forget()
        elif table.lower() not in self._core.catalog.followed or table.lower() == OFFSETS:
            raise InvalidArgument(f'table "{table}" follows no source')
        forget(self, table)

    @uninterruptible
    def commit_changes(self, changes: Callable[[], dict[str, Changed]]) -> None:
        """Commit what `changes` gives, asked under the lock, as one version: for followers."""
        with self.changing(), self._core.write_lock:
            found = changes()
            if found:
                self._commit(found)

    # Changing tables.

    @uninterruptible
    def insert(self, table: str, rows: Any) -> None:
        """Insert rows: a frame, or a list of tuples or dicts."""
        core = self._core
        if core.closed:
            core.require_open()
        with core.write_lock:
            entry = core.catalog.table(table)
            if core.catalog.followed:
                core.catalog.require_unfollowed(entry.name)
            delta = to_delta(rows, entry.table.schema, core.dictionary)
            batch = self._batch
            if batch is not None:
                batch.take(entry, delta)
            else:
                self._commit_one(entry, delta)
        if core.notices:
            deliver_notices(core)
        self._give_back()

    @uninterruptible
    def delete(self, table: str, rows: Any) -> None:
        """Delete rows; a row that is given n times is deleted n times."""
        with self.changing():
            self.change(table, self._delta(table, rows).negated())

    @uninterruptible
    def upsert(self, table: str, rows: Any) -> None:
        """Insert rows, replacing the rows with the same primary keys."""
        with self.changing(), self._core.write_lock:
            entry = self._core.catalog.table(table)
            self._core.catalog.require_unfollowed(entry.name)
            delta = self._delta(table, rows)
            batch = self._batch
            if batch is not None:
                batch.upsert(entry, delta)
            else:
                self.change(table, entry.table.replacement(delta, None))

    @uninterruptible
    def apply(
        self,
        table: str,
        rows: Any,
        *,
        multiplicity: str | None = None,
        change: str | None = None,
    ) -> None:
        """Apply rows with a column of multiplicities or of change types."""
        if (multiplicity is None) == (change is None):
            raise InvalidArgument(
                "apply needs one of multiplicity= and change=",
                hint='mill.apply("t", rows, change="_change_type")',
            )
        with self.changing():
            self.change(table, self._delta(table, rows, multiplicity=multiplicity, change=change))

    @uninterruptible
    def apply_product(
        self,
        table: str,
        factors: Any,
        value: str | None = None,
        *,
        multiplicity: str | None = None,
    ) -> None:
        """Apply a product of row sets over disjoint columns, without expanding it into rows.

        Each factor is a frame, a list of dicts or tuples, or a dict of columns. The rows are the
        combinations of one row of each; their multiplicities (a column named by `multiplicity`, or
        `_multiplicity`) multiply, and so do the numbers in the column `value`, which several
        factors may have: `[u, v]` with values is the outer product of two vectors. What
        `vm.factorize` gives, one product or all, may stand for the factors.
        """
        with self.changing():
            schema = self._core.catalog.table(table).table.schema
            products = [
                to_product(
                    each, schema, self._core.dictionary, value=own, multiplicity=multiplicity
                )
                for each, own in products_in(factors, value, schema.names)
            ]
            made = [each if each.is_plain else each.delta() for each in products if each]
            if made:
                self.change(table, *made)

    @uninterruptible
    def replay(self, table: str, rows: Any, *, view: str, multiplicity: str | None = None) -> Any:
        """Apply rows one at a time; an Arrow table of what the view shows after each.

        For a view of one row that is one row for each row given, otherwise the changes, with the
        columns `_step` and `_multiplicity`. The table changes as one batch if one kernel can
        replay the view; otherwise row by row, and rows before one that fails stay.
        """
        with self.changing():
            delta = self._delta(table, rows, multiplicity=multiplicity)
            return replay(self, self._core, table, delta, view)

    @uninterruptible
    def advance(self, table: str | None = None, *, to: datetime.datetime | int | str) -> None:
        """Move the watermark of a table to `to` (UTC); windows that end by then are answered.

        Without a table it is the time of the mill, `now()`, that moves: at once, whatever its clock
        says until the clock has come so far. Time never goes back.
        """
        self._core.require_open()
        self.require_no_batch()
        with self._core.write_lock:
            if table is None:
                tick(self._core, to=microseconds(to))
                self._idle.follow()
            else:
                advance(self._core, table, microseconds(to))
        deliver_notices(self._core)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Read, then change: no other thread comes in between. Listeners are told afterwards."""
        core = self._core
        core.require_open()
        try:
            with core.lock:
                yield
        finally:  # a replay that fails midway has made changes
            deliver_notices(core)
        self._give_back()

    def _delta(self, table: str, rows: Any, **signs: str | None) -> Delta:
        schema = self._core.catalog.table(table).table.schema
        return to_delta(rows, schema, self._core.dictionary, **signs)

    @uninterruptible
    def change(self, table: str, *parts: Delta | Product) -> None:
        """Commit the change of one table, or add it to the open batch."""
        core = self._core
        core.require_open()
        with core.write_lock:
            entry = core.catalog.table(table)
            if core.catalog.followed:
                core.catalog.require_unfollowed(entry.name)
            batch = self._batch
            if batch is None:
                self._commit_one(entry, joined(parts[0].schema, parts))
            else:
                batch.take(entry, *parts)
        deliver_notices(core)

    def wait_until_compiled(self, timeout: float | None = None) -> bool:
        """Wait until no kernel is being compiled; False if that takes longer than `timeout`.

        `compile="background"` lets a new view start interpreted. Benchmarks and tests wait here.
        """
        self._core.require_open()
        return self._core.tiers.wait(timeout)

    def _commit_one(self, entry: TableEntry, change: Changed) -> None:
        """Commit the change of one table."""
        core = self._core
        if core.watched is not None or not is_small_commit(core, entry, change):
            self._commit({entry.name: change})
            return
        assert isinstance(change, Delta)
        self.writer = caller()
        if core.tiers.compiling:
            core.tiers.before_batch(change.size)
        if core.store is not None:
            core.require_writable()
        commit_small(core, entry, change)
        if core.store is not None:
            self._checkpoint_if_due()

    def _commit(self, changes: dict[str, Changed]) -> None:
        core = self._core
        self.writer = caller()
        core.require_writable()
        if core.tiers.compiling:
            core.tiers.before_batch(sum(each.size for each in changes.values()))
        with nullcontext() if core.watched is None else core.watched():
            has_deferred = commit_batch(core, changes)
        self._idle.follow()
        self._checkpoint_if_due()
        if has_deferred or core.time.watched or self._idle.next_moment() is not None:
            self.clock.wake()

    def _checkpoint_if_due(self) -> None:
        if is_checkpoint_due(self._core):
            with self._core.after_commit("the checkpoint"):
                checkpoint(self._core)

    @contextmanager
    def batch(self) -> Iterator[Mill]:
        """Commit several changes atomically, as one version; reads inside see the last version.

        It belongs to the thread that opens it. Other threads commit on their own meanwhile.
        """
        core, thread = self._core, caller()
        core.require_open()
        if self._batch is not None:
            raise InvalidArgument("a batch is open already", hint="Batches do not nest.")
        made = Batch()
        try:
            with core.write_lock:  # nobody is giving strings back, and nobody will until it ends
                self._batches[thread] = made
            yield self
            self._commit_together(made)
        except BaseException:
            made.was_left = True
            raise
        finally:
            self._batches.pop(thread, None)
        deliver_notices(core)
        self._give_back()

    def _give_back(self) -> None:
        """Compact the dictionary if many of its strings are no longer used."""
        core = self._core
        if core.dictionary.held < core.compact_at or core.is_locked_here():
            return  # who holds the lock may have rows that are in no table yet
        with core.write_lock, core.after_commit("giving strings back"):
            if not (self._batches or reads_older_versions(core) or core.closed):
                compact_if_due(core)

    @uninterruptible
    def _commit_together(self, batch: Batch) -> None:
        with self._core.write_lock:
            del self._batches[caller()]
            self._commit(batch.changes(self._core))

    @property
    def _batch(self) -> Batch | None:
        """The open batch of this thread.

        A call whose caller was interrupted, and left the batch, still belongs to that batch.
        """
        made = self._batches.get(caller())
        if made is not None:
            return made
        owner, began = getattr(mine, "batch", (None, None))
        return began if owner is self and began is not None and began.was_left else None

    def require_no_batch(self) -> None:
        """Raise if a batch is open: tables and views are defined outside of batches."""
        if self._batch is not None:
            raise InvalidArgument(
                "tables and views cannot be defined inside a batch",
                hint="Finish the batch first.",
            )

    @uninterruptible
    def before_commit(self, fn: Callable[[int, Mapping[str, Change]], None]) -> None:
        """Call `fn(version, change of each view)` before each commit; its errors undo the batch.

        For what must not miss a change and not see one that was never committed: write it down
        here, act on it when the mill has reached the version.
        """
        core = self._core

        def prepare(version: int, outputs: Mapping[str, Delta]) -> None:
            changed = {name: delta for name, delta in outputs.items() if delta.size}
            fn(version, {n: Change(n, version, d, core.dictionary) for n, d in changed.items()})

        core.preparations.append(prepare)
        for entry in core.catalog.views():
            note_followers(core, entry)

    # Sinks.

    def sink(
        self,
        view: str,
        sink: Sink | None = None,
        *,
        format: str | None = None,
        path: str | os.PathLike[str] | None = None,
        mode: str = "table",
        name: str | None = None,
    ) -> None:
        """Keep a target equal to a view: `mill.sink("v", vm.sinks.sqlalchemy(url, "v", key="id"))`.

        Or files: `mill.sink("v", format="delta", path="out/v")`, also "parquet"; mode="changes".
        A thread writes it. A commit does not wait for it and does not fail with it; what failed is
        tried again, and `status()["sinks"]` says how far it is. A mill that is opened again is
        given its sinks again. A second sink of a view needs a `name`.
        """
        self._core.require_open()
        self.require_no_batch()
        if sink is None:
            if format is None or path is None:
                raise InvalidArgument("a sink needs format= and path=, or to be one of vm.sinks")
            sink = file_sink(format, path, mode)
        elif format is not None or path is not None:
            raise InvalidArgument("a sink of vm.sinks has no format= and path=")
        called = self.view(view).name if name is None else name
        if called in self._deliveries:
            raise InvalidArgument(f'there is a sink "{called}" already', hint="Give it a name=.")
        made = Delivery(self, view, sink)
        made.start()
        self._deliveries[called] = made

    def unsink(self, name: str) -> None:
        """Stop writing a sink; what was written stays."""
        if name not in self._deliveries:
            raise InvalidArgument(f'there is no sink "{name}"')
        self._deliveries.pop(name).stop()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all sinks have what is committed now; False if it takes over `timeout`.

        All sinks are tried; then the first error, if there is one, is raised.
        """
        self._core.require_open()
        return flush([*self._deliveries.values()], timeout)

    # Inspection.

    @property
    def core(self) -> Core:
        """The components of the mill, for code that builds on it, such as the pipeline."""
        return self._core

    @property
    def version(self) -> int:
        """The version of the last commit."""
        return self._core.version

    def definition(self, name: str) -> str | None:
        """The CREATE statement of a table or view as it was written, None if there is none."""
        entry = self._core.catalog.get(name)
        return None if entry is None else entry.sql

    def definitions(self) -> list[str]:
        """The CREATE statements of all tables and views, in dependency order."""
        with self._core.lock:
            return [entry.sql for entry in self._core.catalog.by_reading()]

    @uninterruptible
    def view(self, name: str) -> View:
        """A handle on a materialized view."""
        self._core.require_open()
        with self._core.lock:
            return View(self, self._core, self._core.catalog.view(name).name)

    def __getitem__(self, name: str) -> View:
        return self.view(name)

    def __contains__(self, name: str) -> bool:
        return self._core.catalog.get(name) is not None

    @uninterruptible
    def parts(
        self, name: str, *, changed_since: int | datetime.datetime | None = None
    ) -> list[dict[str, Any]]:
        """The time parts of a table or temporal view: when each was loaded and last updated.

        With `changed_since` only those updated after a version, or after a time (UTC).
        """
        self._core.require_open()
        with self._core.lock:
            return parts_of(self._core, name, changed_since)

    @uninterruptible
    def refused(self, table: str) -> list[dict[str, Any]]:
        """The refused late rows of a table with LATENESS or RETENTION, at most the last 1000."""
        self._core.require_open()
        with self._core.lock:
            return refused_rows(self._core, table)

    def tables(self) -> list[str]:
        """The names of the tables."""
        return [entry.name for entry in self._core.catalog.tables()]

    def views(self) -> list[str]:
        """The names of the materialized views."""
        return [entry.name for entry in self._core.catalog.views()]

    def broken(self) -> dict[str, str]:
        """The views that could not be opened, and why; REFRESH tries again, DROP forgets them."""
        return {entry.name: entry.reason for entry in self._core.catalog.broken()}

    @uninterruptible
    def status(self) -> dict[str, Any]:
        """The mill's version, its tables, and the status of every view."""
        core = self._core
        core.require_open()
        with core.lock:
            tables = {
                entry.name: {
                    "rows": entry.table.rows,
                    "negative_rows": count_negative_rows(entry.table),
                    "bytes": entry.table.nbytes,
                    "version": entry.table.version,
                    "options": str(entry.table.options),
                    "refused": 0 if entry.table.parts is None else entry.table.parts.refused_count,
                    "expected": described_expectation(core, entry),
                }
                for entry in core.catalog.tables()
            }
            views = {name: self.view(name).status() for name in self.views()}
            path = None if core.store is None else str(core.store.shown_path)
            return {
                "version": core.version,
                "path": path,
                "memory": core.budget,
                "state_bytes": sum(each["state_bytes"] for each in views.values()),
                "tables": tables,
                "views": views,
                "sources": self.sources(),
                "sinks": self.sinks(),
                "broken": self.broken(),
                "trouble": core.trouble,
            }

    def sources(self) -> dict[str, dict[str, Any]]:
        """How far each source is that a table follows, by table."""
        return {each.name: each.status() for each in [*self._followers.values()]}

    def sinks(self) -> dict[str, dict[str, Any]]:
        """How far each sink is, by its name."""
        return {name: each.status() for name, each in [*self._deliveries.items()]}

    def console(self, *, port: int = 0, write: bool = False) -> Any:
        """Show this mill in the browser: a server on loopback, in a thread of its own.

        Open the `url` of what this gives; its `stop()`, or closing the mill, ends it. It only reads
        unless `write` is true. Needs the extra `console`.
        """
        self._core.require_open()
        return server(OPEN_CONSOLE, "console")(self, port=port, write=write)

    @uninterruptible
    def show(self, name: str, stage: str = "plan") -> str:
        """A view, or a query or CREATE statement not yet created, at a stage of its life."""
        if stage not in STAGES:
            raise InvalidArgument(f'no stage "{stage}"', hint=f"One of {', '.join(STAGES)}.")
        self._core.require_open()
        with self._core.lock:
            made = self._plan_of(name)
        if stage == "algebra":
            return display(made.query)
        if stage == "plan":
            return str(explain(made, "text", {}))
        if stage == "program":
            return "\n".join(display_program(block.program) for block in made.blocks)
        bodies = [body for block in made.blocks for body in _bodies(block.program)]
        sources = [body.source for body in bodies if isinstance(body, Triggers)]
        if not sources:
            raise UnsupportedQuery(
                f'view "{made.view}" has no kernel', detail="It is recomputed by the engine."
            )
        return "\n".join(sources)

    def _plan_of(self, name: str) -> Plan:
        if name.strip().isidentifier():
            return self._core.catalog.view(name.strip()).plan
        statement = parse(name)[-1]
        if isinstance(statement, Query):
            statement = CreateMaterializedView("query", statement.query, statement.query_sql)
        if not isinstance(statement, CreateMaterializedView):
            raise InvalidArgument("show takes a view's name, a SELECT or a CREATE statement")
        return plan_view(self._core, statement, name)[0]

    # Expected arrivals and memory.

    @uninterruptible
    def expect(self, table: str, **said: Any) -> None:
        """Say what comes next for a table, or how it arrives; nothing said takes it back.

        rows, complete, deletes, at    the next delta: `expect("orders", rows=5000, complete=False)`
        ..., deltas                    the same of each of so many deltas
        ..., lasting                   the same of each delta for a time: "2 hours"
        every, rows, total             a schedule: so many rows once per period, up to a total
        late, every, total             each period this share of what is missing of the total comes

        What is said of deltas is forgotten when they have come; a schedule stays. Nothing depends
        on it but speed: a delta that was not expected is taken like any other.
        """
        self._core.require_open()
        with self._core.lock:
            expect(self._core, table, said)
        self.clock.wake()

    @uninterruptible
    def memory_curve(
        self,
        view: str,
        budgets: Sequence[int | str],
        *,
        expect: Mapping[str, float | str] | None = None,
        rows: Mapping[str, float | str] | None = None,
        selections: Sequence[str] = ("dynamic", "rebatch"),
    ) -> list[Point]:
        """The estimated refresh cost of a view, existing or not, for each memory budget.

        `expect` says rows of the next deltas (5000, or "1%" of the table); `rows` says how large
        tables are that hold nothing yet.
        """
        self._core.require_open()
        with self._core.lock:
            made = self._plan_of(view)
            sizes = [memory_bytes(each) for each in budgets]
            names = [check_selector(each) for each in selections]
            return memory_curve(self._core, made, sizes, expect or {}, rows, names)

    @uninterruptible
    def memory_operators(self, view: str, *, rows: Mapping[str, float | str]) -> Operator:
        """The operator tree that the selection of states uses for a view, existing or not."""
        self._core.require_open()
        with self._core.lock:
            return view_operators(self._core, self._plan_of(view), {}, rows)

    # Checkpoints and closing.

    @uninterruptible
    def checkpoint(self) -> None:
        """Write snapshots, so that opening the mill need not replay the log."""
        self._core.require_open()
        with self._core.write_lock:
            checkpoint(self._core)

    def backup(self, path: str | os.PathLike[str]) -> int:
        """Copy a durable mill, while it is used, to a directory that `vm.connect` opens.

        Gives the version that the copy has: the newest one, or one that is committed meanwhile.
        """
        self._core.require_open()
        store = self._core.store
        if store is None:
            raise InvalidArgument(
                "a mill in memory has no files to copy", hint="Open it with vm.connect(path)."
            )
        return back_up(store.shown_path, path)

    def serve_flight(
        self,
        *,
        port: int = 8815,
        host: str = "127.0.0.1",
        users: str | os.PathLike[str] | None = None,
        grants: str | os.PathLike[str] | None = None,
        max_rows: int = 100_000_000,
        cert: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Serve whole tables, views and change streams by Arrow Flight, read-only.

        A ticket is a name, '{"sql": "SELECT ..."}' or '{"subscribe": "v"}'. The other arguments are
        those of `serve`. It runs until its `close()`, or the mill is closed.
        """
        self._core.require_open()
        start = pkgutil.resolve_name("viewmill.serve.server:serve_flight")
        started = start(
            self._core, port=port, host=host, users=users, grants=grants, max_rows=max_rows,
            cert=cert, key=key,
        )  # fmt: skip
        self._servers.append(weakref.ref(started))
        return started

    def trace(self, tracer: Any = None) -> Any:
        """Make a span of OpenTelemetry of each commit and refresh, with an event per changed view.

        `tracer` is one of OpenTelemetry's; without it, the one of the program's own provider. It
        goes on until its `close()`, or the mill is closed.
        """
        return self._report("viewmill.serve.traces:traces", tracer, extra="opentelemetry")

    def log_commits(self, to: str | os.PathLike[str] | Callable[[str], object]) -> Any:
        """Write a line of JSON for each commit and refresh to a file, or give it to a function.

        It goes on until its `close()`, or the mill is closed.
        """
        return self._report("viewmill.serve.commit_log:commit_log", to)

    def lineage(
        self,
        to: str | os.PathLike[str] | Callable[[dict[str, Any]], object],
        *,
        namespace: str = "viewmill",
        every: float = 60.0,
    ) -> Any:
        """Tell what views are made of, and that they changed, by events of OpenLineage.

        `to` is the address of a server (http://... or https://...), a file for lines of JSON, or a
        function. A view that goes on changing is told of once in `every` seconds. It goes on until
        its `close()`, or the mill is closed.
        """
        return self._report("viewmill.serve.lineage:lineage", to, namespace, every)

    def _report(self, name: str, *given: Any, extra: str = "") -> Any:
        self._core.require_open()
        start = server(name, extra) if extra else pkgutil.resolve_name(name)
        started = start(self._core, *given)
        self._servers.append(weakref.ref(started))
        return started

    def serve_metrics(self, *, port: int = 9464, host: str = "127.0.0.1") -> Any:
        """Serve the figures of `status()` to Prometheus at /metrics, and the health at /health.

        Port 0 chooses a free one: `.port`. It runs until its `close()`, or the mill is closed.
        """
        self._core.require_open()
        start = pkgutil.resolve_name("viewmill.serve.metrics:serve_metrics")
        started = start(self.status, port=port, host=host)
        self._servers.append(weakref.ref(started))
        return started

    def serve(
        self,
        *,
        port: int = 5433,
        host: str = "127.0.0.1",
        users: str | os.PathLike[str] | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        timeout: float | None = None,
        cert: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        grants: str | os.PathLike[str] | None = None,
    ) -> Server:
        """Serve the tables and views, read-only, to psql, BI tools and drivers of Postgres.

        Port 0 chooses a free one: `server.port`. `users` is a file that `viewmill serve --add-user`
        writes; an address that other machines can reach needs one. A result has at most `max_rows`
        rows and `max_bytes` bytes, a query takes at most `timeout` seconds. With `cert` and `key`,
        files in PEM format, only encrypted connections are taken. `grants` is a file of CREATE ROLE
        and GRANT statements that say who reads what; without it, every user reads everything. It
        runs until it or the mill is closed.
        """
        self._core.require_open()
        given = {"rows": max_rows, "bytes": max_bytes, "seconds": timeout}
        limits = {name: each for name, each in given.items() if each is not None}
        start = pkgutil.resolve_name("viewmill.serve.server:serve")
        made = pkgutil.resolve_name("viewmill.serve.limits:Limits")(**limits)
        started: Server = start(
            self._core, port=port, host=host, users=users, limits=made, cert=cert, key=key,
            grants=grants,
        )  # fmt: skip
        self._servers.append(weakref.ref(started))
        return started

    @uninterruptible
    def close(self) -> None:
        """Release the directory and the engine; acknowledged changes are safe without it."""
        for reference in self._servers:
            if (started := reference()) is not None:
                started.close()
        self.clock.stop()
        for each in self._followers.values():
            each.stop()
        for delivery in self._deliveries.values():
            delivery.stop()
        with self._core.write_lock:  # it is released once: an interrupt must not come halfway
            checkpoint_on_closing(self._core)
            self._release()
            for stream in self.streams:
                stream.put(None)

    def __enter__(self) -> Mill:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        core = self._core
        where = "in memory" if core.store is None else str(core.store.shown_path)
        state = "closed" if core.closed else f"version {core.version}"
        tables, views = len(core.catalog.tables()), len(core.catalog.views())
        return f"mill {where}: {tables} tables, {views} views, {state}"


def _open_store(path: str | os.PathLike[str] | None, read_only: bool) -> Store | None:
    if not read_only:
        return None if path is None else Store.open(path)
    if path is None:
        raise InvalidArgument(
            "read_only needs the path of a mill", detail="A mill in memory is only seen here."
        )
    return open_read_only(path)


def _bodies(program: Program) -> list[Body]:
    """A program's body, or those of the programs inside it."""
    if isinstance(program.body, Windowed | WindowParts):
        both = program.body.prepare, program.body.finish
        return [each.body for each in both if each is not None]
    return [program.body]


def _release(core: Core, clock: Clock) -> None:
    """Stop the clock and release the engine and the directory. Runs once."""
    clock.stop()
    with core.write_lock:
        core.closed = True
        core.close_engine()
        if core.store is not None and core.store.is_open:
            if not core.read_only:
                write_parts(core, is_closing=True)
            core.store.close()


def _tick(reference: weakref.ref[Mill]) -> bool:
    """Refresh the views that are due, for the clock; False if the mill is gone."""
    mill = reference()
    if mill is None or mill._core.closed:
        return False
    with mill._core.write_lock:
        if not mill._core.closed:
            refresh_due(mill._core, reading=None)
    deliver_notices(mill._core)
    return True

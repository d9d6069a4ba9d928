"""Play a session: each step on a mill and on the world, then compare.

A step that makes no sense any more (its table was dropped when the session was made small) is
skipped, so any part of a session is a session.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import viewmill as vm
from viewmill.errors import ViewmillError
from viewmill.testing.oracle import Refused, Row, canonical, differences
from viewmill.testing.sessions.check import (
    Different,
    check_names,
    check_statuses,
    check_verify,
    check_views,
)
from viewmill.testing.sessions.definitions import Evaluator
from viewmill.testing.sessions.draw_wide import functions
from viewmill.testing.sessions.names import START, quoted
from viewmill.testing.sessions.steps import Step
from viewmill.testing.sessions.world import (
    EPOCH,
    Column,
    Impossible,
    Stream,
    Table,
    View,
    World,
    arrow_table,
    plain_value,
)

_DATA = ("insert", "delete", "upsert", "apply", "product", "batch", "advance")
_EXPECTED = (vm.errors.InvalidRow, vm.errors.Overflow, vm.errors.EvaluationFailed)


class Player:
    """A mill and a world, kept side by side."""

    def __init__(
        self, *, is_durable: bool = False, is_wide: bool = False, verify_every: int = 10
    ) -> None:
        self._folder = tempfile.mkdtemp(prefix="session") if is_durable else None
        self._life = 0
        self._memory: str | None = None
        self.world = World(is_wide=is_wide, now=START)
        self.mill = self._connected()
        self.evaluator = Evaluator(self.world)
        self._played, self._verify_every = 0, verify_every
        self._was_refused = False
        self._is_quiet = False  # since all was compared, only rows changed
        self._touched: set[str] = set()

    def _path(self) -> str | None:
        return None if self._folder is None else os.path.join(self._folder, f"{self._life}.mill")

    def _connected(self) -> Any:
        if not self.world.is_wide:
            return vm.connect(self._path(), memory=self._memory)
        now = EPOCH + dt.timedelta(microseconds=round(self.world.now * 1_000_000))
        known = {name: vm.Function(*each) for name, each in functions().items()}
        return vm.connect(
            self._path(), memory=self._memory, clock=now.isoformat(" "), register=known
        )

    def close(self) -> None:
        """Close the mill and remove its files."""
        self.mill.close()
        self.evaluator.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def play(self, step: Step) -> None:
        """Perform one step and compare; raises `Different`, or what the mill should not raise."""
        verb, *arguments = step
        action: Callable[..., None] = getattr(self, f"_do_{verb}")
        self._was_refused = False
        self._touched = set()
        action(*arguments)
        self._played += 1
        self.world.made += 1
        self._compare(is_data=verb in _DATA)

    def _compare(self, *, is_data: bool) -> None:
        """After a change of rows, the views that read them; at times all, and `verify` of one."""
        views = self.world.views
        check_names(self.mill, self.world)
        self._is_quiet = self._is_quiet and is_data and not self._was_refused
        if is_data and self._played % self._verify_every:
            names = self.world.readers_of_all(self._touched)
            check_views(self.mill, self.world, self.evaluator, names)
            return
        check_views(self.mill, self.world, self.evaluator, views)
        check_statuses(self.mill, self.world, is_quiet=self._is_quiet)
        self._is_quiet = True
        if views and self._played % self._verify_every == 0:
            turn = self._played // self._verify_every
            check_verify(self.mill, self.world, list(views)[turn % len(views)])

    # Rows.

    def _do_insert(self, name: str, rows: Sequence[Row], form: str) -> None:
        self._change(
            {name: lambda table: [(tuple(row), 1) for row in rows]},
            lambda: self.mill.insert(name, self._formed(name, rows, form)),
        )

    def _do_delete(self, name: str, rows: Sequence[Row], form: str) -> None:
        self._change(
            {name: lambda table: [(tuple(row), -1) for row in rows]},
            lambda: self.mill.delete(name, self._formed(name, rows, form)),
        )

    def _do_upsert(self, name: str, rows: Sequence[Row], form: str) -> None:
        self._change(
            {name: lambda table: table.replaced([tuple(row) for row in rows])},
            lambda: self.mill.upsert(name, self._formed(name, rows, form)),
        )

    def _do_apply(self, name: str, changes: Sequence[tuple[Row, int]]) -> None:
        self._change(
            {name: lambda table: [(tuple(row), times) for row, times in changes]},
            lambda: self.mill.apply(name, self._signed(name, changes), multiplicity="#times"),
        )

    def _do_batch(self, parts: Sequence[Step], is_abandoned: bool) -> None:
        parts = [part for part in parts if part[1] in self.world.tables]
        changes = {part[1]: _changes_of(part) for part in parts}

        def perform() -> None:
            with self.mill.batch():
                for part in parts:
                    self._call(part)
                if is_abandoned:
                    raise _Abandoned

        if not is_abandoned:
            self._change(changes, perform)
            return
        try:
            perform()
        except (_Abandoned, *_EXPECTED):
            self._was_refused = True

    def _do_product(self, name: str, factors: Sequence[Any], times: int) -> None:
        """Each factor is its roles and its rows; the rows of the table are their combinations."""
        if name not in self.world.tables:
            return
        table = self.world.tables[name]
        order = [role for roles, _ in factors for role in roles]
        at = [order.index(role) for role in table.roles]
        joined = [sum(map(tuple, each), ()) for each in product(*(rows for _, rows in factors))]
        rows = [tuple(row[i] for i in at) for row in joined]
        given = [
            [
                dict(zip((table.column(r).name for r in roles), map(plain_value, row), strict=True))
                for row in rows_
            ]
            for roles, rows_ in factors
        ]
        for row in given[0]:
            row["#times"] = times
        self._change(
            {name: lambda _: [(row, times) for row in rows]},
            lambda: self.mill.apply_product(name, given, multiplicity="#times"),
        )

    def _call(self, part: Step) -> None:
        verb, name, rows, *form = part
        if verb == "apply":
            self.mill.apply(name, self._signed(name, rows), multiplicity="#times")
        else:
            getattr(self.mill, verb)(name, self._formed(name, rows, *form))

    def _change(
        self,
        changes: dict[str, Callable[[Table], list[tuple[Row, int]]]],
        perform: Callable[[], None],
    ) -> None:
        """Change the world, or see why that is impossible; the mill must agree."""
        if any(name not in self.world.tables for name in changes):
            return
        changed = {}
        try:
            for name, changes_of in changes.items():
                changed[name] = self.world.tables[name].copy()
                changed[name].change(changes_of(changed[name]))
                changed[name].check()
        except Impossible as why:
            self._touched = set(changes)
            self._refused(perform, why)
            return
        self._perform(perform, changed)

    def _perform(self, perform: Callable[[], None], changed: dict[str, Table]) -> None:
        """Change tables of both; the mill must refuse it exactly if a view has no answer then."""
        before = dict(self.world.tables)
        self._touched = set(changed)
        self.world.tables.update(changed)
        try:
            self._require_answers(self.world.readers_of_all(changed))
        except Refused as why:
            self.world.tables.update(before)
            self._refused(perform, why)
            return
        try:
            perform()
        except _EXPECTED as error:
            is_settled = all(table.is_settled for table in self.world.tables.values())
            if is_settled and not self._may_be_refused(self.world.readers_of_all(changed)):
                raise Different("refused", f"{type(error).__name__}: {error}") from error
            self.world.tables.update(before)  # what views make of negative rows is their own
            self._was_refused = True

    def _may_be_refused(self, names: Iterable[str]) -> bool:
        views = [self.world.views[name] for name in names]
        return any(self.evaluator.may_be_refused(view, self.world.tables) for view in views)

    def _refused(self, perform: Callable[[], None], reason: Exception) -> None:
        """Something that the mill must refuse."""
        try:
            perform()
        except _EXPECTED:
            self._was_refused = True
            return
        raise Different("accepted", str(reason))

    def _require_answers(self, names: set[str]) -> None:
        """Every immediate view has an answer over the new rows."""
        for name in names:
            view = self.world.views[name]
            if not view.is_deferred and self._may_fail(view) and self.world.is_settled(view):
                self.evaluator.rows(view, self.world.tables)

    def _may_fail(self, view: View) -> bool:
        """Whether a query may have no answer: one over parts or patterns here always has."""
        return any(kind in view.definition for kind in ("duckdb", "window", "then"))

    def _formed(self, name: str, rows: Sequence[Row], form: str) -> Any:
        columns = self.world.tables[name].columns
        rows = [tuple(map(plain_value, row)) for row in rows]
        match form:
            case "dicts":
                return [{c.name: v for c, v in zip(columns, row, strict=True)} for row in rows]
            case "arrow":
                return arrow_table(columns, rows, named=True)
            case "pandas" if not (_has_nan(rows) or self.world.is_wide):  # pandas' NaN is NULL
                return arrow_table(columns, rows, named=True).to_pandas(integer_object_nulls=True)
            case _:
                return rows

    def _signed(self, name: str, changes: Sequence[tuple[Row, int]]) -> Any:
        columns = self.world.tables[name].columns
        return [
            {c.name: plain_value(v) for c, v in zip(columns, row, strict=True)} | {"#times": times}
            for row, times in changes
        ]

    def _do_advance(self, name: str, seconds: float) -> None:
        if name not in self.world.tables:
            return
        table = self.world.tables[name].copy()
        if table.watermark is not None and seconds < table.watermark:
            return
        table.tick = seconds
        moment = EPOCH + dt.timedelta(seconds=seconds)
        self._perform(lambda: self.mill.advance(name, to=moment), {name: table})

    def _do_let_pass(self, seconds: float) -> None:
        """The clock goes on to this moment."""
        if seconds < self.world.now:
            return
        before, self.world.now = self.world.now, seconds
        names = [view.name for view in self.world.views.values() if view.follows_clock]
        self._touched = {*names, *self.world.readers_of_all(names)}
        moment = EPOCH + dt.timedelta(microseconds=round(seconds * 1_000_000))
        try:
            self._require_answers(self._touched)
        except Refused:
            self.world.now = before  # what a mill does then is its own affair
            return
        self.mill.advance(to=moment)

    # Definitions.

    def _do_create_table(
        self, name: str, alias: str, columns: Sequence[Sequence[str]], options: dict[str, Any]
    ) -> None:
        if name in self.world.tables or name in self.world.views:
            return
        stream = options.get("stream")
        table = Table(
            name,
            alias,
            tuple(Column(*column) for column in columns),
            tuple(options.get("key", ())),
            bool(options.get("unchecked")),
            bool(options.get("append_only")),
            None if stream is None else Stream(**stream),
        )
        self.mill.sql(_create_table(table))
        self.world.tables[name] = table

    def _do_drop_table(self, name: str) -> None:
        if name in self.world.tables and not self.world.readers(name):
            self.mill.sql(f"DROP TABLE {quoted(name)}")
            del self.world.tables[name]

    def _do_create_view(
        self, name: str, clauses: str, query: str, definition: dict[str, Any], *, word: str = ""
    ) -> None:
        known = {**self.world.tables, **self.world.views}
        if any(read not in known for read in definition["reads"]):
            return
        if name in known and not word:
            return
        query = query.replace("@self", quoted(name))
        view = View(name, query, definition, is_deferred="IMMEDIATE" not in clauses)
        text = f"CREATE {word}MATERIALIZED VIEW {quoted(name)} {clauses} AS {query}"
        old = self.world.views.pop(name, None)
        self.world.views[name] = view
        try:
            if self.world.is_settled(view):
                self.evaluator.rows(view, self.world.tables)
            self.mill.sql(text)
        except (Refused, *_EXPECTED) as why:
            is_certain = self.world.is_settled(view) and not self._may_be_refused([name])
            del self.world.views[name]
            if old is not None:
                self.world.views[name] = old
            if isinstance(why, ViewmillError) and is_certain:
                raise Different("refused view", f"{type(why).__name__}: {why}") from why
            return
        if old is not None and old.stop is not None:
            old.stop()

    def _do_replace_view(
        self, name: str, clauses: str, query: str, definition: dict[str, Any]
    ) -> None:
        if name in self.world.views and not self.world.readers(name):
            self._do_create_view(name, clauses, query, definition, word="OR REPLACE ")

    def _do_drop_view(self, name: str) -> None:
        if name in self.world.views and not self.world.readers(name):
            self.mill.sql(f"DROP MATERIALIZED VIEW {quoted(name)}")
            del self.world.views[name]

    def _do_set_policy(self, name: str, policy: str) -> None:
        if name in self.world.views and not self.world.readers(name):
            view = self.world.views[name]
            if not self._has_answer(view):  # the change refreshes the view first
                return
            self.mill[name].set_policies(policy)
            view.is_deferred = policy != "IMMEDIATE"

    def _has_answer(self, view: View) -> bool:
        if not self.world.is_settled(view):
            return False
        try:
            self.evaluator.rows(view, self.world.tables)
        except Refused:
            return False
        return not self.evaluator.may_be_refused(view, self.world.tables)

    def _do_refresh(self, name: str) -> None:
        if name in self.world.views and self._has_answer(self.world.views[name]):
            self.mill[name].refresh()

    def _do_full_refresh(self, name: str) -> None:
        if name in self.world.views and self._has_answer(self.world.views[name]):
            self.mill.sql(f"REFRESH MATERIALIZED VIEW {quoted(name)} FULL")

    def _do_ask(self, name: str) -> None:
        """The query of a view, asked by itself."""
        view = self.world.views.get(name)
        if view is None or not self._may_fail(view) or not self._has_answer(view):
            return
        if any(
            self.world.views[each].is_deferred for each in view.reads if each in self.world.views
        ):
            return
        expected = self.evaluator.rows(view, self.world.tables)
        found = differences(expected, self.mill.sql(view.sql).rows())
        if found:
            raise Different("asked", f"{found[:4]}\n#   {view.sql}")

    def _do_subscribe(self, name: str) -> None:
        view = self.world.views.get(name)
        if view is None:
            return
        if view.stop is not None:
            view.stop()
            view.stop, view.followed = None, None
            return
        handle = self.mill[name]
        followed = Counter(tuple(map(canonical, row)) for row in handle.rows())
        view.followed = followed

        def note(change: Any) -> None:
            for row, times in change:
                followed[tuple(map(canonical, row))] += times

        view.stop = handle.subscribe(note)

    def _do_expect(self, name: str, rows: int) -> None:
        if name in self.world.tables:
            self.mill.expect(name, rows=rows)

    def _do_nonsense(self, statement: str) -> None:
        try:
            self.mill.sql(statement)
        except ViewmillError:
            return
        if any(quoted(name) in statement for name in {**self.world.tables, **self.world.views}):
            raise Different("accepted", statement)

    # A durable mill.

    def _do_connect(self, memory: str | None) -> None:
        """A mill with another budget; one in memory begins with it."""
        self._memory = memory
        if self._folder is not None or not self.world.tables:
            self.mill.close()
            self._reopen()

    def _do_restart(self) -> None:
        if self._folder is not None:
            self.mill.close()
            self._reopen()

    def _do_kill(self) -> None:
        """What is on disk now is what a kill leaves: a copy of the folder is opened."""
        if self._folder is None:
            return
        old = self._path()
        self._life += 1
        assert old is not None
        shutil.copytree(old, self._path() or "", ignore=shutil.ignore_patterns("*.lock", "lock"))
        self.mill.close()
        shutil.rmtree(old)
        self._reopen()

    def _reopen(self) -> None:
        self.mill = self._connected()
        for view in self.world.views.values():
            view.stop, view.followed, view.engine_calls = None, None, -1
        for name, reason in self.mill.broken().items():
            self._drop_broken(self.world.views[name], reason)

    def _drop_broken(self, view: View, reason: str) -> None:
        """A deferred window that has no answer any more, or a view above it, is broken."""
        for name in self.world.readers(view.name):
            self._drop_broken(self.world.views[name], reason)
        is_allowed = "window" in view.definition or any(n in self.world.views for n in view.reads)
        if not (view.is_deferred and is_allowed):
            raise Different("broken", f"{view.name}: {reason}\n#   {view.sql}")
        self.mill.sql(f"DROP MATERIALIZED VIEW {quoted(view.name)}")
        del self.world.views[view.name]

    def _do_checkpoint(self) -> None:
        if self._folder is not None:
            self.mill.checkpoint()


class _Abandoned(Exception):
    """Raised by the player inside a batch."""


def _changes_of(part: Step) -> Callable[[Table], list[tuple[Row, int]]]:
    verb, _, rows, *_ = part
    if verb == "apply":
        return lambda table: [(tuple(row), times) for row, times in rows]
    sign = -1 if verb == "delete" else 1
    return lambda table: [(tuple(row), sign) for row in rows]


def _create_table(table: Table) -> str:
    inside = [f"{quoted(column.name)} {column.type}" for column in table.columns]
    if table.key:
        names = ", ".join(quoted(table.column(role).name) for role in table.key)
        inside.append(f"PRIMARY KEY ({names})")
    text = f"CREATE TABLE {quoted(table.name)} ({', '.join(inside)})"
    text += " UNCHECKED" * table.is_unchecked + " APPEND ONLY" * table.is_append_only
    if table.stream is not None:
        text += f" TIMESTAMP BY {quoted(table.column(table.stream.role).name)}"
        if table.stream.part:
            text += f" PARTITION LENGTH {table.stream.part}"
        if table.stream.retention:
            text += f" RETENTION INTERVAL '{table.stream.retention}' SECONDS"
        if table.stream.lateness:
            text += f" LATENESS INTERVAL '{table.stream.lateness}' SECONDS"
    return text


def _has_nan(rows: Sequence[Row]) -> bool:
    return any(isinstance(value, float) and value != value for row in rows for value in row)

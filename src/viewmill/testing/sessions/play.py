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
from collections.abc import Callable, Sequence
from typing import Any

import viewmill as vm
from viewmill.errors import ViewmillError
from viewmill.testing.oracle import Refused, Row, canonical
from viewmill.testing.sessions.check import Different, check_all
from viewmill.testing.sessions.definitions import Evaluator
from viewmill.testing.sessions.draw_views import quoted
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
)

_DATA = ("insert", "delete", "upsert", "apply", "batch", "advance")
_EXPECTED = (vm.errors.InvalidRow, vm.errors.Overflow, vm.errors.EvaluationFailed)


class Player:
    """A mill and a world, kept side by side."""

    def __init__(self, *, is_durable: bool = False, verify_every: int = 10) -> None:
        self._folder = tempfile.mkdtemp(prefix="session") if is_durable else None
        self._life = 0
        self.mill = vm.connect(self._path())
        self.world = World()
        self.evaluator = Evaluator(self.world)
        self._played, self._verify_every = 0, verify_every
        self._was_refused = False
        self.world.note(self.mill.version)

    def _path(self) -> str | None:
        return None if self._folder is None else os.path.join(self._folder, f"{self._life}.mill")

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
        action(*arguments)
        self._played += 1
        self.world.made += 1
        self.world.note(self.mill.version)
        is_data = verb in _DATA and not self._was_refused
        with_verify = self._played % self._verify_every == 0
        check_all(self.mill, self.world, self.evaluator, verify=with_verify, is_data=is_data)

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
            self._refused(perform, why)
            return
        self._perform(perform, changed)

    def _perform(self, perform: Callable[[], None], changed: dict[str, Table]) -> None:
        """Change tables of both; the mill must refuse it exactly if a view has no answer then."""
        before = dict(self.world.tables)
        self.world.tables.update(changed)
        try:
            self._require_answers()
        except Refused as why:
            self.world.tables.update(before)
            self._refused(perform, why)
            return
        try:
            perform()
        except _EXPECTED as error:
            if all(table.is_settled for table in self.world.tables.values()):
                raise Different("refused", f"{type(error).__name__}: {error}") from error
            self.world.tables.update(before)  # what views make of negative rows is their own
            self._was_refused = True

    def _refused(self, perform: Callable[[], None], reason: Exception) -> None:
        """Something that the mill must refuse."""
        try:
            perform()
        except _EXPECTED:
            self._was_refused = True
            return
        raise Different("accepted", str(reason))

    def _require_answers(self) -> None:
        """Every immediate view has an answer over the new rows."""
        for view in self.world.views.values():
            settled = all(table.is_settled for table in self.world.tables.values())
            if not view.is_deferred and settled:
                self.evaluator.rows(view, self.world.tables)

    def _formed(self, name: str, rows: Sequence[Row], form: str) -> Any:
        columns = self.world.tables[name].columns
        rows = [tuple(row) for row in rows]
        match form:
            case "dicts":
                return [{c.name: v for c, v in zip(columns, row, strict=True)} for row in rows]
            case "arrow":
                return arrow_table(columns, rows, named=True)
            case "pandas" if not _has_nan(rows):  # pandas' NaN is NULL
                return arrow_table(columns, rows, named=True).to_pandas(integer_object_nulls=True)
            case _:
                return rows

    def _signed(self, name: str, changes: Sequence[tuple[Row, int]]) -> Any:
        columns = self.world.tables[name].columns
        return [
            {c.name: v for c, v in zip(columns, row, strict=True)} | {"#times": times}
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
            None if stream is None else Stream(stream["role"], stream["lateness"]),
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
        view = View(name, query, definition, is_deferred="IMMEDIATE" not in clauses)
        text = f"CREATE {word}MATERIALIZED VIEW {quoted(name)} {clauses} AS {query}"
        old = self.world.views.pop(name, None)
        self.world.views[name] = view
        try:
            if all(table.is_settled for table in self.world.tables.values()):
                self.evaluator.rows(view, self.world.tables)
            self.mill.sql(text)
        except (Refused, *_EXPECTED) as why:
            del self.world.views[name]
            if old is not None:
                self.world.views[name] = old
            if isinstance(why, ViewmillError):
                settled = all(table.is_settled for table in self.world.tables.values())
                if settled:
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
        try:
            self.evaluator.rows(view, self.world.tables)
        except Refused:
            return False
        return True

    def _do_refresh(self, name: str) -> None:
        if name in self.world.views and self._has_answer(self.world.views[name]):
            self.mill[name].refresh()

    def _do_full_refresh(self, name: str) -> None:
        if name in self.world.views and self._has_answer(self.world.views[name]):
            self.mill.sql(f"REFRESH MATERIALIZED VIEW {quoted(name)} FULL")

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

    def _do_restart(self) -> None:
        if self._folder is None:
            return
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
        """Opening fills views again; those that have no answer any more are broken, and dropped."""
        self.mill = vm.connect(self._path())
        for view in reversed(list(self.world.views.values())):
            view.stop, view.followed, view.engine_calls = None, None, -1
            if not self._has_answer(view):
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
        if table.stream.lateness:
            text += f" LATENESS INTERVAL '{table.stream.lateness}' SECONDS"
    return text


def _has_nan(rows: Sequence[Row]) -> bool:
    return any(isinstance(value, float) and value != value for row in rows for value in row)

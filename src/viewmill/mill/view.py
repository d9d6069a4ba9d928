"""The handle that users have on a materialized view."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from viewmill.algebra.names import quoted
from viewmill.algebra.packed import Packed
from viewmill.algebra.relations import Relation
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta
from viewmill.errors import InvalidArgument, UnknownName, UnsupportedQuery
from viewmill.mill.adaptive_recompute import estimate_recompute, is_adaptive
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.changes import Change, Changes
from viewmill.mill.core import Core
from viewmill.mill.create import refresh_fully
from viewmill.mill.fill import count_negative_rows
from viewmill.mill.lazy_rows import first_rows, lazy_batches
from viewmill.mill.readers import SHOWN, Readers, rows_of, table_text
from viewmill.mill.refresh import deliver_notices, refresh_due, refresh_view
from viewmill.mill.sharing import shared_with
from viewmill.mill.sorting import sort_keys, sorted_table
from viewmill.mill.temporal import is_temporal
from viewmill.mill.uninterruptible import uninterruptible
from viewmill.mill.verify import Difference, verify_view
from viewmill.mill.verify_parts import verify_parts
from viewmill.mill.view_lifecycle import lifecycle_of
from viewmill.mill.window_families import note_followers, window_facts, window_of
from viewmill.planner.explain import Explanation, explain
from viewmill.policies.policies import due_at
from viewmill.program.program import MomentParts

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill


class View(Readers):
    """A handle on a materialized view; it is valid as long as the view exists."""

    def __init__(self, mill: Mill, core: Core, name: str) -> None:
        self._mill, self._core, self._name = mill, core, name

    @property
    def name(self) -> str:
        """The name it was created with."""
        return self._name

    @property
    def sql(self) -> str:
        """The CREATE statement as it was written."""
        return self._entry.sql

    @property
    def mill(self) -> Mill:
        """The mill that it is a view of."""
        return self._mill

    @property
    def query(self) -> Relation:
        """What it computes."""
        return self._entry.query

    @property
    def is_immediate(self) -> bool:
        """Whether each commit refreshes it and all views that it reads."""
        catalog = self._core.catalog
        below = catalog.reads_transitively(self._name) | {self._name.lower()}
        deferred = {entry.name.lower() for entry in catalog.deferred()}
        return not below & deferred

    @property
    def _entry(self) -> ViewEntry:
        self._core.require_open()
        return self._core.catalog.view(self._name)

    # Reading.

    @uninterruptible
    def to_arrow(self) -> Any:
        """A pyarrow.Table, in the view's ORDER BY order if it has one."""
        with self._core.write_lock:
            entry = self._entry
            refresh_due(self._core, reading=[entry.name])
            table = expanded(entry.block.maintainer.contents(), self._core.dictionary)
            keys = sort_keys(entry.query)
        deliver_notices(self._core)
        if keys and entry.plan.is_incremental:
            return sorted_table(table, keys)
        return table

    @uninterruptible
    def with_low_parts(self) -> tuple[Any, dict[str, Any]]:
        """The rows as a pyarrow.Table, and for each column of moments its words: the numbers, then
        what rounding took from them."""
        with self._core.write_lock:
            entry = self._entry
            refresh_due(self._core, reading=[entry.name])
            rows = entry.block.maintainer.contents()
            table = expanded(rows, self._core.dictionary)
        deliver_notices(self._core)
        times = rows.multiplicities()
        words = {
            field.name: np.repeat(column, times, axis=0)
            for field, column in zip(rows.schema, rows.columns, strict=True)
            if isinstance(field.type, Packed) and not field.type.is_single
        }
        return table, words

    @uninterruptible
    def mixed_moments(self) -> tuple[Any, list[tuple[dict[str, Any], Any]]] | None:
        """The type of its cofactor over categories, and by group the keys and the moments as they
        are kept; None if the view is of another kind."""
        with self._core.write_lock:
            entry = self._entry
            refresh_due(self._core, reading=[entry.name])
            found = entry.block.maintainer.moment_groups()
            body = entry.block.program.body
        deliver_notices(self._core)
        return (body.type, found) if isinstance(body, MomentParts) and found is not None else None

    def batches(self) -> Iterator[Any]:
        """The rows as record batches; those of a factorized view are enumerated on demand.

        A change of the view ends the reading with an error, for its rows are not kept anywhere.
        """
        reader = self._lazy_batches()
        yield from self.to_arrow().to_batches() if reader is None else reader

    @uninterruptible
    def _lazy_batches(self) -> Iterator[Any] | None:
        with self._core.write_lock:
            refresh_due(self._core, reading=[self._entry.name])
            reader = lazy_batches(self._core, self._entry)
        deliver_notices(self._core)
        return reader

    @uninterruptible
    def head(self, rows: int = 10) -> Any:
        """The first rows as an Arrow table; a factorized view enumerates no others."""
        with self._core.write_lock:
            refresh_due(self._core, reading=[self._entry.name])
            table = first_rows(self._core, self._entry, rows)
        deliver_notices(self._core)
        return self.to_arrow().slice(0, rows) if table is None else table

    @uninterruptible
    def count(self, *, distinct: bool = False) -> int:
        """How many rows there are, or how many different ones; nothing is listed for it."""
        with self._core.write_lock:
            refresh_due(self._core, reading=[self._entry.name])
            entry = self._entry
            enumerator = entry.enumerator
            if not distinct:
                found = entry.rows
            elif enumerator is not None:
                found = enumerator.distinct_count()
            else:
                found = consolidate(entry.block.maintainer.contents()).size
        deliver_notices(self._core)
        return int(found)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for batch in self.batches():
            yield from rows_of(batch)

    def to_spark(self, spark: Any = None) -> Any:
        """A Spark DataFrame on the given session, the mill's, or the active one."""
        return super().to_spark(spark or self._core.spark)

    def parts(
        self, *, changed_since: int | datetime.datetime | None = None
    ) -> list[dict[str, Any]]:
        """The parts of a temporal view; with `changed_since` those updated after it."""
        return self._mill.parts(self._name, changed_since=changed_since)

    @uninterruptible
    def __len__(self) -> int:
        with self._core.lock:
            return self._entry.rows

    # Refreshing.

    @uninterruptible
    def refresh(self, *, full: bool = False) -> None:
        """Take in what waits; with `full`, build every state again from its definition."""
        with self._core.write_lock:
            entry = self._entry
            self._core.require_open()
            if full:
                refresh_fully(self._core, entry)
            else:
                refresh_view(self._core, entry)
            refresh_due(self._core, reading=None)  # its readers may be due now
        self._mill.clock.wake()
        deliver_notices(self._core)

    def set_policies(self, *clauses: str) -> None:
        """Change when it is refreshed: "EVERY 1000 ROWS", "WITHIN INTERVAL '5' SECONDS", ...

        Each is what stands behind REFRESH in SQL; whichever comes first refreshes the view.
        """
        if not clauses:
            raise InvalidArgument("no policy was given", hint='view.set_policies("IMMEDIATE")')
        words = [e if e.upper().startswith("REFRESH ") else f"REFRESH {e}" for e in clauses]
        self._mill.sql(f"ALTER MATERIALIZED VIEW {quoted(self._name)} {' '.join(words)}")

    @uninterruptible
    def verify(self) -> list[Difference]:
        """The rows in which the view differs from its recomputed definition; [] if it is right."""
        with self._core.lock:
            entry = self._entry
            if is_temporal(entry):
                return verify_parts(self._core, entry)
            return verify_view(self._core, entry)

    # Subscribing.

    @uninterruptible
    def subscribe(self, fn: Callable[[Change], None]) -> Callable[[], None]:
        """Call `fn(delta)` after each refresh with a change; gives a function to unsubscribe."""
        with self._core.lock:
            entry = self._entry
            if entry.enumerator is not None:
                raise UnsupportedQuery(
                    f'view "{entry.name}" is {entry.enumerator.form} and does not list its changes',
                    detail="One row of a table may change millions of rows of the result.",
                    hint="Read it after a refresh, or keep it with RESULT LISTED.",
                )

            def listener(version: int, delta: Delta) -> None:
                fn(Change(entry.name, version, delta, self._core.dictionary))

            entry.listeners.append(listener)
            note_followers(self._core, entry)

        def stop() -> None:
            with self._core.lock:
                if listener in entry.listeners:
                    entry.listeners.remove(listener)
                    note_followers(self._core, entry)

        return stop

    def changes(self, timeout: float | None = None) -> Changes:
        """An iterator over the deltas from now on; see `Changes` for when it waits."""
        stream = Changes(lambda: self._mill.writer, timeout)
        stream.stop = self.subscribe(stream.put)
        self._mill.streams.append(stream)
        return stream

    # Explaining.

    @uninterruptible
    def explain(self, form: str = "text") -> Explanation:
        """Explain the plan as "text", "json" or "svg": strategy, reasons, other offers, states."""
        with self._core.lock:
            entry = self._entry
            return explain(entry.plan, form, self._facts(entry))

    def _facts(self, entry: ViewEntry) -> dict[str, Any]:
        return {
            "sql": entry.sql,
            "sharding": entry.sharding,
            "policies": [str(policy) for policy in entry.policies] or ["REFRESH IMMEDIATE"],
            "state_bytes": entry.state_bytes(),
            "adaptive": estimate_recompute(self._core, entry).record()
            if is_adaptive(entry)
            else None,
            "shared": shared_with(entry),
            "windows": window_facts(entry),
            "status": self._status(entry),
        }

    @uninterruptible
    def status(self) -> dict[str, Any]:
        """Freshness, version, rows, bytes and counters."""
        with self._core.lock:
            return self._status(self._entry)

    def _status(self, entry: ViewEntry) -> dict[str, Any]:
        core = self._core
        waits = entry.waits()
        window = window_of(entry)
        taken = 0 if window is None else window.batches
        lag = (core.now() - waits.since) / 1e6 if waits.rows else 0.0
        due = due_at(entry.policies, waits)
        return {
            "name": entry.name,
            "freshness": "stale" if waits.rows or entry.outdated else "fresh",
            "version": entry.version if waits.rows else core.version,
            "rows": entry.rows,
            "result": "listed" if entry.enumerator is None else entry.enumerator.form,
            "state_bytes": entry.kept_bytes(),
            "result_bytes": entry.result_bytes(),
            "strategy": entry.plan.strategy,
            "tier": core.tiers.of_view(entry),
            "opened": entry.opened,
            "tier_reason": core.tiers.why(entry),
            "refresh_kind": "incremental" if taken else entry.refresh_kind,
            "shares_with": sorted({v for views in shared_with(entry).values() for v in views}),
            "refreshes": max(entry.refreshes, taken),
            "rows_changed": entry.rows_changed,
            "engine_calls": entry.engine_calls,
            "late_rows": sum(b.maintainer.late_rows for b in entry.blocks),
            "negative_rows": self._negative_rows(entry),
            "lag_s": lag,
            "waiting_rows": waits.rows,
            "error": entry.failure or entry.outdated,
            "next_refresh_s": None if due is None else max(0.0, (due - core.now()) / 1e6),
            "policies": [str(policy) for policy in entry.policies] or ["REFRESH IMMEDIATE"],
            **lifecycle_of(core, entry),
        }

    def _negative_rows(self, entry: ViewEntry) -> int | None:
        """Rows of its tables that were deleted before they were inserted; the view hides them.

        None if shards hold the view's part of the rows: they keep no rows that could be counted.
        """
        below = self._core.catalog.reads_transitively(entry.name)
        tables = [each for each in self._core.catalog.tables() if each.name.lower() in below]
        if any(each.is_gathered for each in tables):
            return None
        return sum(count_negative_rows(each.table) for each in tables)

    @uninterruptible
    def __repr__(self) -> str:
        with self._core.lock:
            try:
                entry = self._entry
            except UnknownName:
                return f"view {self._name} (dropped)"
            head = f"view {entry.name}: {entry.rows} rows, {entry.plan.strategy}"
            table = self.head(SHOWN)
            return head + "\n" + table_text(table.column_names, rows_of(table), entry.rows)

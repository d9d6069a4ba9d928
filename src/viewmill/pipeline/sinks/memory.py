"""A view as a temporary view of the Spark session, to query it with Spark SQL.

takes  the session, the rows of a view or its changes
does   replaces the temporary view with the view's name, or `NAME_changes`

Nothing is on disk: after a restart the table has the present rows of the view, and the changes
start with all of its rows.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from viewmill.algebra.names import quoted
from viewmill.deltas.arrow_types import in_utc
from viewmill.mill.changes import Change
from viewmill.mill.view import View
from viewmill.pipeline.sinks.sink import TableSink
from viewmill.sinks.change_rows import change_rows, with_multiplicity


def memory_table(spark: Any, name: str) -> TableSink:
    """The view as the temporary view `name`."""
    return TableSink(lambda rows, version: _show(spark, name, rows))


def changes_of(view: str) -> str:
    """The name of the temporary view with the changes of a view."""
    return f"{view}_changes"


class MemoryChanges:
    """The changes of a view as the temporary view `NAME_changes`, by `_commit_version`."""

    can_catch_up = True

    def __init__(self, spark: Any, view: str) -> None:
        self._spark, self._name = spark, changes_of(view)
        self.name = f"memory {self._name}"
        self._shown: list[pa.Table] = []
        self._prepared: tuple[int, pa.Table] | None = None

    def open(self, view: View, pipeline: str) -> None:
        """Nobody else has this memory."""

    def prepare(self, version: int, change: Change | None) -> None:
        """Hold the change until it is committed."""
        self._prepared = None if change is None else (version, change.to_arrow())

    def publish(self, version: int, view: View) -> None:
        """Add the prepared change to the temporary view."""
        if self._prepared is not None and self._prepared[0] <= version:
            at, rows = self._prepared
            self._prepared = None
            self._shown.append(change_rows(rows, at))
            _show(self._spark, self._name, pa.concat_tables(self._shown))

    def check(self, view: View, *, has_all: bool) -> None:
        """Nothing to check: it starts with all rows, which include missed changes."""

    def recover(self, version: int, view: View, *, has_all: bool) -> None:
        """Show a committed change, drop an uncommitted one; start anew if changes were missed."""
        self.publish(version, view)
        self._prepared = None
        if not has_all:
            self._shown.clear()

    def begin(self, version: int, view: View) -> None:
        """Start with all rows of the view."""
        if not self._shown:
            rows = change_rows(with_multiplicity(view.to_arrow(), 1), version)
            self._shown.append(rows)
            _show(self._spark, self._name, rows)


def _show(spark: Any, name: str, rows: pa.Table) -> None:
    spark.createDataFrame(in_utc(rows)).createOrReplaceTempView(f"{quoted(name)}")

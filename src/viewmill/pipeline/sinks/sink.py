"""What a sink must do so that a crash between any two steps neither loses nor doubles a change.

1. `prepare` before the mill commits a version: write the change down where nobody sees it.
2. The mill commits.
3. `publish`: show it, by one atomic step; showing a version again changes nothing.

At a start `check` comes first and may refuse; then `recover` gets the last version that the mill
has committed with its sinks: what was prepared up to it is published, what was prepared beyond it
is thrown away. Later versions may be there, of views that were created or dropped since, so it is
noted in the storage until a start has come this far. `begin` comes last, before the first batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewmill.errors import ForbiddenChange
from viewmill.mill.changes import Change
from viewmill.mill.view import View

CHANGE, VERSION = "_change_type", "_commit_version"
MULTIPLICITY = "_multiplicity"


class Sink(Protocol):
    """One place where one view goes.

    `has_all` says whether it has got every change of the view so far; if not, a run went on without
    it, or its view was dropped or defined otherwise in between.
    """

    @property
    def name(self) -> str | None:
        """What it is called among the sinks that must not miss a change; None if it may."""

    @property
    def can_catch_up(self) -> bool:
        """Whether it can be told the difference to what it has."""

    def open(self, view: View, pipeline: str) -> None:
        """Check that the place is ours: `pipeline` is the id of the pipeline."""

    def check(self, view: View, *, has_all: bool) -> None:
        """Raise if it has missed changes and cannot catch up; nothing is written yet."""

    def recover(self, version: int, view: View, *, has_all: bool) -> None:
        """What was prepared up to `version` is committed; catch up with what was missed."""

    def begin(self, version: int, view: View) -> None:
        """The mill is at `version`, and from now on every change is prepared."""

    def prepare(self, version: int, change: Change | None) -> None:
        """The next version, and the change of the view by it, None if there is none."""

    def publish(self, version: int, view: View) -> None:
        """The mill has reached `version`."""


class TableSink:
    """The view as a table that is replaced as a whole; `write(rows, version)` does it, atomically.

    Nothing is written ahead: the rows can be had from the view again.
    """

    can_catch_up = True

    def __init__(self, write: Callable[[pa.Table, int], None]) -> None:
        self._write = write
        self._is_due = False
        self.name: str | None = None

    def open(self, view: View, pipeline: str) -> None:
        """Watch the view: most versions do not change it."""
        view.subscribe(self._mark)

    def _mark(self, _: Change) -> None:
        self._is_due = True

    def check(self, view: View, *, has_all: bool) -> None:
        """All rows can be had from the view."""

    def recover(self, version: int, view: View, *, has_all: bool) -> None:
        """Nothing was prepared."""

    def prepare(self, version: int, change: Change | None) -> None:
        """Nothing to do."""

    def publish(self, version: int, view: View) -> None:
        """Replace the table, if the view changed; a view that waits is at an older version."""
        if self._is_due:
            self._is_due = False
            shown = version if view.is_immediate else view.status()["version"]
            self._write(view.to_arrow(), shown)

    def begin(self, version: int, view: View) -> None:
        """Replace the table: it may show an older version, or another definition."""
        self._is_due = True
        self.publish(version, view)


def change_rows(table: pa.Table, version: int) -> pa.Table:
    """Rows with `_multiplicity` as rows with `_change_type`, `_commit_version`; deletes first."""
    times = table.column(MULTIPLICITY).combine_chunks().to_numpy(zero_copy_only=False)
    gone, come = np.flatnonzero(times < 0), np.flatnonzero(times > 0)
    positions = np.concatenate([np.repeat(gone, -times[gone]), np.repeat(come, times[come])])
    words = ["delete"] * int(-times[gone].sum()) + ["insert"] * int(times[come].sum())
    rows = table.drop_columns([MULTIPLICITY]).take(pa.array(positions, pa.int64()))
    rows = rows.append_column(CHANGE, pa.array(words, pa.string()))
    return rows.append_column(VERSION, pa.array([version] * len(words), pa.int64()))


def net_rows(place: str, changes: list[pa.Table], schema: pa.Schema) -> pa.Table:
    """The rows that changes make up, with `_multiplicity`: what a reader of `place` has."""
    found = [schema.empty_table()]
    for table in changes:
        rows = table.drop_columns([CHANGE, VERSION])
        inserted = pc.equal(table.column(CHANGE), "insert").to_numpy()
        times = pa.array(np.where(inserted, 1, -1), pa.int64())
        rows = rows.append_column(MULTIPLICITY, times)
        if rows.column_names != schema.names:
            raise _other_columns(place)
        try:
            found.append(rows.cast(schema))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise _other_columns(place) from None
    return pa.concat_tables(found)


def _other_columns(place: str) -> ForbiddenChange:
    return ForbiddenChange(
        f"{place} holds the changes of a view with other columns",
        hint="Give the sink another path: it starts with all rows of the view.",
    )


def with_multiplicity(rows: pa.Table, times: int) -> pa.Table:
    """Rows that all have one multiplicity."""
    return rows.append_column(MULTIPLICITY, pa.array([times] * rows.num_rows, pa.int64()))

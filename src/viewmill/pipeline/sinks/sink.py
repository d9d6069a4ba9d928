"""What a sink must do so that a crash between any two steps neither loses nor doubles a change.

1. `prepare` before the mill commits a version: write the change down where nobody sees it.
2. The mill commits.
3. `publish`: show it, by one atomic step; showing a version again changes nothing.

After a crash `recover` gets the version that the mill has reached: what was prepared up to it is
published, what was prepared beyond it is thrown away, for it was never committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa

from viewmill.mill.changes import Change
from viewmill.mill.view import View

CHANGE, VERSION = "_change_type", "_commit_version"
MULTIPLICITY = "_multiplicity"


class Sink(Protocol):
    """One place where one view goes."""

    def open(self, view: View, pipeline: str) -> None:
        """Check that the place is ours: `pipeline` is the id of the pipeline."""

    def prepare(self, version: int, change: Change | None) -> None:
        """The next version, and the change of the view by it, None if there is none."""

    def publish(self, version: int, view: View) -> None:
        """The mill has reached `version`."""

    def recover(self, version: int, view: View) -> None:
        """The mill was opened again at `version`."""


class TableSink:
    """The view as a table that is replaced as a whole; `write(rows, version)` does it, atomically.

    Nothing is written ahead: the rows can be had from the view again.
    """

    def __init__(self, write: Callable[[pa.Table, int], None]) -> None:
        self._write = write
        self._is_due = False

    def open(self, view: View, pipeline: str) -> None:
        """Watch the view: most versions do not change it."""
        view.subscribe(self._mark)

    def _mark(self, _: Change) -> None:
        self._is_due = True

    def prepare(self, version: int, change: Change | None) -> None:
        """Nothing to do."""

    def publish(self, version: int, view: View) -> None:
        """Replace the table, if the view changed."""
        if self._is_due:
            self._is_due = False
            self._write(view.to_arrow(), version)

    def recover(self, version: int, view: View) -> None:
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


def with_multiplicity(rows: pa.Table, times: int) -> pa.Table:
    """Rows that all have one multiplicity."""
    return rows.append_column(MULTIPLICITY, pa.array([times] * rows.num_rows, pa.int64()))

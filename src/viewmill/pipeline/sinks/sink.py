"""The interface of a sink: no crash between any two steps loses or duplicates a change.

1. `prepare`, before the mill commits a version: write the change where readers do not see it.
2. The mill commits.
3. `publish`: make the change visible in one atomic, idempotent step.

At a start, `check` comes first and may refuse. Then `recover` gets the last version that the mill
committed with its sinks: changes prepared up to it are published, later ones are dropped. The mill
may have later versions, of views created or dropped since, so that version is stored until a start
gets this far. `begin` comes last, before the first batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from viewmill.mill.changes import Change
from viewmill.mill.view import View


class Sink(Protocol):
    """One destination of one view.

    `has_all` says whether it has received every change of the view so far. It has not if a run went
    on without it, or if its view was dropped or redefined in between.
    """

    @property
    def name(self) -> str | None:
        """Its name among the sinks that must not miss a change; None if it may miss some."""

    @property
    def can_catch_up(self) -> bool:
        """Whether it can receive the difference between the view and what it has."""

    def open(self, view: View, pipeline: str) -> None:
        """Check that the destination is ours; `pipeline` is the id of the pipeline."""

    def check(self, view: View, *, has_all: bool) -> None:
        """Raise if it has missed changes and cannot catch up; nothing is written yet."""

    def recover(self, version: int, view: View, *, has_all: bool) -> None:
        """Publish the changes prepared up to `version`, and catch up on missed ones."""

    def begin(self, version: int, view: View) -> None:
        """Start at `version`; every later change will be prepared."""

    def prepare(self, version: int, change: Change | None) -> None:
        """Prepare the change of the view by the next version; None if it does not change."""

    def publish(self, version: int, view: View) -> None:
        """Publish the prepared changes: the mill has committed `version`."""


class TableSink:
    """The view as a table that `write(rows, version)` replaces atomically.

    Nothing needs to be prepared: the rows can always be read from the view.
    """

    can_catch_up = True

    def __init__(self, write: Callable[[pa.Table, int], None]) -> None:
        self._write = write
        self._is_due = False
        self.name: str | None = None

    def open(self, view: View, pipeline: str) -> None:
        """Subscribe to the view, since most versions do not change it."""
        view.subscribe(self._mark)

    def _mark(self, _: Change) -> None:
        self._is_due = True

    def check(self, view: View, *, has_all: bool) -> None:
        """Nothing to check: all rows can be read from the view."""

    def recover(self, version: int, view: View, *, has_all: bool) -> None:
        """Nothing to do: nothing was prepared."""

    def prepare(self, version: int, change: Change | None) -> None:
        """Nothing to do."""

    def publish(self, version: int, view: View) -> None:
        """Replace the table if the view changed; a deferred view may be at an older version."""
        if self._is_due:
            self._is_due = False
            shown = version if view.is_immediate else view.status()["version"]
            self._write(view.to_arrow(), shown)

    def begin(self, version: int, view: View) -> None:
        """Replace the table: it may have an older version or definition of the view."""
        self._is_due = True
        self.publish(version, view)

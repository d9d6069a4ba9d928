"""What a sink is: a target that is kept equal to a view, or is told of its changes.

takes  all rows of a view once, then its changes in order, each with the version that made it
does   brings its target from one version to the next, in one step where the target permits

A sink knows nothing of mills. Whoever calls it calls again what raised, unless `has_taken` says
that it was done all the same. A `ViewmillError` says that the change was not written; it may come
again together with others. After `OutOfStep` all rows come, after `SinkBroken` nothing does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

MULTIPLICITY = "_multiplicity"


class Change(Protocol):
    """Rows with multiplicity; a row is there once."""

    @property
    def version(self) -> int:
        """The version that the target has with this change."""

    def to_arrow(self) -> Any:
        """A pyarrow.Table with a last column `_multiplicity`."""


@dataclass(frozen=True)
class Origin:
    """Which view is written: its name and its columns."""

    view: str
    schema: pa.Schema


class OutOfStep(Exception):
    """The target does not have the rows that it was given: somebody else changed it."""


@runtime_checkable
class Sink(Protocol):
    """One target of one view."""

    @property
    def title(self) -> str:
        """What it is called in errors and in the status."""

    @property
    def guarantee(self) -> str:
        """ "exactly once" or "at least once"."""

    @property
    def takes_each_version(self) -> bool:
        """Whether changes that wait must not be merged into one."""

    @property
    def takes_whole(self) -> bool:
        """Whether it is given all rows for every change: `apply` is never called."""

    def open(self, origin: Origin) -> None:
        """Make the target ready and take it over from who wrote it before; refuse what is not ours.

        `replace` comes next. An open sink may be opened again.
        """

    def replace(self, rows: Change) -> None:
        """Bring the target to exactly these rows, whatever it has."""

    def apply(self, change: Change) -> None:
        """Bring the target from the last version to the next."""

    def has_taken(self, change: Change) -> bool:
        """Whether a change is in the target although `replace` or `apply` raised."""

    def close(self) -> None:
        """Release what it holds; `open` may be called again."""

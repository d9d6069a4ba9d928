"""The time of a mill, which stands still between ticks so that all views show one moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any


class MillTime:
    """What the time is, and what it has reached."""

    def __init__(self, read: Callable[[], int] | None = None) -> None:
        self._read = read
        self.reached = self.read()  # UTC microseconds: the moment that views show
        self.watched: Sequence[Any] = ()  # the views whose rows time changes
        self.generation = -1  # of the catalog, when these were looked for

    @property
    def is_driven(self) -> bool:
        """Whether the user gives the time."""
        return self._read is not None

    def read(self) -> int:
        """UTC microseconds; they may go back, what was reached does not."""
        return time.time_ns() // 1000 if self._read is None else self._read()

    def note(self, generation: int, watched: Sequence[Any]) -> None:
        """These are the views whose rows time changes, in this generation of the catalog."""
        self.generation, self.watched = generation, watched

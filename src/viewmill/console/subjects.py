"""What a console shows: a mill of this process, or a directory that another process writes.

takes  a `Mill`, or the path of one
gives  a `Mill` to read from, for as long as a request lasts
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import viewmill as vm
from viewmill.errors import MillClosed, ViewmillError
from viewmill.mill.mill import Mill

_TOLD_ELSEWHERE = ("views", "sources", "sinks")
_PATIENCE = 4  # a directory is opened again after this many times what opening it takes


class Subject(Protocol):
    """What a console shows."""

    trouble: str
    follows_commits: bool  # whether commits happen in this process

    def told(self) -> dict[str, Any]:
        """What more is known than the mill says: of a pipeline, its batches and sinks."""
        ...

    def sinks(self, mill: Mill) -> list[dict[str, Any]]:
        """What is written from views."""
        ...

    def reading(self) -> AbstractContextManager[Mill]:
        """A mill that stays open while it is used."""
        ...

    def look(self) -> bool:
        """Take notice of what others changed; False if there is nothing to show any more."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class OwnMill:
    """A mill of this process. It belongs to whoever opened it, who also closes it."""

    trouble = ""
    follows_commits = True

    def __init__(self, mill: Mill) -> None:
        self._mill = mill

    def told(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def sinks(self, mill: Mill) -> list[dict[str, Any]]:
        """Those of the mill."""
        return [*mill.sinks().values()]

    @contextmanager
    def reading(self) -> Iterator[Mill]:
        """The mill itself."""
        yield self._mill

    def look(self) -> bool:
        """Whether it is still open."""
        return not self._mill.core.closed

    def close(self) -> None:
        """Nothing: the mill is not ours."""


class Pipe(Protocol):
    """What is asked of a pipeline."""

    @property
    def mill(self) -> Mill:
        """The mill behind it."""
        ...

    def status(self) -> dict[str, Any]:
        """Its counters."""
        ...

    def batches(self) -> list[dict[str, Any]]:
        """Its last batches."""
        ...

    def sinks(self) -> list[dict[str, Any]]:
        """What it writes."""
        ...


class OwnPipeline(OwnMill):
    """A pipeline of this process, with the mill behind it."""

    def __init__(self, pipeline: Pipe) -> None:
        super().__init__(pipeline.mill)
        self._pipeline = pipeline

    def told(self) -> dict[str, Any]:
        """Its counters and its last batches."""
        status = self._pipeline.status()
        known = {key: value for key, value in status.items() if key not in _TOLD_ELSEWHERE}
        return {"pipeline": known, "batches": self._pipeline.batches()}

    def sinks(self, mill: Mill) -> list[dict[str, Any]]:
        """Those of Spark, and those of the mill."""
        return self._pipeline.sinks()


class FollowedMill:
    """A directory that is read at one version, and again when it has changed."""

    follows_commits = False

    def __init__(self, path: Path, connect: Callable[[], Mill] | None = None) -> None:
        self._path, self.trouble = path, ""
        self._connect = connect or (lambda: vm.connect(path, read_only=True))
        self._lock = threading.Lock()
        self._users: dict[Mill, int] = {}  # how many requests read each
        self._current: Mill | None = None
        self._open()

    def _open(self) -> None:
        """Read the directory as it is now; requests under way keep the version they began with."""
        seen, start = _stamp(self._path), time.monotonic()
        mill = self._connect()
        self._seen, self._next = seen, time.monotonic() * (1 + _PATIENCE) - start * _PATIENCE
        with self._lock:
            old, self._current = self._current, mill
            self._users[mill] = 0
            unused = old is not None and self._users[old] == 0
        if old is not None and unused:
            self._drop(old)

    @contextmanager
    def reading(self) -> Iterator[Mill]:
        """The newest version that was read."""
        with self._lock:
            mill = self._current
            if mill is None:
                raise MillClosed("the console was stopped")
            self._users[mill] += 1
        try:
            yield mill
        finally:
            with self._lock:
                self._users[mill] -= 1
                unused = mill is not self._current and self._users[mill] == 0
            if unused:
                self._drop(mill)

    def told(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def sinks(self, mill: Mill) -> list[dict[str, Any]]:
        """None: they belong to the process that writes."""
        return []

    def look(self) -> bool:
        """Read the directory again if it has changed, and not too often."""
        if time.monotonic() < self._next or _stamp(self._path) == self._seen:
            return True
        try:
            self._open()
            self.trouble = ""
        except ViewmillError as why:
            self.trouble = f"{self._path} could not be read again: {why.message}"
            self._next = time.monotonic() + _PATIENCE
        return True

    def close(self) -> None:
        """Close what nobody reads; who still reads closes it afterwards."""
        with self._lock:
            old, self._current = self._current, None
            unused = old is not None and self._users[old] == 0
        if old is not None and unused:
            self._drop(old)

    def _drop(self, mill: Mill) -> None:
        with self._lock:
            if self._users.pop(mill, None) is None:
                return
        mill.close()


def _stamp(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Size and time of every file in the directory: every commit moves one of them."""
    found = []
    for each in path.iterdir():
        try:
            facts = each.stat()
        except FileNotFoundError:
            continue
        found.append((each.name, facts.st_size, facts.st_mtime_ns))
    return tuple(sorted(found))

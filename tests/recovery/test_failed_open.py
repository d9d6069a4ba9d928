"""Who could not open a mill, or was interrupted, can open it again at once.

Each test keeps the errors that it caught, and nothing is left to the garbage collector: a frame of
a traceback must not keep a connection or a lock. Seed 2108 of `test_faults` found one that did.
"""

from __future__ import annotations

import errno
import gc
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import viewmill as vm
from viewmill.mill import store
from viewmill.testing.faults.disk import FaultyDisk
from viewmill.testing.faults.play import SharedEngine
from viewmill.testing.faults.schedule import Schedule
from viewmill.testing.faults.sqlite_disk import sqlite_on

pytestmark = pytest.mark.usefixtures("uncompiled", "uncollected")

ROWS = [(i, f"text {i}") for i in range(100)]
INSIDE = (f"{os.sep}mill{os.sep}storage{os.sep}", f"{os.sep}mill{os.sep}store.py", "contextlib.py")


@pytest.fixture
def uncollected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(store, "LARGE_BYTES", 500)  # so that there are files of deltas, too
    monkeypatch.setitem(vm.mill.core.ENGINES, "duckdb", f"{SharedEngine.__module__}:SharedEngine")
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(params=["one thread", "several threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """With several threads, calls are made in twins."""
    if request.param == "one thread":
        yield
        return
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    yield
    done.set()
    other.join()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A mill with a checkpoint, and after it rows of the database, records and delta files."""
    place = tmp_path / "m.mill"
    with vm.connect(place) as mill:
        mill.sql("CREATE TABLE t (k BIGINT, s STRING)")
        mill.insert("t", ROWS[:10])
        mill.checkpoint()
        mill.insert("t", ROWS[10:12])
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        mill.insert("t", ROWS[12:60])
        mill.sql("CREATE MATERIALIZED VIEW w AS SELECT max(s) AS s FROM t")
        mill.insert("t", ROWS[60:])
        mill.insert("t", [])
    return place


class Once(Schedule):
    """Only operation number `at` fails."""

    def __init__(self, at: int) -> None:
        super().__init__(0)
        self.at, self.done = at, False

    def strike(self, operation: str) -> int | None:
        self.at -= 1
        if self.at:
            return None
        self.done = True
        return errno.EIO


@pytest.mark.usefixtures("threads")
def test_an_open_that_an_error_of_the_disk_stops_leaves_nothing_open(place: Path) -> None:
    kept: list[BaseException] = []
    for at in range(1, 1000):
        schedule = Once(at)
        disk = FaultyDisk(place, schedule)
        with disk.installed(), sqlite_on(disk):
            try:
                vm.connect(place).close()
            except vm.ViewmillError as why:
                kept.append(why)
        check(place)
        if not schedule.done:
            break
    assert 30 < len(kept) < at
    assert at < 999


def check(place: Path) -> None:
    with vm.connect(place) as mill:
        assert sorted(mill.sql("SELECT * FROM t").rows()) == ROWS
        assert mill["v"].rows() == [(100,)]


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are made in the main thread, where Ctrl-C arrives, whatever threads pytest has."""
    monkeypatch.setattr("viewmill.mill.uninterruptible._threads", lambda: 0)


class Interrupt:
    """Sends Ctrl-C before instruction number `at` of storage."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __enter__(self) -> None:
        sys.settrace(self._enter)

    def __exit__(self, *_: Any) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if not any(each in frame.f_code.co_filename for each in INSIDE):
            return None
        frame.f_trace_opcodes = True
        return self._count

    def _count(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "opcode":
            self.at -= 1
            if self.at == 0:
                signal.raise_signal(signal.SIGINT)
        return self._count


def interrupted(place: Path, at: int, kept: list[BaseException]) -> bool:
    """Whether opening and closing was so long that the interrupt came."""
    sender = Interrupt(at)
    try:
        with sender:
            vm.connect(place).close()
    except KeyboardInterrupt as why:
        kept.append(why)
    check(place)
    return sender.at <= 0


@pytest.mark.usefixtures("inline")
def test_an_open_that_is_interrupted_leaves_nothing_open(place: Path) -> None:
    seed = random.randrange(10**6)
    chance, kept = random.Random(seed), list[BaseException]()
    at = chance.randrange(1, 60)
    while interrupted(place, at, kept):
        at += chance.randrange(20, 300)
    assert len(kept) > 50, f"seed {seed}"


@pytest.mark.slow
@pytest.mark.usefixtures("inline")
def test_an_open_that_is_interrupted_at_any_instruction_leaves_nothing_open(place: Path) -> None:
    at, kept = 1, list[BaseException]()
    while interrupted(place, at, kept):
        at += 1
    assert len(kept) > 5000

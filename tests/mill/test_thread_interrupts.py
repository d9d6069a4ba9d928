"""An exception from another thread at any instruction leaves a mill that is right: with all of the
change, or none, and with everything that was acknowledged."""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from tests.mill.test_interrupts import check, filled

import viewmill as vm
from viewmill.mill import uninterruptible
from viewmill.program.threads import mine

TRIALS = int(os.environ.get("VIEWMILL_INTERRUPTS", "60"))

Rows = list[tuple[int, int]]


class Stop(BaseException):
    """What other threads raise here."""


def raise_in(thread: int, what: type[BaseException] | None) -> None:
    """What debuggers, timeouts and notebooks do to a thread."""
    error = None if what is None else ctypes.py_object(what)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)


class Interrupter:
    """A thread that raises Stop in the main thread after a time."""

    def __init__(self) -> None:
        self._target = threading.get_ident()
        self._asked, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._delay: float | None = 0.0
        self._is_ready = self._has_begun = False
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        while self._asked.acquire() and self._delay is not None:
            self._is_ready = True
            while not self._has_begun:
                time.sleep(0)
            until = time.perf_counter() + self._delay
            while time.perf_counter() < until:
                time.sleep(0)
            raise_in(self._target, Stop)
            self._done.release()

    def call(self, act: Callable[[], Any], delay: float) -> bool:
        """Whether `act` came to its end, though it was interrupted after `delay` seconds."""
        finished, self._delay = False, delay
        self._is_ready = self._has_begun = False
        self._asked.release()
        while not self._is_ready:
            time.sleep(0)
        try:
            self._has_begun = True
            act()
            finished = True
            while True:  # until it comes
                time.sleep(0.0001)
        except Stop:
            pass
        self._done.acquire()
        return finished

    def close(self) -> None:
        self._delay = None
        self._asked.release()
        self._thread.join()


@pytest.fixture
def interrupter() -> Iterator[Interrupter]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that it gets its turn in the middle of a short call
    made = Interrupter()
    yield made
    made.close()
    sys.setswitchinterval(before)


def interrupt_inserts(
    mill: vm.Mill, interrupter: Interrupter, trials: int, seed: int
) -> tuple[Rows, int]:
    """The rows after many interrupted changes, and how many of these did not come to their end."""
    chance = random.Random(seed)
    rows: Rows = [(k, 10 * k) for k in range(4)]
    stopped = 0
    for trial in range(trials):
        start = time.perf_counter()
        mill.insert("t", [(trial % 5, trial)])
        spent = time.perf_counter() - start
        rows.append((trial % 5, trial))
        come = [(trial % 6, -trial), (trial % 3, 7)]
        act = partial(mill.insert, "t", come)
        finished = interrupter.call(act, chance.uniform(0.0, 1.3 * spent))
        after = [*rows, *come]
        rows = check(mill, after if finished else rows, after)
        stopped += not finished
        if len(rows) > 60:
            mill.sql("DELETE FROM t WHERE k > 0")
            rows = mill.sql("SELECT k, x FROM t").rows()
    return rows, stopped


def run_lane(durable: bool, options: str, folder: Path, interrupter: Interrupter) -> None:
    path = folder / "m.mill" if durable else None
    mill = filled(path, options)
    try:
        rows, stopped = interrupt_inserts(mill, interrupter, TRIALS, seed=TRIALS)
        assert stopped > 0
        if durable:
            mill.close()
            mill = vm.connect(path)
            check(mill, rows, rows)
    finally:
        mill.close()


@pytest.mark.parametrize("options", ["", "UNCHECKED"])
@pytest.mark.parametrize("durable", [False, True])
def test_an_insert_that_another_thread_stops_is_whole_or_not_there(
    options: str, durable: bool, tmp_path: Path, interrupter: Interrupter, uncompiled: None
) -> None:
    run_lane(durable, options, tmp_path, interrupter)


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "UNCHECKED"])
@pytest.mark.parametrize("durable", [False, True])
def test_the_same_with_compiled_kernels(
    options: str, durable: bool, tmp_path: Path, interrupter: Interrupter
) -> None:
    run_lane(durable, options, tmp_path, interrupter)


class AtInstruction:
    """Does something at instruction number `at` of our code that this thread runs in the block."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.count, self._at, self._act = 0, at, act

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if "viewmill" not in frame.f_code.co_filename or "tests" in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.count += 1
            if self.count == self._at:
                self._act()
        return self._trace

    def __enter__(self) -> AtInstruction:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)


def test_every_instruction_of_the_caller_may_be_the_last(
    uncompiled: None, interrupter: Interrupter
) -> None:
    """The other thread makes the caller wait for its twin; here it raises nothing itself."""
    mill = filled(None, "")
    rows: Rows = [(k, 10 * k) for k in range(4)]
    here = threading.get_ident()
    at = stopped = 0
    while True:
        at += 1
        finished, come = False, [(at % 4, at)]
        try:
            with AtInstruction(at, lambda: raise_in(here, Stop)) as seen:
                mill.insert("t", come)
                finished = True
        except Stop:
            stopped += 1
        rows = check(mill, [*rows, *come] if finished else rows, [*rows, *come])
        if seen.count < at:
            break
        mill.delete("t", come if len(rows) > 4 else [])
        rows = mill.sql("SELECT k, x FROM t").rows()
    assert stopped > 30
    mill.close()


@pytest.mark.parametrize("durable", [False, True])
def test_a_signal_at_any_instruction_of_the_only_thread(
    durable: bool, tmp_path: Path, uncompiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no other thread the call is made in place, and signals are put off."""
    monkeypatch.setattr(uninterruptible, "_threads", lambda: 0)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
    path = tmp_path / "m.mill" if durable else None
    mill = filled(path, "")
    chance, stopped = random.Random(5), 0
    rows: Rows = [(k, 10 * k) for k in range(4)]
    try:
        with AtInstruction(0, lambda: None) as whole:
            mill.insert("t", [(0, 0)])
        rows.append((0, 0))
        for trial in range(TRIALS):
            come = [(trial % 5, trial)]
            at = chance.randrange(1, whole.count + 1)
            try:
                with AtInstruction(at, lambda: signal.raise_signal(signal.SIGTERM)):
                    mill.insert("t", come)
            except SystemExit:
                stopped += 1
            rows = check(mill, rows, [*rows, *come])
        assert stopped > TRIALS * 0.8
        if durable:
            mill.close()
            mill = vm.connect(path)
            check(mill, rows, rows)
    finally:
        signal.signal(signal.SIGTERM, before)
        mill.close()


def test_a_batch_belongs_to_the_caller_whoever_does_the_work(uncompiled: None) -> None:
    """The batch is opened by the only thread; the rows come when there is another one."""
    go = threading.Event()
    other = threading.Thread(target=go.wait)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        heard: list[int] = []
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT x FROM t")
        mill["v"].subscribe(lambda change: heard.append(threading.get_ident()))
        try:
            with mill.batch():
                mill.insert("t", [(1,)])
                other.start()
                mill.insert("t", [(2,)])
                assert mill["v"].rows() == []
        finally:
            go.set()
            other.join()
        assert sorted(mill["v"].rows()) == [(1,), (2,)]
        assert heard == [threading.get_ident()]  # a subscriber hears in the thread that wrote


def test_who_is_interrupted_in_a_long_call_does_not_wait_for_its_end(
    uncompiled: None, interrupter: Interrupter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uninterruptible, "_PATIENCE_S", 0.05)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        go, began = threading.Event(), threading.Event()

        def wait(*_: object) -> None:
            began.set()
            go.wait(20)

        mill.before_commit(wait)
        start = time.monotonic()
        old = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            with pytest.raises(KeyboardInterrupt):
                mill.insert("t", [(1,)])
        finally:
            signal.signal(signal.SIGALRM, old)
            go.set()
        assert began.is_set()
        assert time.monotonic() - start < 10
        mill.insert("t", [(2,)])
        assert sorted(mill.sql("SELECT x FROM t").rows()) == [(1,), (2,)]


class SlowRows:
    """Rows that come when they are let; meanwhile whoever waits is interrupted."""

    def __init__(self, rows: Rows) -> None:
        self._rows, self.go = rows, threading.Event()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        self.go.wait(20)
        k, x = zip(*self._rows, strict=True)
        return pa.table({"k": k, "x": x}).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("change", ["insert", "delete"])
def test_a_call_that_outlives_its_batch_commits_nothing(
    change: str, uncompiled: None, interrupter: Interrupter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller left the batch; the rest of the call then committed a part of it alone."""
    monkeypatch.setattr(uninterruptible, "_PATIENCE_S", 0.02)
    with filled(None, "") as mill:
        rows = SlowRows([(1, 10)])
        old = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            with contextlib.suppress(KeyboardInterrupt), mill.batch():
                mill.insert("t", [(5, 5)])
                getattr(mill, change)("t", rows)
                raise AssertionError("it was not interrupted")
        finally:
            signal.signal(signal.SIGALRM, old)
            rows.go.set()
        mill.insert("t", [(3, 3)])
        check(mill, [], [(0, 0), (1, 10), (2, 20), (3, 30), (3, 3)])


def test_a_batch_that_is_left_at_any_instruction_is_over(
    uncompiled: None, interrupter: Interrupter
) -> None:
    """Later changes went into it, and were never committed."""
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        here, at, seen = threading.get_ident(), 0, 1
        while at < seen:
            at += 1
            every = AtInstruction(at, lambda: raise_in(here, Stop))
            with contextlib.suppress(Stop), every, mill.batch():
                pass
            seen = max(seen, every.count)
            mill.insert("t", [(at,)])
            assert mill.sql("SELECT count(*) AS n FROM t WHERE x = " + str(at)).rows() == [(1,)]


def test_a_twin_that_dies_at_its_birth_is_not_waited_for(
    uncompiled: None, interrupter: Interrupter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a thread runs it has the number of who starts it, and takes what is raised in that."""
    monkeypatch.setattr(uninterruptible, "_PATIENCE_S", 0.02)
    really, started = _thread.start_new_thread, []

    def start(function: Callable[..., Any], given: tuple[Any, ...]) -> int:
        started.append(function)
        return really((lambda *_: None) if len(started) == 1 else function, given)

    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        mine.twin = None
        monkeypatch.setattr(_thread, "start_new_thread", start)
        mill.insert("t", [(1,)])
        assert len(started) == 2
        assert mill.sql("SELECT x FROM t").rows() == [(1,)]

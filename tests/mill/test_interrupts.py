"""A signal at any line of a change leaves a mill that is right: with all of the change, or none."""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.engines.duckdb import DuckdbEngine
from viewmill.mill import uninterruptible

pytestmark = pytest.mark.usefixtures("uncompiled")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program with one thread, where calls are made in place; tests may have others."""
    monkeypatch.setattr(uninterruptible, "_threads", lambda: 0)


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where a shell started the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


VIEWS = {
    "grouped": "SELECT k, sum(x) AS s, count(*) AS n FROM t GROUP BY k",
    "joined": "SELECT t.x, r.y FROM t JOIN r ON t.k = r.k",
    "tree": "SELECT r.y, sum(t.x) AS s FROM t JOIN r ON t.k = r.k GROUP BY r.y",
    "most": "SELECT k, max(x) AS m FROM t GROUP BY k",
}


class Interrupting:
    """Raises a signal at line number `at` of our code that is run in the block."""

    def __init__(self, at: int, number: int = signal.SIGINT) -> None:
        self.lines, self._at, self._number = 0, at, number

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if "viewmill" not in frame.f_code.co_filename or "tests" in frame.f_code.co_filename:
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self._at:
                signal.raise_signal(self._number)
        return self._trace

    def __enter__(self) -> Interrupting:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)


def filled(path: Path | None, options: str) -> vm.Mill:
    mill = vm.connect(path)
    mill.sql(f"CREATE TABLE t (k BIGINT, x BIGINT) {options}")
    mill.sql("CREATE TABLE r (k BIGINT, y BIGINT)")
    for name, query in VIEWS.items():
        later = " REFRESH ON READ AFTER INTERVAL '0' SECONDS" if name == "most" else ""
        mill.sql(f"CREATE MATERIALIZED VIEW {name}{later} AS {query}")
    mill.insert("r", [(k, k % 2) for k in range(4)])
    mill.insert("t", [(k, 10 * k) for k in range(4)])
    return mill


def expected(rows: list[tuple[int, int]]) -> dict[str, list[tuple[int, ...]]]:
    """What the views show, computed by hand."""
    keys = sorted({k for k, _ in rows})
    values = {k: [x for key, x in rows if key == k] for k in keys}
    trees = {y: [x for k in keys if k % 2 == y and k < 4 for x in values[k]] for y in (0, 1)}
    return {
        "grouped": [(k, sum(values[k]), len(values[k])) for k in keys],
        "joined": sorted((x, k % 2) for k, x in rows if k < 4),
        "tree": [(y, sum(found)) for y, found in trees.items() if found],
        "most": [(k, max(values[k])) for k in keys],
    }


def check(mill: vm.Mill, before: list[tuple[int, int]], after: list[tuple[int, int]]) -> Any:
    rows = sorted(mill.sql("SELECT k, x FROM t").rows())
    assert rows in (sorted(before), sorted(after))
    for name, wanted in expected(rows).items():
        assert sorted(mill[name].rows()) == wanted
    return rows


def changes(step: int) -> tuple[Callable[[vm.Mill], Any], list[Any], list[Any]]:
    """What is done, which rows it adds, which it takes away."""
    rows = [(step % 6, step), (step % 3, -step)]

    def batch(mill: vm.Mill) -> None:
        with mill.batch():
            mill.insert("t", rows)
            mill.delete("t", rows[:1])

    return [
        (lambda mill: mill.insert("t", rows), rows, []),
        (lambda mill: mill.sql(f"INSERT INTO t VALUES ({step}, 1)"), [(step, 1)], []),
        (batch, rows[1:], []),
        (lambda mill: mill["most"].refresh(full=True), [], []),
        (lambda mill: mill["grouped"].rows(), [], []),
    ][step % 5]


@pytest.mark.parametrize("options", ["", "UNCHECKED"])
@pytest.mark.parametrize("durable", [False, True])
def test_an_interrupted_change_is_whole_or_not_there(
    options: str, durable: bool, tmp_path: Path
) -> None:
    chance = random.Random(7)
    path = tmp_path / "m.mill" if durable else None
    mill = filled(path, options)
    rows = [(k, 10 * k) for k in range(4)]
    interrupted = 0
    handler = signal.getsignal(signal.SIGINT)
    try:
        for step in range(20 if durable else 30):
            act, come, _ = changes(step)
            with Interrupting(0) as counted:
                act(mill)
            rows = check(mill, [*rows, *come], [*rows, *come])
            at = chance.randrange(1, counted.lines + 1)
            try:
                with Interrupting(at):
                    act(mill)
            except KeyboardInterrupt:
                interrupted += 1
            assert signal.getsignal(signal.SIGINT) is handler
            rows = check(mill, rows, [*rows, *come])
            mill.sql(f"DELETE FROM t WHERE k > 0 AND x <> {step}")
            rows = mill.sql("SELECT k, x FROM t").rows()
        assert interrupted > 8
        if durable:
            mill.close()
            mill = vm.connect(path)
            check(mill, rows, rows)
    finally:
        mill.close()


def test_a_signal_is_handled_when_the_change_is_done() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        seen = []
        mill.before_commit(lambda version, changes: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            mill.insert("t", [(1,)])
        assert mill.sql("SELECT x FROM t").rows() == [(1,)]
        old = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
        try:
            mill.core.preparations[:] = [lambda *_: signal.raise_signal(signal.SIGTERM)]
            mill.insert("t", [(2,)])
        finally:
            signal.signal(signal.SIGTERM, old)
        assert seen == [signal.SIGTERM]


def test_who_insists_interrupts_and_opens_again(tmp_path: Path) -> None:
    path = tmp_path / "m.mill"
    mill = vm.connect(path)
    mill.sql("CREATE TABLE t (x BIGINT)")
    mill.insert("t", [(1,)])

    def insist(*_: object) -> None:
        for _time in range(3):
            signal.raise_signal(signal.SIGINT)

    mill.before_commit(insist)
    with pytest.raises(KeyboardInterrupt):
        mill.insert("t", [(2,)])
    with pytest.raises(vm.MillClosed):
        mill.insert("t", [(3,)])
    mill.close()
    with vm.connect(path) as mill:
        assert mill.sql("SELECT x FROM t").rows() == [(1,)]


def test_a_thread_that_waits_for_the_mill_can_be_interrupted() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        held, go = threading.Event(), threading.Event()

        def hold() -> None:
            with mill.core.lock:
                held.set()
                go.wait(20)

        other = threading.Thread(target=hold)
        other.start()
        held.wait(20)
        old = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            with pytest.raises(KeyboardInterrupt):
                mill.insert("t", [(1,)])
        finally:
            signal.signal(signal.SIGALRM, old)
            go.set()
            other.join()
        mill.insert("t", [(2,)])
        assert mill.sql("SELECT x FROM t").rows() == [(2,)]


def test_what_a_signal_handler_raises_in_a_query_is_what_the_caller_gets() -> None:
    """DuckDB makes `Query interrupted` of it; a view that was being opened was broken by that."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(number)

    engine = DuckdbEngine()
    old = signal.signal(signal.SIGALRM, leave)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(SystemExit):
            engine._execute("SELECT count(*) FROM range(3000000000)", {})
        assert signal.getsignal(signal.SIGALRM) is leave
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    engine.close()


def test_a_signal_while_duckdb_looks_at_a_table_is_raised_as_well() -> None:
    """It said that reading the schema of the table had failed."""

    class Signalling:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            signal.raise_signal(signal.SIGINT)
            return pa.table({"x": [1]}).__arrow_c_stream__(requested_schema)

    engine = DuckdbEngine()
    given: Any = {"t": Signalling()}
    with pytest.raises(KeyboardInterrupt):
        engine._execute('SELECT * FROM "source t"', given)
    engine.close()


def test_an_interrupted_opening_or_closing_leaves_the_directory_free(tmp_path: Path) -> None:
    """The lock stayed with a mill that nobody had, and the second `close` did nothing."""
    path, chance = tmp_path / "m.mill", random.Random(3)
    with vm.connect(path) as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT x, count(*) AS n FROM t GROUP BY x")
        mill.insert("t", [(1,)])
    with Interrupting(0) as opening:
        mill = vm.connect(path)
    with Interrupting(0) as closing:
        mill.close()
    places = [chance.randrange(opening.lines) for _ in range(6)]
    places += [opening.lines + chance.randrange(closing.lines) for _ in range(6)]
    for at in places:
        made: list[vm.Mill] = []
        with contextlib.suppress(KeyboardInterrupt), Interrupting(at + 1):
            made.append(vm.connect(path))
            made[0].close()
        for each in made:
            each.close()
        with vm.connect(path) as mill:
            assert mill["v"].rows() == [(1, 1)]

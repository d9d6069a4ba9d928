"""Calls that an exception from another thread cannot stop midway.

takes  a call of a public method, in a program with several threads
does   it in a twin of the calling thread, which nobody else knows; the caller waits for it

A thread may raise an exception in another one (PyThreadState_SetAsyncExc: timeouts, notebooks), and
it comes between any two instructions, also while a lock is released or an error is undone. It hits
the caller, who only waits: the twin finishes, so a change is there as a whole or not at all. In a
program with one thread nobody can do that, and calls are made in place; signals see `write_lock`.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial, wraps
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from viewmill.mill.refresh import deliver_notices
from viewmill.program.threads import OURS, is_twin, mine, one_of_ours

P = ParamSpec("P")
R = TypeVar("R")

_PATIENCE_S = 1.0  # an interrupted caller waits so long for its twin

_threads = _thread._count  # how many there are besides the main thread


class _Call:
    """One call and its outcome."""

    __slots__ = ("_context", "_function", "done", "error", "is_done", "result")

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function: Callable[[], Any] | None = function
        self._context, self.done = copy_context(), _thread.allocate_lock()
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        self.done.acquire()

    def work(self) -> None:
        """Make the call, and drop the function before the caller goes on: it may hold the last
        reference to an object."""
        assert self._function is not None
        try:
            self.result = self._context.run(self._function)
        except BaseException as why:  # noqa: BLE001 (it is the caller's)
            self.error = why
        self._function = None
        self.is_done = True
        self.done.release()


class _Twin:
    """A helper thread of one other thread, with which it ends."""

    calls: SimpleQueue[_Call | None]

    def __init__(self) -> None:
        while not self._is_started():
            self.calls.put(None)  # if it begins after all, it ends

    def _is_started(self) -> bool:
        """Whether a new thread serves. An exception for the thread that starts it may hit it
        before its first instruction: Python gives it its own number only then."""
        self.calls, ready = SimpleQueue(), _thread.allocate_lock()
        ready.acquire()
        # Not threading.Thread, whose start() would wait forever.
        _thread.start_new_thread(_serve, (self.calls, threading.get_ident(), ready))
        return ready.acquire(timeout=_PATIENCE_S)

    def __del__(self) -> None:
        self.calls.put(None)


def _serve(calls: SimpleQueue[_Call | None], for_whom: int, ready: _thread.LockType) -> None:
    with one_of_ours():
        mine.caller = for_whom
        ready.release()
        while (call := calls.get()) is not None:
            call.work()
            del call


def _run(function: Callable[[], Any]) -> Any:
    """Have the twin make the call."""
    twin: _Twin | None = getattr(mine, "twin", None)
    if twin is None:
        twin = mine.twin = _Twin()
    call = _Call(function)
    try:
        twin.calls.put(call)
        call.done.acquire()
    except BaseException:
        if not call.is_done and not call.done.acquire(timeout=_PATIENCE_S):
            mine.twin = None  # it finishes alone, and the next call does not wait for it
        raise
    error, call.error = call.error, None  # else it would refer to itself, by way of its traceback
    if error is None:
        return call.result
    try:
        raise error
    finally:
        del call, error  # it refers to this frame


def uninterruptible(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method of a mill or view run to its end even if its caller is interrupted."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if _threads() <= len(OURS) or is_twin():
            return method(*args, **kwargs)
        owner: Any = args[0]
        core = getattr(owner, "_core", None)  # None in its constructor
        if core is not None and core.lock._is_owned():  # a twin would wait for its own caller
            return method(*args, **kwargs)
        try:
            batch = getattr(owner, "_batch", None)
            result: R = _run(partial(_in_batch, owner, batch, partial(method, *args, **kwargs)))
        except Exception:  # a replay that fails midway has made changes
            _deliver(owner)
            raise
        _deliver(owner)
        return result

    return call


def _in_batch(owner: Any, batch: Any, function: Callable[[], R]) -> R:
    """Make a call that belongs to a batch, also when the caller has left it meanwhile."""
    mine.batch = owner, batch
    try:
        return function()
    finally:
        mine.batch = None, None


def _deliver(owner: Any) -> None:
    core = getattr(owner, "_core", None)  # None if the constructor failed
    if core is not None and core.notices:
        deliver_notices(core)


def _forget_twin() -> None:
    """In a forked child: there is no twin."""
    mine.twin = None
    OURS.clear()


os.register_at_fork(after_in_child=_forget_twin)

"""Programs that wait for their kernels: helpers compile them, this process loads the result.

takes  a program, and what to call when its kernels are there
gives  a `Compilation`, which knows how far it is

One thread for each helper process. A thread hands a program to its helper and sleeps; when the
helper has filled the cache, the thread loads the kernels and calls `ready`. Functions of the user
(`vm.Ring`) cannot be sent to another process, so those programs are compiled in the thread.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import threading
from collections.abc import Callable
from queue import SimpleQueue

from viewmill.kernels.background.process import CompileProcess, ProcessDied
from viewmill.kernels.background.warm import warm
from viewmill.program.program import Program
from viewmill.program.threads import one_of_ours

_LOG = logging.getLogger("viewmill")
_MAX_HELPERS = 2
_MAX_DEATHS = 2  # of helpers, for one program


class Compilation:
    """A program on its way to compiled kernels."""

    def __init__(self, what: Program | str, ready: Callable[[], None]) -> None:
        self.what, self._ready = what, ready
        self.error = ""  # why it failed
        self._loaded = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether the kernels are loaded, or will never be."""
        return self._loaded.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is over; False if that takes longer."""
        return self._loaded.wait(timeout)

    def finish(self, error: str) -> None:
        """The kernels are loaded, or `error` says why there are none."""
        self.error = error
        self._loaded.set()
        self._ready()
        if error:
            _LOG.warning(
                "a view stays interpreted, which is right but slower: %s. "
                'vm.connect(compile="now") shows the whole error.', error
            )  # fmt: skip


class CompileQueue:
    """The threads of this process and their helpers, started when the first program comes."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Compilation] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._helpers: set[CompileProcess] = set()
        self._is_closed = False

    def put(self, what: Program | str, ready: Callable[[], None]) -> Compilation:
        """Compile a program; `ready` is called in another thread when that is over."""
        made = Compilation(what, ready)
        self._waiting.put(made)
        if len(self._threads) < min(_MAX_HELPERS, os.cpu_count() or 1):
            thread = threading.Thread(target=self._work, name="viewmill-compiler", daemon=True)
            self._threads.append(thread)
            thread.start()
        return made

    def close(self) -> None:
        """End the helpers; what they were compiling is compiled another time."""
        self._is_closed = True
        for each in list(self._helpers):
            each.stop()

    def _work(self) -> None:
        with one_of_ours():
            self._serve()

    def _serve(self) -> None:
        helper: CompileProcess | None = None
        while not self._is_closed:
            compilation = self._waiting.get()
            try:
                helper, error = self._compile(compilation.what, helper)
            except Exception as why:  # noqa: BLE001 (a thread has nobody to raise to)
                error = f"{type(why).__name__}: {why}"
            if self._is_closed:
                return
            try:
                compilation.finish(error)
            except Exception:  # noqa: BLE001 (nor here)
                _LOG.exception("a view stays interpreted: it could not go over to its kernels")

    def _compile(
        self, what: Program | str, helper: CompileProcess | None
    ) -> tuple[CompileProcess | None, str]:
        try:
            packed = pickle.dumps(what)
        except (pickle.PicklingError, AttributeError, TypeError):
            packed = b""
        error = ""
        if packed:
            helper, error = self._ask(packed, helper)
        if not error:
            warm(what)
        return helper, error

    def _ask(
        self, packed: bytes, helper: CompileProcess | None
    ) -> tuple[CompileProcess | None, str]:
        """Let a helper compile; one that dies is replaced, but not for ever."""
        died = ""
        for _ in range(_MAX_DEATHS):
            if helper is None:
                helper = CompileProcess()
                self._helpers.add(helper)
            try:
                return helper, helper.warm(packed)
            except ProcessDied as why:
                self._helpers.discard(helper)
                helper, died = None, f"the compiling process died: {why}"
        return None, died


_QUEUES: list[CompileQueue] = []


def compile_queue() -> CompileQueue:
    """The queue of this process."""
    if not _QUEUES:
        _QUEUES.append(CompileQueue())
        atexit.register(_QUEUES[0].close)
    return _QUEUES[0]


# A forked child has neither the threads nor the right to talk to its parent's helpers.
os.register_at_fork(after_in_child=_QUEUES.clear)

"""Look at the mill again and again, and tell every open page what has changed.

takes  a subject, and threads in which to read it
gives  news to those who listen; a page asks for the details itself
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from viewmill.console.changed_rows import ChangedRows
from viewmill.console.subjects import Subject
from viewmill.console.tempo import Tempo
from viewmill.console.watch import Watch
from viewmill.program.threads import OURS

_LOG = logging.getLogger("viewmill")
INTERVAL_S = 0.5
_SHARE = 0.02  # of one core at most is spent on looking
_MOST_NAMES = 500  # in one piece of news
_HEARTBEAT_S = 10.0
_THREADS = 4
_END: dict[str, Any] = {}

R = TypeVar("R")
News = dict[str, Any]


class Live:
    """Looks at a subject while the server runs."""

    def __init__(self, subject: Subject, stop: Callable[[], None]) -> None:
        self.subject, self.watch = subject, Watch()
        self.tempo, self.changed_rows = Tempo(), ChangedRows()
        self._stop = stop
        self._took = 0.0  # by the last look, of the processor
        self._listeners: set[asyncio.Queue[News]] = set()
        self._threads: set[int] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool = ThreadPoolExecutor(
            _THREADS, thread_name_prefix="viewmill-console", initializer=self._count_as_ours
        )

    def _count_as_ours(self) -> None:
        """None of these threads raises an exception in another one, so no call needs a twin."""
        self._threads.add(threading.get_ident())
        OURS.add(threading.get_ident())

    async def in_thread(self, job: Callable[[], R]) -> R:
        """Do a job that may wait, without stopping the server."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)

    async def watch_on(self) -> None:
        """Look until there is nothing to look at, then stop the server."""
        self._loop = asyncio.get_running_loop()
        while await self._look_once():
            pass
        self._let_go()
        self._stop()

    async def _look_once(self) -> bool:
        try:
            is_there, changed = await self.in_thread(self._look)
        except Exception:  # noqa: BLE001 (a look that fails must not end the others)
            _LOG.exception("the console could not look at the mill")
            is_there, changed = True, None
        if changed is not None:
            self._tell(changed)
        if is_there:
            await asyncio.sleep(max(INTERVAL_S, self._took / _SHARE))
        return is_there

    def _look(self) -> tuple[bool, list[str] | None]:
        start = time.thread_time()  # not what it waits for others
        try:
            return self._compare()
        finally:
            self._took = time.thread_time() - start

    def _compare(self) -> tuple[bool, list[str] | None]:
        if not self.subject.look():
            return False, None
        with self.subject.reading() as mill:
            if self.subject.follows_commits and self._listeners:
                self.tempo.follow(mill)
            else:
                self.tempo.rest()
            self.changed_rows.look()
            return True, self.watch.look(mill)

    def _tell(self, changed: list[str]) -> None:
        is_cut = len(changed) > _MOST_NAMES
        names = changed[:_MOST_NAMES]
        news = {"version": self.watch.version, "changed": names, "more": is_cut}
        for each in self._listeners:
            if each.full():  # a slow page needs the newest version, and then to ask for everything
                each.get_nowait()
                each.put_nowait({**news, "more": True})
            else:
                each.put_nowait(news)

    def end(self) -> None:
        """Let every listener go. Any thread may call it."""
        if self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):  # it was closed just now
                self._loop.call_soon_threadsafe(self._let_go)

    def _let_go(self) -> None:
        for each in self._listeners:
            if each.full():
                each.get_nowait()
            each.put_nowait(_END)

    async def news(self) -> AsyncIterator[News | None]:
        """What has changed, as it changes; None now and then, so that a dead connection is seen."""
        queue: asyncio.Queue[News] = asyncio.Queue(1)
        self._listeners.add(queue)
        try:
            yield {"version": self.watch.version, "changed": [], "more": True}
            while True:
                try:
                    found = await asyncio.wait_for(queue.get(), _HEARTBEAT_S)
                except TimeoutError:
                    yield None
                    continue
                if found is _END:
                    return
                yield found
        finally:
            self._listeners.discard(queue)

    def close(self) -> None:
        """Wait for what is being read, and let the subject go."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.tempo.rest()
        self.changed_rows.close()
        OURS.difference_update(self._threads)
        self.subject.close()

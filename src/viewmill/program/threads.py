"""Which threads are ours: twins (`mill.uninterruptible`), clocks, those that wait for compilers.

Nobody outside knows them, and none of them raises an exception in another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

mine = threading.local()  # `twin`: who works for this thread; `caller`, `batch`: of a call for whom
OURS: set[int] = set()  # of this process, by ident


@contextmanager
def one_of_ours() -> Iterator[None]:
    """Inside, this thread is counted as ours."""
    OURS.add(threading.get_ident())
    try:
        yield
    finally:
        OURS.discard(threading.get_ident())


def is_twin() -> bool:
    """Whether this thread works for another one."""
    return hasattr(mine, "caller")


def caller() -> int:
    """The thread that a call came from."""
    found: int = getattr(mine, "caller", 0)
    return found or threading.get_ident()

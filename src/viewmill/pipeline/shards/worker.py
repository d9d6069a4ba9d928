"""What a Python worker of Spark's needs to stay quick from task to task."""

from __future__ import annotations

import gc

_settled: set[str] = set()


def settle(what: str) -> None:
    """Once for each `what`: everything loaded so far is taken out of the garbage collector's sight.

    PySpark collects garbage after every task. With Numba and compiled kernels loaded, looking
    through what will never be garbage took 90 ms of a task that has 5 ms of work.
    """
    if what not in _settled:
        _settled.add(what)
        gc.collect()
        gc.freeze()

"""What a Python worker of Spark's needs to stay quick from task to task."""

from __future__ import annotations

import gc

_frozen: set[str] = set()


def freeze_garbage(what: str) -> None:
    """Exclude all objects loaded so far from garbage collection, once for each `what`.

    PySpark collects garbage after every task. With Numba and compiled kernels loaded, scanning
    objects that never become garbage took 90 ms of a task that has 5 ms of work.
    """
    if what not in _frozen:
        _frozen.add(what)
        gc.collect()
        gc.freeze()

"""A pytest plugin that notes which test reaches which planted place, and how long a test takes.

`mutate.py` copies it beside the package, and `hit(number)` into each place where a mistake will be.
Child processes note their hits too: they inherit the name of the test that started them. `hit` is
a builtin, because the kernels of windows are read without what their files import. A test that is
slow is left after some seconds of computing: what it has reached by then is enough to know.
"""

from __future__ import annotations

import builtins
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

_LONG = 4.0  # seconds of computing
_REALLY = 60.0  # what is assumed of a test that was left

_seen: set[int] = set()
_left: set[str] = set()


def hit(number: int) -> None:
    """Note that the running test reached a place; gives None, so that `hit(3) or x` is x."""
    if number not in _seen:
        _seen.add(number)
        _write("hit", str(number), os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0])


vars(builtins).setdefault("mutate_hit", hit)  # pytest may import this file again, as a doctest


def _write(*words: str) -> None:
    with Path(os.environ["MUTATE_HITS"]).open("a", encoding="utf-8") as file:
        file.write("\t".join(words) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Forget what the test before has reached, and set the clock."""
    _seen.clear()

    def leave(*_: object) -> None:
        _left.add(item.nodeid)
        pytest.skip("it takes long")

    signal.signal(signal.SIGVTALRM, leave)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONG)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write how a test went."""
    if report.nodeid in _left:
        _write("passed", str(_REALLY), report.nodeid)
    elif report.when == "call" or not report.passed:
        _write(report.outcome, f"{report.duration:.3f}", report.nodeid)

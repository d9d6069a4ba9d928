"""Named places where tests stop the process.

takes  the name of the step that was just done
gives  nothing, unless a test has set `visit`
"""

from __future__ import annotations

from collections.abc import Callable

visit: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Tell the test, if there is one, that `point` was reached."""
    if visit is not None:
        visit(point)

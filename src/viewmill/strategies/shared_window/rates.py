"""How many rows and answers are expected, where nothing better is known."""

from __future__ import annotations

from viewmill.algebra.windows import SlidingWindow

_PER_MICROSECOND = 1e-3  # rows, where nothing is known of a stream
_BATCH = 1000  # a view without subscribers is assumed to be read once per this many rows


def rows_per_unit(window: SlidingWindow | None, rate: float | None) -> float:
    """Rows per microsecond, or per row."""
    if rate is not None:
        return rate
    return 1.0 if window is None or window.unit == "rows" else _PER_MICROSECOND


def pause(window: SlidingWindow, followed: bool, rows: float) -> float:
    """Units between two answers: a view that is followed answers at each of its slides, any other
    at most once per batch, when it is read."""
    return float(window.slide) if followed else max(float(window.slide), _BATCH / rows)

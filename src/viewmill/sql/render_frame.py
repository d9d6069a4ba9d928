"""The frame of a window in the dialects of the engines, which differ in how they write a distance.

takes  `Frame`, the columns that order the rows
gives  `ROWS BETWEEN ... AND ...`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewmill.algebra.expressions import Frame, SortKey
from viewmill.algebra.types import Date, Timestamp, Type

Distance = Callable[[int, Type | None], str]


def duckdb_frame(frame: Frame, order: Sequence[SortKey]) -> str:
    """A frame for DuckDB."""
    return _frame(frame, order, _duckdb_distance)


def spark_frame(frame: Frame, order: Sequence[SortKey]) -> str:
    """A frame for Spark."""
    return _frame(frame, order, _spark_distance)


def _frame(frame: Frame, order: Sequence[SortKey], distance: Distance) -> str:
    key = order[0].expression.type if order and frame.unit == "range" else None
    start = _bound(frame.start, "UNBOUNDED PRECEDING", key, distance)
    end = _bound(frame.end, "UNBOUNDED FOLLOWING", key, distance)
    return f"{frame.unit.upper()} BETWEEN {start} AND {end}"


def _bound(offset: int | None, unbounded: str, key: Type | None, distance: Distance) -> str:
    if offset is None:
        return unbounded
    if offset == 0:
        return "CURRENT ROW"
    return f"{distance(abs(offset), key)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def _duckdb_distance(offset: int, key: Type | None) -> str:
    if isinstance(key, Date):
        return f"to_days({offset})"
    return f"to_microseconds({offset})" if isinstance(key, Timestamp) else str(offset)


def _spark_distance(offset: int, key: Type | None) -> str:
    if isinstance(key, Date):
        return f"INTERVAL '{offset}' DAY"
    if isinstance(key, Timestamp):
        return f"INTERVAL '{offset / 1_000_000:f}' SECOND"
    return str(offset)

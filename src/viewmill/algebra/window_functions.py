"""The functions over a window that are no aggregates: what SQL needs to know of each.

What they keep with a row is in `strategies.dataflow.operators.window_calls`.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.expressions import Frame
from viewmill.algebra.types import DOUBLE, INT, Type

_UP_TO_ROW = Frame("rows", None, 0)


@dataclass(frozen=True)
class WindowFunction:
    """A function of the rows of a partition in order."""

    name: str
    type: Type | None = None  # None: that of its first argument, and NULL where no row is
    frame: Frame | None = None  # the only one that may be written for it
    takes_frame: bool = False  # any may be written
    arguments: int = 0  # how many constant whole numbers it takes, if it has a type of its own
    parts_peers: bool = False  # rows that are equal in order get different answers
    duckdb: str = ""  # its name in DuckDB, if that is another one


WINDOW_FUNCTIONS = {
    each.name: each
    for each in (
        WindowFunction("row_number", INT, _UP_TO_ROW, parts_peers=True),
        WindowFunction("rank", INT, _UP_TO_ROW),
        WindowFunction("dense_rank", INT, _UP_TO_ROW),
        WindowFunction("percent_rank", DOUBLE, _UP_TO_ROW),
        WindowFunction("cume_dist", DOUBLE, Frame("range", None, 0)),
        WindowFunction("ntile", INT, _UP_TO_ROW, arguments=1, parts_peers=True),
        WindowFunction("lag", parts_peers=True),
        WindowFunction("lead", parts_peers=True),
        WindowFunction("first_value", takes_frame=True),
        WindowFunction("last_value", takes_frame=True),
        WindowFunction("nth_value", takes_frame=True),
    )
}

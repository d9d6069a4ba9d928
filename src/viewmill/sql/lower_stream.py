"""Lower a window on a table: s [WINDOW 10 MINUTES SLIDE 1 MINUTE], or of ROWS.

takes  the table's node with its suffix, the catalog
gives  algebra `SlidingWindow`, checked against how the table is declared
"""

from __future__ import annotations

from sqlglot import exp

from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Timestamp
from viewmill.algebra.windows import SlidingWindow
from viewmill.errors import Span, TypeMismatch, UnsupportedQuery
from viewmill.sql.catalog import Stream, Streams
from viewmill.sql.dialect import WindowSuffix, suffixes_of
from viewmill.sql.environment import Environment


def has_window(node: exp.Expr) -> bool:
    """Whether all that is written after a table is one window."""
    if not isinstance(node, exp.Table):
        return False
    found = suffixes_of(node)
    return len(found) == 1 and isinstance(found[0], WindowSuffix)


def window_of(
    node: exp.Table, name: str, schema: Schema, environment: Environment
) -> SlidingWindow | None:
    """The window written after a table, or None."""
    if not has_window(node):
        return None
    (suffix,) = suffixes_of(node)
    span = environment.span(suffix)
    catalog = environment.catalog
    stream = catalog.stream(name) if isinstance(catalog, Streams) else None
    if stream is None:
        raise no_table(name, span)
    unit, size = suffix.args["unit"], suffix.args["size"]
    slide = suffix.args.get("slide") or stream.part_length
    if slide is None:
        raise UnsupportedQuery(
            "the window does not say how far it slides",
            detail=f'Only over a table in time parts it slides by a part, and "{name}" has none.',
            hint="Write [WINDOW 10 MINUTES SLIDE 1 MINUTE].",
            span=span,
        )
    if unit == "rows":
        if not stream.only_grows:
            raise UnsupportedQuery(
                f'a window of rows needs an APPEND ONLY table, which "{name}" is not',
                detail="It counts rows in the order of their arrival, so none may go.",
                hint="Declare the table APPEND ONLY, without RETENTION, or use a window of time.",
                span=span,
            )
        at = None if stream.timestamp_by is None else schema.find(stream.timestamp_by)
        return SlidingWindow("rows", size, slide, "" if at is None else schema[at].name)
    column = _time_column(name, schema, stream, span)
    return SlidingWindow("time", size, slide, column, stream.lateness)


def no_table(name: str, span: Span | None) -> UnsupportedQuery:
    """The error for a window on something that is not a table."""
    return UnsupportedQuery(
        f'a window needs a table, which "{name}" is not',
        hint="Put the window on the table that the view reads.",
        span=span,
    )


def _time_column(name: str, schema: Schema, stream: Stream, span: Span | None) -> str:
    if stream.timestamp_by is None:
        raise UnsupportedQuery(
            f'a window of time needs a time column, and table "{name}" names none',
            hint="Declare the table with TIMESTAMP BY column.",
            span=span,
        )
    at = schema.find(stream.timestamp_by)
    assert at is not None
    field = schema[at]
    if not isinstance(field.type, Timestamp):
        raise TypeMismatch(
            f'a window of time needs a TIMESTAMP, and "{field.name}" of table "{name}" is '
            f"{field.type}",
            span=span,
        )
    return field.name

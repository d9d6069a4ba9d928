"""The value of window(...): a struct of start and end, and its two fields.

takes  expressions of type `TIME_WINDOW`: the columns that window(...) made, or a column of a view
gives  algebra expressions of its start and its end
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from viewmill.algebra.expressions import Call, Expression, Literal
from viewmill.algebra.types import BIGINT, STRING, TIMESTAMP, Nested
from viewmill.errors import Span, UnknownName, nearest
from viewmill.sql import functions, operators

TIME_WINDOW = Nested("STRUCT<start: TIMESTAMP, end: TIMESTAMP>")
FIELDS = ("start", "end")


def is_time_window(value: Expression | None) -> TypeGuard[Expression]:
    """Whether a value is that of window(...)."""
    return value is not None and value.type == TIME_WINDOW


def window_value(borders: Sequence[Expression]) -> Expression:
    """The struct of a start and an end."""
    named = zip((Literal(each, STRING) for each in FIELDS), borders, strict=True)
    return Call("named_struct", tuple(e for pair in named for e in pair), TIME_WINDOW, False)


def window_field(window: Expression, name: str, span: Span | None) -> Expression:
    """The start or the end of a window."""
    field = name.lower()
    if field not in FIELDS:
        hint = nearest(name, FIELDS) or "It has start and end."
        raise UnknownName(f'a window has no field "{name}"', hint=hint, span=span)
    if isinstance(window, Call) and window.function == "named_struct":
        return window.arguments[2 * FIELDS.index(field) + 1]
    arguments = (window, Literal(field, STRING))
    return Call("struct_field", arguments, TIMESTAMP, window.nullable, span)


def window_time(window: Expression, span: Span | None) -> Expression:
    """The last moment of a window, one microsecond before its end."""
    ticks = functions.call("unix_micros", (window_field(window, "end", span),), span)
    last = operators.arithmetic("-", ticks, Literal(1, BIGINT), span)
    return functions.call("timestamp_micros", (last,), span)

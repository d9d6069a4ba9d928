"""Answers as JSON: data only, which the page puts into the document as text.

takes  plain data, rows as Arrow tables, errors
gives  responses that nothing can mistake for markup
"""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from typing import Any

from starlette.responses import Response

from viewmill.errors import MillClosed, UnknownName, ViewmillError

_MOST_CHARACTERS = 2000  # of a cell


class Json(Response):
    """Plain data as JSON in ASCII, whatever is in its texts."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes."""
        return dumped(content).encode("ascii")


def dumped(content: Any) -> str:
    """Plain data as JSON; numbers that JSON lacks become texts."""
    return json.dumps(_finite(content), default=str, allow_nan=False)


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {str(key): _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case _:
            return value


def error_reply(error: ViewmillError) -> Json:
    """An error with everything that it says."""
    status = 400
    if isinstance(error, UnknownName):
        status = 404
    if isinstance(error, MillClosed):
        status = 503
    return Json({"error": said(error)}, status_code=status)


def said(error: ViewmillError) -> dict[str, Any]:
    """What an error says, and the place that it underlines."""
    span = error.span
    where = None
    if span is not None:
        where = {"start": span.start, "end": span.end, "sql": span.sql, "text": span.underlined()}
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "detail": error.detail,
        "hint": error.hint,
        "where": where,
    }


def rows_reply(table: Any, total: int) -> dict[str, Any]:
    """Rows of an Arrow table as texts; NULL is null."""
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
    cells = [[cell(value) for value in column.to_pylist()] for column in table.columns]
    rows = [list(row) for row in zip(*cells, strict=True)] if cells else []
    return {"columns": columns, "rows": rows, "total": total}


def cell(value: Any) -> str | None:
    """A value as text.

    >>> cell(None), cell(True), cell(b"a"), cell(Decimal("1E+2")), cell(0.1)
    (None, 'true', '61', '100', '0.1')
    """
    match value:
        case None:
            return None
        case bool():
            text = str(value).lower()
        case bytes():
            text = value.hex()
        case Decimal():
            text = f"{value:f}"
        case datetime.datetime():
            text = value.isoformat(sep=" ")
        case _:
            text = str(value)
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + " …"

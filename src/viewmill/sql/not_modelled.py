"""The signal inside `sql` that a query is more than the algebra can say.

`sql.lower` catches it and keeps the whole query as text for the engine.
"""

from __future__ import annotations

from viewmill.errors import Span


class NotModelled(Exception):
    """`reason` says what the algebra lacks; `function` names a function nobody here knows."""

    def __init__(self, reason: str, span: Span | None = None, *, function: str = "") -> None:
        super().__init__(reason)
        self.reason, self.span, self.function = reason, span, function

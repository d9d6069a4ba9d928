"""The signals inside `sql` that an expression or a query is more than the algebra can say.

An expression becomes a call that only the engine computes (`sql.engine_calls`); a query is kept as
text for the engine (`sql.foreign`).
"""

from __future__ import annotations

from viewmill.errors import Span


class NotModelled(Exception):
    """`reason` says what the algebra lacks."""

    def __init__(self, reason: str, span: Span | None = None) -> None:
        super().__init__(reason)
        self.reason, self.span = reason, span


class QueryNotModelled(NotModelled):
    """The query itself cannot be modelled, whatever its expressions are."""

    @classmethod
    def because(cls, reason: NotModelled) -> QueryNotModelled:
        """Raise the reason from an expression to the whole query."""
        return cls(reason.reason, reason.span)

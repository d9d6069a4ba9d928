"""Errors as Postgres reports them.

takes  our errors
gives  the fields of ErrorResponse: SQLSTATE, message, detail, hint, position
"""

from __future__ import annotations

from viewmill import errors
from viewmill.errors import Span, ViewmillError


class Refused(ViewmillError):
    """What a client may not do, or did wrongly, with its SQLSTATE."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        detail: str = "",
        hint: str = "",
        span: Span | None = None,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint, span=span)
        self.code = code


_STATES: tuple[tuple[type[Exception], str], ...] = (
    (errors.MalformedSQL, "42601"),
    (errors.UnknownName, "42P01"),
    (errors.TypeMismatch, "42804"),
    (errors.UnsupportedQuery, "0A000"),
    (errors.BrokenView, "55000"),
    (errors.Overflow, "22003"),
    (errors.OutOfMemory, "53200"),
    (errors.EvaluationFailed, "22000"),
    (errors.ResultTooLarge, "54000"),
    (errors.InvalidArgument, "22023"),
    (errors.MillClosed, "57P01"),
    (errors.SnapshotTooOld, "72000"),
    (errors.StorageFailed, "58030"),
)


def sqlstate(error: BaseException) -> str:
    """The SQLSTATE of an error."""
    if isinstance(error, Refused):
        return error.code
    if isinstance(error, errors.UnknownName) and "column" in error.message:
        return "42703"
    if isinstance(error, errors.UnknownName) and "function" in error.message:
        return "42883"
    if isinstance(error, errors.EvaluationFailed) and "zero" in error.message:
        return "22012"
    return next((code for kind, code in _STATES if isinstance(error, kind)), "XX000")


def report_fields(error: BaseException, sql: str = "", severity: str = "ERROR") -> dict[str, str]:
    """The fields of ErrorResponse, by their letters. `sql` is what the client sent."""
    found = {"S": severity, "V": severity, "C": sqlstate(error)}
    if not isinstance(error, ViewmillError):
        return {**found, "M": "the server failed; its log says why"}
    found["M"] = error.message
    if error.detail:
        found["D"] = error.detail
    if error.hint:
        found["H"] = error.hint
    position = _position(error, sql)
    return found if position is None else {**found, "P": str(position)}


def _position(error: ViewmillError, sql: str) -> int | None:
    """Where in the client's text the error is, from one; of a word only if it is there once."""
    span = error.span
    if span is None or not sql:
        return None
    if span.sql == sql:
        return span.start + 1
    word = span.text.strip('`"')
    return sql.index(word) + 1 if word and sql.count(word) == 1 else None

"""Read the clauses that tables and views share: intervals, sizes, REFRESH.

takes  a Cursor at the clause
gives  microseconds, bytes, refresh policies
next   sql.parse_table, sql.parse_view, sql.parse
"""

from __future__ import annotations

from decimal import Decimal
from typing import cast

from sqlglot.tokenizer_core import TokenType

from viewmill.algebra.refresh import (
    EveryInterval,
    EveryRows,
    Immediate,
    OnDemand,
    OnReadAfter,
    Policy,
    Within,
)
from viewmill.algebra.units import (
    MICROSECONDS_BY_UNIT,
    parse_bytes,
    parse_duration,
    to_microseconds,
)
from viewmill.errors import InvalidArgument, MalformedSQL
from viewmill.sql.cursor import Cursor
from viewmill.sql.spans import alternatives
from viewmill.sql.statements import RefreshPolicy

REFRESHES = ("IMMEDIATE", "ON DEMAND", "EVERY", "WITHIN", "ON READ AFTER", "POLICY")
REFRESH_POLICIES = ("AUTO", "INCREMENTAL", "INCREMENTAL STRICT", "FULL")

_INTERVAL_HINT = "Write INTERVAL '10' MINUTES, INTERVAL 10 MINUTES or INTERVAL '10 minutes'."


def parse_interval(cursor: Cursor, *, positive: bool = True) -> int:
    """INTERVAL '10' MINUTES and its other spellings, in microseconds."""
    start = cursor.index
    cursor.expect("INTERVAL", hint=_INTERVAL_HINT)
    number = _interval_number(cursor)
    try:
        if len(number.split()) > 1:
            microseconds = parse_duration(number)
        else:
            microseconds = _count_of_unit(cursor, number)
    except InvalidArgument as error:
        span = cursor.span_from(start)
        raise MalformedSQL(error.message, hint=error.hint, span=span) from error
    if positive and not microseconds:
        raise MalformedSQL("the interval must be longer than zero", span=cursor.span_from(start))
    return microseconds


def _interval_number(cursor: Cursor) -> str:
    text = cursor.string()
    if text is None:
        if cursor.is_done or cursor.tokens[cursor.index].token_type != TokenType.NUMBER:
            raise cursor.failure("expected the length of the interval", hint=_INTERVAL_HINT)
        text = cursor.tokens[cursor.index].text
        cursor.index += 1
    return text


def _count_of_unit(cursor: Cursor, number: str) -> int:
    try:
        count = Decimal(number)
    except ArithmeticError:
        raise InvalidArgument(f"not a number: '{number}'", hint=_INTERVAL_HINT) from None
    unit = cursor.word()
    if unit.removesuffix("S") not in (*MICROSECONDS_BY_UNIT, "MONTH", "QUARTER", "YEAR"):
        units = [f"{each}S" for each in MICROSECONDS_BY_UNIT]
        raise cursor.failure("expected a unit of time", hint=alternatives(unit, units))
    cursor.index += 1
    return to_microseconds(count, unit)


def parse_memory(cursor: Cursor) -> int:
    """'64 MB', or a number of bytes."""
    start = cursor.index
    text = cursor.string()
    if text is None:
        return cursor.integer("MEMORY without quotes", least=0)
    try:
        return parse_bytes(text)
    except InvalidArgument as error:
        span = cursor.span_from(start)
        raise MalformedSQL(error.message, hint=error.hint, span=span) from error


def parse_refresh(cursor: Cursor) -> Policy | RefreshPolicy:
    """What follows REFRESH: when (a policy), or how (the word after POLICY)."""
    match cursor.choose(REFRESHES, "way to REFRESH"):
        case "POLICY":
            chosen = cursor.choose(REFRESH_POLICIES, "REFRESH POLICY")
            return cast(RefreshPolicy, chosen.lower().replace(" ", "_"))
        case "IMMEDIATE":
            return Immediate()
        case "ON DEMAND":
            return OnDemand()
        case "WITHIN":
            return Within(parse_interval(cursor))
        case "ON READ AFTER":
            return OnReadAfter(parse_interval(cursor, positive=False))
        case _:
            return _every(cursor)


def _every(cursor: Cursor) -> Policy:
    if cursor.at("INTERVAL"):
        return EveryInterval(parse_interval(cursor))
    if cursor.word().isalpha():
        raise cursor.unknown(("INTERVAL", "1000 ROWS"), "period after EVERY")
    rows = cursor.integer("the number of ROWS after EVERY")
    if not (cursor.accept("ROWS") or cursor.accept("ROW")):
        raise cursor.failure(
            "expected ROWS", hint="Write EVERY 1000 ROWS, or EVERY INTERVAL '60' SECONDS."
        )
    return EveryRows(rows)

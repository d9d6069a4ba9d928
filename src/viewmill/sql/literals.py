"""Numbers written in SQL, in the types Spark reads them in.

takes  the digits
gives  algebra Literal: INT, BIGINT, DECIMAL or DOUBLE
"""

from __future__ import annotations

from decimal import Decimal as Number
from itertools import pairwise
from math import isinf

from sqlglot import exp

from viewmill.algebra.expressions import Literal
from viewmill.algebra.types import DOUBLE, Integer
from viewmill.errors import Span, TypeMismatch
from viewmill.sql import decimals
from viewmill.sql.dialect import tokenize


def number_literal(text: str, span: Span | None) -> Literal:
    """1 is INT, 1.5 DECIMAL(2,1), 1e3 DOUBLE."""
    if "e" in text.lower():
        if isinf(value := float(text)):
            raise TypeMismatch("the number is beyond DOUBLE, which ends at 1.8e308", span=span)
        return Literal(value, DOUBLE, span)
    return _exact(Number(text), span) if "." in text else whole_number(int(text), span)


def whole_number(value: int, span: Span | None) -> Literal:
    """A whole number in the narrowest of INT, BIGINT and DECIMAL that holds it."""
    for type_ in (Integer(32), Integer(64)):
        if type_.low <= value <= type_.high:
            return Literal(value, type_, span)
    return _exact(Number(value), span)


def _exact(number: Number, span: Span | None) -> Literal:
    type_ = decimals.for_number(number)
    if type_.precision > decimals.MAX_PRECISION:
        raise TypeMismatch("a number has at most 38 digits", hint="Write 1e40.", span=span)
    return Literal(number, type_, span)


def joined_text(node: exp.Expr, sql: str) -> str | None:
    """The text of strings that stand side by side, which sqlglot reads as a Concat; else None.

    Spark 4 reads 'it''s' as one string with a quote in it, and 'a' 'b' as 'ab'.
    """
    if not isinstance(node, exp.Concat) or node.args.get("safe"):
        return None
    pieces = node.expressions
    if any(not isinstance(each, exp.Literal) for each in pieces) or "start" not in pieces[0].meta:
        return None
    # Only the first piece knows its place, so the tokens are read again from there.
    tokens = tokenize(sql[pieces[0].meta["start"] :])[: len(pieces)]
    text = tokens[0].text
    for before, token in pairwise(tokens):
        touching = before.end + 1 == token.start
        text += (sql[pieces[0].meta["start"]] if touching else "") + token.text
    return text

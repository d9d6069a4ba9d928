"""Read the subscripts of parts: m[i], m[i - 1], m[i * 60 .. i * 60 + 59], h[i / 60].

takes  the sqlglot expression between the brackets, the name of the view's subscript
gives  program.parts.Subscript; division is of whole numbers, rounded down
"""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from viewmill.errors import MalformedSQL, Span
from viewmill.program.parts import Subscript
from viewmill.sql.spans import span_of

_HINT = "Write i, i - 1, i * 60 + 59 or i / 60: whole numbers, and each part by its distance."


def read_subscript(node: exp.Expr, name: str, sql: str) -> Subscript:
    """The subscript as a function of the variable `name`."""
    if isinstance(node, exp.Paren):
        return read_subscript(node.this, name, sql)
    if isinstance(node, exp.Div | exp.IntDiv):
        inside = _linear(node.this, name, sql)
        divisor = _linear(node.expression, name, sql)
        if divisor[0] or divisor[1] <= 0:
            raise _failure("a subscript is divided by a whole number only", node, sql)
        return _checked(Subscript(*inside, divisor[1]), node, sql)
    return _checked(Subscript(*_linear(node, name, sql)), node, sql)


def _checked(found: Subscript, node: exp.Expr, sql: str) -> Subscript:
    if found.multiplier < 0:
        raise _failure("a subscript may not run backwards", node, sql)
    return found


def _linear(node: exp.Expr, name: str, sql: str) -> tuple[int, int]:
    """a and b of a * i + b."""
    match node:
        case exp.Paren():
            return _linear(node.this, name, sql)
        case exp.Neg():
            a, b = _linear(node.this, name, sql)
            return -a, -b
        case exp.Literal() if not node.is_string and Fraction(node.name).denominator == 1:
            return 0, int(Fraction(node.name))
        case exp.Column() if not node.table and node.name.lower() == name.lower():
            return 1, 0
        case exp.Add() | exp.Sub():
            (a, b), (c, d) = (_linear(each, name, sql) for each in (node.this, node.expression))
            sign = 1 if isinstance(node, exp.Add) else -1
            return a + sign * c, b + sign * d
        case exp.Mul():
            (a, b), (c, d) = (_linear(each, name, sql) for each in (node.this, node.expression))
            if a and c:
                raise _failure("a subscript is linear", node, sql)
            return a * d + c * b, b * d
    raise _failure(f'a subscript is computed from "{name}" and whole numbers', node, sql)


def _failure(message: str, node: exp.Expr, sql: str) -> MalformedSQL:
    span: Span | None = span_of(node, sql)
    return MalformedSQL(message, hint=_HINT, span=span)

"""DECIMALs as Spark computes them, written with Python's decimal module alone.

gives  `Expr`: SQL text with its type, and what it is for a row; aggregates of what a group holds
"""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

Row = tuple[Decimal | int | None, ...]
EXACT = decimal.Context(prec=200, rounding=ROUND_HALF_UP)


class SparkOverflow(Exception):
    """A value that its type does not hold: an error with ANSI on."""


@dataclass(frozen=True)
class Type:
    """DECIMAL(precision, scale)."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"

    def fit(self, x: Decimal | None) -> Decimal | None:
        """The value at this scale, half up."""
        if x is None:
            return None
        made = x.quantize(Decimal(1).scaleb(-self.scale), context=EXACT)
        if made.copy_abs() >= Decimal(10) ** (self.precision - self.scale):
            raise SparkOverflow(f"{x} as {self}")
        return made


def allow_precision_loss(precision: int, scale: int) -> Type:
    """Spark's adjustment: at least six digits behind the point, or as many as there are."""
    if precision <= 38:
        return Type(precision, scale)
    return Type(38, max(38 - (precision - scale), min(scale, 6)))


def result_type(op: str, a: Type, b: Type) -> Type:
    """Spark's rules for + - * / %."""
    p1, s1, p2, s2 = a.precision, a.scale, b.precision, b.scale
    if op in "+-":
        scale = max(s1, s2)
        return allow_precision_loss(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if op == "*":
        return allow_precision_loss(p1 + p2 + 1, s1 + s2)
    if op == "/":
        scale = max(6, s1 + p2 + 1)
        return allow_precision_loss(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return allow_precision_loss(min(p1 - s1, p2 - s2) + scale, scale)


@dataclass(frozen=True)
class Expr:
    """An expression over a row."""

    sql: str
    type: Type
    of: Callable[[Row], Decimal | None]


def column(name: str, at: int, type_: Type) -> Expr:
    """A column."""
    return Expr(name, type_, lambda row: row[at])  # type: ignore[arg-type,return-value]


def binary(op: str, a: Expr, b: Expr) -> Expr:
    """a op b; NULL where an operand is."""
    type_ = result_type(op, a.type, b.type)

    def of(row: Row) -> Decimal | None:
        x, y = a.of(row), b.of(row)
        if x is None or y is None:
            return None
        if op in "/%" and y == 0:
            raise SparkOverflow("division by zero")
        made = {
            "+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply, "/": EXACT.divide,
            "%": EXACT.remainder,
        }[op](x, y)  # fmt: skip
        return type_.fit(made)

    return Expr(f"({a.sql} {op} {b.sql})", type_, of)


def cast(a: Expr, type_: Type) -> Expr:
    """CAST(a AS type)."""
    return Expr(f"CAST({a.sql} AS {type_})", type_, lambda row: type_.fit(a.of(row)))


def negate(a: Expr) -> Expr:
    """-a."""

    def of(row: Row) -> Decimal | None:
        x = a.of(row)
        return None if x is None else EXACT.minus(x)

    return Expr(f"(-{a.sql})", a.type, of)


def literal(text: str) -> Expr:
    """A constant."""
    value = Decimal(text)
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    sql = f"({text})" if value < 0 else text
    return Expr(sql, Type(max(len(digits), scale), scale), lambda row: value)


def nullif_zero(a: Expr) -> Expr:
    """NULLIF(a, 0): what may be divided by."""

    def of(row: Row) -> Decimal | None:
        x = a.of(row)
        return None if x is None or x == 0 else x

    return Expr(f"NULLIF({a.sql}, 0)", a.type, of)


def total(values: Sequence[Decimal | None], type_: Type) -> Decimal | None:
    """SUM."""
    known = [x for x in values if x is not None]
    if not known:
        return None
    made = Decimal(0)
    for x in known:
        made = EXACT.add(made, x)
    return Type(min(type_.precision + 10, 38), type_.scale).fit(made)


def average(values: Sequence[Decimal | None], type_: Type) -> Decimal | None:
    """AVG."""
    whole, count = total(values, type_), sum(x is not None for x in values)
    if whole is None:
        return None
    target = Type(min(type_.precision + 4, 38), min(type_.scale + 4, 38))
    return target.fit(EXACT.divide(whole, Decimal(count)))


def random_type(source: random.Random) -> Type:
    """Any precision and scale, the extremes often."""
    precision = source.choice((1, 9, 18, 19, 28, 29, 38, source.randint(1, 38)))
    return Type(precision, source.choice((0, precision, source.randint(0, precision))))


def random_value(source: random.Random, type_: Type) -> Decimal | None:
    """NULL, zero, an extreme or next to one, something short, or something long."""
    most = 10**type_.precision - 1
    kind = source.random()
    if kind < 0.08:
        return None
    size = source.choice((0, 1, most, max(most - source.randrange(12), 0))) if kind < 0.35 else (
        source.randrange(10 ** source.randint(1, type_.precision))
    )  # fmt: skip
    return Decimal(source.choice((size, -size))).scaleb(-type_.scale, EXACT)


def random_expr(source: random.Random, columns: Sequence[Expr], depth: int) -> Expr:
    """An expression over DECIMAL columns."""
    if depth == 0 or source.random() < 0.15:
        if source.random() < 0.2:
            return literal(source.choice(("1.5", "0.01", "100", "-7.25", "12345678901234567890.5")))
        return source.choice(columns)
    a = random_expr(source, columns, depth - 1)
    kind = source.random()
    if kind < 0.1:
        return negate(a)
    if kind < 0.25:
        return cast(a, random_type(source))
    b = random_expr(source, columns, depth - 1)
    op = source.choice("++--***/%")
    return binary(op, a, nullif_zero(b) if op in "/%" else b)


def is_more(a: Expr, b: Expr, row: Row) -> bool:
    """Whether a > b: both as one type, in which digits before the point come first."""
    x, y = a.of(row), b.of(row)
    if x is None or y is None:
        return False
    scale = max(a.type.scale, b.type.scale)
    whole = max(each.type.precision - each.type.scale for each in (a, b))
    lost = max(whole + scale - 38, 0)
    common = Type(whole + scale - lost, max(scale - lost, 0))
    left, right = common.fit(x), common.fit(y)
    assert left is not None
    assert right is not None
    return left > right

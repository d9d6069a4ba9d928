"""An oracle for expressions that can fail: Python over plain rows, sharing nothing with the engine.

An expression is SQL text and a function of a row. The function raises `Failed` where SQL must fail.
Where SQL leaves open whether an operand is evaluated, `Strict` rows evaluate it and others do not:
a batch must be refused if the lenient evaluation fails, and accepted if the strict one does not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Value = Callable[[Row], Any]
INT = (-(2**31), 2**31 - 1)
STRICT = "strict"  # a key of rows whose conditions are judged from left to right


class Failed(Exception):
    """SQL has no value for a row."""


@dataclass(frozen=True)
class Expr:
    """SQL text, its value for a row, and its kind: int, real or text."""

    sql: str
    value: Value
    kind: str = "int"
    parts: tuple[Expr, ...] = ()  # of an AND

    def conjuncts(self) -> list[Expr]:
        """What AND holds together."""
        return [c for each in self.parts for c in each.conjuncts()] if self.parts else [self]


def column(name: str, kind: str = "int") -> Expr:
    """A column."""
    return Expr(name, lambda row: row[name], kind)


def _strict(*parts: Value) -> Callable[[Row], list[Any] | None]:
    def values(row: Row) -> list[Any] | None:
        found = [part(row) for part in parts]
        return None if any(each is None for each in found) else found

    return values


def divide(a: Expr, b: Expr) -> Expr:
    """a / b, a DOUBLE."""
    values = _strict(a.value, b.value)

    def value(row: Row) -> Any:
        found = values(row)
        if found is None:
            return None
        if found[1] == 0:
            raise Failed("division by zero")
        return found[0] / found[1]

    return Expr(f"({a.sql} / {b.sql})", value, "real")


def whole_divide(a: Expr, b: Expr) -> Expr:
    """a div b, a BIGINT that truncates."""
    values = _strict(a.value, b.value)

    def value(row: Row) -> Any:
        found = values(row)
        if found is None:
            return None
        if found[1] == 0:
            raise Failed("division by zero")
        quotient = abs(found[0]) // abs(found[1])
        return quotient if (found[0] < 0) == (found[1] < 0) else -quotient

    return Expr(f"CAST({a.sql} div {b.sql} AS INT)", value)


def multiply(a: Expr, b: Expr) -> Expr:
    """a * b, an INT."""
    values = _strict(a.value, b.value)

    def value(row: Row) -> Any:
        found = values(row)
        if found is None:
            return None
        product = found[0] * found[1]
        if not INT[0] <= product <= INT[1]:
            raise Failed("overflow")
        return product

    return Expr(f"({a.sql} * {b.sql})", value)


def to_int(a: Expr) -> Expr:
    """CAST(text AS INT)."""

    def value(row: Row) -> Any:
        found = a.value(row)
        if found is None:
            return None
        try:
            return int(found)
        except ValueError:
            raise Failed("a cast") from None

    return Expr(f"CAST({a.sql} AS INT)", value)


def case(condition: Expr, then: Expr, other: Expr) -> Expr:
    """CASE WHEN condition THEN then ELSE other END."""

    def value(row: Row) -> Any:
        return then.value(row) if condition.value(row) is True else other.value(row)

    sql = f"CASE WHEN {condition.sql} THEN {then.sql} ELSE {other.sql} END"
    return Expr(sql, value, then.kind)


def coalesce(a: Expr, b: Expr) -> Expr:
    """COALESCE(a, b)."""

    def value(row: Row) -> Any:
        found = a.value(row)
        return b.value(row) if found is None else found

    return Expr(f"COALESCE({a.sql}, {b.sql})", value, a.kind)


def compare(a: Expr, sign: str, b: Expr) -> Expr:
    """a sign b."""
    tests: dict[str, Callable[[Any, Any], bool]] = {
        "=": lambda x, y: x == y, "<>": lambda x, y: x != y,
        "<": lambda x, y: x < y, ">": lambda x, y: x > y,
    }  # fmt: skip
    values = _strict(a.value, b.value)

    def value(row: Row) -> Any:
        found = values(row)
        return None if found is None else tests[sign](*found)

    return Expr(f"{a.sql} {sign} {b.sql}", value, "truth")


def both(a: Expr, b: Expr) -> Expr:
    """a AND b: b is judged unless a is false."""

    def value(row: Row) -> Any:
        left = a.value(row)
        if left is False:
            return False
        right = b.value(row)
        return False if right is False else None if None in (left, right) else True

    return Expr(f"({a.sql} AND {b.sql})", value, "truth", (a, b))


def either(a: Expr, b: Expr) -> Expr:
    """a OR b: b is judged unless a is true."""

    def value(row: Row) -> Any:
        left = a.value(row)
        if left is True:
            return True
        right = b.value(row)
        return True if right is True else None if None in (left, right) else False

    return Expr(f"({a.sql} OR {b.sql})", value, "truth")


def passes(conditions: list[Expr], row: Row) -> bool:
    """WHERE: a strict row is judged from left to right until a part is false, others fail only if
    all parts that do not fail are true."""
    conditions = [part for each in conditions for part in each.conjuncts()]
    if row.get(STRICT):
        found = []
        for each in conditions:
            found.append(each.value(row))
            if found[-1] is False:
                return False
        return all(each is True for each in found)
    failed: Failed | None = None
    for each in conditions:
        try:
            if each.value(row) is not True:
                return False
        except Failed as why:
            failed = why
    if failed is not None:
        raise failed
    return True


# Random queries.


@dataclass
class Maker:
    """Draws expressions over columns."""

    random: random.Random
    ints: list[str]
    texts: list[str]

    def column(self) -> Expr:
        """A column of whole numbers, or a small number."""
        if self.random.random() < 0.2:
            number = self.random.choice([0, 1, 2, 3])
            return Expr(str(number), lambda row: number)
        return column(self.random.choice(self.ints))

    def failing(self) -> Expr:
        """Something that can fail, an INT."""
        draw = self.random.random()
        if draw < 0.35:
            return whole_divide(self.column(), column(self.random.choice(self.ints)))
        if draw < 0.6:
            return to_int(column(self.random.choice(self.texts), "text"))
        return multiply(self.column(), column(self.random.choice(self.ints)))

    def condition(self, depth: int = 1) -> Expr:
        """A condition, which may guard or fail."""
        draw = self.random.random()
        sign = self.random.choice(["=", "<>", "<", ">", "<>"])
        if depth and draw < 0.25:
            return both(self.condition(0), self.condition(0))
        if depth and draw < 0.45:
            return either(self.condition(0), self.condition(0))
        if draw < 0.6:
            text = self.random.choice(self.texts)
            return compare(column(text, "text"), "<>", Expr("'a'", lambda row: "a", "text"))
        left = self.failing() if draw < 0.75 else self.column()
        number = self.random.choice([0, 0, 1, 5])
        return compare(left, sign, Expr(str(number), lambda row: number))

    def value(self) -> Expr:
        """A number, guarded or not."""
        draw = self.random.random()
        if draw < 0.3:
            return case(self.condition(), self.failing(), self.column())
        if draw < 0.4:
            return coalesce(self.column(), self.failing())
        if draw < 0.6:
            return self.failing()
        if draw < 0.75:
            return divide(self.column(), column(self.random.choice(self.ints)))
        return self.column()


def group(
    rows: Iterator[Row], key: Expr | None, calls: list[tuple[str, Expr, Expr | None]]
) -> list[tuple[Any, ...]]:
    """The groups of rows with their aggregates: sum, count, avg, max."""
    groups: dict[Any, list[list[Any]]] = {}
    if key is None:
        groups[None] = [[] for _ in calls]
    for row in rows:
        at = None if key is None else key.value(row)
        kept = groups.setdefault(at, [[] for _ in calls])
        for values, (_, argument, where) in zip(kept, calls, strict=True):
            if where is None or where.value(row) is True:
                found = argument.value(row)
                if found is not None:
                    values.append(found)
    shown = []
    for at, kept in groups.items():
        found = [_aggregate(call[0], values) for values, call in zip(kept, calls, strict=True)]
        shown.append(tuple(found) if key is None else (at, *found))
    return shown


def _aggregate(name: str, values: list[Any]) -> Any:
    if name == "count":
        return len(values)
    if not values:
        return None
    if name == "avg":
        return sum(values) / len(values)
    return sum(values) if name == "sum" else max(values)

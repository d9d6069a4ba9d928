"""Nested aggregates by their meaning: loops over lists of rows, sharing no code with Viewmill."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal

Row = tuple[int | None, float | None, Decimal | None]  # broker, volume, price
OPERATORS: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "=": operator.eq, "<>": operator.ne,
}  # fmt: skip


def total(values: list[Decimal]) -> Decimal | None:
    """SUM: NULL over no value."""
    return sum(values, Decimal(0)) if values else None


def compare(left: Decimal | None, sign: str, right: Decimal | None) -> bool:
    """Whether SQL calls it true."""
    return left is not None and right is not None and OPERATORS[sign](left, right)


def volumes(rows: list[Row]) -> list[Decimal]:
    return [Decimal(row[1]) for row in rows if row[1] is not None]


def inside(rows: list[Row], correlation: str, price: Decimal | None) -> list[Row]:
    """The rows whose price compares so with the outer one; NULL never does."""
    return [row for row in rows if compare(row[2], correlation, price)]


def qualifying(
    rows: list[Row], share: Decimal, sign: str, correlation: str, function: str
) -> list[Row]:
    """WHERE share * (SELECT SUM(volume)) sign (SELECT f(volume) WHERE price correlation outer)."""
    whole = total(volumes(rows))
    left = None if whole is None else share * whole
    kept = []
    for row in rows:
        found = inside(rows, correlation, row[2])
        right: Decimal | None = Decimal(len(found))
        if function != "count":
            right = total(volumes(found))
        if function == "coalesce" and right is None:
            right = Decimal(0)
        if compare(left, sign, right):
            kept.append(row)
    return kept


def money(rows: list[Row]) -> list[Decimal]:
    return [
        price * Decimal(volume)
        for _, volume, price in rows
        if price is not None and volume is not None
    ]


def answer(rows: list[Row]) -> tuple[Decimal | None, int]:
    """SELECT SUM(price * volume), COUNT(*)."""
    return total(money(rows)), len(rows)


def grouped(rows: list[Row]) -> set[tuple[int | None, Decimal | None, int]]:
    """The same by broker."""
    return {
        (broker, *answer([row for row in rows if row[0] == broker]))
        for broker in {row[0] for row in rows}
    }

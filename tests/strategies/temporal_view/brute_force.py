"""A matcher that tries every start and every way to deal rows to variables. Slow and sure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
Test = Callable[[Row, Row | None, bool], bool]  # a row, the one before, whether it is the first


@dataclass(frozen=True)
class Variable:
    """One variable: its test and whether it takes several rows."""

    test: Test
    plus: bool = False


def matches(rows: Sequence[Row], start: int, end: int, variables: Sequence[Variable]) -> bool:
    """Whether rows start to end can be dealt to the variables, all of them, in order."""

    def fits(at: int, variable: int, is_first: bool) -> bool:
        before = rows[at - 1] if at > 0 else None
        if not variables[variable].test(rows[at], before, is_first):
            return False
        if at == end:
            return variable == len(variables) - 1
        if variables[variable].plus and fits(at + 1, variable, False):
            return True
        return variable + 1 < len(variables) and fits(at + 1, variable + 1, True)

    return fits(start, 0, True)


def earliest(rows: Sequence[Row], end: int, variables: Sequence[Variable]) -> int | None:
    """The earliest start of a match that ends here."""
    return next((s for s in range(end + 1) if matches(rows, s, end, variables)), None)


def pattern_part(
    rows: Sequence[Row], part: int, length: int, variables: Sequence[Variable]
) -> list[list[Row]]:
    """The rows of each match that ends in the part; rows are (second, group, x)."""
    found = []
    for group in sorted({row[1] for row in rows}, key=repr):
        own = sorted(row for row in rows if row[1] == group and row[0] // length <= part)
        if not own or own[-1][0] // length != part:
            continue
        start = earliest(own, len(own) - 1, variables)
        if start is not None:
            found.append(own[start:])
    return found

"""What rows of a source can be skipped by, before anything else of them is read.

takes  the conditions of a trigger, in the order in which it judges them
gives  those at the beginning that compare a column with constants or with another column
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from viewmill.algebra.expressions import Call, Cast, Column, Expression, Literal
from viewmill.algebra.types import Date, Decimal, Integer, String, Timestamp, Type
from viewmill.codegen.scalar import constant
from viewmill.program.program import Test

_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def pushed_filter_of(where: Sequence[Expression], own: Mapping[str, str]) -> tuple[Test, ...]:
    """The tests; `own` has the names of the columns in the source.

    Behind a condition that is none of them there may be no other: it may fail in a row, and must.
    """
    tests: list[Test] = []
    for condition in where:
        for each in _conjuncts(condition):
            if _is_not_null(each):
                continue  # a pushed-down filter reads columns without NULL only
            test = _test(each, own)
            if test is None:
                return tuple(tests)
            tests.append(test)
    return tuple(tests)


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    if isinstance(condition, Call) and condition.function == "and":
        for each in condition.arguments:
            yield from _conjuncts(each)
    else:
        yield condition


def _is_not_null(condition: Expression) -> bool:
    if not isinstance(condition, Call) or condition.function != "not":
        return False
    (inner,) = condition.arguments
    if not isinstance(inner, Call) or inner.function != "is_null":
        return False
    return isinstance(inner.arguments[0], Column)


def _test(condition: Expression, own: Mapping[str, str]) -> Test | None:
    if not isinstance(condition, Call):
        return None
    inner, operator = condition, "="
    if condition.function == "not" and isinstance(condition.arguments[0], Call):
        inner, operator = condition.arguments[0], "<>"
    if inner.function == "in":
        column, *values = inner.arguments
        return _with_constants(operator, column, values, own)
    if condition.function not in _TURNED:
        return None
    left, right = map(_narrow, condition.arguments)
    if isinstance(left, Literal):
        return _with_constants(_TURNED[condition.function], right, [left], own)
    if isinstance(right, Literal):
        return _with_constants(condition.function, left, [right], own)
    if not (_is_own(left, own) and _is_own(right, own) and _are_alike(left.type, right.type)):
        return None
    assert isinstance(left, Column)
    assert isinstance(right, Column)
    if isinstance(left.type, String):
        return None
    return Test(own[left.name], condition.function, other=own[right.name])


def _with_constants(
    operator: str, column: Expression, values: Sequence[Expression], own: Mapping[str, str]
) -> Test | None:
    column = _narrow(column)
    if not _is_own(column, own):
        return None
    assert isinstance(column, Column)
    words: list[int | str] = []
    for each in values:
        if not isinstance(each, Literal) or each.value is None:
            return None
        if not _are_alike(column.type, each.type):
            return None
        words.append(str(each.value) if isinstance(each.type, String) else int(constant(each)))
    if isinstance(column.type, String) and operator not in ("=", "<>"):
        return None
    return Test(own[column.name], operator, tuple(words))


def _narrow(expression: Expression) -> Expression:
    """The column behind a cast to a wider integer, which has the same word."""
    if (
        isinstance(expression, Cast)
        and isinstance(expression.type, Integer)
        and isinstance(expression.input.type, Integer)
        and expression.input.type.bits <= expression.type.bits
    ):
        return expression.input
    return expression


def _is_own(expression: Expression, own: Mapping[str, str]) -> bool:
    return isinstance(expression, Column) and not expression.outer and expression.name in own


def _are_alike(left: Type, right: Type) -> bool:
    """Whether the words of two types are compared as they are."""
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return left.scale == right.scale
    kinds = (Integer, Date, Timestamp, String)
    return any(isinstance(left, kind) and isinstance(right, kind) for kind in kinds)

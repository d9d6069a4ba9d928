"""Functions of one string that triggers look up by dictionary id instead of computing them.

A string is computed once, when its id first comes; both halves of the house must mean the same by
a function, so it stands here. Values are Python's: str, int, bool.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow.compute as pc

from viewmill.algebra.expressions import Call, Column, Expression, Literal
from viewmill.algebra.types import Boolean, Integer, String


@dataclass(frozen=True)
class Lookup:
    """A function of a string column.

    `input` and `column` say where its strings come in, `names` under which names states keep them.
    Without an expression: every string that a program meets, to be compared with others.
    """

    input: str
    column: str
    names: frozenset[str]
    expression: Expression | None


EVERY_TEXT = Lookup("", "", frozenset(), None)

_LONG_LIST = 16  # strings named by IN from which on they are looked up


def is_text_function(expression: Expression) -> bool:
    """Whether an expression is computed from one string column and constants by these functions."""
    if not isinstance(expression, Call) or not _is_evaluable(expression):
        return False
    return isinstance(expression.type, String | Boolean | Integer) and _columns(expression) == 1


def base_column(expression: Expression) -> Column:
    """The column that a text function reads."""
    found = _base(expression)
    assert found is not None
    return found


def _base(expression: Expression) -> Column | None:
    if isinstance(expression, Column):
        return expression
    arguments = expression.arguments if isinstance(expression, Call) else ()
    return next((found for each in arguments if (found := _base(each)) is not None), None)


def _columns(expression: Expression) -> int:
    names: set[str] = set()

    def visit(each: Expression) -> None:
        if isinstance(each, Column):
            names.add(each.name)
        for part in each.arguments if isinstance(each, Call) else ():
            visit(part)

    visit(expression)
    return len(names)


def _is_evaluable(expression: Expression) -> bool:
    match expression:
        case Column():
            return isinstance(expression.type, String) and expression.outer == 0
        case Literal():
            return isinstance(expression.value, str | int)
        case Call():
            known = expression.function in FUNCTIONS or _is_test(expression)
            return known and all(map(_is_evaluable, expression.arguments))
        case _:
            return False


def _is_test(call: Call) -> bool:
    """Whether the expression orders strings, or has an IN list long enough for a lookup."""
    if call.function not in _TESTS or not all(isinstance(x.type, String) for x in call.arguments):
        return False
    _, *others = call.arguments
    is_list = len(others) >= _LONG_LIST and all(isinstance(each, Literal) for each in others)
    return call.function != "in" or is_list


def evaluate(expression: Expression, text: str) -> Any:
    """The value of a text function for one string."""
    match expression:
        case Column():
            return text
        case Literal():
            return expression.value
        case Call():
            arguments = [evaluate(each, text) for each in expression.arguments]
            function = FUNCTIONS.get(expression.function) or _TESTS[expression.function]
            return function(*arguments)
        case _:
            raise AssertionError(expression)


def evaluate_all(expression: Expression, texts: Any) -> list[Any]:
    """The function's values for an Arrow array of strings."""
    match expression:
        case Call("like", (Column(), Literal(str() as pattern), Literal(str() as escape))) if (
            "\\" not in pattern and escape not in pattern  # the same to Arrow then
        ):
            found: list[Any] = pc.match_like(texts, pattern).to_pylist()
            return found
        case Call("in", (value, *options)):
            named = {each.value for each in options if isinstance(each, Literal)}
            return [each in named for each in evaluate_all(value, texts)]
    return [evaluate(expression, each) for each in texts.to_pylist()]


@cache
def _pattern(pattern: str, escape: str) -> re.Pattern[str]:
    """A LIKE pattern as a regular expression."""
    parts, i = [], 0
    while i < len(pattern):
        letter = pattern[i]
        if letter == escape and i + 1 < len(pattern):
            i += 1
            parts.append(re.escape(pattern[i]))
        else:
            parts.append({"%": ".*", "_": "."}.get(letter, re.escape(letter)))
        i += 1
    return re.compile("".join(parts), re.DOTALL)


def _like(text: str, pattern: str, escape: str) -> bool:
    return _pattern(pattern, escape).fullmatch(text) is not None


def _substring(text: str, position: int, count: int = 2**31) -> str:
    """Positions count from 1, 0 is 1, negative ones from the end; the length counts from there."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = start + max(count, 0)
    return text[max(start, 0) : max(end, 0)]


def _left(text: str, count: int) -> str:
    return text[: max(count, 0)]


def _right(text: str, count: int) -> str:
    return text[-count:] if count > 0 else ""


def _concat(*texts: str) -> str:
    return "".join(texts)


def _replace(text: str, old: str, new: str = "") -> str:
    return text.replace(old, new) if old else text


# By Spark's names. Trimming takes spaces only, unless it says what.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "like": _like,
    "substring": _substring,
    "left": _left,
    "right": _right,
    "concat": _concat,
    "replace": _replace,
    "upper": lambda text: text.upper(),
    "lower": lambda text: text.lower(),
    "length": len,
    "reverse": lambda text: text[::-1],
    "trim": lambda text, letters=" ": text.strip(letters),
    "ltrim": lambda text, letters=" ": text.lstrip(letters),
    "rtrim": lambda text, letters=" ": text.rstrip(letters),
    "instr": lambda text, part: text.find(part) + 1,
    "startswith": lambda text, part: text.startswith(part),
    "endswith": lambda text, part: text.endswith(part),
    "contains": lambda text, part: part in text,
}

# Strings compare as UTF-8 bytes, which is the order of their code points.
_TESTS: dict[str, Callable[..., bool]] = {
    "in": lambda text, *options: text in options,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

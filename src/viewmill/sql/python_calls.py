"""A call of a function of Spark that Python computes, once for equal arguments.

takes  Python code, typed arguments, the type of the result
gives  algebra UserCall; equal calls share one function, so that what it gave is known to all
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from viewmill.algebra.expressions import Expression, UserCall
from viewmill.algebra.types import Interval, Null, Type
from viewmill.algebra.user_functions import UserFunction, user_function
from viewmill.errors import Span
from viewmill.sql.not_modelled import NotModelled


def python_call(
    name: str,
    code: Callable[..., Any],
    arguments: tuple[Expression, ...],
    result: Type,
    span: Span | None,
    *,
    nulls: bool = False,
    of: object = None,
) -> UserCall:
    """A call; without `nulls` it is NULL if an argument is."""
    for each in arguments:
        if isinstance(each.type, Interval | Null):
            raise NotModelled(f"{name} of {each.type}", span)
    types = tuple(each.type for each in arguments)
    key = code if of is None else of
    made = _function(name, types, result, nulls, key, _Code(code))
    return UserCall(user_function(name), arguments, result, True, span, user=made)


class _Code:
    """A Python function that is not looked at when calls are compared: their keys say all."""

    def __init__(self, code: Callable[..., Any]) -> None:
        self.code = code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Code)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=4096)
def _function(
    name: str, types: tuple[Type, ...], result: Type, nulls: bool, of: object, code: _Code
) -> UserFunction:
    """One function for equal calls, so that what it gave is known to all of them."""
    plain = code.code

    def strict(*given: Any) -> Any:
        return None if any(each is None for each in given) else plain(*given)

    return UserFunction(name, plain if nulls else strict, result, "values", True, is_built_in=True)

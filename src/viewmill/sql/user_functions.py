"""Calls of the user's Python functions, typed.

takes  a UserFunction, lowered arguments
gives  algebra UserCall, or an error that underlines the call
"""

from __future__ import annotations

from viewmill.algebra.expressions import Expression, UserCall
from viewmill.algebra.types import STRING, Interval, Nested, Null
from viewmill.algebra.user_functions import UserFunction, user_function
from viewmill.errors import Span, TypeMismatch, UnsupportedQuery
from viewmill.sql.coercion import cast


def user_call(
    user: UserFunction, arguments: tuple[Expression, ...], span: Span | None, *, in_view: bool
) -> UserCall:
    """A call of a user's function; its arguments come as they are."""
    if in_view and not user.deterministic:
        raise UnsupportedQuery(
            f"{user.name} cannot be used in a view",
            detail="It has deterministic=False: its value changes although no row does.",
            hint="Put the value into a table and read it from there.",
            span=span,
        )
    refused = user.refused_count(len(arguments))
    if refused:
        raise TypeMismatch(refused, span=span)
    given = tuple(_taken(user, each, span) for each in arguments)
    return UserCall(user_function(user.name), given, user.result, True, span, user=user)


def _taken(user: UserFunction, argument: Expression, span: Span | None) -> Expression:
    if isinstance(argument.type, Interval | Nested):
        raise TypeMismatch(
            f"{user.name} cannot take a value of type {argument.type}",
            hint="Numbers, text, dates, moments and BOOLEAN can be passed.",
            span=argument.span or span,
        )
    return cast(argument, STRING) if isinstance(argument.type, Null) else argument

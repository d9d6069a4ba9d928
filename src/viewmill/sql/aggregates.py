"""The catalog of functions over groups and windows, typed as Spark 4 types them.

takes  a function's name in Spark's spelling, its typed arguments
gives  algebra `Aggregate` and `Over` expressions with every conversion explicit
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from viewmill.algebra.aggregates import DECLARED, AggregateFunction
from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import (
    Aggregate,
    Column,
    Expression,
    Frame,
    Literal,
    Over,
    SortKey,
    walk,
)
from viewmill.algebra.mixed_moments import FUNCTION as MIXED
from viewmill.algebra.mixed_moments import can_be_category, mixed_type
from viewmill.algebra.operation_calls import operation_call
from viewmill.algebra.operations import Operation
from viewmill.algebra.packed import cofactor_type, regression_type, ring_type
from viewmill.algebra.rings import Kind, RingCall, ring_call
from viewmill.algebra.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    Boolean,
    Date,
    Decimal,
    Integer,
    Interval,
    Nested,
    Null,
    String,
    Type,
    is_numeric,
)
from viewmill.algebra.window_functions import WINDOW_FUNCTIONS
from viewmill.errors import InvalidArgument, Span, TypeMismatch
from viewmill.sql import decimals, operators
from viewmill.sql.catalog import RegisteredRing
from viewmill.sql.coercion import cast, implicit
from viewmill.sql.functions import number
from viewmill.sql.not_modelled import NotModelled

Arguments = tuple[Expression, ...]
Typed = tuple[Arguments, Type, bool]  # converted arguments, type of the result, nullable

SYNONYMS = {
    "mean": "avg", "array_agg": "collect_list",
    **{synonym: each.name for each in DECLARED.values() for synonym in each.synonyms},
}  # fmt: skip


def _count(arguments: Arguments, what: str) -> Typed:
    # count(1) counts rows, as count(*) does.
    if len(arguments) == 1 and isinstance(arguments[0], Literal) and not arguments[0].nullable:
        arguments = ()
    return arguments, BIGINT, False


def _sum(arguments: Arguments, what: str) -> Typed:
    operand = number(arguments[0], what)
    match operand.type:
        case Integer():
            return (operand,), BIGINT, True
        case Decimal() as type_:
            return (operand,), decimals.sum_type(type_), True
        case _:
            return (cast(operand, DOUBLE),), DOUBLE, True


def _avg(arguments: Arguments, what: str) -> Typed:
    operand = number(arguments[0], what)
    match operand.type:
        case Integer():
            return (operand,), DOUBLE, True
        case Decimal() as type_:
            return (operand,), decimals.average_type(type_), True
        case _:
            return (cast(operand, DOUBLE),), DOUBLE, True


def _extreme(arguments: Arguments, what: str) -> Typed:
    type_ = arguments[0].type
    if isinstance(type_, Interval) or (isinstance(type_, Nested) and type_.name.startswith("MAP")):
        raise TypeMismatch(f"{what} cannot order {type_}", span=arguments[0].span)
    return arguments, type_, True


def _by(arguments: Arguments, what: str) -> Typed:
    return arguments, arguments[0].type, True


def _declared(function: AggregateFunction) -> Callable[[Arguments, str], Typed]:
    """The typer of a function that `algebra.aggregates` declares."""

    def typed(arguments: Arguments, what: str) -> Typed:
        pairs = zip(arguments, function.takes, strict=True)
        given = tuple(_CONVERSIONS[wanted](each, what) for each, wanted in pairs)
        return given, function.gives or given[0].type, function.nullable

    return typed


def _double(value: Expression, what: str) -> Expression:
    return implicit(value, DOUBLE, what)


def _whole(value: Expression, what: str) -> Expression:
    if isinstance(value.type, Null):
        value = cast(value, INT)
    if not isinstance(value.type, Integer):
        raise TypeMismatch(f"{what} takes whole numbers, got {value.type}", span=value.span)
    return value


_CONVERSIONS: dict[str, Callable[[Expression, str], Expression]] = {
    "double": _double, "whole": _whole, "boolean": operators.boolean,
}  # fmt: skip


def _cofactor(arguments: Arguments, what: str) -> Typed:
    return _columns(arguments, what), cofactor_type([*map(_bare_name, arguments)]), False


def _regression(arguments: Arguments, what: str) -> Typed:
    return _columns(arguments, what), regression_type([*map(_bare_name, arguments)]), True


def _columns(arguments: Arguments, what: str) -> Arguments:
    for each in arguments:
        if not is_numeric(each.type):
            raise TypeMismatch(
                f"{what} takes columns of numbers, got {each.type}",
                hint="A category is a GROUP BY column, or CASE WHEN c = 'red' THEN 1 ELSE 0 END; "
                "cofactor() takes strings as they are.",
                span=each.span,
            )
    return tuple(cast(each, DOUBLE) for each in arguments)


def mixed_cofactor(
    arguments: Arguments, marked: Sequence[bool], where: Expression | None, span: Span | None
) -> Aggregate:
    """cofactor() with categories: what is `marked`, and every column of strings, truth or dates."""
    numbers, categories = list[Expression](), list[Expression]()
    for each, is_marked in zip(arguments, marked, strict=True):
        if not is_marked and is_numeric(each.type):
            numbers.append(each)
        elif can_be_category(each.type):
            categories.append(each)
        else:
            raise TypeMismatch(
                f"a category of cofactor cannot be {each.type}",
                detail="It is a STRING, BOOLEAN, DATE or, written category(x), a whole number.",
                hint="CAST it to STRING.",
                span=each.span,
            )
    type_ = mixed_type(
        [*map(_bare_name, numbers)], [(_bare_name(each), each.type) for each in categories]
    )
    if where is not None:
        where = operators.boolean(where, "FILTER")
    converted = (*(cast(each, DOUBLE) for each in numbers), *categories)
    return Aggregate(MIXED, converted, type_, False, where=where, span=span)


def has_categories(arguments: Arguments, marked: Sequence[bool]) -> bool:
    """Whether a column of cofactor() is no number, or one that is marked as a category."""
    kinds = (String, Boolean, Date)
    return any(marked) or any(isinstance(each.type, kinds) for each in arguments)


def _bare_name(argument: Expression) -> str:
    if isinstance(argument, Column):
        return argument.name.split(".")[-1]
    return display_expression(argument)


def _list(arguments: Arguments, what: str) -> Typed:
    return arguments, Nested(f"ARRAY<{arguments[0].type}>"), False


def _percentile(arguments: Arguments, what: str) -> Typed:
    value, share, *rest = arguments
    if isinstance(share.type, Nested) or not isinstance(share, Literal) or len(rest) > 1:
        raise NotModelled(f"{what} of anything but one constant share", share.span)
    wanted = float(str(share.value)) if is_numeric(share.type) and share.value is not None else -1
    if not 0 <= wanted <= 1:
        hint = "0.5 is the median, 0.9 is above nine of ten values."
        place = share.span or value.span
        raise TypeMismatch(f"{what} takes a share from 0 to 1", hint=hint, span=place)
    down = rest[0] if rest else Literal(False, BOOLEAN)
    if isinstance(value.type, Interval):
        raise NotModelled(f"{what} of {value.type}", value.span)
    exact = Literal(wanted, DOUBLE, share.span)
    return (cast(number(value, what), DOUBLE), exact, down), DOUBLE, True


def _mode(arguments: Arguments, what: str) -> Typed:
    """The value and whether the largest is taken of those that are there most often."""
    down = arguments[1] if len(arguments) > 1 else Literal(False, BOOLEAN)
    if len(arguments) > 2 or not isinstance(down, Literal):
        raise NotModelled(f"{what} of {len(arguments)} arguments", arguments[0].span)
    return (_extreme(arguments[:1], what)[0][0], down), arguments[0].type, True


_TYPERS: dict[str, tuple[Callable[[Arguments, str], Typed], int]] = {
    "sum": (_sum, 1), "avg": (_avg, 1), "min": (_extreme, 1), "max": (_extreme, 1),
    "any_value": (_by, 1), "first": (_by, 1), "last": (_by, 1), "collect_list": (_list, 1),
    "max_by": (_by, 2), "min_by": (_by, 2),
    **{each.name: (_declared(each), len(each.takes)) for each in DECLARED.values()},
}  # fmt: skip
# Aggregates of any number of columns, with the least number.
_VARIADIC: dict[str, tuple[Callable[[Arguments, str], Typed], int]] = {
    "cofactor": (_cofactor, 1), "linear_regression": (_regression, 2),
    "percentile": (_percentile, 2), "percentile_disc": (_percentile, 2), "mode": (_mode, 1),
}  # fmt: skip
# Beside Spark's: rings, what is declared, and the names of MAX_BY and MIN_BY in the literature.
OWN_AGGREGATES = frozenset({"cofactor", "linear_regression", "arg_max", "arg_min", *DECLARED})
# The exact percentile, in its own type, is a valid answer to percentile_approx.
_APPROXIMATE = "percentile_approx"
# An exact count is a valid answer to approx_count_distinct.
_APPROXIMATE_COUNT = "approx_count_distinct"

# The distinct values of a list.
_SET = "collect_set"
# Their second argument says that NULLs are passed over.
_CHOSEN = ("first", "last", "any_value")

# NULL where the result is too large for its type.
_TRIED = {"try_sum": "sum", "try_avg": "avg"}

_OTHERS = ("count", "count_if", _APPROXIMATE, _APPROXIMATE_COUNT, _SET, *_TRIED)

_PERCENTILES = ("percentile", "percentile_disc")
_NOT_OVER = (*_PERCENTILES, "mode")

# Over a window these aggregates go by the names of window functions.
_OVER_NAMES = {"first": "first_value", "last": "last_value", "any_value": "first_value"}
# Over a group they are the aggregates.
GROUP_NAMES = {"first_value": "first", "last_value": "last"}

# What they answer does not depend on how often a row is there.
_UNMOVED = frozenset(
    {
        *("min", "max", "max_by", "min_by", "first", "last", "any_value"),
        *(each.name for each in DECLARED.values() if not each.counts_repeats),
    }
)


def canonical(name: str) -> str:
    """The one name of a function that has several."""
    return SYNONYMS.get(name.lower(), name.lower())


def is_aggregate(name: str) -> bool:
    """Whether the catalog has an aggregate of this name."""
    name = canonical(name)
    return name in _TYPERS or name in _VARIADIC or name in _OTHERS


def is_window_function(name: str) -> bool:
    """Whether `name` needs OVER."""
    return name in WINDOW_FUNCTIONS


def function_names() -> Iterable[str]:
    """Every aggregate and window function the catalog knows."""
    return {*_TYPERS, *_VARIADIC, *SYNONYMS, *_OTHERS, "median", *WINDOW_FUNCTIONS}


def require_arguments(name: str, written: Sequence[object], span: Span | None) -> None:
    """Refuse count() and count(DISTINCT), of which Spark has neither."""
    if name == "count" and not written:
        raise TypeMismatch("count takes * or at least one argument", span=span)


def aggregate(
    name: str,
    arguments: Arguments,
    *,
    distinct: bool = False,
    where: Expression | None = None,
    span: Span | None = None,
) -> Expression:
    """The aggregate function `name` over a group's rows."""
    name = canonical(name)
    name = GROUP_NAMES.get(name, name)
    if name == _APPROXIMATE_COUNT and 1 <= len(arguments) <= 2:
        return call("count", arguments[:1], distinct=True, where=where, span=span)
    if name == _SET and len(arguments) == 1:
        return call("collect_list", arguments, distinct=True, where=where, span=span)
    if name in _CHOSEN and len(arguments) == 2:
        return _ignoring_nulls(name, arguments, distinct=distinct, where=where, span=span)
    if name in _TRIED:
        given = _tried_arguments(name, arguments, span)
        made = call(_TRIED[name], given, distinct=distinct, where=where, span=span)
        return _if_it_fits(made, arguments)
    if name == _APPROXIMATE:
        if not arguments or not is_numeric(arguments[0].type):
            raise NotModelled(f"{name} of anything but numbers", span)
        exact = call("percentile_disc", arguments[:2], distinct=distinct, where=where, span=span)
        return cast(exact, arguments[0].type)
    return call(name, arguments, distinct=distinct, where=where, span=span)


def _tried_arguments(name: str, arguments: Arguments, span: Span | None) -> Arguments:
    """What try_sum or try_avg adds up: nothing that fails on the way."""
    if len(arguments) != 1:
        raise TypeMismatch(f"{name} takes 1 arguments, got {len(arguments)}", span=span)
    match arguments[0].type:
        case Integer(bits=64) if name == "try_sum":
            return (cast(arguments[0], Decimal(19, 0)),)
        case Decimal(precision=digits) if digits > 28:
            raise NotModelled(f"{name} of more than 28 digits", span)
        case _:
            return arguments


def _if_it_fits(total: Expression, arguments: Arguments) -> Expression:
    """The total as it is; of BIGINTs, which were added as decimals, as a BIGINT or NULL."""
    if not (isinstance(total.type, Decimal) and isinstance(arguments[0].type, Integer)):
        return total
    low, high = (Literal(each, BIGINT) for each in (BIGINT.low, BIGINT.high))
    fits = operators.conjunction(
        [operators.compare(">=", total, low, None), operators.compare("<=", total, high, None)]
    )
    assert fits is not None
    return operators.choose([(fits, cast(total, BIGINT))], None, total.span)


def _ignoring_nulls(
    name: str,
    arguments: Arguments,
    *,
    distinct: bool,
    where: Expression | None,
    span: Span | None,
) -> Expression:
    """first(x, true) is the first of those that are not NULL."""
    value, ignore = arguments
    if not isinstance(ignore, Literal) or not isinstance(ignore.value, bool):
        raise TypeMismatch(f"{name} takes TRUE or FALSE as its second argument", span=ignore.span)
    conditions = [] if where is None else [operators.boolean(where, "FILTER")]
    if ignore.value:
        conditions.append(operators.negation(operators.is_null(value, span), span))
    met = operators.conjunction(conditions)
    return call(name, (value,), distinct=distinct, where=met, span=span)


def call(
    name: str,
    arguments: Arguments,
    *,
    distinct: bool = False,
    where: Expression | None = None,
    span: Span | None = None,
) -> Aggregate:
    """The aggregate function of this one name."""
    if name == "count_if":
        if len(arguments) != 1:
            raise TypeMismatch(f"{name} takes 1 arguments, got {len(arguments)}", span=span)
        condition = operators.boolean(arguments[0], "count_if")
        both = operators.conjunction([each for each in (where, condition) if each is not None])
        return Aggregate("count", (), BIGINT, False, False, both, span)
    if distinct and name in _NOT_OVER:
        raise NotModelled(f"{name} with DISTINCT", span)
    if distinct and name in _VARIADIC:
        raise TypeMismatch(f"{name} counts every row: DISTINCT has no place in it", span=span)
    converted, type_, nullable = _typed(name, arguments, span)
    if where is not None:
        where = operators.boolean(where, "FILTER")
    # Repeats do not matter to these, so DISTINCT is dropped here once and for all.
    distinct = distinct and name not in _UNMOVED
    if distinct and name == "count":
        converted = arguments  # count(DISTINCT 1) is 1 at most
    return Aggregate(name, converted, type_, nullable, distinct, where, span)


def ring_aggregate(
    call_ring: RegisteredRing,
    arguments: Arguments,
    *,
    distinct: bool = False,
    where: Expression | None = None,
    span: Span | None = None,
) -> Aggregate:
    """The aggregate of a ring that a user registered."""
    name = call_ring.name
    if distinct:
        raise TypeMismatch(f"{name} counts every row: DISTINCT has no place in it", span=span)
    converted: list[Expression] = []
    for each in arguments:
        if not is_numeric(each.type):
            raise TypeMismatch(f"{name} takes columns of numbers, got {each.type}", span=each.span)
        wanted = BIGINT if isinstance(each.type, Integer) else DOUBLE
        converted.append(each if each.type == wanted else cast(each, wanted))
    kinds: list[Kind] = ["int" if each.type == BIGINT else "float" for each in converted]
    try:
        if isinstance(call_ring.ring, Operation):
            made: RingCall = operation_call(name, call_ring.ring, kinds)
        else:
            made = ring_call(name, call_ring.ring, kinds, commutes=call_ring.commutes)
    except InvalidArgument as why:
        raise TypeMismatch(why.message, hint=why.hint, span=span) from None
    if where is not None:
        where = operators.boolean(where, "FILTER")
    return Aggregate(name, tuple(converted), ring_type(made), False, False, where, span)


def _typed(name: str, arguments: Arguments, span: Span | None) -> Typed:
    if name == "count":
        return _count(arguments, name)
    if name in _VARIADIC:
        typer, least = _VARIADIC[name]
        if len(arguments) < least:
            more = "a label and at least one column" if least == 2 else "at least one column"
            raise TypeMismatch(f"{name} takes {more}", span=span)
        if name in _PERCENTILES and len(arguments) > 3:
            raise NotModelled(f"{name} of {len(arguments)} arguments", span)
        return typer(arguments, name)
    typer, count = _TYPERS[name]
    if len(arguments) != count:
        raise TypeMismatch(f"{name} takes {count} arguments, got {len(arguments)}", span=span)
    return typer(arguments, name)


def over(
    name: str,
    arguments: Arguments,
    partition: Arguments,
    order: tuple[SortKey, ...],
    frame: Frame | None,
    *,
    ignore_nulls: bool = False,
    span: Span | None = None,
) -> Expression:
    """The function `name` over a window."""
    name = canonical(name)
    if name in _TRIED:
        given = _tried_arguments(name, arguments, span)
        made_over = over(_TRIED[name], given, partition, order, frame, span=span)
        return _if_it_fits(made_over, arguments)
    if name in (*_NOT_OVER, _APPROXIMATE, _APPROXIMATE_COUNT):
        raise NotModelled(f"the function {name} over a window", span)
    if name in _VARIADIC:
        raise TypeMismatch(f"{name} has no OVER: it is an aggregate of groups", span=span)
    if is_aggregate(name):
        made = call(name, arguments, span=span)
        arguments, type_, nullable = made.arguments, made.type, made.nullable
        if made.where is not None:  # count_if
            one = operators.choose([(made.where, Literal(1, INT))], None, span)
            arguments = (one,)
        name = made.function
    else:
        arguments, type_, nullable = _window_typed(name, arguments, span)
        if not order and not WINDOW_FUNCTIONS[name].takes_frame:
            raise TypeMismatch(f"{name} needs ORDER BY in its OVER clause", span=span)
    name = _OVER_NAMES.get(name, name)
    return Over(name, arguments, partition, order, frame, type_, nullable, ignore_nulls, span)


def _window_typed(name: str, arguments: Arguments, span: Span | None) -> Typed:
    function = WINDOW_FUNCTIONS[name]
    if function.type is not None:
        wanted = function.arguments
        if len(arguments) != wanted:
            raise TypeMismatch(f"{name} takes {wanted} arguments, got {len(arguments)}", span=span)
        for each in arguments:
            _require_whole(name, each, 1, span)
        return arguments, function.type, False
    value, *rest = arguments
    if name in ("lag", "lead"):
        return _shifted(name, value, rest)
    if name == "nth_value":
        _require_whole(name, rest[0] if rest else Literal(None, INT), 1, span)
    return arguments, value.type, True


def _require_whole(name: str, argument: Expression, least: int, span: Span | None) -> None:
    """Refuse what is no constant number; what only the engine folds is left to it."""
    has_columns = any(isinstance(each, Column) for each in walk(argument))
    is_wrong = isinstance(argument, Literal) and not (
        isinstance(argument.value, int) and argument.value >= least
    )
    if has_columns or is_wrong:
        limit = "" if least < 0 else f" from {least}"
        place = argument.span or span
        raise TypeMismatch(f"{name} takes a constant whole number{limit}", span=place)


def _shifted(name: str, value: Expression, rest: list[Expression]) -> Typed:
    offset = rest[0] if rest else Literal(1, INT)
    _require_whole(name, offset, -(2**31), value.span)
    arguments: Arguments = (value, offset)
    if len(rest) > 1:
        default = implicit(rest[1], value.type, "the default")
        return (*arguments, default), value.type, value.nullable or default.nullable
    return arguments, value.type, True

"""Functions of numbers, truth and order as trigger source: how each is written.

takes  the words of a call's arguments, none of which is NULL
gives  the text that computes it; what may fail is a checked operation
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from viewmill.algebra.expressions import Call, Expression, Literal
from viewmill.algebra.types import Float, Integer, Nested, String, Type, has_equal_words
from viewmill.codegen.shape import NotTaken

if TYPE_CHECKING:
    from viewmill.codegen.scalar import Scalar

Write = Callable[["Scalar", Expression, list[str]], str]


def _arguments(expression: Expression) -> tuple[Expression, ...]:
    assert isinstance(expression, Call)
    return expression.arguments


def overflow(scalar: Scalar, expression: Expression) -> str:
    return scalar.failure(expression, "Overflow", f"the result does not fit {expression.type}")


def bounds_of(type_: Type) -> str:
    assert isinstance(type_, Integer)
    return f"{type_.low}, {type_.high}"


def _additive(function: str) -> Write:
    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        types = [argument.type for argument in _arguments(expression)]
        match expression.type:
            case Float():
                _only(types, Float, expression)
                return f"{values[0]} {'+' if function == 'add' else '-'} {values[1]}"
            case Integer():
                _only(types, Integer, expression)
            case _:
                raise NotTaken(f"{function} on {expression.type}", expression.span)
        why, bounds = overflow(scalar, expression), bounds_of(expression.type)
        return f"{function}_checked({why}, {values[0]}, {values[1]}, {bounds})"

    return write


def _only(types: list[Type], kinds: object, expression: Expression) -> None:
    if expression.type == Float(32):
        raise NotTaken("FLOAT arithmetic is not maintained incrementally yet", expression.span)
    if not all(isinstance(each, kinds) for each in types):  # type: ignore[arg-type]
        shown = ", ".join(map(str, types))
        raise NotTaken(f"arithmetic between {shown}", expression.span)


def _minus(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    if len(values) == 2:
        return _additive("sub")(scalar, expression, values)
    if isinstance(expression.type, Float):
        return f"-{values[0]}"
    why, bounds = overflow(scalar, expression), bounds_of(expression.type)
    return f"sub_checked({why}, 0, {values[0]}, {bounds})"


def _multiply(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    types = [argument.type for argument in _arguments(expression)]
    a, b = values
    match expression.type:
        case Float():
            _only(types, Float, expression)
            return f"{a} * {b}"
        case Integer():
            _only(types, Integer, expression)
            why, bounds = overflow(scalar, expression), bounds_of(expression.type)
            return f"mul_checked({why}, {a}, {b}, {bounds})"
        case _:
            raise NotTaken(f"multiplying {expression.type}", expression.span)


def _divide(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    types = [argument.type for argument in _arguments(expression)]
    a, b = values
    zero = scalar.failure(expression, "EvaluationFailed", "division by zero or overflow")
    match expression.type:
        case Float():
            _only(types, Float, expression)
            return f"div_float({zero}, {a}, {b})"
        case _:
            raise NotTaken(f"dividing {expression.type}", expression.span)


def _whole(function: str) -> Write:
    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        types = [argument.type for argument in _arguments(expression)]
        zero = scalar.failure(expression, "EvaluationFailed", "division by zero")
        if isinstance(expression.type, Float) and function == "mod":
            _only(types, Float, expression)
            return f"mod_float({zero}, {values[0]}, {values[1]})"
        _only(types, Integer, expression)
        return f"{function}_int({zero}, {values[0]}, {values[1]})"

    return write


_FLIPPED = {"<": "float_lt({a}, {b})", ">": "float_lt({b}, {a})", "<=": "not float_lt({b}, {a})",
            ">=": "not float_lt({a}, {b})", "==": "float_eq({a}, {b})",
            "!=": "not float_eq({a}, {b})"}  # fmt: skip


def comparison(operator: str) -> Write:
    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        a, b = values
        left, right = (argument.type for argument in _arguments(expression))
        if isinstance(left, Float) and isinstance(right, Float):
            return "(" + _FLIPPED[operator].format(a=a, b=b) + ")"
        if isinstance(left, String) and operator not in ("==", "!="):
            first, second = (b, a) if operator in (">", "<=") else (a, b)
            less = f"text_less(texts, {scalar.source.every_text()}, {first}, {second})"
            return f"({less})" if operator in ("<", ">") else f"(not {less})"
        is_nested = isinstance(left, Nested)
        is_equality = left == right and has_equal_words(left) and operator in ("==", "!=")
        if type(left) is not type(right) or (is_nested and not is_equality):
            raise NotTaken(f"comparing {left} with {right}", expression.span)
        return f"({a} {operator} {b})"

    return write


def _not(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return f"not {values[0]}"


def _absolute(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    if isinstance(expression.type, Float):
        return f"abs({values[0]})"
    why, bounds = overflow(scalar, expression), bounds_of(expression.type)
    return f"({values[0]} if {values[0]} >= 0 else sub_checked({why}, 0, {values[0]}, {bounds}))"


def _is_nan(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return f"is_nan({values[0]})"


def _same_word(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    """A time is held as its microseconds."""
    return values[0]


def _positive_rest(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    """pmod by a positive constant, as used to compute the start of a window."""
    divisor = _arguments(expression)[1]
    value = divisor.value if isinstance(divisor, Literal) else None
    if not isinstance(expression.type, Integer) or not isinstance(value, int) or value <= 0:
        raise NotTaken("pmod is incremental by a positive constant only", expression.span)
    return f"({values[0]} % {values[1]})"


def _real(function: str) -> Write:
    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        return f"{function}({', '.join(values)})"

    return write


def _rounded(up: bool) -> Write:
    """floor and ceil of a float."""

    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        source = _arguments(expression)[0].type
        if isinstance(source, Float):
            why, bounds = overflow(scalar, expression), bounds_of(expression.type)
            return f"float_to_int({why}, real_{'ceil' if up else 'floor'}({values[0]}), {bounds})"
        raise NotTaken(f"rounding {source}", expression.span)

    return write


def _bits(operator: str) -> Write:
    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        if not isinstance(expression.type, Integer):
            raise NotTaken(f"{operator} on {expression.type}", expression.span)
        return f"({f' {operator} '.join(values)})" if len(values) > 1 else f"(~{values[0]})"

    return write


LOGARITHMS = {"ln": "real_log", "log10": "real_log10", "log2": "real_log2"}


def _only_row(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    several = scalar.failure(expression, "EvaluationFailed", "the subquery has more than one row")
    return f"only_row({several}, {values[0]}, {values[1]})"


STRICT: dict[str, Write] = {
    "only_row": _only_row, "floor": _rounded(up=False), "ceil": _rounded(up=True),
    "sqrt": _real("real_sqrt"), "exp": _real("real_exp"), "pow": _real("real_pow"),
    "sign": _real("real_sign"), "&": _bits("&"), "|": _bits("|"), "^": _bits("^"),
    "~": _bits("~"),
    "+": _additive("add"), "-": _minus, "*": _multiply, "/": _divide, "div": _whole("div"),
    "%": _whole("mod"), "not": _not,
    "abs": _absolute, "isnan": _is_nan, "pmod": _positive_rest,
    "unix_micros": _same_word, "timestamp_micros": _same_word,
}  # fmt: skip

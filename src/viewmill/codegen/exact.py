"""Exact numbers, DECIMAL and integers, as trigger source: in one word where that surely holds them,
else in two.

takes  numbers: the text of each, its scale, and how large it can be
gives  the number that an operation makes, rounded half up and checked as its SQL type says

How large a number can be follows from the types of columns and from constants. A result that may
leave 64 bits is computed in 128 (`wide_` functions), which hold every DECIMAL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewmill.algebra.expressions import Aggregate, Call, Cast, Expression, Over
from viewmill.algebra.types import Decimal, Float, Integer, Type, Wide
from viewmill.codegen.shape import NotTaken

if TYPE_CHECKING:
    from viewmill.codegen.scalar import Operand, Scalar

WORD = (1 << 63) - 1  # the largest number in one word
PAIR = (1 << 127) - 1  # in two
_OWN = (1 << 62) - 1  # a number up to here is its own word in a column of wide decimals
_MOST_DIGITS = 38
_TRUNCATED, _HALF_UP, _FLOOR, _CEILING = range(4)


@dataclass(frozen=True)
class Number:
    """A number under way: `text` times 10^-scale. `bound` is the largest that `text` can be."""

    text: str
    scale: int
    bound: int
    is_wide: bool = False

    @property
    def pair(self) -> str:
        """The generated text of the number as two words."""
        return self.text if self.is_wide else f"wide_of({self.text})"


def is_exact(type_: Type) -> bool:
    """Whether values are DECIMAL or integers."""
    return isinstance(type_, Integer | Decimal)


def scale_of(type_: Type) -> int:
    """Digits behind the point."""
    return type_.scale if isinstance(type_, Decimal | Wide) else 0


def limit_of(type_: Decimal | Wide) -> int:
    """The largest value of a type, without its point."""
    return int(10**type_.precision - 1)


def number_of(operand: Operand, type_: Type) -> Number:
    """What an operand of a type holds."""
    if isinstance(type_, Integer):
        bound = -type_.low
    else:
        assert isinstance(type_, Decimal)
        bound = limit_of(type_) if operand.is_wide else min(limit_of(type_), WORD)
    if operand.bound is not None:
        bound = min(bound, operand.bound)
    return Number(operand.value, scale_of(type_), bound, operand.is_wide)


def constant(value: int) -> str:
    """A whole number as two words."""
    if abs(value) <= WORD:
        return f"wide_of({value})"
    low = value % (1 << 64)
    return f"wide_from({low - (1 << 64) if low > WORD else low}, {value >> 64})"


def rescaled(x: Number, scale: int, why: str, expression: Expression) -> Number:
    """The number rounded half up, or scaled up, to `scale` digits behind the point."""
    if scale == x.scale:
        return x
    if scale > x.scale:
        return _scaled_up(x, scale, why, expression)
    unit, bound = 10 ** (x.scale - scale), x.bound // 10 ** (x.scale - scale) + 1
    if x.is_wide or unit > WORD:
        text = f"wide_ratio_of({why}, {x.pair}, wide_of(1), {constant(unit)}, {_HALF_UP})"
        return Number(text, scale, bound, True)
    return Number(f"scale_down_half_up({x.text}, {unit})", scale, bound)


def _scaled_up(x: Number, scale: int, why: str, expression: Expression) -> Number:
    digits = scale - x.scale
    if digits > _MOST_DIGITS:
        raise NotTaken("a decimal of more digits than 128 bits hold", expression.span)
    factor = 10**digits
    bound = x.bound * factor
    if bound <= WORD:
        return Number(f"({x.text} * {factor})", scale, bound)
    if bound > PAIR:
        text = f"wide_ratio_of({why}, {x.pair}, {constant(factor)}, wide_of(1), {_TRUNCATED})"
        return Number(text, scale, PAIR, True)
    return Number(_product(x, _factor(factor)), scale, bound, True)


def _factor(value: int) -> Number:
    """A constant, in two words if one does not hold it."""
    if value <= WORD:
        return Number(str(value), 0, value)
    return Number(constant(value), 0, value, True)


def _product(x: Number, y: Number) -> str:
    """The text of a product that fits two words."""
    if y.is_wide and not x.is_wide:
        x, y = y, x
    if not x.is_wide:
        return f"wide_product({x.text}, {y.text})"
    if not y.is_wide:
        return f"wide_times({x.text}, {y.text})"
    return f"wide_mul({x.text}, {y.text})"


def fitted(x: Number, type_: Decimal | Wide, why: str) -> Number:
    """A number that is a value of its type, or fails; of up to 18 digits it is one word."""
    limit = limit_of(type_)
    if limit <= WORD:
        if x.is_wide:
            text = f"wide_narrow({why}, {x.text}, {-limit}, {limit})"
        elif x.bound > limit:
            text = f"add_checked({why}, {x.text}, 0, {-limit}, {limit})"
        else:
            return x
        return Number(text, x.scale, limit)
    if x.bound <= limit:
        return x
    return Number(f"wide_within({why}, {x.pair}, {constant(limit)})", x.scale, limit, True)


def hybrid_word(x: Number) -> str:
    """The word of a column of wide decimals."""
    if not x.is_wide and x.bound <= _OWN:
        return x.text
    return f"wide_word(texts, {x.pair})"


# Arithmetic.


def _why(scalar: Scalar, expression: Expression) -> str:
    return scalar.failure(expression, "Overflow", f"the result does not fit {expression.type}")


def _sum(scalar: Scalar, call: Call, x: Number, y: Number) -> Number:
    why, scale = _why(scalar, call), max(x.scale, y.scale)
    bound = sum(each.bound * 10 ** (scale - each.scale) for each in (x, y))
    if bound > PAIR:
        return _long_sum(call, x, y, why)
    x, y = (rescaled(each, scale, why, call) for each in (x, y))
    if bound <= WORD and not x.is_wide and not y.is_wide:
        return Number(f"({x.text} {call.function} {y.text})", scale, bound)
    name = "wide_plus" if call.function == "+" else "wide_minus"
    return Number(f"{name}({x.pair}, {y.pair})", scale, bound, True)


def _long_sum(call: Call, x: Number, y: Number, why: str) -> Number:
    """A sum of which only the digits that its type keeps fit two words."""
    scale, digits = scale_of(call.type), abs(x.scale - y.scale)
    if digits > _MOST_DIGITS:
        raise NotTaken("a decimal of more digits than 128 bits hold", call.span)
    first, second = x.pair, y.pair if call.function == "+" else f"wide_negate({y.pair})"
    if x.scale > y.scale:
        first, second = second, first
    factor, unit = constant(10**digits), constant(10 ** (max(x.scale, y.scale) - scale))
    return Number(f"wide_sum_of({why}, {first}, {factor}, {second}, {unit})", scale, PAIR, True)


def _times(scalar: Scalar, call: Call, x: Number, y: Number) -> Number:
    why, scale, bound = _why(scalar, call), x.scale + y.scale, x.bound * y.bound
    if bound <= WORD and not x.is_wide and not y.is_wide:
        return Number(f"({x.text} * {y.text})", scale, bound)
    if bound <= PAIR:
        return Number(_product(x, y), scale, bound, True)
    lost = scale - scale_of(call.type)
    if lost > _MOST_DIGITS:
        raise NotTaken("a decimal of more digits than 128 bits hold", call.span)
    unit = constant(10**lost)
    text = f"wide_ratio_of({why}, {x.pair}, {y.pair}, {unit}, {_HALF_UP})"
    return Number(text, scale - lost, min(bound // 10**lost + 1, PAIR), True)


def _quotient(scalar: Scalar, call: Call, x: Number, y: Number) -> Number:
    assert isinstance(call.type, Decimal)
    why = scalar.failure(call, "EvaluationFailed", "division by zero or overflow")
    scale = call.type.scale
    digits = scale + y.scale - x.scale
    if digits < 0:
        y, digits = rescaled(y, y.scale - digits, why, call), 0
    if digits > _MOST_DIGITS:
        raise NotTaken("a quotient of more digits than 128 bits hold", call.span)
    factor = 10**digits
    bound = min(x.bound * factor, PAIR)
    if limit_of(call.type) <= WORD and factor <= WORD and not x.is_wide and not y.is_wide:
        text = f"div_decimal({why}, {x.text}, {y.text}, {factor})"
        return Number(text, scale, min(bound, WORD))
    text = f"wide_ratio_of({why}, {x.pair}, {constant(factor)}, {y.pair}, {_HALF_UP})"
    return Number(text, scale, bound, True)


def _rest(scalar: Scalar, call: Call, x: Number, y: Number) -> Number:
    why = scalar.failure(call, "EvaluationFailed", "division by zero")
    scale = max(x.scale, y.scale)
    factors = [10 ** (scale - each.scale) for each in (x, y)]
    bounds = [each.bound * factor for each, factor in zip((x, y), factors, strict=True)]
    if max(bounds) <= WORD and not x.is_wide and not y.is_wide:
        x, y = (rescaled(each, scale, why, call) for each in (x, y))
        return Number(f"mod_int({why}, {x.text}, {y.text})", scale, min(bounds))
    first, second = map(constant, factors)
    text = f"wide_rest_of({why}, {x.pair}, {first}, {y.pair}, {second})"
    return Number(text, scale, min(*bounds, PAIR), True)


def _opposite(scalar: Scalar, call: Call, x: Number) -> Number:
    text = f"wide_negate({x.text})" if x.is_wide else f"(-{x.text})"
    return Number(text, x.scale, x.bound, x.is_wide)


def _absolute(scalar: Scalar, call: Call, x: Number) -> Number:
    text = f"wide_absolute({x.text})" if x.is_wide else f"abs({x.text})"
    return Number(text, x.scale, x.bound, x.is_wide)


def _rounded(rounding: int) -> Callable[[Scalar, Call, Number], Number]:
    def write(scalar: Scalar, call: Call, x: Number) -> Number:
        unit, bound = 10**x.scale, x.bound // 10**x.scale + 1
        if x.is_wide or unit > WORD:
            why = _why(scalar, call)
            text = f"wide_ratio_of({why}, {x.pair}, wide_of(1), {constant(unit)}, {rounding})"
            return Number(text, 0, bound, True)
        up = rounding == _CEILING
        return Number(f"(-(-{x.text} // {unit}))" if up else f"({x.text} // {unit})", 0, bound)

    return write


_OPERATIONS: dict[tuple[str, int], Callable[..., Number]] = {
    ("+", 2): _sum, ("-", 2): _sum, ("*", 2): _times, ("/", 2): _quotient, ("%", 2): _rest,
    ("-", 1): _opposite, ("abs", 1): _absolute, ("floor", 1): _rounded(_FLOOR),
    ("ceil", 1): _rounded(_CEILING),
}  # fmt: skip


def takes(call: Call) -> bool:
    """Whether a call is arithmetic of DECIMALs."""
    if (
        not isinstance(call.type, Decimal)
        or (call.function, len(call.arguments)) not in _OPERATIONS
    ):
        return False
    return all(is_exact(each.type) for each in call.arguments)


def computed(scalar: Scalar, call: Call, operands: list[Operand]) -> Number:
    """Write a call: its result as a value of its type."""
    assert isinstance(call.type, Decimal)
    numbers = [number_of(x, a.type) for x, a in zip(operands, call.arguments, strict=True)]
    why = _why(scalar, call)
    made = _OPERATIONS[call.function, len(numbers)](scalar, call, *numbers)
    return fitted(rescaled(made, call.type.scale, why, call), call.type, why)


# Comparisons.


def compares(call: Call) -> bool:
    """Whether a comparison is one of exact numbers, at least one of them a DECIMAL."""
    types = [each.type for each in call.arguments]
    return all(map(is_exact, types)) and any(isinstance(each, Decimal) for each in types)


def comparison(scalar: Scalar, call: Call, operator: str, operands: list[Operand]) -> str:
    """The text of a comparison of exact numbers."""
    x, y = (number_of(o, a.type) for o, a in zip(operands, call.arguments, strict=True))
    why, scale = _why(scalar, call), max(x.scale, y.scale)
    x, y = (rescaled(each, scale, why, call) for each in (x, y))
    if x.is_wide or y.is_wide:
        return f"(wide_compare({x.pair}, {y.pair}) {operator} 0)"
    return f"({x.text} {operator} {y.text})"


# Aggregates.


def finished(scalar: Scalar, call: Aggregate | Over, total: Number, count: str) -> str:
    """The text of the word that SUM or AVG shows, of the exact sum of `count` values."""
    why, target = _why(scalar, call), call.type
    if isinstance(target, Integer):
        return f"wide_narrow({why}, {total.pair}, {target.low}, {target.high})"
    assert isinstance(target, Decimal | Wide)
    if call.function == "avg":
        factor = constant(10 ** (target.scale - total.scale))
        text = f"wide_ratio_of({why}, {total.pair}, {factor}, wide_of({count}), {_HALF_UP})"
        total = Number(text, target.scale, PAIR, True)
    made = fitted(total, target, why)
    if isinstance(target, Wide):
        return hybrid_word(made)
    if not made.is_wide:
        return made.text
    why = scalar.failure(call, "Outgrown", "the result is wider than 64 bits")
    return f"wide_narrow({why}, {made.text}, {-WORD}, {WORD})"


# Casts.


def casts(cast: Cast) -> bool:
    """Whether a cast is from or to a DECIMAL, and of numbers."""
    source, target = cast.input.type, cast.type
    if isinstance(source, Wide):
        return isinstance(target, Wide | Decimal)
    if isinstance(target, Wide | Decimal):
        return is_exact(source)
    return isinstance(source, Decimal) and isinstance(target, Integer | Float)


def converted(scalar: Scalar, cast: Cast, operand: Operand) -> Number:
    """Write a cast; one to a float or an integer gives a number without a scale."""
    why, target = _why(scalar, cast), cast.type
    x = _read(operand, cast.input.type)
    match target:
        case Decimal():
            return fitted(rescaled(x, target.scale, why, cast), target, why)
        case Wide():
            made = fitted(rescaled(x, target.scale, why, cast), target, why)
            return Number(hybrid_word(made), target.scale, WORD)
        case Integer():
            return _whole(x, target, why)
        case Float():
            return Number(_real(x, cast), 0, WORD)
        case _:
            raise AssertionError(cast)


def _read(operand: Operand, type_: Type) -> Number:
    if isinstance(type_, Wide):
        text = f"wide_number(texts, {operand.value})"
        return Number(text, type_.scale, limit_of(type_), True)
    return number_of(operand, type_)


def _whole(x: Number, target: Integer, why: str) -> Number:
    unit = 10**x.scale
    if x.is_wide or unit > WORD:
        text = f"wide_ratio_of({why}, {x.pair}, wide_of(1), {constant(unit)}, {_TRUNCATED})"
        return Number(f"wide_narrow({why}, {text}, {target.low}, {target.high})", 0, -target.low)
    text = f"div_int({why}, {x.text}, {unit})" if x.scale else x.text
    if x.bound // unit > target.high:
        text = f"add_checked({why}, {text}, 0, {target.low}, {target.high})"
    return Number(text, 0, -target.low)


def _real(x: Number, cast: Cast) -> str:
    if cast.type != Float(64):
        raise NotTaken("a cast to FLOAT is not maintained incrementally yet", cast.span)
    text = f"wide_to_real({x.text})" if x.is_wide else x.text
    return f"({text} / {float(10**x.scale)!r})"

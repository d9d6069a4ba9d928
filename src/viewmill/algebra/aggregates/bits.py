"""BIT_OR, BIT_AND, BIT_XOR: how many values have a bit set, for each bit of the type.

A bit is in BIT_OR if some value has it, in BIT_AND if all have it, in BIT_XOR if an odd number has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewmill.algebra.aggregates.declaration import AggregateFunction, Linear
from viewmill.algebra.aggregates.parts import compared, count_where, counted, if_any
from viewmill.algebra.expressions import Aggregate, Call, Case, Expression, Literal
from viewmill.algebra.types import BIGINT, Integer

# Whether a bit is set, of how many values have it and how many values there are.
Test = Callable[[Expression, Expression], Expression]


def _in_some(having: Expression, values: Expression) -> Expression:
    return compared(">", having, Literal(0, BIGINT))


def _in_all(having: Expression, values: Expression) -> Expression:
    return compared("=", having, values)


def _in_odd(having: Expression, values: Expression) -> Expression:
    odd = Call("&", (having, Literal(1, BIGINT)), BIGINT, having.nullable)
    return compared("=", odd, Literal(1, BIGINT))


def _linear(test: Test) -> Callable[[Aggregate], Linear]:
    def parts(call: Aggregate) -> Linear:
        (value,), type_ = call.arguments, call.arguments[0].type
        assert isinstance(type_, Integer)
        masks = [*(1 << i for i in range(type_.bits - 1)), type_.low]
        bits = [count_where(call, _has(value, each)) for each in masks]

        def finish(counts: Sequence[Expression]) -> Expression:
            values, *having = counts
            pairs = zip(having, masks, strict=True)
            found = [_bit(test(n, values), mask, type_) for n, mask in pairs]
            return if_any(values, _united(found, type_))

        return Linear((counted(call), *bits), finish)

    return parts


def _has(value: Expression, mask: int) -> Expression:
    """Whether a value has the bit of a mask; the mask of the sign is the smallest number."""
    zero = Literal(0, value.type)
    if mask < 0:
        return compared("<", value, zero)
    common = Call("&", (value, Literal(mask, value.type)), value.type, value.nullable)
    return compared("<>", common, zero)


def _bit(test: Expression, mask: int, type_: Integer) -> Expression:
    return Case(((test, Literal(mask, type_)),), Literal(0, type_), type_, nullable=False)


def _united(bits: Sequence[Expression], type_: Integer) -> Expression:
    """Halved again and again, so that the expression is not as deep as it has bits."""
    if len(bits) == 1:
        return bits[0]
    middle = len(bits) // 2
    halves = _united(bits[:middle], type_), _united(bits[middle:], type_)
    return Call("|", halves, type_, nullable=False)


AGGREGATES = (
    AggregateFunction(
        "bit_or", ("whole",), counts_repeats=False, linear=_linear(_in_some), combine="{a} | {b}"
    ),
    AggregateFunction(
        "bit_and", ("whole",), counts_repeats=False, linear=_linear(_in_all), combine="{a} & {b}"
    ),
    AggregateFunction(
        "bit_xor", ("whole",), linear=_linear(_in_odd), combine="{a} ^ {b}", inverse="{a} ^ {b}"
    ),
)

"""The arithmetic of numbers as source text: what a slot holds, how values multiply and are added.

int    exact, 64 bits: row counts of one table, sums of columns of at most 32 bits
wide   exact, modulo 2^128: everything else that is exact. A result that fits is right whatever
       passed on the way, and one that does not is seen at the end; where that may be more than 128
       bits hold, by a float sum of the same
sum    an exact sum of floats (see kernels.structures.exact_sums): under way the address of one
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal as OneOf

from viewmill.algebra.types import Boolean, Date, Decimal, Integer, Type
from viewmill.codegen.source import Source
from viewmill.program.states import EXACT_ROOM, Slot
from viewmill.strategies.view_tree.polynomials import Factor
from viewmill.strategies.view_tree.rings.ring import SlotRef

Kind = OneOf["int", "wide", "sum"]


@dataclass(frozen=True)
class Value:
    """Source text of a payload component."""

    text: str
    kind: Kind


def leaf_kind(factor: Factor) -> Kind:
    """How the sum of a factor over the rows of one table is kept."""
    if factor.is_float:
        return "sum"
    if not factor.values:
        return "int"
    return "int" if len(factor.values) == 1 and is_narrow(factor.values[0].type) else "wide"


def join_kind(factors: Sequence[Factor]) -> Kind:
    """How the sum of a product over a join is kept."""
    return "sum" if any(factor.is_float for factor in factors) else "wide"


def is_narrow(type_: Type) -> bool:
    """Whether 2^31 values of the type cannot leave 64 bits."""
    match type_:
        case Integer(bits):
            return bits <= 32
        case Decimal(precision=precision):
            return precision <= 9
        case Boolean() | Date():
            return True
        case _:
            return False


def multiply(source: Source, left: Value, right: Value, wish: str) -> Value:
    """Write the product of two values."""
    if left.text == "1":
        return right
    if right.text == "1":
        return left
    name = source.name(wish)
    if "sum" in (left.kind, right.kind):
        total, other = (left, right) if left.kind == "sum" else (right, left)
        function = {"sum": "exact_mul", "int": "exact_times", "wide": "exact_times_wide"}
        made = f"{function[other.kind]}({EXACT_ROOM}, {total.text}, {other.text})"
        source.line(f"{name} = {made}")
        return Value(name, "sum")
    if left.kind == right.kind == "int":
        text = f"wide_product({left.text}, {right.text})"
    elif left.kind == right.kind:
        text = f"wide_mul({left.text}, {right.text})"
    else:
        wide, whole = (left, right) if left.kind == "wide" else (right, left)
        text = f"wide_times({wide.text}, {whole.text})"
    source.line(f"{name} = {text}")
    return Value(name, "wide")


def as_sum(value: Value) -> str:
    """A value as an exact sum."""
    if value.kind == "sum":
        return value.text
    return f"exact_wide({EXACT_ROOM}, {as_wide(value)})"


def as_wide(value: Value) -> str:
    """An exact value as a wide one."""
    return value.text if value.kind == "wide" else f"wide_of({value.text})"


def scaled(value: Value, coefficient: Fraction) -> Value:
    """A value times a constant."""
    if coefficient == 1:
        return value
    if value.kind == "sum" or coefficient.denominator != 1:  # SUM(0.5) over a join
        factors = ", ".join(map(repr, _as_floats(coefficient)))
        return Value(f"exact_scaled({EXACT_ROOM}, {as_sum(value)}, {factors})", "sum")
    factor = coefficient.numerator
    if abs(factor) < 1 << 62:
        return Value(f"wide_times({as_wide(value)}, {factor})", "wide")
    half = 10**18
    assert factor % half == 0
    return Value(f"wide_times(wide_times({as_wide(value)}, {half}), {factor // half})", "wide")


def _as_floats(coefficient: Fraction) -> list[float]:
    """Three floats whose sum is a constant, as nearly as 159 bits can say a third."""
    found = []
    for _ in range(3):
        found.append(float(coefficient))
        coefficient -= Fraction(found[-1])
    return found


def add(source: Source, ref: SlotRef, slot: Slot, value: Value) -> None:
    """Write what adds a value to a slot."""
    place = ref.at(slot.name)
    match slot.kind:
        case "int":
            assert value.kind == "int"
            source.line(f"{ref.function('indexed_add')}({place}, {value.text})")
        case "wide":
            source.line(f"{ref.function('indexed_add_wide')}({place}, {as_wide(value)})")
        case "sum":
            source.line(f"exact_add_number({place}, {as_sum(value)})")


def read(ref: SlotRef, slot: Slot) -> Value:
    """The value of a slot."""
    function = {"int": "int_at", "wide": "wide_at", "sum": "exact_at"}[slot.kind]
    return Value(f"{ref.function(function)}({ref.at(slot.name)})", kind_of(slot))


def kind_of(slot: Slot) -> Kind:
    """The kind of a slot of numbers."""
    assert slot.kind != "floats"
    return slot.kind


def zero(kind: Kind) -> str:
    """The zero of a kind of value, as source text."""
    return {"int": "0", "wide": "wide_of(0)", "sum": f"exact_none({EXACT_ROOM})"}[kind]


def nonzero(value: Value) -> str:
    """The test whether a value is not zero."""
    match value.kind:
        case "int":
            return f"{value.text} != 0"
        case "wide":
            return f"not wide_is_zero({value.text})"
        case "sum":
            return f"not exact_is_zero({value.text})"


def plus(total: str, value: Value, kind: Kind) -> str:
    """The sum of a total held in a variable and a value."""
    assert kind != "sum", "added where they are kept"
    return f"wide_plus({total}, {as_wide(value)})" if kind == "wide" else f"{total} + {value.text}"

"""Write what SQL shows of counts, sums and averages."""

from __future__ import annotations

from collections.abc import Sequence

from viewmill.algebra.expressions import Aggregate
from viewmill.algebra.float_parts import SUM_PARTS
from viewmill.algebra.types import Float
from viewmill.codegen import exact
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.source import Source
from viewmill.strategies.view_tree.rings.ring import SlotRef

_BEYOND = 1.2e38  # more than 38 digits, less than 128 bits


def finish(
    call: Aggregate,
    count_slot: str,
    total: str,
    specials: Sequence[str],
    about: str,
    scalar: Scalar,
    ref: SlotRef,
) -> Operand:
    """Write the value of an aggregate from the slots of its count and its total."""
    source = scalar.source
    why = scalar.failure(call, "Overflow", f"the result does not fit {call.type}")
    count, counted = source.name("count"), f"wide_at({ref.at(count_slot)})"
    source.line(f"{count} = max(wide_low({counted}), 0)")
    with source.block(f"if not wide_value_fits({counted}):"):
        source.line(f"fail({why})")
    if call.function == "count":
        return Operand(count)
    value, null = source.name(call.function), source.name("none")
    source.line(f"{null} = {count} == 0")
    source.line(f"{value} = {'0.0' if isinstance(call.type, Float) else '0'}")
    with source.block(f"if not {null}:"):
        if isinstance(call.arguments[0].type, Float):
            _finish_float(call, source, total, specials, value, count, ref)
        else:
            _finish_exact(call, scalar, total, about, value, count, why, ref)
    return Operand(value, null)


def _finish_float(
    call: Aggregate, source: Source, total: str, specials: Sequence[str], value: str, count: str,
    ref: SlotRef,
) -> None:  # fmt: skip
    nan, plus, minus = (f"wide_is_zero(wide_at({ref.at(name)}))" for name in specials)
    if call.function in SUM_PARTS[1:]:
        with source.block(f"if {nan} and {plus} and {minus}:"):
            part = SUM_PARTS.index(call.function)
            source.line(f"{value} = exact_part({ref.at(total)}, {part})")
        return
    over = f" / {count}" if call.function == "avg" else ""
    is_part = call.function == SUM_PARTS[0]
    read = f"exact_part({ref.at(total)}, 0)" if is_part else f"sum_at({ref.at(total)})"
    source.line(f"{value} = {read}{over}")
    with source.block(f"if not {nan} or not ({plus} or {minus}):"):
        source.line(f"{value} = 1e400 - 1e400")
    with source.block(f"elif not {plus}:"):
        source.line(f"{value} = 1e400")
    with source.block(f"elif not {minus}:"):
        source.line(f"{value} = -1e400")


def _finish_exact(
    call: Aggregate, scalar: Scalar, total: str, about: str, value: str, count: str, why: str,
    ref: SlotRef,
) -> None:  # fmt: skip
    source, scale = scalar.source, exact.scale_of(call.arguments[0].type)
    if isinstance(call.type, Float):
        source.line(f"{value} = wide_float({ref.at(total)}) / {count}")
        return
    if about:
        most = _BEYOND / 10.0**scale
        with source.block(f"if not abs(sum_at({ref.at(about)})) < {most!r}:"):
            source.line(f"fail({why})")
    whole = exact.Number(f"wide_at({ref.at(total)})", scale, exact.PAIR, True)
    source.line(f"{value} = {exact.finished(scalar, call, whole, count)}")

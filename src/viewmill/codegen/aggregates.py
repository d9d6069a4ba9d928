"""Aggregates as payloads: the slots they keep, how a row lifts into them, how they finish.

takes  algebra aggregate calls over the scan's columns
gives  slots with their definitions, the source that adds a row, the source that shows a value
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viewmill.algebra.aggregates import moments_of
from viewmill.algebra.conditions import conjunction
from viewmill.algebra.expressions import (
    Aggregate,
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    is_engine_function,
    not_modelled,
)
from viewmill.algebra.float_parts import SUM_OF_PARTS, SUM_PARTS
from viewmill.algebra.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    Boolean,
    Decimal,
    Float,
    Integer,
    Nested,
    Null,
    Type,
    Wide,
)
from viewmill.codegen import exact
from viewmill.codegen.moments import Moment
from viewmill.codegen.percentiles import PERCENTILES, Percentiles, RankedValues
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.program.states import Slot

if TYPE_CHECKING:
    from viewmill.codegen.group_values import GroupValues

TAKEN = (
    "count", "sum", "avg", "min", "max", "count_if", *PERCENTILES, *SUM_PARTS, SUM_OF_PARTS,
)  # fmt: skip
_SUMS = ("sum", "avg", *SUM_PARTS, SUM_OF_PARTS)


@dataclass(frozen=True)
class Kept:
    """A slot and the aggregate that defines it."""

    slot: Slot
    definition: Aggregate


@dataclass(frozen=True)
class Argument:
    """What one aggregated expression keeps; equal expressions keep it once.

    `count` is the slot of its non-null rows, `total` of their sum; a float's NaN and infinities are
    counted apart, so that taking them away brings the finite sum back.
    """

    value: Expression | None  # None: count(*)
    where: Expression | None
    summed: bool
    count: str
    total: str = ""
    specials: tuple[str, str, str] = ("", "", "")  # NaN, +infinity, -infinity
    distinct: bool = False  # each value counts once
    carry: str = ""  # the slot that says how often a sum of many digits left 128 bits
    extreme: str = ""  # min or max: slots best_, seen_, stale_ and `count` of non-null rows
    more: tuple[
        Expression, ...
    ] = ()  # what is added to the total besides the value, if that is known

    @property
    def number(self) -> str:
        """What tells its slots and its values from those of others."""
        return self.count.split("_")[-1]


class Payload:
    """The slots of a group: `rows`, and what each aggregate needs."""

    def __init__(self, calls: tuple[tuple[str, Aggregate], ...], *, moments: bool = False) -> None:
        self.kept: list[Kept] = [Kept(Slot("rows", "int"), count_rows())]
        self.arguments: list[Argument] = []
        self.moments: list[Moment] = []
        self._by_call: dict[str, Argument] = {}
        self.percentiles: list[Percentiles] = []
        self._moment_of: dict[str, Moment] = {}
        self._percentile_of: dict[str, Percentiles] = {}
        for name, call in calls:
            call = simpler(call)
            _require_taken(call)
            made = moments_of(call.function)
            if (made is not None or call.function in PERCENTILES) and not moments:
                raise NotTaken(f"{call.function} is not maintained here", call.span)
            if made is not None:
                self._moment_of[name] = self._moment(call, has_shape=made.has_shape)
            elif call.function in PERCENTILES:
                self._percentile_of[name] = self._percentile(call)
            else:
                self._by_call[name] = self._argument(call)
        for each in self.percentiles:
            self.kept += [Kept(slot, definition) for slot, definition in each.kept()]

    @property
    def with_values(self) -> list[Argument]:
        """The arguments whose values are kept by group."""
        return [each for each in self.arguments if each.distinct or each.extreme]

    @property
    def lifted(self) -> list[Expression]:
        """What is read of a row."""
        read = [
            each for a in self.arguments for each in (a.value, a.where, *a.more) if each is not None
        ]
        read += [each for moment in self.moments for each in moment.expressions]
        return [*read, *(each for kept in self.percentiles for each in kept.expressions)]

    def _percentile(self, call: Aggregate) -> Percentiles:
        value = call.arguments[0]
        known = [e for e in self.percentiles if (e.value, e.where) == (value, call.where)]
        if not known:
            known = [Percentiles(value, call.where, len(self.percentiles) + 1)]
            self.percentiles += known
        asked = [(each.function, each.arguments) for each in known[0].shares]
        if (call.function, call.arguments) not in asked:
            known[0].shares.append(call)
        return known[0]

    def _moment(self, call: Aggregate, *, has_shape: bool) -> Moment:
        wanted = call.arguments, call.where, has_shape
        for known in self.moments:
            if (known.values, known.where, known.has_shape) == wanted:
                return known
        made = Moment(call.arguments, call.where, len(self.moments) + 1, has_shape)
        self.moments.append(made)
        self.kept += [Kept(slot, definition) for slot, definition in made.kept()]
        return made

    def _argument(self, call: Aggregate) -> Argument:
        value = call.arguments[0] if call.arguments else None
        distinct = call.distinct and call.function not in ("min", "max")
        if value is not None and not value.nullable and call.function == "count" and not distinct:
            value = None  # every row counts
        if value is None and call.where is None:
            return Argument(None, None, False, "rows")
        extreme = call.function if call.function in _EXTREMES else ""
        summed = call.function in _SUMS
        more = call.arguments[1:] if call.function == SUM_OF_PARTS else ()
        wanted = (value, call.where, distinct, extreme, more)
        for known in self.arguments:
            have = (known.value, known.where, known.distinct, known.extreme, known.more)
            if have == wanted and known.summed >= summed:
                return known
        made = self._make(value, call.where, summed, len(self.arguments) + 1, distinct=distinct)
        if extreme:
            made = self._make_extreme(made, extreme)
        made = replace(made, more=more)
        self.arguments.append(made)
        return made

    def _make(
        self, value: Expression | None, where: Expression | None, summed: bool, number: int, *,
        distinct: bool,
    ) -> Argument:  # fmt: skip
        count = f"count_{number}"
        arguments = () if value is None else (value,)
        counted = Aggregate("count", arguments, BIGINT, False, distinct, where)
        self._keep(count, "int", counted)
        if not summed or value is None:
            return Argument(value, where, False, count, distinct=distinct)
        total = f"sum_{number}"
        if not isinstance(value.type, Float):
            self._keep(total, "wide", replace(_exact_sum(value, where), distinct=distinct))
            carry = f"carry_{number}" if _may_carry(value.type) else ""
            if carry:  # a sum that can be shown has none
                self._keep(carry, "int", Aggregate("count", (), BIGINT, False, where=_never()))
            return Argument(value, where, True, count, total, distinct=distinct, carry=carry)
        finite = _compare("<", Call("abs", (value,), value.type, value.nullable), _infinity(1))
        self._keep(
            total,
            "sum",
            Aggregate("sum", (value,), DOUBLE, True, distinct, where=_and(where, finite)),
        )
        names = (f"nan_{number}", f"plus_{number}", f"minus_{number}")
        tests: tuple[Expression, ...] = (
            Call("isnan", (value,), BOOLEAN, False),
            _compare("=", value, _infinity(1)),
            _compare("=", value, _infinity(-1)),
        )
        for name, test in zip(names, tests, strict=True):
            special = Aggregate("count", (value,), BIGINT, False, distinct, where=_and(where, test))
            self._keep(name, "int", special)
        return Argument(value, where, True, count, total, names, distinct)

    def _make_extreme(self, made: Argument, extreme: str) -> Argument:
        """Slots that `rebuild` fills after a load: the extreme, is there one, is it stale."""
        for slot in extreme_slots(made):
            self._keep(slot, "int", Aggregate("count", (), BIGINT, False, where=_never()))
        return replace(made, extreme=extreme)

    def _keep(self, name: str, kind: str, definition: Aggregate) -> None:
        self.kept.append(Kept(Slot(name, kind), definition))  # type: ignore[arg-type]

    # Source.

    def lift(
        self, scalar: Scalar, word: dict[str, int], state: str,
        values: Mapping[str, GroupValues] | None = None, ranks: Sequence[RankedValues] = (),
    ) -> None:  # fmt: skip
        """Write what adds row i, `m` times, to entry e."""
        source = scalar.source
        source.line(f"keyed_add({state}, e, {word['rows']}, m)")
        self._values = values or {}
        for argument in self.arguments:
            if argument.where is None:
                self._lift_one(argument, scalar, word, state)
                continue
            with source.block(f"if {scalar.is_true(argument.where)}:"):
                self._lift_one(argument, scalar, word, state)
        for moment in self.moments:
            with source.block(
                f"if {'True' if moment.where is None else scalar.is_true(moment.where)}:"
            ):
                moment.lift(scalar, word, state)
        for each in ranks:
            where = each.kept.where
            with source.block(f"if {'True' if where is None else scalar.is_true(where)}:"):
                each.lift(scalar, word)

    def _lift_one(
        self, argument: Argument, scalar: Scalar, word: dict[str, int], state: str
    ) -> None:
        if argument.value is None:
            scalar.source.line(f"keyed_add({state}, e, {word[argument.count]}, m)")
            return
        is_carried = argument.distinct or bool(argument.extreme)
        emit = scalar.emit if is_carried else scalar.emit_number
        operand = emit(argument.value)
        if operand.null is None:
            self._add(argument, operand, scalar, word, state)
            return
        with scalar.source.block(f"if not {operand.null}:"):
            self._add(argument, operand, scalar, word, state)

    def _add(
        self, argument: Argument, operand: Operand, scalar: Scalar, word: dict[str, int], state: str
    ) -> None:
        source, value = scalar.source, operand.value
        if argument.distinct:
            self._add_distinct(argument, value, scalar, word, state)
            return
        source.line(f"keyed_add({state}, e, {word[argument.count]}, m)")
        if argument.extreme:
            self._values[argument.count].add_extreme(argument, value, word)
        if not argument.summed:
            return
        assert argument.value is not None
        if not isinstance(argument.value.type, Float):
            self._add_exact(argument, operand, "m", scalar, word, state)
            return
        self._add_float(argument, value, "m", scalar, word, state)
        for each in argument.more:
            part = scalar.emit_number(each)
            with source.block(f"if {'True' if part.null is None else f'not {part.null}'}:"):
                source.line(f"exact_add({state}, e, {word[argument.total]}, {part.value}, m)")

    def _add_exact(
        self, argument: Argument, operand: Operand, times: str, scalar: Scalar,
        word: dict[str, int], state: str,
    ) -> None:  # fmt: skip
        assert argument.value is not None
        source, at, value = scalar.source, word[argument.total], operand.value
        is_wide = operand.is_wide
        if isinstance(argument.value.type, Wide):
            value, is_wide = f"wide_number(texts, {value})", True
        if argument.carry:
            pair = value if is_wide else f"wide_of({value})"
            places = f"{at}, {word[argument.carry]}"
            source.line(f"keyed_add_carried({state}, e, {places}, {pair}, {times})")
        elif is_wide:
            source.line(f"keyed_add_value({state}, e, {at}, {value}, {times})")
        else:
            source.line(f"keyed_add_wide({state}, e, {at}, {value}, {times})")

    def _add_float(
        self, argument: Argument, value: str, times: str, scalar: Scalar, word: dict[str, int],
        state: str,
    ) -> None:  # fmt: skip
        source, at = scalar.source, word[argument.total]
        nan, plus, minus = (word[name] for name in argument.specials)
        with source.block(f"if is_finite({value}):"):
            source.line(f"exact_add({state}, e, {at}, {value}, {times})")
        with source.block(f"elif is_nan({value}):"):
            source.line(f"keyed_add({state}, e, {nan}, {times})")
        with source.block(f"elif {value} > 0.0:"):
            source.line(f"keyed_add({state}, e, {plus}, {times})")
        with source.block("else:"):
            source.line(f"keyed_add({state}, e, {minus}, {times})")

    def _add_distinct(
        self, argument: Argument, value: str, scalar: Scalar, word: dict[str, int], state: str
    ) -> None:
        """A value counts when it comes for the first time and when it goes for the last."""
        source = scalar.source
        change = self._values[argument.count].add_value(value)
        with source.block(f"if {change} != 0:"):
            source.line(f"keyed_add({state}, e, {word[argument.count]}, {change})")
            if argument.summed and argument.specials[0]:
                self._add_float(argument, value, change, scalar, word, state)
            elif argument.summed:
                self._add_exact(argument, Operand(value), change, scalar, word, state)

    def finish(
        self, name: str, call: Aggregate, scalar: Scalar, word: dict[str, int], state: str
    ) -> Operand:
        """Write what shows the aggregate `name` of entry e."""
        if name in self._moment_of:
            return self._moment_of[name].finish(call, scalar, word, state)
        if name in self._percentile_of:
            return self._percentile_of[name].finish(call, scalar, word, state)
        source, argument = scalar.source, self._by_call[name]
        call = simpler(call)
        count = source.name("count")
        # Rows that were deleted before they came are not shown: there are no fewer rows than none.
        source.line(f"{count} = max(int_at({state}, e, {word[argument.count]}), 0)")
        if call.function == "count":
            return Operand(count)
        value, null = source.name(call.function), source.name("none")
        source.line(f"{null} = {count} == 0")
        assert argument.value is not None
        if argument.extreme:
            source.line(f"{value} = {best_value(argument, word, state)}")
            return Operand(value, null)
        if isinstance(argument.value.type, Float):
            self._finish_float(argument, call, scalar, word, state, value, count)
        else:
            self._finish_exact(argument, call, scalar, word, state, value, count)
        return Operand(value, null)

    def _finish_float(
        self, argument: Argument, call: Aggregate, scalar: Scalar, word: dict[str, int],
        state: str, value: str, count: str,
    ) -> None:  # fmt: skip
        source = scalar.source
        nan, plus, minus = (f"int_at({state}, e, {word[name]})" for name in argument.specials)
        place = f"{state}, e, {word[argument.total]}"
        if call.function in SUM_PARTS[1:]:
            source.line(f"{value} = 0.0")
            with source.block(f"if {nan} == 0 and {plus} == 0 and {minus} == 0:"):
                source.line(f"{value} = exact_part({place}, {SUM_PARTS.index(call.function)})")
            return
        is_part = call.function == SUM_PARTS[0]
        source.line(f"{value} = {f'exact_part({place}, 0)' if is_part else f'sum_at({place})'}")
        with source.block(f"if {nan} != 0 or ({plus} != 0 and {minus} != 0):"):
            source.line(f"{value} = 1e400 - 1e400")
        with source.block(f"elif {plus} != 0:"):
            source.line(f"{value} = 1e400")
        with source.block(f"elif {minus} != 0:"):
            source.line(f"{value} = -1e400")
        if call.function == "avg":
            with source.block(f"if {count} != 0:"):
                source.line(f"{value} = {value} / {count}")

    def _finish_exact(
        self, argument: Argument, call: Aggregate, scalar: Scalar, word: dict[str, int],
        state: str, value: str, count: str,
    ) -> None:  # fmt: skip
        source, at = scalar.source, word[argument.total]
        source.line(f"{value} = {'0.0' if isinstance(call.type, Float) else '0'}")
        with source.block(f"if {count} != 0:"):
            if isinstance(call.type, Float):
                source.line(f"{value} = wide_float({state}, e, {at}) / {count}")
                return
            if argument.carry:
                why = scalar.failure(call, "Overflow", f"the result does not fit {call.type}")
                with source.block(f"if int_at({state}, e, {word[argument.carry]}) != 0:"):
                    source.line(f"fail({why})")
            assert argument.value is not None
            scale = exact.scale_of(argument.value.type)
            total = exact.Number(f"wide_at({state}, e, {at})", scale, exact.PAIR, True)
            source.line(f"{value} = {exact.finished(scalar, call, total, count)}")


def extreme_slots(argument: Argument) -> tuple[str, str, str]:
    """The slots of an extreme: its word, whether there is one, whether it went away."""
    number = argument.number
    return f"best_{number}", f"seen_{number}", f"stale_{number}"


def best_value(argument: Argument, word: dict[str, int], state: str) -> str:
    """The extreme of entry e."""
    assert argument.value is not None
    text = f"int_at({state}, e, {word[extreme_slots(argument)[0]]})"
    if isinstance(argument.value.type, Float):
        return f"key_float({text})"
    return f"{text} != 0" if isinstance(argument.value.type, Boolean) else text


def count_rows() -> Aggregate:
    """count(*)."""
    return Aggregate("count", (), BIGINT, False)


# What they answer hangs on the order in which an engine happens to read rows.
_NOT_DETERMINED = ("first", "last", "any_value", "collect_list")


def _require_taken(call: Aggregate) -> None:
    if call.function in _NOT_DETERMINED:
        raise NotTaken(f"{call.function}: SQL does not determine what it gives", call.span)
    if is_engine_function(call.function):
        raise NotTaken(not_modelled(call.function), call.span)
    is_moment = moments_of(call.function) is not None
    if call.function not in TAKEN and not is_moment:
        raise NotTaken(f"{call.function} is not maintained incrementally yet", call.span)
    if is_moment or call.function in PERCENTILES:
        if call.distinct:
            raise NotTaken(f"{call.function}(DISTINCT) is not incremental yet", call.span)
        return
    if len(call.arguments) > 1 and call.function != SUM_OF_PARTS:
        raise NotTaken("count of several columns is not maintained incrementally yet", call.span)
    value = call.arguments[0].type if call.arguments else BIGINT
    if call.function in _SUMS and not isinstance(value, Integer | Decimal | Wide | Float):
        raise NotTaken(f"{call.function} of {value}", call.span)
    if call.function in _EXTREMES and isinstance(value, Nested | Null):
        raise NotTaken(f"{call.function} of {value} is not maintained incrementally yet", call.span)


_EXTREMES = ("min", "max")


def simpler(call: Aggregate) -> Aggregate:
    """count_if(x) counts where x; count(a, b) counts where neither is NULL."""
    if call.function == "count_if":
        condition = _and(call.where, call.arguments[0]) if call.where else call.arguments[0]
        return replace(call, function="count", arguments=(), where=condition)
    if call.function == "count" and len(call.arguments) > 1 and not call.distinct:
        where = call.where
        for each in call.arguments:
            known = Call("not", (Call("is_null", (each,), BOOLEAN, False),), BOOLEAN, False)
            where = _and(where, known)
        return replace(call, arguments=(), where=where)
    return call


def _never() -> Expression:
    return Literal(False, BOOLEAN)


def _exact_sum(value: Expression, where: Expression | None) -> Aggregate:
    """A sum that cannot overflow: integers are added as decimals."""
    if isinstance(value.type, Integer):
        value = Cast(value, Decimal(20, 0), value.nullable)
    assert isinstance(value.type, Decimal | Wide)
    type_ = Decimal(min(38, value.type.precision + 10), value.type.scale)
    return Aggregate("sum", (value,), type_, True, where=where)


def _may_carry(type_: Type) -> bool:
    """Whether ten billion values may add up to more than 128 bits hold."""
    return isinstance(type_, Decimal | Wide) and type_.precision > 28


def _infinity(sign: int) -> Literal:
    return Literal(sign * float("inf"), DOUBLE)


def _compare(function: str, left: Expression, right: Expression) -> Expression:
    if left.type != right.type:
        left = Cast(left, right.type, left.nullable)
    return Call(function, (left, right), BOOLEAN, left.nullable)


def _and(where: Expression | None, condition: Expression) -> Expression:
    return condition if where is None else conjunction(where, condition)


def zero_if_null(name: str, type_: Type) -> Expression:
    """The slot's column of the definition, 0 where the aggregate is NULL."""
    column = Column(name, type_, True)
    zero = Literal(0.0 if isinstance(type_, Float) else 0, type_)
    return Call("coalesce", (column, zero), type_, False)

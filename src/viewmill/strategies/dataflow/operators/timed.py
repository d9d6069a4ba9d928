"""A filter by the clock: rows are shown from one moment to another, and time alone ends them.

takes  Filter over a scan, each condition a column compared with an expression of the clock
gives  a program that says how a deadline follows from a column
next   kernels.timed
"""

from __future__ import annotations

from viewmill.algebra.clock import CLOCK, WATERMARK, clock_read, is_now, tables_of
from viewmill.algebra.conditions import conjuncts
from viewmill.algebra.expressions import Call, Cast, Column, Expression, Literal
from viewmill.algebra.relations import Filter, Relation, Scan
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Date, Integer, Interval, Timestamp
from viewmill.codegen.inputs import input_of
from viewmill.codegen.shape import NotTaken
from viewmill.program.program import Input, Program, Step, TimeBound, Timed

_DAY = 86_400_000_000
_UNITS = {
    "microsecond": 1, "millisecond": 1000, "second": 1_000_000, "minute": 60_000_000,
    "hour": 3_600_000_000, "day": _DAY,
}  # fmt: skip
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_MONDAY = -3 * _DAY  # before 1970, a Thursday
_WEEK = 7 * _DAY


def emit_timed(query: Relation, strategy: str) -> Program:
    """The program of a filter by the clock."""
    assert isinstance(query, Filter)
    if not isinstance(query.input, Scan):
        raise NotTaken("what is compared with the clock is a block of its own", query.span)
    bounds = tuple(_bound(each, query.schema) for each in conjuncts(query.condition))
    rows = input_of(query.input)
    clock = clock_read(query.condition)
    assert clock is not None
    tables = tables_of(clock)
    sources = [f"{WATERMARK}{each}" for each in tables] or [CLOCK]
    inputs = rows, *(Input(each, each, Schema(())) for each in sources)
    return Program(strategy, query, inputs, query.schema, (), Timed(rows.name, bounds, tables))


def _bound(condition: Expression, schema: Schema) -> TimeBound:
    own, clock = condition.arguments if isinstance(condition, Call) else (None, None)
    if not isinstance(condition, Call) or not isinstance(own, Column) or clock is None:
        raise NotTaken("a comparison with the clock of a form that is not known", condition.span)
    if not isinstance(own.type, Timestamp | Date | Integer):
        raise NotTaken(f"a {own.type} compared with the clock", condition.span)
    steps = _steps(clock)
    if any(each.kind == "months" and not each.in_days for each in steps[1:]):
        raise NotTaken("months before or after a moment that is not now() itself", condition.span)
    return TimeBound(schema.names.index(own.name), condition.function, steps)


def _steps(clock: Expression) -> tuple[Step, ...]:
    """The steps from the time to the value of an expression of the clock."""
    if is_now(clock):
        return ()
    if isinstance(clock, Cast):
        return (*_steps(clock.input), *_cast(clock))
    if isinstance(clock, Call):
        for at, each in enumerate(clock.arguments):
            if not isinstance(each, Literal):
                others = [e for i, e in enumerate(clock.arguments) if i != at]
                step = _step(clock, at, each, others)
                if step is not None:
                    return (*_steps(each), *step)
                break
    raise NotTaken("an expression of the clock of a form that is not known", clock.span)


def _cast(cast: Cast) -> tuple[Step, ...]:
    given, wanted = cast.input.type, cast.type
    if given == wanted or (isinstance(given, Integer) and isinstance(wanted, Integer)):
        return ()
    if isinstance(given, Timestamp) and isinstance(wanted, Date):
        return (Step("floor", _DAY),)
    if isinstance(given, Date) and isinstance(wanted, Timestamp):
        return (Step("scale", _DAY),)
    raise NotTaken(f"the clock as a {wanted}", cast.span)


def _step(
    call: Call, at: int, clock: Expression, others: list[Expression]
) -> tuple[Step, ...] | None:
    if not all(isinstance(each, Literal) for each in others):
        return None
    values = [each.value for each in others if isinstance(each, Literal)]
    is_day = isinstance(clock.type, Date)
    match call.function, values:
        case ("+" | "-", [(int(months), int(micros))]) if at == 0:
            sign = 1 if call.function == "+" else -1
            return _interval(sign * months, sign * micros, call, is_day=is_day)
        case ("+", [int(number)]) if isinstance(call.type, Integer):
            return (Step("add", number),)
        case ("-", [int(number)]) if isinstance(call.type, Integer) and at == 0:
            return (Step("add", -number),)
        case ("date_add" | "date_sub", [int(days)]) if at == 0:
            return (Step("add", days if call.function == "date_add" else -days),)
        case ("add_months" | "timestamp_add_months", [int(months)]) if at == 0:
            return (Step("months", months, in_days=is_day),)
        case ("date_trunc" | "trunc", [str(unit)]):
            return _truncated(unit, is_day=is_day)
        case ("unix_micros" | "unix_date", []):
            return ()
        case ("unix_millis", []):
            return (Step("floor", 1000),)
        case ("unix_seconds", []):
            return (Step("floor", 1_000_000),)
        case ("div", [int(number)]) if at == 0 and number > 0:
            return (Step("divide", number),)
        case ("year", []) if is_day:
            return (Step("year"),)
    return None


def _interval(months: int, micros: int, call: Call, *, is_day: bool) -> tuple[Step, ...] | None:
    steps = (Step("months", months, in_days=is_day),) if months else ()
    if is_day and isinstance(call.type, Date):
        return None if micros % _DAY else (*steps, Step("add", micros // _DAY))
    if is_day or isinstance(call.type, Interval):
        return None
    return (*steps, Step("add", micros)) if micros else steps


def _truncated(unit: str, *, is_day: bool) -> tuple[Step, ...] | None:
    if unit in _MONTHS:
        return (Step("calendar", _MONTHS[unit], in_days=is_day),)
    if unit == "week":
        return (Step("truncate", 7, -3),) if is_day else (Step("truncate", _WEEK, _MONDAY),)
    return None if is_day else (Step("truncate", _UNITS[unit]),)

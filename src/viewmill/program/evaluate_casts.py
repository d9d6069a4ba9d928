"""A value of one type as another, in Python's values, as Spark casts with ANSI on."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from typing import Any

import numpy as np

from viewmill.algebra.types import (
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    String,
    Timestamp,
    Type,
    Wide,
)
from viewmill.deltas.float_text import float_text
from viewmill.program.python_functions import Unfit
from viewmill.program.text_values import read_date, read_decimal, read_real, read_timestamp

_EPOCH = dt.datetime(1970, 1, 1)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_TRUTHS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
_EXACT = decimal.Context(prec=100)


def convert(value: Any, source: Type, target: Type) -> Any:
    """The value as `target`; `Unfit` or another ValueError if there is none."""
    match target:
        case Integer():
            return _integer(value, target)
        case Float():
            return _float(value, target)
        case Decimal() | Wide():
            return _decimal(value, target)
        case String():
            return _text(value, source)
        case Boolean():
            return _boolean(value)
        case Date():
            return _date(value)
        case Timestamp():
            return _timestamp(value)
        case _:
            raise Unfit("EvaluationFailed", f"a cast to {target}")


def _integer(value: Any, target: Integer) -> int:
    if isinstance(value, str):
        text = value.strip(" \t\n\r")
        if not _WHOLE.fullmatch(text):
            raise Unfit("EvaluationFailed", "not a whole number")
        whole = int(text)
    elif isinstance(value, dt.datetime):
        whole = (value - _EPOCH) // dt.timedelta(seconds=1)
    else:
        if isinstance(value, float) and not math.isfinite(value):
            raise Unfit("Overflow", "not finite")
        whole = int(value)  # towards zero
    if not target.low <= whole <= target.high:
        raise Unfit("Overflow", f"outside {target}")
    return whole


def _float(value: Any, target: Float) -> float:
    if isinstance(value, dt.datetime):
        made = (value - _EPOCH) / dt.timedelta(seconds=1)
    else:
        made = read_real(value) if isinstance(value, str) else float(value)
    if target.bits == 64:
        return made
    with np.errstate(over="ignore"):
        return float(np.float32(made))


def _decimal(value: Any, target: Decimal | Wide) -> decimal.Decimal | None:
    if isinstance(value, dt.datetime):
        micros = (value - _EPOCH) // dt.timedelta(microseconds=1)
        exact = decimal.Decimal(micros).scaleb(-6)
    elif isinstance(value, str):
        exact = read_decimal(value)
    else:
        exact = decimal.Decimal(repr(value) if isinstance(value, float) else value)
    if not exact.is_finite():
        return None  # as Spark has it
    unit = decimal.Decimal(1).scaleb(-target.scale)
    fitted = exact.quantize(unit, decimal.ROUND_HALF_UP, _EXACT)
    if fitted.copy_abs() >= decimal.Decimal(10) ** (target.precision - target.scale):
        raise Unfit("Overflow", f"more digits than {target}")
    return fitted


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        truth = _TRUTHS.get(value.strip().lower())
        if truth is None:
            raise Unfit("EvaluationFailed", "not a truth value")
        return truth
    return bool(value != 0)


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    return read_date(value)


def _timestamp(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    if isinstance(value, str):
        return read_timestamp(value)
    micros = math.trunc(value * 1_000_000)
    return _EPOCH + dt.timedelta(microseconds=micros)


def _text(value: Any, source: Type) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
        fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
        return text + fraction
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return float_text(value, short=source == Float(32))
    return str(value)

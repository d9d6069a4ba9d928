"""Call functions of the user: once per distinct input, with what they give checked.

takes  a UserFunction, the types of its arguments, rows of them (Python's values, None for NULL)
gives  values of its result type; or raises `Unfit`, which names the function and the input
next   program.evaluate calls it row by row, engines.duckdb column by column
"""

from __future__ import annotations

import decimal
import reprlib
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from viewmill.algebra.types import Decimal, Float, Nested, Type
from viewmill.algebra.user_functions import UserFunction
from viewmill.deltas.arrow import arrow_type
from viewmill.deltas.values import plain_value
from viewmill.program.python_functions import Unfit

Types = tuple[Type, ...]
Row = tuple[Any, ...]

_MAX_KNOWN = 100_000  # inputs whose values are cached
_WIDE = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)


def answer(function: UserFunction, types: Types, row: Row) -> Any:
    """The value of a function for one row of arguments."""
    return answers(function, types, [row])[0]


def answers(function: UserFunction, types: Types, rows: Sequence[Row]) -> list[Any]:
    """The values of a function for some rows of arguments."""
    if not function.deterministic:
        return _asked(function, types, rows)
    known, key = function.known.setdefault(types, {}), _key(types)
    keys = [key(row) for row in rows]
    new = {k: row for k, row in zip(keys, rows, strict=True) if k not in known}
    given = dict(zip(new, _asked(function, types, list(new.values())), strict=True)) if new else {}
    values = [given[k] if k in given else known[k] for k in keys]
    if len(known) + len(given) > _MAX_KNOWN:
        known.clear()
    known.update(given)
    return values


def forget_answers(function: UserFunction) -> None:
    """Have the function compute everything anew."""
    function.known.clear()


def _key(types: Types) -> Callable[[Row], Any]:
    """What tells inputs apart: 0.0 is not -0.0, and NaN is itself."""
    if any(isinstance(each, Nested) for each in types):
        return repr
    floats = [isinstance(each, Float) for each in types]
    if not any(floats):
        return lambda row: row
    return lambda row: tuple(
        x.hex() if is_float and x is not None else x
        for x, is_float in zip(row, floats, strict=True)
    )


def _asked(function: UserFunction, types: Types, rows: Sequence[Row]) -> list[Any]:
    if function.takes == "values":
        return [_fitted(function, row, _called(function, row, row)) for row in rows]
    if len(rows) > 1:
        try:
            return _of_columns(function, types, rows)
        except Unfit:  # one by one shows which input it is
            return [_of_columns(function, types, [row])[0] for row in rows]
    return _of_columns(function, types, rows)


def _of_columns(function: UserFunction, types: Types, rows: Sequence[Row]) -> list[Any]:
    """One call of a vectorized function."""
    columns: list[Any] = [
        pa.array([row[i] for row in rows], arrow_type(type_)) for i, type_ in enumerate(types)
    ]
    if function.takes == "pandas":
        columns = [each.to_pandas() for each in columns]
    made = _called(function, rows[0], columns)
    try:
        values = _listed(made)
    except Exception as why:
        raise _failed(function, rows[0], f"gave no column of values: {_said(why)}") from why
    if len(values) != len(rows):
        what = f"gave {len(values)} values for {len(rows)} rows"
        raise _failed(function, rows[0], what)
    return [_fitted(function, row, x) for row, x in zip(rows, values, strict=True)]


def _listed(made: Any) -> list[Any]:
    if hasattr(made, "dtype"):  # NumPy's, pandas'
        made = pa.array(made)
    return list(made.to_pylist() if hasattr(made, "to_pylist") else made)


def _called(function: UserFunction, row: Row, arguments: Sequence[Any]) -> Any:
    try:
        return function.code(*arguments)
    except MemoryError:
        raise
    except Exception as why:
        raise _failed(function, row, f"raised {_said(why)}") from why


def _fitted(function: UserFunction, row: Row, value: Any) -> Any:
    """What a function gave as a value of its type; decimals are rounded, as Spark does."""
    if value is None:
        return None
    type_ = function.result
    try:
        if isinstance(type_, Decimal) and isinstance(value, decimal.Decimal) and value.is_finite():
            value = value.quantize(decimal.Decimal(1).scaleb(-type_.scale), context=_WIDE)
        return plain_value(value, type_)
    except ValueError as why:
        reason = f": {why}" if str(why) else ""
        what = f"gave {reprlib.repr(value)} ({type(value).__name__}), which is no {type_}{reason}"
        raise _failed(function, row, what) from None


def _failed(function: UserFunction, row: Row, what: str) -> Unfit:
    shown = ", ".join(map(reprlib.repr, row))
    return Unfit("EvaluationFailed", " ".join(f"{function.name}({shown}) {what}".split()))


def _said(why: Exception) -> str:
    return f"{type(why).__name__}: {why}"

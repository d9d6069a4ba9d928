"""Hand-written programs that the kernel tests run compiled and plain."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from viewmill.algebra.relations import Values
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, DOUBLE, Decimal
from viewmill.deltas.delta import Delta, Mask, Words, word_dtype
from viewmill.errors import Span
from viewmill.program.program import Input, Message, Program, Trigger, Triggers
from viewmill.program.states import Keyed, Slot, State

NOTHING = Values((), Schema(()))  # stands for definitions, which kernels do not read
SQL = "SELECT k, f, count(*), sum(v), sum(x), avg(v) FROM t GROUP BY k, f"

# SELECT k, f, count(*), sum(v), sum(x), avg(CAST(v AS DECIMAL)) FROM t GROUP BY k, f
STATISTICS = """
def on_t(start, size, multiplicity, k, k_null, f, v, v_null, x, x_null, groups, texts, errors):
    for i in range(start, size):
        if keyed_full(groups):
            return i
        m = multiplicity[i]
        e = keyed_touch(groups, (k[i], float_key(f[i]), k_null[i]))
        keyed_add(groups, e, 0, m)
        if v_null[i] == 0:
            keyed_add(groups, e, 1, m)
            keyed_add_wide(groups, e, 2, v[i], m)
        if x_null[i] == 0:
            keyed_add(groups, e, 4, m)
            if is_finite(x[i]):
                exact_add(groups, e, 5, x[i], m)
            elif is_nan(x[i]):
                keyed_add(groups, e, 8, m)
            elif x[i] > 0:
                keyed_add(groups, e, 9, m)
            else:
                keyed_add(groups, e, 10, m)
    return size


def emit_row(groups, e, m, out, errors):
    if int_at(groups, e, 0) == 0:
        return 0
    if key_word(groups, e, 2) != 0:
        emit_null(out, 0)
    else:
        emit_word(out, 0, key_word(groups, e, 0))
    emit_float(out, 1, key_float(key_word(groups, e, 1)))
    emit_word(out, 2, int_at(groups, e, 0))
    if int_at(groups, e, 1) == 0:
        emit_null(out, 3)
        emit_null(out, 5)
    else:
        if not wide_fits(groups, e, 2):
            fail(errors, 0, -1)
            emit_null(out, 3)
        else:
            emit_word(out, 3, wide_int(groups, e, 2))
        if not wide_ratio_fits(groups, e, 2, 10000, int_at(groups, e, 1)):
            fail(errors, 1, -1)
            emit_null(out, 5)
        else:
            emit_word(out, 5, wide_ratio(groups, e, 2, 10000, int_at(groups, e, 1)))
    if int_at(groups, e, 4) == 0:
        emit_null(out, 4)
    elif int_at(groups, e, 8) > 0 or (int_at(groups, e, 9) > 0 and int_at(groups, e, 10) > 0):
        emit_float(out, 4, key_float(0x7FF8000000000000))
    elif int_at(groups, e, 9) > 0:
        emit_float(out, 4, key_float(0x7FF0000000000000))
    elif int_at(groups, e, 10) > 0:
        emit_float(out, 4, -key_float(0x7FF0000000000000))
    else:
        emit_float(out, 4, sum_at(groups, e, 5))
    emit(out, m)
    return 1


def flush(start, groups, out, texts, errors):
    for t in range(start, keyed_touched(groups)):
        if emit_full(out):
            return t
        n = emit_row(groups, keyed_before(groups, t), -1, out, errors)
        n += emit_row(groups, keyed_now(groups, t), 1, out, errors)
        if n == 2:
            emit_cancel(out)
    return -1


def contents(start, groups, out, texts, errors):
    for i in range(start, keyed_capacity(groups)):
        if emit_full(out):
            return i
        e = keyed_at(groups, i)
        if e != -1:
            emit_row(groups, e, 1, out, errors)
    return -1
"""

T = Schema(
    (
        Field("k", BIGINT),
        Field("f", DOUBLE, nullable=False),
        Field("unused", BIGINT),
        Field("v", BIGINT),
        Field("x", DOUBLE),
    )
)
OUTPUT = Schema(
    (
        Field("k", BIGINT),
        Field("f", DOUBLE, nullable=False),
        Field("rows", BIGINT, nullable=False),
        Field("sum_v", BIGINT),
        Field("sum_x", DOUBLE),
        Field("avg_v", Decimal(18, 4)),
    )
)
GROUPS = Keyed(
    (Field("k", BIGINT), Field("f", DOUBLE, nullable=False)),
    (
        Slot("rows", "int"),
        Slot("n_v", "int"),
        Slot("sum_v", "wide"),
        Slot("n_x", "int"),
        Slot("sum_x", "sum"),
        Slot("nan_x", "int"),
        Slot("up_x", "int"),
        Slot("down_x", "int"),
    ),
)


def statistics() -> Program:
    """The program of STATISTICS."""
    messages = (
        Message("Overflow", "sum(v) leaves BIGINT", Span(SQL, 23, 28)),
        Message("Overflow", "avg(v) leaves DECIMAL(18,4)"),
    )
    trigger = Trigger("t", "on_t", ("k", "f", "v", "x"))
    return Program(
        "statistics",
        NOTHING,
        (Input("t", "t", T),),
        OUTPUT,
        (State("groups", GROUPS, NOTHING),),
        Triggers(STATISTICS, (trigger,), messages=messages),
    )


Row = tuple[Any, ...]


def delta(schema: Schema, rows: Iterable[Row], multiplicity: Iterable[int] | None = None) -> Delta:
    """A delta of Python tuples."""
    rows = list(rows)
    columns: list[Words] = []
    nulls: list[Mask | None] = []
    for c, field in enumerate(schema):
        values = [row[c] for row in rows]
        filled = [0 if value is None else value for value in values]
        column: Any = np.array(filled, word_dtype(field.type))
        columns.append(column)
        mask = np.array([value is None for value in values], np.uint8)
        nulls.append(mask if mask.any() else None)
    counts = None if multiplicity is None else np.array(list(multiplicity), np.int64)
    return Delta(schema, tuple(columns), tuple(nulls), counts, len(rows))


def rows_of(change: Delta) -> list[Row]:
    """Rows of Python values with the multiplicity last, in a fixed order."""
    columns = []
    for column, mask in zip(change.columns, change.nulls, strict=True):
        nulls = [0] * change.size if mask is None else mask.tolist()
        pairs = zip(column.tolist(), nulls, strict=True)
        columns.append([None if null else value for value, null in pairs])
    rows = zip(*columns, change.multiplicities().tolist(), strict=True)
    # By key and multiplicity; NULL and NaN have their place too.
    return sorted(rows, key=lambda row: (row[0] is None, row[0] or 0, repr(row[1]), row[-1]))


def same(left: list[Row], right: list[Row]) -> bool:
    """Equal, floats within 1e-9, NaN equal to itself."""
    return len(left) == len(right) and all(
        len(a) == len(b) and all(map(_same_value, a, b)) for a, b in zip(left, right, strict=True)
    )


def _same_value(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-300)
    return type(a) is type(b) and a == b

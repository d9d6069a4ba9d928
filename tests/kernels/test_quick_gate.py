"""What a quick look calls plain, a close look takes as well."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from viewmill.deltas.gate import check_columns, checked_columns
from viewmill.errors import InvalidRow
from viewmill.kernels.quick_gate import QuickGate


def _texts(values: list[bytes], type_: pa.DataType) -> pa.Array:
    made = pa.array(values, pa.binary() if type_ == pa.string() else pa.large_binary())
    return pa.Array.from_buffers(type_, len(values), made.buffers())


def _numbers(words: list[int], type_: pa.DataType, width: int) -> pa.Array:
    data = b"".join(word.to_bytes(width, "little", signed=True) for word in words)
    return pa.Array.from_buffers(type_, len(words), [None, pa.py_buffer(data)])


DECIMAL, DATE, TIME = pa.decimal128(5, 2), pa.date32(), pa.timestamp("us")
PLAIN = {
    "texts": pa.array(["", "a", "some longer text, of more than eight bytes", None]),
    "long": pa.array(["b", None, "x" * 40], pa.large_string()),
    "decimals": pa.array([Decimal("-999.99"), Decimal("999.99"), None], DECIMAL),
    "dates": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "times": pa.array([dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)], TIME),
}
BROKEN = {
    "texts": _texts([b"plain", b"\xff\xfe", b"plain"], pa.string()),
    "cut": _texts([b"123456789\xc3", b"\xa9"], pa.string()),
    "long": _texts([b"ok", b"\xc3"], pa.large_string()),
    "decimals": _numbers([1, 100_000], DECIMAL, 16),
    "wide": _numbers([1, 1 << 70], DECIMAL, 16),
    "dates": _numbers([0, -719_163], DATE, 4),
    "times": _numbers([0, 1 << 60], TIME, 8),
}


def _gates(array: pa.Array) -> tuple[bool, pa.Table]:
    table = pa.table({"k": pa.array(range(len(array))), "c": array})
    gate = QuickGate(table.schema)
    assert gate.rest == []
    return gate.is_plain(table), table


@pytest.mark.parametrize("name", PLAIN)
def test_plain_columns_pass_at_once(name: str) -> None:
    assert _gates(PLAIN[name])[0]
    assert _gates(PLAIN[name].slice(1))[0]


@pytest.mark.parametrize("name", BROKEN)
def test_broken_columns_are_never_plain(name: str) -> None:
    is_plain, table = _gates(BROKEN[name])
    assert not is_plain
    with pytest.raises(InvalidRow):
        check_columns(table, checked_columns(table.schema))
    assert QuickGate(table.schema).is_plain(table.slice(0, 1)) == (name != "cut")


def test_offsets_that_fall_are_not_plain() -> None:
    ends = pa.py_buffer(b"".join(each.to_bytes(4, "little") for each in (0, 9, 3, 4)))
    array = pa.Array.from_buffers(pa.string(), 3, [None, ends, pa.py_buffer(b"abcd")])
    assert not _gates(array)[0]


def test_other_text_is_looked_at_closely() -> None:
    is_plain, table = _gates(pa.array(["größer", "日本"]))
    assert not is_plain
    check_columns(table, checked_columns(table.schema))

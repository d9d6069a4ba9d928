"""How columns of Arrow tables lie in memory, and Arrow's C data interface to them."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import pyarrow as pa

from viewmill.kernels.structures import columns

ARRAY_WORDS, RELEASE = 10, 8  # of Arrow's struct for an array, and where its own end is called

_KINDS = {
    pa.int64(): columns.WORD, pa.float64(): columns.WORD, pa.timestamp("us"): columns.WORD,
    pa.int32(): columns.HALF, pa.date32(): columns.HALF, pa.int16(): columns.SHORT,
    pa.int8(): columns.BYTE, pa.string(): columns.TEXT, pa.large_string(): columns.WIDE_TEXT,
}  # fmt: skip


def kind_of(type_: Any) -> int | None:
    """How values of a type lie in memory, None if kernels do not read them."""
    return columns.DECIMAL if pa.types.is_decimal128(type_) else _KINDS.get(type_)


def is_text(type_: Any) -> bool:
    """Whether values are strings."""
    return kind_of(type_) in (columns.TEXT, columns.WIDE_TEXT)


@cache
def release_of(address: int) -> Any:
    """Arrow's own function that gives an exported array back."""
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)

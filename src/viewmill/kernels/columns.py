"""Columns of a delta as kernels take them: checked, for compiled code believes what it is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.errors import InvalidArgument


def checked_words(array: npt.NDArray[Any], dtype: np.dtype[Any], size: int) -> npt.NDArray[Any]:
    """The array, or a contiguous copy of it."""
    if array.dtype != dtype or array.ndim != 1 or len(array) != size:
        raise InvalidArgument(
            f"a column of {size} values of {dtype} is needed, got {array.shape} of {array.dtype}"
        )
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


# Deltas of inserts only and columns without NULL share these; a kernel reads the first rows.
_SHARED_ROWS = 65536
_ONES = np.ones(_SHARED_ROWS, np.int64)
_ZEROS = np.zeros(_SHARED_ROWS, np.uint8)


def once_each(size: int) -> npt.NDArray[np.int64]:
    """Multiplicities of rows that are inserted once."""
    return _ONES if size <= _SHARED_ROWS else np.ones(size, np.int64)


def no_nulls(size: int) -> npt.NDArray[np.uint8]:
    """The mask of a column without NULL."""
    return _ZEROS if size <= _SHARED_ROWS else np.zeros(size, np.uint8)

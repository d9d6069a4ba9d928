"""Packed values between words and Arrow.

takes  a column of `width` floats per row, and the shape that says what they are
gives  the struct that SQL shows; and back, from what an engine computed
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.algebra.packed import Moments, Packed
from viewmill.algebra.rings import RingCall
from viewmill.algebra.types import BIGINT
from viewmill.deltas.least_squares import Centred, fit, low_parts

Floats = npt.NDArray[np.float64]


def encode_packed(array: Any, type_: Packed) -> npt.NDArray[Any]:
    """The words of what an engine gave: moments that are not solved, or the rows of each group."""
    shape = type_.shape
    if isinstance(shape, RingCall):
        return _ring_words(array, shape, type_)
    m, size = len(shape.names), len(array)
    words = np.zeros((size, shape.width))
    for i, value in enumerate(array.to_pylist()):
        if value is not None:
            words[i, 0] = value["n"]
            words[i, 1 : m + 1] = value["sums"]
            words[i, m + 1 : shape.size] = value["products"]
            words[i, shape.size :] = low_parts(words[i, : shape.size], m, value["central"])
    return words


def _ring_words(array: Any, call: RingCall, type_: Packed) -> npt.NDArray[Any]:
    """The ring's own functions over the rows that an engine gathered."""
    groups = [[tuple(row.values()) for row in rows or ()] for rows in array.to_pylist()]
    words = [call.words(rows) for rows in groups]
    if type_.is_single:
        dtype = np.int64 if type_.shown == BIGINT else np.float64
        return np.array([each[0] for each in words], dtype)
    return np.array(words, np.float64).reshape(len(words), call.width)


def decode_packed(words: npt.NDArray[Any], mask: Any, type_: Packed, arrow: Any) -> pa.Array:
    """The Arrow array that shows packed values."""
    shape = type_.shape
    nulls = [False] * len(words) if mask is None else mask.astype(bool).tolist()
    if isinstance(shape, RingCall):
        shown = words.tolist()
        if not type_.is_single and "float" not in shape.results:
            shown = [[int(x) for x in row] for row in shown]
        values = [None if null else row for row, null in zip(shown, nulls, strict=True)]
        return pa.array(values, arrow)
    show = _regression if shape.is_solved else _cofactor
    made = [None if null else show(row, shape) for row, null in zip(words, nulls, strict=True)]
    return pa.array(made, arrow, from_pandas=False)


def _cofactor(row: Floats, shape: Moments) -> dict[str, Any]:
    m = len(shape.names)
    return {
        "n": int(row[0]),
        "names": list(shape.names),
        "sums": row[1 : m + 1].tolist(),
        "products": row[m + 1 : shape.size].tolist(),
    }


def _regression(row: Floats, shape: Moments) -> dict[str, Any] | None:
    """The first column regressed on the others; NULL over no rows."""
    m = len(shape.names)
    if row[0] == 0:
        return None
    centred = Centred.of(m, row[: shape.size], row[shape.size :])
    centred.warn(shape.names)
    found = fit(centred, 0, list(range(1, m)))
    return {
        "n": int(row[0]),
        "label": shape.names[0],
        "names": list(shape.names[1:]),
        "intercept": found.intercept,
        "coefficients": found.coefficients.tolist(),
        "r2": found.r2,
    }

"""Packed values between words and Arrow.

takes  a column of `width` floats per row, and the shape that says what they are
gives  the struct that SQL shows; and back, from what an engine computed
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.algebra.packed import Moments
from viewmill.deltas.least_squares import Centred, fit, square

Floats = npt.NDArray[np.float64]


def encode_packed(array: Any, shape: Moments) -> Floats:
    """The words of an Arrow array of moments; an engine gives them unsolved."""
    m, size = len(shape.names), len(array)
    words = np.zeros((size, shape.width))
    for i, value in enumerate(array.to_pylist()):
        if value is not None:
            words[i, 0] = value["n"]
            words[i, 1 : m + 1] = value["sums"]
            words[i, m + 1 :] = value["products"]
    return words


def decode_packed(words: Floats, mask: Any, shape: Moments, type_: Any) -> pa.Array:
    """The Arrow array that shows packed values."""
    nulls = [False] * len(words) if mask is None else mask.astype(bool).tolist()
    show = _regression if shape.is_solved else _cofactor
    values = [None if null else show(row, shape) for row, null in zip(words, nulls, strict=True)]
    return pa.array(values, type_, from_pandas=False)


def _cofactor(row: Floats, shape: Moments) -> dict[str, Any]:
    m = len(shape.names)
    return {
        "n": int(row[0]),
        "names": list(shape.names),
        "sums": row[1 : m + 1].tolist(),
        "products": row[m + 1 :].tolist(),
    }


def _regression(row: Floats, shape: Moments) -> dict[str, Any] | None:
    """The first column regressed on the others; NULL over no rows."""
    m = len(shape.names)
    if row[0] == 0:
        return None
    centred = Centred.of(float(row[0]), row[1 : m + 1], square(m, row[m + 1 :]))
    found = fit(centred, 0, list(range(1, m)))
    return {
        "n": int(row[0]),
        "label": shape.names[0],
        "names": list(shape.names[1:]),
        "intercept": found.intercept,
        "coefficients": found.coefficients.tolist(),
        "r2": found.r2,
    }

"""Floats as Java writes them."""

from __future__ import annotations

import decimal
import math

import numpy as np


def float_text(value: float, *, short: bool = False) -> str:
    """1.0, 1.0E10, 1.0E-4, Infinity, NaN; `short` is a float of 32 bits."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    digits = decimal.Decimal(str(np.float32(value)) if short else repr(value))
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{digits:f}"
        return text if "." in text else text + ".0"
    sign, figures, exponent = digits.normalize().as_tuple()
    assert isinstance(exponent, int)
    rest = "".join(map(str, figures[1:])) or "0"
    return f"{'-' if sign else ''}{figures[0]}.{rest}E{exponent + len(figures) - 1}"

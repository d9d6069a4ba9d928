"""Floats that a ring keeps in an entry, as a list that is replaced and never changed."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from viewmill.kernels.plain.indexed import PlainIndexed

Block = list[Fraction]


def scratch(words: int) -> Block:
    """Room for a payload under way."""
    return [Fraction(0)] * words


def floats_at(s: PlainIndexed, e: int, k: int) -> Block:
    """The floats kept at word k of an entry."""
    kept = s.entries[e][1][k]
    assert isinstance(kept, list)
    return kept


def floats_clear(s: PlainIndexed, e: int, k: int, n: int) -> None:
    """Make n floats zero; there are no low parts."""
    if k in s.entries[e][1]:
        s.entries[e][1][k] = [Fraction(0)] * n


def floats_clear_low(s: PlainIndexed, e: int, k: int, n: int) -> None:
    """Nothing to do: fractions are exact and have no low parts."""


def floats_get(s: PlainIndexed, e: int, k: int) -> float:
    """The float at word k of an entry."""
    return float(floats_at(s, e, k)[0])


def floats_set(s: PlainIndexed, e: int, k: int, x: float) -> None:
    """The float at word k of an entry becomes x."""
    s.entries[e][1][k] = [_kept(x)]


def ints_set(s: PlainIndexed, e: int, k: int, x: int) -> None:
    """The integer at word k of an entry becomes x."""
    s.entries[e][1][k] = int(x)


def floats_put(p: Block, j: int, x: float) -> None:
    """Float j of a payload under way becomes x."""
    p[j] = _kept(x)


def _kept(x: float) -> Any:
    """A fraction, but of infinity and NaN, which stay what they are."""
    return Fraction(float(x)) if math.isfinite(x) else float(x)

"""Floats that a ring keeps in an entry, as a list that is replaced and never changed."""

from __future__ import annotations

from fractions import Fraction

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

"""Exact blocks of the cofactor ring: the numbers of a kept one are sum slots side by side."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from viewmill.kernels.plain.blocks import Block
from viewmill.kernels.plain.cofactor import (
    cofactor_join,
    cofactor_lift,
    cofactor_none,
    cofactor_turn,
    shown_block,
)

_WORDS = 3  # of a sum slot


def exact_block_none(p: Block, n: int) -> None:
    """The zero of the ring: n numbers."""
    cofactor_none(p, n)


def exact_block_lift(p: Block, m: int, xs: Sequence[float]) -> None:
    """The block of a row, m times."""
    cofactor_lift(p, [], m, xs)


def exact_block_at(s: Any, e: int, k: int, n: int) -> Block:
    """The n numbers kept at word k of an entry."""
    return [s.entries[e][1][k + _WORDS * j] for j in range(n)]


def exact_block_add(s: Any, e: int, k: int, p: Block, step: int, n: int) -> None:
    """A kept block += the block p."""
    for j in range(n):
        s.entries[e][1][k + _WORDS * j] += p[j]


def exact_block_add_floats(s: Any, e: int, k: int, p: Block, n: int) -> None:
    """A kept block += n numbers of two parts each."""
    for j in range(n):
        s.entries[e][1][k + _WORDS * j] += Fraction(p[j]) + Fraction(p[n + j])


def exact_block_join(
    p: Block, parts: Sequence[Block], steps: Sequence[int], sizes: Sequence[int]
) -> None:
    """The product of blocks over disjoint columns."""
    cofactor_join(p, [], parts, (), sizes)


def exact_block_turn(q: Block, p: Block, step: int, order: Sequence[int], columns: int) -> None:
    """A block with its columns in another order."""
    cofactor_turn(q, p, order, columns)


def exact_block_show(q: Block, s: Any, e: int, k: int, order: Sequence[int], columns: int) -> None:
    """Count, sums and products of a kept block, rounded, and what rounding takes."""
    size = (columns + 1) * (columns + 2) // 2
    q[:] = shown_block(exact_block_at(s, e, k, size), order, columns)

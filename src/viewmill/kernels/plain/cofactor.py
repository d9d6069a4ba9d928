"""The cofactor ring over exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement

from viewmill.kernels.plain.blocks import Block, floats_at
from viewmill.kernels.plain.indexed import PlainIndexed
from viewmill.kernels.plain.keyed import nearest_float


def cofactor_none(p: Block, n: int) -> None:
    """The zero of the ring."""
    p[:] = [Fraction(0)] * n


def cofactor_lift(p: Block, low: Block, m: int, xs: Sequence[float]) -> int:
    """The block of a row, m times; fractions have no low parts."""
    z = [Fraction(1), *(Fraction(float(x)) for x in xs)]
    p[:] = [int(m) * a * b for a, b in combinations_with_replacement(z, 2)]
    return 0


def cofactor_add(
    s: PlainIndexed, e: int, k: int, low: int, p: Block, rest: Block | int, n: int
) -> None:
    """A kept block += the block p."""
    kept = s.entries[e][1][k]
    assert isinstance(kept, list)
    if isinstance(rest, list):
        p = [a + b for a, b in zip(p, rest, strict=True)]
    s.entries[e][1][k] = [a + b for a, b in zip(kept, p, strict=False)] + kept[len(p) :]


def cofactor_add_whole(
    s: PlainIndexed, e: int, k: int, low: int, p: Block, rest: Block | int, n: int
) -> int:
    """A kept block += the block p; gives the entry, which never moves here."""
    cofactor_add(s, e, k, low, p, rest, n)
    return e


def floats_low(s: PlainIndexed, e: int, k: int, low: int, n: int, is_listed: int) -> int:
    """0: fractions are exact and have no low parts."""
    return 0


def cofactor_needs_low(rests: Sequence[object]) -> bool:
    """Never: fractions are exact and have no low parts."""
    return False


def cofactor_pad(q: Block, p: Block | int, columns: int, pad: int) -> Block | int:
    """Nothing is padded here."""
    return p


cofactor_add_total = cofactor_add


def cofactor_has_lost(
    s: PlainIndexed,
    e: int,
    k: int,
    low: int,
    n: int,
    columns: int,
    pad: int,
    gathered: Block | int,
) -> bool:
    """Never: fractions are exact."""
    return False


cofactor_has_lost_whole = cofactor_has_lost


def cofactor_begin(p: Block, columns: int, words: int) -> None:
    """Nothing to reset: nothing is gathered here."""
    cofactor_none(p, (columns + 1) * (columns + 2) // 2)


def cofactor_gather(p: Block, parts: Sequence[Block], sizes: Sequence[int], change: int) -> bool:
    """All is left to do."""
    return True


def cofactor_gather_more(
    p: Block, parts: Sequence[Block], sizes: Sequence[int], change: int
) -> None:
    """p += the product of blocks; nothing is padded here, and nothing gathered beside it."""
    made: Block = []
    cofactor_join(made, [], parts, (), sizes)
    p[:] = [a + b for a, b in zip(p, made, strict=True)]


def cofactor_gathered(p: Block, sizes: Sequence[int], change: int) -> Block:
    """All is in its place."""
    return p


def cofactor_join(
    p: Block, low: Block, parts: Sequence[Block], rests: Sequence[object], sizes: Sequence[int]
) -> int:
    """The product of blocks over disjoint columns, two at a time."""
    total, columns = [Fraction(1)], 0
    for part, size in zip(parts, sizes, strict=True):
        total = _product(_matrix(total, columns), _matrix(part, size))
        columns += size
    p[:] = total
    return 0


def cofactor_turn(q: Block, p: Block | int, order: Sequence[int], columns: int) -> Block | int:
    """A block with its columns in another order."""
    if isinstance(p, int):
        return 0
    full = _matrix(p, columns)
    chosen = [0, *(1 + i for i in order)]
    q[:] = [full[a][b] for a, b in combinations_with_replacement(chosen, 2)]
    return q


def _matrix(block: Block, k: int) -> list[list[Fraction]]:
    """The full symmetric matrix of a block."""
    found = iter(block)
    full = [[Fraction(0)] * (k + 1) for _ in range(k + 1)]
    for i in range(k + 1):
        for j in range(i, k + 1):
            full[i][j] = full[j][i] = next(found)
    return full


def _product(a: list[list[Fraction]], b: list[list[Fraction]]) -> list[Fraction]:
    """c = ca cb, s = (cb sa, ca sb), Q = [[cb Qa, sa sbᵀ], [.., ca Qb]]: definition 7.2."""
    left, right = len(a), len(b)

    def entry(i: int, j: int) -> Fraction:
        if j < left:
            return a[i][j] * b[0][0]
        if i < left:
            return a[0][i] * b[0][j - left + 1] if i else a[0][0] * b[0][j - left + 1]
        return a[0][0] * b[i - left + 1][j - left + 1]

    size = left + right - 1
    return [entry(i, j) for i in range(size) for j in range(i, size)]


def cofactor_show(
    q: Block,
    s: PlainIndexed,
    e: int,
    k: int,
    low: int,
    order: Sequence[int],
    columns: int,
    pad: int,
) -> None:
    """Count, sums and products of a block, its columns in another order; none if all rows left."""
    q[:] = shown_block(floats_at(s, e, k), order, columns)


def shown_block(block: Block, order: Sequence[int], columns: int) -> Block:
    """The numbers of a block rounded, its columns in another order, then what rounding takes."""
    full = _matrix(block, columns)
    chosen = [0, *(1 + i for i in order)]
    exact = [full[a][b] for a, b in combinations_with_replacement(chosen, 2)]
    if exact[0] <= 0:  # rows were deleted before they came
        exact = [Fraction(0)] * len(exact)
    shown = [Fraction(nearest_float(each)) for each in exact]
    return [*shown, *(a - b for a, b in zip(exact, shown, strict=True))]

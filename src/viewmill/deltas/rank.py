"""A matrix as a sum of few outer products.

takes  a matrix of floats or of whole numbers
gives  pairs (u, v) whose outer products add up to it: exactly for whole numbers, to rounding else
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[Any]

_ROUNDING = 1e-13  # against the largest entry
_MAX_FULL_RANK_CELLS = 1 << 20  # up to this size any rank below the full one is looked for
_MAX_EXACT_FLOAT = 2**53  # integers up to here are exact as floats


def low_rank(matrix: Matrix) -> list[tuple[Matrix, Matrix]]:
    """Outer products that add up to the matrix, as few as its rank if that is low."""
    found = _whole(matrix) if matrix.dtype == np.int64 else _crosses(matrix)
    return found if found is not None else _rows(matrix)


def _rows(matrix: Matrix) -> list[tuple[Matrix, Matrix]]:
    """One product for each row, or for each column if there are fewer: rows alike go together."""
    if matrix.shape[0] > matrix.shape[1]:
        return [(u, v) for v, u in _rows(matrix.T)]
    patterns, groups = np.unique(matrix, axis=0, return_inverse=True)
    kinds = range(len(patterns))
    one = np.ones((), matrix.dtype)
    return [
        (np.where(groups.ravel() == k, one, one - one), patterns[k])
        for k in kinds
        if patterns[k].any()
    ]


def _crosses(matrix: Matrix) -> list[tuple[Matrix, Matrix]] | None:
    """Elimination with complete pivoting: each step takes the cross of the largest entry away."""
    rest = matrix.astype(np.float64)
    largest = np.abs(rest).max(initial=0.0)
    found: list[tuple[Matrix, Matrix]] = []
    for _ in range(_most(matrix)):
        at = int(np.abs(rest).argmax())
        i, j = divmod(at, rest.shape[1])
        pivot = rest[i, j]
        if abs(pivot) <= _ROUNDING * largest or not np.isfinite(pivot):
            return found if np.isfinite(pivot) else None
        u, v = rest[:, j] / pivot, rest[i].copy()
        found.append((u, v))
        rest -= np.outer(u, v)
        rest[i], rest[:, j] = 0.0, 0.0  # but for rounding they are
    return found if np.abs(rest).max() <= _ROUNDING * largest else None


def _most(matrix: Matrix) -> int:
    """The most products worth looking for: with more, the rows themselves are no longer."""
    height, width = matrix.shape
    least = min(height, width) - 1
    if height * width <= _MAX_FULL_RANK_CELLS:
        return int(least)
    return int(min(height * width // (height + width), least))


def _whole(matrix: Matrix) -> list[tuple[Matrix, Matrix]] | None:
    """A basis of what the rows generate, by Euclid's algorithm on columns; then coordinates."""
    basis = _basis(matrix)
    if basis is None:
        return None
    rest, found = matrix.copy(), []
    for j, v in basis:
        u, remainder = np.divmod(rest[:, j], v[j])
        if remainder.any():
            return None
        rest -= np.outer(u, v)
        found.append((u, v))
    return found if not rest.any() else None


def _basis(matrix: Matrix) -> list[tuple[int, Matrix]] | None:
    rows = np.unique(matrix[matrix.any(axis=1)], axis=0)
    basis: list[tuple[int, Matrix]] = []
    for j in range(matrix.shape[1]):
        while True:
            live = np.flatnonzero(rows[:, j])
            if len(live) <= 1:
                break
            least = live[np.abs(rows[live, j]).argmin()]
            others = live[live != least]
            times = np.rint(rows[others, j] / rows[least, j]).astype(np.int64)
            rows[others] -= np.outer(times, rows[least])
            if np.abs(rows).max() > _MAX_EXACT_FLOAT:
                return None  # the numbers grow out of hand
        for i in live:
            basis.append((j, rows[i].copy()))
            rows[i] = 0
        rows = np.unique(rows[rows.any(axis=1)], axis=0)
        if not len(rows):
            return basis
        if len(basis) >= _most(matrix):
            return None
    return basis

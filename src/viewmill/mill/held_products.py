"""Products that a checked table holds factorized beside its index, and how they are validated.

A table without a key accepts any product of inserts. A table with a key accepts one only while it
is empty, if no key repeats. Deletes are validated row by row, so the only product with deletes that
is accepted is the exact opposite of a held one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viewmill.deltas.consolidate import group_rows
from viewmill.deltas.delta import Delta, Mask, Words
from viewmill.deltas.product import Factor, Product
from viewmill.errors import ForbiddenChange


class HeldProducts:
    """Committed products, and the staged ones of the current batch."""

    def __init__(self, table: str, keys: Sequence[int]) -> None:
        self._table, self._keys = table, frozenset(keys)
        self.committed: list[Product] = []
        self.staged: list[Product] = []
        self._leaving: list[Product] = []

    def stage(self, product: Product, *, is_empty: bool) -> None:
        """Add a product or cancel a held one; raises if validation would need single rows."""
        opposite = next((each for each in self.committed if is_opposite(each, product)), None)
        if opposite is not None and not any(each is opposite for each in self._leaving):
            self._leaving.append(opposite)
            return
        if product.has_deletes:
            raise self._refusal(
                "which rows it deletes can only be judged one by one",
                "Give the rows themselves to mill.delete, or declare the table UNCHECKED.",
            )
        if self._keys and not (is_empty and not self.staged and self._is_unique(product)):
            raise self._refusal(
                "whether its keys are there already can only be judged one by one",
                "Give the rows themselves to mill.insert, or declare the table without a key.",
            )
        self.staged.append(product)

    def _refusal(self, detail: str, hint: str) -> ForbiddenChange:
        return ForbiddenChange(
            f'table "{self._table}" is checked and does not take this product',
            detail=f"It is kept as a product, and {detail}.",
            hint=hint,
        )

    def _is_unique(self, product: Product) -> bool:
        """Whether no key repeats, which holds if none repeats within any factor."""
        for factor in product.factors:
            times = factor.rows.multiplicity
            if times is not None and bool((times != 1).any()):
                return False
            own = [i for i, at in enumerate(factor.columns) if at in self._keys]
            words = np.ascontiguousarray(factor.rows.words()[:, own])
            if factor.size > 1 and (not own or len(group_rows(words)[0]) < factor.size):
                return False
        return True

    def commit(self) -> None:
        """Commit the staged products."""
        if self._leaving:
            gone = {id(each) for each in self._leaving}
            self.committed = [each for each in self.committed if id(each) not in gone]
        if self.staged or self._leaving:
            self.committed += self.staged
            self.rollback()

    def rollback(self) -> None:
        """Drop the staged products."""
        self.staged, self._leaving = [], []

    def changes(self) -> list[Delta]:
        """The rows of the staged products."""
        gone = [each.delta().negated() for each in self._leaving]
        return [each.delta() for each in self.staged] + gone

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(each.nbytes for each in self.committed)


def is_opposite(left: Product, right: Product) -> bool:
    """Whether two products with equal factors cancel out."""
    if len(left.factors) != len(right.factors) or left.value != right.value:
        return False
    sign = 1
    for ours, theirs in zip(left.factors, right.factors, strict=True):
        found = _sign(ours, theirs)
        if found is None:
            return False
        sign *= found
    return sign == -1


def _sign(ours: Factor, theirs: Factor) -> int | None:
    """1 if two factors are equal, -1 if they are opposite, None if neither."""
    same = (
        ours.columns == theirs.columns
        and ours.size == theirs.size
        and all(map(_equal, ours.rows.columns, theirs.rows.columns))
        and all(map(_equal_masks, ours.rows.nulls, theirs.rows.nulls))
        and _equal(ours.values, theirs.values)
        and _equal_masks(ours.value_nulls, theirs.value_nulls)
    )
    if not same:
        return None
    a, b = ours.rows.multiplicities(), theirs.rows.multiplicities()
    if np.array_equal(a, b):
        return 1
    return -1 if np.array_equal(a, -b) else None


def _equal(left: Words | None, right: Words | None) -> bool:
    if left is None or right is None:
        return left is right
    return np.array_equal(left, right)


def _equal_masks(left: Mask | None, right: Mask | None) -> bool:
    empty = left is None or not left.any(), right is None or not right.any()
    if any(empty):
        return all(empty)
    return np.array_equal(left, right)  # type: ignore[arg-type]

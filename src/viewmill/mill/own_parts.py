"""The time parts that a pattern keeps of rows that are in none: those of a view, or of any table.

takes  deltas of a view or a table, the column that orders them
gives  the rows of each part; how long a part is follows from how many rows there are
"""

from __future__ import annotations

import numpy as np

from viewmill.algebra.schema import Schema
from viewmill.deltas.part_rows import PartRows, split_parts
from viewmill.mill.parted import Parted, PartOptions

PART_SECONDS = 60
_WANTED_ROWS = 1024  # of a part
_MOST_ROWS = 8192


class OwnParts(Parted):
    """Parts that their one reader stages, commits and rolls back."""

    def __init__(self, name: str, schema: Schema, order_by: str, *, is_fitted: bool) -> None:
        """`is_fitted`: parts may become shorter, as nobody shows them."""
        super().__init__(name, schema, PartOptions(order_by, PART_SECONDS))
        self._is_fitted = is_fitted

    def commit(self, version: int) -> None:
        """Commit the staged changes; parts with many rows are cut into shorter ones."""
        grown = [p for p in self._rows.staged if self._rows.part(p).size > _MOST_ROWS]
        super().commit(version)
        if grown and self._is_fitted:
            self._fit()

    def _fit(self) -> None:
        """Choose how long a part is, so that it has about so many rows as are wanted."""
        rows = self._rows.contents()
        moments = np.unique(self._moments(rows)) * self._scale
        if len(moments) < 2 * _WANTED_ROWS:
            return  # rows of one moment stay together
        gap = int(moments[-1] - moments[0]) * _WANTED_ROWS // rows.size
        unit = max(1, min(gap, self._unit // 2))
        if unit == self._unit:
            return
        self._unit, self._rows, self._catalog = unit, PartRows(self.schema), {}
        for subscript, part in split_parts(rows, self.subscripts(rows)):
            self._rows.stage(subscript, part)
            self._newest = subscript
        self._rows.commit()
        for holder in self.holders:
            holder.forget_order()

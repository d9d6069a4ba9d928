"""Images of rows in the order in which they came, and what they change together.

takes  rows, each of which came or went, of a table with or without a primary key
gives  a step: the last image of each key counts; without a key every image does
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.errors import InvalidRow
from viewmill.sources.source import Offsets, Patch, Step

_AT = "_viewmill_at"


@dataclass(frozen=True)
class Images:
    """Rows with the columns of a table; `gone` says which of them went.

    `replaces`: the table was emptied before them. `unchanged` is a text that stands for a value
    that was not sent.
    """

    rows: pa.Table
    gone: npt.NDArray[np.bool_]
    replaces: bool = False
    unchanged: str | None = None

    def step(self, key: Sequence[str], offsets: Offsets) -> Step:
        """What they change."""
        if not key:
            come, gone = self._where(~self.gone), self._where(self.gone)
            return Step(come, offsets, gone, replaces=self.replaces)
        for name in key:
            if self.rows[name].null_count:
                raise InvalidRow(f'its key column "{name}" is NULL')
        last = self._filled(key)._last(key)
        come, gone = last._where(~last.gone), last._where(last.gone).select(list(key))
        come, patches = last._patches(come, key)
        return Step(
            None, offsets, replaces=self.replaces, upserted=come, removed=gone, patches=patches
        )

    def _where(self, mask: npt.NDArray[np.bool_]) -> pa.Table:
        return self.rows if mask.all() else self.rows.filter(pa.array(mask))

    def _last(self, key: Sequence[str]) -> Images:
        """The last image of each key."""
        at = pa.array(np.arange(self.rows.num_rows))
        keys = self.rows.select(list(key)).append_column(_AT, at)
        found = keys.group_by(list(key)).aggregate([(_AT, "max")])[f"{_AT}_max"]
        last = np.sort(found.to_numpy())
        if len(last) == self.rows.num_rows:
            return self
        return Images(
            self.rows.take(pa.array(last)), self.gone[last], self.replaces, self.unchanged
        )

    def _marked(self) -> list[str]:
        """The columns in which values were not sent."""
        if self.unchanged is None:
            return []
        texts = [each.name for each in self.rows.schema if pa.types.is_string(each.type)]
        return [each for each in texts if self.unchanged in self._values(each)]

    def _values(self, name: str) -> set[Any]:
        return set(self.rows[name].unique().to_pylist())

    def _filled(self, key: Sequence[str]) -> Images:
        """Values that were not sent, from earlier images of the same key."""
        marked = self._marked()
        if not marked:
            return self
        rows = self.rows.to_pylist()
        known: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row, gone in zip(rows, self.gone, strict=True):
            of = tuple(row[name] for name in key)
            earlier = known.get(of)
            for name in marked:
                if row[name] == self.unchanged and earlier is not None:
                    row[name] = earlier[name]
            known[of] = row
            if gone:
                del known[of]
        filled = pa.Table.from_pylist(rows, self.rows.schema)
        return Images(filled, self.gone, self.replaces, self.unchanged)

    def _patches(self, come: pa.Table, key: Sequence[str]) -> tuple[pa.Table, tuple[Patch, ...]]:
        """Whole rows, and apart from them those that lack values."""
        marked = self._marked()
        if not marked or not come.num_rows:
            return come, ()
        lacks = np.array(
            [[each == self.unchanged for each in come[name].to_pylist()] for name in marked]
        )
        patches = []
        for kind in np.unique(lacks, axis=1).T:
            if kind.any():
                same = (lacks == kind[:, None]).all(axis=0)
                left = [name for name, is_gone in zip(marked, kind, strict=True) if is_gone]
                rows = come.filter(pa.array(same))
                patches.append(Patch(rows.drop_columns(left), rows.select(list(key))))
        return come.filter(pa.array(~lacks.any(axis=0))), tuple(patches)

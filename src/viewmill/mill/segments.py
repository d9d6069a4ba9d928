"""Rows of a table that needs no index: deltas one behind the other, merged in tiers.

A million single-row inserts must not become a million small arrays, and no insert may copy the whole
table: sixteen neighbours of one tier become one of the next.
"""

from __future__ import annotations

from viewmill.algebra.schema import Schema
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat

_FAN = 16


class Segments:
    """Committed deltas by tier, and those of the batch under way."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._tiers: list[list[Delta]] = []
        self._staged: list[Delta] = []
        self._has_deletes = False

    def stage(self, delta: Delta) -> None:
        """Add a delta that is not committed yet."""
        self._staged.append(delta)

    def commit(self) -> None:
        """Keep what was staged."""
        for delta in self._staged:
            if delta.size:
                self._push(0, delta)
                if delta.multiplicity is not None and (delta.multiplicity < 0).any():
                    self._has_deletes = True
        self._staged.clear()

    def rollback(self) -> None:
        """Forget what was staged."""
        self._staged.clear()

    def _push(self, tier: int, delta: Delta) -> None:
        while len(self._tiers) <= tier:
            self._tiers.append([])
        self._tiers[tier].append(delta)
        if len(self._tiers[tier]) == _FAN:
            merged = concat(self._schema, self._tiers[tier])
            self._tiers[tier] = []
            self._push(tier + 1, merged)

    def contents(self) -> Delta:
        """All rows in order of arrival, what is staged included; opposite rows are netted."""
        committed = [delta for tier in reversed(self._tiers) for delta in tier]
        if not committed and not self._staged:
            return Delta.empty(self._schema)
        whole = concat(self._schema, [*committed, *self._staged])
        if not self._has_deletes and not any(
            each.multiplicity is not None for each in self._staged
        ):
            if not self._staged and len(committed) > 1:
                self._tiers = [[] for _ in self._tiers[:-1]] + [[whole]]
            return whole
        netted = consolidate(whole)
        if not self._staged:
            self._tiers = [[] for _ in self._tiers[:-1]] + [[netted]]
        return netted

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        deltas = [delta for tier in self._tiers for delta in tier]
        return sum(column.nbytes for delta in deltas for column in delta.columns)

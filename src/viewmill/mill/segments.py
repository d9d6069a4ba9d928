"""The rows of a table without an index: a log of deltas whose small segments are merged in tiers.

A million single-row inserts must not become a million small arrays, nor may an insert copy the
whole table: sixteen small segments of one tier are merged into one of the next; large segments stay
as they are. Deleted rows are removed once the log may have doubled in size because of them.
Products stay factorized until rows are read.
"""

from __future__ import annotations

from viewmill.algebra.schema import Schema
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.lazy_columns import LazyWords
from viewmill.deltas.product import Product, rows_of

_FAN = 16
_MAX_MERGED_ROWS = 512  # larger segments are not merged any further
_NETTED = 1 << 16  # rows at which inserts and deletes are first cancelled out
_MAX_UNMERGED = 4  # so few small segments before a large one are cheaper to keep than to copy


class Segments:
    """Committed deltas by tier, and the staged ones of the current batch."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        # Older than everything in the tiers; in order of arrival.
        self._large: list[Delta | Product] = []
        self._tiers: list[list[Delta]] = []  # higher tiers are older
        self._staged: list[Delta | Product] = []
        self._has_deletes = False
        self._held, self._net_at = 0, _NETTED  # rows, and the number at which they are netted next

    def stage(self, change: Delta | Product) -> None:
        """Add a change without committing it."""
        self._staged.append(change)

    def commit(self) -> None:
        """Commit the staged changes."""
        staged, self._staged = self._staged, []
        for change in staged:
            if change.size:
                self.keep(change)

    def keep(self, change: Delta | Product) -> None:
        """Add a change and commit it."""
        if isinstance(change, Delta) and type(change.columns) is LazyWords:
            change.columns.lazy.forget()  # the views have read what they need
        if not self._has_deletes and change.deletes > 0:
            self._has_deletes, self._net_at = True, max(_NETTED, 2 * self._held)
        if change.size >= _MAX_MERGED_ROWS and not self._tiers:
            self._large.append(change)
        else:
            self._add(change)
        self._held += change.size
        if self._has_deletes and self._held > self._net_at and not self._staged:
            self._net_at = max(_NETTED, 2 * self.contents().size)

    def _keep_all(self, rows: Delta) -> None:
        """Replace all segments by one."""
        self._large, self._tiers, self._held = [rows], [], rows.size

    def rollback(self) -> None:
        """Drop the staged changes."""
        self._staged.clear()

    def _add(self, change: Delta | Product) -> None:
        if isinstance(change, Delta) and change.size < _MAX_MERGED_ROWS:
            self._push(0, change)
            return
        self._seal()
        self._large.append(change)

    def _seal(self) -> None:
        """Move the tiers to the large segments, so that the next segment comes after them."""
        waiting = [delta for tier in reversed(self._tiers) for delta in tier]
        self._large += waiting if len(waiting) <= _MAX_UNMERGED else [concat(self._schema, waiting)]
        self._tiers = []

    def _push(self, tier: int, delta: Delta) -> None:
        while len(self._tiers) <= tier:
            self._tiers.append([])
        self._tiers[tier].append(delta)
        if len(self._tiers[tier]) == _FAN:
            merged = concat(self._schema, self._tiers[tier])
            self._tiers[tier] = []
            if merged.size < _MAX_MERGED_ROWS:
                self._push(tier + 1, merged)
            else:
                self._tiers[tier].append(merged)
                self._seal()

    @property
    def is_empty(self) -> bool:
        """Whether there is no row, staged or committed."""
        return not (self._large or any(self._tiers) or self._staged)

    def take(self) -> list[Delta]:
        """Remove and return the committed rows, in order of arrival."""
        held = [*self._large, *(delta for tier in reversed(self._tiers) for delta in tier)]
        self._large, self._tiers, self._held = [], [], 0
        return [rows_of(each) for each in held]

    @property
    def may_have_negative_rows(self) -> bool:
        """Whether a row may have a negative multiplicity: deleted before it was inserted."""
        return self._has_deletes or bool(self._staged)

    def contents(self) -> Delta:
        """All rows in order of arrival, with staged changes; inserts and deletes cancel out."""
        committed = [*self._large, *(delta for tier in reversed(self._tiers) for delta in tier)]
        if not committed and not self._staged:
            return Delta.empty(self._schema)
        whole = concat(self._schema, [rows_of(each) for each in (*committed, *self._staged)])
        if not self._has_deletes and not any(has_deletes(each) for each in self._staged):
            if not self._staged:
                self._keep_all(whole)
            return whole
        netted = consolidate(whole)
        if not self._staged:
            self._keep_all(netted)
        return netted

    @property
    def products(self) -> list[Product]:
        """The committed changes that are still products."""
        return [each for each in self._large if isinstance(each, Product)]

    def listed(self) -> Delta:
        """The committed rows that are not in a product."""
        tiers = (delta for tier in reversed(self._tiers) for delta in tier)
        rows = [*(each for each in self._large if isinstance(each, Delta)), *tiers]
        return concat(self._schema, rows) if rows else Delta.empty(self._schema)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        held = [*self._large, *(delta for tier in self._tiers for delta in tier)]
        return sum(each.nbytes for each in held)


def has_deletes(change: Delta | Product) -> bool:
    """Whether a change has deletes."""
    return change.deletes > 0

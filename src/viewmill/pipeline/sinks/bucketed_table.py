"""The view as a table of which a change rewrites only the buckets that it touches.

takes  a view, the files of a table
does   keeps a small table in one file, which is replaced; a larger one in buckets by a hash of the
       group's columns. All rows are read from the view only at a start

Nothing needs to be prepared: what a crash left out is found at the next start, when the digests of
the buckets are compared with those of the view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from viewmill.deltas.arrow_types import in_utc
from viewmill.mill.changes import Change
from viewmill.mill.sorting import sort_keys
from viewmill.mill.view import View
from viewmill.pipeline.sinks.apply_change import OutOfStep, net_change, rows_after
from viewmill.pipeline.sinks.buckets import (
    ROWS,
    Bucket,
    Layout,
    Positions,
    cut,
    depth_for,
    largest_bucket,
    split,
)
from viewmill.pipeline.sinks.row_hashes import Hashed, RowHashes, group_columns
from viewmill.sinks.sink import MULTIPLICITY

_AT_ONCE = 32  # buckets whose rows are in memory together


class TableFiles(Protocol):
    """The files of one table. What is written is not seen before it is committed."""

    @property
    def can_bucket(self) -> bool:
        """Whether several files can be replaced at once."""

    def check(self) -> bool:
        """Whether the files are those that we left; raises if others changed rows."""

    def names(self) -> Sequence[str]:
        """The files that readers see."""

    def replace(self, rows: pa.Table, version: int) -> None:
        """Make one file the whole table."""

    def read(self, names: Iterable[str]) -> pa.Table:
        """The rows of some files."""

    def write(self, name: str, rows: pa.Table, version: int) -> None:
        """Write a file."""

    def commit(
        self, names: Sequence[str], schema: pa.Schema, version: int, *, is_new: bool
    ) -> None:
        """Make these files the whole table; if `is_new`, all of them were just written."""


class BucketedTable:
    """A sink that keeps `files` equal to a view."""

    can_catch_up = True

    def __init__(self, files: TableFiles) -> None:
        self._files = files
        self._layout: Layout | None = None
        self._pending: list[pa.Table] | None = None  # None: nobody knows, so all rows are compared
        self._is_due = False
        self.name: str | None = None

    def open(self, view: View, pipeline: str) -> None:
        """Subscribe to the view, since most versions do not change it."""
        query = view.query
        self._hashes = RowHashes(group_columns(query), len(query.schema.fields), pipeline)
        self._is_ordered = bool(sort_keys(query))
        view.subscribe(self._note)

    def _note(self, change: Change) -> None:
        self._is_due = True
        if self._pending is None or self._layout is None:
            return
        if change.is_whole or len(change) * 2 > self._layout.rows:
            self._pending = None
        else:
            self._pending.append(in_utc(change.to_arrow()))

    def check(self, view: View, *, has_all: bool) -> None:
        """All rows can be read from the view; the table must still be ours."""
        self._files.check()

    def recover(self, version: int, view: View, *, has_all: bool) -> None:
        """Nothing to do: nothing was prepared."""

    def prepare(self, version: int, change: Change | None) -> None:
        """Refuse the version if the table is not as we left it."""
        if change is not None:
            self._files.check()

    def begin(self, version: int, view: View) -> None:
        """Compare the table with the view: it may have an older version or definition of it."""
        self._layout = Layout.read(self._files.names())
        self._is_due, self._pending = True, None
        self.publish(version, view)

    def publish(self, version: int, view: View) -> None:
        """Write what changed; a deferred view may be at an older version."""
        if not self._is_due:
            return
        shown = version if view.is_immediate else int(view.status()["version"])
        pending, self._pending = self._pending, None  # if this fails, all rows are compared
        if not self._files.check():
            self._layout = None
        if self._is_small(len(view)):
            self._files.replace(view.to_arrow(), shown)
            self._layout = None
        elif pending is None or self._layout is None:
            self._write_all(view, shown)
        else:
            self._write_changed(view, self._layout, pending, shown)
        self._is_due, self._pending = False, []

    def _is_small(self, rows: int) -> bool:
        if self._is_ordered or not (rows > ROWS // 2 and self._files.can_bucket):
            return True
        return self._layout is None and rows <= ROWS

    def _write_all(self, view: View, version: int) -> None:
        """Write the buckets that differ from the view's rows."""
        hashed = self._hashes.of(in_utc(view.to_arrow()))
        rows = len(hashed.digests)
        largest = largest_bucket(rows)
        before = self._layout
        if before is not None and not self._has_columns(before, hashed.rows.schema):
            before = None
        if before is None or not before.rows // 4 <= rows <= before.rows * 4:
            made = list(cut(hashed, depth_for(rows, largest), version))
        else:
            made = list(_in_buckets(hashed, before, largest, version))
        known = {(each.depth, each.prefix): each for each in before.buckets} if before else {}
        kept, come = [], []
        for bucket, part in made:
            old = known.get((bucket.depth, bucket.prefix))
            if old is not None and old.holds(bucket):
                kept.append(old)
            else:
                come.append((bucket, part))
        if come or before is None or len(kept) < len(before.buckets):
            self._commit(kept, come, hashed.rows.schema, version, is_new=before is None)

    def _has_columns(self, layout: Layout, schema: pa.Schema) -> bool:
        file = layout.buckets[0].name
        return bool(self._files.read([file]).schema.equals(schema.remove_metadata()))

    def _write_changed(
        self, view: View, layout: Layout, pending: list[pa.Table], version: int
    ) -> None:
        """Write the buckets that a change touches."""
        change = net_change(pending)
        times = change.column(MULTIPLICITY).to_numpy()
        plain = self._hashes.of(change.drop_columns([MULTIPLICITY]))
        hashed = Hashed(change, plain.places, plain.digests)
        at = layout.places(hashed.places)
        touched = np.unique(at[at >= 0])
        if len(touched) * 2 > len(layout.buckets):  # to read the view is cheaper than the files
            self._write_all(view, version)
            return
        try:
            if (times[at < 0] < 0).any():
                raise OutOfStep
            come = self._changed(layout, hashed, touched, layout.rows + int(times.sum()), version)
            kept = [each for i, each in enumerate(layout.buckets) if i not in set(touched.tolist())]
            self._commit(kept, come, plain.rows.schema, version, is_new=False)
        except OutOfStep:  # the view was filled anew, with other sums of floats, say
            self._write_all(view, version)

    def _changed(
        self, layout: Layout, change: Hashed, touched: Positions, rows: int, version: int
    ) -> Iterator[tuple[Bucket, Hashed]]:
        """The touched buckets after the change, some at a time."""
        at = layout.places(change.places)
        largest = largest_bucket(rows)
        for some in np.array_split(touched, -(-len(touched) // _AT_ONCE) or 1):
            names = [layout.buckets[i].name for i in some]
            if names:
                before = self._hashes.of(self._files.read(names))
                part = change.take(np.flatnonzero(np.isin(at, some)))
                after = self._hashes.of(rows_after(before, part))
                yield from _in_buckets(after, layout, largest, version)
        fresh = change.take(np.flatnonzero(at < 0))  # where no bucket is
        if len(fresh.places):
            nothing = fresh.take(np.zeros(0, np.int64))
            empty = nothing._replace(rows=nothing.rows.drop_columns([MULTIPLICITY]))
            after = self._hashes.of(rows_after(empty, fresh))
            yield from _in_buckets(after, layout, largest, version)

    def _commit(
        self,
        kept: list[Bucket],
        come: Iterable[tuple[Bucket, Hashed]],
        schema: pa.Schema,
        version: int,
        *,
        is_new: bool,
    ) -> None:
        made = list(kept)
        for bucket, hashed in come:
            self._files.write(bucket.name, hashed.rows, version)
            made.append(bucket)
        self._files.commit([each.name for each in made], schema, version, is_new=is_new)
        self._layout = Layout(made)


def _in_buckets(
    hashed: Hashed, layout: Layout, largest: int, version: int
) -> Iterator[tuple[Bucket, Hashed]]:
    """The rows in the buckets of a layout, split where there are too many."""
    at = layout.places(hashed.places)
    depths = np.array([each.depth for each in layout.buckets] or [0])
    for depth in np.unique(depths[at]) if len(at) else []:
        part = np.flatnonzero((at >= 0) & (depths[at] == depth))
        yield from split(hashed.take(part), int(depth), largest, version)
    lost = np.flatnonzero(at < 0)
    if len(lost):
        yield from split(hashed.take(lost), layout.depth, largest, version)

"""The changes of a view, version after version, each delivered once.

takes  the change of the view by each version
does   writes it to a hidden file before the commit; after it, `deliver`s the files in order

Whether a crash repeats a delivery depends on the receiver: a rename or a commit to Delta makes a
version visible once, but a function may be called with the last version again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.feather as feather

from viewmill.algebra.schema import Field, Schema
from viewmill.deltas.arrow import decode_delta, from_arrow_type
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.rows import to_delta
from viewmill.errors import ForbiddenChange, UnsupportedQuery
from viewmill.mill.changes import Change
from viewmill.mill.storage import disk
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.storage.files import NewFile, sync_file, sync_folder
from viewmill.mill.view import View
from viewmill.pipeline.sinks.owner import Owner
from viewmill.sinks.change_rows import with_multiplicity
from viewmill.sinks.sink import MULTIPLICITY


class Delivery(NamedTuple):
    """How changes are prepared and delivered.

    write    the change with `_multiplicity`, its version, and the hidden file for it
    deliver  the hidden file and its version; the file must be gone afterwards
    net      the rows that all deliveries so far make up, with `_multiplicity`; None if unknown
    """

    write: Callable[[pa.Table, int, Path], None]
    deliver: Callable[[Path, int], None]
    net: Callable[[pa.Schema], pa.Table] | None = None


class ChangeSink:
    """Keeps prepared changes in hidden files in `folder`, named by version, until delivered."""

    def __init__(self, name: str, folder: Path, delivery: Delivery, shown: str = "") -> None:
        self.name, self._folder, self._delivery = name, folder, delivery
        self._owner = Owner(folder, *([shown] if shown else []))

    @property
    def can_catch_up(self) -> bool:
        """Whether the delivered rows can be read back."""
        return self._delivery.net is not None

    def open(self, view: View, pipeline: str) -> None:
        """Check that the folder is ours; missed changes are caught up on later."""
        if not view.is_immediate:
            raise UnsupportedQuery(
                f'the changes of view "{view.name}" cannot be followed: it is refreshed later',
                detail="Its changes between refreshes are not kept over a restart.",
                hint='Use mode="table", or REFRESH IMMEDIATE.',
            )
        self._owner.open(view.name, pipeline)

    def check(self, view: View, *, has_all: bool) -> None:
        """Raise if changes were missed and the delivered rows cannot be read back."""
        self._owner.check()
        if has_all or not self._owner.has_begun:
            return
        if self._delivery.net is not None:  # which reads what was delivered
            self._delivery.net(with_multiplicity(view.to_arrow().slice(0, 0), 1).schema)
        else:
            raise ForbiddenChange(
                f'the sink of view "{view.name}" has missed changes',
                detail="The pipeline ran without it, or the view was dropped or defined otherwise;"
                " nobody knows any more which rows it was sent.",
                hint=f"Remove {self._folder}: it starts with all rows of the view.",
            )

    def prepare(self, version: int, change: Change | None) -> None:
        """Write the change to a hidden file, after removing files of a failed attempt."""
        for file, at in self._prepared():
            if at >= version:
                disk.remove(file)
        if change is not None:
            self._write(change.to_arrow(), version)

    def _write(self, rows: pa.Table, version: int) -> None:
        file = self._folder / f".changes-{version:012d}"
        self._delivery.write(rows, version, file)
        sync_file(file)
        sync_folder(self._folder)

    def _prepared(self) -> list[tuple[Path, int]]:
        files = sorted(self._folder.glob(".changes-*"))
        return [(file, int(file.name.removeprefix(".changes-"))) for file in files]

    def publish(self, version: int, view: View) -> None:
        """Deliver the prepared changes in order."""
        for file, at in self._prepared():
            if at <= version:
                reach("change to deliver")
                self._delivery.deliver(file, at)

    def recover(self, version: int, view: View, *, has_all: bool) -> None:
        """Deliver committed changes, drop uncommitted ones, catch up on missed ones."""
        goes_on = has_all and self._owner.has_begun
        for file, at in self._prepared():
            if at > version or not goes_on:  # the difference has what was not delivered
                disk.remove(file)
        self.publish(version, view)
        if self._owner.has_begun and not has_all:
            now = view.status()["version"]
            self._catch_up(now, view)
            self.publish(now, view)

    def begin(self, version: int, view: View) -> None:
        """Start a new sink with all rows, delivered once the sink is marked as begun."""
        if not self._owner.has_begun:
            self._owner.claim()
            self._catch_up(version, view)
            reach("caught up")
            self._owner.claim(begun=True)
            self.publish(version, view)

    def _catch_up(self, version: int, view: View) -> None:
        """Prepare all rows of the view, minus the delivered rows if they can be read back."""
        rows = with_multiplicity(view.to_arrow(), 1)
        if self._delivery.net is not None:
            rows = _difference(rows, self._delivery.net(rows.schema))
        if rows.num_rows:
            self._write(rows, version)


def _difference(rows: pa.Table, net: pa.Table) -> pa.Table:
    """The change from `net` to `rows`; all with `_multiplicity`."""
    names = [each for each in rows.schema if each.name != MULTIPLICITY]
    schema = Schema(tuple(Field(each.name, from_arrow_type(each.type)) for each in names))
    dictionary = Dictionary()
    wanted = to_delta(rows, schema, dictionary, multiplicity=MULTIPLICITY)
    there = to_delta(net, schema, dictionary, multiplicity=MULTIPLICITY)
    lacking = consolidate(concat(schema, [wanted, there.negated()]))
    return decode_delta(lacking, dictionary, multiplicity=MULTIPLICITY)


def write_feather(rows: pa.Table, version: int, file: Path) -> None:
    """Write a change unaltered, for deliveries that read it back."""
    with NewFile(file) as out:
        feather.write_feather(rows, out, compression="uncompressed")

"""The changes of a view, version after version, each delivered once.

takes  the change of the view by each version
does   writes it to a hidden file before the commit; after it, `deliver`s the files in order

How often a delivery is seen after a crash is the receiver's affair: a rename and a commit to Delta
show a version once, a function may be called with the last version again.
"""

from __future__ import annotations

import json
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
from viewmill.errors import ForbiddenChange, UnsupportedQuery, WrongFormat
from viewmill.mill.changes import Change
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.view import View
from viewmill.pipeline.sinks.sink import MULTIPLICITY, with_multiplicity
from viewmill.pipeline.storage import sync_file, sync_folder, write_file

OWNER = "_viewmill.json"  # readers of a directory skip names that begin with _ or .


class Delivery(NamedTuple):
    """How changes are written down and handed over.

    write    the change with `_multiplicity`, its version, and the hidden file for it
    deliver  the hidden file and its version; the file must be gone afterwards
    net      the rows that all deliveries so far make up, with `_multiplicity`; None if unknown
    """

    write: Callable[[pa.Table, int, Path], None]
    deliver: Callable[[Path, int], None]
    net: Callable[[pa.Schema], pa.Table] | None = None


class ChangeSink:
    """Hidden files in `folder`, named by version, on their way to `delivery`."""

    def __init__(self, folder: Path, delivery: Delivery) -> None:
        self._folder, self._delivery = folder, delivery

    def open(self, view: View, pipeline: str) -> None:
        """Check whose the folder is; what it lacks of the view is caught up in `recover`."""
        if not view.is_immediate:
            raise UnsupportedQuery(
                f'the changes of view "{view.name}" cannot be followed: it is refreshed later',
                detail="Its changes between refreshes are not kept over a restart.",
                hint='Use mode="table", or REFRESH IMMEDIATE.',
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        owner = {"pipeline": pipeline, "view": view.name, "sql": view.sql}
        self._owner = json.dumps(owner).encode()
        self._known = self._read_owner(owner)

    def _read_owner(self, owner: dict[str, str]) -> bool:
        """Whether the folder already follows this view, as it is defined now."""
        file = self._folder / OWNER
        if not file.exists():
            return False
        saved = json.loads(file.read_text())
        if (saved.get("pipeline"), saved.get("view")) != (owner["pipeline"], owner["view"]):
            raise WrongFormat(
                f"{self._folder} holds the changes of another pipeline or view",
                hint="Give another directory, or remove it.",
            )
        if saved.get("sql") != owner["sql"] and self._delivery.net is None:
            raise ForbiddenChange(
                f'view "{owner["view"]}" is defined otherwise than when its changes were sent',
                hint="Give the sink another path: it starts with all rows of the view.",
            )
        return bool(saved.get("sql") == owner["sql"])

    def prepare(self, version: int, change: Change | None) -> None:
        """Write the change down; what an earlier try left is not wanted any more."""
        for file, at in self._prepared():
            if at >= version:
                file.unlink()
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
        """Deliver what was prepared."""
        for file, at in self._prepared():
            if at <= version:
                reach("change to deliver")
                self._delivery.deliver(file, at)

    def recover(self, version: int, view: View) -> None:
        """Deliver what was committed, forget what was not, catch up with what was never seen."""
        for file, at in self._prepared():
            if at > version:
                file.unlink()
        self.publish(version, view)
        if not self._known:
            self._catch_up(view)
            reach("caught up")
            write_file(self._folder / OWNER, self._owner)
            self._known = True

    def _catch_up(self, view: View) -> None:
        """A new sink starts with all rows; a view defined anew, with the difference."""
        rows = with_multiplicity(view.to_arrow(), 1)
        if self._delivery.net is not None:
            rows = _difference(rows, self._delivery.net(rows.schema))
        if rows.num_rows:
            version = view.status()["version"]
            self._write(rows, version)
            self.publish(version, view)


def _difference(rows: pa.Table, net: pa.Table) -> pa.Table:
    """What must be added to `net` to make it `rows`; all with `_multiplicity`."""
    names = [each for each in rows.schema if each.name != MULTIPLICITY]
    schema = Schema(tuple(Field(each.name, from_arrow_type(each.type)) for each in names))
    dictionary = Dictionary()
    wanted = to_delta(rows, schema, dictionary, multiplicity=MULTIPLICITY)
    there = to_delta(net, schema, dictionary, multiplicity=MULTIPLICITY)
    lacking = consolidate(concat(schema, [wanted, there.negated()]))
    return decode_delta(lacking, dictionary, multiplicity=MULTIPLICITY)


def write_feather(rows: pa.Table, version: int, file: Path) -> None:
    """A change as it is, for deliveries that read it back."""
    feather.write_feather(rows, str(file), compression="uncompressed")

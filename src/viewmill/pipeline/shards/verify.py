"""Compare what the driver gathered of a view with what the shards hold of it.

takes  Spark's checkpoint, whose state store has each slot's head, log and snapshot
does   makes every slot again in this process, as a worker would, and adds up what it shows

Shards keep no rows of sources, so this is what can be compared: states against results.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import concat
from viewmill.deltas.rows import to_delta
from viewmill.mill.mill import Mill
from viewmill.mill.verify import Difference, compare
from viewmill.pipeline.shards.gathered import gathered_rows
from viewmill.pipeline.shards.layout import MULTIPLICITY, Layout
from viewmill.pipeline.shards.slot import HEAD, SNAPSHOT, STATE, made_again
from viewmill.pipeline.shards.slot_bytes import Entry, Head, read_entry, read_head
from viewmill.pipeline.shards.views import ShardedView, gathering_table


def verify_shards(
    mill: Mill, spark: Any, checkpoint: Path, layout: Layout, view: ShardedView
) -> list[Difference]:
    """Rows of the gathering table that are there more or less often than shards say."""
    core, name = mill.core, view.program.view
    entry = core.catalog.table(gathering_table(name))
    stores = _read(spark, checkpoint)
    expected = []
    for slot in range(view.cells):
        store = stores.get(layout.keys[slot], StoreCopy())
        kept = made_again(layout, store, store.head(), [view.program])
        rows = gathered_rows(kept.members[name].contents()[name], kept.dictionary)
        schema = entry.table.schema
        expected.append(to_delta(rows, schema, core.dictionary, multiplicity=MULTIPLICITY))
    shown = consolidate(concat(entry.table.schema, expected))
    return compare(core, view.program.query, shown, core.contents(entry.name))


class StoreCopy:
    """One slot's part of the state store, read and not written."""

    def __init__(self) -> None:
        self.pieces: dict[tuple[int, int], bytes] = {}  # by version and place in it

    def head(self) -> Head:
        """What the store says about the slot."""
        content = self._read(HEAD)
        return read_head(content) if content else Head()

    def set_head(self, head: Head) -> None:
        """Nothing is written here."""
        raise AssertionError("a copy is only read")

    def entry(self, version: int) -> Entry:
        """One batch of the log."""
        return read_entry(self._read(version))

    def snapshot(self) -> bytes:
        """The states at the log's beginning."""
        return self._read(SNAPSHOT)

    def append(self, version: int, entry: Entry) -> None:
        """Nothing is written here."""
        raise AssertionError("a copy is only read")

    def replace(self, snapshot: bytes) -> None:
        """Nothing is written here."""
        raise AssertionError("a copy is only read")

    def _read(self, version: int) -> bytes:
        return b"".join(
            content for place, content in sorted(self.pieces.items()) if place[0] == version
        )


def _read(spark: Any, checkpoint: Path) -> dict[int, StoreCopy]:
    """The copies by the key of their slot."""
    found: dict[int, StoreCopy] = {}
    reader = spark.read.format("statestore").option("stateVarName", STATE)
    for row in reader.load(str(checkpoint)).collect():
        store = found.setdefault(row["key"][0], StoreCopy())
        version, piece = row["user_map_key"]
        store.pieces[version, piece] = bytes(row["user_map_value"][1])
    return found

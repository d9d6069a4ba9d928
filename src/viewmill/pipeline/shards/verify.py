"""Compare what the driver gathered of a view with what the shards hold of it.

takes  Spark's checkpoint, whose state store has each slot's head, log and snapshot
does   makes every slot again in this process, as a worker would, and adds up what it shows

Without an archive shards keep no rows of sources, so this is what can be compared: states against
results. With one, results are also compared with the view as the rows in the archive make it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.rows import to_delta
from viewmill.mill.mill import Mill
from viewmill.mill.verify import Difference, compare
from viewmill.pipeline.shards.gathered import gathered_rows
from viewmill.pipeline.shards.layout import MULTIPLICITY, Layout
from viewmill.pipeline.shards.slot import STATE, made_again
from viewmill.pipeline.shards.store_copy import StoreCopy
from viewmill.pipeline.shards.views import ShardedView, gathering_table


def verify_shards(
    mill: Mill, spark: Any, checkpoint: Path, layout: Layout, view: ShardedView
) -> list[Difference]:
    """Rows of the gathering table that are there more or less often than shards say."""
    name = view.program.view
    stores = _read(spark, checkpoint)
    expected = []
    for slot in range(view.cells):
        store = stores.get(layout.keys[slot], StoreCopy())
        kept = made_again(layout, slot, store, store.head(), [view.program])
        contents = kept.members[view.program.key].contents()[name]
        expected.append(gathered_rows(contents, kept.dictionary))
    return compare_gathered(mill, view, expected)


def compare_gathered(
    mill: Mill, view: ShardedView, expected: Sequence[pa.Table]
) -> list[Difference]:
    """Rows of the gathering table that are there more or less often than these tables say."""
    core = mill.core
    entry = core.catalog.table(gathering_table(view.program.view))
    schema = entry.table.schema
    deltas = [
        to_delta(rows, schema, core.dictionary, multiplicity=MULTIPLICITY) for rows in expected
    ]
    shown = consolidate(concat(schema, deltas)) if deltas else Delta.empty(schema)
    return compare(core, view.program.query, shown, core.contents(entry.name))


def _read(spark: Any, checkpoint: Path) -> dict[int, StoreCopy]:
    """The copies by the key of their slot."""
    found: dict[int, StoreCopy] = {}
    reader = spark.read.format("statestore").option("stateVarName", STATE)
    for row in reader.load(str(checkpoint)).collect():
        store = found.setdefault(row["key"][0], StoreCopy())
        version, piece = row["user_map_key"]
        store.pieces[version, piece] = bytes(row["user_map_value"][1])
    return found

"""The rows of a view as a DataFrame that executors make from the slots' states.

takes  Spark's checkpoint at the last batch that was done, the layout, a view whose slots hold rows
gives  a DataFrame; the driver sees none of its rows

Only where the view is what slots show, one after another: where the driver merges or filters what
they give, it has the result, and there is nothing to read from the slots.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import Project, Relation, Scan
from viewmill.deltas.arrow import arrow_schema
from viewmill.deltas.arrow_types import in_utc
from viewmill.pipeline.shards.gathered import gathered_rows
from viewmill.pipeline.shards.layout import MULTIPLICITY, Layout
from viewmill.pipeline.shards.slot import STATE, made_again
from viewmill.pipeline.shards.store_copy import StoreCopy
from viewmill.pipeline.shards.views import ShardedView
from viewmill.program.exchange import ByKey, HyperCube


def shown_columns(view: ShardedView, finish: Relation) -> list[int] | None:
    """Which columns of the slots' rows the view shows; None if it is not just these rows."""
    if not isinstance(view.exchange, ByKey | HyperCube) or view.exchange.finish:
        return None
    if isinstance(finish, Scan):
        return list(range(len(finish.schema)))
    if not (isinstance(finish, Project) and isinstance(finish.input, Scan)):
        return None
    there = [each.name for each in finish.input.schema]
    shown = [each for _, each in finish.outputs]
    if not all(isinstance(each, Column) and each.outer == 0 for each in shown):
        return None
    return [there.index(each.name) for each in shown if isinstance(each, Column)]


def distributed_rows(
    spark: Any, checkpoint: Path, batch: int, layout: Layout, view: ShardedView, finish: Relation
) -> Any:
    """The rows of a view after a batch; None if the slots do not hold them."""
    columns = shown_columns(view, finish)
    if columns is None:
        return None
    empty = in_utc(arrow_schema(finish.schema).empty_table())
    reader = spark.read.format("statestore").option("stateVarName", STATE)
    states = reader.option("batchId", batch).load(str(checkpoint))
    slot = states.schema["key"].dataType.names[0]
    pieces = states.selectExpr(
        f"key.`{slot}` AS slot",
        "user_map_key.version AS version",
        "user_map_key.piece AS piece",
        "user_map_value.content AS content",
    )
    if view.program.fill:  # slots that no row has reached since then have its rows, too
        keys = [(key,) for key in layout.keys[: view.cells]]
        every = spark.createDataFrame(keys, "slot INT")
        pieces = pieces.unionByName(every, allowMissingColumns=True)
    rows_of = _reader(layout, view, columns, empty.schema)
    return pieces.groupBy("slot").applyInArrow(rows_of, spark.createDataFrame(empty).schema)


def _reader(
    layout: Layout, view: ShardedView, columns: list[int], schema: pa.Schema
) -> Callable[[pa.Table], pa.Table]:
    """What an executor does with the pieces of one slot's state."""

    def rows_of(pieces: pa.Table) -> pa.Table:
        store = StoreCopy()
        for each in pieces.to_pylist():
            if each["version"] is not None:
                store.pieces[each["version"], each["piece"]] = each["content"]
        slot = layout.keys.index(pieces.column("slot")[0].as_py())
        kept = made_again(layout, slot, store, store.head(), [view.program])
        name, key = view.program.view, view.program.key
        rows = gathered_rows(kept.members[key].contents()[name], kept.dictionary)
        times = np.maximum(rows.column(MULTIPLICITY).to_numpy(), 0)
        positions = pa.array(np.repeat(np.arange(len(times)), times))
        return in_utc(rows.select(columns).rename_columns(schema.names).take(positions)).cast(
            schema
        )

    return rows_of

"""The rows of some buckets after a change.

takes  rows with their hashes, a change with `_multiplicity`
gives  the rows that are left and come; raises OutOfStep if a row that goes is not there
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewmill.algebra.schema import Field, Schema
from viewmill.deltas.arrow import decode_delta, from_arrow_type
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.rows import to_delta
from viewmill.pipeline.sinks.row_hashes import Hashed
from viewmill.sinks.change_rows import with_multiplicity
from viewmill.sinks.sink import MULTIPLICITY


class OutOfStep(Exception):
    """The files do not have a row that goes: they must be written from the view."""


def net_change(parts: list[pa.Table]) -> pa.Table:
    """The sum of changes, each row at most once."""
    together = pa.concat_tables(parts)
    fields = [each for each in together.schema if each.name != MULTIPLICITY]
    schema = Schema(tuple(Field(each.name, from_arrow_type(each.type)) for each in fields))
    dictionary = Dictionary()
    net = consolidate(to_delta(together, schema, dictionary, multiplicity=MULTIPLICITY))
    return decode_delta(net, dictionary, multiplicity=MULTIPLICITY).cast(together.schema)


def rows_after(before: Hashed, change: Hashed) -> pa.Table:
    """The rows of `before` after the change, whose last column is `_multiplicity`."""
    is_met = np.isin(before.digests, change.digests)
    met = before.rows.filter(pa.array(is_met))
    summed = net_change([with_multiplicity(met, 1), change.rows])
    times = summed.column(MULTIPLICITY).to_numpy()
    if (times < 0).any():
        raise OutOfStep
    positions = np.repeat(np.arange(len(times)), times)
    come = summed.drop_columns([MULTIPLICITY]).take(pa.array(positions))
    kept = before.rows.filter(pa.array(~is_met))
    return pa.concat_tables([kept, come.cast(kept.schema)])

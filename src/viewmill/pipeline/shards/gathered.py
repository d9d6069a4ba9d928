"""What shards give, as rows of the table in which the driver gathers it.

takes  the change of a view's part
gives  an Arrow table; the moments of columns, which no table holds as one value, number by number
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewmill.deltas.arrow import decode_column
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.pipeline.shards.layout import MULTIPLICITY
from viewmill.planner.sharding.moments import gathered_schema, moments_of


def gathered_rows(delta: Delta, dictionary: Dictionary) -> pa.Table:
    """The rows with their multiplicity."""
    arrays: list[pa.Array] = []
    for i, field in enumerate(delta.schema):
        words, mask = delta.pair(i)
        if moments_of(field.type) is not None:
            arrays += [pa.array(np.ascontiguousarray(column)) for column in words.T]
        else:
            arrays.append(decode_column(words, mask, field, dictionary))
    arrays.append(pa.array(delta.multiplicities()))
    names = gathered_schema(delta.schema).names
    return pa.Table.from_arrays(arrays, names=[*names, MULTIPLICITY])

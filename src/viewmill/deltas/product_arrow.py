"""A product as an Arrow table of one row, as the log and snapshots hold it, and back.

For each factor there is a column of lists: its columns, `_multiplicity`, and `_value`, the words of
its values, which are exact whatever the type of the column is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.algebra.schema import Schema
from viewmill.deltas.arrow import decode_delta, encode_columns
from viewmill.deltas.delta import Delta, Mask, Words
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Factor, Product

_MARK = b"viewmill.product"
_TIMES, _VALUE = "_multiplicity", "_value"


def encode_product(product: Product, dictionary: Dictionary) -> Any:
    """The Arrow table of a product."""
    arrays = []
    for factor in product.factors:
        table = decode_delta(factor.rows, dictionary, multiplicity=_TIMES)
        if factor.values is not None:
            mask = None if factor.value_nulls is None else factor.value_nulls != 0
            table = table.append_column(_VALUE, pa.array(factor.values, mask=mask))
        rows = table.to_struct_array().combine_chunks()
        arrays.append(pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows))
    names = [str(i) for i in range(len(arrays))]
    value = b"" if product.value is None else str(product.value).encode()
    return pa.table(arrays, names).replace_schema_metadata({_MARK: value})


def is_product(table: Any) -> bool:
    """Whether an Arrow table is a product."""
    return _MARK in (table.schema.metadata or {})


def decode_product(table: Any, schema: Schema, dictionary: Dictionary) -> Product:
    """The product of an Arrow table."""
    mark = table.schema.metadata[_MARK]
    factors = tuple(_factor(column, schema, dictionary) for column in table.columns)
    return Product(schema, factors, int(mark) if mark else None)


def _factor(column: Any, schema: Schema, dictionary: Dictionary) -> Factor:
    rows = pa.Table.from_struct_array(column.combine_chunks().flatten())
    names = [name for name in rows.column_names if name not in (_TIMES, _VALUE)]
    at = tuple(schema.names.index(name) for name in names)
    own = Schema(tuple(schema[i] for i in at))
    delta = encode_columns(own, rows.select(names), dictionary) if names else _bare(rows, own)
    times = np.ascontiguousarray(rows.column(_TIMES).to_numpy(), np.int64)
    if not (times == 1).all():
        delta.multiplicity = times
    values, mask = _values(rows)
    return Factor(at, delta, values, mask)


def _bare(rows: Any, schema: Schema) -> Delta:
    """Rows without columns: a factor that has nothing but values."""
    return Delta(schema, (), (), None, rows.num_rows)


def _values(rows: Any) -> tuple[Words | None, Mask | None]:
    if _VALUE not in rows.column_names:
        return None, None
    column = rows.column(_VALUE).combine_chunks()
    mask = None
    if column.null_count:
        mask = column.is_null().to_numpy(zero_copy_only=False).astype(np.uint8)
        column = column.fill_null(0)
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False)), mask

"""Sort the rows of a view by its ORDER BY, with NULL and NaN where Spark puts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewmill.algebra.expressions import Column, SortKey
from viewmill.algebra.relations import Limit, Relation, Sort


def sort_keys(query: Relation) -> tuple[SortKey, ...]:
    """The keys of the ORDER BY at the top of a query, none if there is none."""
    if isinstance(query, Limit):
        query = query.input
    return query.keys if isinstance(query, Sort) else ()


def sorted_table(table: Any, keys: tuple[SortKey, ...]) -> Any:
    """The table in order; the sort is stable."""
    order = np.arange(table.num_rows)
    for key in reversed(keys):
        assert isinstance(key.expression, Column)
        column = table.column(key.expression.name).combine_chunks().take(pa.array(order))
        order = order[_stable_order(column, key)]
    return table.take(pa.array(order))


def _stable_order(column: Any, key: SortKey) -> Any:
    """Positions by value; NaN is above all numbers, NULL where the key puts it."""
    direction = "descending" if key.descending else "ascending"
    order = np.asarray(pc.array_sort_indices(column, order=direction))
    if pa.types.is_floating(column.type):
        is_nan = pc.fill_null(pc.is_nan(column), False).to_numpy(zero_copy_only=False)[order]
        ranks = ~is_nan if key.descending else is_nan
        order = order[np.argsort(ranks, kind="stable")]
    if column.null_count:
        is_null = column.is_null().to_numpy(zero_copy_only=False)[order]
        ranks = ~is_null if key.nulls_first else is_null
        order = order[np.argsort(ranks, kind="stable")]
    return order

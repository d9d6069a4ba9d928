"""The kernels that Python itself calls on structures, compiled when first used."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from viewmill.kernels import compiler
from viewmill.kernels.compiler import BYTES, ROWS, WORD, WORDS
from viewmill.kernels.structures import (
    column_filter,
    columns,
    exact_pools,
    exact_sums,
    indexed,
    keyed,
    listed,
    ordered_kernels,
    plain_columns,
    rows,
    texts,
    wide_numbers,
)
from viewmill.kernels.structures import sorted as sorted_rows

# Each gives a word.
_ARGUMENTS = {
    keyed.commit: (WORD,),
    keyed.rollback: (WORD,),
    keyed.rehash: (WORD, WORD, WORD),
    keyed.load_rows: (WORD, WORD, WORD),
    keyed.export_rows: (WORD, WORD),
    keyed.find_row: (WORD, WORD),
    indexed.indexed_find_row: (WORD, WORD),
    listed.listed_find_row: (WORD, WORD),
    exact_pools.pool_commit: (WORD,),
    exact_pools.pool_rollback: (WORD,),
    exact_pools.pool_clear: (WORD,),
    exact_sums.pool_add_floats: (WORD,) * 4,
    indexed.indexed_commit: (WORD,),
    indexed.indexed_rollback: (WORD,),
    indexed.indexed_clear: (WORD,),
    indexed.indexed_empty: (WORD,),
    indexed.indexed_load: (WORD, WORD, WORD),
    indexed.indexed_export: (WORD, WORD),
    listed.listed_clear: (WORD,),
    listed.listed_commit: (WORD,),
    listed.listed_rollback: (WORD,),
    listed.listed_load: (WORD, WORD, WORD),
    listed.listed_export: (WORD, WORD),
    ordered_kernels.ordered_clear: (WORD,),
    ordered_kernels.ordered_commit: (WORD,),
    ordered_kernels.ordered_repeat: (WORD, WORD),
    ordered_kernels.ordered_load: (WORD, WORD, WORD),
    ordered_kernels.ordered_load_null: (WORD, WORD),
    ordered_kernels.ordered_export: (WORD, WORD),
    sorted_rows.sorted_commit: (WORD,),
    sorted_rows.sorted_repeat: (WORD, WORD),
    sorted_rows.sorted_load: (WORD, WORD, WORD),
    sorted_rows.sorted_export: (WORD, WORD),
    rows.stage_bag: (WORD, WORD, ROWS, WORDS),
    rows.stage_unique: (WORD, WORD, ROWS, WORDS, WORDS),
    rows.first_missing: (WORD, WORD),
    columns.read_columns: (WORD, WORD, WORD, WORD, WORD, ROWS, WORD),
    column_filter.filter_columns: (WORD, WORD, WORD),
    plain_columns.plain_columns: (WORD, WORD, WORD, WORD),
    texts.intern_texts: (WORD,) * 10,
    texts.spread_texts: (WORD,) * 3,
    texts.measure_texts: (WORD,) * 5,
    texts.copy_texts: (WORD,) * 7,
    wide_numbers.encode_wides: (WORD,) * 5,
    wide_numbers.decode_wides: (WORD,) * 5,
    wide_numbers.free_wides: (WORD,),
    rows.find_rows: (WORD, ROWS, BYTES, ROWS),
}


@cache
def kernel(function: Callable[..., int]) -> Callable[..., int]:
    """A function of the structures library that Python can call, quickly."""
    return compiler.compile_structure(function, _ARGUMENTS[function])

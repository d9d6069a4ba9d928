"""cofactor() over numbers and categories as an engine computes it: from a list of the group's rows.

takes  the texts of the columns, the list of rows that an engine gathers under field names of ours
gives  the struct of `algebra.mixed_moments`, values of categories in order
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement

from viewmill.algebra.mixed_moments import MixedMoments
from viewmill.algebra.packed import LARGEST

Text = Callable[[str], str]  # a string as a literal


def duckdb_mixed(
    gather: Text, columns: Sequence[str], type_: MixedMoments, text: Text, exact: bool
) -> str:
    """For DuckDB; `gather` makes the list of a value over the group's rows."""
    m = len(type_.numbers)
    names = [f"x{i}" for i in range(m)] + [f"c{i}" for i in range(len(type_.categories))]
    values = [*columns[:m], *(f"CAST({each} AS VARCHAR)" for each in columns[m:])]
    row = ", ".join(f"'{name}': {value}" for name, value in zip(names, values, strict=True))
    chosen = f"CASE WHEN {_whole(columns, m, '')} THEN {{{row}}} END"
    rows = f"list_filter({gather(chosen)}, lambda r: r IS NOT NULL)"

    def total(of: str, value: str) -> str:
        listed = f"list_transform({of}, lambda r: {value})"
        added = f"exact_sum({listed})" if exact else f"list_aggregate({listed}, 'fsum')"
        return f"coalesce({added}, 0.0)"

    def levels(name: str) -> str:
        own = f"list_filter({rows}, lambda r: r.{name} = v)"
        sums = ", ".join(total(own, f"r.x{i}") for i in range(m))
        found = f"list_distinct(list_transform({rows}, lambda r: r.{name}))"
        made = f"{{'value': v, 'n': len({own}), 'sums': CAST([{sums}] AS DOUBLE[])}}"
        return f"list_sort(list_transform({found}, lambda v: {made}))"

    def counts(a: str, b: str) -> str:
        both = f"list_transform({rows}, lambda r: {{'a': r.{a}, 'b': r.{b}}})"
        entries = f"map_entries(list_aggregate({both}, 'histogram'))"
        made = "{'a': e.key.a, 'b': e.key.b, 'n': CAST(e.value AS BIGINT)}"
        return f"coalesce(list_sort(list_transform({entries}, lambda e: {made})), [])"

    sums = ", ".join(total(rows, f"r.x{i}") for i in range(m))
    products = ", ".join(total(rows, f"r.x{i} * r.x{j}") for i, j in _upper(m))
    categories = ", ".join(
        f"{{'name': {text(name)}, 'type': {text(kind)}, 'levels': {levels(f'c{i}')}}}"
        for i, (name, kind) in enumerate(type_.categories)
    )
    pairs = ", ".join(
        f"{{'a': {text(type_.categories[i][0])}, 'b': {text(type_.categories[j][0])}, "
        f"'counts': {counts(f'c{i}', f'c{j}')}}}"
        for i, j in type_.pairs
    )
    return (
        f"{{'n': len({rows}), 'names': CAST([{', '.join(map(text, type_.numbers))}] AS VARCHAR[]), "
        f"'sums': CAST([{sums}] AS DOUBLE[]), 'products': CAST([{products}] AS DOUBLE[]), "
        f"'categories': [{categories}], 'pairs': [{pairs}]}}"
    )


def spark_mixed(columns: Sequence[str], type_: MixedMoments, text: Text, where: str) -> str:
    """For Spark; `where` is the FILTER of the call."""
    m = len(type_.numbers)
    names = [f"x{i}" for i in range(m)] + [f"c{i}" for i in range(len(type_.categories))]
    values = [*columns[:m], *(f"CAST({each} AS STRING)" for each in columns[m:])]
    row = ", ".join(f"'{name}', {value}" for name, value in zip(names, values, strict=True))
    whole = _whole(columns, m, "D")
    rows = f"collect_list(CASE WHEN {whole} THEN named_struct({row}) END){where}"

    def total(of: str, value: str) -> str:
        return f"aggregate({of}, 0D, (s, r) -> s + {value})"

    def levels(name: str) -> str:
        own = f"filter({rows}, r -> r.{name} = v)"
        sums = ", ".join(total(own, f"r.x{i}") for i in range(m)) or "CAST(NULL AS DOUBLE)"
        shown = f"array({sums})" if m else "CAST(array() AS ARRAY<DOUBLE>)"
        found = f"array_sort(array_distinct(transform({rows}, r -> r.{name})))"
        made = f"named_struct('value', v, 'n', CAST(size({own}) AS BIGINT), 'sums', {shown})"
        return f"transform({found}, v -> {made})"

    def counts(a: str, b: str) -> str:
        found = f"array_sort(array_distinct(transform({rows}, r -> struct(r.{a}, r.{b}))))"
        both = f"filter({rows}, r -> r.{a} = v.{a} AND r.{b} = v.{b})"
        made = f"named_struct('a', v.{a}, 'b', v.{b}, 'n', CAST(size({both}) AS BIGINT))"
        return f"transform({found}, v -> {made})"

    def doubles(made: Sequence[str]) -> str:
        return f"array({', '.join(made)})" if made else "CAST(array() AS ARRAY<DOUBLE>)"

    categories = ", ".join(
        f"named_struct('name', {text(name)}, 'type', {text(kind)}, 'levels', {levels(f'c{i}')})"
        for i, (name, kind) in enumerate(type_.categories)
    )
    pairs = ", ".join(
        f"named_struct('a', {text(type_.categories[i][0])}, 'b', {text(type_.categories[j][0])}, "
        f"'counts', {counts(f'c{i}', f'c{j}')})"
        for i, j in type_.pairs
    )
    named = ", ".join(map(text, type_.numbers))
    fields = (
        f"'n', CAST(size({rows}) AS BIGINT), "
        f"'names', {f'array({named})' if m else 'CAST(array() AS ARRAY<STRING>)'}, "
        f"'sums', {doubles([total(rows, f'r.x{i}') for i in range(m)])}, "
        f"'products', {doubles([total(rows, f'r.x{i} * r.x{j}') for i, j in _upper(m)])}, "
        f"'categories', array({categories}), 'pairs', array({pairs})"
    )
    return f"CAST(named_struct({fields}) AS {type_.name})"


def _whole(columns: Sequence[str], numbers: int, suffix: str) -> str:
    """Whether a row counts: it has every column, and numbers that can be squared."""
    tests = [f"abs({each}) < {LARGEST!r}{suffix}" for each in columns[:numbers]]
    return " AND ".join([*tests, *(f"{each} IS NOT NULL" for each in columns[numbers:])])


def _upper(m: int) -> list[tuple[int, int]]:
    """The upper triangle by rows."""
    return list(combinations_with_replacement(range(m), 2))

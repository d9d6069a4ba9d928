"""Aggregates as DuckDB must write them to mean Spark's.

takes  the function, its rendered arguments with their types, FILTER or OVER as a suffix
gives  DuckDB SQL of exactly the result's type
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from viewmill.algebra.aggregates import DECLARED, AggregateFunction
from viewmill.algebra.mixed_moments import MixedMoments
from viewmill.algebra.packed import LARGEST, Moments, Packed
from viewmill.algebra.rings import RingCall
from viewmill.algebra.types import Decimal, Float, Nested, Type, shown_type
from viewmill.sql import render_decimals
from viewmill.sql.duckdb_macros import HALF
from viewmill.sql.render_mixed_moments import duckdb_mixed
from viewmill.sql.render_names import duckdb_text, duckdb_type
from viewmill.sql.render_nested import order_key


@dataclass(frozen=True)
class _Group:
    """One aggregate call; `of` writes DuckDB's own functions over the same rows."""

    arguments: Sequence[str]
    types: Sequence[Type]
    result: Type
    distinct: str
    suffix: str
    exact: bool

    def of(self, function: str, *arguments: str) -> str:
        """function(arguments) over these rows."""
        given = ", ".join(arguments or self.arguments)
        return f"{function}({self.distinct if given else ''}{given or '*'}){self.suffix}"

    def plain(self, function: str, *arguments: str) -> str:
        """function(arguments) over these rows, without DISTINCT."""
        return f"{function}({', '.join(arguments)}){self.suffix}"

    def cast(self, text: str) -> str:
        """Cast to the type of the result."""
        return f"CAST({text} AS {duckdb_type(self.result)})"


def aggregate_sql(
    function: str,
    arguments: Sequence[str],
    types: Sequence[Type],
    result: Type,
    *,
    distinct: bool = False,
    suffix: str = "",
    exact: bool = False,
) -> str:
    """The aggregate over the rows that `suffix` (FILTER or OVER) chooses."""
    types, result = [*map(shown_type, types)], shown_type(result)
    group = _Group(arguments, types, result, "DISTINCT " if distinct else "", suffix, exact)
    if isinstance(result, Packed) and isinstance(result.shape, RingCall):
        return _gathered(group)
    if exact and isinstance(result, Float) and _has_exact_twin(function, types):
        rounded = aggregate_sql(
            function, arguments, types, result, distinct=distinct, suffix=suffix
        )
        return _exact_float(function, group, rounded)
    match function:
        case "count":
            return _count(group)
        case "sum":
            return _sum(group)
        case "avg":
            return _avg(group)
        case _ if function in DECLARED:
            return _declared(DECLARED[function], group)
        case "any_value" | "first" | "first_value" | "only_value":
            return group.of("first")
        case "last" | "last_value":
            return group.of("last")
        case "max" | "min" if isinstance(types[0], Nested):
            value = group.arguments[0]
            return group.plain(f"arg_{function}", f"{value}, {order_key(value, types[0])}")
        case "max_by" | "min_by":
            return _chosen(function, group)
        case "earliest_max_by" | "earliest_min_by":  # of rows that are given in their order
            return group.of("arg_max_null" if function == "earliest_max_by" else "arg_min_null")
        case "mode":
            down = group.arguments[1] == "TRUE"
            values = group.plain("histogram", group.arguments[0])
            return f"spark_mode{'_last' if down else ''}({values})"
        case "collect_list":
            return _list(group)
        case "percentile" | "percentile_disc":
            return _percentile(function, group)
        case "cofactor" | "linear_regression":
            return _moments(group)
        case "mixed_cofactor":
            assert isinstance(result, MixedMoments)
            gather = lambda value: f"coalesce({group.of('list', value)}, [])"  # noqa: E731
            return duckdb_mixed(gather, arguments, result, duckdb_text, exact)
        case "sum_part_1":
            return _float_sum(group)
        case "sum_part_2" | "sum_part_3":
            return f"CASE WHEN {group.of('count')} > 0 THEN CAST(0.0 AS DOUBLE) END"
        case "sum_of_parts":
            return _sum_of_parts(group)
        case "merge_moments":
            return _merged_moments(group)
        case _:
            return group.of(function)


# 2 to the power of -64 and of 64: multiplying by them changes no digit.
_SMALLER, _LARGER = "5.421010862427522e-20", "1.8446744073709552e19"


# Aggregates of floats that have an exact twin in Python: see `engines.exact_floats`.
_OF_VALUES = ("sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp")
_OF_PAIRS = (
    "covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx",
    "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy",
)  # fmt: skip


def _has_exact_twin(function: str, types: Sequence[Type]) -> bool:
    """Sums of whole numbers are exact already."""
    if function in ("sum", "avg"):
        return isinstance(types[0], Float)
    return function in _OF_VALUES or function in _OF_PAIRS


def _exact_float(function: str, group: _Group, rounded: str) -> str:
    """Rounded once, where all values are finite."""
    given = [f"CAST({each} AS DOUBLE)" for each in group.arguments]
    if function in _OF_PAIRS:
        if group.distinct:
            return rounded
        values = group.of("list", f"{{'a': {given[0]}, 'b': {given[1]}}}")
    else:
        values = group.of("list", given[0])
    infinite = " OR ".join(
        f"coalesce({group.plain('bool_or', f'NOT isfinite({each})')}, FALSE)" for each in given
    )
    return f"CASE WHEN {infinite} THEN {rounded} ELSE exact_{function}({values}) END"


def _count(group: _Group) -> str:
    if len(group.arguments) < 2:
        return group.of("count")
    present = " AND ".join(f"{each} IS NOT NULL" for each in group.arguments)
    row = f"row({', '.join(group.arguments)})" if group.distinct else "1"
    return group.of("count", f"CASE WHEN {present} THEN {row} END")


def _sum(group: _Group) -> str:
    if isinstance(group.types[0], Float):
        return _float_sum(group)
    if isinstance(group.types[0], Decimal) and group.exact:
        assert isinstance(group.result, Decimal)
        return render_decimals.scaled(_sum_in_halves(group, group.types[0]), group.result)
    return group.cast(group.of("sum"))


def _sum_in_halves(group: _Group, type_: Decimal) -> str:
    """The digits of a sum of decimals, which is beyond HUGEINT only if the total is."""
    digits = render_decimals.unscaled(group.arguments[0], type_)

    def total(sign: str) -> str:
        if not group.distinct:
            return group.of("sum", f"{digits} {sign} {HALF}")
        half = f"list_transform({group.of('list', digits)}, lambda x: x {sign} {HALF})"
        return f"list_sum({half})"

    return f"({total('//')} * {HALF} + {total('%')})"


def _float_sum(group: _Group) -> str:
    """Exact for numbers of usual size, else compensated; sum knows what inf and NaN make."""
    x = group.arguments[0]
    largest = group.plain("max", f"abs({x})")
    whole = group.of("sum", f"spark_whole_part({x})")
    fraction = group.of("sum", f"spark_fraction({x})")
    if group.distinct:
        # 1.5 and 2.5 have one fraction, but are two numbers.
        whole = fraction = ""
    exact = f"WHEN {largest} BETWEEN 1e-9 AND 1e30 THEN spark_exact_sum({whole}, {fraction}) "
    # What passes DOUBLE on its way may come back: 1e308 + 1e308 - 1e308 is 1e308.
    smaller = group.of("fsum", f"({x}) * {_SMALLER}")
    huge = f"WHEN {largest} > 1e250 AND isfinite({largest}) THEN {smaller} * {_LARGER} "
    finite = f"WHEN isfinite({largest}) THEN {group.of('fsum')} "
    return f"CASE {exact if whole else ''}{huge}{finite}ELSE {group.of('sum')} END"


def _sum_of_parts(group: _Group) -> str:
    """Each part on its own: they differ by many powers of ten. All of them are NULL, or none."""
    sums = [
        _float_sum(replace(group, arguments=[text], types=[type_]))
        for text, type_ in zip(group.arguments, group.types, strict=True)
    ]
    return f"({' + '.join(sums)})"


def _avg(group: _Group) -> str:
    type_ = group.types[0]
    if isinstance(type_, Float):
        return f"({_float_sum(group)} / NULLIF({group.of('count')}, 0))"
    if isinstance(type_, Decimal):
        digits = (
            _sum_in_halves(group, type_)
            if group.exact
            else render_decimals.digits_of_sum(group.of("sum"), type_)
        )
        return render_decimals.average(digits, type_, group.of("count"), group.result)
    # The sum of whole numbers is exact.
    return f"(CAST({group.of('sum')} AS DOUBLE) / NULLIF({group.of('count')}, 0))"


def _declared(function: AggregateFunction, group: _Group) -> str:
    return function.duckdb.format(
        *group.arguments,
        call=group.of(function.name),
        distinct=group.distinct,
        suffix=group.suffix,
    )


def _list(group: _Group) -> str:
    # NULLs are left out, and no rows make an empty list. What is there once has no place of its
    # own: it is put in order.
    value = group.arguments[0]
    values = group.of("list", f"{value} ORDER BY {value}" if group.distinct else value)
    kept = f"list_filter({values}, lambda x: x IS NOT NULL)"
    return f"COALESCE({kept}, [])"


def _chosen(function: str, group: _Group) -> str:
    """Among rows that are chosen by the same, the one with the largest or the smallest value."""
    value, by = group.arguments
    order, by = (order_key(*each) for each in zip(group.arguments, group.types, strict=True))
    if group.suffix.startswith(" OVER"):
        return group.plain(f"arg_{function[:3]}_null", f"{value}, {by}")
    way = "DESC NULLS LAST" if function == "max_by" else "ASC NULLS LAST"
    ties = "DESC NULLS LAST" if function == "max_by" else "ASC NULLS FIRST"
    first = group.plain("first", f"{value} ORDER BY {by} {way}, {order} {ties}")
    return f"CASE WHEN {group.plain('count', by)} > 0 THEN {first} END"


def _percentile(function: str, group: _Group) -> str:
    """A percentile over the sorted list of values; NULLs sort last and do not count."""
    value, share, down = group.arguments
    way = "DESC" if down == "TRUE" else "ASC"
    values = f"list_sort({group.plain('list', value)}, '{way}', 'NULLS LAST')"
    return f"spark_{function}({values}, {group.plain('count', value)}, {share})"


def _gathered(group: _Group) -> str:
    """The arguments of every row, for a ring that only we know."""
    row = ", ".join(f"'_{i}': {each}" for i, each in enumerate(group.arguments))
    return f"coalesce({group.of('list', f'{{{row}}}')}, [])"


def _merged_moments(group: _Group) -> str:
    """The sum of cofactors, whose numbers are the arguments."""
    assert isinstance(group.result, Packed)
    assert isinstance(group.result.shape, Moments)
    names = ", ".join(duckdb_text(each) for each in group.result.shape.names)
    n, *totals = (f"coalesce({group.of('fsum', each)}, 0.0)" for each in group.arguments)
    m = len(group.result.shape.names)
    return (
        f"{{'n': CAST({n} AS BIGINT), 'names': [{names}], "
        f"'sums': [{', '.join(totals[:m])}], "
        f"'products': [{', '.join(totals[m : group.result.shape.size - 1])}], "
        "'central': CAST([] AS DOUBLE[])}"
    )


def _moments(group: _Group) -> str:
    """Count, sums and products of the rows where all columns are numbers that can be squared."""
    columns = group.arguments
    assert isinstance(group.result, Packed)
    assert isinstance(group.result.shape, Moments)
    whole = " AND ".join(f"abs({each}) < {LARGEST!r}" for each in columns)  # NaN is the largest
    names = ", ".join(duckdb_text(each) for each in group.result.shape.names)

    def chosen(value: str) -> str:
        return f"CASE WHEN {whole} THEN {value} END"

    def total(value: str) -> str:
        if group.exact:
            values = group.of("list", chosen(f"CAST({value} AS DOUBLE)"))
            return f"coalesce(exact_sum({values}), 0.0)"
        return f"coalesce({group.of('fsum', chosen(value))}, 0.0)"

    def around(a: str, b: str) -> str:
        if group.exact:
            both = f"{{'a': CAST({chosen(a)} AS DOUBLE), 'b': CAST({chosen(b)} AS DOUBLE)}}"
            return f"coalesce(exact_covar_pop({group.of('list', both)}), 0.0)"
        return f"coalesce({group.of('covar_pop', chosen(a), chosen(b))}, 0.0)"

    pairs = [(a, b) for i, a in enumerate(columns) for b in columns[i:]]
    return (
        f"{{'n': {group.of('count', f'CASE WHEN {whole} THEN 1 END')}, 'names': [{names}], "
        f"'sums': [{', '.join(map(total, columns))}], "
        f"'products': [{', '.join(total(f'{a} * {b}') for a, b in pairs)}], "
        f"'central': [{', '.join(around(a, b) for a, b in pairs)}]}}"
    )

"""Statistics of one column or of two: spread, shape, covariance, correlation and regression."""

from __future__ import annotations

from viewmill.algebra.aggregates.declaration import AggregateFunction, Moments, Takes
from viewmill.algebra.types import BIGINT, DOUBLE

_ONE: tuple[Takes, ...] = ("double",)
_TWO: tuple[Takes, ...] = ("double", "double")

# Values from here on count as infinite where fourth powers are added: those would overflow.
LARGEST_SHAPED = 2.0**255

_NAN = "CAST('NaN' AS DOUBLE)"


def _spread(name: str, value: str, least: int, *synonyms: str) -> AggregateFunction:
    # DuckDB computes all branches, and refuses infinities: they are taken out before.
    duckdb = (
        "CASE WHEN bool_or(NOT isfinite({0})){suffix} "
        f"THEN CASE WHEN count({{distinct}}{{0}}){{suffix}} >= {least} THEN {_NAN} END "
        f"ELSE {name}({{distinct}}CASE WHEN isfinite({{0}}) THEN {{0}} END){{suffix}} END"
    )
    made = Moments(value, least=least)
    return AggregateFunction(name, _ONE, DOUBLE, synonyms=synonyms, moments=made, duckdb=duckdb)


def _shape(name: str, value: str, divisor: str) -> AggregateFunction:
    # Over values from the smallest on, so that the digits in which they differ are not lost.
    small = f"abs({{0}}) < {LARGEST_SHAPED!r}"
    duckdb = (
        f"CASE WHEN bool_or(NOT {small}){{suffix}} THEN {_NAN} ELSE spark_{name}(list_transform("
        f"list_filter(list({{distinct}}CASE WHEN {small} THEN {{0}} END){{suffix}}, "
        "lambda x: x IS NOT NULL), lambda x: x - min({0}){suffix})) END"
    )
    return AggregateFunction(name, _ONE, DOUBLE, moments=Moments(value, divisor), duckdb=duckdb)


def _pair(name: str, value: str, divisor: str = "") -> AggregateFunction:
    return AggregateFunction(name, _TWO, DOUBLE, moments=Moments(value, divisor))


def _finite_pair(name: str, value: str, divisor: str = "", least: int = 1) -> AggregateFunction:
    made = Moments(value, divisor, least, special="null")
    return AggregateFunction(name, _TWO, DOUBLE, moments=made, duckdb="spark_finite({call})")


AGGREGATES = (
    _spread("var_pop", "{yy} / {n}", 1),
    _spread("var_samp", "{yy} / ({n} - 1)", 2, "variance"),
    _spread("stddev_pop", "({yy} / {n}) ** 0.5", 1),
    _spread("stddev_samp", "({yy} / ({n} - 1)) ** 0.5", 2, "stddev", "std"),
    _shape("skewness", "{n} ** 0.5 * {yyy} / ({yy} * {yy} * {yy}) ** 0.5", "{yy} * {yy} * {yy}"),
    _shape("kurtosis", "{n} * {yyyy} / ({yy} * {yy}) - 3.0", "{yy} * {yy}"),
    _finite_pair(
        "corr", "min(max({xy} / ({xx} ** 0.5 * {yy} ** 0.5), -1.0), 1.0)", "{xx} * {yy}"
    ),
    _finite_pair("covar_pop", "{xy} / {n}"),
    _finite_pair("covar_samp", "{xy} / ({n} - 1)", least=2),
    _finite_pair("regr_slope", "{xy} / {xx}", "{xx}"),
    _finite_pair("regr_intercept", "{my} - {xy} / {xx} * {mx}", "{xx}"),
    _finite_pair(
        "regr_r2", "1.0 if {yy} == 0.0 else {xy} * {xy} / ({xx} * {yy})", "{xx}"
    ),
    _pair("regr_avgx", "{mx}"),
    _pair("regr_avgy", "{my}"),
    _pair("regr_sxx", "{xx}"),
    _pair("regr_syy", "{yy}"),
    _pair("regr_sxy", "{xy}"),
    AggregateFunction(
        "regr_count", _TWO, BIGINT, nullable=False, moments=Moments("{n}", least=0),
        duckdb="CAST({call} AS BIGINT)",
    ),
)  # fmt: skip

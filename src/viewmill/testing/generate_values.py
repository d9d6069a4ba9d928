"""Generators of values that never fail: text, dates, moments, numbers, in both dialects.

They are drawn over the columns of a relation; where the dialects differ, each text says the same.
"""

from __future__ import annotations

from collections.abc import Callable

from viewmill.testing.generate_queries import Expressions, Text, both


def shown_value(make: Expressions) -> Text:
    """A value of some column's type, or one that is computed of such a column."""
    type_ = make.pick(*make.types())
    maker = _MAKERS.get("DECIMAL" if type_.startswith("DECIMAL") else type_)
    if maker is None or make.pick("plain", "computed") == "plain":
        return make.value(type_, 1, safe=True)
    return maker(make, make.leaf(type_))


def _text(make: Expressions, a: Text) -> Text:
    kind = make.pick("case", "||", "trim", "like", *_TEXTS)
    if kind in _TEXTS:
        template, type_ = _TEXTS[kind]
        return both(template, a, type=type_)
    b = make.leaf("STRING")
    if kind == "||":
        return both("({} || {})", a, b, type="STRING")
    if kind == "trim":
        return Text(f"trim({a.spark})", f"trim({a.duckdb}, ' ')", "STRING")
    if kind == "like":
        pattern = make.pick("'a%'", "'%b'", "'_'", "'%'", "''")
        return both(f"({{}} {make.pick('LIKE', 'NOT LIKE')} {pattern})", a, type="BOOLEAN")
    return both("CASE WHEN {} < {} THEN {} ELSE 'z' END", a, b, a, type="STRING")


_TEXTS = {
    "upper": ("upper({})", "STRING"),
    "lower": ("lower({})", "STRING"),
    "replace": ("replace({}, 'a', 'bb')", "STRING"),
    "left": ("left({}, 1)", "STRING"),
    "substring": ("substring({}, 2, 2)", "STRING"),
    "lpad": ("lpad({}, 3, 'xy')", "STRING"),
    "reverse": ("reverse({})", "STRING"),
    "length": ("CAST(length({}) AS INT)", "INT"),
    "instr": ("CAST(instr({}, 'b') AS INT)", "INT"),
}


def _date(make: Expressions, a: Text) -> Text:
    kind = make.pick("part", "add", "difference", "month", "truncated", "weekday", "last")
    if kind == "part":
        part = make.pick("year", "month", "day", "quarter", "dayofyear")
        return both(f"CAST({part}({{}}) AS INT)", a, type="INT")
    if kind == "add":
        return Text(f"date_add({a.spark}, 3)", f"CAST({a.duckdb} + 3 AS DATE)", "DATE")
    if kind == "difference":
        day = "DATE '2024-01-31'"
        return Text(f"datediff({a.spark}, {day})", f"CAST(({a.duckdb} - {day}) AS INTEGER)", "INT")
    if kind == "month":
        return both("CAST({} + INTERVAL 1 MONTH AS DATE)", a, type="DATE")
    if kind == "truncated":
        return Text(
            f"trunc({a.spark}, 'MM')", f"CAST(date_trunc('month', {a.duckdb}) AS DATE)", "DATE"
        )
    if kind == "last":
        return both("last_day({})", a, type="DATE")
    return Text(f"dayofweek({a.spark})", f"CAST(dayofweek({a.duckdb}) + 1 AS INTEGER)", "INT")


def _moment(make: Expressions, a: Text) -> Text:
    kind = make.pick("part", "date", "hour", "add")
    if kind == "part":
        part = make.pick("hour", "minute", "year")
        return both(f"CAST({part}({{}}) AS INT)", a, type="INT")
    if kind == "date":
        return both("CAST({} AS DATE)", a, type="DATE")
    if kind == "hour":
        return both(f"date_trunc('{make.pick('hour', 'day', 'month')}', {{}})", a, type="TIMESTAMP")
    return both("({} + INTERVAL 90 MINUTE)", a, type="TIMESTAMP")


def _whole(make: Expressions, a: Text) -> Text:
    kind = make.pick("abs", "%", "greatest", "text", "if")
    if kind == "abs":
        return both("abs({})", a, type=a.type)
    if kind == "%":
        return both("({} % 2)", a, type=a.type)
    if kind == "greatest":
        word = make.pick("greatest", "least")
        return both(f"{word}({{}}, {{}})", a, make.leaf(a.type), type=a.type)
    if kind == "text":
        return Text(f"CAST({a.spark} AS STRING)", f"CAST({a.duckdb} AS VARCHAR)", "STRING")
    return both("CASE WHEN {} > 0 THEN {} END", a, make.leaf(a.type), type=a.type)


def _decimal(make: Expressions, a: Text) -> Text:
    inner = make.pick("round({}, 1)", "abs({})", "floor({})", "ceil({})", "({} - 1)", "({} * 2)")
    return both(f"CAST({inner} AS {a.type})", a, type=a.type)


def _real(make: Expressions, a: Text) -> Text:
    inner = make.pick("CAST(floor({}) AS BIGINT)", "CAST(ceil({}) AS BIGINT)", "")
    if inner:
        return both(inner, a, type="BIGINT")
    return both("({} * CAST(2 AS DOUBLE) + CAST(1 AS DOUBLE))", a, type="DOUBLE")


_MAKERS: dict[str, Callable[[Expressions, Text], Text]] = {
    "STRING": _text,
    "DATE": _date,
    "TIMESTAMP": _moment,
    "INT": _whole,
    "BIGINT": _whole,
    "DECIMAL": _decimal,
    "DOUBLE": _real,
}

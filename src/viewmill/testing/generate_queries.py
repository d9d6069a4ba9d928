"""Generators of queries, each as two texts of one meaning: in Spark's dialect and in DuckDB's.

`views` draws what the incremental strategies take: filter, project, group, having, distinct, order.
`wide_views` draws what goes to recompute: joins, subqueries, set operations, windows, limits.

Where Spark fails and DuckDB gives NULL or a wider type, DuckDB's text says so: a division by
zero calls error(), a sum of integers is cast to BIGINT. Conditions never fail: DuckDB judges the
parts of an AND in any order it likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from viewmill.testing.generate import Column, Draw, Table

_INTEGERS, _FLOATS = ("INT", "BIGINT"), ("FLOAT", "DOUBLE")


@dataclass(frozen=True)
class Text:
    """An expression or a query in both dialects; `type` is Spark's."""

    spark: str
    duckdb: str
    type: str = ""


def both(template: str, *parts: Text, type: str = "") -> Text:
    """Fill a template in both dialects."""
    return Text(
        template.format(*(part.spark for part in parts)),
        template.format(*(part.duckdb for part in parts)),
        type,
    )


_LITERALS = {
    "BOOLEAN": ("TRUE", "FALSE"),
    "INT": ("0", "1", "2", "-1"),
    "BIGINT": ("CAST(0 AS BIGINT)", "CAST(2 AS BIGINT)"),
    "FLOAT": ("CAST(0.5 AS FLOAT)",),
    "DOUBLE": ("CAST(0.5 AS DOUBLE)", "CAST(0 AS DOUBLE)", "CAST(-2 AS DOUBLE)"),
    "STRING": ("'a'", "''", "'é'"),
    "DATE": ("DATE '2024-02-29'", "DATE '1969-12-31'"),
    "TIMESTAMP": ("TIMESTAMP '2024-02-29 12:00:00'", "TIMESTAMP '1970-01-01 00:00:00'"),
}

# More than are compared one by one.
_LONG_LISTS = {
    "INT": ", ".join(map(str, range(-1, 20, 2))),
    "STRING": ", ".join(f"'{each}'" for each in ("a", *range(20))),
}


def _decimal_parts(type_: str) -> tuple[int, int]:
    precision, scale = type_[len("DECIMAL(") : -1].split(",")
    return int(precision), int(scale)


class Expressions:
    """Draws expressions over columns."""

    def __init__(self, draw: Draw, columns: Sequence[Column], *, prefix: str = "") -> None:
        self.draw = draw
        self.columns = [
            Text(f"{prefix}{each.name}", f"{prefix}{each.name}", each.type) for each in columns
        ]

    def pick(self, *options: str) -> str:
        return str(self.draw(st.sampled_from(options)))

    def types(self) -> list[str]:
        return sorted({column.type for column in self.columns})

    # Leaves.

    def leaf(self, type_: str) -> Text:
        """A column or a constant."""
        columns = [column for column in self.columns if column.type == type_]
        if columns and self.draw(st.integers(0, 3)):
            return columns[self.draw(st.integers(0, len(columns) - 1))]
        if type_.startswith("DECIMAL"):
            return both(f"CAST({self.pick('1.5', '0', '-2')} AS {type_})", type=type_)
        word = self.pick(*_LITERALS[type_])
        if type_ == "FLOAT":
            return both(word, type=type_)
        return both(word, type=type_)

    # Values that may fail.

    def value(self, type_: str, depth: int, *, safe: bool = False) -> Text:
        """An expression of a type; a safe one never fails."""
        if depth == 0 or not self.draw(st.integers(0, 2)):
            return self.leaf(type_)
        kinds = ("case", "coalesce", "if_null")
        kind = self.pick(*kinds) if safe else self.pick("own", "own", *kinds)
        if safe:
            depth = 1  # what is inside is a leaf
        if kind == "case":
            condition = self.condition(depth - 1)
            then, other = self.value(type_, depth - 1), self.value(type_, depth - 1)
            if self.draw(st.booleans()):
                return both("CASE WHEN {} THEN {} END", condition, then, type=type_)
            return both("CASE WHEN {} THEN {} ELSE {} END", condition, then, other, type=type_)
        if kind == "coalesce":
            first, second = self.value(type_, depth - 1), self.leaf(type_)
            return both("COALESCE({}, {})", first, second, type=type_)
        if kind == "if_null":
            return both(
                "NULLIF({}, {})", self.value(type_, depth - 1), self.leaf(type_), type=type_
            )
        return self._own(type_, depth - 1)

    def _own(self, type_: str, depth: int) -> Text:
        if type_ in _INTEGERS:
            return self._integer(type_, depth)
        if type_ in _FLOATS:
            return self._float(type_, depth)
        if type_.startswith("DECIMAL"):
            return self._decimal(type_, depth)
        if type_ == "BOOLEAN":
            return self.condition(depth)
        if type_ == "DATE" and "TIMESTAMP" in self.types():
            return both("CAST({} AS DATE)", self.leaf("TIMESTAMP"), type=type_)
        if type_ == "TIMESTAMP" and "DATE" in self.types():
            return both("CAST({} AS TIMESTAMP)", self.leaf("DATE"), type=type_)
        if type_ == "STRING":
            kind = self.pick("||", "upper", "lower")
            if kind == "||":
                return both("({} || {})", self.leaf(type_), self.value(type_, depth), type=type_)
            return both(f"{kind}({{}})", self.leaf(type_), type=type_)
        return self.leaf(type_)

    def _integer(self, type_: str, depth: int) -> Text:
        a, b = self.value(type_, depth), self.value(type_, depth)
        kind = self.pick("+", "-", "*", "neg", "abs", "%", "div", "cast", "bool")
        if kind in "+-*":
            return both(f"({{}} {kind} {{}})", a, b, type=type_)
        if kind == "neg":
            return both("(- {})", a, type=type_)
        if kind == "abs":
            return both("abs({})", a, type=type_)
        if kind == "%":
            return Text(f"({a.spark} % {b.spark})", _guarded(a, b, "%"), type_)
        if kind == "div":
            divided = Text(f"({a.spark} DIV {b.spark})", _guarded(a, b, "//"), "BIGINT")
            return divided if type_ == "BIGINT" else both("CAST({} AS INT)", divided, type=type_)
        if kind == "bool":
            return both(f"CAST({{}} AS {type_})", self.condition(depth), type=type_)
        source = self.pick(*[t for t in self.types() if _is_number(t)] or ["INT"])
        x = self.leaf(source)
        if source in _INTEGERS:
            return both(f"CAST({{}} AS {type_})", x, type=type_)
        return Text(f"CAST({x.spark} AS {type_})", f"CAST(trunc({x.duckdb}) AS {type_})", type_)

    def _float(self, type_: str, depth: int) -> Text:
        a, b = self.value(type_, depth), self.value(type_, depth)
        kind = self.pick("+", "-", "*", "neg", "abs", "/", "cast")
        if kind in "+-*":
            return both(f"({{}} {kind} {{}})", a, b, type=type_)
        if kind == "neg":
            return both("(- {})", a, type=type_)
        if kind == "abs":
            return both("abs({})", a, type=type_)
        if kind == "/":
            if type_ == "FLOAT":  # a FLOAT divided by a FLOAT is a DOUBLE in Spark
                return self.leaf(type_)
            return Text(f"({a.spark} / {b.spark})", _guarded(a, b, "/"), type_)
        source = self.pick(*[t for t in self.types() if _is_number(t)] or ["INT"])
        if (type_ == "FLOAT" and source in ("BIGINT", "DOUBLE")) or source.startswith("DECIMAL"):
            source = "INT"
        return both(f"CAST({{}} AS {type_})", self.leaf(source), type=type_)

    def _decimal(self, type_: str, depth: int) -> Text:
        precision, scale = _decimal_parts(type_)
        kind = self.pick("+", "-", "neg", "abs", "cast", "round")
        a, b = self.leaf(type_), self.leaf(type_)
        if kind in "+-":
            inner = both(f"({{}} {kind} {{}})", a, b)
            return both(f"CAST({{}} AS {type_})", inner, type=type_)
        if kind == "neg":
            return both("(- {})", a, type=type_)
        if kind == "abs":
            return both("abs({})", a, type=type_)
        if kind == "round":  # digits are lost on the way, half up
            inner = both(f"CAST({{}} AS DECIMAL({precision - 1},{scale - 1}))", a)
            return both(f"CAST({{}} AS {type_})", inner, type=type_)
        return both(f"CAST({{}} AS {type_})", self.leaf("INT"), type=type_)

    # Conditions, which never fail.

    def condition(self, depth: int) -> Text:
        """A condition over columns and constants."""
        kind = self.pick("=", "<", ">=", "<>", "null", "in", "between", "and", "or", "not", "<=>")
        if depth > 0 and kind in ("and", "or"):
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return both(f"({{}} {kind.upper()} {{}})", a, b, type="BOOLEAN")
        if depth > 0 and kind == "not":
            return both("(NOT {})", self.condition(depth - 1), type="BOOLEAN")
        type_ = self.pick(*self.types())
        a, b = self.leaf(type_), self.leaf(type_)
        if kind == "null":
            word = self.pick("IS NULL", "IS NOT NULL")
            return both(f"({{}} {word})", a, type="BOOLEAN")
        if kind == "in":
            if type_ in _LONG_LISTS and self.draw(st.booleans()):
                return both(f"({{}} IN ({_LONG_LISTS[type_]}))", a, type="BOOLEAN")
            return both("({} IN ({}, {}))", a, b, self.leaf(type_), type="BOOLEAN")
        if kind == "between":
            return both("({} BETWEEN {} AND {})", a, b, self.leaf(type_), type="BOOLEAN")
        if kind == "<=>":
            return Text(
                f"({a.spark} <=> {b.spark})",
                f"({a.duckdb} IS NOT DISTINCT FROM {b.duckdb})",
                "BOOLEAN",
            )
        word = kind if kind in ("=", "<", ">=", "<>") else "<="
        return both(f"({{}} {word} {{}})", a, b, type="BOOLEAN")

    # Aggregates.

    def aggregate(self, depth: int, *, wide: bool = False) -> Text:
        """An aggregate of the columns."""
        numbers = [t for t in self.types() if _is_number(t)]
        kinds = ["count(*)", "count", "sum", "avg", "filter"]
        kinds += ["min", "max", "distinct"] if wide else []
        kind = self.pick(*kinds)
        if kind == "count(*)" or (kind in ("sum", "avg") and not numbers):
            return both("COUNT(*)", type="BIGINT")
        if kind == "count":
            # A COUNT need not look at values that cannot be NULL, so they must not fail.
            return both("COUNT({})", self.leaf(self.pick(*self.types())), type="BIGINT")
        if kind == "filter":
            inner, condition = self._numeric_argument(numbers, 0), self.condition(depth)
            return both("COUNT({}) FILTER (WHERE {})", inner, condition, type="BIGINT")
        if kind in ("min", "max"):
            type_ = self.pick(*self.types())
            return both(f"{kind}({{}})", self.leaf(type_), type=type_)
        if kind == "distinct":
            return both("COUNT(DISTINCT {})", self.leaf(self.pick(*self.types())), type="BIGINT")
        if not self.draw(st.integers(0, 4)):
            # DuckDB computes the argument also where the condition is false: it must not fail.
            argument = self._numeric_argument(numbers, depth, safe=True)
            return _aggregated(kind, argument, both(" FILTER (WHERE {})", self.condition(0)))
        return _aggregated(kind, self._numeric_argument(numbers, depth), both(""))

    def _numeric_argument(self, numbers: list[str], depth: int, *, safe: bool = False) -> Text:
        return self.value(self.pick(*numbers or ["INT"]), depth, safe=safe)


def _aggregated(kind: str, argument: Text, where: Text) -> Text:
    spark = f"{kind.upper()}({argument.spark}){where.spark}"
    duckdb = f"{kind.upper()}({argument.duckdb}){where.duckdb}"
    if kind == "sum" and argument.type in _INTEGERS:
        return Text(spark, f"CAST({duckdb} AS BIGINT)", "BIGINT")
    if kind == "sum" and argument.type.startswith("DECIMAL"):
        return Text(spark, duckdb, "SUMMED")
    if kind == "avg" and argument.type.startswith("DECIMAL"):
        return Text(spark, duckdb, "AVERAGED")
    if kind == "avg" and argument.type in _INTEGERS:
        return Text(spark, duckdb, "DOUBLE")  # DuckDB adds integers exactly, too
    return Text(spark, f"{kind.upper()}(CAST({argument.duckdb} AS DOUBLE)){where.duckdb}", "DOUBLE")


def _guarded(a: Text, b: Text, operator: str) -> str:
    """Spark's division: by zero it fails, unless what is divided is NULL."""
    fails = f"WHEN {a.duckdb} IS NOT NULL AND {b.duckdb} = 0 THEN error('division by zero')"
    return f"(CASE {fails} ELSE {a.duckdb} {operator} {b.duckdb} END)"


def _is_number(type_: str) -> bool:
    return type_ in _INTEGERS or type_ in _FLOATS or type_.startswith("DECIMAL")


# Queries.


@dataclass(frozen=True)
class Query:
    """A view's query in both dialects; `ordered` says how many first columns it is ordered by."""

    spark: str
    duckdb: str
    ordered: int = 0


@st.composite
def views(draw: Draw, table: Table, *, depth: int = 2) -> Query:
    """A query over one table, maintained incrementally unless a part of it is in the way."""
    make = Expressions(draw, table.columns)
    kind = make.pick("project", "group", "group", "group", "total", "distinct", "nested")
    source = both(table.name)
    if kind == "nested":
        types = [make.pick(*make.types()) for _ in range(2)]
        # Whether a value that nobody reads may fail is the optimizer's business.
        inner = [make.value(type_, depth - 1, safe=True) for type_ in types]
        where = _where(make, draw, 1)
        shown = ", ".join(f"{{}} AS n{i}" for i in range(2))
        source = both(f"(SELECT {shown} FROM {table.name}{{}}) q", *inner, where)
        make = Expressions(draw, [Column(f"n{i}", type_) for i, type_ in enumerate(types)])
        kind = make.pick("project", "group", "total")
    where = _where(make, draw, 1)
    if kind in ("project", "distinct"):
        types = [make.pick(*make.types()) for _ in range(draw(st.integers(1, 3)))]
        outputs = [make.value(type_, depth) for type_ in types]
        word = "DISTINCT " if kind == "distinct" else ""
        body = _select(word, outputs, source, where)
        return _ordered(draw, body, len(outputs))
    keys: list[Text] = []
    if kind == "group":
        types = [make.pick(*make.types()) for _ in range(draw(st.integers(1, 2)))]
        keys = [make.value(type_, draw(st.sampled_from([0, 0, 1]))) for type_ in types]
        keys = [both("({})", key, type=key.type) if key.spark.isdigit() else key for key in keys]
    calls = [make.aggregate(depth - 1) for _ in range(draw(st.integers(1, 3)))]
    outputs = [*keys, *(_finished(draw, call) for call in calls)]
    body = _select("", outputs, source, where)
    if keys:
        columns = [key for key in keys if any(c.spark in key.spark for c in make.columns)]
        if not columns:
            return _ordered(draw, _select("", outputs[len(keys) :], source, where), len(calls))
        names = ", ".join(str(i + 1) for i in range(len(keys)))
        body = both(f"{{}} GROUP BY {names}", body)
    if not draw(st.integers(0, 3)):
        limit = make.pick("> 1", "= 1", "< 3", "<> 2")
        body = both(f"{{}} HAVING COUNT(*) {limit}", body)
    return _ordered(draw, body, len(outputs))


def _where(make: Expressions, draw: Draw, depth: int) -> Text:
    if draw(st.integers(0, 2)):
        return both("")
    return both(" WHERE {}", make.condition(depth))


def _select(word: str, outputs: Sequence[Text], source: Text, where: Text) -> Text:
    shown = ", ".join(f"{{}} AS o{i}" for i in range(len(outputs)))
    return both(f"SELECT {word}{shown} FROM {{}}{{}}", *outputs, source, where)


def _finished(draw: Draw, call: Text) -> Text:
    if call.type == "BIGINT" and not draw(st.integers(0, 4)):
        return both("COALESCE({}, 0)", call, type="BIGINT")
    if call.type == "DOUBLE" and not draw(st.integers(0, 4)):
        return both("({} * CAST(2 AS DOUBLE))", call, type="DOUBLE")
    return call


def _ordered(draw: Draw, body: Text, width: int) -> Query:
    if draw(st.integers(0, 4)):
        return Query(body.spark, body.duckdb)
    keys = ", ".join(f"o{i}" for i in range(width))
    return Query(f"{body.spark} ORDER BY {keys}", body.duckdb, width)


@st.composite
def wide_views(draw: Draw, left: Table, right: Table) -> Query:
    """A query over two tables that only recompute takes."""
    kind = draw(
        st.sampled_from(["join", "subquery", "set", "window", "limit", "exists", "group", "cte"])
    )
    a = Expressions(draw, left.columns, prefix="a.")
    b = Expressions(draw, right.columns, prefix="b.")
    text = {
        "join": _join, "subquery": _subquery, "set": _set, "window": _window, "limit": _limit,
        "exists": _exists, "group": _group_join, "cte": _cte,
    }[kind](draw, a, b, left.name, right.name)  # fmt: skip
    return Query(text.spark, text.duckdb)


def _join(draw: Draw, a: Expressions, b: Expressions, left: str, right: str) -> Text:
    word = a.pick("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
    x, y = a.leaf(a.pick(*a.types())), b.leaf(b.pick(*b.types()))
    where = both("") if draw(st.booleans()) else both(" WHERE {}", a.condition(1))
    return both(
        f"SELECT a.k AS o0, {{}} AS o1, {{}} AS o2 FROM {left} a {word} {right} b ON a.k = b.k{{}}",
        x, y, where,
    )  # fmt: skip


def _group_join(draw: Draw, a: Expressions, b: Expressions, left: str, right: str) -> Text:
    call, other = a.aggregate(1, wide=True), b.aggregate(0, wide=True)
    return both(
        f"SELECT b.k AS o0, {{}} AS o1, {{}} AS o2 FROM {left} a JOIN {right} b ON a.k = b.k "
        "GROUP BY b.k",
        call, other,
    )  # fmt: skip


def _subquery(draw: Draw, a: Expressions, b: Expressions, left: str, right: str) -> Text:
    x = a.leaf(a.pick(*a.types()))
    word = a.pick(
        f"a.k > (SELECT AVG(b.k) FROM {right} b)",
        f"a.k IN (SELECT b.k FROM {right} b)",
        f"(SELECT COUNT(*) FROM {right} b WHERE b.k = a.k) = 1",
    )
    return both(f"SELECT a.k AS o0, {{}} AS o1 FROM {left} a WHERE {word}", x)


def _exists(draw: Draw, a: Expressions, b: Expressions, left: str, right: str) -> Text:
    word = a.pick("EXISTS", "NOT EXISTS")
    inner = b.condition(0)
    return both(
        f"SELECT a.k AS o0, COUNT(*) AS o1 FROM {left} a "
        f"WHERE {word} (SELECT 1 FROM {right} b WHERE b.k = a.k AND {{}}) GROUP BY a.k",
        inner,
    )


def _set(draw: Draw, a: Expressions, b: Expressions, left: str, right: str) -> Text:
    word = a.pick("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
    return both(f"SELECT a.k AS o0 FROM {left} a {word} SELECT b.k FROM {right} b")


def _window(draw: Draw, a: Expressions, b: Expressions, left: str, right: str) -> Text:
    x = a.leaf(a.pick(*a.types()))
    call = a.pick(
        "RANK() OVER (PARTITION BY a.k ORDER BY {} ASC NULLS FIRST)",
        "DENSE_RANK() OVER (ORDER BY {} DESC NULLS LAST)",
        "COUNT(*) OVER (PARTITION BY {})",
        "COUNT({}) OVER (PARTITION BY a.k)",
        "MAX({}) OVER (PARTITION BY a.k)",
    )
    return both(f"SELECT a.k AS o0, {{}} AS o1, {call} AS o2 FROM {left} a", x, x)


def _limit(draw: Draw, a: Expressions, b: Expressions, left: str, right: str) -> Text:
    x = a.leaf(a.pick(*a.types()))
    count = draw(st.integers(0, 3))
    way = a.pick("ASC NULLS FIRST", "DESC NULLS LAST", "ASC NULLS LAST")
    return both(
        f"SELECT a.k AS o0, {{}} AS o1 FROM {left} a ORDER BY o0 {way}, o1 {way} LIMIT {count}", x
    )


def _cte(draw: Draw, a: Expressions, b: Expressions, left: str, right: str) -> Text:
    call = a.aggregate(1, wide=True)
    return both(
        f"WITH g AS (SELECT a.k AS k, {{}} AS s FROM {left} a GROUP BY a.k) "
        f"SELECT b.k AS o0, g.s AS o1 FROM {right} b LEFT JOIN g ON g.k = b.k",
        call,
    )

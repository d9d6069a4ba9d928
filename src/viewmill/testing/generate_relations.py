"""Generators of queries of every operator over several tables, each as two texts of one meaning.

A query is built from the inside out: tables, then joins of all kinds, filters with subqueries,
groups and grouping sets, set operations, DISTINCT, OVER windows, ORDER BY with LIMIT, one around
the other. Values are safe: nothing that is drawn here can fail. Where SQL leaves ties open, the
drawn order goes on over all columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from viewmill.testing.generate import Column, Draw, Table
from viewmill.testing.generate_queries import Expressions, Query, Text, both
from viewmill.testing.generate_values import shown_value

_NUMBERS = ("INT", "BIGINT", "DOUBLE")
_WORDS = ("'a'", "'é'")


@dataclass(frozen=True)
class Rows:
    """A query in parentheses, and the columns that it shows."""

    text: Text
    columns: tuple[Column, ...]

    def of(self, *types: str) -> list[Column]:
        """The columns of these types."""
        return [each for each in self.columns if each.type in types]


@st.composite
def queries(draw: Draw, over: Sequence[Table], *, depth: int = 3) -> Query:
    """A query over some of the tables."""
    rows = _Relations(draw, over).rows(draw(st.integers(1, depth)))
    names = ", ".join(each.name for each in rows.columns)
    text = both(f"SELECT {names} FROM {{}} z", rows.text)
    return Query(text.spark, text.duckdb)


@st.composite
def chains(draw: Draw, over: Sequence[Table], *, depth: int = 2) -> list[Query]:
    """A view `v0`, and a view over it and the tables."""
    rows = _Relations(draw, over).rows(draw(st.integers(1, depth)))
    names = ", ".join(each.name for each in rows.columns)
    first = both(f"SELECT {names} FROM {{}} z", rows.text)
    above = draw(queries([Table("v0", rows.columns), *over], depth=depth))
    oracle = f"WITH v0 AS ({first.duckdb}) {above.duckdb}"
    return [Query(first.spark, first.duckdb), Query(above.spark, oracle)]


class _Relations:
    """Draws relations; every subquery gets a name of its own."""

    def __init__(self, draw: Draw, over: Sequence[Table]) -> None:
        self.draw, self.over = draw, over
        self.count = 0

    def pick(self, *options: str) -> str:
        return str(self.draw(st.sampled_from(options)))

    def name(self) -> str:
        self.count += 1
        return f"q{self.count}"

    def rows(self, depth: int) -> Rows:
        """Some relation, at most so deep."""
        if depth == 0:
            return self._table() if self.draw(st.integers(0, 7)) else self._constants()
        makers: tuple[Callable[[int], Rows], ...] = (
            self._select, self._join, self._join, self._group, self._group, self._set,
            self._window, self._window, self._top, self._test, self._test, self._grouping_sets,
            self._lateral, self._common_table,
        )  # fmt: skip
        return makers[self.draw(st.integers(0, len(makers) - 1))](depth - 1)

    def _table(self) -> Rows:
        table = self.over[self.draw(st.integers(0, len(self.over) - 1))]
        columns = tuple(each for each in table.columns if each.type != "FLOAT")
        names = ", ".join(each.name for each in columns)
        return Rows(both(f"(SELECT {names} FROM {table.name})"), columns)

    def _constants(self) -> Rows:
        """Rows that stand in the query itself."""
        rows = [
            f"({self.pick('0', '1', 'NULL')}, {self.pick(_WORDS[0], _WORDS[1], 'NULL')})"
            for _ in range(self.draw(st.integers(0, 2)))
        ]
        values = ", ".join(["(1, 'a')", *rows])
        columns = (Column("k", "INT"), Column("s", "STRING"))
        return Rows(both(f"(SELECT k, s FROM (VALUES {values}) {self.name()}(k, s))"), columns)

    def _made(self, template: str, parts: Sequence[Text], columns: Sequence[Column]) -> Rows:
        return Rows(both(f"({template})", *parts), tuple(columns))

    def _column(self, name: str, value: Text) -> Column:
        return Column(name, value.type)

    # Operators.

    def _select(self, depth: int) -> Rows:
        inner, alias = self.rows(depth), self.name()
        make = Expressions(self.draw, inner.columns, prefix=f"{alias}.")
        values = [shown_value(make) for _ in range(self.draw(st.integers(1, 3)))]
        shown = ", ".join(f"{{}} AS c{i}" for i in range(len(values)))
        word = self.pick("", "", "DISTINCT ")
        where = both(" WHERE {}", make.condition(1)) if self.draw(st.booleans()) else both("")
        template = f"SELECT {word}{shown} FROM {{}} {alias}{{}}"
        columns = [self._column(f"c{i}", value) for i, value in enumerate(values)]
        return self._made(template, [*values, inner.text, where], columns)

    def _join(self, depth: int) -> Rows:
        left, right = self.rows(depth), self.rows(0)
        a, b = self.name(), self.name()
        word = self.pick("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI", "ANTI")
        on = self._on(left, right, a, b)
        columns = [Column(f"l{i}", c.type) for i, c in enumerate(left.columns[:3])]
        shown = [f"{a}.{c.name} AS l{i}" for i, c in enumerate(left.columns[:3])]
        if word in ("SEMI", "ANTI"):
            template = f"SELECT {', '.join(shown)} FROM {{}} {a} {{}} {{}} {b} ON {{}}"
            join = Text(f"LEFT {word} JOIN", f"{word} JOIN")
            return self._made(template, [left.text, join, right.text, on], columns)
        columns += [Column(f"r{i}", c.type) for i, c in enumerate(right.columns[:2])]
        shown += [f"{b}.{c.name} AS r{i}" for i, c in enumerate(right.columns[:2])]
        template = f"SELECT {', '.join(shown)} FROM {{}} {a} {word} {{}} {b} ON {{}}"
        if word == "JOIN" and self.draw(st.booleans()):
            template = f"SELECT {', '.join(shown)} FROM {{}} {a}, {{}} {b} WHERE {{}}"
        return self._made(template, [left.text, right.text, on], columns)

    def _on(self, left: Rows, right: Rows, a: str, b: str) -> Text:
        """An equality if two columns have one type, and sometimes more."""
        pairs = [(x, y) for x in left.columns for y in right.columns if x.type == y.type]
        if not pairs:
            return both("1 = 1")
        x, y = pairs[self.draw(st.integers(0, len(pairs) - 1))]
        on = both(f"{a}.{x.name} {self.pick('=', '=', '=', '=', '<')} {b}.{y.name}")
        if self.draw(st.integers(0, 2)) == 0:
            x, y = pairs[self.draw(st.integers(0, len(pairs) - 1))]
            sign = self.pick("<", ">=", "<>")
            return both(f"{{}} AND {a}.{x.name} {sign} {b}.{y.name}", on)
        if self.draw(st.integers(0, 2)) == 0:  # a condition on one side alone
            alias, side = (a, left) if self.draw(st.booleans()) else (b, right)
            condition = Expressions(self.draw, side.columns, prefix=f"{alias}.").condition(0)
            return both("{} AND {}", on, condition)
        return on

    def _group(self, depth: int) -> Rows:
        inner, alias = self.rows(depth), self.name()
        make = Expressions(self.draw, inner.columns, prefix=f"{alias}.")
        keys = [make.columns[self.draw(st.integers(0, len(make.columns) - 1))]]
        keys = keys if self.draw(st.integers(0, 4)) else []
        calls = [self._aggregate(make) for _ in range(self.draw(st.integers(1, 3)))]
        values = [*keys, *calls]
        shown = ", ".join(f"{{}} AS g{i}" for i in range(len(values)))
        tail = both(" GROUP BY {}", *keys) if keys else both("")
        if keys and not self.draw(st.integers(0, 3)):
            tail = both("{} HAVING COUNT(*) " + self.pick("> 1", "= 1"), tail)
        columns = [self._column(f"g{i}", value) for i, value in enumerate(values)]
        template = f"SELECT {shown} FROM {{}} {alias}{{}}"
        return self._made(template, [*values, inner.text, tail], columns)

    def _aggregate(self, make: Expressions) -> Text:
        numbers = [each for each in make.columns if each.type in _NUMBERS]
        kind = self.pick(
            "count", "min", "max", "distinct", "sum", "avg", "spread", "filter", "share", "once"
        )
        leaf = make.columns[self.draw(st.integers(0, len(make.columns) - 1))]
        if kind in ("min", "max"):
            return both(f"{kind}({{}})", leaf, type=leaf.type)
        if kind == "distinct":
            return both("COUNT(DISTINCT {})", leaf, type="BIGINT")
        if kind == "count" or not numbers:
            return both(self.pick("COUNT(*)", "COUNT({})"), leaf, type="BIGINT")
        number = numbers[self.draw(st.integers(0, len(numbers) - 1))]
        if kind == "filter":
            return both("COUNT({}) FILTER (WHERE {})", number, make.condition(0), type="BIGINT")
        if kind == "sum" and number.type != "DOUBLE":
            return Text(f"SUM({number.spark})", f"CAST(SUM({number.duckdb}) AS BIGINT)", "BIGINT")
        if kind == "once" and number.type != "DOUBLE":
            each = f"SUM(DISTINCT {number.duckdb})"
            return Text(f"SUM(DISTINCT {number.spark})", f"CAST({each} AS BIGINT)", "BIGINT")
        if kind == "share":
            return self._share(number)
        spread = self.pick("VAR_POP", "STDDEV_SAMP")
        word = {"sum": "SUM", "avg": "AVG", "spread": spread, "once": "MAX"}[kind]
        return both(f"{word}({{}})", number, type="DOUBLE")

    def _share(self, number: Text) -> Text:
        share = self.pick("0.5", "0.25", "0.9", "0", "1")
        x = f"CAST({number.duckdb} AS DOUBLE)"
        if self.draw(st.booleans()):
            return Text(
                f"percentile({number.spark}, {share})", f"quantile_cont({x}, {share})", "DOUBLE"
            )
        down = self.pick("", " DESC")
        return Text(
            f"percentile_disc({share}) WITHIN GROUP (ORDER BY {number.spark}{down})",
            f"percentile_disc({share}) WITHIN GROUP (ORDER BY {x}{down})",
            "DOUBLE",
        )

    def _lateral(self, depth: int) -> Rows:
        """For each row what meets it: all, the first, or what they come to."""
        left, right = self.rows(depth), self.rows(0)
        a, b, q = self.name(), self.name(), self.name()
        pairs = [(x, y) for x in left.columns for y in right.columns if x.type == y.type]
        if not pairs:
            return left
        x, y = pairs[self.draw(st.integers(0, len(pairs) - 1))]
        where = f"WHERE {b}.{y.name} {self.pick('=', '=', '=', '<=')} {a}.{x.name}"
        names = [f"{b}.{each.name}" for each in right.columns]
        way = self.pick("ASC NULLS FIRST", "DESC NULLS LAST")
        order = ", ".join(f"{each} {way}" for each in names)
        inner, shown = self.pick("all", "first", "grouped"), list(right.columns[:2])
        query = f"SELECT {', '.join(names[:2])} FROM {{}} {b} {where}"
        if inner == "first":
            tail = self.pick("LIMIT 1", "LIMIT 2", "LIMIT 1 OFFSET 1")
            query = f"SELECT {', '.join(names[:2])} FROM {{}} {b} {where} ORDER BY {order} {tail}"
        if inner == "grouped":
            shown = [Column("n", "BIGINT"), Column("m", y.type)]
            query = f"SELECT COUNT(*) AS n, MAX({b}.{y.name}) AS m FROM {{}} {b} {where}"
        columns = [Column(f"l{i}", c.type) for i, c in enumerate(left.columns[:3])]
        columns += [Column(f"r{i}", c.type) for i, c in enumerate(shown)]
        outputs = [f"{a}.{c.name} AS l{i}" for i, c in enumerate(left.columns[:3])]
        outputs += [f"{q}.{c.name} AS r{i}" for i, c in enumerate(shown)]
        word = self.pick("JOIN", "LEFT JOIN")
        template = f"SELECT {', '.join(outputs)} FROM {{}} {a} {word} LATERAL ({query}) {q} ON TRUE"
        return self._made(template, [left.text, right.text], columns)

    def _common_table(self, depth: int) -> Rows:
        """One query under a name, read twice."""
        inner, name = self.rows(depth), self.name()
        x = inner.columns[self.draw(st.integers(0, len(inner.columns) - 1))]
        test = self.pick(
            f"a.{x.name} IN (SELECT b.{x.name} FROM {name} b WHERE b.{x.name} > a.{x.name})",
            f"(SELECT COUNT(*) FROM {name} b WHERE b.{x.name} = a.{x.name}) > 1",
            f"NOT EXISTS (SELECT 1 FROM {name} b WHERE b.{x.name} < a.{x.name})",
        )
        names = ", ".join(f"a.{each.name}" for each in inner.columns)
        template = f"WITH {name} AS {{}} SELECT {names} FROM {name} a WHERE {test}"
        return self._made(template, [inner.text], inner.columns)

    def _grouping_sets(self, depth: int) -> Rows:
        inner, alias = self.rows(depth), self.name()
        names = [c.name for c in inner.columns if c.type != "DOUBLE"][:2]
        if len(names) < 2:
            return self._group(depth)
        a, b = (f"{alias}.{name}" for name in names)
        way = self.pick(
            f"ROLLUP ({a}, {b})", f"CUBE ({a}, {b})", f"GROUPING SETS (({a}), ({b}), ())"
        )
        template = (
            f"SELECT {a} AS s0, {b} AS s1, COUNT(*) AS s2, CAST(GROUPING({a}) AS INT) AS s3 "
            f"FROM {{}} {alias} GROUP BY {way}"
        )
        types = [next(c.type for c in inner.columns if c.name == name) for name in names]
        columns = [Column("s0", types[0]), Column("s1", types[1]), Column("s2", "BIGINT"),
                   Column("s3", "INT")]  # fmt: skip
        return self._made(template, [inner.text], columns)

    def _set(self, depth: int) -> Rows:
        left, right = self.rows(depth), self.rows(0)
        a, b = self.name(), self.name()
        pairs = [(x, y) for x in left.columns for y in right.columns if x.type == y.type][:2]
        if not pairs:
            return left
        word = self.pick("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
        first = ", ".join(f"{a}.{x.name} AS u{i}" for i, (x, _) in enumerate(pairs))
        second = ", ".join(f"{b}.{y.name}" for _, y in pairs)
        template = f"SELECT {first} FROM {{}} {a} {word} SELECT {second} FROM {{}} {b}"
        columns = [Column(f"u{i}", x.type) for i, (x, _) in enumerate(pairs)]
        return self._made(template, [left.text, right.text], columns)

    def _window(self, depth: int) -> Rows:
        inner, alias = self.rows(depth), self.name()
        columns = [f"{alias}.{each.name}" for each in inner.columns]
        start = self.draw(st.integers(0, len(columns) - 1))
        way = self.pick("ASC NULLS FIRST", "DESC NULLS LAST", "ASC NULLS LAST")
        # Total: no two different rows are equal in it.
        order = ", ".join(f"{each} {way}" for each in [*columns[start:], *columns[:start]])
        partition = f"PARTITION BY {columns[0]} " if self.draw(st.booleans()) else ""
        calls = [self._over(inner, alias, partition, order) for _ in range(2)]
        shown = ", ".join([*(f"{each} AS w{i}" for i, each in enumerate(columns[:2])),
                           "{} AS w2", "{} AS w3"])  # fmt: skip
        made = [Column(f"w{i}", each.type) for i, each in enumerate(inner.columns[:2])]
        made += [self._column("w2", calls[0]), self._column("w3", calls[1])]
        rows = self._made(f"SELECT {shown} FROM {{}} {alias}", [*calls, inner.text], made)
        if calls[0].type == "INT" and self.draw(st.booleans()):
            outer = self.name()
            names = ", ".join(f"{outer}.{each.name}" for each in made)
            sign = self.pick("<= 2", "= 1", "= 2", "> 1", "<> 2", "IN (1, 3)", "BETWEEN 2 AND 3")
            template = f"SELECT {names} FROM {{}} {outer} WHERE {outer}.w2 {sign}"
            return self._made(template, [rows.text], made)
        return rows

    def _over(self, inner: Rows, alias: str, partition: str, order: str) -> Text:
        column = inner.columns[self.draw(st.integers(0, len(inner.columns) - 1))]
        x = f"{alias}.{column.name}"
        whole = f"OVER ({partition}ORDER BY {order})"
        kind = self.pick("rank", "offset", "value", "frame", "frame", "count", "range")
        if kind == "rank":
            word = self.pick("ROW_NUMBER", "RANK", "DENSE_RANK")
            return Text(f"{word}() {whole}", f"CAST({word}() {whole} AS INT)", "INT")
        if kind == "offset":
            word = self.pick("LAG", "LEAD")
            return both(f"{word}({x}, {self.pick('1', '2')}) {whole}", type=column.type)
        rows = self.pick(
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
            "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        )
        framed = f"OVER ({partition}ORDER BY {order} {rows})"
        if kind == "value":
            word = self.pick("FIRST_VALUE", "LAST_VALUE")
            return both(f"{word}({x}) {framed}", type=column.type)
        if kind == "count":
            return both(f"COUNT({x}) OVER ({partition})", type="BIGINT")
        if kind == "range":
            near = [each for each in inner.columns if each.type in ("INT", "BIGINT")]
            if near:
                by = f"{alias}.{near[0].name}"
                way = self.pick("ASC NULLS FIRST", "DESC NULLS LAST")
                bounds = self.pick("1 PRECEDING AND CURRENT ROW", "CURRENT ROW AND 1 FOLLOWING")
                window = f"OVER ({partition}ORDER BY {by} {way} RANGE BETWEEN {bounds})"
                return both(f"COUNT({x}) {window}", type="BIGINT")
        word = self.pick("MIN", "MAX")
        if column.type in ("INT", "BIGINT", "DOUBLE") and not self.draw(st.integers(0, 2)):
            spread = self.pick("VAR_POP", "STDDEV_SAMP", "AVG")
            return both(f"{spread}({x}) {framed}", type="DOUBLE")
        if column.type in ("INT", "BIGINT") and self.draw(st.booleans()):
            return Text(f"SUM({x}) {framed}", f"CAST(SUM({x}) {framed} AS BIGINT)", "BIGINT")
        return both(f"{word}({x}) {framed}", type=column.type)

    def _top(self, depth: int) -> Rows:
        inner, alias = self.rows(depth), self.name()
        names = [f"{alias}.{each.name}" for each in inner.columns]
        way = self.pick("ASC NULLS FIRST", "DESC NULLS LAST", "DESC NULLS FIRST")
        order = ", ".join(f"{each} {way}" for each in names)
        tail = f"LIMIT {self.draw(st.integers(1, 3))}" + self.pick("", " OFFSET 1", " OFFSET 2")
        template = f"SELECT {', '.join(names)} FROM {{}} {alias} ORDER BY {order} {tail}"
        return self._made(template, [inner.text], inner.columns)

    def _test(self, depth: int) -> Rows:
        """A filter with a subquery, alone or under OR."""
        inner, other = self.rows(depth), self.rows(0)
        a, b = self.name(), self.name()
        pairs = [(x, y) for x in inner.columns for y in other.columns if x.type == y.type]
        if not pairs:
            return inner
        x, y = pairs[self.draw(st.integers(0, len(pairs) - 1))]
        mine, theirs = f"{a}.{x.name}", f"{b}.{y.name}"
        test = self.pick(
            f"{mine} IN (SELECT {theirs} FROM {{}} {b})",
            f"{mine} NOT IN (SELECT {theirs} FROM {{}} {b})",
            f"EXISTS (SELECT 1 FROM {{}} {b} WHERE {theirs} = {mine})",
            f"NOT EXISTS (SELECT 1 FROM {{}} {b} WHERE {theirs} = {mine})",
            f"{mine} >= (SELECT MIN({theirs}) FROM {{}} {b})",
            f"(SELECT COUNT(*) FROM {{}} {b} WHERE {theirs} = {mine}) < 2",
            f"(SELECT COUNT(*) FROM {{}} {b} WHERE {theirs} < {mine}) < 2",
            f"EXISTS (SELECT 1 FROM {{}} {b} WHERE {theirs} <> {mine})",
            f"{mine} > (SELECT MIN({theirs}) FROM {{}} {b} WHERE {theirs} <= {mine})",
            f"{mine} <= ALL (SELECT {theirs} FROM {{}} {b})",
            f"{mine} = ANY (SELECT {theirs} FROM {{}} {b} WHERE {theirs} IS NOT NULL)",
        )
        names = ", ".join(f"{a}.{each.name}" for each in inner.columns)
        template = f"SELECT {names} FROM {{}} {a} WHERE {test}"
        if not self.draw(st.integers(0, 2)):
            condition = Expressions(self.draw, inner.columns, prefix=f"{a}.").condition(0)
            parts = [inner.text, other.text, condition]
            return self._made(f"{template} OR {{}}", parts, inner.columns)
        return self._made(template, [inner.text, other.text], inner.columns)

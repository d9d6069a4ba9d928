"""Render algebra as SQL for an engine.

takes  algebra.Relation
gives  one SELECT in the engine's dialect that means what Spark means (DESIGN 6)
next   engines

Each node is a SELECT over its input in parentheses. Column names are unique in the whole query, so
a correlated column resolves by its name alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal as OneOf

from viewmill.algebra.conditions import conjuncts, together
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Case, Column, Expression, Literal
from viewmill.algebra.failures import failing_part
from viewmill.algebra.recursion import limit_text
from viewmill.algebra.relations import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Foreign,
    Join,
    Limit,
    Named,
    Project,
    Recursion,
    Relation,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
)
from viewmill.algebra.schema import Field, free_names
from viewmill.algebra.types import BOOLEAN, Float, Nested, Null
from viewmill.algebra.walk import columns_of, has_subquery, scans
from viewmill.errors import UnsupportedQuery
from viewmill.sql.render_duckdb import DuckdbExpressions
from viewmill.sql.render_nested import is_map
from viewmill.sql.render_spark import SparkExpressions
from viewmill.sql.transpile import transpile

Dialect = OneOf["duckdb", "spark"]

_JOINS = {
    "inner": "INNER JOIN", "cross": "CROSS JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN",
    "full": "FULL JOIN", "semi": "SEMI JOIN", "anti": "ANTI JOIN",
}  # fmt: skip

_COMPARISONS = ("=", "<", "<=", ">", ">=", "<=>")


def render(
    relation: Relation,
    dialect: Dialect = "duckdb",
    table_name: Callable[[str], str] = lambda name: name,
    *,
    exact: bool = False,
) -> str:
    """The relation as one query; `table_name` says under which name the engine has a source.

    Exactly, DuckDB sums decimals whose sum is beyond 128 bits on the way, and Python computes
    aggregates of floats without rounding (`engines.exact_floats`); this takes much longer.
    """
    return _indented(_Renderer(dialect, table_name, exact).query(relation), dialect)


# A quoted text or name, or a line break that the renderer wrote.
_PARTS = {
    "duckdb": re.compile(r"""'[^']*'|"[^"]*"|\(?\n\)?"""),
    "spark": re.compile(r"""'(?:[^'\\]|\\.)*'|`[^`]*`|\(?\n\)?""", re.DOTALL),
}


def _indented(text: str, dialect: Dialect) -> str:
    """The query with its subqueries indented; what is quoted stays as it is."""
    depth = 0

    def part(found: re.Match[str]) -> str:
        nonlocal depth
        piece = found.group()
        if piece[0] in "'\"`":
            return piece
        depth += piece.startswith("(") - piece.endswith(")")
        return piece.replace("\n", "\n" + "  " * depth)

    return _PARTS[dialect].sub(part, text)


class _Renderer:
    def __init__(self, dialect: Dialect, table_name: Callable[[str], str], exact: bool) -> None:
        self.dialect, self.table_name = dialect, table_name
        self.expressions: DuckdbExpressions | SparkExpressions = (
            DuckdbExpressions(self.query, exact=exact)
            if dialect == "duckdb"
            else SparkExpressions(self.query)
        )
        self._count = 0
        self._recursions: dict[str, str] = {}  # names of CTEs by the source that reads them

    def query(self, relation: Relation) -> str:
        """One SELECT."""
        match relation:
            case Scan():
                return self._scan(relation)
            case Values():
                return self._values(relation)
            case Filter():
                condition = self._condition(relation.condition, relation.input)
                return f"SELECT * {self._from(relation.input)}\nWHERE {condition}"
            case Project() | Sort() | Limit():
                return self._cut(relation)
            case Join():
                return self._join(relation)
            case Aggregate():
                return self._aggregate(relation)
            case Window():
                calls = self._named(relation.calls)
                return f"SELECT *, {calls} {self._from(relation.input)}"
            case Distinct():
                return f"SELECT DISTINCT {self._one_zero(relation)} {self._from(relation.input)}"
            case SetOperation():
                return self._set_operation(relation)
            case Foreign():
                return self._foreign(relation)
            case Recursion():
                return self._recursion(relation)
            case Explode():
                return self._explode(relation)

    def _name(self, name: str) -> str:
        return self.expressions.name(name)

    def _alias(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def _from(self, relation: Relation) -> str:
        return f"FROM (\n{self.query(relation)}\n) AS {self._alias()}"

    def _named(self, outputs: Iterable[Named | tuple[str, AggregateCall]]) -> str:
        shown = [f"{self.expressions.render(each)} AS {self._name(name)}" for name, each in outputs]
        # A SELECT needs a column, a relation does not.
        return ", ".join(shown) or f"1 AS {self._name('_')}"

    def _scan(self, scan: Scan) -> str:
        columns = []
        for field in scan.schema:
            bare = field.name.removeprefix(f"{scan.alias}.")
            columns.append(f"{self._name(bare)} AS {self._name(field.name)}")
        table = self._recursions.get(scan.source) or self._name(self.table_name(scan.source))
        return f"SELECT {', '.join(columns) or '1 AS ' + self._name('_')} FROM {table}"

    def _values(self, values: Values) -> str:
        if not values.schema.fields:
            rows = ", ".join("(1)" for _ in values.rows)
            return f"SELECT * FROM (VALUES {rows}) AS {self._alias()}({self._name('_')})"
        rows = ", ".join(f"({', '.join(map(self.expressions.render, row))})" for row in values.rows)
        names = ", ".join(map(self._name, values.schema.names))
        if not values.rows:
            return self._no_rows(values)
        return f"SELECT * FROM (VALUES {rows}) AS {self._alias()}({names})"

    def _no_rows(self, values: Values) -> str:
        nulls = [(field.name, Literal(None, field.type)) for field in values.schema]
        return f"SELECT {self._named(nulls)} WHERE FALSE"

    # Projection, order and limit: one SELECT, so that the order is that of the result.

    def _cut(self, relation: Project | Sort | Limit) -> str:
        columns, below = "*", relation
        if isinstance(relation, Project):
            columns, below = self._named(relation.outputs), relation.input  # type: ignore[assignment]
            if isinstance(below, Project) or not isinstance(below, Sort | Limit):
                return f"SELECT {columns} {self._from(below)}"
        tail = ""
        if isinstance(below, Limit):
            tail = self._limit(below)
            below = below.input  # type: ignore[assignment]
        if isinstance(below, Sort):
            keys = ", ".join(map(self.expressions.sort_key, below.keys))
            tail = f"\nORDER BY {keys}{tail}"
            below = below.input  # type: ignore[assignment]
        return f"SELECT {columns} {self._from(below)}{tail}"

    def _limit(self, limit: Limit) -> str:
        count = "" if limit.count is None else f"\nLIMIT {limit.count}"
        return count + (f"\nOFFSET {limit.offset}" if limit.offset else "")

    def _join(self, join: Join) -> str:
        left = f"(\n{self.query(join.left)}\n) AS {self._alias()}"
        right = f"(\n{self.query(join.right)}\n) AS {self._alias()}"
        kind = _JOINS[join.kind]
        if self.dialect == "spark" and join.kind in ("semi", "anti"):
            kind = f"LEFT {kind}"
        condition = "TRUE" if join.condition is None else self._condition(join.condition, join)
        on = "" if join.kind == "cross" and join.condition is None else f"\nON {condition}"
        right = f"LATERAL {right}" if join.lateral else right
        if join.kind == "cross" and on:
            kind = _JOINS["inner"]
        return f"SELECT * FROM {left}\n{kind} {right}{on}"

    def _condition(self, condition: Expression, rows: Relation) -> str:
        """A condition on rows."""
        if self.dialect == "duckdb":
            condition = _in_order(condition, _joined(rows))
        return self.expressions.condition(condition)

    # Groups.

    def _aggregate(self, relation: Aggregate) -> str:
        relation = _computed_below(relation)
        source, texts = self._keys(relation)
        keys = [
            f"{text} AS {self._name(name)}"
            for text, (name, _) in zip(texts, relation.keys, strict=True)
        ]
        calls = [
            f"{self._group_call(call, texts)} AS {self._name(name)}"
            for name, call in relation.aggregates
        ]
        columns = ", ".join(keys + calls) or f"count(*) AS {self._name('_')}"
        return f"SELECT {columns} {source}{self._group_by(relation, texts)}"

    def _keys(self, relation: Aggregate) -> tuple[str, list[str]]:
        """Where the groups are read from, and the keys as columns of it.

        Keys that are computed get a column first: GROUP BY 1 would be a position.
        """
        texts, computed = [], []
        for i, (_, key) in enumerate(relation.keys):
            text = self.expressions.render(key)
            grouped = self.expressions.group_key(text, key.type)
            if isinstance(key, Column) and key.outer == 0 and grouped == text:
                texts.append(text)
                continue
            name = self._name(f"key {i + 1}")
            computed.append(f"{grouped} AS {name}")
            texts.append(name)
        source = self._from(relation.input)
        if computed:
            inner = f"SELECT *, {', '.join(computed)} {source}"
            source = f"FROM (\n{inner}\n) AS {self._alias()}"
        return source, texts

    def _group_call(self, call: AggregateCall, keys: list[str]) -> str:
        if call.function not in ("grouping", "grouping_id"):
            return self.expressions.render(call)
        positions = [each.value for each in call.arguments if isinstance(each, Literal)]
        named = [keys[i] for i in positions if isinstance(i, int)]
        bits = f"grouping({', '.join(named)})"
        if self.dialect == "spark":  # whose grouping_id takes all keys or none, ours included
            powers = (2**i for i in reversed(range(len(named))))
            bits = " + ".join(
                f"grouping({key}) * {each}" for key, each in zip(named, powers, strict=True)
            )
        return f"CAST({bits} AS {self.expressions.type_name(call.type)})"

    def _group_by(self, relation: Aggregate, keys: list[str]) -> str:
        if relation.grouping_sets is not None:
            sets = (", ".join(keys[i] for i in each) for each in relation.grouping_sets)
            return f"\nGROUP BY GROUPING SETS ({', '.join(f'({each})' for each in sets)})"
        return f"\nGROUP BY {', '.join(keys)}" if keys else ""

    # Sets.

    def _one_zero(self, relation: Relation) -> str:
        """All columns, with -0.0 as 0.0 where rows are compared whole."""
        floats = [field for field in relation.schema if isinstance(field.type, Float)]
        if not floats or self.dialect == "spark":
            return "*"
        changed = []
        for field in floats:
            name = self._name(field.name)
            changed.append(f"{self.expressions.group_key(name, field.type)} AS {name}")
        return f"* REPLACE ({', '.join(changed)})"

    def _set_operation(self, relation: SetOperation) -> str:
        word = relation.kind.upper() + (" ALL" if relation.all else "")
        plain = relation.kind == "union" and relation.all
        sides = []
        for side in (relation.left, relation.right):
            columns = "*" if plain else self._one_zero(side)
            sides.append(f"SELECT {columns} {self._from(side)}")
        return f"({sides[0]})\n{word}\n({sides[1]})"

    def _explode(self, relation: Explode) -> str:
        if self.dialect == "spark":
            return self._explode_in_spark(relation)
        array, at = self._name(relation.array.name), self._name("#position")
        if is_map(relation.array.type):
            array = f"map_entries({array})"
        # A row for each position is made first: of no elements it is NULL, or there is no row.
        none = "[CAST(NULL AS BIGINT)]" if relation.outer else "CAST([] AS BIGINT[])"
        length = f"len({array})"
        positions = f"CASE WHEN {length} > 0 THEN range({length}) ELSE {none} END"
        inner = f"SELECT *, unnest({positions}) AS {at} {self._from(relation.input)}"
        columns = [self._name(each.name) for each in relation.input.schema]
        element, made = f"{array}[{at} + 1]", list(relation.made)
        if relation.form == "posexplode":
            columns.append(f"CAST({at} AS INTEGER) AS {self._name(made.pop(0).name)}")
        values = [element]
        if relation.form == "inline" or is_map(relation.array.type):
            values = [f"struct_extract_at({element}, {i + 1})" for i in range(len(made))]
        columns += [f"{v} AS {self._name(f.name)}" for v, f in zip(values, made, strict=True)]
        return f"SELECT {', '.join(columns)} FROM (\n{inner}\n) AS {self._alias()}"

    def _explode_in_spark(self, relation: Explode) -> str:
        columns = ", ".join(self._name(each.name) for each in relation.schema)
        made = ", ".join(self._name(each.name) for each in relation.made)
        outer = "OUTER " if relation.outer else ""
        call = f"{relation.form}({self._name(relation.array.name)})"
        view = f"LATERAL VIEW {outer}{call} {self._alias()} AS {made}"
        return f"SELECT {columns} {self._from(relation.input)}\n{view}"

    def _recursion(self, relation: Recursion) -> str:
        """A recursive CTE whose last column is the step that made a row."""
        if self.dialect == "spark" and not relation.all:
            raise UnsupportedQuery(
                "Spark has no UNION in a recursive CTE, only UNION ALL", span=relation.span
            )
        name = self._recursions[relation.name] = self._alias()
        *columns, number = map(self._name, _columns_read(relation))
        *made, last = map(self._name, relation.step.schema.names)
        base = f"SELECT *, CAST(0 AS BIGINT) AS {number} {self._from(relation.base)}"
        again = f"SELECT {', '.join(made)}, {last} + 1 AS {last} {self._from(relation.step)}"
        given, limit = ", ".join((*columns, number)), relation.limit
        names = map(self._name, relation.schema.names)
        shown = ", ".join(f"{a} AS {b}" for a, b in zip(columns, names, strict=True))
        if self.dialect == "spark":
            head = f"{name}({given}) MAX RECURSION LEVEL {limit}"
            body = f"{base}\nUNION ALL\n{again}"
            return f"WITH RECURSIVE {head} AS (\n{body}\n) SELECT {shown} FROM {name}"
        head, again = f"{name}({given})", f"{again}\nWHERE {last} < {limit}"
        body = f"{base}\nUNION ALL\n{again}"
        if not relation.all:
            head = f"{head} USING KEY ({', '.join(columns)})"
            body = self._each_row_once(relation, name, base, again)
        ended = f"CASE WHEN {number} >= {limit} THEN error('{limit_text(limit)}') ELSE TRUE END"
        whole = f"WITH RECURSIVE {head} AS (\n{body}\n) SELECT * FROM {name}"
        return f"SELECT {shown} FROM (\n{whole}\n) AS {self._alias()}\nWHERE {ended}"

    def _each_row_once(self, relation: Recursion, name: str, base: str, again: str) -> str:
        """Start and step of a UNION in DuckDB: only rows that are new are made."""
        made, *aliases = (
            relation.step.schema.names[:-1],
            self._alias(),
            self._alias(),
            self._alias(),
        )
        start, new, old = aliases
        pairs = zip(made, _columns_read(relation), strict=False)  # the number is in the second only
        same = " AND ".join(
            f"{new}.{self._name(a)} IS NOT DISTINCT FROM {old}.{self._name(b)}" for a, b in pairs
        )
        return (
            f"SELECT DISTINCT {self._one_zero(relation.base)} FROM (\n{base}\n) AS {start}\n"
            f"UNION\nSELECT DISTINCT {self._one_zero(relation.step)} FROM (\n{again}\n) AS {new}\n"
            f"WHERE NOT EXISTS (SELECT 1 FROM recurring.{name} AS {old} WHERE {same})"
        )

    def _foreign(self, relation: Foreign) -> str:
        text = transpile(relation.text, self.dialect, self.table_name)
        columns = []
        for field in relation.schema:
            name = self._name(field.name)
            known = not isinstance(field.type, Nested | Null)
            type_ = self.expressions.type_name(field.type)
            columns.append(f"CAST({name} AS {type_}) AS {name}" if known else name)
        return f"SELECT {', '.join(columns)} FROM (\n{text}\n) AS {self._alias()}"


def _columns_read(relation: Recursion) -> list[str]:
    """The columns of a recursive CTE as its step calls them."""
    (read,) = [each for each in scans(relation.step) if each.source == relation.name]
    return [each.removeprefix(f"{read.alias}.") for each in read.schema.names]


def _computed_below(relation: Aggregate) -> Aggregate:
    """A group-by whose arguments that hold queries are columns: an aggregate may be written with
    its argument many times."""
    plain = [call for _, call in relation.aggregates if call.where is None]
    held = list(dict.fromkeys(a for call in plain for a in call.arguments if has_subquery(a)))
    if not held:
        return relation
    names = free_names((f"argument {i + 1}" for i in range(len(held))), relation.input.schema.names)
    columns = {
        each: Column(name, each.type, each.nullable) for each, name in zip(held, names, strict=True)
    }
    own = tuple((f.name, Column(f.name, f.type, f.nullable)) for f in relation.input.schema)
    below = Project(relation.input, (*own, *((c.name, each) for each, c in columns.items())))
    calls = tuple(
        (n, replace(call, arguments=tuple(columns.get(a, a) for a in call.arguments)))
        if call.where is None else (n, call)
        for n, call in relation.aggregates
    )  # fmt: skip
    return replace(relation, input=below, aggregates=calls)


def _joined(relation: Relation) -> list[Relation]:
    """The leaves of a tree of joins, from left to right."""
    if isinstance(relation, Join):
        return [*_joined(relation.left), *_joined(relation.right)]
    return _joined(relation.input) if isinstance(relation, Filter) else [relation]


def _in_order(condition: Expression, joined: list[Relation]) -> Expression:
    """A condition whose parts that can fail are judged last, for rows that pass all others.

    DuckDB judges parts in an order of its own, and before the join where it can. It does not look
    behind CASE, which must read a column of every side to stay above the join.
    """
    parts = list(conjuncts(condition))
    failing = [e for e in parts if failing_part(e, overflow=True) and not _compares(e, joined)]
    if not failing or len(parts) == len(joined) == 1:
        return condition
    others = [each for each in parts if each not in failing]
    first, last = together(others), failing.pop()
    for each in (*reversed(failing), *([] if first is None else [first])):
        last = Case(((each, last),), Literal(False, BOOLEAN), BOOLEAN, last.nullable)
    if len(_sides(last, joined)) < len(joined):
        nulls = [_is_null(each.schema.fields[0]) for each in joined if each.schema.fields]
        asked = together(nulls)
        assert asked is not None
        last = Case(((asked, last),), last, BOOLEAN, last.nullable)  # the same in either case
    return together((*others, last)) or last


def _compares(condition: Expression, joined: list[Relation]) -> bool:
    """Whether a condition says which rows of one side meet which of another."""
    if not isinstance(condition, Call) or condition.function not in _COMPARISONS:
        return False
    left, right = (_sides(each, joined) for each in condition.arguments)
    return bool(left and right) and not left & right


def _sides(expression: Expression, joined: list[Relation]) -> set[int]:
    read = columns_of(expression)
    return {i for i, each in enumerate(joined) if read & set(each.schema.names)}


def _is_null(field: Field) -> Expression:
    return Call("is_null", (Column(field.name, field.type, True),), BOOLEAN, False)

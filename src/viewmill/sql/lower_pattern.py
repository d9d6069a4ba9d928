"""Lower FROM m PATTERN [a, b, c, d+] WHERE ... GROUP BY ... to an automaton.

takes  the SELECT, the schema of m and its time column
gives  program.patterns.PatternQueries
next   kernels.patterns

A predicate on one variable holds for each of its rows; one on two neighbouring variables for the
first row of the second; with PREV(d.x) for each row of d and the one before it, whichever variable
that belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import (
    BIGINT,
    Decimal,
    Float,
    Integer,
    Nested,
    String,
    kept_type,
)
from viewmill.errors import Span, UnknownName, UnsupportedQuery, nearest
from viewmill.program.patterns import (
    MATCHES,
    NOTHING,
    PREVIOUS,
    ROWS,
    Edge,
    Measure,
    MeasureFunction,
    PatternQueries,
    Phase,
)
from viewmill.sql.catalog import Catalog
from viewmill.sql.dialect import suffixes_of
from viewmill.sql.lower import lower
from viewmill.sql.lower_parts import PartCatalog
from viewmill.sql.parse_match import PatternSuffix
from viewmill.sql.spans import span_of

_FUNCTIONS: dict[type[exp.Expr], MeasureFunction] = {
    exp.Count: "count", exp.Sum: "sum", exp.Min: "min", exp.Max: "max",
    exp.First: "first", exp.Last: "last", exp.FirstValue: "first", exp.LastValue: "last",
}  # fmt: skip
_MEASURES = "COUNT, SUM, MIN, MAX, AVG, first and last are."
# What an aggregate may not stand in: without it, it would mean something else.
_NOT_MEASURED = (
    exp.IgnoreNulls, exp.RespectNulls, exp.Filter, exp.Window, exp.WithinGroup, exp.Query,
)  # fmt: skip
# What is NULL when what it is of is NULL.
_STRICT = (
    exp.Column, exp.Identifier, exp.Literal, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg,
    exp.Paren, exp.Cast, exp.DataType,
)  # fmt: skip
COUNT = "#rows"  # the column of MATCHES with the number of rows of the run


def find_pattern(query: exp.Expr) -> exp.Table | None:
    """The table with a PATTERN, if the query is a SELECT from one."""
    source = query.args.get("from_") if isinstance(query, exp.Select) else None
    table = None if source is None else source.this
    if isinstance(table, exp.Table) and any(
        isinstance(each, PatternSuffix) for each in suffixes_of(table)
    ):
        return table
    return None


@dataclass(frozen=True)
class PatternSource:
    """What the pattern reads."""

    name: str
    schema: Schema
    timestamp_by: str
    length: int
    own_parts: bool = False  # it is in no parts: the pattern keeps its rows itself


def lower_pattern(
    select: exp.Select,
    sql: str,
    view: str,
    source: PatternSource,
    catalog: Catalog,
    *,
    is_match: bool = False,
) -> PatternQueries:
    """The automaton of a pattern query; `is_match`: it was written as MATCH_RECOGNIZE."""
    return _Lowering(select, sql, source, catalog, is_match=is_match).lower(view)


def refuse_other_clauses(
    select: exp.Select, allowed: Sequence[str], sql: str, of_source: Sequence[str] = ()
) -> None:
    """Refuse what stands beside a pattern and would be left out."""
    table = select.args["from_"].this
    beside = {key: value for key, value in select.args.items() if key not in allowed}
    if isinstance(table, exp.Table):
        of_table = ("this", "db", "catalog", "suffixes", *of_source)
        beside |= {key: value for key, value in table.args.items() if key not in of_table}
    for key, node in beside.items():
        if node:
            nodes = [each for each in (node if isinstance(node, list) else [node])
                     if isinstance(each, exp.Expr)]  # fmt: skip
            spans = [each for each in (span_of(n, sql) for n in nodes) if each is not None]
            raise UnsupportedQuery(
                f"a pattern query has no {key.upper().strip('_')}",
                hint="Write it in a view over this one.",
                span=spans[0] if spans else span_of(select, sql),
            )


class _Lowering:
    def __init__(
        self, select: exp.Select, sql: str, source: PatternSource, catalog: Catalog, *,
        is_match: bool,
    ) -> None:  # fmt: skip
        self.select, self.sql, self.source, self.catalog = select, sql, source, catalog
        self.is_match = is_match
        table = find_pattern(select)
        assert table is not None
        suffix, *others = suffixes_of(table)
        if others or not isinstance(suffix, PatternSuffix):
            raise UnsupportedQuery(
                "PATTERN stands alone behind its table", hint="Leave the other suffix out.",
                span=span_of(table, sql),
            )  # fmt: skip
        refuse_other_clauses(select, ("expressions", "from_", "where", "group", "having"), sql)
        self.variables = [each.name.lower() for each in suffix.expressions]
        self.plus = [bool(each.args["plus"]) for each in suffix.expressions]
        if len(set(self.variables)) < len(self.variables):
            raise UnsupportedQuery(
                "a variable stands twice in the pattern", hint="Give each row a name of its own.",
                span=span_of(suffix, sql),
            )  # fmt: skip
        if len(self.variables) > 60:
            raise UnsupportedQuery("a pattern has at most 60 variables", span=span_of(suffix, sql))
        self.before = PREVIOUS
        while any(each.lower().startswith(self.before) for each in source.schema.names):
            self.before = f"_{self.before}"
        self.read: list[int] = []
        self.read_before: list[int] = []
        self.arguments: list[exp.Expr] = []
        self.measures: list[tuple[MeasureFunction, int, int, int]] = []
        self.spans: list[Span | None] = []  # of the measures

    def lower(self, view: str) -> PatternQueries:
        keys = [self._column(each) for each in self._group_by()]
        edges, phases = self._edges()
        shown = self._shown_query(keys)
        steps = self._steps_relation(edges)
        measures = self._typed(steps, len(edges))
        schema = self._shown_schema(keys, measures)
        show = self._lowered(shown, {MATCHES: schema})
        time = self.source.schema.find(self.source.timestamp_by)
        assert time is not None
        return PatternQueries(
            view, self.source.name, self.source.length, tuple(keys), time, tuple(phases),
            tuple(measures), tuple(self.read), tuple(self.read_before), steps, len(edges), schema,
            show, self.before, self.is_match,
        )  # fmt: skip

    # Names.

    def _column(self, node: exp.Expr) -> int:
        name = node.name if isinstance(node, exp.Column) else None
        found = None if name is None else self.source.schema.find(name)
        if found is None:
            hint = nearest(name, self.source.schema.names) if name else "GROUP BY takes columns."
            raise UnknownName(
                f'"{self.source.name}" has no column "{node.sql()}"', hint=hint,
                span=span_of(node, self.sql),
            )  # fmt: skip
        return found

    def _group_by(self) -> list[exp.Expr]:
        group = self.select.args.get("group")
        if group is None:
            return []
        if any(value for key, value in group.args.items() if key != "expressions"):
            raise UnsupportedQuery(
                "a pattern groups by columns", hint="GROUP BY g, h",
                span=span_of(group, self.sql) or span_of(self.select, self.sql),
            )  # fmt: skip
        for each in group.expressions:
            table = each.table if isinstance(each, exp.Column) else ""
            if table and table.lower() != self.source.name.lower():
                raise UnknownName(
                    f'"{table}" is not the table that the pattern reads',
                    hint=f"Write {each.name}.", span=span_of(each, self.sql),
                )  # fmt: skip
        return list(group.expressions)

    def _variable(self, column: exp.Column) -> int | None:
        """The phase of the variable that a column is of."""
        if not column.table:
            return None
        if column.table.lower() not in self.variables:
            raise UnknownName(
                f'there is no variable "{column.table}" in the pattern',
                hint=nearest(column.table, self.variables), span=span_of(column, self.sql),
            )  # fmt: skip
        return self.variables.index(column.table.lower()) + 1

    # Edges.

    def _edges(self) -> tuple[list[exp.Expr], list[Phase]]:
        enter: list[list[exp.Expr]] = [[] for _ in self.variables]
        stay: list[list[exp.Expr]] = [[] for _ in self.variables]
        for predicate in self._conjuncts():
            phases = sorted({p for p in map(self._variable, _columns(predicate)) if p is not None})
            if len(phases) > 2 or (len(phases) == 2 and phases[1] != phases[0] + 1):
                raise UnsupportedQuery(
                    "a predicate is about one variable or two neighbouring ones",
                    hint="Compare each row with the one before it.",
                    span=span_of(predicate, self.sql),
                )
            if len(phases) == 2:
                enter[phases[1] - 1].append(self._of_row(predicate, phases[1]))
                continue
            for phase in phases or range(1, len(self.variables) + 1):
                enter[phase - 1].append(self._of_row(predicate, phase))
                stay[phase - 1].append(self._of_row(predicate, phase))
        edges: list[exp.Expr] = []
        made = []
        for i, variable in enumerate(self.variables):
            into = _edge(enter[i], edges)
            made.append(Phase(variable, into, _edge(stay[i], edges) if self.plus[i] else None))
        return edges, made

    def _conjuncts(self) -> Iterator[exp.Expr]:
        where = self.select.args.get("where")
        waiting = [] if where is None else [where.this]
        while waiting:
            node = waiting.pop().unnest()
            if isinstance(node, exp.And):
                waiting += [node.expression, node.this]
            else:
                yield node

    def _of_row(self, predicate: exp.Expr, phase: int) -> exp.Expr:
        """The predicate on columns of a row and of the row before it."""
        holder = exp.Paren(this=predicate.copy())  # so that the whole of it can be replaced, too
        for part in holder.find_all(exp.AggFunc, exp.Query, exp.Window):
            raise UnsupportedQuery(
                "a condition of a pattern compares a row with the one before it",
                hint="Write PREV(x) for the row before; HAVING and WHERE can judge whole matches.",
                span=span_of(part, self.sql) or span_of(predicate, self.sql),
            )
        replaced = set()
        for call in list(holder.find_all(exp.Anonymous)):
            if not is_navigation(call):
                continue
            inside = exp.Paren(this=self._before(call, phase).copy())
            for column in _columns(inside):
                made = self._renamed(column, is_before=True)
                replaced.add(made.name)
                column.replace(made)
            call.replace(inside.this)
        for column in _columns(holder):
            if column.name not in replaced:
                own = self._variable(column)
                is_before = own is not None and own == phase - 1
                column.replace(self._renamed(column, is_before=is_before))
        found: exp.Expr = holder.this
        return found

    def _before(self, call: exp.Anonymous, phase: int) -> exp.Expr:
        """The argument of PREV, which must refer to the row just before."""
        name, span = str(call.this).upper(), span_of(call, self.sql)
        hint = f"PREV({self.variables[phase - 1]}.x) is x of the row before."
        if name != "PREV":
            raise UnsupportedQuery(f"{name} is not supported in a pattern", hint=hint, span=span)
        argument, *offset = call.expressions or [None]
        is_one = all(each.name == "1" and isinstance(each, exp.Literal) for each in offset)
        if argument is None or len(offset) > 1 or not is_one:
            raise UnsupportedQuery("PREV has one argument, and goes back one row", hint=hint,
                                   span=span)  # fmt: skip
        columns = _columns(argument)
        if not columns or not all(isinstance(each, _STRICT) for each in argument.walk()):
            # Of no row before, PREV(coalesce(x, 0)) is NULL, which coalesce would not be.
            raise UnsupportedQuery(
                "PREV is of a column, or of arithmetic on columns",
                hint="Write coalesce(PREV(x), 0) instead of PREV(coalesce(x, 0)).", span=span,
            )  # fmt: skip
        if any(self._variable(each) not in (None, phase) for each in columns):
            raise UnsupportedQuery(
                f'PREV is compared with "{self.variables[phase - 1]}", so it is of that variable',
                hint=hint, span=span,
            )  # fmt: skip
        found: exp.Expr = argument
        return found

    def _renamed(self, column: exp.Column, *, is_before: bool) -> exp.Column:
        position = self._column(column)
        wanted = self.read_before if is_before else self.read
        if position not in wanted:
            wanted.append(position)
        name = self.source.schema[position].name
        made = exp.column(self.before + name if is_before else name, quoted=True)
        made.this.meta.update(column.this.meta)
        return made

    def _steps_relation(self, edges: list[exp.Expr]) -> Relation:
        steps = []
        for i, edge in enumerate(edges):
            case = exp.Case(ifs=[exp.If(this=edge, true=_number(1))], default=_number(0))
            steps.append(exp.alias_(case, f"edge {i}", quoted=True))
        arguments = [exp.alias_(each, f"argument {i}", quoted=True)
                     for i, each in enumerate(self.arguments)]  # fmt: skip
        fields = [self.source.schema[i] for i in self.read]
        fields += [
            replace(
                self.source.schema[i], name=self.before + self.source.schema[i].name, nullable=True
            )
            for i in self.read_before
        ]
        fields = fields or [Field(NOTHING, BIGINT, True)]
        query = exp.select(*steps, *arguments).from_(exp.to_table(ROWS, quoted=True))
        query.args["from_"].this.this.set("quoted", True)
        return self._lowered(query, {ROWS: Schema(tuple(fields))})

    # What is shown.

    def _shown_query(self, keys: list[int]) -> exp.Select:
        """The SELECT over MATCHES: aggregates are columns there, HAVING is its WHERE."""
        names = {self.source.schema[i].name.lower() for i in keys}
        outputs = []
        for node in self.select.expressions:
            made = self._measured(node.copy(), names)
            if not isinstance(node, exp.Alias) and isinstance(made, exp.Column):
                made = exp.alias_(made, node.output_name or node.sql(), quoted=True)
            outputs.append(made)
        query = exp.select(*outputs).from_(exp.to_table(MATCHES, quoted=True))
        query.args["from_"].this.this.set("quoted", True)
        having = self.select.args.get("having")
        if having is not None:
            query = query.where(self._measured(having.this.copy(), names))
        return query

    def _measured(self, node: exp.Expr, keys: set[str]) -> exp.Expr:
        holder = exp.Paren(this=node)
        for part in holder.find_all(*_NOT_MEASURED, exp.Anonymous):
            if not isinstance(part, exp.Anonymous) or is_navigation(part):
                raise UnsupportedQuery(
                    f"{part.sql()} is not kept for a pattern", hint=_MEASURES,
                    span=span_of(part, self.sql),
                )  # fmt: skip
        for call in list(holder.find_all(exp.AggFunc)):
            call.replace(self._measure(call))
        if star := holder.find(exp.Star):
            raise UnsupportedQuery(
                "a pattern query names what it shows", hint="SELECT g, COUNT(*), first(x), last(x)",
                span=span_of(star, self.sql) or span_of(self.select, self.sql),
            )  # fmt: skip
        for column in holder.find_all(exp.Column):
            if column.name not in self._columns_made and column.name.lower() not in keys:
                raise UnknownName(
                    f'"{column.name}" is neither grouped nor aggregated',
                    hint=f"GROUP BY it, or write first({column.name}) or last({column.name}).",
                    span=span_of(column, self.sql),
                )
            if column.table and column.name not in self._columns_made:
                column.set("table", None)
        found: exp.Expr = holder.this
        return found

    _columns_made: frozenset[str] = frozenset([COUNT])

    def _measure(self, call: exp.AggFunc) -> exp.Expr:
        if isinstance(call, exp.Avg):
            total, count = self._value("sum", call), self._value("count", call)
            return exp.Div(this=total, expression=exp.Nullif(this=count, expression=_number(0)))
        function = _FUNCTIONS.get(type(call))
        if function is None or isinstance(call.this, exp.Distinct) or call.this is None:
            raise UnsupportedQuery(
                f"{call.sql()} is not kept for a pattern", hint=_MEASURES,
                span=span_of(call, self.sql),
            )  # fmt: skip
        inside = call.this.find(exp.AggFunc, exp.Query)
        if inside is not None or call.expressions:
            raise UnsupportedQuery(
                f"{call.sql()} is not kept for a pattern",
                hint="A measure is of the values of rows.", span=span_of(call, self.sql),
            )  # fmt: skip
        if function == "count" and isinstance(call.this, exp.Star | exp.Literal):
            return exp.column(COUNT, quoted=True)
        return self._value(function, call, self._offset(call))

    def _offset(self, call: exp.AggFunc) -> int:
        """How many rows after the first, or before the last."""
        offset = call.args.get("expression")
        if offset is None:
            return 0
        is_whole = isinstance(offset, exp.Literal) and offset.is_int
        if not self.is_match or not is_whole:
            raise UnsupportedQuery(
                f"{call.sql()}: no such offset is kept for a pattern",
                hint="MEASURES of MATCH_RECOGNIZE take a number: LAST(b.x, 1).",
                span=span_of(call, self.sql),
            )
        return int(offset.name)

    def _value(self, function: MeasureFunction, call: exp.AggFunc, offset: int = 0) -> exp.Expr:
        argument = call.this.copy()
        phases = {p for p in map(self._variable, _columns(argument)) if p is not None}
        if len(phases) > 1:
            raise UnsupportedQuery(
                "a measure is of one variable", hint="Write LAST(a.x) + LAST(b.x).",
                span=span_of(call, self.sql),
            )  # fmt: skip
        holder = exp.Paren(this=argument)
        for column in list(holder.find_all(exp.Column)):
            is_rows = function == "count" and isinstance(column.this, exp.Star)  # COUNT(b.*)
            column.replace(_number(1) if is_rows else self._renamed(column, is_before=False))
        position = _position(holder.this, self.arguments)
        measure = (function, position, next(iter(phases), 0), offset)
        if measure not in self.measures:
            self.measures.append(measure)
            self.spans.append(span_of(call, self.sql))
        name = f"{function} {self.measures.index(measure)}"
        self._columns_made = self._columns_made | {name}
        return exp.column(name, quoted=True)

    def _typed(self, steps: Relation, edges: int) -> list[Measure]:
        made = []
        for i, (function, argument, phase, offset) in enumerate(self.measures):
            field = steps.schema[edges + argument]
            if function in ("min", "max", "sum") and isinstance(field.type, String | Nested):
                raise UnsupportedQuery(
                    f"{function} of {field.type} is not kept for a pattern",
                    hint="COUNT, first and last are.", span=self.spans[i],
                )  # fmt: skip
            if function in ("first", "last"):
                field = replace(field, type=kept_type(field.type))
            made.append(Measure(f"{function} {i}", function, argument, field, phase, offset))
        return made

    def _shown_schema(self, keys: list[int], measures: list[Measure]) -> Schema:
        fields = [self.source.schema[i] for i in keys]
        fields.append(Field(COUNT, BIGINT, False))
        fields += [measure_field(each) for each in measures]
        return Schema(tuple(fields))

    def _lowered(self, query: exp.Select, named: dict[str, Schema]) -> Relation:
        return lower(query, self.sql, PartCatalog(self.catalog, named))


def measure_field(measure: Measure) -> Field:
    """The column of MATCHES that shows a measure."""
    type_ = measure.field.type
    if measure.function == "count":
        return Field(measure.name, BIGINT, False)
    if measure.function == "sum" and isinstance(type_, Integer):
        type_ = BIGINT
    if measure.function == "sum" and isinstance(type_, Decimal):
        type_ = Decimal(min(38, type_.precision + 10), type_.scale)
    if measure.function == "sum" and isinstance(type_, Float):
        type_ = Float(64)
    return Field(measure.name, type_, True)


def _columns(node: exp.Expr) -> list[exp.Column]:
    return list(node.find_all(exp.Column))


def is_navigation(call: exp.Anonymous) -> bool:
    """Whether a call is one of those that only row patterns have."""
    return str(call.this).lower() in ("prev", "next", "classifier", "match_number")


def _edge(predicates: list[exp.Expr], edges: list[exp.Expr]) -> Edge:
    """The bit of all predicates together; equal edges share one."""
    whole = exp.and_(*predicates) if predicates else exp.true()
    return Edge(_position(whole, edges))


def _position(node: exp.Expr, among: list[exp.Expr]) -> int:
    for i, each in enumerate(among):
        if each == node:
            return i
    among.append(node)
    return len(among) - 1


def _number(value: int) -> exp.Expr:
    return exp.cast(exp.Literal.number(value), "BIGINT")

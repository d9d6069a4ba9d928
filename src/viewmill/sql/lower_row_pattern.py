"""Lower MATCH_RECOGNIZE with any row pattern.

takes  RowPatternMatch, the columns of the rows it reads
gives  program.row_patterns.RowPatternQueries: steps, leaves, the conditions and what is shown
next   kernels.row_matches

An expression in DEFINE or MEASURES is read from its leaves: what navigates to a row or aggregates
rows becomes a column, and the rest is an expression over such columns. What a leaf reads of a row
is computed for all rows at once. A conjunct in DEFINE whose leaves all lie at fixed distances from
the row is a test, computed for all rows at once, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import (
    BIGINT,
    STRING,
    Date,
    Decimal,
    Float,
    Integer,
    Nested,
    String,
    Type,
    kept_type,
)
from viewmill.errors import MalformedSQL, UnknownName, UnsupportedQuery, nearest
from viewmill.program.patterns import MATCHES, NOTHING, ROWS
from viewmill.program.row_patterns import (
    LEAVES,
    Condition,
    Leaf,
    LeafKind,
    RowPattern,
    RowPatternQueries,
    Skip,
)
from viewmill.sql.catalog import Catalog
from viewmill.sql.intervals import lower_interval
from viewmill.sql.lower import lower
from viewmill.sql.lower_parts import PartCatalog
from viewmill.sql.lower_pattern import PatternSource
from viewmill.sql.parse_match import RowPatternMatch, Semantics
from viewmill.sql.pattern_steps import PatternSteps, variables_of
from viewmill.sql.spans import span_of

_MOST_VARIABLES = 60
_DAY = 86_400_000_000
_KINDS: dict[type[exp.Expr], LeafKind] = {
    exp.Count: "count", exp.Sum: "sum", exp.Min: "min", exp.Max: "max"
}  # fmt: skip
_AGGREGATES = "COUNT, SUM, MIN, MAX, AVG, FIRST and LAST are."
_ROW_FUNCTIONS = ("prev", "next", "classifier", "match_number")
# What is NULL when what it reads is NULL, and never fails: it may be computed of any row.
_LIFTED = (
    exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.Literal, exp.Column, exp.Identifier,
    exp.Interval, exp.Var,
)  # fmt: skip


@dataclass(frozen=True)
class _Place:
    """The row that an expression navigates to."""

    variables: tuple[int, ...] = ()
    is_last: bool = True
    offset: int = 0
    shift: int = 0
    is_final: bool = False


def lower_row_pattern(
    match: RowPatternMatch, sql: str, view: str, source: PatternSource, catalog: Catalog
) -> RowPatternQueries:
    """The program of MATCH_RECOGNIZE; its `show` gives the columns of the clause."""
    return _Lowering(match, sql, source, catalog).lower(view)


class _Lowering:
    def __init__(
        self, match: RowPatternMatch, sql: str, source: PatternSource, catalog: Catalog
    ) -> None:
        self.match, self.sql, self.source, self.catalog = match, sql, source, catalog
        self.names = variables_of(match.args["pattern"])
        if len(self.names) > _MOST_VARIABLES:
            raise UnsupportedQuery(
                f"a pattern has at most {_MOST_VARIABLES} variables",
                span=span_of(match.args["pattern"], sql),
            )
        self.numbers = {name.lower(): i for i, name in enumerate(self.names)}
        self.sets: dict[str, tuple[int, ...]] = {name: (i,) for name, i in self.numbers.items()}
        self._read_subsets()
        self.keys = [self._column(each) for each in match.args.get("partition_by") or []]
        self.arguments: list[exp.Expr] = []
        self.fields: list[Field] = []  # of the arguments
        self.leaves: list[Leaf] = []
        self.defined: int | None = None  # the variable whose condition is read

    def lower(self, view: str) -> RowPatternQueries:
        pattern = self.match.args["pattern"]
        time = self.source.schema.find(self.source.timestamp_by)
        assert time is not None
        written = PatternSteps(self.numbers, self.sql)
        steps = written.write(pattern)
        # Leaves are typed by the arguments, which are known once everything is read.
        defines = list(self._definitions())
        conditions = [(v, self._leafed(node, is_define=True)) for v, node in defines]
        define_leaves, self.leaves = self.leaves, []
        outputs = self._outputs()
        arguments = self._arguments()
        measured = [self._typed(each) for each in self.leaves]
        define_leaves = [self._typed(each) for each in define_leaves]
        made, tests, tested = self._conditions(conditions, define_leaves)
        skip, skip_to = self._skip()
        shown = self._shown_schema(measured)
        offsets = [each.shift for each in (*define_leaves, *measured)]
        rows = RowPattern(
            names=tuple(self.names), steps=steps, loops=written.loops, conditions=tuple(made),
            leaves=tuple(define_leaves), measured=tuple(measured), tests=tests,
            tested=tuple(tested), skip=skip, skip_to=skip_to, shown=self.match.args["rows"],
            within=self._within(), lookback=-min([0, *offsets]), lookahead=max([0, *offsets]),
            ties=self._ties(),
        )  # fmt: skip
        query = exp.select(*outputs).from_(exp.to_table(MATCHES, quoted=True))
        query.args["from_"].this.this.set("quoted", True)
        return RowPatternQueries(
            view=view, source=self.source.name, length=self.source.length, keys=tuple(self.keys),
            time=time, phases=(), measures=(), read=(), read_before=(), steps=arguments, edges=0,
            shown=shown, show=self._lowered(query, {MATCHES: shown}), is_match_recognize=True,
            pattern=rows,
        )  # fmt: skip

    # Names.

    def _column(self, node: exp.Expr) -> int:
        name = node.name if isinstance(node, exp.Column) else None
        found = None if name is None else self.source.schema.find(name)
        if found is None:
            hint = nearest(name, self.source.schema.names) if name else "PARTITION BY a column."
            raise UnknownName(
                f'"{self.source.name}" has no column "{node.sql()}"', hint=hint,
                span=span_of(node, self.sql),
            )  # fmt: skip
        return found

    def _text(self, node: exp.Expr) -> str:
        span = span_of(node, self.sql)
        return type(node).__name__ if span is None else span.text

    def _read_subsets(self) -> None:
        for each in self.match.args.get("subsets") or []:
            name = each.args["variable"].name
            if name.lower() in self.sets:
                raise MalformedSQL(f'"{name}" is a variable already', hint="Give it another name.",
                                   span=span_of(each, self.sql))  # fmt: skip
            members = []
            for member in each.expressions:
                if member.name.lower() not in self.numbers:
                    raise self._unknown(member.name, member)
                members.append(self.numbers[member.name.lower()])
            self.sets[name.lower()] = tuple(sorted(set(members)))

    def _unknown(self, name: str, node: exp.Expr) -> UnknownName:
        return UnknownName(
            f'there is no variable "{name}" in the pattern',
            hint=nearest(name, list(self.sets)),
            span=span_of(node, self.sql) or span_of(self.match, self.sql),
        )

    def _set(self, name: str, node: exp.Expr) -> tuple[int, ...]:
        if not name:
            return ()
        if name.lower() not in self.sets:
            raise self._unknown(name, node)
        return self.sets[name.lower()]

    # Clauses.

    def _definitions(self) -> Iterator[tuple[int, exp.Expr]]:
        seen: set[str] = set()
        for each in self.match.args.get("define") or []:
            name = each.alias.lower()
            if name not in self.numbers:
                raise MalformedSQL(
                    f'"{each.alias}" is not in the PATTERN', hint=nearest(name, self.names),
                    span=span_of(each, self.sql),
                )  # fmt: skip
            if name in seen:
                raise MalformedSQL(
                    f'"{each.alias}" is defined twice', hint="Join both conditions by AND.",
                    span=span_of(each, self.sql),
                )  # fmt: skip
            seen.add(name)
            for conjunct in _conjuncts(each.this):
                yield self.numbers[name], conjunct

    def _skip(self) -> tuple[Skip, tuple[int, ...]]:
        kind: Skip = self.match.args["after"]
        name = self.match.args.get("skip_to")
        return kind, () if name is None else self._set(name.name, name)

    def _within(self) -> int | None:
        node = self.match.args.get("within")
        if node is None:
            return None
        span = span_of(node, self.sql)
        value: Any = lower_interval(node.this, span).value
        months, length = value
        if months or length <= 0:
            raise UnsupportedQuery(
                "WITHIN takes a positive length of time", detail="A month has no fixed length.",
                hint="WITHIN INTERVAL '30' DAYS", span=span,
            )  # fmt: skip
        (time,) = [f for f in self.source.schema
                   if f.name.lower() == self.source.timestamp_by.lower()]  # fmt: skip
        return int(length // _DAY if isinstance(time.type, Date) else length)

    def _ties(self) -> tuple[tuple[int, bool], ...]:
        order = self.match.args.get("order")
        keys = [] if order is None else order.expressions
        return tuple((self._column(each.this), bool(each.args.get("desc"))) for each in keys[1:])

    def _outputs(self) -> list[exp.Expr]:
        schema = self.source.schema
        keys = [_named(exp.column(schema[i].name, quoted=True), schema[i].name) for i in self.keys]
        measures = [self._measure(each) for each in self.match.args.get("measures") or []]
        if self.match.args["rows"] == "one":
            if not keys and not measures:
                raise UnsupportedQuery(
                    "MATCH_RECOGNIZE shows nothing: it has neither PARTITION BY nor MEASURES",
                    hint="MEASURES COUNT(*) AS n", span=span_of(self.match, self.sql),
                )  # fmt: skip
            return [*keys, *measures]
        order = self.match.args["order"].expressions
        first = [i for i in dict.fromkeys(self._column(each.this) for each in order)
                 if i not in self.keys]  # fmt: skip
        rest = [i for i in range(len(schema)) if i not in first and i not in self.keys]
        own = {i: self._own(i) for i in (*first, *rest)}
        return [*keys, *(own[i] for i in first), *measures, *(own[i] for i in rest)]

    def _own(self, i: int) -> exp.Expr:
        field = self.source.schema[i]
        leaf = Leaf("own", (), self._argument(exp.column(field.name, quoted=True)), field)
        return _named(self._place_leaf(leaf), field.name)

    def _measure(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Alias):
            raise MalformedSQL("a measure needs a name", hint="AS name",
                               span=span_of(node, self.sql))  # fmt: skip
        value = self._leafed(node.this, is_define=False)
        if self.match.args["rows"] == "unmatched":
            matched = self._place_leaf(Leaf("count", (), -1, Field("", BIGINT, True)))
            test = exp.Not(this=exp.Is(this=matched, expression=exp.Null()))
            value = exp.Case(ifs=[exp.If(this=test, true=exp.Paren(this=value))])
        return _named(value, node.alias)

    # Leaves.

    def _leafed(self, node: exp.Expr, *, is_define: bool) -> exp.Expr:
        """The expression with leaves in the place of what reads rows."""
        self._check(node)
        holder = exp.Paren(this=node.copy())
        return self._replaced(holder.this, is_define, is_final=False)

    def _check(self, node: exp.Expr) -> None:
        for part in node.find_all(
            exp.IgnoreNulls, exp.RespectNulls, exp.Filter, exp.Window, exp.WithinGroup, exp.Query
        ):
            raise UnsupportedQuery(
                f"{self._text(part)} is not kept for a pattern", hint=_AGGREGATES,
                span=span_of(part, self.sql) or span_of(node, self.sql),
            )  # fmt: skip

    def _replaced(self, node: exp.Expr, is_define: bool, *, is_final: bool) -> exp.Expr:
        if isinstance(node, Semantics):
            wants_final = bool(node.args["final"])
            if is_define and wants_final:
                raise MalformedSQL("FINAL stands in MEASURES only", hint="Leave it out.",
                                   span=span_of(node, self.sql))  # fmt: skip
            return self._replaced(node.this, is_define, is_final=wants_final)
        if isinstance(node, exp.Avg):
            self._check_aggregate(node)
            total, count = (
                self._aggregate("sum", node, is_final),
                self._aggregate("count", node, is_final),
            )
            zero = exp.Nullif(this=count, expression=_number(0))
            return exp.Paren(this=exp.Div(this=total, expression=zero))
        if type(node) in _KINDS:
            self._check_aggregate(node)
            return self._aggregate(_KINDS[type(node)], node, is_final)
        if _called(node) == "match_number":
            return self._place_leaf(Leaf("number", (), -1, Field("", BIGINT, True)))
        found = self._navigated(node)
        if found is not None:
            place, argument = found
            return self._row_leaf(replace(place, is_final=is_final), argument, node)
        if isinstance(node, exp.AggFunc) or _called(node) in _ROW_FUNCTIONS:
            raise UnsupportedQuery(
                f"{self._text(node)} is not kept for a pattern", hint=_AGGREGATES,
                span=span_of(node, self.sql),
            )  # fmt: skip
        made = node.copy()
        for key, value in node.args.items():
            if isinstance(value, exp.Expr):
                made.set(key, self._replaced(value, is_define, is_final=is_final))
            elif isinstance(value, list):
                inner = [self._replaced(each, is_define, is_final=is_final)
                         if isinstance(each, exp.Expr) else each for each in value]  # fmt: skip
                made.set(key, inner)
        return made

    def _navigated(self, node: exp.Expr) -> tuple[_Place, exp.Expr] | None:
        """The row that a whole expression is of, and what it is of that row; None if of several."""
        if isinstance(node, exp.First | exp.Last | exp.FirstValue | exp.LastValue):
            inner = self._of_row(node.this, node)
            offset = self._number(node.args.get("expression"), node, 0)
            is_last = isinstance(node, exp.Last | exp.LastValue)
            return _Place(inner[0], is_last, offset), inner[1]
        if _called(node) in ("prev", "next"):
            argument, *rest = node.expressions or [None]
            if argument is None or len(rest) > 1:
                raise MalformedSQL(f"{_called(node).upper()} takes a value and a number of rows",
                                   hint="PREV(b.x, 2)", span=span_of(node, self.sql))  # fmt: skip
            shift = self._number(rest[0] if rest else None, node, 1)
            if isinstance(argument, exp.First | exp.Last):
                found = self._navigated(argument)
                assert found is not None
                place, value = found
            else:
                variables, value = self._of_row(argument, node)
                place = _Place(variables)
            sign = -1 if _called(node) == "prev" else 1
            return replace(place, shift=sign * shift), value
        if _called(node) == "classifier":
            return _Place(self._classified(node)), node
        if not isinstance(node, _LIFTED) or isinstance(node, exp.Literal):
            return None
        return self._lifted(node)

    def _lifted(self, node: exp.Expr) -> tuple[_Place, exp.Expr] | None:
        """A column, or arithmetic whose columns are all of one row."""
        if isinstance(node, exp.Column):
            return _Place(self._set(node.table, node)), node
        if not all(isinstance(each, _LIFTED) for each in node.walk()):
            return None
        places = {self._set(each.table, each) for each in node.find_all(exp.Column)}
        return (_Place(next(iter(places))), node) if len(places) == 1 else None

    def _of_row(self, node: exp.Expr, call: exp.Expr) -> tuple[tuple[int, ...], exp.Expr]:
        """An argument of navigation: which variables its columns are of."""
        if _called(node) == "classifier":
            return self._classified(node), node
        for part in node.find_all(exp.AggFunc, exp.Anonymous, Semantics):
            if not isinstance(part, exp.Anonymous) or _called(part) in _ROW_FUNCTIONS:
                raise UnsupportedQuery(
                    f"{self._text(part)} does not stand in {self._text(call)}",
                    hint="PREV(FIRST(b.x, 1), 2) goes to a row of b, then back from there.",
                    span=span_of(call, self.sql),
                )  # fmt: skip
        places = {self._set(each.table, each) for each in node.find_all(exp.Column)}
        if len(places) > 1:
            raise UnsupportedQuery(
                "an argument is of one variable", hint="Write LAST(a.x) + LAST(b.x).",
                span=span_of(call, self.sql),
            )  # fmt: skip
        return (next(iter(places)) if places else ()), node

    def _classified(self, node: exp.Expr) -> tuple[int, ...]:
        if not node.expressions:
            return ()
        (variable,) = node.expressions
        return self._set(variable.name, variable)

    def _number(self, node: exp.Expr | None, call: exp.Expr, otherwise: int) -> int:
        if node is None:
            return otherwise
        if not isinstance(node, exp.Literal) or not node.is_int or int(node.name) > 1_000_000:
            raise UnsupportedQuery(
                f"the offset of {self._text(call)} is not a whole number", hint="LAST(b.x, 1)",
                span=span_of(call, self.sql),
            )  # fmt: skip
        return int(node.name)

    def _check_aggregate(self, call: exp.Expr) -> None:
        inside = call.this.find(exp.AggFunc) if call.this is not None else None
        if call.this is None or inside is not None or call.expressions or isinstance(
            call.this, exp.Distinct
        ):  # fmt: skip
            raise UnsupportedQuery(
                f"{self._text(call)} is not kept for a pattern", hint=_AGGREGATES,
                span=span_of(call, self.sql),
            )  # fmt: skip

    def _aggregate(self, kind: LeafKind, call: exp.Expr, is_final: bool) -> exp.Expr:
        argument = call.this
        is_rows = kind == "count" and isinstance(argument, exp.Star | exp.Literal)
        is_star = isinstance(argument, exp.Column) and isinstance(argument.this, exp.Star)
        variables = () if is_rows else self._of_row(argument, call)[0]
        number = -1 if is_rows or is_star else self._argument(argument)
        return self._place_leaf(
            Leaf(kind, variables, number, Field("", BIGINT, True), is_final=is_final),
            call,
        )

    def _row_leaf(self, place: _Place, argument: exp.Expr, node: exp.Expr) -> exp.Expr:
        is_classifier = _called(argument) == "classifier"
        number = -1 if is_classifier else self._argument(argument)
        return self._place_leaf(
            Leaf(
                "classifier" if is_classifier else "row", place.variables, number,
                Field("", STRING, True), place.is_last, place.offset, place.shift, place.is_final,
            ),
            node,
        )  # fmt: skip

    def _place_leaf(self, leaf: Leaf, node: exp.Expr | None = None) -> exp.Expr:
        if leaf not in self.leaves:
            self.leaves.append(leaf)
        made = exp.column(_leaf(self.leaves.index(leaf)), quoted=True)
        if node is not None:
            made.this.meta.update(node.meta)
        return made

    # Arguments.

    def _argument(self, node: exp.Expr) -> int:
        """The number of what is computed of each row."""
        holder = exp.Paren(this=node.copy())
        for column in list(holder.find_all(exp.Column)):
            at = self._column(column)
            made = exp.column(self.source.schema[at].name, quoted=True)
            made.this.meta.update(column.this.meta)
            column.replace(made)
        if holder.this not in self.arguments:
            self.arguments.append(holder.this)
        return self.arguments.index(holder.this)

    def _arguments(self) -> Relation:
        """The relation that computes all arguments, and their fields."""
        named = [_named(each, f"argument {i}") for i, each in enumerate(self.arguments)]
        named = named or [_named(_number(0), NOTHING)]
        query = exp.select(*named).from_(exp.to_table(ROWS, quoted=True))
        query.args["from_"].this.this.set("quoted", True)
        found = self._lowered(query, {ROWS: self.source.schema})
        self.fields = list(found.schema)
        return found

    def _typed(self, leaf: Leaf) -> Leaf:
        if leaf.kind in ("classifier", "number", "count"):
            return leaf
        field = self.fields[leaf.argument]
        type_ = field.type
        if leaf.is_aggregate:
            if isinstance(type_, String | Nested):
                raise UnsupportedQuery(
                    f"{leaf.kind} of {type_} is not kept for a pattern",
                    hint="COUNT, FIRST and LAST are.",
                    span=span_of(self.arguments[leaf.argument], self.sql)
                    or span_of(self.match, self.sql),
                )
            if leaf.kind == "sum":
                type_ = _sum_type(type_)
        elif not isinstance(type_, Nested):
            type_ = kept_type(type_)
        return replace(leaf, field=Field("", type_, True))

    def _shown_schema(self, measured: list[Leaf]) -> Schema:
        fields = [self.source.schema[i] for i in self.keys]
        fields += [replace(each.field, name=_leaf(i)) for i, each in enumerate(measured)]
        return Schema(tuple(fields))

    # Conditions.

    def _conditions(
        self, conditions: list[tuple[int, exp.Expr]], leaves: list[Leaf]
    ) -> tuple[list[Condition], Relation | None, list[Leaf]]:
        tests: list[exp.Expr] = []
        tested: list[Leaf] = []
        made = []
        for variable in range(len(self.names)):
            own = [node for v, node in conditions if v == variable]
            near = [node for node in own if self._is_near(node, leaves, variable)]
            rest = [node for node in own if not any(node is each for each in near)]
            test = -1
            if near:
                test = len(tests)
                tests.append(self._near(near, leaves, tested))
            made.append(self._condition(variable, test, rest, leaves))
        if not tests:
            return made, None, []
        fields = [replace(each.field, name=_leaf(i)) for i, each in enumerate(tested)]
        cases = [exp.Case(ifs=[exp.If(this=each, true=_number(1))], default=_number(0))
                 for each in tests]  # fmt: skip
        query = exp.select(*(_named(each, f"test {i}") for i, each in enumerate(cases)))
        query = query.from_(exp.to_table(LEAVES, quoted=True))
        query.args["from_"].this.this.set("quoted", True)
        schema = Schema(tuple(fields or [Field(NOTHING, BIGINT, True)]))
        return made, self._lowered(query, {LEAVES: schema}), tested

    def _is_near(self, node: exp.Expr, leaves: list[Leaf], variable: int) -> bool:
        """Whether all that a condition reads is at fixed distances from the row itself."""
        for each in node.find_all(exp.Column):
            leaf = leaves[_number_of(each)]
            is_own = leaf.kind == "row" and leaf.is_last and leaf.offset == 0
            if not is_own or (leaf.variables and variable not in leaf.variables):
                return False
        return True

    def _near(self, nodes: list[exp.Expr], leaves: list[Leaf], tested: list[Leaf]) -> exp.Expr:
        holder = exp.Paren(this=exp.and_(*(each.copy() for each in nodes)))
        for each in list(holder.find_all(exp.Column)):
            leaf = leaves[_number_of(each)]
            near = Leaf("row", (), leaf.argument, leaf.field, shift=leaf.shift)
            if near not in tested:
                tested.append(near)
            each.this.set("this", _leaf(tested.index(near)))
        found: exp.Expr = holder.this
        return found

    def _condition(
        self, variable: int, test: int, rest: list[exp.Expr], leaves: list[Leaf]
    ) -> Condition:
        if not rest:
            return Condition(variable, test, None)
        fields = [replace(each.field, name=_leaf(i)) for i, each in enumerate(leaves)]
        query = exp.select(_named(exp.and_(*rest), "holds"))
        query = query.from_(exp.to_table(LEAVES, quoted=True))
        query.args["from_"].this.this.set("quoted", True)
        schema = Schema(tuple(fields or [Field(NOTHING, BIGINT, True)]))
        return Condition(variable, test, self._lowered(query, {LEAVES: schema}))

    def _lowered(self, query: exp.Select, named: dict[str, Schema]) -> Relation:
        return lower(query, self.sql, PartCatalog(self.catalog, named))


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Paren) and isinstance(node.this, exp.And):
        node = node.this
    if isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


def _called(node: exp.Expr) -> str:
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def _sum_type(type_: Type) -> Type:
    match type_:
        case Integer():
            return BIGINT
        case Decimal():
            return Decimal(min(38, type_.precision + 10), type_.scale)
        case Float():
            return Float(64)
    return type_


def _leaf(i: int) -> str:
    return f"leaf {i}"


def _number_of(column: exp.Column) -> int:
    return int(column.name.rsplit(" ", 1)[1])


def _named(node: exp.Expr, name: str) -> exp.Expr:
    made: exp.Expr = exp.alias_(node, name, quoted=True)
    return made


def _number(value: int) -> exp.Expr:
    return exp.cast(exp.Literal.number(value), "BIGINT")

"""The join-aggregate block of a query: which tables, joined on which variables, aggregated how.

takes  a rewritten relation
gives  `Block`: occurrences of tables, variables, free variables, aggregates, what is shown
next   polynomials, variable_order
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from viewmill.algebra.conditions import conjuncts
from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Cast, Column, Expression
from viewmill.algebra.failures import failing_part
from viewmill.algebra.operation_calls import OperationCall
from viewmill.algebra.packed import Packed
from viewmill.algebra.relations import (
    Aggregate,
    Distinct,
    Filter,
    Foreign,
    Join,
    Named,
    Project,
    Relation,
    Scan,
    Sort,
)
from viewmill.algebra.schema import free_name
from viewmill.algebra.types import BOOLEAN, Decimal, Integer, Nested, Null, Type, Wide
from viewmill.algebra.walk import columns_of, has_subquery, substitute
from viewmill.codegen.shape import NotTaken
from viewmill.errors import Span
from viewmill.rewrite.rings_beside_others import ONLY_VALUE

_MOST_VARIABLES = 60  # the null bits of a key are one word


@dataclass(frozen=True)
class Occurrence:
    """A table in the join; a self-join has two. `where` judges its rows alone."""

    scan: Scan
    where: tuple[Expression, ...] = ()

    @property
    def alias(self) -> str:
        """The alias of the table in the query."""
        return self.scan.alias


@dataclass(frozen=True)
class Variable:
    """What a join equates or a view groups by: one expression for each occurrence that has it.

    A variable of several occurrences is never NULL: NULL meets nothing.
    """

    name: str
    members: tuple[tuple[str, Expression], ...]

    @property
    def aliases(self) -> frozenset[str]:
        """The occurrences that have it."""
        return frozenset(alias for alias, _ in self.members)

    @property
    def type(self) -> Type:
        """The type of its values."""
        return self.members[0][1].type

    @property
    def is_joined(self) -> bool:
        """Whether it stands in a join condition."""
        return len(self.members) > 1

    @property
    def nullable(self) -> bool:
        """Whether it can be NULL in a key."""
        return not self.is_joined and self.members[0][1].nullable

    def member(self, alias: str) -> Expression:
        """The expression of the variable in one occurrence."""
        return dict(self.members)[alias]


@dataclass(frozen=True)
class Beside:
    """A table of one row per group whose columns the view shows beside its aggregates.

    `keys` has the column that a free variable is there, `values` what the view calls the others.
    """

    scan: Scan
    keys: Mapping[str, Column]
    values: tuple[tuple[str, Column], ...]


@dataclass(frozen=True)
class Block:
    """SELECT outputs FROM occurrences, joined on variables, GROUP BY free HAVING having.

    `keys` says which free variable a grouping column is. A block without aggregates shows every
    row of the join: `listed`, its outputs over the free variables.
    """

    query: Relation
    occurrences: tuple[Occurrence, ...]
    variables: tuple[Variable, ...]
    free: tuple[str, ...]
    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, AggregateCall], ...]
    having: tuple[Expression, ...]
    outputs: tuple[Named, ...]
    listed: bool
    beside: tuple[Beside, ...] = ()

    def occurrence(self, alias: str) -> Occurrence:
        """Look up by name."""
        return next(each for each in self.occurrences if each.alias == alias)

    def variable(self, name: str) -> Variable:
        """Look up by name."""
        return next(each for each in self.variables if each.name == name)

    def variables_of(self, alias: str) -> tuple[Variable, ...]:
        """The variables that an occurrence has."""
        return tuple(each for each in self.variables if alias in each.aliases)

    @property
    def is_global(self) -> bool:
        """Whether there is one row in all."""
        return not self.listed and not self.free


def block_of(query: Relation, *, careful: bool = False) -> Block:
    """The block of a query, or `NotTaken` with the part that is in the way."""
    inner = query.input if isinstance(query, Sort) else query
    if isinstance(query, Sort):
        _require_shown(query)
    distinct = isinstance(inner, Distinct)
    if isinstance(inner, Distinct):
        inner = _as_group(inner)
    above, outputs, bottom = _linear(inner)
    if isinstance(bottom, Aggregate):
        return _grouped(query, bottom, above, outputs, careful=careful)
    assert not distinct
    return _listed(query, bottom, above, outputs, careful=careful)


def _as_group(distinct: Distinct) -> Relation:
    keys: tuple[Named, ...] = tuple(
        (f.name, Column(f.name, f.type, f.nullable)) for f in distinct.input.schema
    )
    return Aggregate(distinct.input, keys, (), None, distinct.span)


def _grouped(
    query: Relation, group: Aggregate, having: tuple[Expression, ...], outputs: tuple[Named, ...],
    *, careful: bool,
) -> Block:  # fmt: skip
    if group.grouping_sets is not None:
        raise NotTaken("grouping sets are not maintained by a view tree", group.span)
    # Numbers over one table are dataflow's; a ring is kept by a tree of one leaf.
    for _, call in group.aggregates:
        if isinstance(call.type, Packed) and isinstance(call.type.shape, OperationCall):
            raise NotTaken(f"{call.function} is an operation for windows", call.span)
    alone = any(isinstance(call.type, Packed) for _, call in group.aggregates)
    only = [call.arguments[0] for _, call in group.aggregates if call.function == ONLY_VALUE]
    builder = _Builder(group.input, alone=alone, careful=careful, only=only)
    by_name = builder.columns
    keys = [(name, substitute(each, by_name)) for name, each in group.keys]
    calls = tuple((name, substitute(each, by_name)) for name, each in group.aggregates)
    constant: dict[str, Expression] = {}
    named: list[tuple[str, str]] = []
    for name, key in keys:
        if columns_of(key):
            named.append((name, builder.free_variable(key)))
        else:
            constant[name] = key
    shown = [(n, each) for n, each in calls if getattr(each, "function", "") != ONLY_VALUE]
    block = builder.block(
        query,
        keys=tuple(named),
        aggregates=tuple(shown),  # type: ignore[arg-type]
        having=tuple(substitute(each, constant) for each in having),
        outputs=tuple((name, substitute(each, constant)) for name, each in outputs),
        listed=False,
    )
    values = [(n, call.arguments[0]) for n, call in calls if (n, call) not in shown]  # type: ignore[union-attr]
    return replace(block, beside=_beside(builder, keys, dict(named), values))


def _beside(
    builder: _Builder, keys: Sequence[Named], variables: Mapping[str, str], values: Sequence[Named]
) -> tuple[Beside, ...]:
    """What stands beside the groups: of each table the keys and the values it has."""
    found = []
    for scan in builder.beside:
        names = set(scan.schema.names)
        met = builder.met[scan.alias]
        pairs = {variables[n]: met[key] for n, key in keys if n in variables}
        own = [(n, each) for n, each in values if columns_of(each) & names]
        for each in (*pairs.values(), *(value for _, value in own)):
            if not isinstance(each, Column) or isinstance(each.type, Wide):
                raise NotTaken("a value beside a group that is no word of a column", each.span)
        found.append(Beside(scan, pairs, tuple(own)))  # type: ignore[arg-type]
    return tuple(found)


def _listed(
    query: Relation, bottom: Relation, where: tuple[Expression, ...], outputs: tuple[Named, ...],
    *, careful: bool,
) -> Block:  # fmt: skip
    below = bottom
    for condition in where:
        below = Filter(below, condition)
    builder = _Builder(below, careful=careful)
    outputs = tuple((name, substitute(each, builder.columns)) for name, each in outputs)
    shown = [column for _, each in outputs for column in builder.columns_in(each)]
    keys = tuple((column.name, builder.free_variable(column)) for column in dict.fromkeys(shown))
    return builder.block(query, keys=keys, aggregates=(), having=(), outputs=outputs, listed=True)


class _Builder:
    """Gathers occurrences, conditions and variables of the join below a group-by."""

    def __init__(
        self, relation: Relation, *, careful: bool, alone: bool = False,
        only: Sequence[Expression] = (),
    ) -> None:  # fmt: skip
        self.careful = careful
        self.scans: list[Scan] = []
        self.conditions: list[Expression] = []
        self.columns: dict[str, Expression] = self._flatten(relation)
        # By scan beside: a key, and the column that it equals there.
        self.met: dict[str, dict[Expression, Column]] = {}
        self.beside = self._take_beside(only)
        if len(self.scans) < 2 and not alone:
            raise NotTaken("the query reads one table: there is nothing to join", relation.span)
        self.alias_of = {name: scan.alias for scan in self.scans for name in scan.schema.names}
        self.where: dict[str, list[Expression]] = {scan.alias: [] for scan in self.scans}
        self.classes: list[list[tuple[str, Expression]]] = []
        for condition in self.conditions:
            self._place(condition)
        self._one_member_each()
        self.free: list[list[tuple[str, Expression]]] = []
        self.names: dict[int, str] = {}

    def _flatten(self, relation: Relation) -> dict[str, Expression]:
        """Note scans and conditions; the columns of the relation over those of the scans."""
        match relation:
            case Scan():
                self.scans.append(relation)
                return {f.name: Column(f.name, f.type, f.nullable) for f in relation.schema}
            case Filter():
                columns = self._flatten(relation.input)
                self._note(relation.condition, columns)
                return columns
            case Project():
                columns = self._flatten(relation.input)
                return {name: substitute(each, columns) for name, each in relation.outputs}
            case Join() if relation.kind in ("inner", "cross"):
                columns = self._flatten(relation.left) | self._flatten(relation.right)
                if relation.condition is not None:
                    self._note(relation.condition, columns)
                return columns
            case _:
                raise NotTaken(*_blame(relation))

    def _take_beside(self, only: Sequence[Expression]) -> list[Scan]:
        """Take the scans that hold the only values out of the join, and what they meet by."""
        read = set().union(*(columns_of(substitute(each, self.columns)) for each in only))
        found = [scan for scan in self.scans if read & set(scan.schema.names)]
        self.scans = [scan for scan in self.scans if scan not in found]
        for scan in found:
            self.met[scan.alias] = self._take_meeting(set(scan.schema.names))
        return found

    def _take_meeting(self, names: set[str]) -> dict[Expression, Column]:
        """Take the conditions that join a table beside the groups."""
        met = [each for each in self.conditions if columns_of(each) & names]
        self.conditions = [each for each in self.conditions if each not in met]
        pairs: dict[Expression, Column] = {}
        for each in met:
            assert isinstance(each, Call)
            key, column = each.arguments
            if each.function != "<=>" or not isinstance(column, Column):
                raise NotTaken("values beside a group that are not joined by its key", each.span)
            pairs[key] = column
        return pairs

    def _note(self, condition: Expression, columns: Mapping[str, Expression]) -> None:
        if has_subquery(condition):
            raise NotTaken("a subquery in a condition", condition.span)
        for each in conjuncts(substitute(condition, columns)):
            self.conditions.append(each)

    def aliases(self, expression: Expression) -> set[str]:
        """The occurrences that an expression reads."""
        names = columns_of(expression)
        if not names <= self.alias_of.keys():
            raise NotTaken("a key or a sum of what stands beside a group", expression.span)
        return {self.alias_of[name] for name in names}

    def _place(self, condition: Expression) -> None:
        """A condition on one table is its filter; an equality of two makes a variable."""
        aliases = self.aliases(condition)
        if len(aliases) <= 1:
            alias = next(iter(aliases), self.scans[0].alias)
            self.where[alias].append(condition)
            return
        sides = _equated(condition)
        if sides is None or any(len(self.aliases(side)) != 1 for side in sides):
            raise NotTaken("a condition between tables that is no equality", condition.span)
        left, right = _same_type(*sides, condition)
        self._equate((min(self.aliases(left)), left), (min(self.aliases(right)), right))

    def _equate(self, left: tuple[str, Expression], right: tuple[str, Expression]) -> None:
        found = [each for each in self.classes if left in each or right in each]
        merged = [left, right]
        for each in found:
            merged += each
            self.classes.remove(each)
        self.classes.append(list(dict.fromkeys(merged)))

    def _one_member_each(self) -> None:
        """Two expressions of one table in one class are a filter on it."""
        for i, members in enumerate(self.classes):
            kept: dict[str, Expression] = {}
            for alias, expression in members:
                if alias in kept:
                    self.where[alias].append(
                        Call("=", (kept[alias], expression), BOOLEAN, True, expression.span)
                    )
                kept.setdefault(alias, expression)
            self.classes[i] = list(kept.items())

    def free_variable(self, expression: Expression) -> str:
        """The name of the variable that an expression is; a new one if no join has it."""
        aliases = self.aliases(expression)
        if len(aliases) != 1:
            raise NotTaken("grouping by an expression over several tables", expression.span)
        (alias,) = aliases
        for members in (*self.classes, *self.free):
            if any(alias == a and _is_same(expression, e) for a, e in members):
                if members not in self.free:
                    self.free.append(members)
                return self._name(members)
        made = [(alias, expression)]
        self.free.append(made)
        return self._name(made)

    def columns_in(self, expression: Expression) -> list[Column]:
        """The columns that an expression reads, in order."""
        if isinstance(expression, Column):
            return [expression]
        return [c for name, c in self._scan_columns().items() if name in columns_of(expression)]

    def _scan_columns(self) -> dict[str, Column]:
        fields = [field for scan in self.scans for field in scan.schema]
        return {f.name: Column(f.name, f.type, f.nullable) for f in fields}

    def _name(self, members: list[tuple[str, Expression]]) -> str:
        """A name that reads like the column, unique among variables."""
        if id(members) not in self.names:
            self.names[id(members)] = free_name(_wish(members[0][1]), self.names.values())
        return self.names[id(members)]

    def block(
        self, query: Relation, *, keys: tuple[tuple[str, str], ...],
        aggregates: tuple[tuple[str, AggregateCall], ...], having: tuple[Expression, ...],
        outputs: tuple[Named, ...], listed: bool,
    ) -> Block:  # fmt: skip
        """The finished block."""
        local = [each for each in self.free if not any(each is other for other in self.classes)]
        variables = tuple(
            Variable(self._name(each), tuple(each)) for each in (*self.classes, *local)
        )
        if len(variables) > _MOST_VARIABLES:
            raise NotTaken(f"more than {_MOST_VARIABLES} variables")
        for variable in variables:
            if isinstance(variable.type, Nested | Null):
                raise NotTaken(f"a key of type {variable.type}", variable.members[0][1].span)
        self._refuse_failing(variables, [call for _, call in aggregates])
        occurrences = tuple(Occurrence(s, tuple(self.where[s.alias])) for s in self.scans)
        free = tuple(dict.fromkeys(name for _, name in keys))
        return Block(query, occurrences, variables, free, keys, aggregates, having, outputs, listed)

    def _refuse_failing(
        self, variables: Sequence[Variable], aggregates: Sequence[AggregateCall]
    ) -> None:
        """A leaf evaluates for every row of its table, SQL for those that join only."""
        if len(self.scans) < 2:
            return
        keys = [each for v in variables if not v.is_joined for _, each in v.members]
        where = [each for conditions in self.where.values() for each in conditions]
        for each in (*keys, *where, *aggregates):
            if (part := failing_part(each, overflow=self.careful)) is not None:
                what = display_expression(part)
                raise NotTaken(f"{what} can fail, and is evaluated for joined rows only", part.span)


def _equated(condition: Expression) -> tuple[Expression, Expression] | None:
    if isinstance(condition, Call) and condition.function == "=":
        left, right = condition.arguments
        return left, right
    return None


def _same_type(
    left: Expression, right: Expression, condition: Expression
) -> tuple[Expression, Expression]:
    """Both sides with equal words for equal values."""
    if left.type == right.type:
        return left, right
    a, b = left.type, right.type
    if isinstance(a, Integer) and isinstance(b, Integer):
        return left, right  # one word, one meaning
    if isinstance(a, Wide) and isinstance(b, Wide) and a.scale == b.scale:
        return left, right
    if isinstance(a, Integer | Decimal) and isinstance(b, Integer | Decimal):
        scales = [each.scale if isinstance(each, Decimal) else 0 for each in (a, b)]
        common = Wide(38, max(scales))
        return tuple(Cast(side, common, side.nullable) for side in (left, right))  # type: ignore[return-value]
    raise NotTaken(f"joining {a} with {b}", condition.span)


def _is_same(expression: Expression, member: Expression) -> bool:
    """Whether a member of a class has the very words of an expression."""
    if expression == member:
        return True
    return (
        isinstance(member, Cast)
        and isinstance(member.type, Integer)
        and isinstance(member.input.type, Integer)
        and member.input.type.bits <= member.type.bits
        and _is_same(expression, member.input)
    )


def _wish(expression: Expression) -> str:
    while isinstance(expression, Cast):
        expression = expression.input
    # What definitions add to columns has a colon in its name.
    name = expression.name.split(".")[-1] if isinstance(expression, Column) else ""
    return name.replace(":", "_") or "x"  # a column may end with a dot


def _linear(query: Relation) -> tuple[tuple[Expression, ...], tuple[Named, ...], Relation]:
    """Peel filters and projections: their conditions and outputs over what lies below."""
    match query:
        case Project():
            conditions, columns, bottom = _linear(query.input)
            by_name = dict(columns)
            outputs = tuple((name, substitute(each, by_name)) for name, each in query.outputs)
            return conditions, outputs, bottom
        case Filter():
            conditions, columns, bottom = _linear(query.input)
            condition = substitute(query.condition, dict(columns))
            return (*conditions, condition), columns, bottom
        case _:
            columns = tuple((f.name, Column(f.name, f.type, f.nullable)) for f in query.schema)
            return (), columns, query


def _require_shown(sort: Sort) -> None:
    shown = set(sort.schema.names)
    for key in sort.keys:
        column = key.expression
        if not isinstance(column, Column) or column.name not in shown:
            raise NotTaken("the view is ordered by something that it does not show", column.span)


def _blame(relation: Relation) -> tuple[str, Span | None]:
    if isinstance(relation, Foreign):
        return f"the engine alone understands the query: {relation.reason}", relation.span
    if isinstance(relation, Join):
        return f"a {relation.kind} join in a view tree", relation.span
    return f"{type(relation).__name__} inside a join", relation.span

"""Give columns of DECIMALs of more than 18 digits a type that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from viewmill.algebra.expressions import (
    Aggregate,
    Call,
    Cast,
    Column,
    Expression,
    InSubquery,
    Over,
    ScalarSubquery,
    SortKey,
    walk,
)
from viewmill.algebra.relations import Aggregate as Group
from viewmill.algebra.relations import (
    Filter,
    Join,
    Limit,
    Named,
    Project,
    Relation,
    SetOperation,
    Sort,
    Window,
    inputs,
)
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Decimal, Type, Wide, may_be_wide, shown_type
from viewmill.algebra.walk import Rewrite, expressions, map_parts, walk_relations
from viewmill.rewrite.correlation import transform_everywhere

# What hands a value on as it is, or says which comes first.
_CARRIED = ("min", "max", "lag", "lead", "first_value", "last_value", "nth_value")


def widen_decimals(query: Relation) -> Relation:
    """A shown or grouped DECIMAL that may be wider than a word becomes `Wide`.

    before  Project: a / b AS x, a AS y          x DECIMAL(38,17)
    after   Project: CAST(a / b AS wide) AS x, a AS y

    Whatever computes with it casts it back. Of correlated queries only what is shown at the top.
    """
    if any(_is_outer(part) for part in _parts(query)):
        return _widen_top(query)
    return transform_everywhere(query, _widen)


def _widen_top(query: Relation) -> Relation:
    match query:
        case Sort() | Limit():
            return _widen(replace(query, input=_widen_top(query.input)))
        case Project():
            return replace(query, outputs=_named(query.outputs, _Computed({}).shown))
        case _:
            return query


def _parts(query: Relation) -> Iterator[Expression]:
    for relation in walk_relations(query):
        for expression in expressions(relation):
            yield from walk(expression)


def _is_outer(expression: Expression) -> bool:
    return isinstance(expression, Column) and expression.outer > 0


def _widen(relation: Relation) -> Relation:
    if isinstance(relation, SetOperation):
        return _even(relation)
    below = {f.name: f.type for each in inputs(relation) for f in each.schema}
    wide = {name: type_ for name, type_ in below.items() if isinstance(type_, Wide)}
    computed = _Computed(wide)
    match relation:
        case Filter():
            return replace(relation, condition=computed.within(relation.condition))
        case Join(condition=condition) if condition is not None:
            return replace(relation, condition=computed.within(condition))
        case Project():
            return replace(relation, outputs=_named(relation.outputs, computed.shown))
        case Group():
            calls = tuple((name, computed.aggregate(call)) for name, call in relation.aggregates)
            return replace(relation, keys=_named(relation.keys, computed.shown), aggregates=calls)
        case Window():
            over = tuple((name, computed.over(call)) for name, call in relation.calls)
            return replace(relation, calls=over)
        case Sort():
            return replace(relation, keys=tuple(map(computed.key, relation.keys)))
        case _:
            return relation


def _named(pairs: tuple[Named, ...], change: Rewrite) -> tuple[Named, ...]:
    return tuple((name, change(each)) for name, each in pairs)


class _Computed:
    """Expressions over columns of which some have become wide."""

    def __init__(self, wide: dict[str, Wide]) -> None:
        self.wide = wide

    def carried(self, expression: Expression) -> Expression:
        """A column as it is, anything else computed from what it shows."""
        return _uncast(self.within(expression))

    def within(self, expression: Expression) -> Expression:
        """An expression that computes."""
        match expression:
            case Cast(input=Column(type=Wide())):
                return expression
            case Column() if expression.name in self.wide:
                return _shown(replace(expression, type=self.wide[expression.name]))
            case ScalarSubquery() if isinstance(type_ := expression.query.schema[0].type, Wide):
                return _shown(replace(expression, type=type_))
            case Call(function="=" | "<=>") if _are_wide(expression.arguments):
                # Equal words are equal numbers.
                return replace(expression, arguments=tuple(map(self.shown, expression.arguments)))
            case InSubquery():
                expression = replace(expression, query=_narrow(expression.query))
        return map_parts(expression, self.within)

    def shown(self, expression: Expression) -> Expression:
        """What others read: wide if it must be."""
        expression = self.carried(expression)
        if not may_be_wide(expression.type):
            return expression
        assert isinstance(expression.type, Decimal)
        type_ = Wide(expression.type.precision, expression.type.scale)
        return Cast(expression, type_, expression.nullable, span=expression.span)

    def key(self, key: SortKey) -> SortKey:
        """The key of an order."""
        return replace(key, expression=self.carried(key.expression))

    def aggregate(self, call: Aggregate) -> Aggregate:
        """Extremes and what is told apart are carried, sums computed."""
        where = None if call.where is None else self.within(call.where)
        change = self.shown if call.function in _CARRIED or call.distinct else self.within
        arguments = tuple(map(change, call.arguments))
        return replace(call, arguments=arguments, type=self._type(call, arguments), where=where)

    def over(self, call: Over) -> Over:
        """Widen a window call, whose arguments are all columns of the rows."""
        arguments = tuple(map(self.shown, call.arguments))
        return replace(
            call,
            arguments=arguments,
            partition=tuple(map(self.shown, call.partition)),
            order=tuple(replace(key, expression=self.shown(key.expression)) for key in call.order),
            type=self._type(call, arguments),
        )

    def _type(self, call: Aggregate | Over, arguments: tuple[Expression, ...]) -> Type:
        if call.function in _CARRIED:
            return arguments[0].type
        if call.function in ("sum", "avg") and may_be_wide(call.type):
            assert isinstance(call.type, Decimal)
            return Wide(call.type.precision, call.type.scale)
        return call.type


def _are_wide(sides: tuple[Expression, ...]) -> bool:
    """Whether both sides are wide, with as many digits behind the point."""
    types = [shown_type(each.type) for each in sides]
    scales = {each.scale for each in types if isinstance(each, Decimal) and may_be_wide(each)}
    return len(scales) == 1 and all(map(may_be_wide, types))


def _shown(expression: Column | ScalarSubquery) -> Cast:
    """What is wide as the DECIMAL that it shows."""
    assert isinstance(expression.type, Wide)
    return Cast(expression, expression.type.shown, expression.nullable, span=expression.span)


def _uncast(expression: Expression) -> Expression:
    """What is wide, without the cast to what it shows."""
    match expression:
        case Cast(input=inner, type=Decimal() as shown):
            if isinstance(inner.type, Wide) and inner.type.shown == shown:
                return inner
    return expression


def _narrow(query: Relation) -> Relation:
    """A query whose columns are compared with others, as they are shown."""
    if not any(isinstance(each.type, Wide) for each in query.schema):
        return query
    columns = [Column(each.name, each.type, each.nullable) for each in query.schema]
    outputs = [_shown(each) if isinstance(each.type, Wide) else each for each in columns]
    return Project(query, tuple(zip(query.schema.names, outputs, strict=True)))


def _even(relation: SetOperation) -> SetOperation:
    """Columns of both sides of a set operation are wide if one of them is."""
    left, right = relation.left.schema, relation.right.schema
    types = [
        b.type if isinstance(b.type, Wide) else a.type for a, b in zip(left, right, strict=True)
    ]
    return replace(
        relation, left=_cast(relation.left, left, types), right=_cast(relation.right, right, types)
    )


def _cast(relation: Relation, schema: Schema, types: list[Type]) -> Relation:
    if [each.type for each in schema] == types:
        return relation
    outputs = []
    for each, type_ in zip(schema, types, strict=True):
        column: Expression = Column(each.name, each.type, each.nullable)
        if each.type != type_ and isinstance(type_, Wide):
            column = Cast(column, type_, each.nullable)
        outputs.append((each.name, column))
    return Project(relation, tuple(outputs))

"""Inner joins as a graph: scans, what must be equal between them, and what else must hold.

takes  a tree of inner and cross joins, with filters and projections anywhere
gives  `JoinGraph`
next   join (which writes a trigger for each scan)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from viewmill.algebra.conditions import conjuncts
from viewmill.algebra.expressions import Call, Column, Expression
from viewmill.algebra.relations import Filter, Join, Project, Relation, Scan
from viewmill.algebra.types import BOOLEAN, Decimal, Integer, Type, Wide, has_equal_words
from viewmill.algebra.walk import columns_of, substitute
from viewmill.codegen.linear import columns_as, refuse_failing, refuse_subqueries
from viewmill.codegen.shape import NotTaken, blame


@dataclass
class EqualClass:
    """Expressions that must be equal, at most one for each scan."""

    members: dict[str, Expression] = field(default_factory=dict)


@dataclass
class JoinGraph:
    """Scans by alias, conditions on one scan each, classes of equals, and what spans scans."""

    scans: dict[str, Scan]
    where: dict[str, list[Expression]]
    classes: list[EqualClass]
    residual: list[Expression]
    columns: Mapping[str, Expression]  # of the whole join

    def aliases_of(self, expression: Expression) -> set[str]:
        """The scans that an expression reads."""
        names = columns_of(expression)
        return {a for a, scan in self.scans.items() if names & set(scan.schema.names)}

    def classes_of(self, alias: str) -> list[int]:
        """The classes that a scan has a member of."""
        return [i for i, each in enumerate(self.classes) if alias in each.members]


def join_graph(
    relation: Relation, where: Iterable[Expression], *, careful: bool = False
) -> JoinGraph:
    """The graph of a tree of inner joins below conditions, or `NotTaken`."""
    scans: dict[str, Scan] = {}
    conditions: list[Expression] = []
    columns = _flatten(relation, scans, conditions)
    conditions += [substitute(each, columns) for each in where]
    refuse_subqueries([*conditions, *columns.values()])
    graph = JoinGraph(scans, {alias: [] for alias in scans}, [], [], columns)
    equalities = []
    for condition in conditions:
        aliases = graph.aliases_of(condition)
        is_key = is_equality(condition, graph.aliases_of)
        if not is_key:
            refuse_failing([condition], overflow=careful)
        if len(aliases) <= 1:
            graph.where[next(iter(aliases), next(iter(scans)))].append(condition)
        elif is_key:
            equalities.append(condition)
        else:
            graph.residual.append(condition)
    for equality in equalities:
        _merge(graph, equality)
    graph.classes = [each for each in graph.classes if len(each.members) > 1]
    return graph


def _flatten(
    relation: Relation, scans: dict[str, Scan], conditions: list[Expression]
) -> dict[str, Expression]:
    match relation:
        case Scan():
            if relation.alias in scans:
                raise NotTaken("two occurrences under one name", relation.span)
            scans[relation.alias] = relation
            return dict(columns_as(relation.schema))
        case Project(by_row=False):
            columns = _flatten(relation.input, scans, conditions)
            return {name: substitute(each, columns) for name, each in relation.outputs}
        case Filter():
            columns = _flatten(relation.input, scans, conditions)
            conditions += conjuncts(substitute(relation.condition, columns))
            return columns
        case Join(kind="inner" | "cross"):
            columns = _flatten(relation.left, scans, conditions)
            columns |= _flatten(relation.right, scans, conditions)
            if relation.condition is not None:
                conditions += conjuncts(substitute(relation.condition, columns))
            return columns
        case _:
            raise NotTaken(*blame(relation))


def is_equality(condition: Expression, aliases_of: Callable[[Expression], set[str]]) -> bool:
    """Whether a condition equates an expression of one scan with one of another, word by word."""
    if not isinstance(condition, Call) or condition.function != "=":
        return False
    left, right = condition.arguments
    a, b = aliases_of(left), aliases_of(right)
    return len(a) == len(b) == 1 and a != b and have_equal_words(left.type, right.type)


def have_equal_words(left: Type, right: Type) -> bool:
    """Whether equal values of both types are equal words."""
    if not (has_equal_words(left) and has_equal_words(right)):
        return False
    if isinstance(left, Integer) and isinstance(right, Integer):
        return True
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return left.scale == right.scale
    if isinstance(left, Wide) and isinstance(right, Wide):
        return left.scale == right.scale
    return left == right


def _merge(graph: JoinGraph, equality: Expression) -> None:
    """Put both sides of an equality into one class."""
    assert isinstance(equality, Call)
    sides = [(next(iter(graph.aliases_of(each))), each) for each in equality.arguments]
    found = [_class_of(graph, alias, each) for alias, each in sides]
    target = EqualClass()
    for each in (*found, *(EqualClass({alias: side}) for alias, side in sides)):
        if each is not None:
            _absorb(graph, target, each)
    graph.classes = [each for each in graph.classes if all(each is not old for old in found)]
    graph.classes.append(target)


def _absorb(graph: JoinGraph, target: EqualClass, other: EqualClass) -> None:
    for alias, member in other.members.items():
        known = target.members.setdefault(alias, member)
        if known != member:  # two columns of one scan are equal: a condition on its rows
            graph.where[alias].append(Call("=", (known, member), BOOLEAN, True))


def _class_of(graph: JoinGraph, alias: str, member: Expression) -> EqualClass | None:
    return next((each for each in graph.classes if each.members.get(alias) == member), None)


def is_column(expression: Expression) -> bool:
    """Whether an expression is a plain column."""
    return isinstance(expression, Column)

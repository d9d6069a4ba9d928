"""Take out of an OR what all of its alternatives ask for."""

from __future__ import annotations

from viewmill.algebra.conditions import conjuncts, together
from viewmill.algebra.expressions import Call, Expression
from viewmill.algebra.failures import failing_part
from viewmill.algebra.relations import Filter, Join, Relation
from viewmill.algebra.types import BOOLEAN
from viewmill.algebra.walk import map_parts
from viewmill.rewrite.correlation import map_expressions, transform_everywhere


def factor_conditions(query: Relation) -> Relation:
    """A join key that stands in every alternative is a join key again.

    before  Filter: p.id = l.part AND p.size < 5 OR p.id = l.part AND l.price > 9
    after   Filter: p.id = l.part AND (p.size < 5 OR l.price > 9)
    """

    def change(relation: Relation) -> Relation:
        if isinstance(relation, Filter | Join):
            return map_expressions(relation, _factored)
        return relation

    return transform_everywhere(query, change)


def _factored(condition: Expression) -> Expression:
    if not isinstance(condition, Call) or condition.function not in ("and", "or"):
        return condition
    condition = map_parts(condition, _factored)
    assert isinstance(condition, Call)
    if condition.function == "and":
        return condition
    ways = [list(conjuncts(each)) for each in _alternatives(condition)]
    common = [each for each in ways[0] if all(each in way for way in ways[1:])]
    common = [each for each in common if failing_part(each) is None]  # it may stand behind a guard
    if not common:
        return condition
    rests = [together([each for each in way if each not in common]) for way in ways]
    left = [each for each in rests if each is not None]
    if len(left) < len(rests):  # one alternative asks for nothing else
        left = []
    parts = [*common, *([_either(left)] if left else [])]
    factored = together(parts)
    assert factored is not None
    return factored


def _alternatives(condition: Expression) -> list[Expression]:
    if isinstance(condition, Call) and condition.function == "or":
        return [each for part in condition.arguments for each in _alternatives(part)]
    return [condition]


def _either(conditions: list[Expression]) -> Expression:
    result = conditions[0]
    for each in conditions[1:]:
        result = Call("or", (result, each), BOOLEAN, result.nullable or each.nullable)
    return result

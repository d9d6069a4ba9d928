"""A chain of matrices as arrays, where the hint DENSE asks for it (section 7.1, dense).

takes  `Block`
gives  `Program` with an `Arrays` body, or `NotTaken` with what is in the way

Keys are whole numbers from 0 on. The parenthesis is that of the variable order, which is the
textbook's for the sizes that are known.
"""

from __future__ import annotations

from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.schema import Field
from viewmill.algebra.types import Float, Integer
from viewmill.codegen.inputs import input_of
from viewmill.codegen.shape import NotTaken
from viewmill.program.arrays import ArrayJoin, ArrayLeaf, Arrays
from viewmill.program.generated_source import Names
from viewmill.program.program import Program
from viewmill.program.states import Indexed, Replay, Slot, State
from viewmill.strategies.view_tree.block import Block, Occurrence
from viewmill.strategies.view_tree.plan import TreePlan
from viewmill.strategies.view_tree.tree import View


def emit_dense(plan: TreePlan, strategy: str) -> Program:
    """The program of a chain of matrices."""
    block = plan.block
    chain = _chain(block)
    leaves = {each.alias: _leaf(block, each, chain) for each in block.occurrences}
    joined = _join(plan.root, leaves, chain)
    if not isinstance(joined, ArrayJoin):
        raise NotTaken("DENSE is for a chain of matrices")
    _require_product(block, leaves)
    return Program(
        strategy=strategy,
        query=block.query,
        inputs=tuple(input_of(each.scan) for each in block.occurrences),
        output=block.query.schema,
        states=_states(block, joined),
        body=Arrays(joined, _outputs(block, chain)),
    )


def _chain(block: Block) -> list[str]:
    """The variables from the rows of the first matrix to the columns of the last."""
    ends = [each.name for each in block.variables if not each.is_joined]
    if len(ends) != 2 or set(ends) != set(block.free):
        raise NotTaken("DENSE is for a chain of matrices that is grouped by its two ends")
    order, left = [_shown_first(block)], list(block.occurrences)
    while left:
        here = next((o for o in left if order[-1] in _names(block, o)), None)
        if here is None or len(_names(block, here)) != 2:
            raise NotTaken("DENSE is for tables with a row and a column that are joined in a chain")
        (following,) = _names(block, here) - {order[-1]}
        order.append(following)
        left.remove(here)
    if len(set(order)) != len(order) or {order[0], order[-1]} != set(ends):
        raise NotTaken("DENSE is for tables that are joined in a chain")
    return order


def _shown_first(block: Block) -> str:
    ends = {each.name for each in block.variables if not each.is_joined}
    (alias,) = [o.alias for o in block.occurrences if _names(block, o) & ends][:1]
    return next(iter(_names(block, block.occurrence(alias)) & ends))


def _names(block: Block, occurrence: Occurrence) -> set[str]:
    return {variable.name for variable in block.variables_of(occurrence.alias)}


def _leaf(block: Block, occurrence: Occurrence, chain: list[str]) -> ArrayLeaf:
    if occurrence.where:
        raise NotTaken("DENSE takes no conditions besides the joins", occurrence.scan.span)
    alias = occurrence.alias
    names = sorted(_names(block, occurrence), key=chain.index)
    row, column = (_column(block.variable(n).member(alias), Integer, alias) for n in names)
    (_, call), *others = block.aggregates or ((None, None),)
    if call is None or others or call.function != "sum" or call.where or call.distinct:
        raise NotTaken("DENSE keeps one SUM of a product")
    values = [c for c in _columns(call.arguments[0]) if c.name.startswith(f"{alias}.")]
    if len(values) != 1:
        raise NotTaken(f"DENSE needs one value of {alias} in the product", call.span)
    return ArrayLeaf(alias, row, column, _column(values[0], Float, alias))


def _columns(expression: Expression) -> list[Column]:
    if isinstance(expression, Column):
        return [expression]
    function = getattr(expression, "function", None)
    if function != "*":
        raise NotTaken("DENSE keeps the SUM of a product of columns", expression.span)
    return [c for each in expression.arguments for c in _columns(each)]  # type: ignore[union-attr]


def _column(expression: Expression, kind: type, alias: str) -> str:
    wide = not isinstance(expression.type, Float) or expression.type.bits == 64
    if not isinstance(expression, Column) or not isinstance(expression.type, kind) or not wide:
        raise NotTaken("DENSE keeps whole numbers as keys and DOUBLE values", expression.span)
    if expression.nullable:
        raise NotTaken(f"DENSE needs NOT NULL columns: {expression.name}", expression.span)
    return expression.name.removeprefix(f"{alias}.")


def _join(view: View, leaves: dict[str, ArrayLeaf], chain: list[str]) -> ArrayLeaf | ArrayJoin:
    """The products in the order of the tree; of more than two children the left ones first."""
    if view.is_leaf:
        (alias,) = view.relations
        return leaves[alias]
    children = sorted(view.children, key=lambda each: min(chain.index(k) for k in each.keys))
    made = [_join(each, leaves, chain) for each in children]
    joined = made[0]
    for each in made[1:]:
        joined = ArrayJoin(joined, each)
    return joined


def _require_product(block: Block, leaves: dict[str, ArrayLeaf]) -> None:
    (_, call), *_ = block.aggregates
    found = sorted(column.name for column in _columns(call.arguments[0]))
    if found != sorted(f"{alias}.{leaf.value}" for alias, leaf in leaves.items()) or block.having:
        raise NotTaken("DENSE keeps the SUM of one value of each table", call.span)


def _outputs(block: Block, chain: list[str]) -> tuple[str, ...]:
    keys = dict(block.keys)
    (total, _), *_ = block.aggregates
    words = {total: "value"}
    words |= {name: "row" if v == chain[0] else "column" for name, v in keys.items()}
    found = []
    for _, shown in block.outputs:
        if not isinstance(shown, Column) or shown.name not in words:
            raise NotTaken("DENSE shows the keys and the sum as they are", shown.span)
        found.append(words[shown.name])
    return tuple(found)


def _states(block: Block, whole: ArrayJoin) -> tuple[State, ...]:
    names = Names(["root"])
    nodes = [each for each in whole.walk() if each is not whole]
    parts = tuple(_state(block, names.new(_wish(each)), each) for each in nodes)
    return (*parts, _state(block, "root", whole))


def _state(block: Block, name: str, node: ArrayLeaf | ArrayJoin) -> State:
    leaves = [each for each in node.walk() if isinstance(each, ArrayLeaf)]
    fields = (_field(block, leaves[0], leaves[0].row), _field(block, leaves[-1], leaves[-1].column))
    slots = (Slot("rows", "int"), Slot("total", "sum"))
    return State(name, Indexed(fields, slots), Replay())


def _field(block: Block, leaf: ArrayLeaf, name: str) -> Field:
    schema = input_of(block.occurrence(leaf.input).scan).schema
    return schema[schema.names.index(name)]


def _wish(node: ArrayLeaf | ArrayJoin) -> str:
    """The preferred name of a matrix's state."""
    return "_".join(("v", *(e.input for e in node.walk() if isinstance(e, ArrayLeaf))))

"""Lower a recursive CTE: WITH RECURSIVE r AS (start UNION ALL step).

takes  the CTE and its surroundings
gives  algebra Recursion, or an error that says which part of the step is in the way
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Named,
    Project,
    Recursion,
    Relation,
    Scan,
    SetOperation,
    Sort,
    Window,
    inputs,
)
from viewmill.algebra.schema import Field, Schema, free_name
from viewmill.algebra.types import BIGINT
from viewmill.algebra.walk import scans
from viewmill.errors import Span, TypeMismatch, UnsupportedQuery
from viewmill.sql.coercion import cast, common_type
from viewmill.sql.environment import Environment, Lowered, RecursiveRows
from viewmill.sql.not_modelled import NotModelled

_DEFAULT_LIMIT = 100  # Spark's
_FORM = "Write WITH RECURSIVE r AS (SELECT ... UNION ALL SELECT ... FROM r JOIN ...)."
_LINEAR = (
    "A step may filter, project and join the rows of the last one, each of them by itself; "
    "put the rest into the query that reads the CTE."
)
_PLACES = {
    Aggregate: "an aggregate",
    Distinct: "DISTINCT",
    Limit: "LIMIT",
    Sort: "ORDER BY",
    SetOperation: "a set operation",
    Window: "a window function",
}


def references(node: exp.Expr, name: str) -> list[exp.Table]:
    """Where a query reads the CTE `name` that it is the body of."""
    tables = node.find_all(exp.Table)
    return [each for each in tables if each.name.lower() == name and not _is_other(each, node)]


def _is_other(table: exp.Table, body: exp.Expr) -> bool:
    """Whether the name means something else at this place: a CTE further inside."""
    if table.args.get("db") is not None:
        return True
    node: exp.Expr | None = table
    while node is not None:
        clause = node.args.get("with_")
        if clause and any(each.alias.lower() == table.name.lower() for each in clause.expressions):
            return True
        node = None if node is body else node.parent
    return False


def refuse_mutual(clause: exp.With, environment: Environment) -> None:
    """Refuse a CTE that reads one after it."""
    later = {each.alias.lower() for each in clause.expressions}
    for each in clause.expressions:
        later.discard(each.alias.lower())
        for name in sorted(later - set(environment.common_tables)):
            read = references(each.this, name)
            if read and environment.catalog.find(name) is None:
                raise UnsupportedQuery(
                    f'"{each.alias}" reads "{read[0].name}", which is defined after it',
                    detail="A recursive CTE may read itself, but not one that reads it in turn.",
                    hint="Write both as one CTE, with a column that tells their rows apart.",
                    span=environment.span(read[0]),
                )


def lower_recursion(node: exp.CTE, environment: Environment, prefix: str) -> Lowered:
    """A CTE that reads itself, as the query that reads it sees it."""
    name = node.alias
    union = _union(node, environment)
    try:
        base = environment.lower_query(union.this, environment, prefix)
    except NotModelled as reason:
        raise _not_modelled(reason) from None
    names = _names(node, base, environment)
    rows = _rows(environment.names.fresh(f"{name}#rows"), names, base)
    inside = replace(
        environment, recursive={**environment.recursive, name.lower(): rows}, describe=None
    )
    try:
        made = environment.lower_query(
            union.expression, inside, environment.names.fresh_alias(f"{name}_step")
        )
    except NotModelled as reason:
        raise _not_modelled(reason) from None
    step = _typed(_step(made.relation, rows), base.relation, environment.span(union.expression))
    read = (*scans(base.relation), *(e for e in scans(step) if e.source != rows.source))
    is_all = not union.args.get("distinct")
    span = environment.span(node)
    relation = Recursion(rows.source, base.relation, step, is_all, _limit(node), read, span)
    return Lowered(relation, names)


def _limit(node: exp.CTE) -> int:
    written = node.args.get("recursion_limit")
    return _DEFAULT_LIMIT if written is None else int(written.this)


def _union(node: exp.CTE, environment: Environment) -> exp.Union:
    """The UNION of start and step, each in its place."""
    name, union = node.alias, node.this
    apart = ("with_", "order", "limit", "offset", "by_name", "side", "kind", "on")
    if not isinstance(union, exp.Union) or any(union.args.get(key) for key in apart):
        raise UnsupportedQuery(
            f'"{name}" reads itself, but is not the UNION of a start and a step',
            hint=_FORM,
            span=environment.span(node),
        )
    if early := references(union.this, name.lower()):
        raise UnsupportedQuery(
            f'"{name}" is read before its last UNION: the start of a recursion must not read it',
            hint=f"{_FORM} There is one step.",
            span=environment.span(early[0]),
        )
    read = references(union.expression, name.lower())
    if len(read) > 1:
        raise UnsupportedQuery(
            f'"{name}" is read twice in its own step',
            hint="Join the rows of the last step with the start's table instead of themselves.",
            span=environment.span(read[1]),
        )
    return union


def _not_modelled(reason: NotModelled) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"{reason.reason} is not supported in a recursive CTE", span=reason.span
    )


def _names(node: exp.CTE, base: Lowered, environment: Environment) -> tuple[str, ...]:
    written = [each.name for each in node.args["alias"].args.get("columns") or []]
    if written and len(written) != len(base.names):
        raise TypeMismatch(
            f"the CTE names {len(written)} columns, its query has {len(base.names)}",
            span=environment.span(node.args["alias"]),
        )
    names = tuple(written) or base.names
    if len({each.lower() for each in names}) < len(names):
        raise UnsupportedQuery(
            f'two columns of the recursive CTE "{node.alias}" have one name',
            hint="Name the columns behind the CTE's name: r(a, b).",
            span=environment.span(node.args["alias"]),
        )
    return names


def _rows(source: str, names: tuple[str, ...], base: Lowered) -> RecursiveRows:
    fields = [
        Field(name, each.type, True) for name, each in zip(names, base.relation.schema, strict=True)
    ]
    step = Field(free_name("step", [*names, *(n.lower() for n in names)]), BIGINT, False)
    return RecursiveRows(source, Schema((*fields, step)))


def _typed(step: Relation, base: Relation, span: Span | None) -> Relation:
    """The step with its columns in the types of the start, which Spark wants to be the wider."""
    *made, number = step.schema
    if len(made) != len(base.schema):
        raise TypeMismatch(
            f"the step has {len(made)} columns, the start has {len(base.schema)}", span=span
        )
    outputs: list[Named] = []
    for ours, theirs in zip(made, base.schema, strict=True):
        if common_type(ours.type, theirs.type) != theirs.type:
            raise TypeMismatch(
                f"the step makes {ours.type} of what starts as {theirs.type}",
                hint="CAST one of them: the start decides the type of the column.",
                span=span,
            )
        column = Column(ours.name, ours.type, ours.nullable)
        outputs.append((ours.name, cast(column, theirs.type)))
    last = Column(number.name, number.type, number.nullable)
    return Project(step, (*outputs, (number.name, last)), span)


def _step(step: Relation, rows: RecursiveRows) -> Relation:
    """The step with the number of the step before as its last column."""
    (read,) = [each for each in scans(step) if each.source == rows.source]
    number = read.schema[-1]
    return _passing(step, read, Column(number.name, number.type, number.nullable))


def _passing(relation: Relation, read: Scan, number: Column) -> Relation:
    """A relation above the rows of the last step that passes the number of the step on."""
    match relation:
        case Scan():
            return relation
        case Filter() if _reads(relation.input, read):
            return replace(relation, input=_passing(relation.input, read, number))
        case Project() if _reads(relation.input, read):
            below = _passing(relation.input, read, number)
            return replace(
                relation, input=below, outputs=(*relation.outputs, (number.name, number))
            )
        case Join() if _reads(relation.left, read) and _keeps_left(relation):
            return replace(relation, left=_passing(relation.left, read, number))
        case Join() if _reads(relation.right, read) and _keeps_right(relation):
            return replace(relation, right=_passing(relation.right, read, number))
    what = _PLACES.get(type(relation), "a subquery in an expression")
    if isinstance(relation, Join):
        what = f"the other side of {'an' if relation.kind == 'anti' else 'a'} {relation.kind} join"
    raise UnsupportedQuery(
        f"recursion through {what}",
        detail="What such a step makes of a row depends on the other rows of the last step.",
        hint=_LINEAR,
        span=read.span,
    )


def _reads(relation: Relation, read: Scan) -> bool:
    return any(each is read or each == read for each in _plain_scans(relation))


def _plain_scans(relation: Relation) -> list[Scan]:
    """The scans below a relation that stand in no expression."""
    if isinstance(relation, Scan):
        return [relation]
    return [scan for each in inputs(relation) for scan in _plain_scans(each)]


def _keeps_left(join: Join) -> bool:
    return join.kind in ("inner", "cross", "left", "semi", "anti")


def _keeps_right(join: Join) -> bool:
    return join.kind in ("inner", "cross", "right") and not join.lateral

"""Lower one SELECT: from FROM to LIMIT, in the order in which SQL means it.

takes  exp.Select, its surroundings
gives  Limit(Sort(Distinct(Project(Filter(Window(Filter(Aggregate(Filter(from)))))))), as needed
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from viewmill.algebra.expressions import (
    Aggregate,
    Column,
    Expression,
    Over,
    SortKey,
    walk,
)
from viewmill.algebra.relations import Distinct, Filter, Project, Relation, Window
from viewmill.algebra.types import Interval
from viewmill.errors import Span, TypeMismatch, UnknownName, nearest
from viewmill.sql.auto_names import auto_name
from viewmill.sql.environment import Environment, Lowered
from viewmill.sql.gap_filling import with_gaps_filled
from viewmill.sql.lower_expressions import ExpressionLowering
from viewmill.sql.lower_from import lower_from
from viewmill.sql.lower_generators import with_lateral_view
from viewmill.sql.lower_groups import Grouping, lower_groups, made_name
from viewmill.sql.lower_session_windows import add_session_window, session_windows
from viewmill.sql.lower_stream import when_closed, with_window_groups
from viewmill.sql.lower_time_windows import add_time_window, time_windows
from viewmill.sql.lower_windows import break_ties, in_levels, of_last_peer, reaches_peers
from viewmill.sql.nested_functions import field
from viewmill.sql.nested_types import struct_fields
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.order import Ordering, limited, position_of
from viewmill.sql.read_functions import read_function
from viewmill.sql.replace_parts import replace_parts
from viewmill.sql.scopes import Scope

_KNOWN = {
    "with_", "expressions", "hint", "distinct", "from_", "joins", "where", "group", "having",
    "qualify", "windows", "order", "limit", "offset", "laterals", "emit_final",
}  # fmt: skip


@dataclass
class Outputs:
    """What a SELECT computes: outputs under the user's names, and what only sorts or filters."""

    names: list[str]
    items: list[Expression]
    having: Expression | None = None
    qualify: Expression | None = None
    order: list[SortKey] | None = None

    def map(self, change: Ordering.Change) -> None:
        """Change every expression."""
        self.items = [change(each) for each in self.items]
        self.having = None if self.having is None else change(self.having)
        self.qualify = None if self.qualify is None else change(self.qualify)
        self.order = [replace(key, expression=change(key.expression)) for key in self.order or []]

    def all(self) -> list[Expression]:
        """Every expression."""
        rest = [each for each in (self.having, self.qualify) if each is not None]
        return self.items + rest + [key.expression for key in self.order or []]


def lower_select(select: exp.Select, environment: Environment, prefix: str | None) -> Lowered:
    """The SELECT as algebra; its columns are named `prefix.name`, or as the user sees them."""
    select = with_lateral_view(with_gaps_filled(select, environment), environment)
    select = with_window_groups(select)
    _check_clauses(select, environment)
    keeps_order = environment.keeps_order
    needs_order = _needs_order(select, keeps_order)
    relation, scope = lower_from(select, replace(environment, keeps_order=needs_order))
    environment = replace(environment, keeps_order=False)
    windows = {each.name.lower(): each for each in select.args.get("windows") or []}
    where = select.args.get("where")
    if where is not None:
        lowering = ExpressionLowering(environment, scope, windows=windows)
        relation = Filter(relation, _plain(lowering.condition(where.this, "WHERE"), "WHERE"))
    if calls := time_windows(select):
        relation, scope = add_time_window(calls, relation, scope, environment)
    if calls := session_windows(select):
        relation, scope = add_session_window(calls, select, relation, scope, environment)
    relation = when_closed(select, relation, scope, environment)
    outputs = _lower_outputs(select, environment, scope, windows, is_last=prefix is None)
    lowering = ExpressionLowering(environment, scope, _aliases(outputs), windows=windows)
    _lower_rest(select, outputs, lowering)
    relation = _aggregated(select, relation, outputs, lowering)
    relation = _windowed(relation, outputs, environment)
    environment = replace(environment, keeps_order=keeps_order)
    return _projected(select, relation, outputs, environment, prefix)


# What they answer is that of the rows as they come.
_IN_ORDER = frozenset(
    {
        "collect_list",
        "listagg",
        "string_agg",
        "first",
        "last",
        "first_value",
        "last_value",
        "any_value",
    }
)


def _needs_order(select: exp.Select, keeps_order: bool) -> bool:
    """Whether an aggregate, here or above, takes the rows of one subquery in their order."""
    if select.args.get("joins"):
        return False
    if keeps_order and not any(select.args.get(key) for key in ("group", "distinct")):
        return True
    calls = (call for each in select.expressions for call in each.find_all(exp.Func))
    return any(read_function(call)[0] in _IN_ORDER for call in calls)


def _check_clauses(select: exp.Select, environment: Environment) -> None:
    for key, value in select.args.items():
        if value and key not in _KNOWN:
            words = {"sort": "SORT BY", "pivots": "PIVOT"}
            node = value[0] if isinstance(value, list) else value
            span = environment.span(node) if isinstance(node, exp.Expr) else None
            raise NotModelled(words.get(key, key.upper()), span)
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise NotModelled("DISTINCT ON", environment.span(distinct))


def _plain(condition: Expression, clause: str) -> Expression:
    for each in walk(condition):
        if isinstance(each, Aggregate | Over):
            kind = "an aggregate" if isinstance(each, Aggregate) else "a window function"
            hint = "Use HAVING." if isinstance(each, Aggregate) else "Use QUALIFY."
            raise TypeMismatch(f"{clause} cannot hold {kind}", hint=hint, span=each.span)
    return condition


# The select list.


def _lower_outputs(
    select: exp.Select,
    environment: Environment,
    scope: Scope,
    windows: dict[str, exp.Window],
    *,
    is_last: bool,
) -> Outputs:
    outputs = Outputs([], [])
    # Spark lets an output use those before it: SELECT a + 1 AS b, b * 2 AS c.
    aliases: dict[str, Expression] = {}
    lowering = ExpressionLowering(environment, scope, aliases, windows=windows)
    for node in select.expressions:
        if _is_star(node):
            for name, expression in _star(node, scope, environment):
                outputs.names.append(name)
                outputs.items.append(expression)
            continue
        inner = node.this if isinstance(node, exp.Alias) else node
        if isinstance(node, exp.Aliases):
            raise NotModelled("several aliases for one output", environment.span(node))
        expression = lowering.lower(inner)
        if isinstance(expression.type, Interval):
            _refuse_interval(expression, is_last)
        name = node.alias if isinstance(node, exp.Alias) else auto_name(inner, environment.sql)
        outputs.names.append(name)
        outputs.items.append(expression)
        if isinstance(node, exp.Alias):
            aliases.setdefault(name.lower(), expression)
    return outputs


def _refuse_interval(expression: Expression, is_last: bool) -> None:
    """Refuse an INTERVAL as a result column: no table can store it."""
    if not is_last:
        raise NotModelled("an interval as an output", expression.span)
    raise TypeMismatch(
        "an INTERVAL cannot be an output",
        hint="datediff(a, b) counts days, timestampdiff(SECOND, a, b) smaller units.",
        span=expression.span,
    )


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def _star(node: exp.Expr, scope: Scope, environment: Environment) -> list[tuple[str, Expression]]:
    span = environment.span(node)
    star = node if isinstance(node, exp.Star) else node.this
    if any(star.args.get(key) for key in ("replace", "rename", "ilike")):
        raise NotModelled("* with changes", span)
    columns = scope.columns
    if isinstance(node, exp.Column):
        found = scope.tables.get(node.table.lower()) or _fields(node, scope, environment)
        if found is None:
            hint = nearest(node.table, scope.tables)
            raise UnknownName(f'there is no table "{node.table}" in FROM', hint=hint, span=span)
        columns = found
    if not columns:
        raise UnknownName("* needs a table in FROM", span=span)
    left_out = {each.name.lower() for each in star.args.get("except_") or []}
    return [(name, meaning) for name, meaning in columns if name.lower() not in left_out]


def _fields(
    node: exp.Column, scope: Scope, environment: Environment
) -> list[tuple[str, Expression]] | None:
    """The fields of a struct: column.*; None if there is no such struct."""
    struct = scope.lookup(node.table, None, None) if not node.args.get("db") else None
    known = None if struct is None or environment.now is not None else struct_fields(struct.type)
    if struct is None or known is None:
        return None
    found = ((each.name, field(struct, each.name, environment.span(node))) for each in known)
    return [(name, each) for name, each in found if each is not None]


def _aliases(outputs: Outputs) -> dict[str, Expression]:
    found: dict[str, Expression] = {}
    for name, expression in zip(outputs.names, outputs.items, strict=True):
        found.setdefault(name.lower(), expression)
    return found


def _lower_rest(select: exp.Select, outputs: Outputs, lowering: ExpressionLowering) -> None:
    """HAVING, QUALIFY and ORDER BY, which may name outputs."""
    preferring = ExpressionLowering(
        lowering.environment,
        lowering.scope,
        lowering.aliases,
        prefer_aliases=True,
        windows=lowering.windows,
    )
    if (having := select.args.get("having")) is not None:
        outputs.having = preferring.condition(having.this, "HAVING")
    if (qualify := select.args.get("qualify")) is not None:
        outputs.qualify = lowering.condition(qualify.this, "QUALIFY")
    order = select.args.get("order")
    nodes = order.expressions if order is not None else []
    outputs.order = [_sort_key(node, outputs, preferring) for node in nodes]


def _sort_key(node: exp.Expr, outputs: Outputs, lowering: ExpressionLowering) -> SortKey:
    position = position_of(node, len(outputs.items), lowering.span(node))
    if position is None:
        return lowering.sort_key(node)
    descending, nulls_first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
    return SortKey(outputs.items[position], descending, nulls_first)


# Groups and windows.


def _aggregated(
    select: exp.Select, relation: Relation, outputs: Outputs, lowering: ExpressionLowering
) -> Relation:
    group = select.args.get("group")
    has_aggregate = any(
        isinstance(part, Aggregate) for each in outputs.all() for part in walk(each)
    )
    if group is None and not has_aggregate:
        if outputs.having is not None:
            raise TypeMismatch(
                "HAVING needs GROUP BY or an aggregate",
                hint="Use WHERE.",
                span=outputs.having.span,
            )
        return relation
    pairs = list(zip(outputs.names, outputs.items, strict=True))
    groups = lower_groups(group, lowering, pairs)
    grouping = Grouping(groups, lowering.environment)
    outputs.map(grouping.rewrite)
    relation = grouping.relation(relation, lowering.environment.span(group))
    if outputs.having is not None:
        for each in walk(outputs.having):
            if isinstance(each, Over):
                raise TypeMismatch(
                    "HAVING cannot hold a window function", hint="Use QUALIFY.", span=each.span
                )
        relation = Filter(relation, outputs.having)
    return relation


def _windowed(relation: Relation, outputs: Outputs, environment: Environment) -> Relation:
    calls: dict[Over, str] = {}

    def take_out(expression: Expression) -> Expression | None:
        if not isinstance(expression, Over):
            return None
        inner = (part for part in walk(expression) if part is not expression)
        if any(isinstance(part, Over) for part in inner):
            raise TypeMismatch("a window function cannot hold another one", span=expression.span)
        if expression not in calls:
            calls[expression] = made_name(environment.names, expression, expression.function)
        return Column(calls[expression], expression.type, expression.nullable, span=expression.span)

    outputs.having = None
    outputs.map(lambda expression: replace_parts(expression, take_out))
    span = next((call.span for call in calls if call.span is not None), None)
    for call in [call for call in calls if reaches_peers(call)]:
        inner = environment.names.fresh(f"{calls[call]} up to here")
        for name, part in zip(
            (inner, calls[call]), of_last_peer(call, inner, relation.schema), strict=True
        ):
            relation = Window(relation, ((name, part),), span)
    for level in in_levels(call for call in calls if not reaches_peers(call)):
        columns = relation.schema
        relation = Window(
            relation, tuple((calls[call], break_ties(call, columns)) for call in level), span
        )
    if outputs.qualify is not None:
        relation = Filter(relation, outputs.qualify)
    return relation


# Projection, DISTINCT, ORDER BY, LIMIT.


def _projected(
    select: exp.Select,
    relation: Relation,
    outputs: Outputs,
    environment: Environment,
    prefix: str | None,
) -> Lowered:
    names = output_names(outputs.names, environment, prefix)
    columns = list(zip(names, outputs.items, strict=True))
    distinct = select.args.get("distinct") is not None
    ordering = Ordering(columns, outputs.order or [], environment, hidden_allowed=not distinct)
    project: Relation = Project(relation, tuple(ordering.outputs()), environment.span(select))
    if distinct:
        project = Distinct(project)
    is_ordered = prefix is None or environment.keeps_order
    result = limited(select, project, ordering, environment, top=is_ordered)
    return Lowered(result, tuple(outputs.names))


def output_names(names: list[str], environment: Environment, prefix: str | None) -> list[str]:
    """The names of the output columns inside the query."""
    if prefix is None:
        return names
    return [environment.names.fresh(f"{prefix}.{name}") for name in names]


def check_unique(names: tuple[str, ...], span: Span | None) -> None:
    """Two columns of a view cannot share a name."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise TypeMismatch(
                f'two output columns are called "{name}"',
                hint="Name one of them with AS.",
                span=span,
            )
        seen.add(name.lower())

"""Lower FROM: tables, derived tables, CTEs, plain views, VALUES and joins.

takes  the From and Join nodes of a SELECT
gives  an algebra Relation and the Scope of its columns
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from viewmill.algebra.expressions import Call, Cast, Column, Expression
from viewmill.algebra.relations import Join, JoinKind, Project, Relation, Scan, Values, one_row
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import Wide
from viewmill.errors import CyclicViews, Span, TypeMismatch, UnknownName, UnsupportedQuery
from viewmill.sql import operators
from viewmill.sql.catalog import PlainView, spelled, unknown_table
from viewmill.sql.coercion import unify
from viewmill.sql.environment import CommonTable, Environment, Lowered, RecursiveRows
from viewmill.sql.lower_asof import (
    ASOF,
    asof_join,
    check_kind,
    taken_from,
    times_of,
    version_of,
    with_match,
)
from viewmill.sql.lower_expressions import ExpressionLowering
from viewmill.sql.lower_generators import generator_name, lower_generator, lower_range
from viewmill.sql.lower_pivot import without_pivot
from viewmill.sql.lower_recursion import lower_recursion
from viewmill.sql.lower_stream import for_windows, has_window, no_table, window_of, windowed
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.scopes import Scope, Visible, table_scope

Read = tuple[Relation, Scope]
Shared = tuple[str, int, int]  # a column's name, its position on the left and on the right

# Parts of a table reference that change its meaning and that the algebra does not know.
_MODIFIERS = (
    "sample", "version", "when", "system_time", "ordinality", "changes",
    "rows_from", "partition", "suffixes",
)  # fmt: skip


def lower_from(select: exp.Select, environment: Environment) -> Read:
    """What SELECT reads; without FROM one row without columns."""
    environment = for_windows(select, environment)
    source = select.args.get("from_")
    read: Read = one_row(), Scope(outer=environment.outer)
    if source is not None:
        read = lower_table(source.this, environment)
    for join in select.args.get("joins") or []:
        read = _join(read, join, environment)
    return with_generators(read, select.args.get("laterals") or [], environment)


def with_generators(read: Read, views: list[exp.Lateral], environment: Environment) -> Read:
    """The rows with what each LATERAL VIEW makes of them."""
    for view in views:
        alias = view.args.get("alias")
        made, own = lower_generator(
            view.this, read, environment, alias, outer=bool(view.args.get("outer"))
        )
        _check_aliases(read[1], own, environment.span(view.this))
        both = Scope(
            {**read[1].tables, **own.tables},
            [*read[1].columns, *own.columns],
            environment.outer,
        )
        read = made, both
    return read


def lower_table(node: exp.Expr, environment: Environment) -> Read:
    """One item of FROM with the joins that hang on it."""
    if pivots := node.args.get("pivots"):
        return _pivot(node, pivots, environment)
    for each in _MODIFIERS:
        if node.args.get(each) and not (each == "suffixes" and has_window(node)):
            raise NotModelled(_modifier(each), environment.span(node))
    relation, scope = _table_factor(node, environment)
    read = windowed(node, relation, scope, environment)
    for join in node.args.get("joins") or []:
        read = _join(read, join, environment)
    return with_generators(read, node.args.get("laterals") or [], environment)


def _pivot(node: exp.Expr, pivots: list[exp.Pivot], environment: Environment) -> Read:
    """A table with PIVOT or UNPIVOT, as the query that it stands for."""
    span = environment.span(node)
    if len(pivots) != 1 or node.args.get("joins"):
        raise NotModelled("PIVOT of this form", span)
    plain = node.copy()
    plain.set("pivots", None)
    read = lower_table(plain, environment)
    name = f"{_GIVEN}{len(environment.given)}"
    types = {name: column.type for name, column in read[1].columns}
    query = without_pivot(_given(name), plain, pivots[0], types, environment.sql, span)
    alias = pivots[0].args.get("alias")
    outer = exp.Subquery(this=query, alias=alias.copy() if alias is not None else None)
    return lower_table(outer, replace(environment, given={**environment.given, name: read}))


_GIVEN = "\0given"  # no table of a user is called so


def _given(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def _modifier(key: str) -> str:
    return {"sample": "TABLESAMPLE", "laterals": "LATERAL VIEW"}.get(key, f"a table with {key}")


def _table_factor(node: exp.Expr, environment: Environment) -> Read:
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        return _named_table(node, environment)
    if isinstance(node, exp.Values):
        return _named(node, _values(node, environment), environment)
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Values):
        return _named(node, _values(node.this, environment), environment)
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery):
        return _parenthesized(node, environment)
    if isinstance(node, exp.Subquery):
        prefix = environment.names.fresh_alias(node.alias or "subquery")
        return _named(node, environment.lower_query(node, environment, prefix), environment)
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Func):
        return _of_function(node, environment)
    raise NotModelled(_factor(node), environment.span(node))


def _of_function(node: exp.Table, environment: Environment) -> Read:
    """explode(...) and its like, and range(...), as tables."""
    alone: Read = one_row(), Scope(outer=environment.outer)
    alias = node.args.get("alias")
    if generator_name(node.this) is not None:
        return lower_generator(node.this, alone, environment, alias)
    if isinstance(node.this, exp.Anonymous) and node.this.name.lower() == "range":
        return lower_range(node.this, alone, environment, alias)
    raise NotModelled(_factor(node), environment.span(node))


def _parenthesized(node: exp.Subquery, environment: Environment) -> Read:
    """A table or joined tables in parentheses; an alias is then the only name they go by."""
    relation, scope = lower_table(node.this, environment)
    alias = node.args.get("alias")
    if alias is None:
        return relation, scope
    return relation, _aliased(alias, scope.columns, environment)


def _aliased(
    alias: exp.TableAlias | None, columns: list[Visible], environment: Environment
) -> Scope:
    """The columns under an alias, renamed where it says so."""
    written = [each.name for each in alias.args.get("columns") or []] if alias is not None else []
    if written and len(written) != len(columns):
        raise TypeMismatch(
            f"the alias names {len(written)} columns, the table has {len(columns)}",
            span=environment.span(alias),
        )
    if written:
        columns = [(name, each) for name, (_, each) in zip(written, columns, strict=True)]
    name = alias.name if alias is not None else ""
    return table_scope(name or None, columns, environment.outer)


def _lateral(node: exp.Lateral, left: Scope, environment: Environment) -> Read:
    """A subquery that reads the columns of what stands before it in FROM."""
    if not isinstance(node.this, exp.Subquery) or node.args.get("view"):
        raise NotModelled("LATERAL over a function", environment.span(node))
    prefix = environment.names.fresh_alias(node.alias or "lateral")
    lowered = environment.lower_query(node.this, environment.inside(left), prefix)
    return _named(node, lowered, environment)


def _factor(node: exp.Expr) -> str:
    if isinstance(node, exp.Table):
        return "a function in FROM"
    return {"Lateral": "LATERAL", "Unnest": "a function in FROM"}.get(
        type(node).__name__, f"{type(node).__name__} in FROM"
    )


def _named(node: exp.Expr, lowered: Lowered, environment: Environment) -> Read:
    """A derived table under its alias, its columns renamed where the alias says so."""
    columns = visible(list(lowered.names), lowered.relation.schema)
    return lowered.relation, _aliased(node.args.get("alias"), columns, environment)


def visible(names: list[str], schema: Schema) -> list[Visible]:
    """The columns of `schema` under the names the user knows."""
    pairs = zip(names, schema, strict=True)
    return [(name, _column(each)) for name, each in pairs]


def _column(field: Field) -> Expression:
    column = Column(field.name, field.type, field.nullable)
    if isinstance(field.type, Wide):  # of a view
        return Cast(column, field.type.shown, field.nullable)
    return column


# Tables by name.


def _named_table(node: exp.Table, environment: Environment) -> Read:
    name = ".".join(part.name for part in node.parts)
    if name in environment.given:
        return environment.given[name]
    alias = node.alias or node.name
    if (rows := environment.recursive.get(name.lower())) is not None:
        return _last_step(node, rows, alias, environment)
    common = environment.common_tables.get(name.lower())
    if common is not None:
        return _named(node, _common_table(common, alias, environment), environment) if (
            node.alias
        ) else _under(alias, _common_table(common, alias, environment), environment)  # fmt: skip
    found = environment.catalog.find(name)
    if found is None:
        known = [*environment.catalog.names(), *environment.common_tables]
        raise unknown_table(environment.catalog, name, known, environment.span(node.this))
    if isinstance(found, PlainView):
        return _view(node, name, found, alias, environment)
    return _scan(node, spelled(environment.catalog, name), found, alias, environment)


def _under(alias: str, lowered: Lowered, environment: Environment) -> Read:
    columns = visible(list(lowered.names), lowered.relation.schema)
    return lowered.relation, table_scope(alias, columns, environment.outer)


def _scan(
    node: exp.Table, source: str, schema: Schema, alias: str, environment: Environment
) -> Read:
    own = environment.names.fresh_alias(alias)
    fields = tuple(replace(each, name=f"{own}.{each.name}") for each in schema)
    window = window_of(node, source, schema, environment)
    relation = Scan(source, own, Schema(fields), environment.span(node), window)
    return _renamed(node, relation, list(schema.names), alias, environment)


def _renamed(
    node: exp.Table, relation: Relation, names: list[str], alias: str, environment: Environment
) -> Read:
    columns = visible(names, relation.schema)
    if (written := node.args.get("alias")) is not None and written.args.get("columns"):
        return relation, _aliased(written, columns, environment)
    return relation, table_scope(alias, columns, environment.outer)


def _last_step(node: exp.Table, rows: RecursiveRows, alias: str, environment: Environment) -> Read:
    """The rows that the last step of a recursive CTE made."""
    if has_window(node):
        raise no_table(node.name, environment.span(node))
    own = environment.names.fresh_alias(alias)
    fields = tuple(replace(each, name=f"{own}.{each.name}") for each in rows.schema)
    relation = Scan(rows.source, own, Schema(fields), environment.span(node))
    columns = visible(list(rows.schema.names[:-1]), Schema(fields[:-1]))
    if (written := node.args.get("alias")) is not None and written.args.get("columns"):
        return relation, _aliased(written, columns, environment)
    return relation, table_scope(alias, columns, environment.outer)


def _common_table(common: CommonTable, alias: str, environment: Environment) -> Lowered:
    # Each use is lowered anew: names stay unique, and a CTE is only a name.
    prefix = environment.names.fresh_alias(alias)
    inside = replace(common.environment, keeps_order=environment.keeps_order)
    if common.is_recursive:
        return lower_recursion(common.node, inside, prefix)
    lowered = environment.lower_query(common.node.this, inside, prefix)
    written = [each.name for each in common.node.args["alias"].args.get("columns") or []]
    if written and len(written) != len(lowered.names):
        raise TypeMismatch(
            f"the CTE names {len(written)} columns, its query has {len(lowered.names)}",
            span=common.environment.span(common.node.args["alias"]),
        )
    return replace(lowered, names=tuple(written)) if written else lowered


def _view(
    node: exp.Table, name: str, view: PlainView, alias: str, environment: Environment
) -> Read:
    if name.lower() in environment.views:
        raise CyclicViews(f'view "{name}" reads itself', span=environment.span(node.this))
    inside = replace(
        environment,
        sql=view.sql,
        common_tables={},
        outer=None,
        views=(*environment.views, name.lower()),
    )
    prefix = environment.names.fresh_alias(alias)
    lowered = environment.lower_query(view.query, inside, prefix)
    return _renamed(node, lowered.relation, list(lowered.names), alias, environment)


def _values(node: exp.Values, environment: Environment) -> Lowered:
    prefix = environment.names.fresh_alias(node.alias or "values")
    return lower_values(node, environment, prefix)


def lower_values(node: exp.Values, environment: Environment, prefix: str | None) -> Lowered:
    """VALUES (1, 'a'), (2, 'b'): columns col1, col2 and so on."""
    lowering = ExpressionLowering(environment, Scope(outer=environment.outer))
    rows = [
        lowering.all(each.expressions if isinstance(each, exp.Tuple) else [each])
        for each in node.expressions
    ]
    width = len(rows[0])
    for row, written in zip(rows, node.expressions, strict=True):
        if len(row) != width:
            message = f"all rows of VALUES need {width} values, this has {len(row)}"
            raise TypeMismatch(message, span=environment.span(written))
    columns = [unify(column, "VALUES") for column in zip(*rows, strict=True)]
    names = tuple(f"col{i + 1}" for i in range(width))
    fields = tuple(
        Field(
            name if prefix is None else f"{prefix}.{name}",
            column[0].type,
            any(each.nullable for each in column),
        )
        for name, column in zip(names, columns, strict=True)
    )
    relation = Values(tuple(zip(*columns, strict=True)), Schema(fields), environment.span(node))
    return Lowered(relation, names)


# Joins.


def _join(left: Read, node: exp.Join, environment: Environment) -> Read:
    span = environment.span(node)
    version = version_of(node.this)
    if (node.method or "").upper() == ASOF or version is not None:
        return _asof(left, node, version, environment)
    if node.args.get("match_condition") or (node.method or "") not in ("", "NATURAL"):
        raise NotModelled(f"{node.method or 'this'} join", span)
    lateral = isinstance(node.this, exp.Lateral)
    if lateral and generator_name(node.this.this) is not None:
        kind = _kind(node, span)
        if kind not in ("cross", "inner") or node.args.get("on") or node.args.get("using"):
            raise NotModelled("a join of this kind with LATERAL over a function", span)
        return with_generators(left, [node.this], environment)
    right = (
        _lateral(node.this, left[1], environment)
        if isinstance(node.this, exp.Lateral)
        else lower_table(node.this, environment)
    )
    kind = _kind(node, span)
    if lateral and kind not in ("inner", "left"):
        raise NotModelled(f"{kind.upper()} JOIN LATERAL", span)
    _check_aliases(left[1], right[1], span)
    shared = _shared_columns(node, left[1], right[1], environment)
    both = _beside(left[1], right[1], environment)
    condition = _condition(node, both, shared, left[1], right[1], environment)
    if kind == "inner" and condition is None:
        kind = "cross"
    relation = Join(kind, left[0], right[0], condition, span, lateral)
    if kind in ("semi", "anti"):
        return relation, left[1]
    padded = both.padded(relation.schema)
    if not shared:
        return relation, padded
    merged = _merged(padded, shared, len(left[1].columns), kind)
    return _computed(relation, merged, environment) if kind == "full" else (relation, merged)


def _asof(
    left: Read, node: exp.Join, version: exp.Version | None, environment: Environment
) -> Read:
    """ASOF JOIN, or a join with the versions that a table had at the moments of the left rows."""
    span, kind = environment.span(node), _kind(node, environment.span(node))
    check_kind(kind, span)
    if version is not None:
        node = with_match(node, version, environment)
    right = lower_table(node.this, environment)
    _check_aliases(left[1], right[1], span)
    shared = _shared_columns(node, left[1], right[1], environment)
    both = _beside(left[1], right[1], environment)
    condition = _condition(node, both, shared, left[1], right[1], environment)
    schemas = left[0].schema, right[0].schema
    match = node.args.get("match_condition")
    if match is not None:
        times = times_of(match, ExpressionLowering(environment, both).lower, schemas, span)
    else:
        times, condition = taken_from(condition, schemas, span)
    relation = asof_join(kind, (left[0], right[0]), times, condition, environment, span)
    if relation is None:
        raise UnsupportedQuery(
            "ON of an ASOF JOIN has equalities, and conditions on one of the sides",
            detail="The nearest row of a key is found, and not the nearest of any condition.",
            hint="Put the other conditions into WHERE, where they judge the row that was found.",
            span=environment.span(node.args.get("on")) or span,
        )
    padded = both.padded(relation.schema)
    merged = _merged(padded, shared, len(left[1].columns), kind) if shared else padded
    return relation, merged


def _beside(left: Scope, right: Scope, environment: Environment) -> Scope:
    return Scope(
        {**left.tables, **right.tables}, [*left.columns, *right.columns], environment.outer
    )


def _computed(relation: Relation, scope: Scope, environment: Environment) -> Read:
    """The merged columns of a full join as columns: a chain of joins would nest them."""
    outputs: list[tuple[str, Expression]] = [
        (each.name, Column(each.name, each.type, each.nullable)) for each in relation.schema
    ]
    columns: list[Visible] = []
    for user, meaning in scope.columns:
        if isinstance(meaning, Call):
            name = environment.names.fresh(f"using.{user}")
            outputs.append((name, meaning))
            meaning = Column(name, meaning.type, meaning.nullable)
        columns.append((user, meaning))
    return Project(relation, tuple(outputs)), Scope(scope.tables, columns, scope.outer)


def _kind(node: exp.Join, span: Span | None) -> JoinKind:
    side, kind = (node.side or "").upper(), (node.kind or "").upper()
    if kind in ("SEMI", "ANTI"):
        return "semi" if kind == "SEMI" else "anti"
    if side in ("LEFT", "RIGHT", "FULL"):
        kinds: Mapping[str, JoinKind] = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}
        return kinds[side]
    if kind in ("", "INNER", "CROSS", "OUTER"):
        return "inner"
    raise NotModelled(f"{kind} JOIN", span)


def _check_aliases(left: Scope, right: Scope, span: Span | None) -> None:
    for alias in right.tables:
        if alias in left.tables:
            raise UnknownName(
                f'two tables are called "{alias}"', hint="Give one of them an alias.", span=span
            )


def _shared_columns(
    node: exp.Join, left: Scope, right: Scope, environment: Environment
) -> list[Shared]:
    """The columns of USING, or of NATURAL. Of several with one name the first is meant."""
    if using := node.args.get("using"):
        return [
            (
                each.name,
                *(_first(each.name, side, environment.span(each)) for side in (left, right)),
            )
            for each in using
        ]
    if (node.method or "").upper() != "NATURAL":
        return []
    span = environment.span(node)
    right_names = {user.lower() for user, _ in right.columns}
    names = {user.lower(): user for user, _ in reversed(left.columns)}
    return [
        (names[user], _first(user, left, span), _first(user, right, span))
        for user in dict.fromkeys(user.lower() for user, _ in left.columns)
        if user in right_names
    ]


def _first(name: str, side: Scope, span: Span | None) -> int:
    """The position of the first column of this name."""
    for i, (user, _) in enumerate(side.columns):
        if user.lower() == name.lower():
            return i
    Scope({}, side.columns).find(name, None, span)  # which says what there is
    raise AssertionError(name)


def _condition(
    node: exp.Join,
    both: Scope,
    shared: list[Shared],
    left: Scope,
    right: Scope,
    environment: Environment,
) -> Expression | None:
    if shared:
        span = environment.span(node)
        pairs = [(left.columns[a][1], right.columns[b][1]) for _, a, b in shared]
        return operators.conjunction([operators.compare("=", a, b, span) for a, b in pairs])
    on = node.args.get("on")
    if on is None or (isinstance(on, exp.Boolean) and on.this is True):
        return None
    return ExpressionLowering(environment, both).condition(on, "ON")


def _merged(scope: Scope, shared: list[Shared], width: int, kind: str) -> Scope:
    """The scope after USING: each shared column once, and first, as Spark's star shows them.

    `width` is the number of columns on the left.
    """
    merged: list[Visible] = []
    for name, i, j in shared:
        left, right = scope.columns[i][1], scope.columns[width + j][1]
        if kind == "full":
            pair = unify((left, right), "USING")
            left = Call("coalesce", pair, pair[0].type, all(each.nullable for each in pair))
        merged.append((name, right if kind == "right" else left))
    used = {i for _, i, _ in shared} | {width + j for _, _, j in shared}
    rest = [each for i, each in enumerate(scope.columns) if i not in used]
    return Scope(scope.tables, merged + rest, scope.outer)

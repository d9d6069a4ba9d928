"""explode, posexplode and inline: in LATERAL VIEW, in FROM and in the select list.

takes  the rows that stand before it, a call of a generator
gives  Explode over them, with the columns that the generator makes
"""

from __future__ import annotations

from functools import partial

from sqlglot import exp

from viewmill.algebra.expressions import Column, Expression, Literal, walk
from viewmill.algebra.relations import Explode, Form, Project, Relation
from viewmill.algebra.schema import Field
from viewmill.algebra.types import BIGINT, INT, NULL, STRING, Type, kept_type
from viewmill.errors import TypeMismatch
from viewmill.program.json_values import fields
from viewmill.program.nested_functions import numbers, stacked
from viewmill.program.variants import rows as rows_of_variant
from viewmill.sql.coercion import implicit, unify
from viewmill.sql.environment import Environment
from viewmill.sql.lower_expressions import ExpressionLowering
from viewmill.sql.nested_functions import array_of, struct_of
from viewmill.sql.nested_types import element_type, entry_types, struct_fields
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.python_calls import python_call
from viewmill.sql.scopes import Scope, Visible, table_scope
from viewmill.sql.variant_calls import VARIANT

Read = tuple[Relation, Scope]

_FORMS: dict[str, tuple[Form, bool]] = {
    "explode": ("explode", False), "explode_outer": ("explode", True),
    "stack": ("inline", False), "json_tuple": ("inline", False),
    "variant_explode": ("inline", False), "variant_explode_outer": ("inline", True),
    "posexplode": ("posexplode", False), "posexplode_outer": ("posexplode", True),
    "inline": ("inline", False), "inline_outer": ("inline", True),
}  # fmt: skip
_CLASSES = {
    "_ExplodeOuter": "explode_outer", "Explode": "explode", "Posexplode": "posexplode",
    "PosexplodeOuter": "posexplode_outer", "Inline": "inline", "Stack": "stack",
}  # fmt: skip


_OF_VALUES = frozenset({"stack", "json_tuple", "variant_explode", "variant_explode_outer"})


def generator_name(node: exp.Expr) -> str | None:
    """The name of the generator that is called, if one is."""
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        is_known = name in _FORMS and (len(node.expressions) == 1 or name in _OF_VALUES)
        return name if is_known else None
    return _CLASSES.get(type(node).__name__)


def _argument(node: exp.Expr) -> exp.Expr:
    found: exp.Expr = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    return found


def lower_generator(
    node: exp.Expr,
    read: Read,
    environment: Environment,
    alias: exp.TableAlias | None,
    *,
    outer: bool = False,
) -> tuple[Explode, Scope]:
    """The rows with the columns that a generator makes of each; gives the scope of these alone."""
    relation, scope = read
    name, span = generator_name(node), environment.span(node)
    if name is None:
        raise NotModelled("this generator", span)
    form, is_outer = _FORMS[name]
    lowering = ExpressionLowering(environment, scope)
    array = (
        _of_values(name, node, lowering) if name in _OF_VALUES else lowering.lower(_argument(node))
    )
    if any(isinstance(each, Column) and each.outer for each in walk(array)):
        raise NotModelled("a generator over columns of the query around", span)
    made = _made(form, array.type)
    if made is None:
        wanted = "an array of structs" if form == "inline" else "an array or a map"
        raise TypeMismatch(f"{name} needs {wanted}, got {array.type}", span=array.span or span)
    own = environment.names.fresh_alias(alias.name if alias is not None and alias.name else "e")
    outputs = tuple(Field(f"{own}.{n}", kept_type(type_)) for n, type_ in made)
    relation, column = _with_column(relation, array, f"{own}.#array")
    exploded = Explode(relation, column, outputs, form, outer or is_outer, span)
    written = [each.name for each in (alias.args.get("columns") or [])] if alias else []
    names = _named(written, [n for n, _ in made], environment, alias)
    columns: list[Visible] = [
        (n, Column(f.name, f.type, True)) for n, f in zip(names, outputs, strict=True)
    ]
    called = alias.name if alias is not None and alias.name else None
    return exploded, table_scope(called, columns, environment.outer)


def _of_values(name: str, node: exp.Expr, lowering: ExpressionLowering) -> Expression:
    """The array of structs that stack(n, ...) and json_tuple(text, ...) make."""
    nodes = (
        list(node.expressions)
        if isinstance(node, exp.Anonymous)
        else [node.this, *node.expressions]
    )
    span = lowering.span(node)
    if name == "json_tuple":
        given = tuple(implicit(each, STRING, name) for each in lowering.all(nodes))
        made = struct_of([f"c{i}" for i in range(len(given) - 1)], [STRING] * (len(given) - 1))
        return python_call(name, fields, given, array_of(made), span, nulls=True)
    if name.startswith("variant_explode"):
        given = lowering.all(nodes)
        if [each.type for each in given] != [VARIANT]:
            raise TypeMismatch(f"{name} needs one VARIANT", span=span)
        made = struct_of(["pos", "key", "value"], [INT, STRING, VARIANT])
        return python_call(name, rows_of_variant, given, array_of(made), span, nulls=True)
    count, *values = lowering.all(nodes)
    if not isinstance(count, Literal) or not isinstance(count.value, int) or count.value < 1:
        raise TypeMismatch("stack needs a positive number of rows", span=count.span or span)
    width = -(-len(values) // count.value)
    missing = [Literal(None, NULL)] * (width * count.value - len(values))
    rows = [*values, *missing]
    columns = [unify(rows[i::width], name) for i in range(width)]
    types = [column[0].type for column in columns]
    inside = tuple(each for row in zip(*columns, strict=True) for each in row)
    names = tuple(f"col{i}" for i in range(width))
    code = partial(stacked, names)
    return python_call(
        name, code, inside, array_of(struct_of(names, types)), span, nulls=True, of=names
    )


def _made(form: Form, type_: Type) -> list[tuple[str, Type]] | None:
    element, entry = element_type(type_), entry_types(type_)
    if form == "inline":
        inside = None if element is None else struct_fields(element)
        return None if inside is None else [(each.name, each.type) for each in inside]
    made = [("col", element)] if element is not None else list[tuple[str, Type]]()
    if entry is not None:
        made = [("key", entry[0]), ("value", entry[1])]
    if not made:
        return None
    return [("pos", INT), *made] if form == "posexplode" else made


def _with_column(relation: Relation, array: Expression, name: str) -> tuple[Relation, Column]:
    """The rows with an expression as a column."""
    if isinstance(array, Column):
        return relation, array
    columns = [(f.name, Column(f.name, f.type, f.nullable)) for f in relation.schema]
    column = Column(name, array.type, True, span=array.span)
    return Project(relation, (*columns, (name, array))), column


def _named(
    written: list[str], own: list[str], environment: Environment, alias: exp.TableAlias | None
) -> list[str]:
    if not written:
        return own
    if len(written) != len(own):
        raise TypeMismatch(
            f"the alias names {len(written)} columns, the generator makes {len(own)}",
            span=environment.span(alias),
        )
    return written


def lower_range(
    node: exp.Anonymous, read: Read, environment: Environment, alias: exp.TableAlias | None
) -> Read:
    """range(end), range(start, end, step): rows of the column id."""
    lowering, span = ExpressionLowering(environment, read[1]), environment.span(node)
    given = tuple(implicit(each, BIGINT, "range") for each in lowering.all(node.expressions))
    if not 1 <= len(given) <= 4:
        raise TypeMismatch(f"range takes 1 to 4 arguments, got {len(given)}", span=span)
    zero, one = Literal(0, BIGINT), Literal(1, BIGINT)
    parts = (zero, *given, one) if len(given) == 1 else (*given, one)[:3]
    array = python_call("range", numbers, parts, array_of(BIGINT), span)
    own = environment.names.fresh_alias(alias.name if alias is not None and alias.name else "range")
    relation, column = _with_column(read[0], array, f"{own}.#array")
    field = Field(f"{own}.id", BIGINT)
    exploded = Explode(relation, column, (field,), "explode", False, span)
    written = [each.name for each in (alias.args.get("columns") or [])] if alias else []
    names = _named(written, ["id"], environment, alias)
    called = alias.name if alias is not None and alias.name else None
    columns: list[Visible] = [(names[0], Column(field.name, BIGINT, True))]
    return exploded, table_scope(called, columns, environment.outer)


# In the select list.

_MADE = "\0made"  # no table of a user is called so


def with_lateral_view(select: exp.Select, environment: Environment) -> exp.Select:
    """A SELECT in which a generator of the select list stands in a LATERAL VIEW."""
    found = [each for each in select.expressions if generator_name(_bare(each)) is not None]
    if not found:
        return select
    span = environment.span(_bare(found[-1]))
    if len(found) > 1:
        raise TypeMismatch("a select list holds one generator at most", span=span)
    if select.args.get("group") or any(e.find(exp.AggFunc) for e in select.expressions):
        raise NotModelled("a generator beside aggregates", span)
    changed = select.copy()
    at = select.expressions.index(found[0])
    node = changed.expressions[at]
    names = [each.name for each in node.expressions] if isinstance(node, exp.Aliases) else []
    names = [node.alias] if isinstance(node, exp.Alias) else names
    alias = exp.TableAlias(this=exp.to_identifier(_MADE, quoted=True))
    lateral = exp.Lateral(this=_bare(node), view=True, outer=False, alias=alias)
    changed.set("laterals", [*(changed.args.get("laterals") or []), lateral])
    star = exp.Column(this=exp.Star(), table=exp.to_identifier(_MADE, quoted=True))
    outputs = list(changed.expressions)
    outputs[at] = star
    changed.set("expressions", outputs)
    if names:
        alias.set("columns", [exp.to_identifier(each, quoted=True) for each in names])
    return changed


def _bare(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias | exp.Aliases) else node

"""Calls of functions of arrays, maps and structs, typed as Spark types them.

takes  a function's name and its arguments as sqlglot has them
gives  algebra UserCall over a function of `program.nested_functions`, which Python computes once
       for equal arguments; None if the function is none of these
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from viewmill.algebra.expressions import Column, Expression, Literal, UserCall, walk
from viewmill.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    INT,
    STRING,
    Integer,
    Nested,
    Null,
    String,
    Type,
)
from viewmill.algebra.walk import columns_of
from viewmill.deltas.arrow import arrow_type
from viewmill.errors import Span, TypeMismatch
from viewmill.program import json_values as j
from viewmill.program import nested_functions as f
from viewmill.program.evaluate import can_evaluate, compile_rows
from viewmill.sql.coercion import cast, common_type, implicit, unify
from viewmill.sql.nested_types import element_type, entry_types, struct_fields, written_type
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.python_calls import python_call
from viewmill.sql.scopes import Scope

if TYPE_CHECKING:
    from viewmill.sql.lower_expressions import ExpressionLowering

Arguments = tuple[Expression, ...]
Typing = Callable[[Sequence[Type]], Type | None]


def array_of(type_: Type) -> Nested:
    """The type of an array of such elements."""
    return Nested(f"ARRAY<{type_}>")


def map_of(key: Type, value: Type) -> Nested:
    """The type of a map."""
    return Nested(f"MAP<{key}, {value}>")


def struct_of(names: Sequence[str], types: Sequence[Type]) -> Nested:
    """The type of a struct."""
    quoted = ("`" + name.replace("`", "``") + "`" for name in names)
    fields = (f"{name}: {type_}" for name, type_ in zip(quoted, types, strict=True))
    return Nested(f"STRUCT<{', '.join(fields)}>")


def _element(types: Sequence[Type]) -> Type | None:
    return element_type(types[0])


def _same(types: Sequence[Type]) -> Type | None:
    return types[0] if element_type(types[0]) is not None else None


def _arrays(types: Sequence[Type]) -> Type | None:
    """Arrays of the same type."""
    return types[0] if element_type(types[0]) is not None and len(set(types)) == 1 else None


def _if_array(type_: Type) -> Typing:
    return lambda types: type_ if element_type(types[0]) is not None else None


def _if_map(made: Callable[[Type, Type], Type]) -> Typing:
    def typing(types: Sequence[Type]) -> Type | None:
        found = entry_types(types[0])
        return None if found is None else made(*found)

    return typing


def _size(types: Sequence[Type]) -> Type | None:
    is_map, is_array = entry_types(types[0]) is not None, element_type(types[0]) is not None
    return INT if is_map or is_array else None


def _flattened(types: Sequence[Type]) -> Type | None:
    inner = element_type(types[0])
    return None if inner is None or element_type(inner) is None else inner


def _from_arrays(types: Sequence[Type]) -> Type | None:
    key, value = element_type(types[0]), element_type(types[1])
    return None if key is None or value is None else map_of(key, value)


def _from_entries(types: Sequence[Type]) -> Type | None:
    inner = element_type(types[0])
    fields = None if inner is None else struct_fields(inner)
    return map_of(*(each.type for each in fields)) if fields and len(fields) == 2 else None


def _joined(types: Sequence[Type]) -> Type | None:
    return STRING if element_type(types[0]) == STRING else None


def _entries(key: Type, value: Type) -> Type:
    return array_of(struct_of(("key", "value"), (key, value)))


# The function, its type, which arguments are of the type of an element or a key, and how many.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], Typing, tuple[int, ...], int, int]] = {
    "array_size": (f.size, _size, (), 1, 1), "size": (f.size, _size, (), 1, 1),
    "cardinality": (f.size, _size, (), 1, 1),
    "get": (f.get, _element, (), 2, 2),
    "array_contains": (f.contains, _if_array(BOOLEAN), (1,), 2, 2),
    "array_position": (f.position, _if_array(BIGINT), (1,), 2, 2),
    "array_remove": (f.remove, _same, (1,), 2, 2),
    "array_distinct": (f.distinct, _same, (), 1, 1),
    "array_compact": (f.compact, _same, (), 1, 1),
    "array_union": (f.union, _arrays, (), 2, 2),
    "array_intersect": (f.intersect, _arrays, (), 2, 2),
    "array_except": (f.subtract, _arrays, (), 2, 2),
    "arrays_overlap": (f.overlap, lambda types: _arrays(types) and BOOLEAN, (), 2, 2),
    "array_max": (f.largest, _element, (), 1, 1), "array_min": (f.smallest, _element, (), 1, 1),
    "reverse": (f.backwards, _same, (), 1, 1),
    "array_slice": (f.part, _same, (), 3, 3), "slice": (f.part, _same, (), 3, 3),
    "flatten": (f.flatten, _flattened, (), 1, 1),
    "concat": (f.concat, _arrays, (), 1, 1000),
    "array_to_string": (f.join, _joined, (), 2, 3), "array_join": (f.join, _joined, (), 2, 3),
    "map_keys": (f.keys, _if_map(lambda key, value: array_of(key)), (), 1, 1),
    "map_values": (f.values, _if_map(lambda key, value: array_of(value)), (), 1, 1),
    "map_entries": (f.entries, _if_map(_entries), (), 1, 1),
    "map_contains_key": (f.has_key, _if_map(lambda key, value: BOOLEAN), (1,), 2, 2),
    "map_from_arrays": (f.map_from_arrays, _from_arrays, (), 2, 2),
    "map": (f.map_from_arrays, _from_arrays, (), 2, 2),
    "map_from_entries": (f.map_from_entries, _from_entries, (), 1, 1),
    "map_concat": (f.map_concat, _if_map(map_of), (), 1, 1000),
}  # fmt: skip


def nested_call(
    lowering: ExpressionLowering, node: exp.Expr, name: str, nodes: list[exp.Expr]
) -> Expression | None:
    """The call, or None if it is no call of a function of nested values."""
    span = lowering.span(node)
    if any(isinstance(each, exp.Lambda) for each in nodes):
        return _with_lambda(lowering, name, nodes, span)
    if name == "array" and nodes:
        given = unify(lowering.all(nodes), "array")
        return python_call("array", f.array_of, given, array_of(given[0].type), span, nulls=True)
    if name == "struct":
        return struct_call(lowering, nodes, span)
    if name == "var_map":
        return _map(lowering, nodes, span)
    if name == "regexp_split" and len(nodes) == 2 and _is_plain(nodes[1]):
        return _split(lowering, nodes, span)
    if name == "generate_series":
        return _sequence(lowering, nodes, span)
    if name == "array_sort":
        return _sort(lowering, node, span)
    if name in BUILT:
        return BUILT[name](lowering, nodes, span)
    if name not in _FUNCTIONS:
        return None
    code, typing, of_element, least, most = _FUNCTIONS[name]
    if not least <= len(nodes) <= most:
        return None
    given = lowering.all(nodes)
    result = typing([each.type for each in given]) if given else None
    if result is None:
        return None
    wanted = element_type(given[0].type) or (entry_types(given[0].type) or (None,))[0]
    for at in of_element:
        assert wanted is not None
        given = (*given[:at], _as_element(given[at], wanted, name), *given[at + 1 :])
    return python_call(name, code, given, result, span)


def _as_element(value: Expression, wanted: Type, name: str) -> Expression:
    if isinstance(value.type, Null) or common_type(value.type, wanted) is None:
        raise TypeMismatch(f"{name} compares {wanted} with {value.type}", span=value.span)
    meeting = common_type(value.type, wanted)
    return cast(value, wanted) if meeting == wanted else value


# Constructors, and functions with constants.


def _zip(
    lowering: ExpressionLowering, nodes: list[exp.Expr], span: Span | None
) -> Expression | None:
    """arrays_zip: the fields are called as the columns, others by their place."""
    given = lowering.all(nodes)
    elements = [element_type(each.type) for each in given]
    if not given or None in elements:
        return None
    names = [_field_name(node, i) for i, node in enumerate(nodes)]
    result = array_of(struct_of(names, [each for each in elements if each is not None]))
    return python_call("arrays_zip", f.zipped(names), given, result, span, of=tuple(names))


def _field_name(node: exp.Expr, place: int) -> str:
    is_named = isinstance(node, exp.Column | exp.Dot)
    return node.name or str(place) if is_named else str(place)


def _insert(
    lowering: ExpressionLowering, nodes: list[exp.Expr], span: Span | None
) -> Expression | None:
    """array_insert(array, place, value)."""
    if len(nodes) != 3:
        return None
    array, place, value = lowering.all(nodes)
    element = element_type(array.type)
    if element is None:
        return None
    value = cast(value, element) if isinstance(value.type, Null) else value
    value = _as_element(value, element, "array_insert")
    given = (array, implicit(place, INT, "array_insert"), value)
    return python_call("array_insert", f.insert, given, array.type, span, nulls=True)


def _longer(code: Callable[..., Any]) -> Callable[..., Expression | None]:
    """array_append and array_prepend."""

    def build(
        lowering: ExpressionLowering, nodes: list[exp.Expr], span: Span | None
    ) -> Expression | None:
        array, *values = lowering.all(nodes)
        element = element_type(array.type)
        if element is None or len(values) != 1:
            return None
        is_null = isinstance(values[0].type, Null)
        value = cast(values[0], element) if is_null else _as_element(values[0], element, "it")
        if value.type != element:
            return None
        return python_call(code.__name__, code, (array, value), array.type, span, nulls=True)

    return build


def _sequence(
    lowering: ExpressionLowering, nodes: list[exp.Expr], span: Span | None
) -> Expression | None:
    """sequence of whole numbers, and of days without a step."""
    given = lowering.all(nodes)
    types = [each.type for each in given]
    if all(isinstance(each, Integer) for each in types):
        given = unify(given, "sequence")
        return python_call("sequence", f.sequence, given, array_of(given[0].type), span)
    if types == [DATE, DATE]:
        return python_call("sequence", f.sequence_of_days, given, array_of(DATE), span)
    return None


def _to_json(
    lowering: ExpressionLowering, nodes: list[exp.Expr], span: Span | None
) -> Expression | None:
    given = lowering.all(nodes)
    is_nested = isinstance(given[0].type, Nested) and given[0].type not in _PLAIN
    if len(given) != 1 or not is_nested:
        return None
    type_ = given[0].type
    return python_call("to_json", j.writer(arrow_type(type_)), given, STRING, span, of=type_)


def _from_json(
    lowering: ExpressionLowering, nodes: list[exp.Expr], span: Span | None
) -> Expression | None:
    if len(nodes) != 2:
        return None
    text, written = lowering.all(nodes)
    if not isinstance(written, Literal) or not isinstance(written.value, str):
        return None
    type_ = written_type(written.value)
    if not isinstance(type_, Nested) or type_ in _PLAIN:
        return None
    text = cast(text, STRING) if isinstance(text.type, Null) else text
    return python_call("from_json", j.reader(arrow_type(type_)), (text,), type_, span, of=type_)


_PLAIN = (Nested("BINARY"), Nested("VARIANT"))
# These come from Python in queries that are answered once, too.
BUILT: dict[str, Callable[..., Expression | None]] = {
    "array_append": _longer(f.append), "array_prepend": _longer(f.prepend),
    "arrays_zip": _zip, "array_insert": _insert, "generate_series": _sequence,
    "sequence": _sequence, "json_format": _to_json, "to_json": _to_json, "from_json": _from_json,
}  # fmt: skip


def struct_call(
    lowering: ExpressionLowering, nodes: list[exp.Expr], span: Span | None
) -> Expression:
    names, values = list[str](), list[exp.Expr]()
    for i, each in enumerate(nodes):
        if isinstance(each, exp.PropertyEQ):
            names.append(each.this.name)
            values.append(each.expression)
        elif isinstance(each, exp.Alias):
            names.append(each.alias)
            values.append(each.this)
        else:
            names.append(each.name if isinstance(each, exp.Column) else f"col{i + 1}")
            values.append(each)
    given = lowering.all(values)
    result = struct_of(names, [each.type for each in given])
    code = f.struct_of(tuple(names))
    return python_call("named_struct", code, given, result, span, nulls=True, of=tuple(names))


def _map(
    lowering: ExpressionLowering, nodes: list[exp.Expr], span: Span | None
) -> Expression | None:
    both = [each.expressions for each in nodes if isinstance(each, exp.Array)]
    if len(both) != 2 or not both[0] or len(both[0]) != len(both[1]):
        return None
    keys, values = unify(lowering.all(both[0]), "map"), unify(lowering.all(both[1]), "map")
    given = tuple(each for pair in zip(keys, values, strict=True) for each in pair)
    result = map_of(keys[0].type, values[0].type)
    return python_call("map", f.map_of_values, given, result, span, nulls=True)


_SPECIAL = frozenset("\\.^$|?*+()[]{}")


def _is_plain(node: exp.Expr) -> bool:
    """Whether a separator is plain text, and no regular expression."""
    is_text = isinstance(node, exp.Literal) and bool(node.args.get("is_string"))
    return is_text and bool(node.name) and not _SPECIAL & set(node.name)


def _split(lowering: ExpressionLowering, nodes: list[exp.Expr], span: Span | None) -> Expression:
    given = lowering.all(nodes)
    if not isinstance(given[0].type, String):
        given = (cast(given[0], STRING), given[1])
    return python_call("split", str.split, given, array_of(STRING), span)


def _sort(lowering: ExpressionLowering, node: exp.Expr, span: Span | None) -> Expression | None:
    array = lowering.lower(node.this)
    if element_type(array.type) is None or node.args.get("expression") is not None:
        return None
    up, nulls = node.args.get("asc"), node.args.get("nulls_first")
    is_up = up is None or (isinstance(up, exp.Boolean) and bool(up.this))
    nulls_first = nulls is None or (isinstance(nulls, exp.Boolean) and bool(nulls.this))
    if up is not None and not isinstance(up, exp.Boolean):
        return None
    if not is_up:
        code: Callable[..., Any] = _sorted_down
    else:
        code = f.sort if nulls_first else f.sort_nulls_last
    return python_call("sort_array", code, (array,), array.type, span)


def _sorted_down(array: list[Any]) -> list[Any]:
    return f.sort(array, False)


# Parts.


def part_of(value: Expression, key: Expression, span: Span | None, *, offset: int, safe: bool) -> (
    Expression | None
):  # fmt: skip
    """value[key], element_at(value, key); None if the value has no such parts."""
    element, entry = element_type(value.type), entry_types(value.type)
    if element is not None and isinstance(key.type, Integer):
        code = (f.try_element_at if safe else f.element_at) if offset else f.at
        name = "element_at" if offset else "[]"
        return python_call(name, code, (value, key), element, span)
    if entry is not None:
        key = _as_element(key, entry[0], "a map")
        return python_call("element_at", f.value_of, (value, key), entry[1], span)
    if isinstance(key, Literal) and isinstance(key.value, str):
        return field(value, key.value, span)
    return None


def field(value: Expression, name: str, span: Span | None) -> Expression | None:
    """value.name, of a struct or of each struct in an array; None if it has no fields."""
    fields, element = struct_fields(value.type), element_type(value.type)
    inner = struct_fields(element) if element is not None else None
    for known, is_array in ((fields, False), (inner, True)):
        if known is None:
            continue
        found = [each for each in known if each.name.lower() == name.lower()]
        if not found:
            raise TypeMismatch(f"{value.type} has no field {name}", span=span)
        own, type_ = found[0].name, found[0].type
        code = f.field_of_all(own) if is_array else f.field_of(own)
        result = array_of(type_) if is_array else type_
        return python_call(f"field {own}", code, (value,), result, span, of=(own, is_array))
    return None


# Lambdas.


def _with_lambda(
    lowering: ExpressionLowering, name: str, nodes: list[exp.Expr], span: Span | None
) -> Expression | None:
    if name == "reduce":
        return _reduce(lowering, nodes, span)
    *values, function = nodes
    if not isinstance(function, exp.Lambda) or name not in _LAMBDAS:
        return None
    given = lowering.all(values)
    code, read, made = _LAMBDAS[name]
    types = read([each.type for each in given])
    if types is None:
        return None
    body, names = _body(lowering, function, types)
    result = made([each.type for each in given], body.type)
    is_short = len(names) < len(types)

    def compute(call: Callable[..., Any], *rows: Any) -> Any:
        return code((lambda x, i: call(x)) if is_short else call, *rows)

    return _applied(name, compute, given, [(body, names)], result, span)


Body = tuple[Expression, list[str]]


def _body(lowering: ExpressionLowering, function: exp.Lambda, types: Sequence[Type]) -> Body:
    """The body of a lambda, whose parameters are columns of these types."""
    names = [each.name for each in function.expressions]
    if len(names) > len(types) or (len(names) < len(types) and types[1:] != [INT]):
        raise TypeMismatch(
            f"the lambda takes {len(names)} arguments, not {len(types)}",
            span=lowering.span(function),
        )
    columns = [
        (name, Column(f"\0{name}", type_, True)) for name, type_ in zip(names, types, strict=False)
    ]
    hidden = {name.lower() for name in names}
    others = [each for each in lowering.scope.columns if each[0].lower() not in hidden]
    scope = Scope(lowering.scope.tables, [*columns, *others], lowering.scope.outer)
    inner = type(lowering)(lowering.environment, scope)
    body = inner.lower(_with_columns(function.this, hidden))
    if not can_evaluate(body):
        raise NotModelled("a lambda of this form", lowering.span(function))
    return body, [column.name for _, column in columns]


def _with_columns(body: exp.Expr, names: set[str]) -> exp.Expr:
    """The body with its parameters as columns: sqlglot has them as bare names."""

    def change(node: exp.Expr) -> exp.Expr:
        is_name = isinstance(node, exp.Identifier) and node.name.lower() in names
        if is_name and not isinstance(node.parent, exp.Column) and node.arg_key != "expression":
            return exp.Column(this=node.copy())
        if is_name and node.arg_key == "expression" and not isinstance(node.parent, exp.Dot):
            return exp.Column(this=node.copy())
        return node

    changed: exp.Expr = exp.Paren(this=body.copy()).transform(change).this
    return changed


def _applied(
    name: str,
    code: Callable[..., Any],
    given: Arguments,
    bodies: list[Body],
    result: Type,
    span: Span | None,
) -> UserCall:
    """A call with lambdas: what else they read is passed along."""
    own = {each for _, names in bodies for each in names}
    read = sorted(set().union(*(columns_of(body) for body, _ in bodies)) - own)
    types = {c.name: c for body, _ in bodies for c in _columns(body)}
    extra = tuple(types[each] for each in read)
    width = len(given)
    calls = [compile_rows([body], [*names, *read])[0] for body, names in bodies]

    def compute(*row: Any) -> Any:
        if any(each is None for each in row[:width]):
            return None
        rest = row[width:]
        bound = [lambda *values, call=call: call((*values, *rest)) for call in calls]
        return code(*bound, *row[:width])

    of = (name, tuple((body, tuple(names)) for body, names in bodies))
    return python_call(name, compute, (*given, *extra), result, span, nulls=True, of=of)


def _columns(expression: Expression) -> list[Column]:
    return [each for each in walk(expression) if isinstance(each, Column)]


def _reduce(
    lowering: ExpressionLowering, nodes: list[exp.Expr], span: Span | None
) -> Expression | None:
    """aggregate(array, start, (sum, x) -> ..., sum -> ...)."""
    if len(nodes) not in (3, 4) or not all(isinstance(e, exp.Lambda) for e in nodes[2:]):
        return None
    array, start = lowering.all(nodes[:2])
    element = element_type(array.type)
    merge = nodes[2]
    if element is None or not isinstance(merge, exp.Lambda):
        return None
    body, names = _body(lowering, merge, [start.type, element])
    if body.type != start.type:
        raise TypeMismatch(
            f"the lambda of aggregate gives {body.type}, but begins with {start.type}",
            hint=f"Convert what it begins with: CAST(... AS {body.type}).",
            span=lowering.span(merge),
        )
    bodies, result = [(body, names)], body.type
    if len(nodes) == 4 and isinstance(nodes[3], exp.Lambda):
        last = _body(lowering, nodes[3], [start.type])
        bodies, result = [*bodies, last], last[0].type

    def compute(call: Callable[..., Any], *rest: Any) -> Any:
        *finish, values, value = rest
        for each in values:
            value = call(value, each)
        return finish[0](value) if finish else value

    # What it begins with may be NULL.
    return _applied("aggregate", compute, (array, start), bodies, result, span)


def _element_and_place(types: Sequence[Type]) -> list[Type] | None:
    element = element_type(types[0])
    return None if element is None else [element, INT]


def _only_element(types: Sequence[Type]) -> list[Type] | None:
    element = element_type(types[0])
    return None if element is None else [element]


def _entry(types: Sequence[Type]) -> list[Type] | None:
    found = entry_types(types[0])
    return None if found is None else list(found)


def _two_elements(types: Sequence[Type]) -> list[Type] | None:
    both = [element_type(each) for each in types]
    return None if len(both) != 2 or None in both else [e for e in both if e is not None]


def _two_maps(types: Sequence[Type]) -> list[Type] | None:
    both = [entry_types(each) for each in types]
    found = [each for each in both if each is not None]
    if len(found) != 2 or len(both) != 2 or found[0][0] != found[1][0]:
        return None
    return [found[0][0], found[0][1], found[1][1]]


def _with_keys(types: Sequence[Type], made: Type) -> Type:
    found = entry_types(types[0])
    assert found is not None
    return map_of(made, found[1])


def _with_values(types: Sequence[Type], made: Type) -> Type:
    found = entry_types(types[0])
    assert found is not None
    return map_of(found[0], made)


_Read = Callable[[Sequence[Type]], "list[Type] | None"]
_Made = Callable[[Sequence[Type], Type], Type]
_LAMBDAS: dict[str, tuple[Callable[..., Any], _Read, _Made]] = {
    "transform": (f.transform, _element_and_place, lambda types, made: array_of(made)),
    "filter": (f.kept, _element_and_place, lambda types, made: types[0]),
    "exists": (f.exists, _only_element, lambda types, made: BOOLEAN),
    "forall": (f.forall, _only_element, lambda types, made: BOOLEAN),
    "map_filter": (f.kept_entries, _entry, lambda types, made: types[0]),
    "transform_values": (f.with_values, _entry, _with_values),
    "transform_keys": (f.with_keys, _entry, _with_keys),
    "map_zip_with": (f.zip_maps, _two_maps, _with_values),
    "zip_with": (f.zip_with, _two_elements, lambda types, made: array_of(made)),
}

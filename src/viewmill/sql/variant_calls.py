"""Calls of functions of VARIANT, and casts from and to it.

takes  a function's name, its arguments lowered
gives  algebra UserCall over a function of `program.variants`; None if it is none of these
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from viewmill.algebra.expressions import Expression, Literal
from viewmill.algebra.types import BOOLEAN, STRING, Nested, Null, Type
from viewmill.deltas.arrow import arrow_type
from viewmill.errors import Span, TypeMismatch
from viewmill.program import variants as f
from viewmill.program.value_functions import lenient
from viewmill.sql.coercion import cast, implicit
from viewmill.sql.nested_types import written_type
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.python_calls import python_call

if TYPE_CHECKING:
    from viewmill.sql.lower_expressions import ExpressionLowering

VARIANT = Nested("VARIANT")
Arguments = tuple[Expression, ...]


def variant_call(name: str, given: Arguments, span: Span | None) -> Expression | None:
    """The call, or None if it is no call of a function of VARIANT."""
    made = _FUNCTIONS.get(name)
    return None if made is None or not given else made(name, given, span)


def _parse(name: str, given: Arguments, span: Span | None) -> Expression | None:
    text = given[0]
    if len(given) > 1 or text.type == VARIANT:
        return None
    text = cast(text, STRING) if isinstance(text.type, Null) else implicit(text, STRING, name)
    code = f.parse if name == "parse_json" else lenient(f.parse)
    return python_call(name, code, (text,), VARIANT, span)


def _get(name: str, given: Arguments, span: Span | None) -> Expression | None:
    """variant_get(variant, path, type)."""
    if len(given) not in (2, 3):
        return None
    _check(name, given[0])
    path = implicit(given[1], STRING, name)
    if len(given) == 2:
        return python_call(name, f.part, (given[0], path), VARIANT, span)
    written = given[2].value if isinstance(given[2], Literal) else None
    type_ = written_type(written) if isinstance(written, str) else None
    if type_ is None:
        raise TypeMismatch(f"{name} needs the name of a type", span=given[2].span or span)
    if type_ == VARIANT:
        return python_call(name, f.part, (given[0], path), VARIANT, span)
    code = f.getter(_of_arrow(type_, span))
    if name.startswith("try_"):
        code = lenient(code)
    return python_call(name, code, (given[0], path), type_, span, of=(name, type_))


def _check(name: str, value: Expression) -> None:
    if value.type != VARIANT:
        hint = "parse_json(text) makes one."
        raise TypeMismatch(f"{name} needs a VARIANT, got {value.type}", hint=hint, span=value.span)


def _is_null(name: str, given: Arguments, span: Span | None) -> Expression | None:
    _check(name, given[0])
    return python_call(name, f.is_null, given, BOOLEAN, span, nulls=True)


def _schema(name: str, given: Arguments, span: Span | None) -> Expression | None:
    _check(name, given[0])
    return python_call(name, f.schema_of, given, STRING, span)


def _make(name: str, given: Arguments, span: Span | None) -> Expression | None:
    return to_variant(given[0], span)


def _to_json(name: str, given: Arguments, span: Span | None) -> Expression | None:
    if given[0].type != VARIANT or len(given) > 1:
        return None
    return python_call(name, str, given, STRING, span)


_FUNCTIONS: dict[str, Callable[[str, Arguments, Span | None], Expression | None]] = {
    "parse_json": _parse, "try_parse_json": _parse, "variant_get": _get, "try_variant_get": _get,
    "is_variant_null": _is_null, "schema_of_variant": _schema, "to_variant_object": _make,
    "json_format": _to_json, "to_json": _to_json,
}  # fmt: skip


def _of_arrow(type_: Type, span: Span | None) -> object:
    if "VARIANT" in str(type_):
        raise NotModelled(f"a VARIANT inside {type_}", span)
    return arrow_type(type_)


def from_variant(
    value: Expression, type_: Type, span: Span | None, *, lenient_: bool
) -> Expression:
    """CAST(variant AS type)."""
    code = f.caster(_of_arrow(type_, span))
    code = lenient(code) if lenient_ else code
    return python_call("cast", code, (value,), type_, span, of=("cast", type_, lenient_))


def to_variant(value: Expression, span: Span | None) -> Expression:
    """CAST(value AS VARIANT)."""
    if value.type == VARIANT:
        return value
    if isinstance(value.type, Null):
        value = cast(value, STRING)
    code = f.maker(_of_arrow(value.type, span))
    return python_call("to_variant", code, (value,), VARIANT, span, of=value.type)


def variant_path(lowering: ExpressionLowering, node: exp.Expr) -> Expression:
    """variant:path.of[0].it."""
    span, value, path = lowering.span(node), lowering.lower(node.this), "$"
    if value.type != VARIANT or not isinstance(node.expression, exp.JSONPath):
        raise NotModelled("a path into JSON", span)
    for step in node.expression.expressions[1:]:
        if isinstance(step, exp.JSONPathKey) and isinstance(step.this, str):
            path += f"['{step.this}']"
        elif isinstance(step, exp.JSONPathSubscript) and isinstance(step.this, int):
            path += f"[{step.this}]"
        else:
            raise NotModelled("a path of this form", span)
    return python_call("variant_get", f.part, (value, Literal(path, STRING)), VARIANT, span)

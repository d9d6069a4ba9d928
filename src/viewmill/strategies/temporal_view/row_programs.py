"""What is computed of rows one by one and in their order, as programs without states.

takes  projections and filters over one scan
gives  programs to run one after another; `NotTaken` where only an engine computes it
next   kernels.row_function
"""

from __future__ import annotations

from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import Named, Project, Relation, Scan
from viewmill.algebra.types import Nested, has_equal_words
from viewmill.algebra.walk import columns_of, has_subquery, scans, transform
from viewmill.codegen.by_row import compute_by_row, emit_by_row
from viewmill.codegen.inputs import input_of
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken, blame, peel
from viewmill.codegen.source import Source
from viewmill.codegen.words import Argument, bind_argument, emit_row
from viewmill.program.program import Input, Program, Trigger, Triggers

STRATEGY = "temporal_view"
_FUNCTION = "on_rows"


def row_programs(query: Relation) -> tuple[Program, ...]:
    """Programs for a query over one scan; what Python computes comes before what is compiled."""
    programs: list[Program] = []

    def cut(relation: Relation) -> Relation:
        if not isinstance(relation, Project) or not relation.by_row:
            return relation
        programs.append(emit_by_row(relation, STRATEGY))
        (scan,) = scans(relation)
        return Scan(scan.source, scan.alias, relation.schema)

    rest = transform(compute_by_row(query), cut)
    return (*programs, _compiled(rest))


def _compiled(query: Relation) -> Program:
    where, outputs, scan = peel(query)
    if not isinstance(scan, Scan):
        raise NotTaken(*blame(scan))
    expressions = [*where, *(each for _, each in outputs)]
    if any(map(has_subquery, expressions)):
        raise NotTaken("a subquery", query.span if isinstance(query, Project) else None)
    source, input_ = Source(), input_of(scan)
    source.know(scan, input_)
    for word in ("start", "size", "multiplicity", "texts", "errors", "i", "out", _FUNCTION):
        source.name(word)
    arguments = _arguments(scan, input_, outputs, expressions, source)
    bound = {each.column: bind_argument(each, scan) for each in arguments}
    names = [text for each in arguments for text in (each.value, each.null) if text]
    given = ["start", "size", "multiplicity", *names, "out", "texts", "errors"]
    with source.block(f"def {_FUNCTION}({', '.join(given)}):"):
        with source.block("for i in range(start, size):"):
            with source.block("if emit_full(out) or failed(errors):"):
                source.line("return i")
            _write_row(source, bound, where, outputs, query)
        source.line("return size")
    own = dict(zip(scan.schema.names, input_.schema.names, strict=True))
    trigger = Trigger(input_.name, _FUNCTION, tuple(own[each.column] for each in arguments))
    body = Triggers(
        source.under(query), (), tuple(source.texts), tuple(source.messages),
        lookups=tuple(source.lookups), replays=(trigger,),
    )  # fmt: skip
    return Program(STRATEGY, query, (input_,), query.schema, (), body)


def _write_row(
    source: Source,
    bound: dict[str, Operand],
    where: tuple[Expression, ...],
    outputs: tuple[Named, ...],
    query: Relation,
) -> None:
    scalar = Scalar(source, bound, "i")
    for condition in where:
        with source.block(f"if not {scalar.is_true(condition)}:"):
            source.line("continue")
    operands = [scalar.emit(each) for _, each in outputs]
    emit_row(source, operands, query.schema.fields, "multiplicity[i]")


def _arguments(
    scan: Scan,
    input_: Input,
    outputs: tuple[Named, ...],
    expressions: list[Expression],
    source: Source,
) -> list[Argument]:
    """The columns that are read; a nested value passes if nothing is computed of it."""
    used = set[str]().union(*map(columns_of, expressions))
    shown = {each.name for _, each in outputs if isinstance(each, Column)}
    computed = [each for each in expressions if not isinstance(each, Column)]
    inside = set[str]().union(*map(columns_of, computed))
    found = []
    for field, own in zip(scan.schema, input_.schema.names, strict=True):
        if field.name not in used:
            continue
        is_only_shown = type(field.type) is Nested and field.name in shown - inside
        if not (has_equal_words(field.type) or is_only_shown):
            raise NotTaken(f"a column of type {field.type}", scan.span)
        value = source.name(own)
        found.append(
            Argument(field.name, value, source.name(f"{value}_null") if field.nullable else None)
        )
    return found

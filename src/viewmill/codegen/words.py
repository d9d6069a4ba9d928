"""Columns as words of keys and rows: the lines that write and read them.

A key is one word per column and, where a column is nullable, a last word of null bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viewmill.algebra.relations import Scan
from viewmill.algebra.schema import Field
from viewmill.algebra.types import Boolean, Float
from viewmill.codegen.scalar import Operand
from viewmill.codegen.source import Source

MOST_KEYS = 60  # the null bits of a key are one word


@dataclass(frozen=True)
class Argument:
    """A column of the input as arguments of the trigger."""

    column: str
    value: str
    null: str | None


def bind_argument(argument: Argument, scan: Scan) -> Operand:
    """Row i of a column."""
    index = scan.schema.names.index(argument.column)
    value = f"{argument.value}[i]"
    if isinstance(scan.schema[index].type, Boolean):
        value = f"({value} != 0)"
    return Operand(value, None if argument.null is None else f"({argument.null}[i] != 0)")


def key_words(operands: Sequence[Operand], fields: Sequence[Field]) -> str:
    """The tuple of words of a key."""
    words = [as_word(each, field) for each, field in zip(operands, fields, strict=True)]
    if any(field.nullable for field in fields):
        bits = [
            f"(int({each.null}) << {i})" if i else f"int({each.null})"
            for i, each in enumerate(operands)
            if each.null is not None
        ]
        words.append(" | ".join(bits) or "0")
    return f"({', '.join(words)},)" if words else "()"


def as_word(operand: Operand, field: Field) -> str:
    """The word of a column in a key."""
    if isinstance(field.type, Float):
        return f"float_key({operand.value})"
    return f"int({operand.value})" if isinstance(field.type, Boolean) else operand.value


def read_words(
    source: Source, fields: Sequence[Field], word: Callable[[int], str]
) -> dict[str, Operand]:
    """Write what reads the columns of a key; `word(i)` is the text of its word i."""
    bound: dict[str, Operand] = {}
    for i, field in enumerate(fields):
        text = word(i)
        if isinstance(field.type, Float):
            text = f"key_float({text})"
        elif isinstance(field.type, Boolean):
            text = f"{text} != 0"
        value = source.name(field.name.split(".")[-1])
        source.line(f"{value} = {text}")
        null = None
        if field.nullable:
            null = source.name(f"{value}_null")
            source.line(f"{null} = ({word(len(fields))} >> {i}) & 1 != 0")
        bound[field.name] = Operand(value, null)
    return bound


def emit_row(
    source: Source, operands: Sequence[Operand], fields: Sequence[Field], times: str
) -> None:
    """Write the lines that emit one row."""
    for i, (operand, field) in enumerate(zip(operands, fields, strict=True)):
        _emit_column(source, i, operand, field)
    source.line(f"emit(out, {times})")


def _emit_column(source: Source, i: int, operand: Operand, field: Field) -> None:
    word = "emit_float" if isinstance(field.type, Float) else "emit_word"
    value = f"int({operand.value})" if isinstance(field.type, Boolean) else operand.value
    if operand.null is None:
        source.line(f"{word}(out, {i}, {value})")
        return
    with source.block(f"if {operand.null}:"):
        source.line(f"emit_null(out, {i})")
    with source.block("else:"):
        source.line(f"{word}(out, {i}, {value})")

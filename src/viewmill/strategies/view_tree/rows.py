"""The rows of one table inside its trigger: which columns are arguments, how keys are written.

takes  an occurrence and the expressions that its trigger evaluates
gives  arguments, and a `Scalar` that writes expressions over row i
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from viewmill.algebra.expressions import Expression
from viewmill.algebra.schema import Field
from viewmill.algebra.types import Boolean, Float, has_equal_words
from viewmill.algebra.walk import columns_of
from viewmill.codegen.inputs import input_of
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.program.program import Input
from viewmill.strategies.view_tree.block import Occurrence


@dataclass(frozen=True)
class Rows:
    """The columns of a delta as arguments of a trigger."""

    input: Input
    columns: tuple[str, ...]  # of the input, in order
    arguments: tuple[str, ...]
    scalar: Scalar
    known: dict[Expression, Operand] = field(default_factory=dict, compare=False)

    def value(self, expression: Expression) -> Operand:
        """Write an expression over row i, once; not inside a condition. A DECIMAL may be wide."""
        if expression not in self.known:
            self.known[expression] = self.scalar.emit_number(expression)
        return self.known[expression]

    def guard(self, condition: Expression) -> str:
        """Write a condition; the text that is true when it holds."""
        operand = self.value(condition)
        held = operand.value
        return held if operand.null is None else f"({held} and not {operand.null})"


def read_rows(source: Source, occurrence: Occurrence, used: Sequence[Expression]) -> Rows:
    """The columns that `used` reads, under names of their own."""
    scan = occurrence.scan
    input_ = input_of(scan)
    wanted: set[str] = set().union(*(columns_of(each) for each in used)) if used else set()
    bound: dict[str, Operand] = {}
    arguments: list[str] = []
    columns: list[str] = []
    for column, own in zip(scan.schema, input_.schema.names, strict=True):
        if column.name not in wanted:
            continue
        if not has_equal_words(column.type):
            raise NotTaken(f"a column of type {column.type}", scan.span)
        name = source.name(own)
        columns.append(own)
        arguments.append(name)
        value = f"({name}[i] != 0)" if isinstance(column.type, Boolean) else f"{name}[i]"
        null = None
        if column.nullable:
            mask = source.name(f"{name}_null")
            arguments.append(mask)
            null = f"({mask}[i] != 0)"
        bound[column.name] = Operand(value, null)
    return Rows(input_, tuple(columns), tuple(arguments), Scalar(source, bound, "i"))


def key_word(operand: Operand, field: Field) -> str:
    """The word of a value in a key."""
    if isinstance(field.type, Float):
        return f"float_key({operand.value})"
    return f"int({operand.value})" if isinstance(field.type, Boolean) else operand.value


def key_text(operands: Sequence[Operand], fields: Sequence[Field]) -> str:
    """The tuple of words of a key, whose operands are words already."""
    words = [each.value for each in operands]
    if any(field.nullable for field in fields):
        bits = [
            f"({each.null} << {i})" if i else f"{each.null}"
            for i, each in enumerate(operands)
            if each.null is not None
        ]
        words.append(" | ".join(bits) or "0")
    return "()" if not words else f"({', '.join(words)},)"


def value_of(word: str, field: Field) -> str:
    """The value of a word of a key."""
    if isinstance(field.type, Float):
        return f"key_float({word})"
    return f"({word} != 0)" if isinstance(field.type, Boolean) else word

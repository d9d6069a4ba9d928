"""Columns as the words of a `Sorted` state: the lines that write and read them.

A nullable column is two words, the first of which puts NULL before or behind the values. Numbers
are turned so that their words are in order; strings and wide decimals are compared by what their
words stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal as OneOf

from viewmill.algebra.schema import Field
from viewmill.algebra.types import BIGINT, Boolean, Float, String, Wide
from viewmill.codegen.scalar import Operand
from viewmill.codegen.words import as_word
from viewmill.program.states import Slot, Sorted

COPY = Field("#copy", BIGINT, False)  # equal rows are told apart by a number
WordKind = OneOf["number", "text", "text_down", "wide", "wide_down"]


@dataclass(frozen=True)
class OrderColumn:
    """A column and how it is ordered; `grouped` strings and wide decimals need no order."""

    field: Field
    descending: bool = False
    nulls_first: bool = True
    grouped: bool = False

    @property
    def kinds(self) -> tuple[WordKind, ...]:
        """How its words compare."""
        value: WordKind = "number"
        if self.is_looked_up and not self.grouped:
            how: OneOf["text", "wide"] = "text" if self.is_text else "wide"
            value = f"{how}_down" if self.descending else how  # type: ignore[assignment]
        return ("number", value) if self.field.nullable else (value,)

    @property
    def is_text(self) -> bool:
        """Whether it is a string."""
        return isinstance(self.field.type, String)

    @property
    def is_looked_up(self) -> bool:
        """Whether its words are compared by what they stand for."""
        return isinstance(self.field.type, String | Wide)

    def encode(self, operand: Operand) -> Iterator[str]:
        """The words of a value."""
        if self.field.nullable:
            null = f"int({operand.null})" if operand.null is not None else "0"
            yield f"1 - {null}" if self.nulls_first else null
        word = as_word(operand, self.field)
        if isinstance(self.field.type, Float):
            word = f"sort_word({word})"
        yield f"-1 - ({word})" if self.descending and not self.is_looked_up else word

    def decode(self, words: Sequence[str]) -> Operand:
        """The value of words."""
        *nulls, value = words
        if self.descending and not self.is_looked_up:
            value = f"(-1 - {value})"
        if isinstance(self.field.type, Float):
            value = f"key_float(sort_word({value}))"
        elif isinstance(self.field.type, Boolean):
            value = f"({value} != 0)"
        null = f"({nulls[0]} == {0 if self.nulls_first else 1})" if nulls else None
        return Operand(value, null)


class RowOrder:
    """The columns that order rows, most significant first, and a number that tells equals apart."""

    def __init__(self, columns: Sequence[OrderColumn]) -> None:
        self.columns = (*columns, OrderColumn(COPY))
        self.starts: list[int] = [0]
        for column in self.columns:
            self.starts.append(self.starts[-1] + len(column.kinds))
        self.index = {column.field.name: i for i, column in enumerate(self.columns)}

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of a row, its number left out."""
        return tuple(column.field for column in self.columns[:-1])

    @property
    def has_texts(self) -> bool:
        """Whether strings are compared."""
        return any(kind.startswith("text") for column in self.columns for kind in column.kinds)

    def kind(self, payload: Sequence[Slot] = (), *, passing: bool = False) -> Sorted:
        """The state of such rows."""
        words = tuple(kind for column in self.columns for kind in column.kinds)
        fields = tuple(column.field for column in self.columns)
        return Sorted(fields, words, tuple(payload), passing)

    def words(self, count: int) -> int:
        """How many words the first `count` columns have."""
        return self.starts[count]

    def encode(self, row: Mapping[str, Operand], copy: str) -> str:
        """The key of a row."""
        operands = [row[column.field.name] for column in self.columns[:-1]]
        pairs = zip(self.columns, [*operands, Operand(copy)], strict=True)
        words = [word for column, operand in pairs for word in column.encode(operand)]
        return f"({', '.join(words)},)"

    def key_at(self, state: str, position: str, words: int) -> str:
        """The first words of the row at a position."""
        inside = "".join(f"sorted_key({state}, {position}, {i}), " for i in range(words))
        return f"({inside.rstrip()})"

    def value(self, state: str, position: str, name: str) -> Operand:
        """A column of the row at a position."""
        i = self.index[name]
        span = range(self.starts[i], self.starts[i + 1])
        return self.columns[i].decode([f"sorted_key({state}, {position}, {w})" for w in span])

"""Which of two rows comes first, as generated source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viewmill.algebra.expressions import Column
from viewmill.algebra.schema import Field
from viewmill.algebra.types import Float, String
from viewmill.strategies.dataflow.shape import NotTaken
from viewmill.strategies.dataflow.source import Source

Word = Callable[[str, int], str]  # an entry and the number of a word of its row: its text


@dataclass(frozen=True)
class Key:
    """A column of the row to order by."""

    position: int
    descending: bool
    nulls_first: bool


def write_less(
    source: Source,
    head: str,
    fields: Sequence[Field],
    keys: Sequence[Key],
    words: tuple[Word, Word],
) -> None:
    """Write a function that tells whether row a comes before row b."""
    with source.block(head):
        for key in keys:
            _write_key(source, fields, key, words)
        source.line("return False")
    source.line()


def _write_key(source: Source, fields: Sequence[Field], key: Key, words: tuple[Word, Word]) -> None:
    field, i = fields[key.position], key.position
    of_a, of_b = (word(entry, i) for word, entry in zip(words, "ab", strict=True))
    source.line(f"x = {of_a}")
    source.line(f"y = {of_b}")
    if not field.nullable:
        _write_values(source, field, key)
        return
    bits = [word(entry, len(fields)) for word, entry in zip(words, "ab", strict=True)]
    source.line(f"x_null = ({bits[0]} >> {i}) & 1")
    source.line(f"y_null = ({bits[1]} >> {i}) & 1")
    with source.block("if x_null != y_null:"):
        source.line(f"return x_null {'>' if key.nulls_first else '<'} y_null")
    with source.block("if x_null == 0:"):
        _write_values(source, field, key)


def _write_values(source: Source, field: Field, key: Key) -> None:
    first, second = ("y", "x") if key.descending else ("x", "y")
    with source.block("if x != y:"):
        if isinstance(field.type, Float):
            source.line(f"return float_lt(key_float({first}), key_float({second}))")
        elif isinstance(field.type, String):
            number = source.lookup(Column(field.name, field.type, field.nullable))
            if number is None:
                raise NotTaken("ordering by a string that is itself computed")
            source.line(f"return text_less(texts, {number}, {first}, {second})")
        else:
            source.line(f"return {first} < {second}")

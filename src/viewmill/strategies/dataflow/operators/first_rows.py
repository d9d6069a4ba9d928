"""The first rows of an order: ORDER BY with LIMIT and OFFSET.

takes  a filter that shows the rows of low numbers, the window that numbers all rows in their order,
       and the ranks between which rows are shown
gives  a program

All rows stand in order, each once with its number of copies and a mark: how many of them are shown,
and whether it is behind all that are. A row that comes behind a hidden one is hidden too, and one
that goes there changes nothing else. So most rows take one search; after each batch the first rows
are walked through, up to the first hidden one that stays so.
"""

from __future__ import annotations

from viewmill.algebra.expressions import Column, Literal
from viewmill.algebra.relations import Relation, Values, Window
from viewmill.algebra.schema import Field
from viewmill.algebra.types import BIGINT, Float, String, Wide
from viewmill.codegen.linear import Top, columns_as, counted, leaf_of, projected
from viewmill.codegen.scalar import Operand
from viewmill.codegen.words import emit_row, key_words, read_words
from viewmill.codegen.writer import Writer
from viewmill.program.program import Program
from viewmill.program.states import Passing, Slot, Sorted, SortWord
from viewmill.strategies.dataflow.operators.window import (
    column_name,
    compared,
    longest_order,
    row_columns,
)

_MAX_RANK = 1024  # the first rows are walked after each batch: no more of them
_RESERVED = ("q", "end", "rank", "copies", "mark", "now", "times", "rebuild", "min", "max")


def shown_ranks(top: Top, window: Window) -> tuple[int, int] | None:
    """Between which ranks rows are shown, if that is all that is asked of the window."""
    (name, over), *others = window.calls
    if others or over.function != "row_number" or over.partition:
        return None
    if not all(isinstance(each, Column) and each.name != name for _, each in top.outputs):
        return None
    first, last = 0, _MAX_RANK + 1
    for each in top.where:
        found = compared(each, name)
        if found is None:
            return None
        before, most = _between(*found)
        first, last = max(first, before), min(last, most)
    return (first, last) if 0 <= last <= _MAX_RANK else None


def _between(operator: str, rank: int) -> tuple[int, int]:
    """How many rows stand before the first that passes, and up to the last one."""
    before, most = 0, _MAX_RANK + 1
    if operator in ("<", "<=", "="):
        most = rank - (operator == "<")
    if operator in (">", ">=", "="):
        before = rank - (operator != ">")
    return before, most


def emit_first_rows(
    query: Relation, top: Top, window: Window, shown: tuple[int, int], strategy: str
) -> Program:
    """The program of the first rows of an order."""
    return _FirstRows(Writer(query, strategy), top, window, shown).program()


class _FirstRows:
    def __init__(self, writer: Writer, top: Top, window: Window, shown: tuple[int, int]) -> None:
        self.writer, self.source, self.shown = writer, writer.source, shown
        for word in _RESERVED:
            self.source.name(word)
        self.leaf = leaf_of(window.input)
        writer.know([self.leaf.scan])
        self.columns = row_columns(self.leaf, top, window)
        kind = self._kind(window)
        self.fields = kind.key
        self.outputs = [each.name for _, each in top.outputs if isinstance(each, Column)]
        self.state = writer.state("sequence", kind, self._definition())
        schema = writer.query.schema
        self.sink = writer.state("changes", Passing(schema.fields), Values((), schema))

    def _kind(self, window: Window) -> Sorted:
        """Rows in order; what the order does not say, all other columns do."""
        words: dict[str, tuple[SortWord, bool]] = {}
        for key in longest_order(window)[1]:
            name = column_name(key.expression, window)
            words.setdefault(name, (_word(self._field(name), key.descending), key.nulls_first))
        for name in self.columns:
            words.setdefault(name, (_word(self._field(name), False), True))
        if any(word.startswith("text") for word, _ in words.values()):
            self.source.every_text()
        return Sorted(
            tuple(map(self._field, words)),
            tuple(word for word, _ in words.values()),
            (Slot("count", "int"), Slot("mark", "int")),
            nulls_first=tuple(first for _, first in words.values()),
        )

    def _field(self, name: str) -> Field:
        expression = self.columns[name]
        return Field(name, expression.type, expression.nullable)

    def _definition(self) -> Relation:
        """Every row, how often it is there, and no mark yet."""
        rows = projected(
            self.leaf.relation(), [(f.name, self.columns[f.name]) for f in self.fields]
        )
        groups = counted(rows, self.fields)
        *keys, (_, count) = columns_as(groups.schema)
        return projected(groups, (*keys, ("count", count), ("mark", Literal(0, BIGINT))))

    # The program.

    def program(self) -> Program:
        """The program."""
        self._trigger()
        with self.writer.settle():
            self._settle()
        self._flush()
        self._contents()
        with self.source.block(f"def rebuild({self._states}, texts, errors):"):
            self.source.line(f"return settle({self._states}, texts, errors)")
        self.source.line()
        return self.writer.program(rebuild=True)

    @property
    def _states(self) -> str:
        return ", ".join(self.writer.handles)

    def _trigger(self) -> None:
        reads = [self.columns[field.name] for field in self.fields]
        with self.writer.trigger(self.leaf.scan, reads, self.leaf.where) as scalar:
            operands = [scalar.emit(each) for each in reads]
            words = key_words(operands, self.fields)
            self.source.line(f"mark = sorted_count({self.state}, {words}, m)")
            bound = {f.name: each for f, each in zip(self.fields, operands, strict=True)}
            with self.source.block("if mark > 2:"):
                self._change(bound, "2 - mark")

    def _change(self, bound: dict[str, Operand], times: str) -> None:
        """Write the lines that change how often a row is shown."""
        fields = self.writer.query.schema.fields
        words = key_words([bound[name] for name in self.outputs], fields)
        self.source.line(f"e = indexed_touch({self.sink}, {words})")
        self.source.line(f"indexed_add({self.sink}, e, 0, {times})")

    def _read(self) -> dict[str, Operand]:
        """Write what reads the row at q."""
        return read_words(self.source, self.fields, lambda i: f"sorted_key({self.state}, q, {i})")

    def _settle(self) -> None:
        """Write what marks the first rows; mark 1 is hidden, 2 and more is shown 0 and more times.

        Behind a hidden row all are hidden; rows without a mark stand before.
        """
        source, state, (first, last) = self.source, self.state, self.shown
        shown = f"min(rank + copies, {last}) - " + (f"max(rank, {first})" if first else "rank")
        source.line("rank = 0")
        source.line("q = 0")
        source.line(f"end = sorted_end({state})")
        with source.block("while q < end:"):
            source.line(f"mark = sorted_word({state}, q, 1)")
            with source.block(f"if rank >= {last} and mark == 1:"):
                source.line("break")
            source.line(f"copies = max(sorted_word({state}, q, 0), 0)")
            source.line(f"now = 1 if rank >= {last} else 2 + max({shown}, 0)")
            with source.block("if now != mark:"):
                source.line("times = max(now - 2, 0) - max(mark - 2, 0)")
                with source.block("if times != 0:"):
                    self._change(self._read(), "times")
                source.line(f"sorted_put({state}, q, (sorted_word({state}, q, 0), now,))")
            source.line("rank += copies")
            source.line(f"q = sorted_next({state}, q)")

    def _flush(self) -> None:
        source, fields, sink = self.source, self.writer.query.schema.fields, self.sink
        with self.writer.loop("flush", f"indexed_count({sink})", settle=True):
            source.line(f"e = indexed_at({sink}, t)")
            source.line(f"times = int_at({sink}, e, 0)")
            with source.block("if times != 0:"):
                bound = read_words(source, fields, lambda i: f"indexed_word({sink}, e, {i})")
                emit_row(source, [bound[field.name] for field in fields], fields, "times")

    def _contents(self) -> None:
        source, state = self.source, self.state
        with source.block(f"def contents(start, {self._states}, out, texts, errors):"):
            source.line("q = start")
            source.line(f"end = sorted_end({state})")
            with source.block(f"while q < end and sorted_word({state}, q, 1) != 1:"):
                with source.block("if emit_full(out):"):
                    source.line("return q")
                source.line(f"mark = sorted_word({state}, q, 1)")
                with source.block("if mark > 2:"):
                    bound = self._read()
                    shown = [bound[name] for name in self.outputs]
                    emit_row(source, shown, self.writer.query.schema.fields, "mark - 2")
                source.line(f"q = sorted_next({state}, q)")
            source.line("return -1")
        source.line()


def _word(field: Field, descending: bool) -> SortWord:
    """How the word of a column compares."""
    if isinstance(field.type, String):
        return "text_down" if descending else "text"
    if isinstance(field.type, Wide):
        return "wide_down" if descending else "wide"
    if isinstance(field.type, Float):
        return "float_down" if descending else "float"
    return "number_down" if descending else "number"

"""Write the program: ordered states, a trigger for each table, one look at them at the end.

takes  a relation
gives  `Program`: triggers only change levels; `settle` selects levels and keeps the view's rows in
       `result`; flush shows how those changed

One input for each table, however often the query reads it: what a row does to all its roles is done
at once, and nothing is judged before the end of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from viewmill.algebra.display import display
from viewmill.algebra.expressions import Column, walk
from viewmill.algebra.relations import Relation, Scan
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Nested, Null
from viewmill.algebra.walk import columns_of, walk_relations
from viewmill.program.program import Input, Program, Single, Trigger, Triggers
from viewmill.program.states import State
from viewmill.strategies.aggregate_index.answer import Answer
from viewmill.strategies.aggregate_index.classify import classify
from viewmill.strategies.aggregate_index.layout import Layout
from viewmill.strategies.aggregate_index.pairs import Groups
from viewmill.strategies.aggregate_index.query import read_query
from viewmill.strategies.dataflow.scalar import Operand, Scalar
from viewmill.strategies.dataflow.shape import NotTaken
from viewmill.strategies.dataflow.source import Source
from viewmill.strategies.dataflow.words import Argument, bind_argument, emit_row, read_words

_RESERVED = (
    "start", "size", "multiplicity", "texts", "errors", "m", "i", "e", "t", "p", "q", "out", "bits",
    "result", "settle", "is_unknown",
)  # fmt: skip


def emit_program(relation: Relation, strategy: str) -> Program:
    """The program of a query, or `NotTaken`."""
    return _Writer(relation, strategy).program()


class _Writer:
    """Writes the functions of a program one after another."""

    def __init__(self, relation: Relation, strategy: str) -> None:
        self.relation, self.strategy = relation, strategy
        self.source = Source()
        for word in _RESERVED:
            self.source.name(word)
        self.layout = Layout(classify(read_query(relation)), self.source)
        self.query = self.layout.query
        self.states = ", ".join([*(made.name for made in self.layout.levels), "result"])
        self._columns: dict[str, list[str]] = {}  # by input: the arguments of its trigger

    def program(self) -> Program:
        """The program."""
        inputs = self._inputs()
        for made in self.layout.levels:
            if isinstance(made, Groups):
                made.write_move(self.source)
        triggers = tuple(self._trigger(each) for each in inputs)
        with self.source.block(f"def settle({self.states}, texts, errors):"):
            Answer(self.layout, self.source).write()
        self.source.line()
        self._show()
        self._flush()
        self._contents()
        is_row = not self.query.keys and self.query.having
        replays = () if is_row else tuple(map(self._replay, triggers))
        states = tuple(made.state() for made in self.layout.levels)
        said = [*_sql_of(self.relation).splitlines(), "", *display(self.relation).splitlines()]
        head = [f"# {line}".rstrip() for line in said] + [""]
        return Program(
            strategy=self.strategy,
            query=self.relation,
            inputs=tuple(inputs),
            output=self.relation.schema,
            states=(*states, State("result", self.layout.result, self.relation, derived=True)),
            body=Triggers(
                source="\n".join(head) + "\n" + str(self.source),
                triggers=triggers,
                texts=tuple(self.source.texts),
                messages=tuple(self.source.messages),
                replays=replays,
            ),
            exchange=Single(),
        )

    # Triggers.

    def _inputs(self) -> list[Input]:
        inputs: dict[str, Input] = {}
        for scan in (part.scan for made in self.layout.levels for part in made.parts):
            fields = tuple(replace(f, name=f.name.split(".", 1)[-1]) for f in scan.schema)
            inputs.setdefault(scan.source, Input(scan.source, scan.source, Schema(fields)))
        return list(inputs.values())

    def _trigger(self, input_: Input) -> Trigger:
        source = self.source
        scan = Scan(input_.source, input_.name, input_.schema)
        arguments = list(self._arguments(scan))
        bound = {each.column: bind_argument(each, scan) for each in arguments}
        texts = [text for each in arguments for text in (each.value, each.null) if text]
        self._columns[input_.name] = texts
        function = source.name(f"on_{input_.name}")
        names = ["start", "size", "multiplicity", *texts, self.states, "texts", "errors"]
        with source.block(f"def {function}({', '.join(names)}):"):
            with source.block("for i in range(start, size):"):
                with source.block("if failed(errors):"):
                    source.line("return i")
                source.line("m = multiplicity[i]")
                for made in self.layout.levels:
                    made.write(Scalar(source, bound, "i"), input_.source)
            source.line("return size")
        source.line()
        return Trigger(input_.name, function, tuple(each.column for each in arguments))

    def _arguments(self, scan: Scan) -> Iterator[Argument]:
        used: set[str] = set()
        for made in self.layout.levels:
            for word in made.words:
                if word.part.source == scan.source:
                    read = (word.value, *word.guards, word.part.key, *word.part.where, *made.first)
                    used |= {name for each in read if each is not None for name in columns_of(each)}
        for column in scan.schema:
            if column.name in used:
                if isinstance(column.type, Nested | Null):
                    raise NotTaken(f"a column of type {column.type}", scan.span)
                value = self.source.name(column.name)
                null = self.source.name(f"{value}_null") if column.nullable else None
                yield Argument(column.name, value, null)

    # Showing.

    def _show(self) -> None:
        """Write what hands out entry e as a row, if it is one: 1, else 0."""
        source, result = self.source, self.layout.result
        words = {slot.name: result.word(slot.name) for slot in result.payload}
        with source.block("def show(result, e, t, times, out, texts, errors):"):
            shown_by = words["rows"] if self.query.keys else words["present"]
            with source.block(f"if int_at(result, e, {shown_by}) == 0:"):
                source.line("return 0")
            bound: dict[str, Operand] = {}
            if self.query.keys:
                bound = read_words(source, result.key, lambda i: f"indexed_word(result, e, {i})")
            scalar = Scalar(source, bound, "t")
            shown = (*self.query.having, *(each for _, each in self.query.outputs))
            needed = {p.name for each in shown for p in walk(each) if isinstance(p, Column)}
            for name, call in self.query.aggregates:
                if name in needed:
                    finish = self.layout.payload.finish
                    bound[name] = finish(name, call, scalar, words, "result")
            for condition in self.query.having:
                with source.block(f"if not {scalar.is_true(condition)}:"):
                    source.line("return 0")
            operands = [scalar.emit(each) for _, each in self.query.outputs]
            emit_row(source, operands, self.relation.schema.fields, "times")
            source.line("return 1")
        source.line()

    def _show_changes(self, minus: str, plus: str) -> None:
        """Write what shows touched entry t as it was and as it is, unless that is the same."""
        source = self.source
        before, now = "indexed_before(result, t)", "indexed_now(result, t)"
        source.line(f"shown = show(result, {before}, t, {minus}, out, texts, errors)")
        source.line(f"shown += show(result, {now}, t, {plus}, out, texts, errors)")
        with source.block("if shown == 2:"):
            source.line("emit_cancel(out)")

    def _flush(self) -> None:
        source = self.source
        with source.block(f"def flush(start, {self.states}, out, texts, errors):"):
            with source.block("if start == 0:"):
                source.line(f"settle({self.states}, texts, errors)")
            with source.block("for t in range(start, indexed_touched(result)):"):
                with source.block("if emit_full(out):"):
                    source.line("return t")
                self._show_changes("-1", "1")
            source.line("return -1")
        source.line()

    def _contents(self) -> None:
        source = self.source
        with source.block(f"def contents(start, {self.states}, out, texts, errors):"):
            with source.block("for t in range(start, indexed_count(result)):"):
                with source.block("if emit_full(out):"):
                    source.line("return t")
                source.line("e = indexed_at(result, t)")
                with source.block("if e != 0:"):
                    source.line("show(result, e, t, 1, out, texts, errors)")
            source.line("return -1")
        source.line()

    def _replay(self, trigger: Trigger) -> Trigger:
        """Write what shows the view after every row."""
        source, is_grouped = self.source, bool(self.query.keys)
        function = source.name(f"replay_{trigger.input}")
        rows = ", ".join(["multiplicity", *self._columns[trigger.input], self.states])
        with source.block(f"def {function}(start, size, {rows}, out, texts, errors):"):
            with source.block("for i in range(start, size):"):
                room = "2 * (indexed_count(result) + 1)" if is_grouped else "2"
                with source.block(f"if emit_room(out) < {room}:"):
                    source.line("return i")
                source.line(f"{trigger.function}(i, i + 1, {rows}, texts, errors)")
                source.line(f"settle({self.states}, texts, errors)")
                with source.block("if failed(errors):"):
                    source.line("return i")
                self._show_step(is_grouped)
            source.line("return size")
        source.line()
        return Trigger(trigger.input, function, trigger.columns)

    def _show_step(self, is_grouped: bool) -> None:
        source = self.source
        if not is_grouped:
            row = "indexed_find(result, (0,))"
            source.line(f"show(result, {row}, i, 1, out, texts, errors)")
            return
        with source.block("for t in range(indexed_touched(result)):"):
            self._show_changes("-i - 1", "i + 1")  # the multiplicity says which row it was
        source.line("indexed_commit(result)")


def _sql_of(query: Relation) -> str:
    spans = (getattr(each, "span", None) for each in walk_relations(query))
    return next((span.sql for span in spans if span is not None), "")

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

from viewmill.algebra.relations import Relation, Scan
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Nested, Null
from viewmill.algebra.walk import columns_of
from viewmill.codegen.scalar import Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.codegen.words import Argument, bind_argument
from viewmill.program.program import Input, Program, Trigger
from viewmill.strategies.aggregate_index.answer import Answer
from viewmill.strategies.aggregate_index.assemble import assemble, new_source
from viewmill.strategies.aggregate_index.by_key import read_by_key
from viewmill.strategies.aggregate_index.by_key_layout import KeyLayout
from viewmill.strategies.aggregate_index.classify import classify
from viewmill.strategies.aggregate_index.layout import Layout
from viewmill.strategies.aggregate_index.pairs import Groups
from viewmill.strategies.aggregate_index.query import read_query
from viewmill.strategies.aggregate_index.shown import Shown


def emit_program(relation: Relation, strategy: str) -> Program:
    """The program of a query, or `NotTaken`."""
    source = new_source()
    layout = Layout(classify(read_query(relation)), source)
    return _Writer(relation, strategy, source, layout).program()


def emit_by_key(relation: Relation, strategy: str) -> Program:
    """The program of a column against an aggregate of its own key, or `NotTaken`."""
    source = new_source()
    layout = KeyLayout(read_by_key(relation), source)
    return _Writer(relation, strategy, source, layout).program()


class _Writer:
    """Writes the functions of a program one after another."""

    def __init__(
        self, relation: Relation, strategy: str, source: Source, layout: Layout | KeyLayout
    ) -> None:
        self.relation, self.strategy = relation, strategy
        self.source, self.layout, self.query = source, layout, layout.query
        self.states = ", ".join([*(made.name for made in self.layout.levels), "result"])
        self._columns: dict[str, list[str]] = {}  # by input: the arguments of its trigger

    def program(self) -> Program:
        """The program."""
        inputs = self._inputs()
        if isinstance(self.layout, KeyLayout):
            self.layout.write_functions(self.source)
        for made in self.layout.levels:
            if isinstance(made, Groups):
                made.write_move(self.source)
        triggers = tuple(self._trigger(each) for each in inputs)
        with self.source.block(f"def settle({self.states}, texts, errors):"):
            if isinstance(self.layout, KeyLayout):
                self.layout.write_settle(self.source)
            else:
                Answer(self.layout, self.source).write()
        self.source.line()
        shown = Shown(
            self.source, self.query.head, self.layout.payload, self.relation.schema, self.states
        )
        return assemble(
            self.relation,
            self.strategy,
            shown,
            inputs,
            triggers,
            self._columns,
            [made.state() for made in self.layout.levels],
            rebuild=isinstance(self.layout, KeyLayout),
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
                    first = made.first_of(word.part)
                    read = (word.value, *word.guards, word.part.key, *word.part.where, *first)
                    used |= {name for each in read if each is not None for name in columns_of(each)}
        for column in scan.schema:
            if column.name in used:
                if isinstance(column.type, Nested | Null):
                    raise NotTaken(f"a column of type {column.type}", scan.span)
                value = self.source.name(column.name)
                null = self.source.name(f"{value}_null") if column.nullable else None
                yield Argument(column.name, value, null)

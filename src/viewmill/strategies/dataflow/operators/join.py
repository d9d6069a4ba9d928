"""Inner and cross joins of any number of inputs, without intermediate results.

takes  `JoinGraph`, what stands above it
gives  a program: for each input and key by which others look it up, the rows under that key

A change of one input visits the others one after another, each through a list of the rows that have
the key at hand. What is kept is as large as the inputs, whatever the join.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from viewmill.algebra.conditions import filtered
from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import Named, Relation
from viewmill.algebra.schema import Field, free_names
from viewmill.algebra.walk import substitute
from viewmill.codegen.join_graph import JoinGraph, is_column, join_graph
from viewmill.codegen.linear import (
    Top,
    columns_as,
    counted,
    fields_of,
    not_null,
    projected,
    refuse_failing,
    used_columns,
)
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.sinks import Sink
from viewmill.codegen.words import key_words, read_words
from viewmill.codegen.writer import Writer, skip_unless
from viewmill.program.program import Program
from viewmill.program.states import Listed, Slot


def emit_join(
    query: Relation, top: Top, bottom: Relation, strategy: str, *, passing: bool, careful: bool
) -> Program:
    """The program of a join, or `NotTaken`."""
    graph = join_graph(bottom, top.where, careful=careful)
    outputs = tuple((name, substitute(each, graph.columns)) for name, each in top.outputs)
    refuse_failing((each for _, each in outputs), overflow=careful)
    return _Join(Writer(query, strategy), graph, outputs, passing=passing).program()


@dataclass(frozen=True)
class Path:
    """A way to the rows of an input: by the classes of equals whose values are known."""

    alias: str
    classes: tuple[int, ...]


class _Join:
    def __init__(
        self, writer: Writer, graph: JoinGraph, outputs: tuple[Named, ...], *, passing: bool
    ) -> None:
        self.writer, self.graph = writer, graph
        writer.know(graph.scans.values())
        self.outputs = outputs
        self.paths: dict[Path, str] = {}
        self.kinds: dict[Path, Listed] = {}
        self.orders = {alias: self._order(alias) for alias in graph.scans}
        for path in list(self.paths):
            self._declare(path)
        self.sink = Sink(writer, Top((), outputs), passing=passing)

    # Which inputs are visited in which order, through which paths.

    def _order(self, start: str) -> list[Path]:
        bound, order = {start}, []
        while len(bound) < len(self.graph.scans):
            left = [alias for alias in self.graph.scans if alias not in bound]
            path = max((self._path(alias, bound) for alias in left), key=self._worth)
            self.paths.setdefault(path, "")
            order.append(path)
            bound.add(path.alias)
        return order

    def _path(self, alias: str, bound: set[str]) -> Path:
        known = [
            i for i in self.graph.classes_of(alias)
            if bound & set(self.graph.classes[i].members)
        ]  # fmt: skip
        return Path(alias, tuple(known))

    def _worth(self, path: Path) -> tuple[bool, bool, bool, int]:
        """Connected before not, filtered before whole, kept before new, more columns before fewer.

        An input of which only some rows are kept is likely to have none for the key at hand, and
        then no other is visited.
        """
        is_filtered = bool(self.graph.where[path.alias])
        return bool(path.classes), is_filtered, path in self.paths, len(path.classes)

    # States.

    def _declare(self, path: Path) -> None:
        scan = self.graph.scans[path.alias]
        members = [self.graph.classes[i].members[path.alias] for i in path.classes]
        computed = [f"{path.alias}.key{n}" for n in range(len(members))]
        names = zip(free_names(computed, scan.schema.names), members, strict=True)
        first = tuple(
            Field(_name(each) if is_column(each) else name, each.type, False)
            for name, each in names
        )
        known = {_name(each) for each in members if is_column(each)}
        needed = self._needed(path.alias) - known
        rest = tuple(each for each in scan.schema if each.name in needed)
        kind = Listed(first, rest, (Slot("count", "int"),), journal=True)
        by = "_".join(each.name.split(".")[-1] for each in first) or "all"
        self.kinds[path] = kind
        self.paths[path] = self.writer.state(
            f"{path.alias}_by_{by}", kind, self._definition(path.alias, members, kind)
        )

    def _needed(self, alias: str) -> set[str]:
        """The columns of an input that are read after it was looked up."""
        members = [each.members[alias] for each in self.graph.classes if alias in each.members]
        read = [*(each for _, each in self.outputs), *self.graph.residual, *members]
        return used_columns(read) & set(self.graph.scans[alias].schema.names)

    def _definition(self, alias: str, members: Sequence[Expression], kind: Listed) -> Relation:
        every = [each.members[alias] for each in self.graph.classes if alias in each.members]
        present = [not_null(each) for each in every if each.nullable]
        rows = filtered(self.graph.scans[alias], [*self.graph.where[alias], *present])
        first = tuple((f.name, each) for f, each in zip(kind.first, members, strict=True))
        rest = columns_as(kind.rest)
        return counted(projected(rows, (*first, *rest)), (*fields_of(first), *kind.rest))

    # Triggers.

    def program(self) -> Program:
        """The program."""
        for alias in self.graph.scans:
            self._trigger(alias)
        self.sink.finish()
        return self.writer.program()

    def _trigger(self, alias: str) -> None:
        graph, scan = self.graph, self.graph.scans[alias]
        needed = [each for each in columns_as(scan.schema) if each[0] in self._needed(alias)]
        reads = [expression for _, expression in needed]
        with self.writer.trigger(scan, reads, graph.where[alias]) as scalar:
            bound = dict(scalar.columns)
            values: dict[int, Operand] = {}
            for i in graph.classes_of(alias):
                values[i] = self._class_value(scalar, graph.classes[i].members[alias])
            self._store(alias, bound, values)
            with ExitStack() as loops:
                self._visit(alias, bound, values, loops)

    def _class_value(self, scalar: Scalar, member: Expression) -> Operand:
        """The value of a class; NULL meets nothing."""
        operand = scalar.emit(member)
        if operand.null is not None:
            with scalar.source.block(f"if {operand.null}:"):
                scalar.source.line("continue")
        return Operand(operand.value)

    def _store(self, alias: str, bound: dict[str, Operand], values: dict[int, Operand]) -> None:
        source = self.writer.source
        for path, state in self.paths.items():
            if path.alias != alias:
                continue
            kind = self.kinds[path]
            first = key_words([values[i] for i in path.classes], kind.first)
            rest = key_words([bound[each.name] for each in kind.rest], kind.rest)
            source.line(f"e = list_touch({state}, {first}, {rest})")
            source.line(f"indexed_add({state}, e, 0, m)")
            source.line(f"list_settle({state}, {first}, e)")

    def _visit(
        self, alias: str, bound: dict[str, Operand], values: dict[int, Operand], loops: ExitStack
    ) -> None:
        """Loops over the other inputs, one inside the other, and the row they make together."""
        times, there = "m", {alias}
        residual = list(self.graph.residual)
        scalar = Scalar(self.writer.source, bound, "i")
        for path in self.orders[alias]:
            times = self._enter(path, bound, values, times, loops)
            there.add(path.alias)
            ready = [each for each in residual if self.graph.aliases_of(each) <= there]
            residual = [each for each in residual if each not in ready]
            skip_unless(scalar, ready)
        self.sink.take(scalar, times)

    def _enter(
        self,
        path: Path,
        bound: dict[str, Operand],
        values: dict[int, Operand],
        times: str,
        loops: ExitStack,
    ) -> str:
        """Begin the loop over the rows of an input; gives the name of the multiplicity inside."""
        source, state, kind = self.writer.source, self.paths[path], self.kinds[path]
        rows, j, entry = (source.name(each) for each in ("rows", "j", "row"))
        first = key_words([values[i] for i in path.classes], kind.first)
        source.line(f"{rows} = list_of({state}, {first})")
        loops.enter_context(source.block(f"for {j} in range(list_size({state}, {rows})):"))
        source.line(f"{entry} = list_at({state}, {rows}, {j})")
        product = source.name("times")
        source.line(f"{product} = {times} * int_at({state}, {entry}, 0)")
        bound |= read_words(source, kind.rest, lambda i: f"list_word({state}, {entry}, {i})")
        scalar = Scalar(source, bound, "i")
        for i in path.classes:
            member = self.graph.classes[i].members[path.alias]
            if is_column(member):
                bound[_name(member)] = values[i]
        for i in self.graph.classes_of(path.alias):
            if i not in values:
                member = self.graph.classes[i].members[path.alias]
                values[i] = Operand(scalar.emit(member).value)
        return product


def _name(expression: Expression) -> str:
    assert isinstance(expression, Column)
    return expression.name

"""Write the program of the general algorithm (RPAI, section 4.2, with its errors corrected).

takes  a relation
gives  `Program`: a row inside moves the aggregate of every outer entry that it is correlated with
       (`spread`), a new entry looks its aggregates up among the rows inside (`gather`), and
       `settle` judges the entries and moves what they add to the view

The paper adds a row once per combination of the other tables' values, which over-counts; here it is
added once. What is judged and what was shown are derived data, so `settle` may be called at any
time, and a rollback computes them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from viewmill.algebra.expressions import Expression
from viewmill.algebra.relations import Relation, Scan
from viewmill.algebra.schema import Field
from viewmill.algebra.types import Boolean, Nested, Null
from viewmill.codegen.inputs import input_of
from viewmill.codegen.linear import used_columns
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.words import Argument, key_words
from viewmill.program.program import Input, Program, Trigger
from viewmill.strategies.aggregate_index.assemble import assemble, new_source
from viewmill.strategies.aggregate_index.general_query import read_general
from viewmill.strategies.aggregate_index.general_states import Entries, Inner
from viewmill.strategies.aggregate_index.general_values import Values
from viewmill.strategies.aggregate_index.shown import Shown

_MORE_RESERVED = ("entries", "x", "before", "change", "best", "seen")


def emit_general(relation: Relation, strategy: str) -> Program:
    """The program of a query, or `NotTaken`."""
    return _Writer(relation, strategy).program()


class _Writer:
    """Writes the functions of a program one after another."""

    def __init__(self, relation: Relation, strategy: str) -> None:
        self.relation, self.strategy = relation, strategy
        self.source = new_source(_MORE_RESERVED)
        self.query = read_general(relation)
        self.entries = Entries(self.query, self.source)
        self.inner = self.entries.inner
        names = ["entries", *(each.name for each in self.inner), "result"]
        self.states = ", ".join(names)
        self.shown = Shown(
            self.source, self.query.head, self.entries.payload, relation.schema, self.states
        )
        self.values = Values(self.entries, self.source)
        self._columns: dict[str, list[str]] = {}  # by input: the arguments of its trigger

    def program(self) -> Program:
        """The program."""
        inputs = self._inputs()
        triggers = tuple(self._trigger(each) for each in inputs)
        self.values.write()
        self._settle()
        self._rebuild()
        return assemble(
            self.relation,
            self.strategy,
            self.shown,
            inputs,
            triggers,
            self._columns,
            [self.entries.state(), *(each.state() for each in self.inner)],
            rebuild=True,
        )

    # Triggers: one for each table, however often the query reads it.

    def _scans(self) -> list[Scan]:
        return [self.query.scan, *(each.value.scan for each in self.inner)]

    def _inputs(self) -> list[Input]:
        inputs: dict[str, Input] = {}
        for scan in self._scans():
            made = inputs.setdefault(scan.source, replace(input_of(scan), name=scan.source))
            self.source.know(scan, made)
        return list(inputs.values())

    def _trigger(self, input_: Input) -> Trigger:
        source = self.source
        arguments = list(self._arguments(input_))
        texts = [text for each in arguments for text in (each.value, each.null) if text]
        self._columns[input_.name] = texts
        function = source.name(f"on_{input_.name}")
        names = ["start", "size", "multiplicity", *texts, self.states, "texts", "errors"]
        with source.block(f"def {function}({', '.join(names)}):"):
            self.values.write_forget(input_.source)
            with source.block("for i in range(start, size):"):
                with source.block("if failed(errors):"):
                    source.line("return i")
                source.line("m = multiplicity[i]")
                for each in self.inner:
                    if each.value.scan.source == input_.source:
                        self._change_inner(each, self._scalar(each.value.scan, arguments))
                if self.query.scan.source == input_.source:
                    self._change_entry(self._scalar(self.query.scan, arguments))
            source.line("return size")
        source.line()
        return Trigger(input_.name, function, tuple(each.column for each in arguments))

    def _arguments(self, input_: Input) -> Iterator[Argument]:
        used: set[str] = set()
        for scan, expressions in self._read():
            if scan.source == input_.source:
                names = used_columns(expressions) if expressions else set()
                pairs = zip(scan.schema.names, input_of(scan).schema.names, strict=True)
                used |= {own for name, own in pairs if name in names}
        for column in input_.schema:
            if column.name in used:
                if isinstance(column.type, Nested | Null):
                    raise NotTaken(f"a column of type {column.type}", self.query.scan.span)
                value = self.source.name(column.name)
                null = self.source.name(f"{value}_null") if column.nullable else None
                yield Argument(column.name, value, null)

    def _read(self) -> Iterator[tuple[Scan, list[Expression]]]:
        """Each scan with the expressions over its rows."""
        kept = [e for a in self.entries.payload.arguments for e in (a.value, a.where)]
        own = [*self.query.where, *self.entries.keys.named, *(e for e in kept if e is not None)]
        yield self.query.scan, own
        for each in self.inner:
            value = each.value
            given = [] if value.argument is None else [value.argument]
            yield value.scan, [*value.where, *each.keys.named, *given]

    def _scalar(self, scan: Scan, arguments: Sequence[Argument]) -> Scalar:
        by_own = {each.column: each for each in arguments}
        bound: dict[str, Operand] = {}
        for field, own in zip(scan.schema, input_of(scan).schema.names, strict=True):
            if own in by_own:
                bound[field.name] = _row_of(by_own[own], field)
        return Scalar(self.source, bound, "i")

    def _change_inner(self, inner: Inner, scalar: Scalar) -> None:
        def write() -> None:
            argument = inner.value.argument
            operand = Operand("0") if argument is None else scalar.emit(argument)
            if operand.null is None:
                self.values.change(inner, scalar, operand)
                return
            with self.source.block(f"if not {operand.null}:"):
                self.values.change(inner, scalar, operand)

        self._where(scalar, list(inner.value.where), write)

    def _change_entry(self, scalar: Scalar) -> None:
        source, entries = self.source, self.entries
        kind = entries.kind

        def write() -> None:
            operands = [scalar.emit(each) for each in entries.keys.named] or [Operand("0")]
            source.line(f"e = indexed_touch(entries, {key_words(operands, kind.key)})")
            source.line(f"indexed_add(entries, e, {kind.word('rows')}, m)")
            for each in entries.payload.arguments:
                if each.where is None:
                    add(each)
                else:
                    with source.block(f"if {scalar.is_true(each.where)}:"):
                        add(each)

        def add(each: object) -> None:
            self.values.add_kept(each, scalar)  # type: ignore[arg-type]

        self._where(scalar, list(self.query.where), write)

    def _where(self, scalar: Scalar, conditions: list[Expression], write: object) -> None:
        if not conditions:
            write()  # type: ignore[operator]
            return
        with self.source.block(f"if {scalar.is_true(conditions[0])}:"):
            self._where(scalar, conditions[1:], write)

    # The end of a batch.

    def _settle(self) -> None:
        """Write what judges every entry and moves what it adds to the view."""
        source, entries, kind = self.source, self.entries, self.entries.kind
        result = self.shown.result
        with source.block(f"def settle({self.states}, texts, errors):"):
            self.values.write_strained()
            bound: dict[str, Operand] = {}
            for each in self.inner:
                if each.is_fixed:
                    bound[each.value.name] = self.values.read_fixed(each)
            if not self.query.head.keys:
                word = result.word("present")
                source.line("r = indexed_touch(result, (0,))")
                source.line(f"indexed_add(result, r, {word}, 1 - int_at(result, r, {word}))")
            with source.block("for t in range(indexed_count(entries)):"):
                source.line("e = indexed_at(entries, t)")
                known = kind.word("known")
                with source.block(f"if int_at(entries, e, {known}) == 0:"):
                    for each in entries.correlated:
                        source.line(self.values.call_gather(each))
                    source.line(f"indexed_add(entries, e, {known}, 1)")
                self._judge(bound)
                self._move(bound)
            source.line("return 0")
        source.line()

    def _judge(self, bound: dict[str, Operand]) -> None:
        source, rows = self.source, self.entries.kind.word("rows")
        source.line("qualifies = False")
        with source.block(f"if int_at(entries, e, {rows}) != 0:"):
            inside = dict(bound)
            inside |= self.values.read_key(used_columns(self.entries.conditions))
            scalar = Scalar(source, inside, "-1")
            for each in self.entries.correlated:
                inside[each.value.name] = self.values.finish(each, scalar)
            self._judge_all(scalar, list(self.entries.conditions))

    def _judge_all(self, scalar: Scalar, conditions: list[Expression]) -> None:
        if not conditions:
            self.source.line("qualifies = True")
            return
        with self.source.block(f"if {scalar.is_true(conditions[0])}:"):
            self._judge_all(scalar, conditions[1:])

    def _move(self, bound: dict[str, Operand]) -> None:
        """Write what adds to the view how the entry differs from what was shown of it."""
        source, kind, result = self.source, self.entries.kind, self.shown.result
        changes, tests = [], []
        for kept in self.entries.kept:
            slot = kept.slot
            now, old = kind.word(slot.name), kind.word(f"{slot.name}_shown")
            change = source.name(f"{slot.name}_change")
            if slot.kind == "wide":
                negative = f"wide_times(wide_at(entries, e, {old}), -1)"
                times = f"wide_times(wide_at(entries, e, {now}), int(qualifies))"
                source.line(f"{change} = wide_plus({times}, {negative})")
                tests.append(f"not wide_is_zero({change})")
            else:
                times = f"int_at(entries, e, {now}) * int(qualifies)"
                source.line(f"{change} = {times} - int_at(entries, e, {old})")
                tests.append(f"{change} != 0")
            changes.append((slot, old, change))
        with source.block(f"if {' or '.join(tests)}:"):
            groups = [each for _, each in self.entries.groups]
            inside = bound | self.values.read_key(used_columns(groups) if groups else set())
            scalar = Scalar(source, inside, "-1")
            operands = [scalar.emit(each) for each in groups] or [Operand("0")]
            source.line(f"r = indexed_touch(result, {key_words(operands, result.key)})")
            for slot, old, change in changes:
                add = "indexed_add_wide" if slot.kind == "wide" else "indexed_add"
                source.line(f"{add}(result, r, {result.word(slot.name)}, {change})")
                source.line(f"{add}(entries, e, {old}, {change})")

    def _rebuild(self) -> None:
        """Write what forgets all notes; the next `settle` writes them."""
        source, kind, result = self.source, self.entries.kind, self.shown.result
        forgotten = [
            slot for slot in kind.payload if slot.name == "known" or slot.name.endswith("_shown")
        ]
        with source.block(f"def rebuild({self.states}, texts, errors):"):
            with source.block("for t in range(indexed_count(entries)):"):
                source.line("e = indexed_at(entries, t)")
                for slot in forgotten:
                    self._clear("entries", kind.word(slot.name), slot.kind)
            with source.block("for t in range(indexed_count(result)):"):
                words = ", ".join(f"indexed_word(result, e, {i})" for i in range(result.key_words))
                source.line("e = indexed_at(result, t)")
                source.line(f"e = indexed_touch(result, ({words},))")
                for slot in result.payload:
                    self._clear("result", result.word(slot.name), slot.kind)
            source.line("return 0")
        source.line()

    def _clear(self, state: str, word: int, kind: str) -> None:
        if kind == "wide":
            old = f"wide_times(wide_at({state}, e, {word}), -1)"
            self.source.line(f"indexed_add_wide({state}, e, {word}, {old})")
        else:
            self.source.line(f"indexed_add({state}, e, {word}, -int_at({state}, e, {word}))")


def _row_of(argument: Argument, field: Field) -> Operand:
    value = f"{argument.value}[i]"
    if isinstance(field.type, Boolean):
        value = f"({value} != 0)"
    return Operand(value, None if argument.null is None else f"({argument.null}[i] != 0)")

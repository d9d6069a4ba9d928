"""Write the program: ordered states, a trigger for each table, one look at them at the end.

takes  a relation
gives  `Program`: triggers only change levels; `settle` selects levels and keeps the view's row in
       `result`; flush shows how that changed

One input for each table, however often the query reads it: what a row does to all its roles is done
at once, and nothing is judged before the end of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from viewmill.algebra.display import display, display_expression
from viewmill.algebra.expressions import Column, Expression, walk
from viewmill.algebra.relations import Relation, Scan
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, Nested, Null
from viewmill.algebra.walk import columns_of, walk_relations
from viewmill.program.program import Input, Program, Trigger, Triggers
from viewmill.program.states import Indexed, Slot, State
from viewmill.strategies.aggregate_index.bounds import holds, write_bound, write_bounds
from viewmill.strategies.aggregate_index.classify import Classified, Side, Test, classify
from viewmill.strategies.aggregate_index.levels import Levels, Part, Word
from viewmill.strategies.aggregate_index.products import Term, products
from viewmill.strategies.aggregate_index.query import Value, own_names, read_query
from viewmill.strategies.dataflow.aggregates import Argument as Kept
from viewmill.strategies.dataflow.aggregates import Payload
from viewmill.strategies.dataflow.scalar import Operand, Scalar
from viewmill.strategies.dataflow.shape import NotTaken
from viewmill.strategies.dataflow.source import Source
from viewmill.strategies.dataflow.words import Argument, bind_argument, emit_row

# Which side of a level its aggregate is over, by how inner rows compare with outer ones.
_SIDES = {"<=": 0, "<": 1, ">=": 2, ">": 3}
_RESERVED = (
    "start", "size", "multiplicity", "texts", "errors", "m", "i", "e", "t", "out", "result", "rows",
    "settle", "present",
)  # fmt: skip


def emit_program(relation: Relation, strategy: str) -> Program:
    """The program of a query, or `NotTaken`."""
    classified = classify(read_query(relation))
    return _Emitter(relation, classified, strategy).program()


@dataclass(frozen=True)
class Sums:
    """What an aggregated expression keeps for each outer table: rows that count, factors."""

    terms: tuple[Term, ...]
    counts: dict[str, Word]
    factors: dict[tuple[str, Expression], Word]


class _Emitter:
    """Collects states, then writes."""

    def __init__(self, relation: Relation, classified: Classified, strategy: str) -> None:
        self.relation, self.classified, self.strategy = relation, classified, strategy
        self.query = classified.query
        if self.query.keys:
            raise NotTaken("GROUP BY outside nested aggregates: not yet", self.query.keys[0][1].span)
        self.source = Source()
        for word in _RESERVED:
            self.source.name(word)
        self.payload = Payload(self.query.aggregates)
        self.levels: list[Levels] = []
        self.by_alias = {side.alias: self._side(side) for side in classified.sides}
        self.sums = {each.count: self._sums(each) for each in self._kept()}
        self.fixed = {value.name: self._fixed(value) for value in classified.fixed}
        slots = (*(kept.slot for kept in self.payload.kept), Slot("present", "int"))
        self.kind = Indexed((Field("one", BIGINT, nullable=False),), slots, journal=True)

    # States.

    def _kept(self) -> list[Kept]:
        counted = any(not call.arguments and call.where is None or call.function == "count"
                      for _, call in self.query.aggregates)  # fmt: skip
        rows = [Kept(None, None, False, "rows")] if counted else []
        return rows + self.payload.arguments

    def _side(self, side: Side) -> Levels:
        made = Levels(self.source.name(side.scan.source))
        self.levels.append(made)
        if side.plan != "order":
            return made
        assert side.test is not None
        assert side.test.value is not None
        value = side.test.value
        (correlation,) = value.correlations
        part = Part(value.scan, value.scan.source, value.where, correlation.inner)
        argument = value.call.arguments[0] if value.call.arguments else None
        made.add(part, None, *_given(argument), name="inner_count")
        if value.call.function == "sum":
            made.watched = made.add(part, argument, name="inner_sum")
        return made

    def _outer_part(self, side: Side) -> Part:
        key: Expression | None = None
        if side.plan == "column":
            assert side.test is not None
            key = side.test.core
        elif side.test is not None and side.test.value is not None:
            key = side.test.value.correlations[0].outer
        return Part(side.scan, side.scan.source, side.where, key)

    def _sums(self, kept: Kept) -> Sums:
        if kept.where is not None:
            raise NotTaken("FILTER in an aggregate over nested aggregates", kept.where.span)
        terms = () if kept.value is None else self._terms(kept.value)
        counts: dict[str, Word] = {}
        factors: dict[tuple[str, Expression], Word] = {}
        for side in self.classified.sides:
            made, part = self.by_alias[side.alias], self._outer_part(side)
            own = [f for term in terms if (f := term.factor(side.alias)) is not None]
            counts[side.alias] = made.add(part, None, *own, name="rows", result=True)
            if kept.summed:
                for factor in own:
                    factors[side.alias, factor] = made.add(
                        part, factor, *own, name="sum", result=True
                    )
        return Sums(terms, counts, factors)

    def _terms(self, value: Expression) -> tuple[Term, ...]:
        if len(self.query.scans) == 1:
            return (Term(1, ((next(iter(self.query.scans)), own_names(value)),)),)
        return products(value)

    def _fixed(self, value: Value) -> tuple[Levels, Word, Word | None]:
        """Where the count and the sum of an uncorrelated aggregate are kept."""
        call = value.call
        if call.function not in ("sum", "count", "avg") or call.distinct or call.where is not None:
            raise NotTaken(f"{call.function} in a subquery is not kept yet", call.span or value.span)
        argument = call.arguments[0] if call.arguments else None
        for made in self.levels:
            found = made.find(value.scan.source, value.where, argument)
            if found is not None:
                return made, *found
        made = Levels(self.source.name(f"{value.scan.source}_total"))
        self.levels.append(made)
        part = Part(value.scan, value.scan.source, value.where, None)
        count = made.add(part, None, *_given(argument), name="count")
        total = None if argument is None else made.add(part, argument, name="sum")
        return made, count, total

    # The program.

    def program(self) -> Program:
        """The program."""
        inputs = self._inputs()
        triggers = tuple(self._trigger(each) for each in inputs)
        self._settle()
        self._show()
        self._flush()
        self._contents()
        replays = () if self.query.having else tuple(map(self._replay, triggers))
        states = tuple(made.state() for made in self.levels)
        result = State("result", self.kind, self.relation, derived=True)
        said = [*_sql_of(self.relation).splitlines(), "", *display(self.relation).splitlines()]
        head = [f"# {line}".rstrip() for line in said] + [""]
        return Program(
            strategy=self.strategy,
            query=self.relation,
            inputs=tuple(inputs),
            output=self.relation.schema,
            states=(*states, result),
            body=Triggers(
                source="\n".join(head) + "\n" + str(self.source),
                triggers=triggers,
                texts=tuple(self.source.texts),
                messages=tuple(self.source.messages),
                replays=replays,
            ),
        )

    def _inputs(self) -> list[Input]:
        inputs: dict[str, Input] = {}
        for scan in (part.scan for made in self.levels for part in made.parts):
            fields = tuple(replace(f, name=f.name.split(".", 1)[-1]) for f in scan.schema)
            inputs.setdefault(scan.source, Input(scan.source, scan.source, Schema(fields)))
        return list(inputs.values())

    @property
    def _states(self) -> str:
        return ", ".join([*(made.name for made in self.levels), "result"])

    def _trigger(self, input_: Input) -> Trigger:
        source = self.source
        scan = Scan(input_.source, input_.name, input_.schema)
        arguments = list(self._arguments(scan))
        bound = {each.column: bind_argument(each, scan) for each in arguments}
        texts = [text for each in arguments for text in (each.value, each.null) if text]
        function = source.name(f"on_{input_.name}")
        trigger = Trigger(input_.name, function, tuple(each.column for each in arguments))
        self._signatures = getattr(self, "_signatures", {}) | {function: texts}
        names = ["start", "size", "multiplicity", *texts, self._states, "texts", "errors"]
        with source.block(f"def {function}({', '.join(names)}):"):
            with source.block("for i in range(start, size):"):
                with source.block("if failed(errors):"):
                    source.line("return i")
                source.line("m = multiplicity[i]")
                for made in self.levels:
                    made.write(Scalar(source, bound, "i"), input_.source)
            source.line("return size")
        source.line()
        return trigger

    def _arguments(self, scan: Scan) -> Iterator[Argument]:
        used: set[str] = set()
        for made in self.levels:
            for word in made.words:
                if word.part.source == scan.source:
                    read = (word.value, *word.guards, word.part.key, *word.part.where)
                    used |= {name for each in read if each is not None for name in columns_of(each)}
        for column in scan.schema:
            if column.name in used:
                if isinstance(column.type, Nested | Null):
                    raise NotTaken(f"a column of type {column.type}", scan.span)
                value = self.source.name(column.name)
                null = self.source.name(f"{value}_null") if column.nullable else None
                yield Argument(column.name, value, null)

    # The answer.

    def _settle(self) -> None:
        source = self.source
        with source.block(f"def settle({self._states}, texts, errors):"):
            bound = {name: self._fixed_operand(*each) for name, each in self._fixed_values()}
            scalar = Scalar(source, bound, "-1")
            for made in self.levels:
                why = source.message("Overflow", f"the sums of {made.name} leave 64 bits", None)
                with source.block(f"if ordered_strained({made.name}):"):
                    source.line(f"fail(errors, {why}, -1)")
            for side in self.classified.sides:
                self._pick(side, scalar)
            source.line("e = indexed_touch(result, (0,))")
            word = self.kind.word("present")
            source.line(f"indexed_add(result, e, {word}, 1 - int_at(result, e, {word}))")
            for kept in self._kept():
                self._set(kept)
            source.line("return 0")
        source.line()

    def _fixed_values(self) -> list[tuple[str, tuple[Value, Levels, Word, Word | None]]]:
        return [(v.name, (v, *self.fixed[v.name])) for v in self.classified.fixed]

    def _fixed_operand(self, value: Value, made: Levels, count: Word, total: Word | None) -> Operand:
        source, call = self.source, value.call
        counted = source.name("count")
        source.line(f"{counted} = ordered_total({made.name}, {made.number(count)})")
        if call.function == "count":
            return Operand(counted)
        assert total is not None
        if call.function == "avg":
            raise NotTaken("AVG in a subquery is not kept yet", call.span or value.span)
        summed = source.name("total")
        source.line(f"{summed} = ordered_total({made.name}, {made.number(total)})")
        return Operand(summed, f"({counted} == 0)")

    def _pick(self, side: Side, scalar: Scalar) -> None:
        source, made, test = self.source, self.by_alias[side.alias], side.test
        if test is None:
            source.line(f"ordered_pick_all({made.name})")
            return
        source.line(f"# {_said(test)}")
        bound = write_bound(scalar, test)
        if bound.null is None:
            self._pick_levels(made, test, bound.value)
            return
        with source.block(f"if {bound.null}:"):
            source.line(f"ordered_pick_none({made.name})")
        with source.block("else:"):
            self._pick_levels(made, test, bound.value)

    def _pick_levels(self, made: Levels, test: Test, bound: str) -> None:
        arguments = ", ".join(write_bounds(self.source, test, bound))
        if test.value is None:
            self.source.line(f"ordered_pick_keys({made.name}, {arguments})")
            return
        side = _SIDES[test.value.correlations[0].operator]
        count = next(n for n, word in enumerate(made.words) if word == _first_word(made))
        summed, counted, empty = str(count), "-1", holds(test, 0, bound)
        if made.watched is not None:
            summed, counted = str(made.number(made.watched)), str(count)
            empty = "False" if test.default is None else holds(test, test.default, bound)
        self.source.line(
            f"ordered_pick({made.name}, {side}, {summed}, {counted}, {arguments}, {empty})"
        )

    def _set(self, kept: Kept) -> None:
        source, sums = self.source, self.sums[kept.count]
        count = " * ".join(self._picked(alias, word) for alias, word in sums.counts.items())
        word = self.kind.word(kept.count)
        source.line(f"indexed_add(result, e, {word}, {count} - int_at(result, e, {word}))")
        if not kept.summed:
            return
        total = source.name("total")
        texts = [self._product(sums, term) for term in sums.terms]
        source.line(f"{total} = {texts[0]}")
        for text in texts[1:]:
            source.line(f"{total} = wide_plus({total}, {text})")
        word = self.kind.word(kept.total)
        old = f"wide_times(wide_at(result, e, {word}), -1)"
        source.line(f"indexed_add_wide(result, e, {word}, wide_plus({total}, {old}))")

    def _product(self, sums: Sums, term: Term) -> str:
        picked = []
        for alias, count in sums.counts.items():
            factor = term.factor(alias)
            word = count if factor is None else sums.factors[alias, factor]
            picked.append(self._picked(alias, word))
        first, *others = picked
        text = f"wide_product({first}, {others[0]})" if others else f"wide_of({first})"
        for other in others[1:]:
            text = f"wide_times({text}, {other})"
        return text if term.coefficient == 1 else f"wide_times({text}, {term.coefficient})"

    def _picked(self, alias: str, word: Word) -> str:
        made = self.by_alias[alias]
        return f"ordered_picked({made.name}, {made.number(word)})"

    # Showing it.

    def _show(self) -> None:
        source = self.source
        words = {slot.name: self.kind.word(slot.name) for slot in self.kind.payload}
        with source.block("def show(result, e, t, times, out, texts, errors):"):
            with source.block(f"if int_at(result, e, {words['present']}) == 0:"):
                source.line("return 0")
            bound: dict[str, Operand] = {}
            scalar = Scalar(source, bound, "t")
            shown = (*self.query.having, *(each for _, each in self.query.outputs))
            needed = {p.name for each in shown for p in walk(each) if isinstance(p, Column)}
            for name, call in self.query.aggregates:
                if name in needed:
                    bound[name] = self.payload.finish(name, call, scalar, words, "result")
            for condition in self.query.having:
                with source.block(f"if not {scalar.is_true(condition)}:"):
                    source.line("return 0")
            operands = [scalar.emit(each) for _, each in self.query.outputs]
            emit_row(source, operands, self.relation.schema.fields, "times")
            source.line("return 1")
        source.line()

    @contextmanager
    def _emitting(self, name: str) -> Iterator[None]:
        with self.source.block(f"def {name}(start, {self._states}, out, texts, errors):"):
            yield
            self.source.line("return -1")
        self.source.line()

    def _flush(self) -> None:
        source = self.source
        with self._emitting("flush"):
            with source.block("if start == 0:"):
                source.line(f"settle({self._states}, texts, errors)")
            with source.block("for t in range(start, indexed_touched(result)):"):
                with source.block("if emit_full(out):"):
                    source.line("return t")
                before, now = "indexed_before(result, t)", "indexed_now(result, t)"
                source.line(f"shown = show(result, {before}, t, -1, out, texts, errors)")
                source.line(f"shown += show(result, {now}, t, 1, out, texts, errors)")
                with source.block("if shown == 2:"):
                    source.line("emit_cancel(out)")

    def _contents(self) -> None:
        source = self.source
        with (
            self._emitting("contents"),
            source.block("for t in range(start, indexed_count(result)):"),
        ):
            with source.block("if emit_full(out):"):
                source.line("return t")
            source.line("e = indexed_at(result, t)")
            with source.block("if e != 0:"):
                source.line("show(result, e, t, 1, out, texts, errors)")

    def _replay(self, trigger: Trigger) -> Trigger:
        """Write what shows the view after every row."""
        source, texts = self.source, self._signatures[trigger.function]
        function = source.name(f"replay_{trigger.input}")
        rows = ["multiplicity", *texts, self._states]
        names = ["start", "size", *rows, "out", "texts", "errors"]
        with source.block(f"def {function}({', '.join(names)}):"):
            with source.block("for i in range(start, size):"):
                with source.block("if emit_full(out):"):
                    source.line("return i")
                source.line(f"{trigger.function}(i, i + 1, {', '.join(rows)}, texts, errors)")
                source.line(f"settle({self._states}, texts, errors)")
                with source.block("if failed(errors):"):
                    source.line("return i")
                source.line("show(result, indexed_find(result, (0,)), i, 1, out, texts, errors)")
            source.line("return size")
        source.line()
        return Trigger(trigger.input, function, trigger.columns)


def _first_word(made: Levels) -> Word:
    """The word that counts the rows under a nested aggregate: it was kept first."""
    return next(iter(made._words))


def _given(argument: Expression | None) -> Sequence[Expression]:
    return () if argument is None else (argument,)


def _said(test: Test) -> str:
    core = display_expression(test.core)
    if test.value is not None:
        each = test.value.correlations[0]
        over = f"{display_expression(each.inner)} {each.operator} {display_expression(each.outer)}"
        core = f"{display_expression(test.value.call)} over {over}"
    return f"{core} {test.operator} {display_expression(test.bound)}"


def _sql_of(query: Relation) -> str:
    spans = (getattr(each, "span", None) for each in walk_relations(query))
    return next((span.sql for span in spans if span is not None), "")

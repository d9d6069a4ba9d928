"""Write the program of a shape: one keyed state, a trigger, flush and contents.

takes  `Shape`
gives  `Program` whose source reads like the query
next   kernels.build
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from viewmill.algebra.conditions import filtered
from viewmill.algebra.expressions import Column, Expression, Literal, walk
from viewmill.algebra.relations import Aggregate, Named, Project, Relation, Scan
from viewmill.algebra.schema import Field, free_names
from viewmill.algebra.types import BIGINT, Nested, has_equal_words
from viewmill.algebra.walk import columns_of
from viewmill.codegen.aggregates import Payload, zero_if_null
from viewmill.codegen.group_values import GroupValues
from viewmill.codegen.inputs import input_of
from viewmill.codegen.linear import counted, refuse_subqueries, top_of
from viewmill.codegen.percentiles import RANKED, RankedValues
from viewmill.codegen.pushed_filter import pushed_filter_of
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken, Shape, shape_of
from viewmill.codegen.source import Source
from viewmill.codegen.words import (
    MOST_KEYS,
    Argument,
    bind_argument,
    emit_row,
    key_words,
    read_words,
)
from viewmill.program.program import Program, Trigger, Triggers
from viewmill.program.states import Keyed, Slot, State


def emit_program(query: Relation, strategy: str, *, passing: bool = False) -> Program:
    """The program of a query, or `NotTaken`; `passing` if its rows are only handed on."""
    shape = shape_of(query)
    refuse_subqueries(top_of(query)[0].expressions)
    if shape.keys is None:
        return _Bag(query, shape, strategy, passing=passing).program()
    return _Groups(query, shape, strategy).program()


class _Writer:
    """What both kinds of program share: the text, the state, the trigger's head."""

    state = "groups"
    needs_rebuild = False

    def __init__(self, query: Relation, shape: Shape, strategy: str) -> None:
        self.query, self.shape, self.strategy = query, shape, strategy
        self.source = Source()
        self.input = input_of(shape.scan)
        self.source.know(shape.scan, self.input)
        for name, key in shape.keys or ():
            if isinstance(key, Column):
                self.source.origins.setdefault(name, self.source.origins[key.name])

    @property
    def handles(self) -> list[str]:
        """The states as arguments."""
        return [self.state]

    def build(self, kind: Keyed, definition: Relation, trigger: Trigger) -> Program:
        """Put the pieces together."""
        return Program(
            strategy=self.strategy,
            query=self.query,
            inputs=(self.input,),
            output=self.query.schema,
            states=(State(self.state, kind, definition), *self.more_states()),
            body=Triggers(
                source=self.source.under(self.query),
                triggers=(trigger,),
                rebuild=self.needs_rebuild,
                texts=tuple(self.source.texts),
                lookups=tuple(self.source.lookups),
                messages=tuple(self.source.messages),
                result=self.state,
            ),
        )

    def more_states(self) -> Sequence[State]:
        """The states besides the main one."""
        return ()

    @contextmanager
    def trigger(self, expressions: Sequence[Expression]) -> Iterator[tuple[Scalar, Trigger]]:
        """Open a trigger: head, loop, filter. Inside, `i` is the row and `m` its multiplicity."""
        source, scan = self.source, self.shape.scan
        used = set().union(*(columns_of(each) for each in (*expressions, *self.shape.where)))
        arguments = list(self._arguments(scan, used))
        bound = {each.column: bind_argument(each, scan) for each in arguments}
        texts = [text for each in arguments for text in (each.value, each.null) if text]
        names = ["start", "size", "multiplicity", *texts, *self.handles, "texts", "errors"]
        function = source.name(f"on_{self.input.name}")
        own = dict(zip(scan.schema.names, self.input.schema.names, strict=True))
        columns = tuple(own[each.column] for each in arguments)
        pushed = pushed_filter_of(self.shape.where, own)
        trigger = Trigger(self.input.name, function, columns, pushed_filter=pushed)
        with source.block(f"def {function}({', '.join(names)}):"):
            with source.block("for i in range(start, size):"):
                with source.block(f"if keyed_full({self.state}) or failed(errors):"):
                    source.line("return i")
                source.line("m = multiplicity[i]")
                scalar = Scalar(source, bound, "i")
                for condition in self.shape.where:
                    with source.block(f"if not {scalar.is_true(condition)}:"):
                        source.line("continue")
                yield scalar, trigger
            source.line("return size")
        source.line()

    def _arguments(self, scan: Scan, used: set[str]) -> Iterator[Argument]:
        for word in ("start", "size", "multiplicity", "texts", "errors", "m", "i", "e", "t", "out"):
            self.source.name(word)
        self.source.name(self.state)
        own = dict(zip(scan.schema.names, self.input.schema.names, strict=True))
        for field in scan.schema:
            if field.name in used:
                if not (has_equal_words(field.type) or self._is_only_shown(field)):
                    raise NotTaken(f"a column of type {field.type}", scan.span)
                value = self.source.name(own[field.name])
                null = self.source.name(f"{value}_null") if field.nullable else None
                yield Argument(field.name, value, null)

    def _is_only_shown(self, field: Field) -> bool:
        """Whether a nested value is only passed on, as one word, and never computed with."""
        plain = [each for _, each in self.shape.outputs if isinstance(each, Column)]
        others = [each for _, each in self.shape.outputs if each not in plain]
        read = [*self.shape.where, *self.shape.having, *others]
        inside = any(field.name in columns_of(each) for each in read)
        return type(field.type) is Nested and self.shape.keys is None and not inside

    def bind_key(self, fields: Sequence[Field]) -> dict[str, Operand]:
        """Write the lines that read the key of entry e."""
        return read_words(self.source, fields, lambda i: f"key_word({self.state}, e, {i})")

    def emit_row(self, operands: Sequence[Operand], fields: Sequence[Field], times: str) -> None:
        """Write the lines that emit one row."""
        emit_row(self.source, operands, fields, times)

    @contextmanager
    def function(self, name: str, index: str, count: str) -> Iterator[None]:
        """The head and the loop of flush and contents."""
        arguments = f"start, {', '.join(self.handles)}, out, texts, errors"
        with self.source.block(f"def {name}({arguments}):"):
            self.before_loop(name)
            with self.source.block(f"for {index} in range(start, {count}({self.state})):"):
                with self.source.block("if emit_full(out):"):
                    self.source.line(f"return {index}")
                yield
            self.source.line("return -1")
        self.source.line()

    def before_loop(self, name: str) -> None:
        """Write what is done before the first row is emitted."""

    def base(self) -> Relation:
        """The rows that reach the state."""
        return filtered(self.shape.scan, self.shape.where)


class _Groups(_Writer):
    """A group-by: a payload per key."""

    def __init__(self, query: Relation, shape: Shape, strategy: str) -> None:
        super().__init__(query, shape, strategy)
        assert shape.keys is not None
        self.payload = Payload(shape.aggregates, moments=True)
        self.is_global = not shape.keys
        self.keys: tuple[Named, ...] = shape.keys or (("one", Literal(0, BIGINT)),)
        if len(self.keys) > MOST_KEYS:
            raise NotTaken(f"more than {MOST_KEYS} grouping columns")
        fields = tuple(Field(name, each.type, each.nullable) for name, each in self.keys)
        slots = tuple(kept.slot for kept in self.payload.kept)
        # One row stays in a view without GROUP BY even when no row is left to count.
        present = (Slot("present", "int"),) if self.is_global else ()
        self.kind = Keyed(fields, slots + present)
        self.word = {slot.name: self.kind.word(slot.name) for slot in self.kind.payload}
        self.source.name(self.state)
        self.values = {
            each.count: GroupValues(each, self.kind, self.state, self.source)
            for each in self.payload.with_values
        }
        self.ranks = [
            RankedValues(each, self.kind, self.state, self.source)
            for each in self.payload.percentiles
        ]

    @property
    def _by_group(self) -> list[GroupValues | RankedValues]:
        return [*self.values.values(), *self.ranks]

    @property
    def handles(self) -> list[str]:
        """The states as arguments."""
        return [self.state, *(name for each in self._by_group for name in each.handles)]

    def more_states(self) -> Sequence[State]:
        """The values of what cannot be taken back."""
        rows = self.base()
        return [state for each in self._by_group for state in each.states(rows, self.keys)]

    def program(self) -> Program:
        """The program."""
        keys = [expression for _, expression in self.keys]
        with self.trigger([*keys, *self.payload.lifted]) as (scalar, trigger):
            operands = [scalar.emit(each) for each in keys]
            key = key_words(operands, self.kind.key)
            self.source.line(f"e = keyed_touch({self.state}, {key})")
            for each in self.values.values():
                each.key = key
            self.payload.lift(scalar, self.word, self.state, self.values, self.ranks)
        self._search()
        self.needs_rebuild = bool(self._searched)
        self._show()
        self._flush()
        self._contents()
        return self.build(self.kind, self._definition(), trigger)

    @property
    def _searched(self) -> list[GroupValues | RankedValues]:
        return [each for each in self._by_group if each.is_searched]

    def before_loop(self, name: str) -> None:
        """Extremes that went away are replaced before anything is shown, ranks are found."""
        if name != "flush" or not self._searched:
            return
        with self.source.block("if start == 0:"):
            states = ", ".join(self.handles)
            with self.source.block(f"for t in range(keyed_touched({self.state})):"):
                self.source.line(f"search({states}, keyed_now({self.state}, t), 0)")

    def _search(self) -> None:
        """Write what looks for extremes, where one went away or (`always`) for all; and rebuild."""
        if not self._searched:
            return
        source, states = self.source, ", ".join(self.handles)
        if self.ranks:
            for line in RANKED.strip("\n").splitlines():
                source.line(line)
            source.line()
        with source.block(f"def search({states}, e, always):"):
            for each in self._searched:
                with source.block(f"if always or {each.stale(self.word)}:"):
                    with source.block("if always:"):
                        each.write_fill()
                    each.write_search(self.word)
            source.line("return 0")
        source.line()
        with source.block(f"def rebuild({states}, texts, errors):"):
            with source.block(f"for t in range(keyed_capacity({self.state})):"):
                source.line(f"e = keyed_at({self.state}, t)")
                with source.block("if e != -1:"):
                    source.line(f"search({states}, e, 1)")
            source.line("return 0")
        source.line()

    def _flush(self) -> None:
        with self.function("flush", "t", "keyed_touched"):
            now, before = f"keyed_now({self.state}, t)", f"keyed_before({self.state}, t)"
            self.source.line(f"shown = show({self.state}, {before}, t, -1, out, texts, errors)")
            self.source.line(f"shown += show({self.state}, {now}, t, 1, out, texts, errors)")
            with self.source.block("if shown == 2:"):
                self.source.line("emit_cancel(out)")

    def _contents(self) -> None:
        with self.function("contents", "t", "keyed_capacity"):
            self.source.line(f"e = keyed_at({self.state}, t)")
            with self.source.block("if e != -1:"):
                self.source.line(f"show({self.state}, e, t, 1, out, texts, errors)")

    def _show(self) -> None:
        """Write the function that emits entry e if it is a row; it returns 1 if so, else 0."""
        arguments = f"{self.state}, e, t, times, out, texts, errors"
        with self.source.block(f"def show({arguments}):"):
            self._show_body()
            self.source.line("return 1")
        self.source.line()

    def _show_body(self) -> None:
        shown = "present" if self.is_global else "rows"
        with self.source.block(f"if int_at({self.state}, e, {self.word[shown]}) <= 0:"):
            self.source.line("return 0")
        bound = {} if self.is_global else self.bind_key(self.kind.key)
        scalar = Scalar(self.source, bound, "t")
        needed = self._needed()
        for name, call in self.shape.aggregates:
            if name in needed:
                bound[name] = self.payload.finish(name, call, scalar, self.word, self.state)
        for condition in self.shape.having:
            with self.source.block(f"if not {scalar.is_true(condition)}:"):
                self.source.line("return 0")
        operands = [scalar.emit(each) for _, each in self.shape.outputs]
        self.emit_row(operands, self.query.schema.fields, "times")

    def _needed(self) -> set[str]:
        shown = (*self.shape.having, *(each for _, each in self.shape.outputs))
        return {part.name for each in shown for part in walk(each) if isinstance(part, Column)}

    def _definition(self) -> Relation:
        kept = self.payload.kept
        names = free_names((each.slot.name for each in kept), (name for name, _ in self.keys))
        calls = tuple(zip(names, (each.definition for each in kept), strict=True))
        by = () if self.is_global else self.keys
        group = Aggregate(self.base(), by, calls)
        keys: tuple[Named, ...] = tuple(
            (field.name, Column(field.name, field.type, field.nullable)) for field in self.kind.key
        )
        if self.is_global:
            keys = self.keys
        slots = tuple(
            (each.slot.name, zero_if_null(name, each.definition.type))
            for name, each in zip(names, kept, strict=True)
        )
        present = (("present", Literal(1, BIGINT)),) if self.is_global else ()
        return Project(group, (*keys, *slots, *present))


class _Bag(_Writer):
    """Filter and project: each output row with its multiplicity.

    A row that was deleted before it came is hidden until then; one that is only handed on is not,
    for what comes next knows what it had before.
    """

    state = "rows"

    def __init__(self, query: Relation, shape: Shape, strategy: str, *, passing: bool) -> None:
        super().__init__(query, shape, strategy)
        self._passing = passing

    def program(self) -> Program:
        """The program."""
        outputs = [expression for _, expression in self.shape.outputs]
        fields = self.query.schema.fields
        if len(fields) > MOST_KEYS:
            raise NotTaken(f"more than {MOST_KEYS} columns")
        if not fields:
            raise NotTaken("a view without columns")
        kind = Keyed(fields, (Slot("count", "int"),))
        with self.trigger(outputs) as (scalar, trigger):
            operands = [scalar.emit(each) for each in outputs]
            self.source.line(f"e = keyed_touch({self.state}, {key_words(operands, fields)})")
            self.source.line(f"keyed_add({self.state}, e, 0, m)")
        self._flush(fields)
        self._contents(fields)
        return self.build(kind, self._definition(), trigger)

    def _flush(self, fields: Sequence[Field]) -> None:
        with self.function("flush", "t", "keyed_touched"):
            self.source.line(f"e = keyed_before({self.state}, t)")
            self.source.line(f"before = {self._shown_times}")
            self.source.line(f"e = keyed_now({self.state}, t)")
            self.source.line(f"change = {self._shown_times} - before")
            with self.source.block("if change != 0:"):
                self.emit_row(self._read(fields), fields, "change")

    def _contents(self, fields: Sequence[Field]) -> None:
        with self.function("contents", "t", "keyed_capacity"):
            self.source.line(f"e = keyed_at({self.state}, t)")
            with self.source.block("if e == -1:"):
                self.source.line("continue")
            count = self.source.name("count")
            self.source.line(f"{count} = {self._shown_times}")
            with self.source.block(f"if {count} != 0:"):
                self.emit_row(self._read(fields), fields, count)

    @property
    def _shown_times(self) -> str:
        """How often entry e is shown."""
        times = f"int_at({self.state}, e, 0)"
        return times if self._passing else f"max({times}, 0)"

    def _read(self, fields: Sequence[Field]) -> list[Operand]:
        bound = self.bind_key(fields)
        return [bound[field.name] for field in fields]

    def _definition(self) -> Relation:
        project = Project(self.base(), self.shape.outputs)
        return counted(project, self.query.schema.fields)

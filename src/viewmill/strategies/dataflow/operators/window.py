"""OVER windows: rows in the order of their partition, each with what its functions answered.

takes  functions over one partition and orders of which each begins like the longest
gives  a program

All rows are counted. They stand in order besides, with the answers that were last shown. When rows
come or go, those that feel it are visited in order: where an answer changed, the old row is taken
back and the new one shown. Where a filter above shows only the first ranks, nothing behind them is
visited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from viewmill.algebra.aggregates import moments_of
from viewmill.algebra.expressions import Call, Column, Expression, Literal, Over, SortKey
from viewmill.algebra.relations import Named, Relation, Values, Window
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import Integer
from viewmill.algebra.walk import substitute
from viewmill.codegen.linear import (
    Leaf,
    Top,
    counted,
    leaf_of,
    projected,
    refuse_subqueries,
    used_columns,
)
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.words import emit_row, key_words, read_words
from viewmill.codegen.writer import Writer, skip_unless
from viewmill.program.program import Program
from viewmill.program.states import Indexed, Passing, Slot
from viewmill.strategies.dataflow.operators.frames import (
    SHIFTED,
    Bounds,
    frame_among_equals,
    frame_of,
)
from viewmill.strategies.dataflow.operators.sequence import OrderColumn, RowOrder
from viewmill.strategies.dataflow.operators.window_calls import (
    CALLS,
    Ranking,
    WindowCall,
    value_arguments,
)
from viewmill.strategies.dataflow.operators.window_spreads import Spread

_TURNED = {"<": ">", "<=": ">=", "=": "=", ">": "<", ">=": "<="}
_RESERVED = (
    "p", "q", "begin", "end", "low", "stop", "prev", "has_prev", "size", "changed", "shifted",
    "update", "take", "final", "rebuild", "once", "c", "now", "was", "last", "times", "min", "max",
    "abs", "float", "sort_word", "limit", "had_failed",
)  # fmt: skip


def emit_window(query: Relation, top: Top, window: Window, strategy: str) -> Program:
    """The program of an OVER window, or `NotTaken`."""
    return _Window(Writer(query, strategy), top, window).program()


class _Window:
    def __init__(self, writer: Writer, top: Top, window: Window) -> None:
        self.writer, self.top, self.source = writer, top, writer.source
        for word in _RESERVED:
            self.source.name(word)
        self.leaf: Leaf = leaf_of(window.input)
        writer.know([self.leaf.scan])
        self.window = window
        self.columns = row_columns(self.leaf, top, window)
        partition, keys = longest_order(window)
        self.partition = partition
        self.order = self._order(partition, keys)
        if self.order.has_texts:
            self.source.every_text()
        fields = self.order.fields
        rows = Indexed(fields, (Slot("count", "int"),), journal=True)
        self.rows = writer.state("rows", rows, self._definition(fields))
        self.calls = [self._call(name, over) for name, over in window.calls]
        at = 1  # the first word says whether the row was judged before
        for each in self.calls:
            each.at = at
            at += each.width
        slots = tuple(Slot(f"word_{i}", "int") for i in range(at))
        nothing = Values((), Schema(tuple(column.field for column in self.order.columns)))
        kept = self.order.kind(slots)
        self.state = writer.state("sequence", kept, _empty(kept.schema))
        for each in self.calls:
            each.state = self.state
            each.bounds = Bounds(
                self.order, self.state, each.bounds.frame, each.bounds.partition, each.bounds.peers
            )
        self.touched = writer.state("touched", self.order.kind(passing=True), nothing)
        self.sink = writer.state(
            "changes", Passing(writer.query.schema.fields), _empty(writer.query.schema)
        )
        self.limit = self._limit()

    # What is kept.

    def _order(self, partition: Sequence[Expression], keys: Sequence[SortKey]) -> RowOrder:
        ordered: dict[str, OrderColumn] = {}
        for each in partition:
            name = column_name(each, self.window)
            ordered[name] = OrderColumn(self._field(name), grouped=True)
        self.partition_columns = len(ordered)
        self.peer_columns = [len(ordered)]
        for key in keys:
            name = column_name(key.expression, self.window)
            if name not in ordered:
                ordered[name] = OrderColumn(self._field(name), key.descending, key.nulls_first)
            self.peer_columns.append(len(ordered))
        for name in self.columns:
            ordered.setdefault(name, OrderColumn(self._field(name)))
        return RowOrder(list(ordered.values()))

    def _field(self, name: str) -> Field:
        expression = self.columns[name]
        return Field(name, expression.type, expression.nullable)

    def _definition(self, fields: Sequence[Field]) -> Relation:
        named: tuple[Named, ...] = tuple((f.name, self.columns[f.name]) for f in fields)
        rows = projected(self.leaf.relation(), named)
        return counted(rows, fields)

    def _call(self, name: str, over: Over) -> WindowCall:
        kind = CALLS.get(over.function) if moments_of(over.function) is None else Spread
        if kind is None:
            raise NotTaken(f"{over.function} over a window is not incremental yet", over.span)
        arguments = tuple(column_name(each, self.window) for each in value_arguments(over))
        peers = self.peer_columns[len(over.order)]
        frame = frame_of(over)
        if peers <= self.partition_columns:
            frame = frame_among_equals(frame, over)
        bounds = Bounds(self.order, "", frame, self.partition_columns, peers)
        return kind(name, over, arguments, self.order, "", bounds, self.source)

    def _limit(self) -> tuple[WindowCall, int] | None:
        """The rank behind which the filter above shows nothing."""
        for each in self.top.where:
            for call in self.calls:
                most = most_of(each, call.name)
                if isinstance(call, Ranking) and most is not None:
                    return call, most
        return None

    # The program.

    def program(self) -> Program:
        """The program."""
        self._trigger()
        self._template(SHIFTED)
        self._take()
        self._update()
        with self.writer.settle():
            self._settle()
        self._flush()
        self._contents()
        self._rebuild()
        return self.writer.program(rebuild=True, result=self.rows)

    def _template(self, text: str) -> None:
        for line in text.strip("\n").splitlines():
            self.source.line(line)
        self.source.line()

    def _trigger(self) -> None:
        fields = self.order.fields
        reads = [self.columns[field.name] for field in fields]
        with self.writer.trigger(self.leaf.scan, reads, self.leaf.where) as scalar:
            words = key_words([scalar.emit(each) for each in reads], fields)
            self.source.line(f"e = indexed_touch({self.rows}, {words})")
            self.source.line(f"indexed_add({self.rows}, e, 0, m)")

    @property
    def _states(self) -> str:
        return ", ".join(self.writer.handles)

    @contextmanager
    def _function(self, name: str, arguments: str) -> Iterator[None]:
        with self.source.block(f"def {name}({self._states}, texts, errors, {arguments}):"):
            self.source.line("out_of_line()")
            yield
        self.source.line()

    def _take(self) -> None:
        """Write what adds the row at q to what is shown, if it passes the filter."""
        source = self.source
        with self._function("take", "q, times"):
            source.line("had_failed = failed(errors)")
            with source.block("for once in range(1):"):
                operands = self._shown()
                words = key_words(operands, self.writer.query.schema.fields)
                source.line(f"e = indexed_touch({self.sink}, {words})")
                source.line(f"indexed_add({self.sink}, e, 0, times)")
            if source.messages:
                self._name_failed()
            source.line("return 0")

    def _name_failed(self) -> None:
        """Write what finds the row at q among those that were touched, if it failed."""
        source, fields, rows = self.source, self.order.fields, self.rows
        with source.block("if failed(errors) and not had_failed:"):
            values = [self.order.value(self.state, "q", field.name) for field in fields]
            source.line(f"e = indexed_touch({rows}, {key_words(values, fields)})")
            every = f"for t in range(indexed_touched({rows})):"
            same = f"if indexed_now({rows}, t) == e:"
            with source.block(every), source.block(same):
                source.line("failed_at(errors, t)")

    def _shown(self) -> list[Operand]:
        """Write the outputs of the row at q; a row that does not pass goes on to the next."""
        bound: dict[str, Operand] = {}
        scalar = Scalar(self.source, bound, "-1")
        for field in self.order.fields:
            bound[field.name] = self.order.value(self.state, "q", field.name)
        for call in self.calls:
            bound[call.name] = call.finish(scalar)
        skip_unless(scalar, self.top.where)
        return [scalar.emit(each) for _, each in self.top.outputs]

    def _update(self) -> None:
        """Write what judges the row at q: 0 if nothing changed, 2 if nothing behind it can."""
        source, state = self.source, self.state
        with self._function("update", "q, begin, end, size"):
            source.line("has_prev = q != begin")
            source.line(f"prev = sorted_prev({state}, q) if has_prev else q")
            source.line(f"was = sorted_word({state}, q, 0)")
            self._skip_hidden()
            words = [word for call in self.calls for word in call.compute()]
            olds = [f"sorted_word({state}, q, {i + 1})" for i in range(len(words))]
            tests = [f"{new} != {old}" for new, old in zip(words, olds, strict=True)]
            with source.block(f"if was != 0 and not ({' or '.join(tests)}):"):
                source.line("return 0")
            self._stop_hidden(words)
            with source.block("if was != 0:"):
                source.line(f"take({self._states}, texts, errors, q, -1)")
            source.line(f"sorted_put({state}, q, (1, {', '.join(words)},))")
            source.line(f"take({self._states}, texts, errors, q, 1)")
            source.line("return 1")

    def _skip_hidden(self) -> None:
        """A row behind one that is not shown is not shown either."""
        if self.limit is None:
            return
        source, (call, most) = self.source, self.limit
        width = sum(each.width for each in self.calls)
        hidden = ["0"] * width
        hidden[call.at - 1] = str(most + 1)
        with source.block(f"if has_prev and {call.stored('prev')} > {most}:"):
            with source.block("if was == 0:"):
                source.line(f"sorted_put({self.state}, q, (1, {', '.join(hidden)},))")
                source.line("return 1")
            with source.block(f"if {call.stored('q')} > {most}:"):
                source.line("return 2")
            source.line(f"take({self._states}, texts, errors, q, -1)")
            source.line(f"sorted_put({self.state}, q, (1, {', '.join(hidden)},))")
            source.line("return 1")

    def _stop_hidden(self, words: Sequence[str]) -> None:
        if self.limit is None:
            return
        call, most = self.limit
        new = words[call.at - 1]
        with self.source.block(f"if was != 0 and {new} > {most} and {call.stored('q')} > {most}:"):
            self.source.line("return 2")

    def _sweep(self) -> None:
        """Write what visits the rows that feel touched row t, then goes to the next."""
        source, state, touched = self.source, self.state, self.touched
        whole = len(self.order.columns)
        own = self.order.key_at(touched, "t", self.order.words(whole))
        partition = self.order.key_at(touched, "t", self.order.words(self.partition_columns))
        source.line(f"begin = sorted_from({state}, {partition})")
        source.line(f"end = sorted_after({state}, {partition})")
        with source.block("if begin < end:"):
            source.line(f"p = sorted_from({state}, {own})")
            source.line("low = p")
            source.line(f"stop = sorted_step({state}, p, 1, begin, end)")
            for call in self.calls:
                call.reach(touched)
            source.line("q = max(low, last)")
            self._size()
            self._visit()
            source.line("last = max(last, q)")
        source.line(f"t = sorted_next({touched}, t)")

    def _visit(self) -> None:
        """Write what judges row after row, until nothing can change any more."""
        source = self.source
        running = any(call.is_running for call in self.calls)
        with source.block("while q < end:"):
            source.line(f"changed = update({self._states}, texts, errors, q, begin, end, size)")
            with source.block("if changed == 2:"):
                source.line("break")
            source.line(f"q = sorted_next({self.state}, q)")
            with source.block(f"if q >= stop{' and changed == 0' if running else ''}:"):
                source.line("break")

    def _size(self) -> None:
        source = self.source
        source.line("size = 0")
        if any(call.needs_size for call in self.calls):
            source.line("p = begin")
            with source.block("while p < end:"):
                source.line("size += 1")
                source.line(f"p = sorted_next({self.state}, p)")

    def _settle(self) -> None:
        """Write what puts the rows that came or went in their places, and visits who feels it."""
        source, rows, touched = self.source, self.rows, self.touched
        with source.block(f"for t in range(indexed_touched({rows})):"):
            source.line(f"was = max(int_at({rows}, indexed_before({rows}, t), 0), 0)")
            source.line(f"e = indexed_now({rows}, t)")
            source.line(f"now = max(int_at({rows}, e, 0), 0)")
            with source.block("if now == was:"):
                source.line("continue")
            key = self._key()
            with source.block("for c in range(was, now):"):
                source.line(f"sorted_insert({self.state}, {key})")
                source.line(f"sorted_insert({touched}, {key})")
            with source.block("for c in range(now, was):"):
                source.line(f"q = sorted_from({self.state}, {key})")
                source.line(f"take({self._states}, texts, errors, q, -1)")
                source.line(f"sorted_remove({self.state}, {key})")
                source.line(f"sorted_insert({touched}, {key})")
        source.line("last = 0")
        source.line("t = 0")
        source.line(f"final = sorted_end({touched})")
        with source.block("while t < final:"):
            self._sweep()

    def _key(self) -> str:
        """Write what reads entry e of the rows; gives the key of copy c of it."""
        bound = read_words(
            self.source, self.order.fields, lambda i: f"indexed_word({self.rows}, e, {i})"
        )
        return self.order.encode(bound, "c")

    def _flush(self) -> None:
        source, fields = self.source, self.writer.query.schema.fields
        with self.writer.loop("flush", f"indexed_count({self.sink})", settle=True):
            source.line(f"e = indexed_at({self.sink}, t)")
            source.line(f"times = int_at({self.sink}, e, 0)")
            with source.block("if times != 0:"):
                bound = read_words(source, fields, lambda i: f"indexed_word({self.sink}, e, {i})")
                emit_row(source, [bound[field.name] for field in fields], fields, "times")

    def _contents(self) -> None:
        source, fields = self.source, self.writer.query.schema.fields
        with source.block(f"def contents(start, {self._states}, out, texts, errors):"):
            source.line("p = start")
            source.line(f"end = sorted_end({self.state})")
            with source.block("while p < end:"):
                with source.block("if emit_full(out):"):
                    source.line("return p")
                source.line("q = p")
                source.line(f"p = sorted_next({self.state}, p)")
                emit_row(source, self._shown(), fields, "1")
            source.line("return -1")
        source.line()

    def _rebuild(self) -> None:
        source, rows, state = self.source, self.rows, self.state
        partition = self.order.key_at(state, "q", self.order.words(self.partition_columns))
        with source.block(f"def rebuild({self._states}, texts, errors):"):
            with source.block(f"for t in range(indexed_count({rows})):"):
                source.line(f"e = indexed_at({rows}, t)")
                with source.block("if e != 0:"):
                    key = self._key()
                    with source.block(f"for c in range(int_at({rows}, e, 0)):"):
                        source.line(f"sorted_insert({state}, {key})")
            source.line("q = 0")
            source.line("begin = 0")
            source.line("end = 0")
            source.line("size = 0")
            source.line(f"stop = sorted_end({state})")
            with source.block("while q < stop:"):
                with source.block("if q >= end:"):
                    source.line("begin = q")
                    source.line(f"end = sorted_after({state}, {partition})")
                    self._size()
                source.line(f"update({self._states}, texts, errors, q, begin, end, size)")
                source.line(f"q = sorted_next({state}, q)")
            source.line("return 0")
        source.line()


def _empty(schema: Schema) -> Relation:
    return Values((), schema)


def row_columns(leaf: Leaf, top: Top, window: Window) -> dict[str, Expression]:
    """The columns of a row: those that are read, and what calls compute of them."""
    calls = [over for _, over in window.calls]
    read = used_columns([*top.expressions, *calls])
    columns = {name: each for name, each in leaf.columns.items() if name in read}
    for over in calls:
        inside = [*value_arguments(over), *over.partition, *(k.expression for k in over.order)]
        refuse_subqueries(inside)
        for each in inside:
            if not isinstance(each, Column):
                columns.setdefault(column_name(each, window), substitute(each, leaf.columns))
    return columns


def column_name(expression: Expression, window: Window) -> str:
    """The name of a column of the row that holds an expression."""
    if isinstance(expression, Column):
        return expression.name
    known: list[Expression] = []
    for _, over in window.calls:
        for each in (*value_arguments(over), *over.partition, *(k.expression for k in over.order)):
            if not isinstance(each, Column) and each not in known:
                known.append(each)
    return f"#{known.index(expression)}"


def longest_order(window: Window) -> tuple[tuple[Expression, ...], tuple[SortKey, ...]]:
    """The partition and the longest order of a window whose calls agree, or `NotTaken`."""
    overs = [over for _, over in window.calls]
    longest = max((over.order for over in overs), key=len)
    for over in overs:
        if (
            set(over.partition) != set(overs[0].partition)
            or longest[: len(over.order)] != over.order
        ):
            raise NotTaken("functions over several partitions or orders at once", over.span)
    return overs[0].partition, longest


def most_of(condition: Expression, name: str) -> int | None:
    """The largest value of a column that passes a condition, if that says so; not all up to it
    need pass."""
    operator, value = compared(condition, name) or ("", 0)
    return {"<": value - 1, "<=": value, "=": value}.get(operator)


def compared(condition: Expression, name: str) -> tuple[str, int] | None:
    """The operator and the integer that a column is compared with, if that is the condition."""
    if not isinstance(condition, Call) or condition.function not in _TURNED:
        return None
    left, right = condition.arguments
    operator = condition.function
    if isinstance(right, Column):
        left, right, operator = right, left, _TURNED[operator]
    if not (isinstance(left, Column) and left.name == name and isinstance(right, Literal)):
        return None
    if not isinstance(right.type, Integer) or not isinstance(right.value, int):
        return None
    return operator, right.value

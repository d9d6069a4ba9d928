"""ORDER BY with LIMIT and OFFSET: the first rows of an order, kept up to date.

All rows are counted. The best of them, somewhat more than the query shows, stand in a list of their
own, which every row outside it comes after. A change that lies behind that list costs nothing more;
when so many of the best went away that too few are left, they are chosen again from all rows.
"""

from __future__ import annotations

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column, Literal
from viewmill.algebra.relations import Aggregate, Limit, Named, Relation, Sort, Values
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT
from viewmill.algebra.walk import substitute
from viewmill.program.program import Program
from viewmill.program.states import Indexed, Listed, Slot
from viewmill.strategies.dataflow.aggregates import count_rows
from viewmill.strategies.dataflow.linear import (
    Leaf,
    Top,
    columns_as,
    leaf_of,
    projected,
    refuse_subqueries,
)
from viewmill.strategies.dataflow.operators.order import Key, write_less
from viewmill.strategies.dataflow.operators.writer import Writer
from viewmill.strategies.dataflow.scalar import Scalar
from viewmill.strategies.dataflow.shape import NotTaken
from viewmill.strategies.dataflow.words import emit_row, key_words, read_words

_MOST = 2000  # rows shown and skipped together
_SPARE = 32  # rows in the list beyond those


def emit_top(query: Relation, top: Top, limit: Limit, strategy: str) -> Program:
    """The program of ORDER BY with LIMIT, or `NotTaken`."""
    if not isinstance(limit.input, Sort):
        raise NotTaken("LIMIT without ORDER BY: SQL does not say which rows", limit.span)
    if limit.count is None or limit.count + limit.offset > _MOST:
        raise NotTaken(f"OFFSET or LIMIT beyond {_MOST} rows", limit.span)
    return _Top(Writer(query, strategy), top, limit, limit.input).program()


class _Top:
    def __init__(self, writer: Writer, top: Top, limit: Limit, sort: Sort) -> None:
        assert limit.count is not None
        self.writer, self.top, self.source = writer, top, writer.source
        self.leaf: Leaf = leaf_of(sort.input)
        writer.know([self.leaf.scan])
        self.columns = self._columns(sort)
        self.fields = tuple(Field(n, x.type, x.nullable) for n, x in self.columns)
        for name, column in self.columns:
            if isinstance(column, Column):
                self.source.origins[name] = self.source.origins[column.name]
        self.keys = self._keys(sort)
        self.last, self.skipped = limit.count + limit.offset, limit.offset
        for word in ("less", "row_less", "best", "words", "rank", "refill", "farthest", "keep",
                     "a", "b", "x", "y", "x_null", "y_null", "hide", "drop", "had"):  # fmt: skip
            self.source.name(word)
        slots = (Slot("count", "int"), Slot("shown", "int"))
        rows = Indexed(self.fields, slots, journal=True)
        self.rows = writer.state("rows", rows, self._definition())
        total = Indexed((Field("one", BIGINT, False),), (Slot("count", "int"),), journal=True)
        self.total = writer.state("total", total, self._total())
        best = Listed((), self.fields, (Slot("count", "int"),), journal=True)
        self.best = writer.state("best_rows", best, Values((), Schema(self.fields)))

    def _columns(self, sort: Sort) -> tuple[Named, ...]:
        """The row: what is shown, then what is only ordered by."""
        shown = [(field.name, self.leaf.columns[field.name]) for field in sort.schema]
        for n, key in enumerate(sort.keys):
            refuse_subqueries([key.expression])
            if not isinstance(key.expression, Column):
                shown.append((f"#key{n}", substitute(key.expression, self.leaf.columns)))
        return tuple(shown)

    def _keys(self, sort: Sort) -> list[Key]:
        """The keys; then all columns, so that no two rows are equal in order."""
        names = [name for name, _ in self.columns]
        keys = []
        for n, key in enumerate(sort.keys):
            column = key.expression
            name = column.name if isinstance(column, Column) else f"#key{n}"
            keys.append(Key(names.index(name), key.descending, key.nulls_first))
        known = {key.position for key in keys}
        return keys + [Key(i, False, True) for i in range(len(names)) if i not in known]

    def _base(self) -> Relation:
        return projected(self.leaf.relation(), self.columns)

    def _definition(self) -> Relation:
        counted = Aggregate(self._base(), columns_as(self.fields), (("#count", count_rows()),))
        count: Named = ("#count", Column("#count", BIGINT, False))
        shown: Named = ("#shown", Literal(0, BIGINT))
        return projected(counted, (*columns_as(self.fields), count, shown))

    def _total(self) -> Relation:
        call = AggregateCall("count", (), BIGINT, False)
        counted = Aggregate(self._base(), (), (("#count", call),))
        one: Named = ("one", Literal(0, BIGINT))
        return projected(counted, (one, ("#count", Column("#count", BIGINT, False))))

    def program(self) -> Program:
        """The program."""
        self._trigger()
        self._order()
        for text in (_KEEP, _REFILL, _RANK, _SETTLE):
            self._template(text)
        self._flush()
        self._contents()
        return self.writer.program(rebuild=True)

    def _trigger(self) -> None:
        source, rows, total = self.source, self.rows, self.total
        reads = [expression for _, expression in self.columns]
        with self.writer.trigger(self.leaf.scan, reads, self.leaf.where) as scalar:
            words = key_words([scalar.emit(each) for each in reads], self.fields)
            source.line(f"e = indexed_touch({rows}, {words})")
            source.line(f"had = max(int_at({rows}, e, 0), 0)")
            source.line(f"indexed_add({rows}, e, 0, m)")
            source.line(f"change = max(int_at({rows}, e, 0), 0) - had")
            source.line(f"e = indexed_touch({total}, (0,))")
            source.line(f"indexed_add({total}, e, 0, change)")

    def _order(self) -> None:
        def of_best(entry: str, i: int) -> str:
            return f"list_word({self.best}, {entry}, {i})"

        def of_rows(entry: str, i: int) -> str:
            return f"indexed_word({self.rows}, {entry}, {i})"

        handles = ", ".join(self.writer.handles)
        for name, words in (("less", (of_best, of_best)), ("row_less", (of_rows, of_best))):
            head = f"def {name}({handles}, texts, a, b):"
            write_less(self.source, head, self.fields, self.keys, words)

    def _template(self, text: str) -> None:
        width = len(self.fields) + any(field.nullable for field in self.fields)
        filled = text.format(
            states=", ".join(self.writer.handles), rows=self.rows, total=self.total,
            best=self.best, last=self.last, skipped=self.skipped, room=self.last + 2 * _SPARE,
            kept=self.last + _SPARE,
            best_words="".join(f"list_word({self.best}, b, {i}), " for i in range(width)),
            row_words="".join(f"indexed_word({self.rows}, e, {i}), " for i in range(width)),
        )  # fmt: skip
        for line in filled.strip("\n").splitlines():
            self.source.line(line)
        self.source.line()

    def _flush(self) -> None:
        source, rows = self.source, self.rows
        with self.writer.loop("flush", f"indexed_touched({rows})", settle=True):
            source.line(f"change = -int_at({rows}, indexed_before({rows}, t), 1)")
            source.line(f"e = indexed_now({rows}, t)")
            source.line(f"change += int_at({rows}, e, 1)")
            self._show()

    def _contents(self) -> None:
        source, rows = self.source, self.rows
        with self.writer.loop("contents", f"indexed_count({rows})"):
            source.line(f"e = indexed_at({rows}, t)")
            source.line(f"change = int_at({rows}, e, 1) if e != 0 else 0")
            self._show()

    def _show(self) -> None:
        source = self.source
        with source.block("if change == 0:"):
            source.line("continue")
        bound = read_words(source, self.fields, lambda i: f"indexed_word({self.rows}, e, {i})")
        scalar = Scalar(source, bound, "t")
        for condition in self.top.where:
            with source.block(f"if not {scalar.is_true(condition)}:"):
                source.line("continue")
        operands = [scalar.emit(each) for _, each in self.top.outputs]
        emit_row(source, operands, self.writer.query.schema.fields, "change")


_KEEP = """
def farthest({states}, texts, l):
    # The entry of the list that comes last.
    b = list_at({best}, l, 0)
    for j in range(1, list_size({best}, l)):
        a = list_at({best}, l, j)
        if less({states}, texts, b, a):
            b = a
    return b

def keep({states}, texts, e):
    # Row e joins the best; if there are too many, the last one leaves.
    b = list_touch({best}, (), ({row_words}))
    indexed_add({best}, b, 0, int_at({rows}, e, 0) - int_at({best}, b, 0))
    l = list_of({best}, ())
    if list_size({best}, l) > {room}:
        b = farthest({states}, texts, l)
        hide({states}, b)
        drop({states}, b)
    return 0

def hide({states}, b):
    # A row that leaves the best is not shown.
    e = indexed_touch({rows}, ({best_words}))
    indexed_add({rows}, e, 1, -int_at({rows}, e, 1))
    return 0

def drop({states}, b):
    # Entry b leaves the best.
    b = list_touch({best}, (), ({best_words}))
    indexed_add({best}, b, 0, -int_at({best}, b, 0))
    list_settle({best}, (), b)
    return 0
"""

_REFILL = """
def refill({states}, texts, errors):
    # Choose the best again, from all rows.
    b = 0
    for t in range(indexed_count({rows})):
        e = indexed_at({rows}, t)
        if e != 0 and int_at({rows}, e, 0) > 0:
            l = list_of({best}, ())
            if list_size({best}, l) < {kept}:
                keep({states}, texts, e)
                b = 0
            else:
                if b == 0:
                    b = farthest({states}, texts, l)
                if row_less({states}, texts, e, b):
                    if list_find({best}, (), ({row_words})) == 0:
                        hide({states}, b)
                        drop({states}, b)
                        keep({states}, texts, e)
                        b = 0
    return 0
"""

_RANK = """
def rank({states}, texts, errors):
    # The first rows are shown, so many times as there is place for.
    l = list_of({best}, ())
    size = list_size({best}, l)
    place = 0
    last = 0
    while place < {last}:
        b = 0
        for j in range(size):
            a = list_at({best}, l, j)
            if last == 0 or less({states}, texts, last, a):
                if b == 0 or less({states}, texts, a, b):
                    b = a
        if b == 0:
            break
        count = int_at({best}, b, 0)
        shown = max(min(place + count, {last}) - max(place, {skipped}), 0)
        e = indexed_find({rows}, ({best_words}))
        if int_at({rows}, e, 1) != shown:
            e = indexed_touch({rows}, ({best_words}))
            indexed_add({rows}, e, 1, shown - int_at({rows}, e, 1))
        place += count
        last = b
    for j in range(size):
        b = list_at({best}, l, j)
        if last != 0 and less({states}, texts, last, b):
            e = indexed_find({rows}, ({best_words}))
            if int_at({rows}, e, 1) != 0:
                hide({states}, b)
    return 0
"""

_SETTLE = """
def settle({states}, texts, errors):
    l = list_of({best}, ())
    held = 0
    for j in range(list_size({best}, l)):
        held += int_at({best}, list_at({best}, l, j), 0)
    e = indexed_find({total}, (0,))
    all_rows = 0
    if e != 0:
        all_rows = int_at({total}, indexed_old({total}, e), 0)
    is_all = held == all_rows
    moved = 0
    far = 0
    for t in range(indexed_touched({rows})):
        e = indexed_now({rows}, t)
        count = int_at({rows}, e, 0)
        b = list_find({best}, (), ({row_words}))
        if b != 0:
            moved = 1
            far = 0
            if count > 0:
                keep({states}, texts, e)
            else:
                drop({states}, b)
                indexed_add({rows}, e, 1, -int_at({rows}, e, 1))
        elif count > 0:
            l = list_of({best}, ())
            closer = is_all
            if not closer and list_size({best}, l) > 0:
                if far == 0:
                    far = farthest({states}, texts, l)
                closer = row_less({states}, texts, e, far)
            if closer:
                moved = 1
                far = 0
                if list_size({best}, l) >= {room}:
                    is_all = False
                keep({states}, texts, e)
    l = list_of({best}, ())
    held = 0
    for j in range(list_size({best}, l)):
        held += int_at({best}, list_at({best}, l, j), 0)
    e = indexed_find({total}, (0,))
    if e != 0 and held < {last} and held < int_at({total}, e, 0):
        refill({states}, texts, errors)
        moved = 1
    if moved != 0:
        rank({states}, texts, errors)
    return 0

def rebuild({states}, texts, errors):
    refill({states}, texts, errors)
    rank({states}, texts, errors)
    return 0
"""

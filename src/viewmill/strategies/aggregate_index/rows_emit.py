"""The program of rows that pass a comparison with an aggregate of their key.

takes  `RowsByKey`
gives  `Program`
           groups   the aggregates inside, by key
           passing  for each key the range of levels that passes, as last shown
           levels   for each key the levels of the column, in order; none is needed for =
           listed   the rows, by key and level

A row is shown if its level is in the range as it was. A key without a range has the usual one, that
of no rows inside: nothing passes it, unless COUNT or COALESCE make a number of no rows. When the
aggregates of a key have changed, the levels between the old range and the new one are visited, and
their rows begin or cease to be shown: together that is exact, and nothing else is touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from viewmill.algebra.aggregates import is_count
from viewmill.algebra.conditions import filtered
from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import Distinct, Relation, Values
from viewmill.algebra.schema import Field
from viewmill.algebra.types import Float
from viewmill.codegen.linear import (
    Top,
    columns_as,
    counted,
    not_null,
    projected,
    refuse_failing,
    used_columns,
)
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.sinks import Sink
from viewmill.codegen.source import Source
from viewmill.codegen.words import as_word, key_words, read_words
from viewmill.codegen.writer import Writer
from viewmill.program.program import Program
from viewmill.program.states import Indexed, Listed, Ordered, Slot
from viewmill.strategies.aggregate_index.bounds import LOWEST, write_bound, write_bounds
from viewmill.strategies.aggregate_index.by_key import surely
from viewmill.strategies.aggregate_index.classify import Test
from viewmill.strategies.aggregate_index.inner_groups import InnerGroups
from viewmill.strategies.aggregate_index.rows_by_key import RowsByKey, read_rows_by_key

HIGHEST = (1 << 63) - 1
_RESERVED = (
    "p", "q", "u", "first", "last", "begin", "end", "found", "sign", "judge", "walk", "search",
    "rebuild", "quiet", "level", "j", "row", "count", "usual_first", "usual_last",
)  # fmt: skip
_COUNT = (Slot("count", "int"),)


def emit_rows(relation: Relation, strategy: str, *, passing: bool = False) -> Program:
    """The program of a query, or `NotTaken`."""
    top, plan = read_rows_by_key(relation)
    refuse_failing(top.expressions)
    return _Rows(Writer(relation, strategy), top, plan, passing=passing).program()


class _Rows:
    def __init__(self, writer: Writer, top: Top, plan: RowsByKey, *, passing: bool) -> None:
        self.writer, self.source, self.plan = writer, writer.source, plan
        for word in _RESERVED:
            self.source.name(word)
        writer.know([plan.scan, plan.inner_scan])
        self.test = plan.comparison.test
        self.key = tuple(map(surely, plan.comparison.key))
        self.level = surely(self.test.core)
        self.groups = InnerGroups(writer, plan.comparison.inside)
        self.shown = self._keep_shown()
        self.rest = self._shown_columns(top)
        self.levels = "" if _is_one_level(self.test) else self._keep_levels()
        self.listed = self._keep_rows()
        self.sink = Sink(writer, top, passing=passing)

    # What is kept.

    @property
    def _key_fields(self) -> tuple[Field, ...]:
        """The key as the groups inside have it."""
        return self.groups.kind.key if self.key else ()

    @property
    def _level_field(self) -> Field:
        return Field("level", self.level.type, False)

    def _keep_shown(self) -> str:
        """A range is computed from the aggregates: `rebuild` does so after a load."""
        slots = tuple(Slot(each, "int") for each in ("active", "first_level", "last_level"))
        kind = Indexed(self.groups.kind.key, slots, journal=True)
        return self.writer.state("shown_levels", kind, Values((), kind.schema))

    def _keep_levels(self) -> str:
        """The levels that have rows. They are counted as `listed` has them, each once: of a row
        that came and one that was deleted before it came, neither may be overlooked."""
        kind = Ordered(self._level_field, _COUNT, 1, None, self._key_fields)
        first = (*self._key_fields, self._level_field)
        return self.writer.state("levels", kind, counted(Distinct(self._listed_rows()), first))

    def _shown_columns(self, top: Top) -> tuple[Field, ...]:
        """The columns that are shown, but key and level."""
        known = {e.name for e in (*self.key, self.level) if isinstance(e, Column)}
        used = used_columns(top.expressions) - known
        return tuple(f for f in self.plan.scan.schema if f.name in used)

    def _listed_rows(self) -> Relation:
        return projected(self._rows(), (*self._first_columns(), *columns_as(self.rest)))

    def _keep_rows(self) -> str:
        """The rows by key and level, with the other columns that are shown."""
        first = (*self._key_fields, self._level_field)
        kind = Listed(first, self.rest, _COUNT, journal=True)
        return self.writer.state("listed", kind, counted(self._listed_rows(), (*first, *self.rest)))

    def _first_columns(self) -> tuple[tuple[str, Expression], ...]:
        pairs = zip(self._key_fields, self.key, strict=True)
        return (*((f.name, each) for f, each in pairs), ("level", self.level))

    @property
    def _where(self) -> tuple[Expression, ...]:
        """A row without level passes nothing, one without key what no row inside is met by."""
        return self._with(self.test.core, *(self.plan.comparison.key if self._is_strict else ()))

    @property
    def _is_strict(self) -> bool:
        return self.plan.comparison.is_strict

    def _with(self, *read: Expression) -> tuple[Expression, ...]:
        """The conditions of the table, and that these values are there."""
        known = dict.fromkeys(not_null(each) for each in read if each.nullable)
        return (*self.plan.where, *known)

    def _rows(self) -> Relation:
        """The rows that lie by key and level."""
        where = self._with(*self.plan.comparison.key, self.test.core)
        return filtered(self.plan.scan, where)

    # The program.

    def program(self) -> Program:
        """The program."""
        self._write_outer()
        self.groups.write_trigger()
        self.groups.write_search()
        self._write_walk()
        self._write_judge()
        with self.writer.settle():
            self._write_settle()
        self._write_rebuild()
        self.sink.finish(settle=True)
        return self.writer.program(rebuild=True)

    @property
    def _states(self) -> str:
        return ", ".join(self.writer.handles)

    def _write_outer(self) -> None:
        source, scan = self.source, self.plan.scan
        rest = [Column(f.name, f.type, f.nullable) for f in self.rest]
        given = self.key if self._is_strict else self.plan.comparison.key
        with self.writer.trigger(scan, [*given, self.level, *rest], self._where) as scalar:
            keys = [scalar.emit(each) for each in given]
            source.line(f"level = {self._level_word(scalar.emit(self.level))}")
            row = {f.name: scalar.emit(each) for f, each in zip(self.rest, rest, strict=True)}
            self._write_usual()
            source.line("begin, end = usual_first, usual_last")
            known = [f"not {each.null}" for each in keys if each.null is not None]
            with source.block(f"if {' and '.join(known) or 'True'}:"):
                self._write_place([Operand(each.value) for each in keys], row)
            inside = "begin <= level <= end"
            with source.block(f"if not ({inside}):" if self._is_outside else f"if {inside}:"):
                self.sink.take(scalar, "m")

    def _write_place(self, keys: list[Operand], row: dict[str, Operand]) -> None:
        """Write what puts a row where its key and level are, and reads the range of the key."""
        source = self.source
        words = [as_word(k, f) for k, f in zip(keys, self._key_fields, strict=True)]
        first = _tuple([*words, self._list_word("level")])
        words_of_rest = key_words(list(row.values()), self.rest)
        source.line(f"e = list_touch({self.listed}, {first}, {words_of_rest})")
        before = source.name("times_before")
        if self.levels:
            source.line(f"{before} = int_at({self.listed}, e, 0)")
        source.line(f"indexed_add({self.listed}, e, 0, m)")
        source.line(f"list_settle({self.listed}, {first}, e)")
        if self.levels:
            level_key = _tuple([*words, "level"])
            with source.block(f"if {before} == 0:"):
                source.line(f"ordered_add({self.levels}, {level_key}, (1,))")
            with source.block(f"elif {before} + m == 0:"):
                source.line(f"ordered_add({self.levels}, {level_key}, (-1,))")
        self._write_find(_tuple(words or ["0"]))

    def _write_find(self, key: str) -> None:
        """Write what reads the range that is shown of a key."""
        source, shown = self.source, self.shown
        source.line(f"e = indexed_find({shown}, {key})")
        with source.block(f"if e != 0 and int_at({shown}, e, 0) != 0:"):
            source.line(f"begin, end = int_at({shown}, e, 1), int_at({shown}, e, 2)")

    def _write_usual(self) -> None:
        """Write the range of a key that has no rows inside."""
        first, last = self._nothing
        self.source.line(f"usual_first, usual_last = {first}, {last}")
        if not self._is_strict:
            calls = self.plan.comparison.inside.calls
            none = {name: Operand("0", None if is_count(call) else "True") for name, call in calls}
            self._write_range(none, "usual_first", "usual_last")

    @property
    def _nothing(self) -> tuple[int, int]:
        """Nothing passes: no level is in the range, or all are where those outside pass."""
        return (LOWEST, HIGHEST) if self._is_outside else (1, 0)

    def _write_range(self, values: Mapping[str, Operand], begin: str, end: str) -> None:
        """Write the range that passes these aggregates, if their comparison is not NULL."""
        source = self.source
        limit = write_bound(Scalar(source, dict(values), "-1"), self.test)
        with source.block("if True:" if limit.null is None else f"if not {limit.null}:"):
            low, high, bounded, _ = write_bounds(source, self.test, limit.value)
            source.line(f"{begin} = {low}")
            source.line(f"{end} = {high} - 1 if {bounded} else {HIGHEST}")
            if self.test.operator == "<":  # than the least number: nothing is
                with source.block(f"if {bounded} and {high} == {LOWEST}:"):
                    source.line(f"{begin}, {end} = 1, 0")

    @property
    def _is_outside(self) -> bool:
        return self.test.operator == "<>"

    def _level_word(self, level: Operand) -> str:
        """A word in order."""
        word = as_word(level, self._level_field)
        return f"sort_word({word})" if isinstance(self.level.type, Float) else word

    def _list_word(self, level: str) -> str:
        """The word of a level in the list of rows."""
        return f"sort_word({level})" if isinstance(self.level.type, Float) else level

    @property
    def _key_names(self) -> list[str]:
        return [f"w{i}" for i in range(len(self.key))]

    def _write_walk(self) -> None:
        """Write what shows the rows of a key between two levels, `sign` times."""
        source = self.source
        names = ", ".join([self._states, *self._key_names, "begin", "end", "sign"])
        with source.block(f"def walk({names}, texts, errors):"):
            source.line("out_of_line()")
            if not self.levels:
                with source.block("if begin == end:"):
                    source.line("level = begin")
                    self._write_list()
            else:
                source.line(f"p = ordered_from({self.levels}, {self._at('begin')})")
                source.line(f"q = ordered_after({self.levels}, {self._at('end')})")
                with source.block("while p < q:"):
                    source.line(f"level = ordered_key({self.levels}, p, {len(self.key)})")
                    self._write_list()
                    source.line(f"p = ordered_next({self.levels}, p)")
            source.line("return 0")
        source.line()

    def _at(self, level: str) -> str:
        return _tuple([*self._key_names, level])

    def _write_list(self) -> None:
        """Write what shows the rows at a level."""
        source, listed = self.source, self.listed
        source.line(f"found = list_of({listed}, {self._at(self._list_word('level'))})")
        with ExitStack() as loop:
            loop.enter_context(source.block(f"for j in range(list_size({listed}, found)):"))
            source.line(f"row = list_at({listed}, found, j)")
            source.line(f"count = int_at({listed}, row, 0)")
            row = read_words(source, self.rest, lambda i: f"list_word({listed}, row, {i})")
            words = [*self._key_names, self._list_word("level")]
            fields = (*self._key_fields, self._level_field)
            for each, field, word in zip((*self.key, self.level), fields, words, strict=True):
                if isinstance(each, Column):
                    row |= {each.name: _operand(source, field, word)}
            self.sink.take(Scalar(source, row, "-1"), "sign * count")

    def _write_judge(self) -> None:
        """Write what finds the range of the key of entry u, and shows what that changes."""
        source = self.source
        with source.block(f"def judge({self._states}, u, quiet, texts, errors):"):
            source.line("e = u")
            kind, groups = self.groups.kind, self.groups.state
            words = [f"key_word({groups}, e, {i})" for i in range(kind.key_words)]
            for name, word in zip(self._key_names, words, strict=False):
                source.line(f"{name} = {word}")
            bound = self.groups.write_values()
            source.line(f"first, last = {self._nothing[0]}, {self._nothing[1]}")
            self._write_range(bound, "first", "last")
            self._write_usual()
            source.line("active = int(first != usual_first or last != usual_last)")
            key = _tuple(self._key_names or ["0"])
            source.line("begin, end = usual_first, usual_last")
            self._write_find(key)
            with source.block("if begin == first and end == last:"):
                source.line("return 0")
            self._write_note(key)
            with source.block("if quiet == 0:"):
                sign = -1 if self._is_outside else 1
                self._write_difference("begin", "end", "first", "last", -sign)
                self._write_difference("first", "last", "begin", "end", sign)
            source.line("return 0")
        source.line()

    def _write_note(self, key: str) -> None:
        """Write that the range is shown; the usual one is all zero."""
        source, shown = self.source, self.shown
        source.line(f"e = indexed_touch({shown}, {key})")
        for i, new in enumerate(("active", "first * active", "last * active")):
            source.line(f"indexed_add({shown}, e, {i}, {new} - int_at({shown}, e, {i}))")

    def _write_difference(self, a: str, b: str, c: str, d: str, sign: int) -> None:
        """Write what visits the levels from a to b that are not from c to d."""
        source, head = self.source, ", ".join([self._states, *self._key_names])
        with source.block(f"if {c} > {LOWEST} and {a} <= min({b}, {c} - 1):"):
            source.line(f"walk({head}, {a}, min({b}, {c} - 1), {sign}, texts, errors)")
        with source.block(f"if {d} < {HIGHEST} and max({a}, {d} + 1) <= {b}:"):
            source.line(f"walk({head}, max({a}, {d} + 1), {b}, {sign}, texts, errors)")

    def _write_settle(self) -> None:
        source, groups = self.source, self.groups.state
        with source.block(f"for t in range(keyed_touched({groups})):"):
            source.line(f"e = keyed_now({groups}, t)")
            self._write_search(0)
            source.line(f"judge({self._states}, e, 0, texts, errors)")

    def _write_search(self, always: int) -> None:
        if self.groups.has_extremes:
            self.source.line(f"search({self._states}, e, {always})")

    def _write_rebuild(self) -> None:
        source, groups = self.source, self.groups.state
        with source.block(f"def rebuild({self._states}, texts, errors):"):
            with source.block(f"for t in range(keyed_capacity({groups})):"):
                source.line(f"e = keyed_at({groups}, t)")
                with source.block("if e != -1:"):
                    self._write_search(1)
                    source.line(f"judge({self._states}, e, 1, texts, errors)")
            source.line("return 0")
        source.line()


def _operand(source: Source, field: Field, word: str) -> Operand:
    """What a word of a column reads as."""
    return read_words(source, [field], lambda _: word)[field.name]


def _tuple(words: list[str]) -> str:
    return f"({', '.join(words)},)"


def _is_one_level(test: Test) -> bool:
    """Whether one level passes at most; as floats, several large whole numbers are equal."""
    is_rounded = isinstance(test.bound.type, Float) and not isinstance(test.core.type, Float)
    return test.operator == "=" and not is_rounded

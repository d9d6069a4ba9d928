"""Equality correlation (RPAI, section 2.1.3): groups of the column, and levels of their sums.

A change of one row moves its group, and only that, from one aggregate to another: `move` takes what
the group adds to the view away from the level of its old aggregate and puts it to the new one. A
group without aggregate is at COALESCE's number, or else in the level of NULL, which never counts.
"""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Case, Cast, Column, Expression, Literal
from viewmill.algebra.relations import Aggregate, Filter, Project, Relation
from viewmill.algebra.schema import Field
from viewmill.algebra.types import BIGINT, BOOLEAN, Float
from viewmill.codegen.scalar import Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.codegen.words import as_word
from viewmill.program.states import Indexed, Ordered, Slot, State
from viewmill.strategies.aggregate_index.classify import Test
from viewmill.strategies.aggregate_index.levels import (
    LARGEST,
    OUTGROWN,
    Levels,
    Part,
    Word,
    wide_type,
    write_changes,
)


class Groups(Levels):
    """What is inside and outside, by the correlated column."""

    is_ordered = False

    def __init__(self, name: str, sums: Sums, move: str) -> None:
        super().__init__(name)
        self.sums, self.move = sums, move
        sums.by = self

    def add_word(self, part: Part, value: Expression | None, *others: Expression, name: str,
                 result: bool = False) -> Word:  # fmt: skip
        """Keep a word; what moves from level to level must come back exactly."""
        if value is not None and isinstance(value.type, Float):
            raise NotTaken("a sum of floats that moves from group to group", value.span)
        return super().add_word(part, value, *others, name=name, result=result)

    @property
    def indexed(self) -> Indexed:
        """The kind of the state."""
        slots = tuple(Slot(self.name_of(word), "wide") for word in self.words)
        return Indexed((replace(self.key, nullable=False),), slots, journal=True)

    def state(self) -> State:
        """The state with its definition: NULL equals nothing."""
        level = Column("level", self.key.type, True)
        is_null: Expression = Call("is_null", (level,), BOOLEAN, False)
        rows: Relation = self._definition()
        if self.key.nullable:
            rows = Filter(rows, Call("not", (is_null,), BOOLEAN, False))
        return State(self.name, self.indexed, rows)

    def find(
        self, source: str, where: tuple[Expression, ...], value: Expression | None
    ) -> tuple[Word, Word | None] | None:
        """None: this layout keeps nothing over all rows."""
        return None

    @property
    def results(self) -> list[Word]:
        """The words that the view sums."""
        return [word for word in self.words if word in self._results]

    def _write_part(self, scalar: Scalar, part: Part) -> None:
        source = scalar.source
        once, words = write_changes(scalar, self.words, part)
        assert part.key is not None
        key = once.emit(part.key)
        move = f"{self.move}({self.name}, {self.sums.name}, {as_word(key, self.key)}, "
        move += ", ".join([*words, "errors"]) + ")"
        if key.null is None:
            source.line(move)
            return
        with source.block(f"if not {key.null}:"):
            source.line(move)
        picked = [words[self.words.index(word)] for word in self.results]
        if any(word.part == part for word in self.results):
            with source.block("else:"):
                source.line(self.sums.add("True", "0", picked))

    def write_move(self, source: Source) -> None:
        """Write the function that changes a group."""
        names = [f"{self.name_of(word)}_change" for word in self.words]
        arguments = ", ".join([self.name, self.sums.name, "key", *names, "errors"])
        with source.block(f"def {self.move}({arguments}):"):
            source.line(f"e = indexed_touch({self.name}, (key,))")
            self._write_sums(source, "-")
            for word, name in zip(self.words, names, strict=True):
                k = self.indexed.word(self.name_of(word))
                source.line(f"indexed_add_wide({self.name}, e, {k}, wide_of({name}))")
            self._write_sums(source, "")
        source.line()

    def _write_sums(self, source: Source, sign: str) -> None:
        """Write what adds the group at e to the level of its aggregate, or takes it away."""
        assert self.counted is not None
        summed = self.counted if self.watched is None else self.watched
        picked = [f"{sign}{self._read(source, word)}" for word in self.results]
        is_empty = f"{self._read(source, self.counted)} == 0"
        source.line(self.sums.add(is_empty, self._read(source, summed), picked))

    def _read(self, source: Source, word: Word) -> str:
        k = self.indexed.word(self.name_of(word))
        if word.value is None:
            return f"wide_low(wide_at({self.name}, e, {k}))"
        why = source.message(OUTGROWN, f"the sums of {self.name} leave 64 bits", None)
        value = f"wide_at({self.name}, e, {k})"
        return f"wide_narrow(errors, {why}, -1, {value}, {-LARGEST}, {LARGEST})"


class Sums(Levels):
    """What is outside, by the aggregate of its group."""

    by: Groups

    def __init__(self, name: str, test: Test) -> None:
        super().__init__(name)
        assert test.value is not None
        self.call, self.default = test.value.call, test.default
        if self.call.function == "count":
            self.default = 0

    @property
    def words(self) -> list[Word]:
        """The words that the view sums."""
        return self.by.results

    def name_of(self, word: Word) -> str:
        """The slot of a word, by name."""
        return self.by.name_of(word)

    def add_word(self, part: Part, value: Expression | None, *others: Expression, name: str,
                 result: bool = False) -> Word:  # fmt: skip
        """Kept by group."""
        return self.by.add_word(part, value, *others, name=name, result=result)

    @property
    def parts(self) -> list[Part]:
        """Groups bring all changes."""
        return []

    @property
    def kind(self) -> Ordered:
        """The kind of the state."""
        level = Field("level", self.call.type, self.default is None)
        slots = tuple(Slot(self.by.name_of(word), "wide") for word in self.words)
        return Ordered(level, slots)

    def add(self, is_empty: str, aggregate: str, words: list[str]) -> str:
        """The call that adds words to the level of an aggregate."""
        changes = f"({', '.join(words)},)"
        if self.default is not None:
            key = aggregate if self.call.function == "count" else (
                f"{self.default} if {is_empty} else {aggregate}"
            )  # fmt: skip
            if is_empty == "True":
                key = str(self.default)
            return f"ordered_add({self.name}, ({key},), {changes})"
        if is_empty == "True":
            return f"ordered_add_null({self.name}, {changes})"
        return (
            f"ordered_add_null({self.name}, {changes}) if {is_empty} else "
            f"ordered_add({self.name}, ({aggregate},), {changes})"
        )

    def state(self) -> State:
        """The state with its definition: the groups once more, by their aggregates."""
        groups, kind = self.by, self.kind
        names = [groups.name_of(word) for word in self.words]
        types = [wide_type(word) for word in self.words]
        columns: list[tuple[str, Expression]] = [("aggregate", self._aggregate())]
        pairs = list(zip(names, types, strict=True))
        columns += [(name, Column(name, type_, False)) for name, type_ in pairs]
        level = Column("aggregate", kind.level.type, kind.level.nullable)
        sums = tuple(
            (name, AggregateCall("sum", (Column(name, type_, False),), type_, True))
            for name, type_ in pairs
        )
        rows = Project(groups._definition(), tuple(columns))
        return State(self.name, kind, Aggregate(rows, (("level", level),), sums))

    def _aggregate(self) -> Expression:
        groups, type_ = self.by, self.call.type
        assert groups.counted is not None
        summed = groups.counted if groups.watched is None else groups.watched
        column = Column(groups.name_of(summed), wide_type(summed), False)
        count = Column(groups.name_of(groups.counted), wide_type(groups.counted), False)
        zero = Cast(Literal(0, BIGINT), count.type, False)
        missing: Expression = Call("=", (count, zero), BOOLEAN, False)
        if groups.key.nullable:
            level = Column("level", groups.key.type, True)
            unmatched = Call("is_null", (level,), BOOLEAN, False)
            missing = Call("or", (unmatched, missing), BOOLEAN, False)
        instead: Expression = Cast(Literal(None, BIGINT), type_, True)
        if self.default is not None:
            number = Literal(self.default, BIGINT)
            instead = Cast(number, type_, False)
        return Case(((missing, instead),), Cast(column, type_, False), type_, self.default is None)

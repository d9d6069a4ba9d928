"""An ordered state under construction: whose rows go to which level, and what they add there.

takes  parts (rows of a table that meet conditions, with their level) and words (what is summed)
gives  the state with its definition, and the lines of a trigger that change it
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from viewmill.algebra.conditions import filtered
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Case, Cast, Column, Expression, Literal
from viewmill.algebra.relations import Aggregate, Project, Relation, Scan, SetOperation
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, BOOLEAN, DOUBLE, Decimal, Float, Type
from viewmill.algebra.walk import substitute
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.words import as_word
from viewmill.program.states import Ordered, Slot, State
from viewmill.strategies.aggregate_index.products import scale_of

PLUS, MINUS = 1, 1 << 32  # how infinities are counted; NaN is both
LARGEST = 1 << 61  # a level's sums stay exact as long as single changes are smaller
OUTGROWN = "Outgrown"  # the failure of numbers that a careful plan takes


@dataclass(frozen=True)
class Part:
    """The rows of a table that meet `where`, at level `key`; None is the only level there is.

    `first` is what the levels are grouped by, where that is another thing for each part.
    """

    scan: Scan = field(compare=False)
    source: str
    where: tuple[Expression, ...]
    key: Expression | None
    first: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Word:
    """The sum of `value` (None: the count) over a part's rows in which no guard is NULL.

    Of a float the finite ones are summed, and the others are counted by the word behind it, which
    `is_special`: infinity as 1, minus infinity as 2^32, NaN as both.
    """

    part: Part
    value: Expression | None
    guards: tuple[Expression, ...] = ()
    is_special: bool = False

    @property
    def is_real(self) -> bool:
        """Whether it is a float."""
        is_float = self.value is not None and isinstance(self.value.type, Float)
        return is_float and not self.is_special

    @property
    def special(self) -> Word:
        """The word behind a float."""
        return replace(self, is_special=True)

    @property
    def slot(self) -> OneOf["wide", "sum", "int"]:
        """The kind of slot that holds the word in an ordered state."""
        return "sum" if self.is_real else "int" if self.is_special else "wide"


class Levels:
    """The words of one ordered state; those that a selection sums come last."""

    is_ordered = True

    def __init__(self, name: str, first: tuple[Expression, ...] = ()) -> None:
        self.name, self.first = name, first
        self._words: dict[Word, str] = {}
        self._results: set[Word] = set()
        self.watched: Word | None = None  # what an aggregate inside sums
        self.counted: Word | None = None  # what it counts

    def add_word(self, part: Part, value: Expression | None, *others: Expression, name: str,
            result: bool = False) -> Word:  # fmt: skip
        """Keep a word; equal ones are kept once."""
        inside = () if value is None else (value,)
        guards = tuple(dict.fromkeys(each for each in (*inside, *others) if each.nullable))
        word = Word(part, value, guards)
        for each in (word, word.special) if word.is_real else (word,):
            self._words.setdefault(each, _free(name, self._words.values()))
            if result:
                self._results.add(each)
        return word

    def name_of(self, word: Word) -> str:
        """The slot of a word, by name."""
        return self._words[word]

    @property
    def words(self) -> list[Word]:
        """The words in the order of the state's slots."""
        return sorted(self._words, key=lambda word: word in self._results)

    def number(self, word: Word) -> int:
        """The number of a word in the state."""
        return self.kind.word(self.name_of(word))

    @property
    def parts(self) -> list[Part]:
        """Each once."""
        return list(dict.fromkeys(word.part for word in self._words))

    @property
    def key(self) -> Field:
        """The level."""
        keys = [part.key for part in self.parts if part.key is not None]
        if not keys:
            return Field("level", BIGINT, nullable=False)
        return Field("level", keys[0].type, nullable=any(each.nullable for each in keys))

    @property
    def groups(self) -> tuple[Field, ...]:
        """The columns that levels are grouped by."""
        return tuple(
            Field(f"group_{i}", each.type, each.nullable) for i, each in enumerate(self.first, 1)
        )

    @property
    def kind(self) -> Ordered:
        """The kind of the state."""
        slots = tuple(Slot(self._words[word], word.slot) for word in self.words)
        made = Ordered(self.key, slots, 0, None, self.groups)
        # An aggregate that counts rows is itself watched: UNCHECKED tables have negative ones.
        watched, counted = (
            None if each is None else made.word(self._words[each])
            for each in (self.watched or self.counted, self.counted if self.watched else None)
        )
        kept = len(self._words) - len(self._results)
        results = made.word(slots[kept].name) if self._results else made.payload_words
        return replace(made, results=results, watched=watched, counted=counted)

    def state(self) -> State:
        """The state with its definition."""
        return State(self.name, self.kind, self._definition())

    def first_of(self, part: Part) -> tuple[Expression, ...]:
        """What the levels of a part are grouped by."""
        return part.first or self.first

    def find(
        self, source: str, where: tuple[Expression, ...], value: Expression | None
    ) -> tuple[Word, Word | None] | None:
        """The words that count and sum `value` over the rows of a table, if all are kept."""
        for part in self.parts:
            if part.source != source or part.where != where:
                continue
            own = [word for word in self._words if word.part == part]
            counts = [w for w in own if w.value is None and w.guards == _nullable(value)]
            sums = [w for w in own if value is not None and w.value == value
                    and w.guards == _nullable(value) and not w.is_special]  # fmt: skip
            if counts and (sums or value is None):
                return counts[0], sums[0] if sums else None
        return None

    # Source.

    def write(self, scalar: Scalar, source: str) -> None:
        """Write what row i of a table, m times, changes."""
        for part in self.parts:
            if part.source == source:
                self._write_where(scalar, part, list(part.where))

    def _write_where(self, scalar: Scalar, part: Part, where: list[Expression]) -> None:
        if not where:
            self._write_part(scalar, part)
            return
        with scalar.source.block(f"if {scalar.is_true(where[0])}:"):
            self._write_where(scalar, part, where[1:])

    def _write_part(self, scalar: Scalar, part: Part) -> None:
        source = scalar.source
        once, words = write_changes(scalar, self.words, part)
        texts = [
            f"float_key({text}), 0, 0" if word.is_real else text
            for word, text in zip(self.words, words, strict=True)
        ]
        changes = f"({', '.join(texts)},)"
        key = Operand("0") if part.key is None else once.emit(part.key)
        if part.key is not None and isinstance(part.key.type, Float):
            key = Operand(f"sort_word(float_key({key.value}))", key.null)
        if self.first:
            source.line(f"ordered_add({self.name}, {self._grouped(once, part, key)}, {changes})")
            return
        add = f"ordered_add({self.name}, ({key.value},), {changes})"
        if key.null is None:
            source.line(add)
            return
        with source.block(f"if {key.null}:"):
            source.line(f"ordered_add_null({self.name}, {changes})")
        with source.block("else:"):
            source.line(add)

    def _grouped(self, once: Once, part: Part, level: Operand) -> str:
        """The key of a level in a group, as `Ordered` says."""
        operands, kind = [once.emit(each) for each in self.first_of(part)], self.kind
        words = [as_word(each, field) for each, field in zip(operands, kind.first, strict=True)]
        if not kind.has_bits:
            return f"({', '.join([*words, level.value])},)"
        nulls = [
            (i, each.null) for i, each in enumerate([level, *operands]) if each.null is not None
        ]
        bits = " | ".join(f"(int({null}) << {i})" if i else f"int({null})" for i, null in nulls)
        if kind.is_narrow:
            return f"(({words[0]} << 2) | {bits}, {level.value})"
        return f"({', '.join(words)}, {bits}, {level.value})"

    # Definition.

    def _definition(self) -> Relation:
        rows = [self._rows(i, part) for i, part in enumerate(self.parts)]
        united = rows[0]
        for each in rows[1:]:
            united = SetOperation("union", True, united, each)
        level = Column("level", self.key.type, self.key.nullable)
        sums = tuple(
            (
                name,
                AggregateCall(
                    "sum", (Column(name, kept_type(word), False),), kept_type(word), True
                ),
            )
            for word, name in ((word, self._words[word]) for word in self.words)
        )
        groups = tuple((f.name, Column(f.name, f.type, f.nullable)) for f in self.groups)
        return Aggregate(united, (*groups, ("level", level)), sums)

    def _rows(self, number: int, part: Part) -> Relation:
        """The rows of a part: level, then what each adds to each word."""
        alias = f"rows_{number}"
        names = [each.name.split(".", 1)[-1] for each in part.scan.schema]
        fields = zip(part.scan.schema, names, strict=True)
        schema = Schema(tuple(replace(each, name=f"{alias}.{name}") for each, name in fields))
        columns: dict[str, Expression] = {
            name: Column(each.name, each.type, each.nullable)
            for each, name in zip(schema, names, strict=True)
        }
        rows: Relation = Scan(part.source, alias, schema)
        rows = filtered(rows, (substitute(each, columns) for each in part.where))
        level: Expression = Literal(0, BIGINT) if part.key is None else part.key
        pairs = zip(self.groups, self.first_of(part), strict=True)
        outputs = [(field.name, substitute(each, columns)) for field, each in pairs]
        outputs.append(("level", substitute(level, columns)))
        for word in self.words:
            added = _added(word) if word.part == part else Literal(0, BIGINT)
            outputs.append(
                (self._words[word], Cast(substitute(added, columns), kept_type(word), False))
            )
        return Project(rows, tuple(outputs))


def _free(name: str, taken: object) -> str:
    names, wish, number = set(taken), name, 2  # type: ignore[call-overload]
    while wish in names:
        wish, number = f"{name}_{number}", number + 1
    return wish


def _nullable(value: Expression | None) -> tuple[Expression, ...]:
    return (value,) if value is not None and value.nullable else ()


def write_changes(
    scalar: Scalar, words: list[Word], part: Part, *, floats_once: bool = False
) -> tuple[Once, list[str]]:
    """Write what row i adds to each word; 0 where the part has no say.

    With `floats_once` a float is what the row adds each of its m times.
    """
    once = Once(scalar, floats_once)
    nothing = {True: "0.0", False: "0"}
    return once, [
        _change(once, word) if word.part == part else nothing[word.is_real] for word in words
    ]


class Once:
    """Writes each expression of a row once."""

    def __init__(self, scalar: Scalar, floats_once: bool = False) -> None:
        self._scalar, self.source = scalar, scalar.source
        self.floats_once = floats_once
        self._written: dict[Expression, Operand] = {}

    def emit(self, expression: Expression) -> Operand:
        """The operand of an expression, written once and reused."""
        if expression not in self._written:
            self._written[expression] = self._scalar.emit(expression)
        return self._written[expression]

    def times(self, expression: Expression) -> str:
        """The value times its multiplicity m, range-checked so that sums stay exact."""
        value = self.emit(expression).value
        why = self._scalar.failure(expression, OUTGROWN, "too large for an ordered state")
        return f"mul_checked({why}, {value}, m, {-LARGEST}, {LARGEST})"


def _change(once: Once, word: Word) -> str:
    """Write what row i adds to a word; the text that holds it."""
    source = once.source
    nulls = [null for each in word.guards if (null := once.emit(each).null) is not None]
    if word.value is not None and isinstance(word.value.type, Float):
        return _float_change(once, word, once.emit(word.value).value, nulls)
    text = "m" if word.value is None else once.times(word.value)
    if not nulls and word.value is None:
        return text
    change = source.name("change")
    if not nulls:
        source.line(f"{change} = {text}")
        return change
    source.line(f"{change} = 0")
    with source.block(f"if not ({' or '.join(dict.fromkeys(nulls))}):"):
        source.line(f"{change} = {text}")
    return change


def _float_change(once: Once, word: Word, value: str, nulls: list[str]) -> str:
    """The change of a float word: the finite value, or the marks of NaN and infinities."""
    source, change = once.source, once.source.name("change")
    source.line(f"{change} = {'0' if word.is_special else '0.0'}")
    test = f"{'not ' if word.is_special else ''}is_finite({value})"
    with source.block(f"if {' and '.join([*(f'not {null}' for null in nulls), test])}:"):
        if word.is_special:
            both, plus, minus = PLUS + MINUS, PLUS, MINUS
            kind = f"({both} if is_nan({value}) else {plus} if {value} > 0.0 else {minus})"
            source.line(f"{change} = m * {kind}")
        else:
            source.line(f"{change} = {value}{'' if once.floats_once else ' * m'}")
    return change


def wide_type(word: Word) -> Decimal:
    """The type of an exact word in definitions."""
    scaled = word.value is not None and not word.is_special
    return Decimal(38, scale_of(word.value.type) if scaled and word.value is not None else 0)


def kept_type(word: Word) -> Type:
    """The type of a word in definitions."""
    return DOUBLE if word.is_real else wide_type(word)


def _added(word: Word) -> Expression:
    if word.value is not None and isinstance(word.value.type, Float):
        return _added_float(word, word.value)
    value = Literal(1, BIGINT) if word.value is None else word.value
    wide = Cast(value, wide_type(word), value.nullable)
    if not word.guards:
        return wide
    missing: Expression | None = None
    for guard in word.guards:
        test = Call("is_null", (guard,), BOOLEAN, False)
        missing = test if missing is None else Call("or", (missing, test), BOOLEAN, False)
    assert missing is not None
    return Case(
        ((missing, Cast(Literal(0, BIGINT), wide_type(word), False)),), wide, wide_type(word), False
    )


def _added_float(word: Word, value: Expression) -> Expression:
    """What a row adds to the sum of what is finite, or to the count of what is not."""
    value = value if value.type == DOUBLE else Cast(value, DOUBLE, value.nullable)
    nothing = Call("is_null", (value,), BOOLEAN, False)
    for guard in word.guards:
        nothing = Call("or", (nothing, Call("is_null", (guard,), BOOLEAN, False)), BOOLEAN, False)
    is_nan = Call("isnan", (value,), BOOLEAN, False)
    infinite = [
        Call("=", (value, Literal(sign * math.inf, DOUBLE)), BOOLEAN, value.nullable)
        for sign in (1, -1)
    ]
    if not word.is_special:
        zero, tests = Literal(0.0, DOUBLE), (nothing, is_nan, *infinite)
        return Case(tuple((each, zero) for each in tests), value, DOUBLE, False)
    counts = zip((nothing, is_nan, *infinite), (0, PLUS + MINUS, PLUS, MINUS), strict=True)
    branches = tuple((test, Literal(count, BIGINT)) for test, count in counts)
    return Case(branches, Literal(0, BIGINT), BIGINT, False)

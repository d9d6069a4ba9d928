"""What a function over a window keeps with a row, and how it follows from the rows around it.

takes  a call, the order of the rows, and for each argument the column that holds it
gives  lines that compute its words for the row at q, and the value that words stand for

The rows of a partition are the positions begin to end; `prev` is the row before q, if `has_prev`.
What is kept of `prev` is right when q is computed: rows are visited in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viewmill.algebra.aggregates import DECLARED
from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import Expression, Literal, Over
from viewmill.algebra.types import Boolean, Float, Nested, Null, String, Type, Wide
from viewmill.codegen.exact import PAIR, Number, finished, scale_of
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.strategies.dataflow.operators.frames import Bounds
from viewmill.strategies.dataflow.operators.sequence import RowOrder


@dataclass
class WindowCall:
    """A call; `at` is the number of its first payload word."""

    name: str
    over: Over
    arguments: tuple[str, ...]
    order: RowOrder
    state: str
    bounds: Bounds
    source: Source
    at: int = 0
    needs_size = False

    @property
    def width(self) -> int:
        """Words that are kept of a row."""
        return 1

    @property
    def is_running(self) -> bool:
        """Whether what is kept of a row follows from what is kept of the row before."""
        return False

    def stored(self, position: str, i: int = 0) -> str:
        """What is kept of a row."""
        return f"sorted_word({self.state}, {position}, {self.at + i})"

    def argument(self, position: str, i: int = 0) -> Operand:
        """An argument for the row at a position."""
        return self.order.value(self.state, position, self.arguments[i])

    def compute(self) -> list[str]:
        """Write what computes the words of the row at q."""
        raise NotImplementedError

    def finish(self, scalar: Scalar) -> Operand:
        """Write what makes a value of the words of the row at q."""
        raise NotImplementedError

    def reach(self, touched: str) -> None:
        """Write which rows a change at p touches: from low, at least up to stop."""
        self.bounds.write_reach(self.source, touched)

    def names(self, *wishes: str) -> list[str]:
        """New names."""
        return [self.source.name(each) for each in wishes]

    def same_as_prev(self) -> str:
        """Whether the row before is equal in order."""
        words = self.order.words(self.bounds.peers)
        return f"has_prev and sorted_same({self.state}, prev, q, {words})"


class Ranking(WindowCall):
    """row_number, rank, dense_rank; rank keeps the number of the row besides."""

    is_running = True

    @property
    def width(self) -> int:
        """Words."""
        return 2 if self.over.function == "rank" else 1

    def compute(self) -> list[str]:
        """One more than the row before."""
        source, (value, number) = self.source, self.names("rank", "number")
        last = self.width - 1
        source.line(f"{number} = 1")
        step = f"int(not {self.same_as_prev()})" if self.over.function == "dense_rank" else "1"
        with source.block("if has_prev:"):
            source.line(
                f"{number} = {self.stored('prev', last)} + {step.replace('has_prev and ', '')}"
            )
        if self.over.function != "rank":
            return [number]
        source.line(f"{value} = {number}")
        with source.block(f"if {self.same_as_prev()}:"):
            source.line(f"{value} = {self.stored('prev')}")
        return [value, number]

    def finish(self, scalar: Scalar) -> Operand:
        """The first word."""
        return Operand(self.stored("q"))

    def reach(self, touched: str) -> None:
        """From the row on."""
        self.source.line(f"stop = max(stop, sorted_step({self.state}, p, 2, begin, end))")


class Share(WindowCall):
    """percent_rank, cume_dist, ntile: they hang on how many rows the partition has."""

    needs_size = True
    width = 3  # the answer, the rank or what is up to the peers, the number of the row

    def compute(self) -> list[str]:
        """The answer, its rank and its number."""
        source = self.source
        value, rank, number = self.names("share", "rank", "number")
        source.line(f"{number} = {self.stored('prev', 2)} + 1 if has_prev else 1")
        with source.block(f"if {self.same_as_prev()}:"):
            source.line(f"{rank} = {self.stored('prev', 1)}")
        with source.block("else:"):
            self._first_of_peers(rank, number)
        self._answer(value, rank, number)
        return [value, rank, number]

    def _first_of_peers(self, rank: str, number: str) -> None:
        source = self.source
        source.line(f"{rank} = {number}")
        if self.over.function == "cume_dist":
            words = self.order.words(self.bounds.peers)
            at = source.name("at")
            source.line(f"{at} = sorted_next({self.state}, q)")
            with source.block(f"while {at} < end and sorted_same({self.state}, {at}, q, {words}):"):
                source.line(f"{rank} += 1")
                source.line(f"{at} = sorted_next({self.state}, {at})")

    def _answer(self, value: str, rank: str, number: str) -> None:
        source = self.source
        if self.over.function == "percent_rank":
            source.line(f"{value} = float_key(({rank} - 1) / max(size - 1, 1))")
        elif self.over.function == "cume_dist":
            source.line(f"{value} = float_key({rank} / size)")
        else:
            count = constant_of(self.over, 0)
            if count <= 0:
                raise NotTaken("ntile needs a positive number", self.over.span)
            few, larger = f"(size // {count})", f"(size % {count})"
            source.line(f"{value} = {larger} * ({few} + 1)")
            with source.block(f"if {number} <= {value}:"):
                source.line(f"{value} = ({number} - 1) // ({few} + 1) + 1")
            with source.block("else:"):
                source.line(f"{value} = {larger} + ({number} - 1 - {value}) // {few} + 1")

    def finish(self, scalar: Scalar) -> Operand:
        """The first word."""
        word = self.stored("q")
        return Operand(word if self.over.function == "ntile" else f"key_float({word})")

    def reach(self, touched: str) -> None:
        """All of the partition."""
        self.source.line("low = begin")
        self.source.line("stop = end")


class Neighbour(WindowCall):
    """lag, lead, first_value, last_value, nth_value: the value of another row."""

    width = 2  # the value, whether it is NULL

    @property
    def is_running(self) -> bool:
        """Whether each value follows from the one before: the frame starts with the partition."""
        return not self._is_offset and self.bounds.is_running

    @property
    def _is_offset(self) -> bool:
        return self.over.function in ("lag", "lead")

    @property
    def _distance(self) -> int:
        distance = constant_of(self.over, 1)
        return -distance if self.over.function == "lag" else distance

    def compute(self) -> list[str]:
        """Find the other row, take its value."""
        source = self.source
        target, value, null = self.names("target", "value", "none")
        self._offset(target) if self._is_offset else self._in_frame(target)
        type_ = self.over.type
        source.line(f"{value} = 0")
        source.line(f"{null} = 1")
        with source.block(f"if {target} >= 0:"):
            self._take(self.argument(target), value, null)
        if self._is_offset and len(self.arguments) > 1:
            with source.block("else:"):
                self._take(self.argument("q", 1), value, null)
        check_word(type_, self.over)
        return [value, null]

    def _take(self, operand: Operand, value: str, null: str) -> None:
        source = self.source
        source.line(f"{null} = {'0' if operand.null is None else f'int({operand.null})'}")
        with source.block(f"if {null} == 0:"):
            source.line(f"{value} = {word_of(operand.value, self.over.type)}")

    def _offset(self, target: str) -> None:
        source, distance = self.source, self._distance
        if not self.over.ignore_nulls:
            source.line(f"{target} = sorted_offset({self.state}, q, {distance}, begin, end)")
            return
        left, step = source.name("left"), 1 if distance > 0 else -1
        source.line(f"{target} = q")
        source.line(f"{left} = {abs(distance)}")
        with source.block(f"while {target} >= 0 and {left} > 0:"):
            source.line(f"{target} = sorted_offset({self.state}, {target}, {step}, begin, end)")
            null = self.argument(target).null or "False"
            with source.block(f"if {target} >= 0 and not {null}:"):
                source.line(f"{left} -= 1")

    def _in_frame(self, target: str) -> None:
        source, (first, last) = self.source, self.names("first", "last")
        self.bounds.write_start(source, first, "q")
        self.bounds.write_end(source, last, "q")
        source.line(f"{target} = -1")
        backwards = self.over.function == "last_value"
        with source.block(f"if {first} < {last}:"):
            if backwards:
                source.line(f"{target} = sorted_prev({self.state}, {last})")
            else:
                source.line(f"{target} = {first}")
            left = source.name("left")
            nth = constant_of(self.over, 1) if self.over.function == "nth_value" else 1
            source.line(f"{left} = {nth}")
            self._walk(target, left, first, last, -1 if backwards else 1)

    def _walk(self, target: str, left: str, first: str, last: str, step: int) -> None:
        """Write what goes on until the row was met that counts for the last time."""
        source = self.source
        with source.block(f"while {target} >= 0:"):
            null = self.argument(target).null if self.over.ignore_nulls else None
            source.line(f"{left} -= {'1' if null is None else f'int(not {null})'}")
            with source.block(f"if {left} == 0:"):
                source.line("break")
            source.line(
                f"{target} = sorted_offset({self.state}, {target}, {step}, {first}, {last})"
            )

    def finish(self, scalar: Scalar) -> Operand:
        """The value, unless it is NULL."""
        return Operand(read_word(self.stored("q"), self.over.type), f"({self.stored('q', 1)} != 0)")

    def reach(self, touched: str) -> None:
        """The neighbours; all of the partition where NULL is passed over."""
        if self.over.ignore_nulls:
            self.source.line("low = begin")
            self.source.line("stop = end")
        elif self._is_offset:
            far = abs(self._distance) + 2
            step = f"sorted_step({self.state}, p, {{}}, begin, end)"
            self.source.line(f"low = min(low, {step.format(-far)})")
            self.source.line(f"stop = max(stop, {step.format(far)})")
        else:
            super().reach(touched)


class Fold(WindowCall):
    """count, sum, avg, min, max and what declares how values combine, over a frame.

    A frame that begins with the partition goes on from what is kept of the row before; the whole
    partition has one answer. A wide frame that slides takes from the answer of the row before what
    left it, and adds what came; a narrow one is walked through.
    """

    @property
    def is_running(self) -> bool:
        """Whether it goes on from the row before."""
        return self.bounds.is_running

    @property
    def _type(self) -> Type | None:
        """The type of the aggregated column; None for count(*)."""
        if not self.arguments:
            return None
        return self.order.columns[self.order.index[self.arguments[0]]].field.type

    @property
    def _way(self) -> str:
        if self.over.function == "count":
            return "count"
        if self.over.function in ("sum", "avg"):
            return "float" if isinstance(self._type, Float) else "exact"
        return "combined" if self.over.function in DECLARED else "extreme"

    @property
    def width(self) -> int:
        """Words: the parts of the value, for floats that slide the largest, for wide decimals how
        often the sum left 128 bits, then how many values count."""
        if (self._way == "float" and self.bounds.is_sliding) or self._may_leave:
            return 4
        return {"count": 1, "extreme": 2, "combined": 2}.get(self._way, 3)

    @property
    def _may_leave(self) -> bool:
        """Whether a sum has so many digits that it may leave 128 bits, and come back."""
        if self._way != "exact" or not isinstance(self._type, Wide):
            return False
        return self._type.precision > 28

    def compute(self) -> list[str]:
        """Write what adds up the frame."""
        check_word(self._type, self.over)
        source, words = self.source, [self.source.name("part") for _ in range(self.width)]
        at, to = self.names("at", "to")
        for word in words:
            source.line(f"{word} = 0")
        self.bounds.write_start(source, at, "q")
        self.bounds.write_end(source, to, "q")
        if self.bounds.is_sliding:
            self._slide(words, at, to)
            return words
        if self.bounds.is_whole or self.bounds.is_running:
            with source.block("if has_prev:"):
                for i, word in enumerate(words):
                    source.line(f"{word} = {self.stored('prev', i)}")
                self.bounds.write_end(source, at, "prev")
        self._walk(words, at, to)
        return words

    def _walk(self, words: list[str], at: str, to: str, *, also: str = "") -> None:
        """Write what adds the rows from `at` up to `to`."""
        with self.source.block(f"while {at} < {to}{also}:"):
            self._each(words, at, _ADD[self._way], "+")
            self.source.line(f"{at} = sorted_next({self.state}, {at})")

    def _slide(self, words: list[str], at: str, to: str) -> None:
        """Write what goes on from the frame of the row before, or walks if that says too little."""
        source = self.source
        gone, left, more, walk = self.names("gone", "left", "more", "walk")
        source.line(f"{walk} = 1")
        with source.block("if has_prev:"):
            source.line(f"{walk} = 0")
            for i, word in enumerate(words):
                source.line(f"{word} = {self.stored('prev', i)}")
            self.bounds.write_start(source, gone, "prev")
            self.bounds.write_end(source, more, "prev")
            source.line(f"{left} = min({at}, {more})")
            source.line(f"{more} = max({at}, {more})")
            with source.block(f"while {gone} < {left} and {walk} == 0:"):
                remove = _REMOVE[self._way]
                self._each(words, gone, lambda fold, w, x: remove(fold, w, x, walk), "-")
                source.line(f"{gone} = sorted_next({self.state}, {gone})")
            self._walk(words, more, to, also=f" and {walk} == 0")
            if self._way == "float":
                sum_ = f"abs(key_float({words[0]}) + key_float({words[1]}))"
                largest = f"key_float({words[2]})"
                near = f"{largest} < 1e290 and {sum_} >= 1e-15 * {largest}"
                with source.block(f"if not ({near}):"):
                    source.line(f"{walk} = 1")
        with source.block(f"if {walk} != 0:"):
            for word in words:
                source.line(f"{word} = 0")
            self._walk(words, at, to)

    def _each(
        self, words: list[str], at: str, do: Callable[[Fold, list[str], str], None], sign: str
    ) -> None:
        """Write what adds the row at a position, or takes it out."""
        source = self.source
        if not self.arguments:
            source.line(f"{words[0]} {sign}= 1")
            return
        operand = self.argument(at)
        condition = "True" if operand.null is None else f"not {operand.null}"
        with source.block(f"if {condition}:"):
            x = source.name("x")
            source.line(f"{x} = {operand.value}")
            do(self, words, x)
            source.line(f"{words[-1]} {sign}= 1")

    def add_exact(self, words: list[str], x: str) -> None:
        """Write what adds a number of which no digit is lost."""
        self._plus(words, self._value(x))

    def remove_exact(self, words: list[str], x: str, walk: str) -> None:
        """Write what takes it away again."""
        self._plus(words, f"wide_negate({self._value(x)})")

    def _value(self, x: str) -> str:
        return f"wide_number(texts, {x})" if isinstance(self._type, Wide) else f"wide_of({x})"

    def _plus(self, words: list[str], value: str) -> None:
        """Write what adds a value to the sum."""
        there, w = f"wide_from({words[0]}, {words[1]})", self.source.name("w")
        self.source.line(f"{w} = {value}")
        if self._may_leave:
            self.source.line(f"{words[2]} += wide_carry({there}, {w})")
        self.source.line(f"{w} = wide_plus({there}, {w})")
        self.source.line(f"{words[0]} = wide_low({w})")
        self.source.line(f"{words[1]} = wide_high({w})")

    def add_float(self, words: list[str], x: str) -> None:
        """Write what adds a float, remembering what rounding takes.

        Where the frame slides, the largest number on the way says how much may have been lost.
        """
        source, (high, low) = self.source, self.names("high", "low_part")
        parts = f"key_float({words[0]}), key_float({words[1]})"
        source.line(f"{high}, {low} = pair_add({parts}, {x})")
        source.line(f"{words[0]} = float_key({high})")
        source.line(f"{words[1]} = float_key({low})")
        if self.bounds.is_sliding:
            for each in (x, high):
                with source.block(f"if abs({each}) > key_float({words[2]}):"):
                    source.line(f"{words[2]} = float_key(abs({each}))")

    def remove_float(self, words: list[str], x: str, walk: str) -> None:
        """Write what adds the opposite."""
        opposite = self.source.name("opposite")
        self.source.line(f"{opposite} = -{x}")
        self.add_float(words, opposite)

    def remove_extreme(self, words: list[str], x: str, walk: str) -> None:
        """Write what walks if the extreme itself may have left."""
        with self.source.block(f"if not ({self._is_better(read_word(words[0], self._type), x)}):"):
            self.source.line(f"{walk} = 1")

    def add_extreme(self, words: list[str], x: str) -> None:
        """Write what takes the better of two."""
        better = self._is_better(x, read_word(words[0], self._type))
        with self.source.block(f"if {words[1]} == 0 or {better}:"):
            self.source.line(f"{words[0]} = {word_of(x, self._type)}")

    def add_combined(self, words: list[str], x: str) -> None:
        """Write what combines what is there with one more value."""
        made = DECLARED[self.over.function].combine
        with self.source.block(f"if {words[1]} == 0:"):
            self.source.line(f"{words[0]} = {word_of(x, self._type)}")
        with self.source.block("else:"):
            self._put(words, made, x)

    def remove_combined(self, words: list[str], x: str, walk: str) -> None:
        """Write what takes a value out again, or walks if that cannot be done."""
        inverse = DECLARED[self.over.function].inverse
        if inverse:
            self._put(words, inverse, x)
        else:
            self.source.line(f"{walk} = 1")

    def _put(self, words: list[str], text: str, x: str) -> None:
        made = text.format(a=read_word(words[0], self._type), b=x)
        self.source.line(f"{words[0]} = {word_of(f'({made})', self._type)}")

    def _is_better(self, a: str, b: str) -> str:
        """Whether a is nearer to the extreme than b."""
        smaller = self.over.function == "min"
        first, second = (a, b) if smaller else (b, a)
        if isinstance(self._type, Float):
            return f"float_lt({first}, {second})"
        if isinstance(self._type, String):
            return f"text_less(texts, {self.source.every_text()}, {first}, {second})"
        if isinstance(self._type, Wide):
            return f"wide_less(texts, {first}, {second})"
        return f"{first} < {second}"

    def finish(self, scalar: Scalar) -> Operand:
        """Write the value of the words of row q."""
        source, stored = self.source, [self.stored("q", i) for i in range(self.width)]
        if self._way == "count":
            return Operand(stored[0])
        null = f"({stored[-1]} == 0)"
        if self._way in ("extreme", "combined"):
            return Operand(read_word(stored[0], self._type), null)
        value = source.name(self.over.function)
        if self._way == "float":
            source.line(f"{value} = key_float({stored[0]}) + key_float({stored[1]})")
            if self.over.function == "avg":
                source.line(f"{value} = {value} / max({stored[-1]}, 1)")
            return Operand(value, null)
        self._finish_exact(scalar, value, null, stored)
        return Operand(value, null)

    def _finish_exact(self, scalar: Scalar, value: str, null: str, stored: Sequence[str]) -> None:
        source, w = self.source, self.source.name("w")
        source.line(f"{w} = wide_from({stored[0]}, {stored[1]})")
        if isinstance(self.over.type, Float):
            source.line(f"{value} = wide_to_real({w}) / max({stored[-1]}, 1)")
            return
        assert self._type is not None
        total = Number(w, scale_of(self._type), PAIR, True)
        count = f"max({stored[-1]}, 1)"
        if self._may_leave:
            text = f"{display_expression(self.over)}: the result does not fit {self.over.type}"
            code = source.message("Overflow", text, self.over.span)
            with source.block(f"if {stored[2]} != 0:"):
                source.line(f"fail(errors, {code}, -1)")
        source.line(f"{value} = 0")
        with source.block(f"if not {null}:"):
            made = finished(scalar, self.over, total, count)
            source.line(f"{value} = {made}")


_ADD: dict[str, Callable[[Fold, list[str], str], None]] = {
    "exact": Fold.add_exact,
    "float": Fold.add_float,
    "extreme": Fold.add_extreme,
    "combined": Fold.add_combined,
    "count": lambda fold, words, x: None,
}

_REMOVE: dict[str, Callable[[Fold, list[str], str, str], None]] = {
    "exact": Fold.remove_exact,
    "float": Fold.remove_float,
    "extreme": Fold.remove_extreme,
    "combined": Fold.remove_combined,
    "count": lambda fold, words, x, walk: None,
}

CALLS: dict[str, type[WindowCall]] = {
    "row_number": Ranking, "rank": Ranking, "dense_rank": Ranking, "percent_rank": Share,
    "cume_dist": Share, "ntile": Share, "lag": Neighbour, "lead": Neighbour,
    "first_value": Neighbour, "last_value": Neighbour, "nth_value": Neighbour, "count": Fold,
    "sum": Fold, "avg": Fold, "min": Fold, "max": Fold,
    **{each.name: Fold for each in DECLARED.values() if each.combine},
}  # fmt: skip

# What the other arguments of a call are: constants, not columns.
VALUES = {"ntile": 0, "lag": 1, "lead": 1, "nth_value": 1}


def value_arguments(over: Over) -> tuple[Expression, ...]:
    """The arguments that are computed for each row."""
    if over.function in ("lag", "lead"):
        return (over.arguments[0], *over.arguments[2:])
    return over.arguments[: VALUES.get(over.function, len(over.arguments))]


def constant_of(over: Over, i: int) -> int:
    """An argument that must be a constant whole number."""
    argument = over.arguments[i]
    if not isinstance(argument, Literal) or not isinstance(argument.value, int):
        raise NotTaken(f"{over.function} with a number that is not constant", over.span)
    return argument.value


def word_of(value: str, type_: Type | None) -> str:
    """A value as a word."""
    if isinstance(type_, Float):
        return f"float_key({value})"
    return f"int({value})" if isinstance(type_, Boolean) else value


def read_word(word: str, type_: Type | None) -> str:
    """The value of a word."""
    if isinstance(type_, Float):
        return f"key_float({word})"
    return f"({word} != 0)" if isinstance(type_, Boolean) else word


def check_word(type_: Type | None, over: Over) -> None:
    """Raise `NotTaken` for what is no word."""
    if isinstance(type_, Nested | Null):
        raise NotTaken(f"{over.function} of {type_} over a window", over.span)

"""A ring that a user wrote in Python, and what it is when SQL calls it with typed columns.

A payload is a number, or a tuple of numbers and such tuples; all payloads of a ring have one shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import CodeType
from typing import Any
from typing import Literal as OneOf

from viewmill.errors import InvalidArgument

Payload = Any  # a number, or a tuple of payloads
Kind = OneOf["int", "float"]
Function = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Ring:
    """How payloads add, negate and multiply, and how a column's value becomes one.

    `lift` is one function for all columns, or a list with one for each argument. A row's payload is
    the product of the lifts of its columns; a row with a NULL is left out. `finish` turns the total
    of a group into what SQL shows: a number, or a tuple of numbers, which is shown as an array.
    """

    zero: Payload
    one: Payload
    add: Function
    negate: Function
    multiply: Function
    lift: Function | Sequence[Function]
    finish: Function | None = None
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        for name in ("add", "negate", "multiply"):
            if not callable(getattr(self, name)):
                raise InvalidArgument(f"{name} of a ring is a function")
        if not callable(self.lift):
            object.__setattr__(self, "lift", tuple(self.lift))
        if not all(map(callable, self.lifts(1))) or (self.finish and not callable(self.finish)):
            raise InvalidArgument("lift and finish of a ring are functions")
        if shape_of(self.zero) != shape_of(self.one):
            raise InvalidArgument("zero and one of a ring have one shape")
        if any(words_of(self.zero)):
            raise InvalidArgument(
                "the zero of a ring is 0 in every place",
                hint="Shift the payload: what a group without rows holds is all zeros.",
            )
        functions = (self.add, self.negate, self.multiply, *self._all_lifts(), self.finish)
        text = repr((self.zero, self.one, [function_text(each) for each in functions]))
        made = blake2b(text.encode(), digest_size=5).hexdigest()
        object.__setattr__(self, "fingerprint", made)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ring) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Ring({self.fingerprint})"

    def _all_lifts(self) -> tuple[Function, ...]:
        return self.lift if isinstance(self.lift, tuple) else (self.lift,)

    def lifts(self, count: int) -> tuple[Function, ...]:
        """One lift function per argument, for `count` arguments."""
        if callable(self.lift):
            return (self.lift,) * count
        return tuple(self.lift)

    def times(self, payload: Payload, count: int) -> Payload:
        """The sum of `count` copies of a payload; of its negation if `count` is negative."""
        if count < 0:
            payload, count = self.negate(payload), -count
        total = self.zero
        while count:
            if count & 1:
                total = self.add(total, payload)
            payload = self.add(payload, payload)
            count >>= 1
        return total

    def of_row(self, values: Sequence[Any]) -> Payload:
        """The payload of a row, None if a value is NULL."""
        payload: Payload = None
        for lift, value in zip(self.lifts(len(values)), values, strict=True):
            if value is None:
                return None
            lifted = lift(value)
            payload = lifted if payload is None else self.multiply(payload, lifted)
        return payload

    def total(self, rows: Sequence[Sequence[Any]]) -> Payload:
        """The payload of some rows."""
        total = self.zero
        for row in rows:
            payload = self.of_row(row)
            if payload is not None:
                total = self.add(total, payload)
        return total

    def shown(self, payload: Payload) -> Any:
        """What SQL shows."""
        return payload if self.finish is None else self.finish(payload)


@dataclass(frozen=True)
class RingCall:
    """A ring as an aggregate over columns of known kinds."""

    name: str
    ring: Ring
    arguments: tuple[Kind, ...]
    kinds: tuple[Kind, ...]  # of the words of a payload
    results: tuple[Kind, ...]  # of the words that are shown
    is_single: bool  # whether a number is shown, not an array
    commutes: bool = True

    @property
    def width(self) -> int:
        """How many words are shown."""
        return len(self.results)

    @property
    def carrier(self) -> str:
        """The type of what an engine gathers: the arguments of every row."""
        names = {"int": "BIGINT", "float": "DOUBLE"}
        fields = ",".join(f"_{i}:{names[kind]}" for i, kind in enumerate(self.arguments))
        return f"ARRAY<STRUCT<{fields}>>"

    @property
    def result(self) -> str:
        """The type of what is shown."""
        type_ = "DOUBLE" if "float" in self.results else "BIGINT"
        return type_ if self.is_single else f"ARRAY<{type_}>"

    def words(self, rows: Sequence[Sequence[Any]]) -> list[float]:
        """What is shown for a group of rows."""
        given = [
            [None if v is None else (int if k == "int" else float)(v)
             for v, k in zip(row, self.arguments, strict=True)]
            for row in rows
        ]  # fmt: skip
        shown = words_of(self.ring.shown(self.ring.total(given)))
        return [float(x) if kind == "float" else int(x) for x, kind in
                zip(shown, self.results, strict=True)]  # fmt: skip


_SAMPLES: dict[Kind, tuple[Any, ...]] = {"int": (1, 2, -3), "float": (0.5, 1.5, -2.25)}


def ring_call(name: str, ring: Ring, arguments: Sequence[Kind], *, commutes: bool) -> RingCall:
    """The kinds of a ring's words over such columns, found by trying it."""
    lifts = ring.lifts(len(arguments))
    if len(lifts) != len(arguments) or not arguments:
        wanted = "at least one argument" if callable(ring.lift) else f"{len(lifts)} arguments"
        raise InvalidArgument(f"{name} takes {wanted}, got {len(arguments)}")
    seen = [ring.zero, ring.one]
    for lift, kind in zip(lifts, arguments, strict=True):
        seen += [lift(each) for each in _SAMPLES[kind]]
    seen += [ring.multiply(a, b) for a in seen[1:] for b in seen[1:]]
    seen += [ring.add(a, b) for a in seen[1:4] for b in seen[1:4]]
    seen += [ring.negate(each) for each in seen[1:4]]
    shape = shape_of(ring.zero)
    if any(shape_of(each) != shape for each in seen):
        raise InvalidArgument(
            f"the payloads of {name} have different shapes",
            hint="zero, one, lift, add, negate and multiply all give tuples of one shape.",
        )
    kinds = _kinds(seen)
    shown = [ring.shown(each) for each in seen]
    if any(shape_of(each) != shape_of(shown[0]) for each in shown):
        raise InvalidArgument(f"finish of {name} gives different shapes")
    single = not isinstance(shown[0], tuple)
    return RingCall(name, ring, tuple(arguments), kinds, _kinds(shown), single, commutes)


def _kinds(payloads: Sequence[Payload]) -> tuple[Kind, ...]:
    words = zip(*(words_of(each) for each in payloads), strict=True)
    return tuple("float" if any(isinstance(x, float) for x in each) else "int" for each in words)


def words_of(payload: Payload) -> list[Any]:
    """The numbers of a payload, in order."""
    return [_at(payload, path) for path in paths_of(payload)]


def paths_of(payload: Payload) -> list[tuple[int, ...]]:
    """The paths to the numbers inside a payload's nested tuples."""
    return list(_paths(payload))


def _paths(payload: Payload) -> Iterator[tuple[int, ...]]:
    if not isinstance(payload, tuple):
        if isinstance(payload, bool) or not isinstance(payload, int | float):
            raise InvalidArgument(
                f"a payload is a number or a tuple of numbers, got {type(payload).__name__}",
                hint="Write a matrix as a tuple of rows, which are tuples.",
            )
        yield ()
        return
    for i, each in enumerate(payload):
        for path in _paths(each):
            yield (i, *path)


def shape_of(payload: Payload) -> list[tuple[int, ...]]:
    """The shape of a payload: equal for those that have their numbers in equal places."""
    return paths_of(payload)


def _at(payload: Payload, path: Sequence[int]) -> Any:
    for i in path:
        payload = payload[i]
    return payload


def function_text(function: Function | None) -> str:
    """What a function does, as far as it can be told: its code, constants and what it closes on."""
    code = getattr(function, "__code__", None)
    if code is None:
        return repr(function)
    cells = [repr(cell.cell_contents) for cell in getattr(function, "__closure__", None) or ()]
    named = getattr(function, "__globals__", {})
    used = [
        function_text(named[n]) if callable(named[n]) else repr(named[n])
        for n in sorted(set(code.co_names)) if n in named and named[n] is not function
    ]  # fmt: skip
    return repr((_code(code), getattr(function, "__defaults__", None), cells, used))


def _code(code: CodeType) -> Any:
    consts = [_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return (code.co_code.hex(), consts, code.co_names, code.co_varnames[: code.co_argcount])

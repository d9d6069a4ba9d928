"""An associative operation that windows aggregate with, and what is known about it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from viewmill.algebra.rings import function_text
from viewmill.errors import InvalidArgument

Value = Any  # a number, or a tuple of numbers
Function = Callable[..., Any]


@dataclass(frozen=True)
class Operation:
    """How two neighbouring stretches of rows become one value: a number or a tuple of numbers.

    combine      (older, newer) -> value; associative, which is checked on samples
    identity     combine(identity, a) == a == combine(a, identity)
    inverse      (total, oldest) -> total without `oldest`, where there is such a thing
    selective    combine(a, b) is always a or b
    commutative  combine(a, b) == combine(b, a); `commutes` is another word for it
    lift         a column's value -> a value; as it is, if not given
    lower        a value -> the number that SQL shows; as it is, if not given
    samples      what to check the laws on; numbers around zero, lifted, if not given
    """

    name: str = ""
    combine: Function = None  # type: ignore[assignment]  # checked when it is made
    identity: Value = 0
    inverse: Function | None = None
    selective: bool = False
    commutative: bool = False
    samples: Sequence[Value] = ()
    lift: Function | None = None
    lower: Function | None = None
    commutes: bool | None = None

    def __post_init__(self) -> None:
        for word in ("combine", "inverse", "lift", "lower"):
            given = getattr(self, word)
            if not callable(given) and (given is not None or word == "combine"):
                raise InvalidArgument(f"{word} of an operation is a function")
        if self.commutes is not None:
            object.__setattr__(self, "commutative", self.commutes)
        object.__setattr__(self, "samples", tuple(self.samples))
        check_laws(self)

    def has(self, need: str) -> bool:
        """Whether a technique that needs this can use the operation.

        >>> MAX.has("inverse"), MAX.has("selective"), MAX.has("")
        (False, True, True)
        """
        return {"": True, "inverse": self.inverse is not None, "selective": self.selective}[need]

    @property
    def width(self) -> int:
        """How many numbers a value is."""
        return len(self.identity) if isinstance(self.identity, tuple) else 1

    @property
    def fingerprint(self) -> str:
        """A hash of the operation's code, so that changed code never finds an old cached kernel."""
        text = repr((self.identity, [function_text(e) for e in (self.combine, self.inverse)]))
        return blake2b(text.encode(), digest_size=6).hexdigest()

    def combined(self, older: Value, newer: Value) -> Value:
        """The combination of two values."""
        return self.combine(older, newer)

    def lifted(self, value: Any) -> Value:
        """The value of one row."""
        return value if self.lift is None else self.lift(value)

    def lowered(self, value: Value) -> Any:
        """What SQL shows: a number. What cannot be computed is NaN."""
        shown = value[0] if isinstance(value, tuple) else value
        try:
            shown = shown if self.lower is None else self.lower(value)
        except ArithmeticError:
            return float("nan")
        return shown.item() if hasattr(shown, "item") else shown

    def packed(self, numbers: Sequence[Any]) -> Value:
        """A value made of these numbers."""
        return tuple(numbers) if isinstance(self.identity, tuple) else numbers[0]

    def total(self, values: Sequence[Any]) -> Any:
        """What SQL shows for rows in this order."""
        total = self.identity
        for i, each in enumerate(each for each in values if each is not None):
            total = self.lifted(each) if i == 0 else self.combined(total, self.lifted(each))
        return self.lowered(total)


def check_laws(operation: Operation) -> None:
    """Refuse an operation that does not do what it declares, as far as samples show."""
    chance = random.Random(7)
    usual = [-7, -3, -2, -1, 0, 1, 2, 3, 5, 11, 64]
    pool = list(operation.samples) or [operation.lifted(each) for each in usual]
    combine, identity = operation.combined, operation.identity
    for each in (identity, *pool):
        _check_shape(operation, each)
    for _ in range(200):
        a, b, c = (chance.choice(pool) for _ in range(3))
        left, right = combine(combine(a, b), c), combine(a, combine(b, c))
        _need(operation, left, right, f"is not associative on {a}, {b}, {c}")
        _need(operation, combine(identity, a), a, f"does not leave {a} alone beside its identity")
        _need(operation, combine(a, identity), a, f"does not leave {a} alone beside its identity")
        both = combine(a, b)
        if operation.commutative:
            _need(operation, both, combine(b, a), f"is not commutative on {a}, {b}")
        if operation.selective and both != a:
            _need(operation, both, b, f"is not selective on {a}, {b}")
        if operation.inverse is not None:
            _need(operation, operation.inverse(both, a), b, f"does not undo {a} in {a}, {b}")


def _check_shape(operation: Operation, value: Value) -> None:
    numbers = value if isinstance(value, tuple) else (value,)
    is_same = isinstance(value, tuple) == isinstance(operation.identity, tuple)
    if not is_same or len(numbers) != operation.width:
        raise InvalidArgument(
            f"the values of {_called(operation)} have different shapes",
            detail=f"the identity is {operation.identity!r}, and {value!r} another value",
            hint="lift gives what identity is: a number, or a tuple of so many numbers.",
        )
    if not all(isinstance(each, int | float) for each in numbers):
        raise InvalidArgument(f"{value!r} of {_called(operation)} is not made of numbers")


def _need(operation: Operation, found: Value, expected: Value, fault: str) -> None:
    if found == expected or _is_near(found, expected):
        return
    raise InvalidArgument(
        f"{_called(operation)} {fault}",
        detail=f"got {found}, expected {expected}",
        hint="Windows are put together from parts: the operation must not depend on how.",
    )


def _called(operation: Operation) -> str:
    return f"operation {operation.name!r}" if operation.name else "the operation"


def _is_near(found: Value, expected: Value) -> bool:
    if isinstance(expected, tuple):
        same = isinstance(found, tuple) and len(found) == len(expected)
        return same and all(map(_is_near, found, expected))
    return bool(found == expected or abs(found - expected) <= 1e-9 * max(1.0, abs(expected)))


def _add(older: Any, newer: Any) -> Any:
    return older + newer


def _subtract(total: Any, oldest: Any) -> Any:
    return total - oldest


def _max(older: Any, newer: Any) -> Any:
    return older if older > newer else newer


def _min(older: Any, newer: Any) -> Any:
    return older if older < newer else newer


SUM = Operation("sum", _add, 0, _subtract, commutative=True)
MAX = Operation("max", _max, float("-inf"), selective=True, commutative=True)
MIN = Operation("min", _min, float("inf"), selective=True, commutative=True)

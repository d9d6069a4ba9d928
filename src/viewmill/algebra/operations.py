"""An associative operation that windows aggregate with, and what is known about it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from viewmill.algebra.rings import function_text
from viewmill.errors import InvalidArgument

Number = int | float


@dataclass(frozen=True)
class Operation:
    """How two neighbouring stretches of rows become one value.

    combine      (older, newer) -> value; associative, which is checked on samples
    identity     combine(identity, a) == a == combine(a, identity)
    inverse      (total, oldest) -> total without `oldest`, where there is such a thing
    selective    combine(a, b) is always a or b
    commutative  combine(a, b) == combine(b, a)
    """

    name: str
    combine: Callable[[Any, Any], Any]
    identity: Any
    inverse: Callable[[Any, Any], Any] | None = None
    selective: bool = False
    commutative: bool = False
    samples: Sequence[Number] = ()  # what to check the laws on; numbers around zero if not given

    def __post_init__(self) -> None:
        check_laws(self)

    @property
    def width(self) -> int:
        """How many numbers a value is."""
        return len(self.identity) if isinstance(self.identity, tuple) else 1

    @property
    def fingerprint(self) -> str:
        """Changes with the code of the operation."""
        return blake2b(function_text(self.combine).encode(), digest_size=6).hexdigest()

    def has(self, need: str) -> bool:
        """Whether a technique that needs this can use the operation.

        >>> MAX.has("inverse"), MAX.has("selective"), MAX.has("")
        (False, True, True)
        """
        return {"": True, "inverse": self.inverse is not None, "selective": self.selective}[need]


def check_laws(operation: Operation) -> None:
    """Refuse an operation that does not do what it declares, as far as samples show."""
    chance = random.Random(7)
    pool = list(operation.samples) or [-7, -3, -2, -1, 0, 1, 2, 3, 5, 11, 64]
    combine, identity = operation.combine, operation.identity
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


def _need(operation: Operation, found: Any, expected: Any, fault: str) -> None:
    if abs(found - expected) <= 1e-9 * max(1.0, abs(expected)) or found == expected:
        return
    raise InvalidArgument(
        f"operation {operation.name!r} {fault}",
        detail=f"got {found}, expected {expected}",
        hint="Windows are put together from parts: the operation must not depend on how.",
    )


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

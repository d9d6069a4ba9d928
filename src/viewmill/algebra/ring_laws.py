"""The laws of a ring, tried on samples: what breaks one is no ring, and would give wrong sums.

takes  a ring
gives  the laws it breaks, and whether it commutes
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

from viewmill.algebra.rings import Payload, Ring, words_of

_VALUES = (1, 2, -3, 0, 0.5, -1.25)
_SAMPLE_SIZE = 9  # payloads; the laws are checked on all triples of them

Law = tuple[str, Callable[[Ring, Payload, Payload, Payload], tuple[Payload, Payload]]]
LAWS: tuple[Law, ...] = (
    ("a + b = b + a", lambda r, a, b, c: (r.add(a, b), r.add(b, a))),
    ("(a + b) + c = a + (b + c)",
     lambda r, a, b, c: (r.add(r.add(a, b), c), r.add(a, r.add(b, c)))),
    ("a + 0 = a", lambda r, a, b, c: (r.add(a, r.zero), a)),
    ("a + (-a) = 0", lambda r, a, b, c: (r.add(a, r.negate(a)), r.zero)),
    ("(a * b) * c = a * (b * c)",
     lambda r, a, b, c: (r.multiply(r.multiply(a, b), c), r.multiply(a, r.multiply(b, c)))),
    ("a * 1 = a", lambda r, a, b, c: (r.multiply(a, r.one), a)),
    ("1 * a = a", lambda r, a, b, c: (r.multiply(r.one, a), a)),
    ("a * 0 = 0", lambda r, a, b, c: (r.multiply(a, r.zero), r.zero)),
    ("a * (b + c) = a * b + a * c", lambda r, a, b, c: (
        r.multiply(a, r.add(b, c)), r.add(r.multiply(a, b), r.multiply(a, c)))),
    ("(a + b) * c = a * c + b * c", lambda r, a, b, c: (
        r.multiply(r.add(a, b), c), r.add(r.multiply(a, c), r.multiply(b, c)))),
)  # fmt: skip


def samples(ring: Ring) -> list[Payload]:
    """Payloads that a ring meets: zero, one, lifts, and what is made of them."""
    found: list[Payload] = [ring.zero, ring.one]
    for lift in ring.lifts(1) if callable(ring.lift) else ring.lifts(len(ring.lift)):
        for value in _VALUES:
            try:
                found.append(lift(value))
            except (ArithmeticError, TypeError, ValueError, IndexError, KeyError):
                continue  # a lift may know some values only
    some = found[2:6]
    found += [ring.add(a, b) for a, b in pairwise(some)]
    found += [ring.multiply(a, b) for a, b in zip(some, reversed(found), strict=False)]
    kept = list({repr(each): each for each in found}.values())
    step = max(len(kept) // _SAMPLE_SIZE, 1)
    return kept[::step][: _SAMPLE_SIZE + 2]


def broken_law(ring: Ring) -> str | None:
    """The first law that a ring breaks, with the payloads that show it."""
    tried = samples(ring)
    for name, law in LAWS:
        for a, b, c in product(tried, repeat=3):
            left, right = law(ring, a, b, c)
            if not is_near(left, right):
                shown = f"a = {a}, b = {b}, c = {c}"
                return f"{name} does not hold: {left} and {right}, for {shown}"
    return None


def commutes(ring: Ring) -> bool:
    """Whether a * b = b * a."""
    pairs = product(samples(ring), repeat=2)
    return all(is_near(ring.multiply(a, b), ring.multiply(b, a)) for a, b in pairs)


def is_near(left: Payload, right: Payload) -> bool:
    """Equal but for rounding."""
    ours, theirs = words_of(left), words_of(right)
    return len(ours) == len(theirs) and all(map(_near, ours, theirs))


def _near(a: Any, b: Any) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)

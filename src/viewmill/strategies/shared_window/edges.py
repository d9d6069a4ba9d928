"""How many edges a composite slide has per unit, computed by the paper's F1.

takes  progressions of positions
gives  edges per unit

F1 is inclusion and exclusion: the positions of several progressions that fall together are one
progression again (of the least common multiple of the steps) or none. Many sets of them fall
together in the same one, so a signed number is kept for each instead of a term for each set. The
paper's formula (2) is the case without offsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from math import gcd, lcm

from viewmill.errors import InvalidArgument
from viewmill.strategies.shared_window.queries import Progression

MOST_TERMS = 200_000


def edge_rate(progressions: Iterable[Progression]) -> Fraction:
    """Edges per unit by F1."""
    return _edge_rate(frozenset(progressions))


@cache
def _edge_rate(progressions: frozenset[Progression]) -> Fraction:
    terms: dict[tuple[int, int], int] = {}  # (step, offset) -> how often it counts
    for each in without_contained(progressions):
        added = {(each.step, each.offset % each.step): 1}
        for (step, offset), count in terms.items():
            together = meet(step, offset, each.step, each.offset)
            if together is not None:
                added[together] = added.get(together, 0) - count
        for term, count in added.items():
            total = terms.get(term, 0) + count
            if total:
                terms[term] = total
            else:
                terms.pop(term, None)
        if len(terms) > MOST_TERMS:
            raise InvalidArgument("the slides have too many different common multiples")
    whole = lcm(*(step for step, _ in terms))
    return Fraction(sum(count * (whole // step) for (step, _), count in terms.items()), whole)


def without_contained(progressions: Iterable[Progression]) -> list[Progression]:
    """The progressions that no other one contains, the most frequent first."""
    kept: dict[int, set[int]] = {}  # offsets by step
    found = []
    for each in sorted({Progression(e.step, e.offset % e.step) for e in progressions}):
        finer = (step for step in kept if each.step % step == 0)
        if not any(each.offset % step in kept[step] for step in finer):
            kept.setdefault(each.step, set()).add(each.offset)
            found.append(each)
    return found


def meet(step: int, offset: int, other_step: int, other_offset: int) -> tuple[int, int] | None:
    """Where two progressions fall together (Chinese remainders): one progression, or none.

    >>> meet(4, 1, 6, 3), meet(4, 1, 6, 2)
    ((12, 9), None)
    """
    common = gcd(step, other_step)
    apart = other_offset - offset
    if apart % common:
        return None
    both = step // common * other_step
    times = apart // common * pow(step // common, -1, other_step // common)
    return both, (offset + step * (times % (other_step // common))) % both

"""A window as the optimizer sees it: range, slide, and where its partials begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from viewmill.errors import InvalidArgument


@dataclass(frozen=True, order=True)
class WindowQuery:
    """Answers every `slide` units of time (or rows) for the last `range` units."""

    range: int
    slide: int

    def __post_init__(self) -> None:
        if self.range <= 0:
            raise InvalidArgument(f"a window has a positive range, not {self.range}")
        if self.slide <= 0:
            raise InvalidArgument(f"a window has a positive slide, not {self.slide}")


@dataclass(frozen=True, order=True)
class Progression:
    """The positions offset, offset + step, offset + 2 step, ..."""

    step: int
    offset: int = 0

    def contains(self, other: Progression) -> bool:
        """Whether every position of the other is one of ours."""
        return other.step % self.step == 0 and (other.offset - self.offset) % self.step == 0


def panes(query: WindowQuery) -> tuple[Progression, ...]:
    """Equal partials: as long as both the range and the slide allow."""
    return (Progression(gcd(query.range, query.slide)),)


def pairs(query: WindowQuery) -> tuple[Progression, ...]:
    """Cut each slide in two: the fragment of range mod slide comes last, as windows end there."""
    ends, starts = Progression(query.slide), Progression(query.slide, -query.range % query.slide)
    return (ends,) if ends == starts else (ends, starts)


def cutty(query: WindowQuery) -> tuple[Progression, ...]:
    """A partial begins where a window begins; an answer also reads the open partial."""
    return (Progression(query.slide, -query.range % query.slide),)


PARTIALS = {"panes": panes, "pairs": pairs, "cutty": cutty}

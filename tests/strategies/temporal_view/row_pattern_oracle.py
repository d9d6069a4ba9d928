"""SQL's row patterns by definition: every way to match, the preferred one first. Slow and sure.

A pattern is a nested tuple: ("var", name), ("seq", ...), ("alt", ...), ("perm", ...), ("hide", p),
("rep", p, low, high, greedy), ("start",), ("end",). A value is a function of a `Match` and a place
in it; None is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

Row = tuple[Any, ...]
Labels = tuple[tuple[str, bool], ...]  # of each row its variable, and whether it is hidden


@dataclass(frozen=True)
class Match:
    """Rows of a group, where a match starts in them, the variables of its rows."""

    rows: Sequence[Row]
    start: int
    labels: Labels
    number: int
    subsets: dict[str, str] = field(default_factory=dict)

    def places(self, names: str, at: int) -> list[int]:
        """The places up to one that are of some variables; "" means all."""
        wanted = set(self.subsets.get(names, names))
        found = range(self.start, min(at, self.start + len(self.labels) - 1) + 1)
        return [p for p in found if not names or self.labels[p - self.start][0] in wanted]

    def row(self, at: int | None) -> Row | None:
        """A row of the group."""
        return self.rows[at] if at is not None and 0 <= at < len(self.rows) else None

    def label(self, at: int | None) -> str | None:
        """The variable of a row, if it is in the match."""
        inside = at is not None and 0 <= at - self.start < len(self.labels)
        return self.labels[at - self.start][0] if inside and at is not None else None


Value = Callable[[Match, int], Any]


def ways(
    pattern: Any, rows: Sequence[Row], start: int, at: int, labels: Labels, hidden: bool,
    fits: Callable[[str, int, Labels], bool],
) -> Iterator[tuple[int, Labels]]:  # fmt: skip
    """Where a pattern can end, and the variables up to there; what is preferred comes first."""
    kind, *parts = pattern

    def on(part: Any, at: int, labels: Labels, hidden: bool = hidden) -> Any:
        return ways(part, rows, start, at, labels, hidden, fits)

    match kind:
        case "var":
            made = (*labels, (parts[0], hidden))
            if at < len(rows) and fits(parts[0], at, made):
                yield at + 1, made
        case "seq":
            if not parts:
                yield at, labels
                return
            for middle, so_far in on(parts[0], at, labels):
                yield from on(("seq", *parts[1:]), middle, so_far)
        case "alt":
            for part in parts:
                yield from on(part, at, labels)
        case "perm":
            for order in permutations(parts):
                yield from on(("seq", *order), at, labels)
        case "hide":
            yield from on(parts[0], at, labels, True)
        case "start":
            if at == 0:
                yield at, labels
        case "end":
            if at == len(rows):
                yield at, labels
        case _:
            inner, low, high, is_greedy = parts
            if low:
                rest = ("rep", inner, low - 1, None if high is None else high - 1, is_greedy)
                yield from on(("seq", inner, rest), at, labels)
                return
            if not is_greedy:
                yield at, labels
            if high is None or high > 0:
                rest = ("rep", inner, 0, None if high is None else high - 1, is_greedy)
                for middle, so_far in on(inner, at, labels):
                    if middle > at or high is not None:  # one of any number takes a row
                        yield from on(rest, middle, so_far)
            if is_greedy:
                yield at, labels


@dataclass(frozen=True)
class Clause:
    """MATCH_RECOGNIZE over rows (time, group, ...)."""

    pattern: Any
    define: dict[str, Value]
    measures: Sequence[tuple[Value, bool]]  # whether final
    shown: str = "one"
    skip: str = "past"
    skip_to: str = ""
    subsets: dict[str, str] = field(default_factory=dict)
    within: int | None = None

    def show(self, rows: Sequence[Row]) -> list[Row]:
        """What the clause shows of the rows of one group, which are in order."""
        found: list[Row] = []
        at, number, covered = 0, 0, 0
        while at < len(rows):
            match = self._first(rows, at, number + 1)
            if match is None:
                if self.shown == "unmatched" and at >= covered:
                    found.append(self._row(rows[at], [None] * len(self.measures)))
                at += 1
                continue
            number += 1
            found += self._shown(match)
            end = at + len(match.labels)
            covered = max(covered, end)
            at = self._following(match, end)
        return found

    def _first(self, rows: Sequence[Row], start: int, number: int) -> Match | None:
        def fits(name: str, at: int, labels: Labels) -> bool:
            if self.within is not None and rows[at][0] - rows[start][0] > self.within:
                return False
            test = self.define.get(name)
            return (
                test is None or test(Match(rows, start, labels, number, self.subsets), at) is True
            )

        for _, labels in ways(self.pattern, rows, start, start, (), False, fits):
            return Match(rows, start, labels, number, self.subsets)
        return None

    def _following(self, match: Match, end: int) -> int:
        if end == match.start or self.skip == "next":
            return match.start + 1
        if self.skip == "past":
            return end
        places = match.places(self.skip_to, end)
        at = places[0 if self.skip == "first" else -1]
        assert at > match.start
        return at

    def _shown(self, match: Match) -> list[Row]:
        start, end = match.start, match.start + len(match.labels)
        if start == end and self.shown == "omit empty":
            return []
        shown = [end - 1] if self.shown == "one" else list(range(start, end))
        if start == end:
            shown = [start]
        found = []
        for at in shown:
            if self.shown != "one" and start < end and match.labels[at - start][1]:
                continue
            seen = start - 1 if start == end else at
            values = [value(match, end - 1 if is_final else seen)
                      for value, is_final in self.measures]  # fmt: skip
            found.append(self._row(match.rows[at], values))
        return found

    def _row(self, row: Row, values: list[Any]) -> Row:
        return (row[1], *values) if self.shown == "one" else (row[1], row[0], *values, *row[2:])


# Values, with their SQL.


def last(name: str, column: int, offset: int = 0, shift: int = 0) -> Value:
    """LAST(name.column, offset), moved by a shift."""

    def value(match: Match, at: int) -> Any:
        places = match.places(name, at)
        if len(places) <= offset:
            return None
        row = match.row(places[-1 - offset] + shift)
        return None if row is None else row[column]

    return value


def first(name: str, column: int, offset: int = 0, shift: int = 0) -> Value:
    """FIRST(name.column, offset), moved by a shift."""

    def value(match: Match, at: int) -> Any:
        places = match.places(name, at)
        if len(places) <= offset:
            return None
        row = match.row(places[offset] + shift)
        return None if row is None else row[column]

    return value


def aggregate(name: str, column: int, function: Callable[[list[Any]], Any]) -> Value:
    """An aggregate of a column over the rows of a variable, without its NULLs."""

    def value(match: Match, at: int) -> Any:
        rows = [match.rows[p][column] for p in match.places(name, at)]
        values = [each for each in rows if each is not None]
        return function(values) if values or function is len else None

    return value


def classifier(name: str = "", offset: int = 0, is_last: bool = True, shift: int = 0) -> Value:
    """CLASSIFIER() of a row."""

    def value(match: Match, at: int) -> Any:
        places = match.places(name, at)
        if len(places) <= offset:
            return None
        return match.label(places[-1 - offset if is_last else offset] + shift)

    return value


def compare(left: Value, sign: str, right: Value) -> Value:
    """A comparison; NULL if a side is."""
    signs: dict[str, Callable[[Any, Any], bool]] = {
        "<": lambda a, b: a < b, ">": lambda a, b: a > b, "=": lambda a, b: a == b,
        "<=": lambda a, b: a <= b, "<>": lambda a, b: a != b,
    }  # fmt: skip

    def value(match: Match, at: int) -> Any:
        a, b = left(match, at), right(match, at)
        return None if a is None or b is None else signs[sign](a, b)

    return value

"""A row pattern of MATCH_RECOGNIZE as a program of steps that a matcher goes through. Data only.

A step is (operation, a, b). CHAR a: the row is variable a, on to the next row. SPLIT a b: go on at
a, and if that fails at b; so alternatives come in the order in which SQL prefers them. JUMP a.
START and END hold where the partition begins and ends. HIDE and SHOW stand around `{- -}`.

What conditions and measures read of a match are leaves: LAST(b.x, 1), SUM(a.x), CLASSIFIER(). The
expressions around them are computed from the values of leaves alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Field
from viewmill.program.patterns import PatternQueries

if TYPE_CHECKING:
    from viewmill.program.program import Program

CHAR, SPLIT, JUMP, START, END, HIDE, SHOW, MATCH = range(8)
LEAVES = "pattern leaves"  # the source that conditions and measures read

LeafKind = OneOf["row", "own", "count", "sum", "min", "max", "classifier", "number"]
Skip = OneOf["past", "next", "first", "last"]
Shown = OneOf["one", "all", "omit empty", "unmatched"]


@dataclass(frozen=True)
class Leaf:
    """A value of a match. "row" is of the first or last row of some variables, moved by offsets.

    "own" is of the row itself, matched or not; "number" is MATCH_NUMBER().
    """

    kind: LeafKind
    variables: tuple[int, ...]  # () means all
    argument: int  # column of the arguments, -1 for none
    field: Field  # of the value
    is_last: bool = True
    offset: int = 0  # so many rows of the variables after the first, or before the last
    shift: int = 0  # then so many rows of the partition on; negative: back
    is_final: bool = False

    @property
    def is_aggregate(self) -> bool:
        """Whether it is computed of many rows."""
        return self.kind in ("count", "sum", "min", "max")


@dataclass(frozen=True)
class Condition:
    """What a row must meet to be of a variable."""

    variable: int
    test: int  # column of `tests`: what only rows around it say; -1 for none
    rest: Relation | None  # over LEAVES, one column: what depends on the match so far
    code: tuple[tuple[int, int, int], ...] = ()  # `rest` for a machine; () where Python computes it


@dataclass(frozen=True)
class RowPattern:
    """How rows are matched, and which rows are shown."""

    names: tuple[str, ...]  # of the variables
    steps: tuple[tuple[int, int, int], ...]
    loops: bool  # whether a loop can go round without a row
    conditions: tuple[Condition, ...]
    leaves: tuple[Leaf, ...]  # of conditions
    measured: tuple[Leaf, ...]  # of what is shown
    tests: Relation | None  # over LEAVES: 1 or 0 for each test
    tested: tuple[Leaf, ...]  # the leaves that tests read; all are of rows near the row itself
    skip: Skip
    skip_to: tuple[int, ...]
    shown: Shown
    within: int | None  # in the unit of the time column
    lookback: int  # rows before a row that may be read
    lookahead: int
    ties: tuple[tuple[int, bool], ...] = ()
    constants: tuple[float, ...] = ()  # of the code of conditions
    test_programs: tuple[Program, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RowPatternQueries(PatternQueries):
    """MATCH_RECOGNIZE with any row pattern; `steps` computes the arguments of leaves."""

    pattern: RowPattern

    @property
    def ties(self) -> tuple[tuple[int, bool], ...]:
        """The columns after the time in ORDER BY, and whether descending."""
        return self.pattern.ties

    @property
    def needs_engine(self) -> bool:
        """Whether a refresh asks the engine."""
        has_tests = self.pattern.tests is None or bool(self.pattern.test_programs)
        return super().needs_engine or not has_tests

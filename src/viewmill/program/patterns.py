"""A pattern over the rows of a stream, as an automaton. Data only.

PATTERN [a, b, c, d+] has the phases 1 to 4, one for each variable; a run in phase 4 is a match. Per
group there is at most one run per phase: two runs in one phase would go the same way from there on,
so the one that started earlier stands for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Field, Schema

if TYPE_CHECKING:
    from viewmill.program.program import Program

MeasureFunction = OneOf["sum", "min", "max", "first", "last", "count"]

ROWS = "pattern rows"  # the source that `PatternQueries.steps` reads: a row and the one before it
MATCHES = "pattern matches"  # the source that `PatternQueries.show` reads
NOTHING = " nothing"  # the column of ROWS where no other is read
PREVIOUS = "previous "


@dataclass(frozen=True)
class Edge:
    """The column of `steps` that tells whether a row may take this step."""

    bit: int


@dataclass(frozen=True)
class Phase:
    """A variable: the step into it, and with a plus the step that stays in it."""

    variable: str
    enter: Edge
    stay: Edge | None = None


@dataclass(frozen=True)
class Measure:
    """What is kept of the rows of a run; `phase` 0 means of all its rows, else of that variable."""

    name: str
    function: MeasureFunction
    argument: int  # column of `steps`, after the edges
    field: Field  # of the argument
    phase: int = 0
    offset: int = 0  # so many rows after the first, or before the last; MATCH_RECOGNIZE only


@dataclass(frozen=True)
class PatternQueries:
    """A body that runs an automaton over each group of the rows of a source, in order of time."""

    view: str
    source: str
    length: int  # seconds
    keys: tuple[int, ...]  # columns of the source
    time: int  # column of the source
    phases: tuple[Phase, ...]
    measures: tuple[Measure, ...]
    read: tuple[int, ...]  # columns of the source that `steps` reads of a row
    read_before: tuple[int, ...]  # and of the row before it
    steps: Relation  # over ROWS: 1 or 0 for each edge, then the arguments
    edges: int  # how many
    shown: Schema  # of MATCHES: the keys, the number of rows, a value and a count for each measure
    show: Relation  # over MATCHES: the rows of the view
    before: str = PREVIOUS  # how the columns of the row before begin in ROWS
    is_match_recognize: bool = False  # leftmost, greedy, past the last row; all matches are shown
    own_parts: bool = False  # the source is in no parts: the pattern keeps its rows itself
    # What computes `steps` and `show`; none where only an engine does.
    step_programs: tuple[Program, ...] = ()
    show_programs: tuple[Program, ...] = ()

    @property
    def ties(self) -> tuple[tuple[int, bool], ...]:
        """Columns that order rows of one moment, and whether descending."""
        return ()

    @property
    def needs_engine(self) -> bool:
        """Whether a refresh asks the engine."""
        return not (self.step_programs and self.show_programs)

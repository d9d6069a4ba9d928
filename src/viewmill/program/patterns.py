"""A pattern over the rows of a stream, as an automaton. Data only.

PATTERN [a, b, c, d+] has the phases 1 to 4, one for each variable; a run in phase 4 is a match. Per
group there is at most one run per phase: two runs in one phase would go the same way from there on,
so the one that started earlier stands for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from viewmill.algebra.relations import Project, Relation, Scan
from viewmill.algebra.schema import Field, Schema

MeasureFunction = OneOf["sum", "min", "max", "first", "last", "count"]

ROWS = "pattern rows"  # the source that `Automaton.bits` reads: a row and the one before it
MATCHES = "pattern matches"  # the source that `PatternQueries.show` reads
PREVIOUS = "previous "  # the prefix of the columns of the row before


@dataclass(frozen=True)
class Edge:
    """The bits that a row must have to take this step."""

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
    argument: int  # column of `bits`, after the first
    field: Field  # of the argument
    phase: int = 0


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
    read: tuple[int, ...]  # columns of the source that `bits` reads of a row
    read_before: tuple[int, ...]  # and of the row before it
    bits: Relation  # over ROWS: one number with a bit for each edge, then the arguments
    shown: Schema  # of MATCHES: the keys, the number of rows, a value and a count for each measure
    show: Relation  # over MATCHES: the rows of the view
    outer: Relation | None = None  # over MATCHES with the columns of `show`: what stands around it
    is_match_recognize: bool = False  # leftmost, greedy, past the last row; all matches are shown


@dataclass(frozen=True)
class MergedSteps:
    """The bits of several patterns over the same rows in one query, one pattern after another."""

    bodies: tuple[PatternQueries, ...]
    query: Relation


def merge_steps(bodies: Sequence[PatternQueries]) -> MergedSteps | None:
    """One query for all; None if one of them is more than columns of rows."""
    if len(bodies) == 1:
        return MergedSteps(tuple(bodies), bodies[0].bits)
    outputs = []
    fields: dict[str, Field] = {}
    scan: Scan | None = None
    for i, body in enumerate(bodies):
        bits = body.bits
        if not isinstance(bits, Project) or not isinstance(bits.input, Scan):
            return None
        scan = bits.input
        fields |= {each.name: each for each in scan.schema}
        outputs += [(f"{i} {name}", each) for name, each in bits.outputs]
    assert scan is not None
    rows = replace(scan, schema=Schema(tuple(fields.values())))
    return MergedSteps(tuple(bodies), Project(rows, tuple(outputs)))

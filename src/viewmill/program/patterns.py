"""A pattern over the rows of a stream, as an automaton. Data only.

PATTERN [a, b, c, d+] has the phases 1 to 4, one for each variable; a run in phase 4 is a match. Per
group there is at most one run per phase: two runs in one phase would go the same way from there on,
so the one that started earlier stands for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from viewmill.algebra.expressions import Call, Expression, Literal
from viewmill.algebra.relations import Project, Relation, Scan
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT

MeasureFunction = OneOf["sum", "min", "max", "first", "last", "count"]

ROWS = "pattern rows"  # the source that `PatternQueries.steps` reads: a row and the one before it
MATCHES = "pattern matches"  # the source that `PatternQueries.show` reads
NOTHING = " nothing"  # the column of ROWS where no other is read
PREVIOUS = "previous "  # the prefix of the columns of the row before


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
    outer: Relation | None = None  # over MATCHES with the columns of `show`: what stands around it
    is_match_recognize: bool = False  # leftmost, greedy, past the last row; all matches are shown


@dataclass(frozen=True)
class MergedSteps:
    """The steps and arguments of several patterns over the same rows in one query, equal ones once.

    The query gives words with the bits of 32 steps each, then the arguments.
    """

    bodies: tuple[PatternQueries, ...]
    query: Relation
    words: int
    edges: tuple[tuple[int, ...], ...]  # for each pattern the bits of its edges
    arguments: tuple[tuple[int, ...], ...]  # and the places of its arguments


STEPS_IN_A_WORD = 32


def merge_steps(bodies: Sequence[PatternQueries]) -> MergedSteps:
    """One query for all patterns over the same rows."""
    fields: dict[str, Field] = {}
    steps: list[Expression] = []
    arguments: list[Expression] = []
    edges, places = [], []
    for body in bodies:
        assert isinstance(body.steps, Project)
        assert isinstance(body.steps.input, Scan)
        scan = body.steps.input
        fields |= {each.name: each for each in scan.schema}
        outputs = [each for _, each in body.steps.outputs]
        edges.append(tuple(_place(each, steps) for each in outputs[: body.edges]))
        places.append(tuple(_place(each, arguments) for each in outputs[body.edges :]))
    if len(fields) > 1:
        fields.pop(f"{scan.alias}.{NOTHING}", None)
    rows = replace(scan, schema=Schema(tuple(fields.values())))
    words = [steps[i : i + STEPS_IN_A_WORD] for i in range(0, len(steps), STEPS_IN_A_WORD)]
    columns = [(f"steps {i}", _packed(each)) for i, each in enumerate(words)]
    columns += [(f"argument {i}", each) for i, each in enumerate(arguments)]
    query = Project(rows, tuple(columns))
    return MergedSteps(tuple(bodies), query, len(words), tuple(edges), tuple(places))


def _place(expression: Expression, among: list[Expression]) -> int:
    if expression not in among:
        among.append(expression)
    return among.index(expression)


def _packed(steps: Sequence[Expression]) -> Expression:
    """One number with a bit for each step."""
    total: Expression = Literal(0, BIGINT)
    for bit, step in enumerate(steps):
        weighted = Call("*", (step, Literal(1 << bit, BIGINT)), BIGINT, False)
        total = weighted if bit == 0 else Call("+", (total, weighted), BIGINT, False)
    return total

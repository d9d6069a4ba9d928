"""One sweep over the sorted rows of a part takes all automata of its stream through them.

takes  the patterns over one stream and one GROUP BY, rows by group and time, the runs before
does   computes the steps that each row allows and the arguments of the measures; one loop over the
       rows that advances every automaton
gives  the runs after, for each pattern
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import Type, Wide, is_float_word, may_be_wide
from viewmill.deltas.delta import Delta
from viewmill.deltas.wide_codes import is_code
from viewmill.errors import Overflow
from viewmill.kernels.pattern_kernels import (
    COUNT,
    FIRST,
    LAST,
    MAX,
    MIN,
    PARTS,
    SUM,
    advance,
    compiled,
)
from viewmill.kernels.pattern_runs import Column, Ints, Runs
from viewmill.kernels.row_function import RowFunction
from viewmill.program.patterns import NOTHING, PatternQueries

_FUNCTIONS = {"sum": SUM, "min": MIN, "max": MAX, "first": FIRST, "last": LAST, "count": COUNT}
_WORD = 32  # steps in a word


class Steps:
    """What rows allow: the bits of their steps, and the arguments of the measures."""

    def __init__(self, words: int, arguments: int, size: int) -> None:
        self.bits = np.zeros((words, size), np.int64)  # by word and row
        self.integers = np.zeros((arguments, size), np.int64)
        self.floats = np.zeros((arguments, size), np.float64)
        self.nulls = np.zeros((arguments, size), np.uint8)


class PatternSweep:
    """The automata of some patterns side by side."""

    def __init__(self, bodies: Sequence[PatternQueries], schema: Schema) -> None:
        self._schema, self._bodies = schema, tuple(bodies)
        self.phases = _ends([len(each.phases) for each in bodies])
        self.measures = _ends([len(each.measures) for each in bodies])
        self._words = _ends([-(-each.edges // _WORD) for each in bodies])
        self._fields = [each.steps.schema.fields[each.edges :] for each in bodies]
        self._arguments = _ends([len(each) for each in self._fields])
        # The arguments of measures that compute with their values.
        self._computed = [
            {m.argument for m in each.measures if m.function in ("sum", "min", "max")}
            for each in bodies
        ]
        enter, stay = [], []
        functions, of_phase, offsets, arguments = [], [], [], []
        for k, body in enumerate(bodies):
            first = int(self._words[k]) * _WORD
            for phase in body.phases:
                enter.append(first + phase.enter.bit)
                stay.append(-1 if phase.stay is None else first + phase.stay.bit)
            functions += [_FUNCTIONS[each.function] for each in body.measures]
            of_phase += [each.phase for each in body.measures]
            offsets += [each.offset for each in body.measures]
            arguments += [int(self._arguments[k]) + each.argument for each in body.measures]
        self.enter, self.stay = np.array(enter, np.int64), np.array(stay, np.int64)
        self.functions = np.array(functions, np.int64)
        self.of_phase = np.array(of_phase, np.int64)
        self.offsets = np.array(offsets, np.int64)
        self.arguments = np.array(arguments, np.int64)
        whole = [field for fields in self._fields for field in fields]
        self.is_float = np.array([is_float_word(whole[i].type) for i in arguments], np.bool_)

    # Steps.

    def steps(
        self,
        rows: Delta,
        order: Ints,
        starts: Ints,
        lasts: Sequence[tuple[Column, ...]],
        functions: Sequence[RowFunction],
    ) -> Steps:
        """The steps of rows in their order; `lasts` are of the row before each group's first."""
        made = Steps(int(self._words[-1]), int(self._arguments[-1]), len(order))
        known: dict[str, Column] = {}
        for k, (body, last) in enumerate(zip(self._bodies, lasts, strict=True)):
            given = self._given(body, rows, order, starts, last, known)
            found = functions[k](given)
            for edge in range(body.edges):
                word = int(self._words[k]) + edge // _WORD
                made.bits[word] |= found.columns[edge] << (edge % _WORD)
            for i, field in enumerate(self._fields[k]):
                words, mask = found.pair(body.edges + i)
                at = int(self._arguments[k]) + i
                if i in self._computed[k]:
                    check_narrow(words, mask, field.type, body.view)
                (made.floats if is_float_word(field.type) else made.integers)[at] = words
                if mask is not None:
                    made.nulls[at] = mask
        return made

    def _given(
        self,
        body: PatternQueries,
        rows: Delta,
        order: Ints,
        starts: Ints,
        last: tuple[Column, ...],
        known: dict[str, Column],
    ) -> Delta:
        """The columns of each row and of the one before it, as the steps of a pattern read them."""
        fields: list[Field] = []
        columns: list[Column] = []
        for i in body.read:
            name = self._schema[i].name
            if name not in known:
                known[name] = column_at(rows, i, order)
            fields.append(self._schema[i])
            columns.append(known[name])
        for (first, first_mask), i in zip(last, body.read_before, strict=True):
            words, mask = (np.roll(each, 1) for each in column_at(rows, i, order))
            words[starts[:-1]], mask[starts[:-1]] = first, first_mask
            fields.append(Field(body.before + self._schema[i].name, self._schema[i].type, True))
            columns.append((words, mask))
        if not fields:
            fields = [Field(NOTHING, body.steps.schema[0].type, True)]
            columns = [(np.zeros(len(order), np.int64), np.ones(len(order), np.uint8))]
        return Delta(
            Schema(tuple(fields)), tuple(words for words, _ in columns),
            tuple(mask if mask.any() else None for _, mask in columns), None, len(order),
        )  # fmt: skip

    # Runs.

    def advance(self, starts: Ints, steps: Steps, before: Sequence[Runs]) -> list[Runs]:
        """The runs of every pattern after the rows of its groups."""
        groups, width = len(starts) - 1, int(np.diff(self.measures).max(initial=0))
        spans, old = _side_by_side(before, width)
        # Room is touched only as far as runs are made.
        room = np.maximum(groups * self.phases, np.arange(len(self.phases)))
        made = Runs(
            np.empty(room[-1], np.int64), np.empty(room[-1], np.int64),
            np.empty(room[-1], np.int64), np.empty((room[-1], width), np.int64),
            np.empty((room[-1], width, PARTS)), np.empty((room[-1], width), np.int64),
        )  # fmt: skip
        counts = np.zeros(len(before), np.int64)
        failed = compiled(advance)(
            starts, steps.bits, self.phases, self.enter, self.stay, self.measures, self.functions,
            self.of_phase, self.arguments, self.is_float, steps.integers, steps.floats,
            steps.nulls, spans, *old.columns(), room, made.starts, *made.columns(), counts,
        )  # fmt: skip
        if failed >= 0:
            view = self._bodies[failed].view
            raise Overflow(f'a sum of view "{view}" does not fit BIGINT')
        return [
            self._own(made, k, int(room[k]), int(counts[k]), groups) for k in range(len(before))
        ]

    def _own(self, made: Runs, k: int, low: int, count: int, groups: int) -> Runs:
        """The runs of one pattern."""
        sizes = np.bincount(made.starts[low : low + count], minlength=groups)
        width = int(self.measures[k + 1] - self.measures[k])
        columns = (each[low : low + count] for each in made.columns())
        own = (each[:, :width].copy() if each.ndim > 1 else each.copy() for each in columns)
        return Runs(_ends(sizes), *own)


def _side_by_side(before: Sequence[Runs], width: int) -> tuple[Any, Runs]:
    """The runs of all patterns one behind the other, and from where to where each group's are."""
    spans = np.empty((len(before), len(before[0].starts) - 1, 2), np.int64)
    offset = 0
    for k, runs in enumerate(before):
        spans[k, :, 0], spans[k, :, 1] = runs.starts[:-1] + offset, runs.starts[1:] + offset
        offset += len(runs.phase)
    if len(before) == 1:
        return spans, before[0]
    columns = []
    for each in zip(*(runs.columns() for runs in before), strict=True):
        columns.append(np.concatenate([_padded(column, width) for column in each]))
    return spans, Runs(np.zeros(1, np.int64), *columns)


def _padded(column: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    if column.ndim == 1 or column.shape[1] == width:
        return column
    wide = np.zeros((len(column), width, *column.shape[2:]), column.dtype)
    wide[:, : column.shape[1]] = column
    return wide


def _ends(sizes: Any) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def check_narrow(words: Any, mask: Any, type_: Type, view: str) -> None:
    """Refuse decimals that no word holds: sums, minima and maxima are of words."""
    if not isinstance(type_, Wide) and not may_be_wide(type_):
        return
    is_wide = is_code(words)
    if mask is not None:
        is_wide &= mask == 0
    if is_wide.any():
        raise Overflow(
            f'a measure of view "{view}" is wider than 18 digits',
            detail=f"It is {type_}.",
            hint="FIRST, LAST and COUNT take such values. Or cast it to DOUBLE.",
        )


def column_at(rows: Delta, i: int, at: Ints) -> Column:
    """The words and the mask of a column at some rows."""
    mask = rows.nulls[i]
    masks: npt.NDArray[np.uint8] = np.zeros(len(at), np.uint8) if mask is None else mask[at]
    return rows.columns[i][at], masks

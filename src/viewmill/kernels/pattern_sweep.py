"""One sweep over the sorted rows of a part takes all automata of its stream through them.

takes  the patterns over one stream and one GROUP BY, rows by group and time, the runs before
does   one query for the steps that each row allows and for the arguments of the measures, equal
       ones once; one loop over the rows that advances every automaton
gives  the runs after, for each pattern
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import is_float_word
from viewmill.deltas.arrow import decode_column, encode_array
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.errors import Overflow
from viewmill.kernels.pattern_kernels import (
    COUNT,
    FIRST,
    LAST,
    MAX,
    MIN,
    SUM,
    advance,
    compiled,
)
from viewmill.kernels.pattern_runs import Column, Ints, Runs
from viewmill.program.patterns import (
    NOTHING,
    PREVIOUS,
    ROWS,
    PatternQueries,
    merge_steps,
)

Run = Callable[[Relation, Mapping[str, Any]], Any]  # a relation over Arrow tables in, Arrow out
_FUNCTIONS = {"sum": SUM, "min": MIN, "max": MAX, "first": FIRST, "last": LAST, "count": COUNT}


class Steps:
    """What the engine found: the bits of each row, and the arguments of the measures."""

    def __init__(
        self, bits: Ints, arguments: list[Column], is_float: npt.NDArray[np.bool_]
    ) -> None:
        self.bits = bits  # by word and row
        size = bits.shape[1]
        self.integers = np.zeros((len(arguments), size), np.int64)
        self.floats = np.zeros((len(arguments), size), np.float64)
        self.nulls = np.zeros((len(arguments), size), np.uint8)
        for i, (words, mask) in enumerate(arguments):
            (self.floats if is_float[i] else self.integers)[i] = words
            self.nulls[i] = mask


class PatternSweep:
    """The automata of some patterns side by side."""

    def __init__(self, bodies: Sequence[PatternQueries], schema: Schema) -> None:
        self._schema, self._merged = schema, merge_steps(bodies)
        bodies = self._merged.bodies
        self.phases = _ends([len(each.phases) for each in bodies])
        self.measures = _ends([len(each.measures) for each in bodies])
        enter, stay = [], []
        functions, of_phase, arguments = [], [], []
        pairs = zip(bodies, self._merged.edges, self._merged.arguments, strict=True)
        for body, edges, own in pairs:
            for phase in body.phases:
                enter.append(edges[phase.enter.bit])
                stay.append(-1 if phase.stay is None else edges[phase.stay.bit])
            functions += [_FUNCTIONS[each.function] for each in body.measures]
            of_phase += [each.phase for each in body.measures]
            arguments += [own[each.argument] for each in body.measures]
        self.enter, self.stay = np.array(enter, np.int64), np.array(stay, np.int64)
        self.functions = np.array(functions, np.int64)
        self.of_phase = np.array(of_phase, np.int64)
        self.arguments = np.array(arguments, np.int64)
        fields = self._merged.query.schema
        self._fields = [fields[i] for i in range(self._merged.words, len(fields))]
        self._floats = np.array([is_float_word(each.type) for each in self._fields], np.bool_)
        self.is_float = self._floats[self.arguments]

    # Steps.

    def steps(
        self,
        rows: Delta,
        order: Ints,
        starts: Ints,
        lasts: Sequence[tuple[Column, ...]],
        run: Run,
        dictionary: Dictionary,
    ) -> Steps:
        """The steps of rows in their order; `lasts` are of the row before each group's first."""
        arrays: dict[str, Any] = {}
        for body, last in zip(self._merged.bodies, lasts, strict=True):
            for i in body.read:
                if self._schema[i].name not in arrays:
                    words, mask = column_at(rows, i, order)
                    arrays[self._schema[i].name] = self._decoded(i, words, mask, dictionary)
            for (first, first_mask), i in zip(last, body.read_before, strict=True):
                name = PREVIOUS + self._schema[i].name
                if name not in arrays:
                    words, mask = column_at(rows, i, order)
                    words, mask = np.roll(words, 1), np.roll(mask, 1)
                    words[starts[:-1]], mask[starts[:-1]] = first, first_mask
                    arrays[name] = self._decoded(i, words, mask, dictionary)
        arrays = arrays or {NOTHING: pa.nulls(len(order), pa.int64())}
        result = run(self._merged.query, {ROWS: pa.table(arrays)})
        count = self._merged.words
        bits = np.empty((count, len(order)), np.int64)
        for i in range(count):
            bits[i] = encode_array(result.column(i), self._merged.query.schema[i], dictionary)[0]
        arguments = []
        for i, field in enumerate(self._fields):
            words, nulls = encode_array(result.column(count + i), field, dictionary)
            arguments.append((words, np.zeros(len(words), np.uint8) if nulls is None else nulls))
        return Steps(bits, arguments, self._floats)

    def _decoded(self, i: int, words: Any, mask: Any, dictionary: Dictionary) -> Any:
        shown = mask if mask.any() else None
        return decode_column(words, shown, self._schema[i], dictionary)

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
            np.empty((room[-1], width), np.float64), np.empty((room[-1], width), np.int64),
        )  # fmt: skip
        counts = np.zeros(len(before), np.int64)
        failed = compiled(advance)(
            starts, steps.bits, self.phases, self.enter, self.stay, self.measures, self.functions,
            self.of_phase, self.arguments, self.is_float, steps.integers, steps.floats,
            steps.nulls, spans, *old.columns(), room, made.starts, *made.columns(), counts,
        )  # fmt: skip
        if failed >= 0:
            view = self._merged.bodies[failed].view
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
    wide = np.zeros((len(column), width), column.dtype)
    wide[:, : column.shape[1]] = column
    return wide


def _ends(sizes: Any) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def column_at(rows: Delta, i: int, at: Ints) -> Column:
    """The words and the mask of a column at some rows."""
    mask = rows.nulls[i]
    masks: npt.NDArray[np.uint8] = np.zeros(len(at), np.uint8) if mask is None else mask[at]
    return rows.columns[i][at], masks

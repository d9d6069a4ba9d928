"""A function of rows: what is computed of each of them, in their order; nothing is kept.

takes  programs without states, run one after another
gives  the rows that pass, as computed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from viewmill.algebra.relations import Relation
from viewmill.algebra.walk import scans
from viewmill.deltas.arrow import decode_delta, encode_columns
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.kernels import by_row
from viewmill.kernels.build import TriggerMaintainer, build
from viewmill.program.program import ByRow, Program

Run = Callable[[Relation, Mapping[str, Any]], Any]  # a relation over Arrow tables in, Arrow out
RowFunction = Callable[[Delta], Delta]


def row_function(
    programs: Sequence[Program], query: Relation, dictionary: Dictionary, run: Run
) -> RowFunction:
    """What computes a query over rows; without programs for it the engine does."""
    if programs:
        return _Stages(programs, dictionary)
    (scan,) = scans(query)

    def on_engine(rows: Delta) -> Delta:
        result = run(query, {scan.source: decode_delta(rows, dictionary)})
        return encode_columns(query.schema, result, dictionary)

    return on_engine


class _Stages:
    def __init__(self, programs: Sequence[Program], dictionary: Dictionary) -> None:
        self._stages = [
            by_row.build(each, dictionary)
            if isinstance(each.body, ByRow)
            else build(each, dictionary)
            for each in programs
        ]

    def __call__(self, rows: Delta) -> Delta:
        for stage in self._stages:
            if not rows.size:
                return Delta.empty(self._stages[-1].program.output)
            rows = _computed(stage, rows)
        return rows


def _computed(stage: TriggerMaintainer | by_row.RowMaintainer, rows: Delta) -> Delta:
    (input_,) = stage.program.inputs
    given = Delta(input_.schema, rows.columns, rows.nulls, rows.multiplicity, rows.size)
    try:
        if isinstance(stage, TriggerMaintainer):
            return stage.replay(input_.name, given)
        stage.apply(input_.name, given)
        return stage.flush()
    finally:
        stage.rollback()

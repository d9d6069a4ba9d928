"""Sliding windows of whole time parts: the translation of ViewDF, section 5.2.

takes  a grouped query over one window of a table in parts
gives  a candidate, or the part in the way; a program whose body is `WindowParts`
next   kernels.window_parts

INITIALIZE and UPDATE, PATTERN and MATCH_RECOGNIZE are this strategy's as well; no other one takes
them, so they do not come here.
"""

from __future__ import annotations

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column
from viewmill.algebra.hints import Hints
from viewmill.algebra.relations import Relation
from viewmill.algebra.types import Float
from viewmill.codegen.inputs import input_of
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.window_shape import WindowShape, windowed
from viewmill.program.program import Program
from viewmill.program.window_parts import HelperKind, WindowParts
from viewmill.strategies.strategy import (
    NO_HINTS,
    Abilities,
    Candidate,
    Cost,
    PartLayout,
    Rejection,
    Statistics,
)

SUBTRACTABLE = ("count", "sum", "avg")
DISTRIBUTIVE = ("min", "max")

# Measured: a batch into helper parts and a slide that is answered, and each row.
_REFRESH_US = 1500.0
_ROW_US = 0.12
_HELPER_BYTES = 40  # of a group in a helper part


class TemporalView:
    """Each part is aggregated once; a window is put together from helper parts."""

    name = "temporal_view"
    abilities = Abilities(windows=True)

    def match(
        self, query: Relation, statistics: Statistics, hints: Hints = NO_HINTS
    ) -> Candidate | Rejection:
        """Offer what is one window of whole parts, grouped."""
        try:
            found = windowed(query)
            body = _body(found, _layout(found, statistics))
        except NotTaken as no:
            return Rejection(self.name, no.reason, no.span)
        rows = statistics.parts[found.scan.source].rows or 1000
        cost = Cost(_REFRESH_US, _ROW_US, _HELPER_BYTES * rows * (body.width + 1))
        return Candidate(self.name, query, cost, (_note(body),), way=str(body.length))

    def emit(self, candidate: Candidate) -> Program:
        """The programs around the window, and how its helper parts are kept."""
        query = candidate.query
        found = windowed(query)
        layout = PartLayout(int(candidate.way), None, None)
        return Program(
            strategy=self.name,
            query=query,
            inputs=(input_of(found.scan),),
            output=query.schema,
            states=(),
            body=_body(found, layout),
        )


def _note(body: WindowParts) -> str:
    if body.helpers == "cumulative":
        return (
            f"subtractable: helper[j] is cumulative, a window is helper[j] - helper[j-{body.width}]"
            f"; {body.width + 1} helper parts are kept, groups without rows in them are removed"
        )
    return f"distributive: a window is {body.width} helper parts put together, rolled up by blocks"


def _layout(found: WindowShape, statistics: Statistics) -> PartLayout:
    """The parts of the table, if windows begin and end where parts do."""
    window, scan = found.window, found.scan
    if window.unit == "rows":
        raise NotTaken("a window of rows does not end where a time part does", scan.span)
    layout = statistics.parts.get(scan.source)
    if layout is None:
        raise NotTaken(f"{scan.source} is not in time parts (PARTITION LENGTH)", scan.span)
    if window.size % layout.length or window.slide % layout.length:
        seconds = layout.length // 1_000_000
        raise NotTaken(f"{window} does not consist of whole parts of {seconds} s", scan.span)
    needed = window.size + window.slide + window.lateness
    if layout.retention is not None and layout.retention < needed:
        raise NotTaken(f"RETENTION of {scan.source} is shorter than {window} needs", scan.span)
    return layout


def _body(found: WindowShape, layout: PartLayout) -> WindowParts:
    assert found.shape.keys is not None
    calls = [call for _, call in found.shape.aggregates]
    for call in calls:
        if call.function not in (*SUBTRACTABLE, *DISTRIBUTIVE):
            raise NotTaken(f"{call.function} is not aggregated over helper parts", call.span)
    if any(each.by_text for each in found.aggregates):
        raise NotTaken("strings are not compared in helper parts", found.scan.span)
    helpers: HelperKind = "cumulative" if all(map(_is_subtracted, calls)) else "by_part"
    return WindowParts(
        window=found.window,
        length=layout.length,
        keys=found.finish.inputs[0].schema.fields[1 : 1 + len(found.keys)],
        aggregates=found.aggregates,
        helpers=helpers,
        prepare=found.prepare,
        finish=found.finish,
        picked=_picked(found),
        shown=_shown(found),
    )


def _is_subtracted(call: AggregateCall) -> bool:
    """Whether what leaves a window can be taken off again exactly."""
    is_float = bool(call.arguments) and isinstance(call.arguments[0].type, Float)
    return call.function == "count" or (call.function in SUBTRACTABLE and not is_float)


def _picked(found: WindowShape) -> tuple[int, ...] | None:
    """The columns of the table that are keys and arguments, if nothing is computed or left out."""
    if found.shape.where:
        return None
    read = list(dict.fromkeys(e for _, call in found.shape.aggregates for e in call.arguments))
    wanted = [*(each for _, each in found.keys), *read]
    if not all(isinstance(each, Column) for each in wanted) or not wanted:
        return None
    names = found.scan.schema.names
    return tuple(names.index(each.name) for each in wanted if isinstance(each, Column))


def _shown(found: WindowShape) -> tuple[int, ...] | None:
    """The positions of keys and aggregates that are shown, if nothing is computed or left out."""
    outputs = [each for _, each in found.shape.outputs]
    if found.shape.having or not all(isinstance(each, Column) for each in outputs):
        return None
    names = [name for name, _ in (*found.keys, *found.shape.aggregates)]
    return tuple(names.index(each.name) for each in outputs if isinstance(each, Column))

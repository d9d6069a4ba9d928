"""Sliding windows on a stream: SELECT ... FROM s [WINDOW ...] WHERE ... GROUP BY ... HAVING ...

takes  a relation whose one scan has a window
gives  a candidate, or the part in the way; a program whose body is `Windowed`
next   kernels.window_family
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from viewmill.algebra.expressions import Call, Column, Expression, Literal
from viewmill.algebra.hints import Hints
from viewmill.algebra.relations import Named, Relation, Scan
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.walk import scans, substitute
from viewmill.algebra.windows import SlidingWindow
from viewmill.codegen.inputs import input_of
from viewmill.codegen.shape import NotTaken, Shape
from viewmill.codegen.window_shape import (
    WindowShape,
    operation_of,
    picked_columns,
    shown_positions,
    window_aggregates,
    windowed,
    without_filters,
)
from viewmill.program.program import Program
from viewmill.program.windows import Asked, LaneParts, Windowed
from viewmill.strategies.shared_window.grouped_windows import grouped_windows
from viewmill.strategies.shared_window.queries import PARTIALS
from viewmill.strategies.shared_window.techniques import check_technique, offered
from viewmill.strategies.strategy import (
    NO_HINTS,
    Abilities,
    Candidate,
    Cost,
    Rejection,
    Statistics,
)

# Measured: a row into its pane, and what a batch costs however small it is.
_ROW_US = 0.3
_REFRESH_US = 150.0
# Functions that cannot fail on any answer.
_SAFE = ("=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or", "not", "is_null")


class SharedWindow:
    """Rows go into panes once for all views of a stream; a window is put together from panes."""

    name = "shared_window"
    abilities = Abilities(windows=True, on_shards=False)

    def match(
        self, query: Relation, statistics: Statistics, hints: Hints = NO_HINTS
    ) -> Candidate | Rejection:
        """Offer what is one scan with a window, grouped."""
        try:
            found = _found(query)
            found.check()
        except NotTaken as no:
            return Rejection(self.name, no.reason, no.span)
        window = found.window
        technique = hints.technique
        if technique is not None:
            calls = [call for _, call in found.shape.aggregates]
            every = found.every is not None
            check_technique(technique, calls, hints.technique_span, every=every)
        counts = {name: f"{_partials(name, window):,}" for name in PARTIALS}
        notes = (
            f"{window}: {counts['pairs']} partials per window by Pairs "
            f"(Panes {counts['panes']}, Cutty {counts['cutty']})",
            *((f"TECHNIQUE({technique}) was asked for",) if technique else ()),
            *(("LATENCY(worst) was asked for",) if hints.worst else ()),
        )
        cost = Cost(_REFRESH_US, _ROW_US, 64 * statistics.row_count(found.scan.source))
        return Candidate(self.name, query, cost, notes, way=_way(hints))

    def emit(self, candidate: Candidate) -> Program:
        """Two programs without state around the window: what rows become, what answers become."""
        query = candidate.query
        found = _found(query)
        shape, keys = found.shape, found.keys
        picked = picked_columns(shape, keys, found.arguments)
        shown = shown_positions(shape, found.all_keys)
        body = Windowed(
            found.window,
            tuple(Field(name, each.type, each.nullable) for name, each in keys),
            found.aggregates,
            replace(_asked(candidate.way), every=found.every is not None),
            _lane(shape, keys, found.arguments),
            None if picked is not None else found.prepare,
            picked or (),
            None if shown is not None else found.finish,
            shown or (),
            _is_safe(shape),
            found.every,
            None if found.every is not None else _parts(shape, keys, found.arguments),
        )
        return Program(
            strategy=self.name,
            query=query,
            inputs=(input_of(found.scan),),
            output=query.schema,
            states=(),
            body=body,
        )


def _way(hints: Hints) -> str:
    return (hints.technique or "") + ("/worst" if hints.worst else "")


def _asked(way: str) -> Asked:
    technique, _, worst = way.partition("/")
    return Asked(technique or None, bool(worst))


def _partials(technique: str, window: SlidingWindow) -> int:
    """Partials per window, Table 1 of the paper."""
    size, slide = window.size, window.slide
    if technique == "panes":
        return size // gcd(size, slide)
    if technique == "cutty" or size % slide == 0:
        return -(-size // slide)
    return 2 * (size // slide) + 1


def _found(query: Relation) -> WindowShape:
    """A query over one window, or by every window, or `NotTaken` with what is in the way."""
    if any(scan.window for scan in scans(query)):
        return windowed(query)
    every = grouped_windows(query)
    shape = without_filters(every.shape)
    assert shape.keys is not None
    arguments, aggregates = window_aggregates(shape)
    places = every.start, every.end
    return WindowShape(shape, shape.keys, arguments, aggregates, every.keys, places)


def _lane(shape: Shape, keys: tuple[Named, ...], arguments: list[Expression]) -> str:
    """Equal for queries that prepare rows alike, whatever they call the table, and have as many
    techniques to choose from: a sum does not lose its inverse because another asks for MAX."""
    read = _renamed(shape.scan)
    parts = [*shape.where, None, *(each for _, each in keys), None, *arguments]
    kind = offered([call for _, call in shape.aggregates])
    return repr([kind, *(each and substitute(each, read) for each in parts)])


def _renamed(scan: Scan) -> dict[str, Expression]:
    """The scan's columns under a name that does not depend on the alias."""
    return {
        field.name: Column(f"row.{field.name.partition('.')[2]}", field.type, field.nullable)
        for field in scan.schema
    }


def _parts(shape: Shape, keys: tuple[Named, ...], arguments: list[Expression]) -> LaneParts | None:
    """The parts by which a view can share a lane; None if its keys or operations rule that out."""
    calls = [call for _, call in shape.aggregates]
    operations = [each for each in map(operation_of, calls) if each is not None]
    plain = all(isinstance(each, Column) for _, each in keys)
    if not plain or not all(map(_cannot_fail, arguments)):
        return None
    if not all(each.commutes for each in operations):
        return None
    read = _renamed(shape.scan)
    fields = tuple(
        replace(field, name=f"row.{field.name.partition('.')[2]}") for field in shape.scan.schema
    )
    return LaneParts(
        replace(shape.scan, alias="row", schema=Schema(fields)),
        tuple(substitute(each, read) for each in shape.where),
        tuple(substitute(each, read) for _, each in keys),  # type: ignore[misc]  # columns
        tuple(substitute(each, read) for each in arguments),
        offered(calls),
    )


def _is_safe(shape: Shape) -> bool:
    """Whether no answer can fail to be shown, so that answers need not be checked in advance."""
    shown = [*shape.having, *(each for _, each in shape.outputs)]
    return all(_cannot_fail(each) for each in shown)


def _cannot_fail(expression: Expression) -> bool:
    if isinstance(expression, Call):
        known = expression.function in _SAFE
        return known and all(_cannot_fail(each) for each in expression.arguments)
    return isinstance(expression, Column | Literal)

"""Compare a view with its recomputed definition, as bags.

Integers, decimals, strings and times must be equal; floats may differ by 1e-9, decimals from a
division or an average by one unit of their last digit. Where the engine's floats differ, they are
computed again without rounding on the way. The numbers of a packed value may differ
relative to the largest of them, those of a solved regression by 1e-6.
"""

from __future__ import annotations

import decimal
import math
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from viewmill.algebra import expressions as e
from viewmill.algebra.clock import CLOCK
from viewmill.algebra.mixed_moments import MixedMoments
from viewmill.algebra.packed import Moments, Packed
from viewmill.algebra.relations import (
    Aggregate,
    Foreign,
    Project,
    Relation,
    SetOperation,
    inputs,
)
from viewmill.algebra.types import Decimal, Float, Wide
from viewmill.algebra.walk import expressions, sources, walk_relations
from viewmill.deltas.arrow import decode_delta, encode_columns
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.create import describe
from viewmill.mill.patterns import is_pattern
from viewmill.program.user_calls import forget_answers
from viewmill.sql.lower import lower
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateMaterializedView, CreateView

RELATIVE = 1e-9
_SMALL = 1e-12  # below it all values of a column may be what rounding leaves of zero


class Near(NamedTuple):
    """How far floats may be apart."""

    relative: float
    absolute: float


class Difference(NamedTuple):
    """A row whose multiplicity differs from that of the recomputed definition."""

    row: tuple[Any, ...]
    expected: int
    actual: int


def verify_view(core: Core, entry: ViewEntry) -> list[Difference]:
    """The differences between a view and its recomputed definition, at the view's version."""
    tables = {}
    for source in entry.waiting.keys() - {CLOCK}:
        # The view has not seen these changes yet, so they are subtracted from the table.
        tables[source.lower()] = expanded(core.rows_seen(entry, source), core.dictionary)
    query, actual = definition(core, entry), entry.block.maintainer.contents()
    for function in core.catalog.functions.values():
        forget_answers(function)
    result = core.run(query, tables=tables, reached=entry.reached)
    expected = encode_columns(entry.schema, result, core.dictionary)
    found = compare(core, entry.query, expected, actual)
    if not found or not aggregates_floats(query):
        return found
    # The engine rounds at every step, the view once: only what differs from exact values is wrong.
    result = core.run(query, tables=tables, reached=entry.reached, exactly=True)
    expected = encode_columns(entry.schema, result, core.dictionary)
    return compare(core, entry.query, expected, actual)


def aggregates_floats(query: Relation) -> bool:
    """Whether a query has an aggregate whose result an engine rounds on the way."""
    return any(
        isinstance(part, e.Aggregate | e.Over)
        and isinstance(part.type, Float | Packed | MixedMoments)
        for relation in walk_relations(query)
        for each in expressions(relation)
        for part in e.walk(each)
    )


def definition(core: Core, entry: ViewEntry) -> Relation:
    """The query of a view, lowered from its text without any rewrite rule.

    In the driver of a sharded pipeline the view's own query, over the results of the shards, is the
    definition. The text of a pattern is never lowered: its matches are found on the shards.
    """
    (statement,) = parse(entry.sql)
    assert isinstance(statement, CreateMaterializedView | CreateView)
    if is_pattern(statement.query):
        return entry.query
    lowered = lower(statement.query, entry.sql, core.catalog, describe(core))
    is_here = {name.lower() for name in sources(lowered)} == entry.reads
    return lowered if is_here else entry.query


def compare(core: Core, query: Relation, expected: Delta, actual: Delta) -> list[Difference]:
    """The rows in which two bags differ beyond the tolerances."""
    schema = expected.schema
    left = consolidate(concat(schema, [expected, actual.negated()]))
    table = decode_delta(left, core.dictionary)
    columns = [column.to_pylist() for column in table.columns]
    rows = list(zip(*columns, strict=True)) if columns else [()] * left.size
    missing: list[tuple[Any, ...]] = []
    extra: list[tuple[Any, ...]] = []
    for row, times in zip(rows, left.multiplicities().tolist(), strict=True):
        (missing if times > 0 else extra).extend([row] * abs(times))
    return _unmatched(missing, extra, _tolerances(query, expected))


Tolerance = Near | float | decimal.Decimal | None
Tolerances = list[Tolerance]


def _tolerances(query: Relation, expected: Delta) -> Tolerances:
    """For each column None (equal), `Near` for floats, an absolute decimal, or a float relative to
    the largest number of a packed value."""
    inexact = _inexact(query)
    found: Tolerances = []
    for i, field in enumerate(query.schema):
        if isinstance(field.type, MixedMoments):
            found.append(RELATIVE)
        elif isinstance(field.type, Packed):
            solved = isinstance(field.type.shape, Moments) and field.type.shape.is_solved
            found.append(1e-6 if solved else RELATIVE)
        elif isinstance(field.type, Float):
            relative = RELATIVE if field.type.bits == 64 else 1e-6
            found.append(Near(relative, relative * _size(expected.columns[i])))
        elif isinstance(field.type, Decimal | Wide) and field.name in inexact:
            found.append(decimal.Decimal(1).scaleb(-field.type.scale))
        else:
            found.append(None)
    return found


def _size(column: Any) -> float:
    """The largest of the expected values, if it is below 1: what is close to zero beside them."""
    finite = np.abs(column[np.isfinite(column)])
    largest = float(finite.max(initial=0.0))
    return min(largest, 1.0) if largest > _SMALL else _SMALL / RELATIVE


def _inexact(relation: Relation) -> set[str]:
    """The columns whose values come from a division or an average."""
    below: set[str] = set()
    for each in inputs(relation):
        below |= _inexact(each)
    if isinstance(relation, Project):
        return {name for name, each in relation.outputs if _is_inexact(each, below)}
    if isinstance(relation, Aggregate):
        named = (*relation.keys, *relation.aggregates)
        return {name for name, each in named if _is_inexact(each, below)}
    if isinstance(relation, SetOperation):
        right = _inexact(relation.right)
        pairs = zip(relation.left.schema.names, relation.right.schema.names, strict=True)
        return below | {ours for ours, theirs in pairs if theirs in right}
    if isinstance(relation, Foreign):
        return set(relation.schema.names)
    return below


def _is_inexact(expression: e.Expression, below: set[str]) -> bool:
    for part in e.walk(expression):
        if isinstance(part, e.Column) and part.name in below:
            return True
        if isinstance(part, e.Call) and part.function == "/":
            return True
        if isinstance(part, e.Aggregate | e.Over) and part.function == "avg":
            return True
    return False


def _unmatched(
    missing: list[tuple[Any, ...]], extra: list[tuple[Any, ...]], tolerances: Tolerances
) -> list[Difference]:
    """Match rows within the tolerances; rows without a match are differences."""
    waiting: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for row in extra:
        waiting[_exact_part(row, tolerances)].append(row)
    differences = []
    for row in missing:
        candidates = waiting.get(_exact_part(row, tolerances), [])
        partner = next((c for c in candidates if _rows_match(row, c, tolerances)), None)
        if partner is None:
            differences.append(Difference(row, 1, 0))
        else:
            candidates.remove(partner)
    left = [Difference(row, 0, 1) for rows in waiting.values() for row in rows]
    return _merged(differences + left)


def _exact_part(row: tuple[Any, ...], tolerances: Tolerances) -> tuple[Any, ...]:
    return tuple(
        repr(value) if tolerance is None or value is None else "~"
        for value, tolerance in zip(row, tolerances, strict=True)
    )


def _rows_match(a: tuple[Any, ...], b: tuple[Any, ...], tolerances: Tolerances) -> bool:
    return all(map(_values_match, a, b, tolerances))


def _values_match(a: Any, b: Any, tolerance: Tolerance) -> bool:
    if a is None or b is None or tolerance is None:
        return True  # equal already: they are in the exact part
    if isinstance(a, dict | list):
        return _nested_match(a, b, tolerance)
    if isinstance(tolerance, decimal.Decimal):
        return bool(abs(a - b) <= tolerance)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    near = tolerance if isinstance(tolerance, Near) else Near(tolerance, tolerance)
    return math.isclose(a, b, rel_tol=near.relative, abs_tol=near.absolute)


def _nested_match(a: Any, b: Any, tolerance: Any) -> bool:
    """Whether nested values match; numbers of a list relative to its largest."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_nested_match(a[k], b[k], tolerance) for k in a)
    if not isinstance(a, list):
        return bool(a == b) or (isinstance(a, float) and _values_match(a, b, tolerance))
    if len(a) != len(b) or any(isinstance(each, str) for each in a):
        return bool(a == b)
    if any(isinstance(each, dict) for each in a):
        return all(_nested_match(x, y, tolerance) for x, y in zip(a, b, strict=True))
    slack = tolerance * max((abs(each) for each in (*a, *b)), default=0.0)
    return all(abs(x - y) <= slack for x, y in zip(a, b, strict=True))


def _merged(differences: list[Difference]) -> list[Difference]:
    counted: dict[str, Difference] = {}
    for each in differences:
        name = repr(each.row)
        known = counted.get(name, Difference(each.row, 0, 0))
        expected, actual = known.expected + each.expected, known.actual + each.actual
        counted[name] = Difference(each.row, expected, actual)
    return list(counted.values())

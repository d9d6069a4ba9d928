"""Compare a temporal view with its parts computed again, and with the query that defines it.

The parts are rebuilt from the oldest for which all sources are still kept. The query of DEFINED BY
is run for sampled parts: m[i] in it is a part, m alone is everything up to and with part i.
"""

from __future__ import annotations

import random
from typing import Any

from viewmill.deltas.arrow import encode_columns
from viewmill.deltas.delta import Delta, concat
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.create import describe
from viewmill.mill.fill import build
from viewmill.mill.patterns import build_pattern
from viewmill.mill.refresh import netted
from viewmill.mill.temporal import build_parts, part_source, temporal_maintainer
from viewmill.mill.verify import Difference, compare
from viewmill.program.kept_parts import KeptParts
from viewmill.program.parts import PartQuery
from viewmill.program.patterns import PatternQueries
from viewmill.program.window_parts import WindowParts
from viewmill.rewrite.rules import rewrite
from viewmill.sql.lower_parts import lower_definition, under_schema
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateTemporalView

_SAMPLED = 12


def verify_parts(core: Core, entry: ViewEntry) -> list[Difference]:
    """Every difference of a kept part from what its queries, and its definition, say.

    A deferred view is compared as it would be if it were refreshed now.
    """
    if not entry.waiting_rows:
        return _verified(core, entry)
    maintainer: Any = entry.block.maintainer
    try:
        for source, change in netted(entry).items():
            maintainer.apply(source, change)
        maintainer.flush()
        return _verified(core, entry)
    finally:
        maintainer.rollback()


def _verified(core: Core, entry: ViewEntry) -> list[Difference]:
    if isinstance(entry.plan.program.body, PatternQueries):
        return _verify_pattern(core, entry)
    if isinstance(entry.plan.program.body, WindowParts):
        return _verify_window(core, entry)
    maintainer = temporal_maintainer(entry)
    first, following = maintainer.first, maintainer.next
    if first is None or following is None or first == following:
        return []
    start = maintainer.first_rebuilt()
    rebuilt = build_parts(core, entry.plan.program, entry)
    old = {i: rows for i, rows in maintainer.committed_parts().items() if i < start}
    rebuilt.restore(first, min(start, following), old, [])
    calls = entry.engine_calls
    rebuilt.flush()
    entry.engine_calls = calls
    found = _compared(core, entry, start, following, rebuilt)
    return found + _against_definition(core, entry, start, following)


def _verify_pattern(core: Core, entry: ViewEntry) -> list[Difference]:
    maintainer: Any = entry.block.maintainer
    calls = entry.engine_calls
    rebuilt: Any = build_pattern(core, entry, alone=True)
    # Runs may have begun in parts that are gone: what groups bring from there is taken as it is.
    limit, carried = (None, []) if not maintainer.has_parts else maintainer.carried()
    if limit is not None:
        rebuilt.carry(limit, carried)
    rebuilt.fill()
    entry.engine_calls = calls
    if not maintainer.has_parts:
        rebuilt.commit()
        return compare(core, entry.query, rebuilt.contents(), maintainer.matched())
    first, following = maintainer.first, maintainer.next
    if first is None or following is None:
        return []
    bounds = [each for each in (maintainer.oldest_shown(), limit) if each is not None]
    return _compared(core, entry, max([first, *bounds]), following, rebuilt)


def _verify_window(core: Core, entry: ViewEntry) -> list[Difference]:
    """The newest window against recompute, the others against the same parts filled anew."""
    maintainer: Any = entry.block.maintainer
    result = core.run(entry.query)
    expected = encode_columns(entry.schema, result, core.dictionary)
    found = compare(core, entry.query, expected, maintainer.answer())
    rebuilt: Any = build(core, entry.plan.program, entry)
    read = entry.plan.program.inputs[0].source
    rebuilt.fill(core.catalog.table(read).table.newest, core.ticks.get(read))
    first, following = maintainer.first, maintainer.next
    if first is None or following is None:
        return found
    oldest = maintainer.oldest_shown()
    start = first if oldest is None else max(first, oldest)
    return found + _compared(core, entry, start, following - 1, rebuilt)


def _compared(
    core: Core, entry: ViewEntry, start: int, following: int, rebuilt: KeptParts
) -> list[Difference]:
    maintainer: Any = entry.block.maintainer
    known = maintainer.parts_within(start, following - 1)
    found: list[Difference] = []
    for i in sorted({*known, *rebuilt.parts_within(start, following - 1)}):
        found += compare(core, entry.query, rebuilt.part(i), maintainer.part(i))
    return found


# The defining query.


def _against_definition(
    core: Core, entry: ViewEntry, start: int, following: int
) -> list[Difference]:
    (statement,) = parse(entry.sql)
    if not isinstance(statement, CreateTemporalView) or statement.defined_by is None:
        return []
    definition = _definition(core, entry, statement)
    maintainer = temporal_maintainer(entry)
    found: list[Difference] = []
    for i in _sample(start, following):
        tables = {}
        for each in definition.references:
            source = maintainer if each.source == entry.name else part_source(core, each.source)
            assert source is not None
            low, high = each.span_at(i)
            rows = [source.part(p) for p in source.parts_within(low, high)]
            schema = source.part(high).schema
            whole = concat(schema, rows) if rows else Delta.empty(schema)
            tables[each.name.lower()] = expanded(whole, core.dictionary)
        result = core.run(definition.query, tables=tables)
        expected = encode_columns(entry.schema, result, core.dictionary)
        found += compare(core, entry.query, expected, maintainer.part(i))
    return found


def _definition(core: Core, entry: ViewEntry, statement: CreateTemporalView) -> PartQuery:
    def length_of(name: str) -> int | None:
        source = part_source(core, name)
        return None if source is None else source.length

    made = lower_definition(
        statement, entry.sql, core.catalog, length_of, describe(core), entry.schema
    )
    shaped = under_schema(made.query, entry.schema, statement.span)
    return PartQuery(rewrite(shaped), made.references, made.whole)


def _sample(start: int, following: int) -> list[int]:
    """The first and the newest part, and some between; always the same ones."""
    parts = range(start, following)
    if len(parts) <= _SAMPLED:
        return list(parts)
    chosen = random.Random(following).sample(parts[1:-1], _SAMPLED - 2)
    return [parts[0], *sorted(chosen), parts[-1]]

"""Compare a temporal view with its parts computed again, and with the query that defines it.

The text of the view is read again, and the engine computes each part from the rows of the parts
that it names, from the oldest for which all sources are still kept. The query of DEFINED BY is run
for sampled parts: m[i] in it is a part, m alone is everything up to and with part i. Windows of
parts are cut from the rows of the table, for sampled slides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlglot import exp

from viewmill.algebra.schema import Schema
from viewmill.deltas.arrow import encode_columns
from viewmill.deltas.delta import Delta, concat
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.create import describe
from viewmill.mill.refresh import netted
from viewmill.mill.temporal import part_source, temporal_maintainer
from viewmill.mill.verify import Difference, compare, definition
from viewmill.mill.verify_patterns import expected_matches, expected_parts
from viewmill.mill.verify_row_patterns import expected_rows
from viewmill.program.parts import PartQuery
from viewmill.program.patterns import PatternQueries
from viewmill.program.row_patterns import RowPatternQueries
from viewmill.program.window_parts import WindowParts
from viewmill.sql.dialect import PartRangeSuffix, PartSuffix, suffixes_of
from viewmill.sql.lower import lower
from viewmill.sql.lower_parts import PartCatalog, lower_definition, under_schema
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateTemporalView
from viewmill.sql.statements import PartQuery as WrittenQuery

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
    found: list[Difference] = []
    for i, expected in _computed(core, entry, start, following):
        found += compare(core, entry.query, expected, maintainer.part(i))
    return found + _against_definition(core, entry, start, following)


def _computed(
    core: Core, entry: ViewEntry, start: int, following: int
) -> Iterator[tuple[int, Delta]]:
    """The parts as INITIALIZE and UPDATE say, one after another; those before are as they are."""
    (statement,) = parse(entry.sql)
    assert isinstance(statement, CreateTemporalView)
    maintainer = temporal_maintainer(entry)
    own: dict[int, Delta] = {}

    def part(source: str, i: int) -> Delta:
        if source.lower() != entry.name.lower():
            found = part_source(core, source)
            assert found is not None
            return found.part(i)
        return own[i] if i in own else maintainer.part(i)

    queries = {
        is_first: _PartQuery(core, entry, statement.initialize if is_first else statement.update)
        for is_first in (True, False)
    }
    of_nothing: dict[bool, Delta] = {}  # where no part that is read has a row
    for i in range(start, following):
        query, is_first = queries[i == maintainer.first], i == maintainer.first
        rows = query.rows_at(i, part)
        has_rows = any(each.size for each in rows.values())
        if has_rows or is_first not in of_nothing:
            own[i] = query.run(rows)
            if not has_rows:
                of_nothing[is_first] = own[i]
        else:
            own[i] = of_nothing[is_first]
        yield i, own[i]


class _PartQuery:
    """INITIALIZE or UPDATE, lowered anew: each part that it reads is a table of its own."""

    def __init__(self, core: Core, entry: ViewEntry, written: WrittenQuery) -> None:
        self._core, self._entry, self._subscript = core, entry, written.subscript
        self._read: dict[str, tuple[str, exp.Expr, exp.Expr]] = {}  # source, first and last part
        self._schemas: dict[str, Schema] = {}
        tree = written.query.copy()
        for table in list(tree.find_all(exp.Table)):
            for suffix in suffixes_of(table):
                assert isinstance(suffix, PartSuffix | PartRangeSuffix)
                name = f"parts {len(self._read)}"
                last = suffix.this if isinstance(suffix, PartSuffix) else suffix.expression
                self._read[name] = table.name, suffix.this, last
                is_own = table.name.lower() == entry.name.lower()
                found = entry.schema if is_own else core.catalog.find(table.name)
                assert isinstance(found, Schema)
                self._schemas[name] = found
                table.set(
                    "alias", table.args.get("alias") or exp.TableAlias(this=table.this.copy())
                )
                table.set("suffixes", None)
                table.set("this", exp.to_identifier(name, quoted=True))
        lowered = lower(tree, entry.sql, PartCatalog(core.catalog, self._schemas), describe(core))
        self._query = under_schema(lowered, entry.schema, written.span)

    def rows_at(self, i: int, part: Callable[[str, int], Delta]) -> dict[str, Delta]:
        """The rows that part i reads, by name."""
        found = {}
        for name, (source, first, last) in self._read.items():
            low, high = (_subscript(each, self._subscript, i) for each in (first, last))
            known = part_source(self._core, source)
            assert known is not None
            within = known.parts_within(low, high)
            pieces = [part(source, each) for each in within]
            found[name] = concat(self._schemas[name], [Delta.empty(self._schemas[name]), *pieces])
        return found

    def run(self, rows: Mapping[str, Delta]) -> Delta:
        """The part."""
        tables = {name: expanded(each, self._core.dictionary) for name, each in rows.items()}
        result = self._core.run(self._query, tables=tables)
        return encode_columns(self._entry.schema, result, self._core.dictionary)


def _subscript(node: exp.Expr, name: str, i: int) -> int:
    """The number of a part."""
    match node:
        case exp.Paren():
            return _subscript(node.this, name, i)
        case exp.Neg():
            return -_subscript(node.this, name, i)
        case exp.Literal():
            return int(float(node.name))
        case exp.Column():
            return i
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv():
            a, b = (_subscript(each, name, i) for each in (node.this, node.expression))
            if isinstance(node, exp.Div | exp.IntDiv):
                return a // b
            return a + b if isinstance(node, exp.Add) else a - b if isinstance(
                node, exp.Sub) else a * b  # fmt: skip
    raise AssertionError(node)


def _verify_pattern(core: Core, entry: ViewEntry) -> list[Difference]:
    maintainer: Any = entry.block.maintainer
    if not maintainer.has_parts:
        is_general = isinstance(entry.plan.program.body, RowPatternQueries)
        expected = (expected_rows if is_general else expected_matches)(core, entry)
        return compare(core, entry.query, expected, maintainer.matched())
    first, following = maintainer.first, maintainer.next
    if first is None or following is None:
        return []
    parts = expected_parts(core, entry)
    limit, _ = maintainer.carried()
    bounds = [each for each in (maintainer.oldest_shown(), limit) if each is not None]
    start = max([first, *bounds])
    found: list[Difference] = []
    for i in sorted({*parts, *maintainer.parts_within(start, following - 1)}):
        expected = parts.get(i, Delta.empty(entry.schema))
        found += compare(core, entry.query, expected, maintainer.part(i))
    return found


def _verify_window(core: Core, entry: ViewEntry) -> list[Difference]:
    """The answers against the query over the rows of each window, cut from the table's rows."""
    maintainer: Any = entry.block.maintainer
    body = entry.plan.program.body
    assert isinstance(body, WindowParts)
    query, source = definition(core, entry), entry.plan.program.inputs[0].source
    parts = core.catalog.table(source).table.parts
    assert parts is not None

    def answer(tables: Mapping[str, Any], reached: Mapping[str, int | None]) -> Delta:
        result = core.run(query, tables=tables, reached=reached)
        return encode_columns(entry.schema, result, core.dictionary)

    found = compare(core, entry.query, answer({}, {}), maintainer.answer())
    first, following = maintainer.first, maintainer.next
    if first is None or following is None:
        return found
    kept = {source.lower(): expanded(parts.kept(), core.dictionary)}
    oldest = maintainer.oldest_shown()
    start = first if oldest is None else max(first, oldest)
    for slide in _sample(start, following):
        expected = answer(kept, {source: (slide + 1) * body.window.slide})
        found += compare(core, entry.query, expected, maintainer.part(slide))
    return found


# The defining query.


def _against_definition(
    core: Core, entry: ViewEntry, start: int, following: int
) -> list[Difference]:
    (statement,) = parse(entry.sql)
    if not isinstance(statement, CreateTemporalView) or statement.defined_by is None:
        return []
    defined = _definition(core, entry, statement)
    maintainer = temporal_maintainer(entry)
    found: list[Difference] = []
    for i in _sample(start, following):
        tables = {}
        for each in defined.references:
            source = maintainer if each.source == entry.name else part_source(core, each.source)
            assert source is not None
            low, high = each.span_at(i)
            rows = [source.part(p) for p in source.parts_within(low, high)]
            schema = source.part(high).schema
            whole = concat(schema, rows) if rows else Delta.empty(schema)
            tables[each.name.lower()] = expanded(whole, core.dictionary)
        result = core.run(defined.query, tables=tables)
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
    return PartQuery(shaped, made.references, made.whole)


def _sample(start: int, following: int) -> list[int]:
    """The first and the newest part, and some between; always the same ones."""
    parts = range(start, following)
    if len(parts) <= _SAMPLED:
        return list(parts)
    chosen = random.Random(following).sample(parts[1:-1], _SAMPLED - 2)
    return [parts[0], *sorted(chosen), parts[-1]]

"""One shard of a pattern view: the rows that were sent here, and the runs of their groups.

takes  deltas of the table, how far the time of all rows has come
gives  the change of the matches; rows and runs as bytes, and back
next   pipeline.shards.slot, which keeps the bytes in Spark's state store
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

import pyarrow as pa

from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.blobs import read_tables, write_tables
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import as_delta
from viewmill.deltas.rows import to_delta
from viewmill.mill.pattern_snapshots import (
    MATCH_STATES,
    RunsLayout,
    load_matches,
    match_tables,
)
from viewmill.mill.patterns import pattern_maintainer
from viewmill.mill.table import Table
from viewmill.pipeline.shards.layout import MULTIPLICITY
from viewmill.pipeline.shards.patterns import ShardPattern
from viewmill.program.patterns import PatternQueries
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateTable

_ENGINE = "viewmill.engines.duckdb:DuckdbEngine"


class PatternShard:
    """The automaton of a view over the rows of one shard. An error changes nothing."""

    def __init__(self, pattern: ShardPattern, dictionary: Dictionary) -> None:
        self._pattern, self.dictionary = pattern, dictionary
        (statement,) = parse(pattern.table)
        assert isinstance(statement, CreateTable)
        self._table = Table.from_statement(statement, dictionary)
        assert self._table.parts is not None
        self._parts = self._table.parts
        body = pattern.program.body
        assert isinstance(body, PatternQueries)
        self._version = 0
        make = pattern_maintainer(body)
        self._maintainer: Any = make(
            pattern.program, self._parts, _run, dictionary, lambda: self._version, None,
            lambda: False,
        )  # fmt: skip

    def take(self, deltas: Mapping[str, Delta], reached: int | None) -> dict[str, Delta]:
        """Apply one batch and keep it: the change of the matches."""
        rows = deltas.get(self._pattern.stream)
        rows = Delta.empty(self._table.schema) if rows is None else rows
        try:
            change = as_delta(self._table.admit(rows))
            self._table.stage(change)
            if reached is not None:
                self._parts.reach(reached)
            self._maintainer.apply(self._table.name, change)
            given = self._maintainer.flush()
        except BaseException:
            self._maintainer.rollback()
            self._table.rollback()
            raise
        self._keep()
        return {self._pattern.view: self._numbered(given)}

    def _keep(self) -> None:
        self._version += 1
        self._table.commit(self._version)
        self._maintainer.commit()
        self._maintainer.forget()
        self._parts.forget()

    def late_rows(self) -> list[tuple[str, str]]:
        """The rows that came too late since the last call: why, and the row."""
        found = [json.dumps(each.row, default=str) for each in self._parts.refused]
        self._parts.refused.clear()
        return [("the row came too late", row) for row in found]

    def contents(self) -> dict[str, Delta]:
        """The matches."""
        return {self._pattern.view: self._numbered(self._maintainer.contents())}

    def _numbered(self, rows: Delta) -> Delta:
        return Delta(self._pattern.output, rows.columns, rows.nulls, rows.multiplicity, rows.size)

    @property
    def state_bytes(self) -> int:
        """What rows, runs and matches hold."""
        own: int = sum(self._maintainer.state_bytes().values())
        return self._parts.nbytes + own

    # As bytes.

    def snapshot(self) -> bytes:
        """The rows that are kept, the newest part, and the runs that no row tells any more."""
        rows = decode_delta(self._parts.kept(), self.dictionary, multiplicity=MULTIPLICITY)
        if not self._maintainer.has_parts:
            end = self._maintainer.needs_from
            notes = pa.table({"newest": [self._parts.newest_part()], "end": [end]})
            kept = match_tables(self._maintainer, self.dictionary, self._pattern.program)
            return write_tables([rows, notes, *(kept or [None] * len(MATCH_STATES))])
        limit, carried = self._maintainer.carried()
        layout = RunsLayout(self.dictionary, self._pattern.program)
        notes = pa.table({"newest": [self._parts.newest_part()], "limit": [limit]})
        runs = (
            [pa.concat_tables(map(layout.groups, carried)),
             pa.concat_tables(map(layout.runs, carried))] if carried else [None, None]
        )  # fmt: skip
        return write_tables([rows, notes, *runs])

    def load(self, snapshot: bytes) -> None:
        """Take the rows and runs of a snapshot."""
        rows, notes, *states = read_tables(snapshot)
        newest = notes.column("newest")[0].as_py()
        schema = self._table.schema
        self._table.stage(to_delta(rows, schema, self.dictionary, multiplicity=MULTIPLICITY))
        if newest is not None:
            self._parts.reach(newest)
        self._table.commit(self._version)
        program = self._pattern.program
        if not self._maintainer.has_parts:
            if states[0] is not None:
                end = notes.column("end")[0].as_py()
                load_matches(self._maintainer, self.dictionary, program, states, end)
        elif (limit := notes.column("limit")[0].as_py()) is not None:
            layout, (groups, _) = RunsLayout(self.dictionary, program), states
            self._maintainer.carry(limit, [] if groups is None else layout.carried(*states))
        self._maintainer.fill()
        self._maintainer.commit()
        self._maintainer.forget()


@cache
def _engine() -> Any:
    """DuckDB, one for all slots of this worker."""
    return pkgutil.resolve_name(_ENGINE)()


def _run(relation: Any, tables: Mapping[str, Any]) -> Any:
    return _engine().run(relation, dict(tables))

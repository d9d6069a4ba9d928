"""Commit one batch of all sources to the mill, exactly once.

takes  the rows of each source as Arrow tables, the ids of the query and of the batch
does   one commit with the rows, the dead letters and the ledger entry of the batch
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.rows import to_delta
from viewmill.errors import SourceBroken
from viewmill.mill.mill import Mill
from viewmill.mill.refresh import MULTIPLICITY
from viewmill.mill.table import Table
from viewmill.pipeline.dead_letters import CREATE, TABLE, Letter, take_or_refuse
from viewmill.pipeline.placement import Arrived
from viewmill.pipeline.shards.archive import note_pieces
from viewmill.pipeline.source import Source
from viewmill.pipeline.storage import Storage
from viewmill.pipeline.tombstones import take_images

LEDGER = "_viewmill_ledger"
_CREATE_LEDGER = (
    f"CREATE TABLE {LEDGER} (name STRING NOT NULL, batch BIGINT NOT NULL, PRIMARY KEY (name))"
)
# More deletes of missing rows in one batch mean that the source is broken; each costs a lookup.
_PROBLEMS = 10_000


def last_taken(mill: Mill, storage: Storage) -> int:
    """The last batch of the streaming query that the mill has committed, -1 without any."""
    query = storage.query_id()
    if query is None or LEDGER not in mill:
        return -1
    batches = dict(mill.sql(f"SELECT name, batch FROM {LEDGER}").rows())
    return int(batches.get(f"query {query}", -1))


@dataclass
class Taken:
    """What was taken of a batch."""

    rows: int
    letters: int
    repeated: bool = False


class Ledger:
    """Which batches were committed, of the streaming query and of batch sources."""

    def __init__(self, mill: Mill) -> None:
        self._mill = mill
        for name, create in ((LEDGER, _CREATE_LEDGER), (TABLE, CREATE)):
            if name not in mill:
                mill.sql(create)
        found = mill.sql(f"SELECT name, batch FROM {LEDGER}").rows()
        self._batches: dict[str, int] = dict(found)

    def last(self, name: str) -> int:
        """The last batch taken under a name, -1 when none was."""
        return self._batches.get(name, -1)

    def others(self, name: str) -> list[str]:
        """Streaming queries other than this one that batches were taken from."""
        return [each for each in self._batches if each.startswith("query ") and each != name]

    def note(self, name: str, batch: int) -> None:
        """Add an entry to the current batch of the mill."""
        self._mill.upsert(LEDGER, [(name, batch)])

    def keep(self, name: str, batch: int) -> None:
        """The entry was committed: remember it."""
        self._batches[name] = batch


def take_batch(
    mill: Mill,
    ledger: Ledger,
    name: str,
    batch: int,
    sources: Iterable[Source],
    arrived: Arrived,
) -> Taken:
    """Commit a batch unless it was committed before; batch ids increase, possibly with gaps."""
    if batch <= ledger.last(name):
        return Taken(0, 0, repeated=True)
    letters = [Letter(source, batch, why, row) for source, why, row in arrived.refused]
    with mill.batch():
        for source in sources:
            if source.name in arrived.rows:
                refused = take_rows(mill, source, arrived.rows[source.name], arrived.whole)
                letters += [Letter(source.name, batch, why, row) for why, row in refused]
        for table, parts in arrived.changes.items():
            for part in parts:
                mill.apply(table, part, multiplicity=MULTIPLICITY)
        if letters:
            mill.insert(TABLE, letters)
        if arrived.archived:
            note_pieces(mill, batch, arrived.archived)
        notes = {name: batch, **arrived.notes}
        for noted, number in notes.items():
            ledger.note(noted, number)
    for noted, number in notes.items():
        ledger.keep(noted, number)
    return Taken(sum(arrived.counts.values()), len(letters))


def take_rows(
    mill: Mill, source: Source, rows: pa.Table, whole: Container[str] = ()
) -> list[tuple[str, str]]:
    """Add the rows of a source to the current batch; for a source in `whole` they replace all."""
    table = mill.core.catalog.table(source.name).table

    def delta(part: pa.Table) -> Delta:
        signs = {} if source.sign is None else {source.sign_kind: source.sign}
        made = to_delta(part, table.schema, mill.core.dictionary, **signs)
        if table.parts is not None and made.size:
            table.parts.span(made)  # a row without a time has no part
        return made

    if not (source.checked or source.key or source.name in whole):
        return take_or_refuse(rows, lambda part: mill.change(source.name, delta(part)))
    deltas: list[Delta] = []
    refused = take_or_refuse(rows, lambda part: deltas.append(delta(part)))
    if not deltas and source.name not in whole:
        return refused
    together = concat(table.schema, deltas) if deltas else Delta.empty(table.schema)
    if source.key:
        return refused + take_images(mill, source, together)
    if source.name in whole:
        contents = table.contents()
        mill.change(source.name, consolidate(concat(table.schema, [together, contents.negated()])))
        return refused
    together, missing = _without_missing(mill, table, together)
    mill.change(source.name, together)
    return refused + missing


def _without_missing(mill: Mill, table: Table, delta: Delta) -> tuple[Delta, list[tuple[str, str]]]:
    """Remove the deletes of missing rows from the delta of a checked source."""
    refused: list[tuple[str, str]] = []
    while (at := table.problem(delta)) is not None:
        if len(refused) == _PROBLEMS:
            raise SourceBroken(
                f'source "{table.name}" deletes more than {_PROBLEMS} rows that are not there',
                hint="Rows were lost, or the source starts in the middle of its history.",
            )
        (row,) = decode_delta(delta.take(np.array([at])), mill.core.dictionary).to_pylist()
        refused.append(("the row to delete is not there", json.dumps(row, default=str)))
        delta = delta.take(np.delete(np.arange(delta.size), at))
    return delta, refused

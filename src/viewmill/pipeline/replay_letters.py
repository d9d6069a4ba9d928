"""Take dead letters again, after their rows, or the reason why they were refused, were repaired.

takes  the letters that wait, some of them with other rows than they came with
does   a commit for each row that fits now, with the note that its letter is done
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from viewmill.deltas.arrow import arrow_schema
from viewmill.errors import InvalidArgument, InvalidRow, nearest
from viewmill.mill.mill import Mill
from viewmill.pipeline.dead_letters import TABLE, Letter
from viewmill.pipeline.source import Source
from viewmill.pipeline.take_batch import take_rows
from viewmill.sources.read_files import AS_WRITTEN, convert, text_table

REPLAYED = "_viewmill_replayed"
MISSING = "the row to delete is not there"
_CREATE = (
    f"CREATE TABLE {REPLAYED} (source STRING NOT NULL, batch BIGINT NOT NULL,"
    " reason STRING NOT NULL, row STRING NOT NULL) APPEND ONLY"
)


class Replayed(NamedTuple):
    """How many letters were taken, and those that were refused again, with the reason of today."""

    taken: int
    refused: list[Letter]


def waiting_letters(mill: Mill) -> list[Letter]:
    """The letters that were not replayed."""
    found = Counter(_letters(mill, TABLE))
    found.subtract(_letters(mill, REPLAYED))
    return sorted(found.elements())


def _letters(mill: Mill, table: str) -> list[Letter]:
    if table not in mill:
        return []
    rows = mill.sql(f"SELECT source, batch, reason, row FROM {table}").rows()
    return [Letter(*row) for row in rows]


def letter_id(letter: Letter) -> str:
    """A name for a letter; equal letters have one name."""
    return hashlib.blake2b(json.dumps(letter).encode(), digest_size=8).hexdigest()


def replay(
    mill: Mill, sources: Mapping[str, Source], repaired: Iterable[tuple[str, Any]]
) -> Replayed:
    """Take letters, by their ids, with the rows that are given (objects, or texts of JSON)."""
    waiting: dict[str, list[Letter]] = {}
    for letter in waiting_letters(mill):
        waiting.setdefault(letter_id(letter), []).append(letter)
    if REPLAYED not in mill:
        mill.sql(_CREATE)
    chosen = []
    for id_, row in repaired:
        if not waiting.get(id_):
            raise InvalidArgument(
                f"no dead letter {id_} waits", hint="It was replayed, or it never came."
            )
        letter = waiting[id_].pop()
        chosen.append((_source(sources, letter), letter, row))
    refused = []
    for source, letter, row in chosen:
        why = _take(mill, source, letter, row)
        refused += [letter._replace(reason=why)] if why else []
    return Replayed(len(chosen) - len(refused), refused)


def _source(sources: Mapping[str, Source], letter: Letter) -> Source:
    known = {name.lower(): each for name, each in sources.items()}
    if letter.source.lower() not in known:
        raise InvalidArgument(
            f'there is no source "{letter.source}" that the letter could go to',
            hint=nearest(letter.source, list(sources)),
        )
    return known[letter.source.lower()]


def _take(mill: Mill, source: Source, letter: Letter, row: Any) -> str:
    """Take one row; why it is refused, if it is."""
    try:
        rows = _as_table(mill, source, letter, row)
        with mill.batch():
            refused = take_rows(mill, source, rows)
            if not refused:
                mill.insert(REPLAYED, [letter])
    except InvalidRow as why:
        return why.message
    return refused[0][0] if refused else ""


def _as_table(mill: Mill, source: Source, letter: Letter, row: Any) -> pa.Table:
    """A row as its source would bring it."""
    schema = arrow_schema(mill.core.catalog.table(source.name).table.schema)
    sign = source.sign
    if sign is not None:
        kind = pa.string() if source.change else pa.int64()
        schema = schema.append(pa.field(sign, kind))
    found = _object(row)
    known = {name.lower(): name for name in schema.names}
    unknown = [name for name in found if name.lower() not in known]
    if unknown:
        raise InvalidRow(f"the row has a column {unknown[0]!r} that the source has not")
    values = {known[name.lower()]: value for name, value in found.items()}
    if sign is not None and sign not in values and letter.reason == MISSING:
        values[sign] = "delete" if source.change else "-1"  # it was kept without its sign
    if sign is not None and values.get(sign) is None:
        raise InvalidRow(f'the row does not say whether it comes or goes: "{sign}"')
    return convert(text_table("the letter", [values], schema, 0), schema, "the letter",
                   first_row=1)  # fmt: skip


def _object(row: Any) -> dict[str, Any]:
    """The columns of a row, numbers with the digits that they were written with."""
    text = row if isinstance(row, str) else json.dumps(row, default=str)
    try:
        found = json.loads(text, **AS_WRITTEN)
    except Exception as why:
        raise InvalidRow("the row is no JSON object", detail=str(why)) from why
    if not isinstance(found, dict):
        raise InvalidRow("the row is no JSON object")
    return found

"""Write views where others read them: as a table, or as their changes, file after file.

A table is one file that is put in place by one rename: a reader sees the old or the new one, whole.
Changes are files named by version and never altered; their net is the view. Where a killed run left
a gap, `catch_up` writes the difference first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from viewmill.cli.spec import Format, Sink
from viewmill.deltas.arrow_types import in_utc
from viewmill.errors import InvalidArgument, WrongFormat
from viewmill.sources.read_files import read_file

if TYPE_CHECKING:
    from viewmill.mill.changes import Change
    from viewmill.mill.mill import Mill

MULTIPLICITY = "_multiplicity"
CHANGE, VERSION = "_change_type", "_commit_version"
OPTIONS: dict[Format, str] = {
    "parquet": "FORMAT parquet",
    "csv": "FORMAT csv, HEADER true",
    "json": "FORMAT json",
}


def claim(sinks: Iterable[Sink], storage: Path) -> None:
    """Refuse a place that another sink has, or that holds what this project did not write there.

    What it wrote is noted in its storage, before it is written.
    """
    file = storage / "sinks.json"
    notes: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    for sink in sinks:
        place, view = str(_place(sink).absolute()), sink.view.lower()
        if notes.get(place, view) != view:
            raise InvalidArgument(
                f"the sink of {sink.view} is in the place of that of {notes[place]}",
                detail=place,
                hint="Give every sink a path of its own.",
            )
        if place not in notes and _holds_files(_place(sink)):
            raise WrongFormat(
                f"the sink of {sink.view} would replace or join files of others",
                detail=f"This project did not write {place}.",
                hint="Give the sink another path, or remove what is there.",
            )
        notes[place] = view
    if notes:
        fresh = file.with_suffix(".tmp")
        fresh.write_text(json.dumps(notes, indent=1))
        os.replace(fresh, file)


def _place(sink: Sink) -> Path:
    """The file of a table, the directory of changes."""
    suffix = f".{sink.format}"
    if sink.mode == "changes" or sink.path.suffix == suffix:
        return sink.path
    return sink.path / f"table{suffix}"


def _holds_files(place: Path) -> bool:
    return any(place.iterdir()) if place.is_dir() else place.exists()


def write_table(sink: Sink, rows: pa.Table) -> Path:
    """Replace the sink's file by these rows."""
    path = _place(sink)
    _write_file(rows, path, sink.format)
    return path


def write_changes(sink: Sink, changes: pa.Table, version: int) -> Path | None:
    """Add a file with the changes of one version: rows with `_change_type`."""
    if changes.num_rows == 0:
        return None
    versions = pa.array([version] * changes.num_rows, pa.int64())
    path = _free_name(sink, version)
    _write_file(changes.append_column(VERSION, versions), path, sink.format)
    return path


def _free_name(sink: Sink, version: int) -> Path:
    """A version may come twice: once by its batch, once by catching up or a full refresh."""
    for again in count():
        suffix = f"-{again}" if again else ""
        path = sink.path / f"changes-{version:012d}{suffix}.{sink.format}"
        if not path.exists():
            break
    return path


def follow(mill: Mill, sink: Sink) -> None:
    """From now on, add a file for every refresh that changes the view."""

    def write(change: Change) -> None:
        table = change.to_arrow()
        multiplicities = table[MULTIPLICITY].to_pylist()
        rows = table.drop_columns([MULTIPLICITY])
        write_changes(sink, as_changes(rows, multiplicities), change.version)

    mill[sink.view].subscribe(write)


def catch_up(sink: Sink, rows: pa.Table, version: int) -> Path | None:
    """Write what the files of the sink lack, so that their net is `rows`."""
    schema = rows.schema.append(pa.field(CHANGE, pa.string()))
    schema = schema.append(pa.field(VERSION, pa.int64()))
    written = [pa.table({field.name: pa.array([], field.type) for field in schema})]
    for file in sorted(sink.path.glob(f"changes-*.{sink.format}")):
        read = read_file(file, sink.format, schema, skip=0, batch_rows=1 << 20)
        written += [table.select(schema.names).cast(schema) for table in read]
    return write_changes(sink, difference(rows, pa.concat_tables(written)), version)


def difference(rows: pa.Table, changes: pa.Table) -> pa.Table:
    """The changes that are missing from `changes` to make up `rows`."""
    names = ", ".join(_quoted(name) for name in rows.column_names)
    query = f"""
        SELECT {names}, CASE WHEN m > 0 THEN 'insert' ELSE 'delete' END AS {CHANGE}
        FROM (
          SELECT {names}, sum(m)::BIGINT AS m
          FROM (SELECT {names}, 1 AS m FROM rows_now UNION ALL
                SELECT {names}, CASE {CHANGE} WHEN 'insert' THEN -1 ELSE 1 END FROM changes_so_far)
          GROUP BY {names}
        ), unnest(range(abs(m)))
        ORDER BY {CHANGE}"""
    with duckdb.connect() as connection:
        connection.register("rows_now", rows)
        connection.register("changes_so_far", changes.select([*rows.column_names, CHANGE]))
        return connection.sql(query).to_arrow_table()


def as_changes(rows: pa.Table, multiplicities: Iterable[int]) -> pa.Table:
    """Rows with multiplicity as rows with `_change_type`, deletes first."""
    numbered = list(enumerate(multiplicities))
    lost = [i for i, m in numbered for _ in range(-m)]
    won = [i for i, m in numbered for _ in range(m)]
    words = pa.array(["delete"] * len(lost) + ["insert"] * len(won), pa.string())
    return rows.take(pa.array(lost + won, pa.int64())).append_column(CHANGE, words)


def _write_file(table: pa.Table, path: Path, format: Format) -> None:
    """Write a file aside, sync it, and put it in place by one rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with duckdb.connect() as connection:
            # A moment in Parquet says that it is UTC, or Spark reads it as local time.
            connection.register("rows_now", in_utc(table) if format == "parquet" else table)
            connection.execute(f"COPY rows_now TO {_text(hidden)} ({OPTIONS[format]})")
        with hidden.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"

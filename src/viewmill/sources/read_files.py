"""Read CSV, JSON and Parquet files as Arrow tables of a known schema.

takes  a file, its format, the columns expected, how many rows to leave out
gives  tables of at most `batch_rows` rows, in the order of the file
next   cli.take_files and sources.files, which hand them to a mill

CSV and JSON values are text that is converted strictly: 1.5 is no BIGINT, the error names the row.
"""

from __future__ import annotations

import gzip
import io
import json
import reprlib
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from viewmill.errors import InvalidRow, nearest
from viewmill.sources.check_csv import check_quotes
from viewmill.sources.nested_json import is_nested, nested_column

BLOCK_BYTES = 4 << 20


class _KeyTwice(Exception):
    """A JSON object with a key twice; it says which."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys are different."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _KeyTwice(next(name for i, name in enumerate(names) if name in names[:i]))
    return found


AS_WRITTEN: dict[str, Any] = {
    "parse_float": str,
    "parse_int": str,
    "parse_constant": str,
    "object_pairs_hook": _object,
}


def read_file(
    file: Path, format: str, schema: pa.Schema, *, skip: int, batch_rows: int
) -> Iterator[pa.Table]:
    """The rows of a file after the first `skip`, as tables of at most `batch_rows` rows."""
    tables = {"csv": _read_csv, "json": _read_json, "parquet": _read_parquet}[format]
    row = 0
    for table in _resize(tables(file, schema), batch_rows, skip):
        if format == "parquet":
            yield table
        else:
            yield convert(table, schema, f"{file}", first_row=skip + row + 1)
        row += table.num_rows


def _resize(tables: Iterable[pa.Table], batch_rows: int, skip: int) -> Iterator[pa.Table]:
    """Regroup rows into tables of `batch_rows`, leaving out the first `skip` rows."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        left_out = min(skip, table.num_rows)
        skip -= left_out
        waiting.append(table.slice(left_out))
        count += table.num_rows - left_out
        while count >= batch_rows:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, batch_rows)
            waiting = [joined.slice(batch_rows)]
            count -= batch_rows
    if count:
        yield pa.concat_tables(waiting)


def _read_csv(file: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    if file.stat().st_size == 0:
        return
    check_quotes(file)
    try:
        with pa.input_stream(str(file), compression=_compression(file)) as stream:
            reader = pyarrow.csv.open_csv(
                stream,
                read_options=pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES),
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types={name: pa.string() for name in _csv_header(file)},
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,  # "" is an empty string, nothing is NULL
                ),
            )
            _check_names(file, reader.schema.names, schema)
            for batch in reader:
                yield pa.Table.from_batches([batch])
    except UnicodeDecodeError as error:
        raise InvalidRow(f"{file} is not UTF-8 text", detail=str(error)) from error
    except pa.ArrowInvalid as error:
        raise InvalidRow(f"{file} is not CSV as we read it", detail=str(error)) from error


def _csv_header(file: Path) -> list[str]:
    """The column names, read apart so that every column can then be asked for as text."""
    with pa.input_stream(str(file), compression=_compression(file)) as stream:
        start = stream.read(BLOCK_BYTES)
    options = pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES)
    line = start.split(b"\n", 1)[0] + b"\n"
    names: list[str] = pyarrow.csv.read_csv(io.BytesIO(line), read_options=options).column_names
    return names


def _read_json(file: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """JSON lines, or one array of objects; numbers keep the digits that they were written with."""
    names = schema.names
    known, spelled = set(names), {name.lower(): name for name in names}
    rows: list[dict[str, Any]] = []
    for number, value in _json_values(file):
        if not isinstance(value, dict):
            raise InvalidRow(f"{file}, row {number}: not a JSON object")
        if not value.keys() <= known:
            _check_names(file, value, schema)
            value = _object([(spelled[name.lower()], each) for name, each in value.items()])
        rows.append(value)
        if len(rows) == 10_000:
            yield text_table(file, rows, schema, number - len(rows))
            rows = []
    if rows:
        yield text_table(file, rows, schema, number - len(rows))


def _json_values(file: Path) -> Iterator[tuple[int, Any]]:
    open_text = gzip.open if _compression(file) else open
    number = 0
    with open_text(file, "rt", encoding="utf-8-sig") as stream:
        try:
            start = next((line.lstrip() for line in stream if line.strip()), "")
            stream.seek(0)
            if start.startswith("["):
                values = json.load(stream, **AS_WRITTEN)
                for number, value in enumerate(values, start=1):
                    yield number, value
                return
            for line in stream:
                if line.strip():
                    number += 1
                    yield number, json.loads(line, **AS_WRITTEN)
        except json.JSONDecodeError as error:
            raise InvalidRow(f"{file}, row {number}: not JSON", detail=str(error)) from error
        except RecursionError:
            raise InvalidRow(f"{file}, row {number}: nested too deeply") from None
        except _KeyTwice as error:
            raise InvalidRow(f"{file}, row {number}: {error} is there twice") from None
        except UnicodeDecodeError as error:
            raise InvalidRow(f"{file} is not UTF-8 text", detail=str(error)) from error


def text_table(
    file: Path | str, rows: list[dict[str, Any]], schema: pa.Schema, rows_before: int
) -> pa.Table:
    """Objects as columns of text; arrays, maps and structs have their types at once."""
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        if is_nested(field.type):
            columns.append(nested_column(values, field, _leaf, f"{file}", rows_before + 1))
        else:
            columns.append(_text_column(file, field.name, values, rows_before + 1))
    return pa.table(columns, names=schema.names)


def _text_column(file: Path | str, name: str, values: list[Any], first_row: int) -> pa.Array:
    for i, value in enumerate(values):
        if isinstance(value, bool):
            values[i] = "true" if value else "false"
        elif value is not None and not isinstance(value, str):
            place = f"{file}, row {first_row + i}"
            raise InvalidRow(f"{place}: {name} holds {json.dumps(value)}, not one value")
    return _texts(file, name, values, first_row)


def _leaf(values: list[Any], field: pa.Field) -> pa.Array:
    """Values inside of nested ones."""
    texts = pa.table([_text_column("", field.name, values, 1)], names=[field.name])
    made = convert(texts, pa.schema([field]), "", first_row=1)
    return made.column(0).combine_chunks()


def _texts(file: Path | str, name: str, values: list[Any], first_row: int) -> pa.Array:
    """Strings, which must be UTF-8: JSON can spell half of a character."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        row = next(i for i, each in enumerate(values) if each and not _is_whole(each))
        place = f"{file}, row {first_row + row}"
        raise InvalidRow(f"{place}: {name} holds half of a character (a surrogate)") from None


def _is_whole(text: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _read_parquet(file: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    try:
        with pyarrow.parquet.ParquetFile(file) as opened:
            _check_names(file, opened.schema_arrow.names, schema)
            for batch in opened.iter_batches():
                yield pa.Table.from_batches([batch])
    except pa.ArrowInvalid as error:
        raise InvalidRow(f"{file} is not a Parquet file", detail=str(error)) from error


def _check_names(file: Path, found: Iterable[str], schema: pa.Schema) -> None:
    known = {name.lower() for name in schema.names}
    found = list(found)
    if len({name.lower() for name in found}) < len(found):
        raise InvalidRow(f"{file} has a column twice: {', '.join(found)}")
    for name in found:
        if name.lower() not in known:
            hint = nearest(name, schema.names)
            raise InvalidRow(f"{file} has a column {name!r} that the table has not", hint=hint)


def _compression(file: Path) -> str | None:
    return "gzip" if file.suffix == ".gz" else None


def convert(table: pa.Table, schema: pa.Schema, place: str, *, first_row: int) -> pa.Table:
    """Turn columns of text into the types of the schema."""
    types = {field.name.lower(): field for field in schema}
    columns, names = [], []
    for name in table.column_names:
        field = types[name.lower()]
        columns.append(_convert_column(table[name], field, place, first_row))
        names.append(field.name)
    return pa.table(columns, names=names)


def _convert_column(
    texts: pa.ChunkedArray, field: pa.Field, place: str, first_row: int
) -> pa.ChunkedArray:
    if is_nested(texts.type):
        return texts  # `text_table` has read it
    try:
        return _parse(texts, field.type)
    except pa.ArrowInvalid:
        low, high = 0, len(texts)  # the first row that does not parse lies in [low, high)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                _parse(texts.slice(low, middle - low), field.type)
                low = middle
            except pa.ArrowInvalid:
                high = middle
        value = texts[low].as_py()
        message = f"{place}, row {first_row + low}: {field.name} cannot be {reprlib.repr(value)}"
        raise InvalidRow(message, detail=f"The column is {_sql_type(field.type)}.") from None


def _parse(texts: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_string(type_):
        return texts
    trimmed = pc.utf8_trim_whitespace(texts)
    if not pa.types.is_floating(type_) and (pc.max(pc.utf8_length(trimmed)).as_py() or 0) > 60:
        raise pa.ArrowInvalid("too long")  # of so many digits Arrow takes the last ones
    try:
        parsed = pc.cast(trimmed, type_)
        return _finite(parsed, trimmed) if pa.types.is_floating(type_) else parsed
    except pa.ArrowInvalid:
        if pa.types.is_timestamp(type_):
            return _parse_zoned(trimmed)
        if pa.types.is_integer(type_):  # 7.0, as pandas writes integers with gaps
            return pc.cast(pc.cast(trimmed, pa.decimal128(38, 10)), type_)
        raise


def _finite(numbers: pa.ChunkedArray, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The numbers; one that is infinite was written so."""
    said = pc.match_substring_regex(texts, "(?i)inf")
    if pc.any(pc.and_not(pc.is_inf(numbers), said)).as_py():
        raise pa.ArrowInvalid("beyond the type")
    return numbers


def _parse_zoned(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times of which some carry a zone, as in 2024-01-02T03:04:05Z; all become UTC."""
    zoned = pc.match_substring_regex(texts, r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$")
    nothing = pa.scalar(None, pa.string())
    plain = pc.cast(pc.if_else(zoned, nothing, texts), pa.timestamp("us"))
    moved = pc.cast(pc.if_else(zoned, texts, nothing), pa.timestamp("us", "UTC"))
    return pc.coalesce(plain, pc.cast(moved, pa.timestamp("us")))


def _sql_type(type_: pa.DataType) -> str:
    names = {"int32": "INT", "int64": "BIGINT", "float": "FLOAT", "bool": "BOOLEAN"}
    text = str(type_)
    return names.get(text, text.replace("decimal128", "DECIMAL").split("[")[0].upper())


def digest_file(file: Path) -> str:
    """A name for the contents of a file."""
    digest = blake2b(digest_size=16)
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()

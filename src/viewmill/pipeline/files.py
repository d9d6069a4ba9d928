"""Files and messages as streams, with the text of rows that cannot be read kept beside the rows.

takes  a format, the columns, and where the files are or will be; or a frame with JSON texts
gives  a DataFrame; of CSV and JSON with a column `_corrupt_record`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viewmill.algebra.names import quoted
from viewmill.errors import InvalidArgument
from viewmill.pipeline.source import CORRUPT

FORMATS = ("csv", "json", "parquet", "orc", "text")
# A batch is held in the driver's memory; a directory that was full from the start is many batches.
_BATCH_BYTES = str(128 << 20)
_DEFAULTS = {"csv": {"header": "true"}, "json": {}}  # where rows can be malformed


def read_files(
    spark: Any,
    format: str,
    schema: str | None,
    path: str,
    *,
    options: Mapping[str, str] | None = None,
    streaming: bool = True,
) -> Any:
    """The rows of files in `path`, a directory or a pattern, as they come."""
    if format not in FORMATS:
        raise InvalidArgument(f"no file format {format!r}", hint=f"One of {', '.join(FORMATS)}.")
    reader = (spark.readStream if streaming else spark.read).format(format)
    if format in _DEFAULTS and schema is not None:
        schema = f"{schema}, {CORRUPT} STRING"
        reader = reader.option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")
    given = {key.lower() for key in options or {}}
    if streaming and not given & {"maxfilespertrigger", "maxbytespertrigger"}:
        reader = reader.option("maxBytesPerTrigger", _BATCH_BYTES)
    for key, value in {**_DEFAULTS.get(format, {}), **(options or {})}.items():
        reader = reader.option(key, value)
    return (reader if schema is None else reader.schema(schema)).load(path)


def read_json(frame: Any, schema: str, *, column: str = "value") -> Any:
    """The rows in a column of JSON texts, as Kafka has them; what is no JSON is a dead letter."""
    fields = f"{schema}, {CORRUPT} STRING"
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}')"
    text = f"CAST({quoted(column)} AS STRING)"
    return frame.selectExpr(f"from_json({text}, '{fields}', {options}) AS row").select("row.*")

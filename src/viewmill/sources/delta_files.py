"""Read files of one version of a Delta table: with deletion vectors, and with mapped columns.

takes  a table of `deltalake` at a version, the names of columns
gives  its files, which are the same in two versions if the same rows of them count; their rows

pyarrow's own dataset of a Delta table refuses deletion vectors, and gives NULL for mapped columns.
"""

from __future__ import annotations

import hashlib
import pkgutil
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.errors import SourceBroken

_PHYSICAL = b"delta.columnMapping.physicalName"
_PARTITION = "partition."
Mask = npt.NDArray[np.bool_]  # of the rows of a file: whether they count


class DeltaFiles:
    """The files of one version."""

    def __init__(self, table: Any, storage_options: Mapping[str, str]) -> None:
        self._table, self._options = table, dict(storage_options)
        self._schema = pa.schema(table.schema().to_arrow())
        self._partitions = _partitions(table)
        self._masks = _masks(table, self._partitions)

    @property
    def keys(self) -> frozenset[tuple[str, str]]:
        """Each file, with a name for the rows of it that count."""
        return frozenset((path, _digest(self._masks.get(path))) for path in self._partitions)

    def rows(self, columns: list[str], keys: Iterable[tuple[str, str]] | None = None) -> pa.Table:
        """The rows of some files, or of all; columns that the version lacks are left out."""
        paths = sorted(path for path, _ in (self.keys if keys is None else keys))
        fields = [each for each in self._schema if each.name in columns]
        stored = pa.schema([each.with_name(_stored(each)) for each in fields])
        whole = [each for each in paths if each not in self._masks]
        tables = [self._read(whole, stored)]
        for path in paths:
            if (mask := self._masks.get(path)) is not None:
                tables.append(_counting(self._read([path], stored), mask))
        found = pa.concat_tables(tables).rename_columns([each.name for each in fields])
        return found.select([each for each in columns if each in found.column_names])

    def _read(self, paths: list[str], stored: pa.Schema) -> pa.Table:
        arrow = pkgutil.resolve_name("pyarrow.dataset")  # it imports pandas, so by name
        handler = pkgutil.resolve_name("deltalake.fs:DeltaStorageHandler")
        filesystem = pkgutil.resolve_name("pyarrow.fs:PyFileSystem")(
            handler(self._table.table_uri, self._options)
        )
        format = arrow.ParquetFileFormat()
        types = self._partition_schema(stored)
        fragments = [
            format.make_fragment(
                path, filesystem, _expression(arrow, self._partitions[path], types)
            )
            for path in paths
        ]
        made = arrow.FileSystemDataset(fragments, types, format, filesystem)
        return made.to_table(stored.names)

    def _partition_schema(self, stored: pa.Schema) -> pa.Schema:
        """The wanted columns and those of partitions, which the files themselves lack."""
        names = {name for values in self._partitions.values() for name in values}
        flat = [each for each in self._schema if not pa.types.is_nested(each.type)]
        found = [each.with_name(_stored(each)) for each in flat]
        more = [each for each in found if each.name in names and each.name not in stored.names]
        return pa.schema([*stored, *more])


def _partitions(table: Any) -> dict[str, dict[str, Any]]:
    """The values of the partition's columns of each file."""
    actions = pa.table(table.get_add_actions(flatten=True))
    names = [each for each in actions.column_names if each.startswith(_PARTITION)]
    columns = [actions[each].to_pylist() for each in names]
    plain = [each.removeprefix(_PARTITION) for each in names]
    values = zip(*columns, strict=True) if columns else [()] * actions.num_rows
    pairs = zip(actions["path"].to_pylist(), values, strict=True)
    return {unquote(path): dict(zip(plain, each, strict=True)) for path, each in pairs}


def _masks(table: Any, paths: Iterable[str]) -> dict[str, Mask]:
    vectors = pa.table(table.deletion_vectors())
    if not vectors.num_rows:
        return {}
    known = {_plain_path(each): each for each in paths}
    found = {}
    for row in vectors.to_pylist():
        path = known.get(_plain_path(row["filepath"].removeprefix(table.table_uri)))
        if path is None:
            raise SourceBroken(f"a deletion vector belongs to no file: {row['filepath']}")
        found[path] = np.array(row["selection_vector"], np.bool_)
    return found


def _plain_path(path: str) -> str:
    """A path of which nothing is escaped; deltalake escapes some of them twice."""
    return unquote(unquote(path)).lstrip("/")


def _counting(rows: pa.Table, mask: Mask) -> pa.Table:
    kept = np.ones(rows.num_rows, np.bool_)  # a vector may end before the file does
    kept[: len(mask)] = mask
    return rows.filter(pa.array(kept))


def _digest(mask: Mask | None) -> str:
    if mask is None or mask.all():
        return ""
    return hashlib.blake2b(np.flatnonzero(~mask).tobytes(), digest_size=16).hexdigest()


def _stored(field: pa.Field) -> str:
    """What a column is called in the files."""
    mapped = (field.metadata or {}).get(_PHYSICAL)
    if mapped is not None and pa.types.is_nested(field.type):
        raise SourceBroken(
            f'column "{field.name}" is nested in a table with column mapping: not read yet',
            hint="Follow into a table without that column.",
        )
    return str(field.name if mapped is None else mapped.decode())


def _expression(arrow: Any, values: Mapping[str, Any], schema: pa.Schema) -> Any:
    """What is known of the rows of a file; None if nothing is."""
    terms = [
        arrow.field(name).is_null() if value is None
        else arrow.field(name) == pa.scalar(value, schema.field(name).type)
        for name, value in values.items()
    ]  # fmt: skip
    return reduce(lambda one, other: one & other, terms) if terms else None

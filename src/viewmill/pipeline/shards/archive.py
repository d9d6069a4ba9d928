"""The archive of a pipeline in shards: the rows of its streams as files, for views that come later.

takes  the rows of a batch, in the workers that read them; each writes its own to Parquet
gives  the files that were committed with batches, so that rows are there exactly once

A file counts once the driver's mill has its name: that is committed together with the batch. What
a task wrote that failed, or that ran twice, has no name there and is removed at the next start.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from viewmill.algebra.names import folder_name
from viewmill.errors import DamagedFile
from viewmill.mill.storage.files import make_folders, sync_file, sync_folder

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill  # workers write files and know no mill

_LOG = logging.getLogger("viewmill")

TABLE = "_viewmill_archive"
_MOST_FILES = 256  # of a source, before they are put into fewer
_BYTES_PER_TASK = 128 << 20
_ROWS_PER_FILE = 1_000_000
_NOTE = "piece STRING"
_CREATE = (
    f"CREATE TABLE {TABLE} (source STRING NOT NULL, batch BIGINT NOT NULL, file STRING NOT NULL,"
    " rows BIGINT NOT NULL, bytes BIGINT NOT NULL)"
)


class Piece(NamedTuple):
    """A file with rows of one source that came in one batch."""

    source: str
    file: str
    rows: int
    bytes: int


def write_piece(source: str, folder: str, rows: pa.Table) -> Piece:
    """Write rows to a file of their own; it is on disk when this returns."""
    path = Path(folder) / f"{uuid.uuid4().hex}.parquet"
    make_folders(path.parent)
    pq.write_table(rows, path, compression="zstd")
    sync_file(path)
    sync_folder(path.parent)
    return Piece(source, path.name, rows.num_rows, path.stat().st_size)


class Archive:
    """The files of the sources in a folder, whose names the driver's mill keeps."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, mill: Mill) -> None:
        """Make the table of names at the first start."""
        if TABLE not in mill:
            mill.sql(_CREATE)

    def folder(self, source: str) -> Path:
        """Where the files of a source are."""
        return self._root / folder_name(source.lower())

    def files(self, mill: Mill, source: str, after: int, upto: int) -> list[str]:
        """The files of the batches after one, up to another; raises if any is not as written."""
        folder, found = self.folder(source), []
        for piece in _pieces(mill):
            if piece[0].lower() == source.lower() and after < piece[1] <= upto:
                path = folder / piece[2]
                if not path.is_file() or path.stat().st_size != piece[4]:
                    raise _lost(source, path)
                found.append(str(path))
        return sorted(found)

    def compact(self, spark: Any, mill: Mill, source: str, upto: int) -> None:
        """Put the files of the batches up to one into few where there are many; none may run.

        Executors read and write the rows. Until the new names are committed the old files count.
        """
        old = [
            each for each in _pieces(mill) if each[0].lower() == source.lower() and each[1] <= upto
        ]
        if len(old) <= _MOST_FILES:
            return
        try:
            paths = self.files(mill, source, -1, upto)
        except DamagedFile as why:  # which a view that needs the rows will say
            _LOG.warning("%s", why)
            return
        tasks = 1 + sum(each[4] for each in old) // _BYTES_PER_TASK
        rows = spark.read.parquet(*paths).coalesce(tasks)
        rewrite = _Rewrite(source, str(self.folder(source)))
        pieces = [
            Piece(*json.loads(row.piece)) for row in rows.mapInArrow(rewrite, _NOTE).collect()
        ]
        assert sum(each.rows for each in pieces) == sum(each[3] for each in old)
        with mill.batch():
            mill.delete(TABLE, old)
            note_pieces(mill, upto, pieces)
        for path in paths:
            Path(path).unlink(missing_ok=True)

    def forget_strangers(self, mill: Mill) -> None:
        """Remove files that no committed batch names; no query may run."""
        if not self._root.is_dir():
            return
        known = {piece[2] for piece in _pieces(mill)}
        for path in self._root.glob("*/*.parquet"):
            if path.name not in known:
                path.unlink(missing_ok=True)

    def status(self, mill: Mill) -> dict[str, Any]:
        """How much there is."""
        pieces = _pieces(mill)
        sizes = ((each[3], each[4]) for each in pieces)
        rows, size = (sum(each) for each in zip((0, 0), *sizes, strict=True))
        return {"files": len(pieces), "rows": rows, "bytes": size}


class _Rewrite:
    """A function for `mapInArrow`: the rows of many files in fewer."""

    def __init__(self, source: str, folder: str) -> None:
        self._source, self._folder = source, folder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(each.num_rows for each in held) >= _ROWS_PER_FILE:
                yield self._written(held)
                held = []
        if any(each.num_rows for each in held):
            yield self._written(held)

    def _written(self, held: list[pa.RecordBatch]) -> pa.RecordBatch:
        piece = write_piece(self._source, self._folder, pa.Table.from_batches(held))
        return pa.RecordBatch.from_pydict({"piece": [json.dumps(piece)]})


def note_pieces(mill: Mill, batch: int, pieces: Iterable[Piece]) -> None:
    """Add the files to the current batch of the mill."""
    mill.insert(TABLE, [(each.source, batch, each.file, each.rows, each.bytes) for each in pieces])


def _pieces(mill: Mill) -> list[tuple[Any, ...]]:
    if TABLE not in mill:
        return []
    return list(mill.sql(f"SELECT source, batch, file, rows, bytes FROM {TABLE}").rows())


def _lost(source: str, path: Path) -> DamagedFile:
    return DamagedFile(
        f'the archive of "{source}" has lost rows',
        detail=f"{path} is not what was written there.",
        hint="Bring it back from a copy. Views that are there go on without it; a new or changed"
        " one needs another storage directory.",
    )

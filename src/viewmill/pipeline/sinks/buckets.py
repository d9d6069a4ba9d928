"""Which rows of a table are in which file: buckets by the first bits of a hash.

takes  hashes of rows, names of files
gives  the buckets that rows belong to, split where they grew too large

A bucket's file has all there is to know of it in its name, so a directory needs no other list.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from viewmill.pipeline.sinks.row_hashes import Hashed, Hashes

Positions = npt.NDArray[np.int64]

ROWS = 16_384  # a table up to this size is one file
_MOST = 256  # of a table of any size, about so many buckets are full
_DEEPEST = 16
_NAME = re.compile(
    r"bucket-(\d{1,2})-([0-9a-f]{1,4})-(\d{1,12})-([0-9a-f]{16})-(\d{1,18})\.parquet"
)


def largest_bucket(rows: int) -> int:
    """The rows of a full bucket, in a table of so many rows."""
    return max(ROWS, rows // _MOST)


@dataclass(frozen=True, order=True)
class Bucket:
    """The rows whose hashes begin with `prefix`, a number of `depth` bits.

    `digest` is the sum of the hashes of whole rows; `version` wrote the file.
    """

    depth: int
    prefix: int
    rows: int
    digest: int
    version: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return (
            f"bucket-{self.depth}-{self.prefix:x}-{self.rows}-{self.digest:016x}"
            f"-{self.version}.parquet"
        )

    @classmethod
    def named(cls, name: str) -> Bucket | None:
        """The bucket in a file of this name."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        depth, prefix, rows, digest, version = found.groups()
        made = cls(int(depth), int(prefix, 16), int(rows), int(digest, 16), int(version))
        return made if made.depth <= _DEEPEST and made.prefix >> made.depth == 0 else None

    def holds(self, other: Bucket) -> bool:
        """Whether both have the same rows."""
        mine = (self.depth, self.prefix, self.rows, self.digest)
        return mine == (other.depth, other.prefix, other.rows, other.digest)


class Layout:
    """The buckets of a table; where none is, there are no rows."""

    def __init__(self, buckets: Iterable[Bucket]) -> None:
        self.buckets = sorted(buckets)
        self.rows = sum(each.rows for each in self.buckets)
        self.depth = max((each.depth for each in self.buckets), default=0)
        self._at = np.full(1 << self.depth, -1, np.int64)
        for i, each in enumerate(self.buckets):
            self._at[self._span(each)] = i

    @classmethod
    def read(cls, names: Iterable[str]) -> Layout | None:
        """The layout in the names of files; None if they are no buckets, or overlap."""
        buckets = [Bucket.named(name) for name in names]
        found = [each for each in buckets if each is not None]
        if not found or len(found) < len(buckets):
            return None
        made = cls(found)
        covered = sum(1 << (made.depth - each.depth) for each in found)
        return made if covered == np.count_nonzero(made._at >= 0) else None

    def _span(self, bucket: Bucket) -> slice:
        shift = self.depth - bucket.depth
        return slice(bucket.prefix << shift, (bucket.prefix + 1) << shift)

    def places(self, hashes: Hashes) -> Positions:
        """For each row the position of its bucket, -1 if there is none."""
        found: Positions = self._at[first_bits(hashes, self.depth)]
        return found


def first_bits(hashes: Hashes, depth: int) -> Positions:
    """The first bits of hashes as numbers."""
    if depth == 0:
        return np.zeros(len(hashes), np.int64)
    return (hashes >> np.uint64(64 - depth)).astype(np.int64)


def depth_for(rows: int, largest: int) -> int:
    """The depth at which so many rows, well spread, fill buckets to three quarters at most."""
    depth = 0
    while depth < _DEEPEST and rows > (largest << depth) * 3 // 4:
        depth += 1
    return depth


def cut(hashed: Hashed, depth: int, version: int) -> Iterator[tuple[Bucket, Hashed]]:
    """The buckets of rows at one depth, each with its rows."""
    bits = first_bits(hashed.places, depth)
    order = np.argsort(bits, kind="stable")
    ordered, bits = hashed.take(order), bits[order]
    borders = np.flatnonzero(np.diff(bits, prepend=-1, append=-1))
    for start, end in pairwise(borders.tolist()):
        part = ordered.slice(start, end)
        digest = int(part.digests.sum(dtype=np.uint64))
        yield Bucket(depth, int(bits[start]), end - start, digest, version), part


def split(
    hashed: Hashed, depth: int, largest: int, version: int
) -> Iterator[tuple[Bucket, Hashed]]:
    """The buckets of the rows of one bucket, cut deeper until none is too large."""
    for bucket, rows in cut(hashed, depth, version):
        if bucket.rows <= largest or depth == _DEEPEST:
            yield bucket, rows
        else:
            yield from split(rows, depth + 1, largest, version)


def write_bucket(rows: pa.Table, file: io.RawIOBase) -> None:
    """Write the rows of one bucket as Parquet.

    Texts repeat, and dictionaries make them small; for numbers they cost twice the time.
    """
    texts = [each.name for each in rows.schema if pa.types.is_string(each.type)]
    buffer = pa.BufferOutputStream()
    pq.write_table(rows, buffer, use_dictionary=texts or False)
    file.write(buffer.getvalue())


def read_buckets(files: Sequence[Path]) -> pa.Table:
    """The rows of some buckets."""
    tables = [pq.ParquetFile(file).read(use_threads=False) for file in files]
    return pa.concat_tables(tables).replace_schema_metadata(None)

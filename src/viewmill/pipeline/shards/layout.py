"""What travels to the workers: where rows go, and which programs wait there. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import lcm

from viewmill.algebra.schema import Schema
from viewmill.mill.parted import PartOptions
from viewmill.pipeline.shards.patterns import ShardPattern
from viewmill.program.exchange import Route
from viewmill.runtime.spark.programs import ShardProgram

# A packed blob: to which slot (as its key), in which order it was packed, what it is, the rows.
PACKED = "slot INT, place BIGINT, stream STRING, first BOOLEAN, rows BINARY"
# What a slot gives: deltas of parts, rows for the driver, refused rows, a failure, figures.
GIVEN = "kind STRING, name STRING, place BIGINT, content BINARY"

TO_DRIVER = "@driver"
TO_ARCHIVE = "@archive"  # with a note about a file that was written, and no rows
MULTIPLICITY = "_multiplicity"


@dataclass(frozen=True)
class PackedSource:
    """A source as workers know it."""

    name: str
    schema: Schema  # of its table
    signs: Mapping[str, str]  # {"change": column} or {"multiplicity": column} or nothing
    routes: tuple[Route, ...]
    to_driver: bool  # whether its rows go on to the driver, too
    clock: PartOptions | None = None  # if patterns on all shards go by the time of its rows
    parts: PartOptions | None = None  # if its table is in parts
    archive: str | None = None  # the folder to which its rows are written, too

    def coordinates(self) -> list[tuple[tuple[str, ...], int]]:
        """What is hashed, and how many cells there are; each once, in order."""
        found = {
            (columns, share): None
            for route in self.routes
            for columns, share in zip(route.columns, route.shares, strict=True)
            if columns is not None
        }
        return list(found)


@dataclass(frozen=True)
class Layout:
    """One life of a pipeline's shards. `keys` are what the slots are called in the state store."""

    id: str
    keys: tuple[int, ...]
    sources: tuple[PackedSource, ...]
    programs: tuple[ShardProgram | ShardPattern, ...]
    compiled: bool
    share: int | None = None  # bytes of states that a slot may keep in memory between batches
    fills: str = ""  # the folder with the states of views that came later

    def source_of(self, stream: str) -> PackedSource:
        """Whose rows a stream carries."""
        name = stream.rsplit("@", 1)[0]
        return next(each for each in self.sources if each.name == name)


def coordinate(number: int) -> str:
    """The column that holds a coordinate."""
    return f"_viewmill_cell_{number}"


def plain_column(number: int) -> str:
    """What a source's column is called on its way: PySpark takes the dot in a name for a path."""
    return f"_viewmill_column_{number}"


def slot_keys(slots: int) -> tuple[int, ...]:
    """Keys whose hashes spread slots evenly over partitions, whose number may change.

    Spark puts a key on the partition that its Murmur3 hash says, and 0 and 1 land together.
    """
    modulus = lcm(*range(1, slots + 1)) if slots <= 8 else slots
    found: dict[int, int] = {}
    key = 0
    while len(found) < slots:
        found.setdefault(_murmur3(key) % modulus, key)
        found = {place: each for place, each in found.items() if place < slots}
        key += 1
    return tuple(found[slot] for slot in range(slots))


def _murmur3(value: int) -> int:
    """Spark's hash of an INT, seed 42, as a signed number."""
    mask = 0xFFFFFFFF

    def rotated(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) & mask

    k = rotated(value * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (rotated(42 ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h

"""What a source is: something that says which rows came since an offset.

takes  the offsets that a mill has committed, the columns and the primary key that its table has
gives  steps: rows, and the offsets that are reached with them; a mill commits both together
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

Offsets = Mapping[str, str]  # by part of the source: a file's path, a topic's partition


@dataclass(frozen=True)
class Patch:
    """Rows that lack columns: those have the values of the rows that `keys` name, one for each."""

    rows: pa.Table
    keys: pa.Table


@dataclass(frozen=True)
class Step:
    """Rows that are committed together, and the offsets that have changed with them.

    The last four are of tables with a primary key, except `replaces`. A key occurs once in
    `upserted`, `removed` and `patches` together.
    """

    inserted: pa.Table | None
    offsets: Offsets
    deleted: pa.Table | None = None
    replaces: bool = False  # whether all rows that the table has go first
    upserted: pa.Table | None = None  # rows that replace those of their keys
    removed: pa.Table | None = None  # keys whose rows go, if they are there
    patches: tuple[Patch, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows it has."""
        tables = [self.inserted, self.deleted, self.upserted, self.removed]
        tables += [each.rows for each in self.patches]
        return sum(int(each.num_rows) for each in tables if each is not None)


@runtime_checkable
class Source(Protocol):
    """A source; it knows nothing of mills."""

    @property
    def has_more_columns(self) -> bool:
        """Whether columns that the table lacks are left out, and not an error."""

    @property
    def reads(self) -> str:
        """What it reads, for the status."""

    @property
    def title(self) -> str:
        """What it is called in errors and in the status."""

    def schema(self) -> pa.Schema | None:
        """Its columns, None if it does not know them."""

    def changes(
        self, offsets: Offsets, schema: pa.Schema, key: tuple[str, ...] = ()
    ) -> Iterator[Step]:
        """Everything that is available now and comes after the offsets.

        When the next step is asked for, the last one is committed.
        """

    def close(self) -> None:
        """Release what it holds; `changes` may be called again."""


@runtime_checkable
class Stream(Source, Protocol):
    """A source that says by itself when rows come, and that may keep something for who follows."""

    @property
    def key(self) -> tuple[str, ...]:
        """The primary key that a table for it needs; () if any will do."""

    def begin(self, *, is_durable: bool) -> None:
        """Called once, before the first `changes`: whether offsets outlive this process."""

    def wait(self, seconds: float) -> None:
        """Return when rows may have come, at the latest after some time."""

    def forget(self, offsets: Offsets) -> None:
        """Nobody goes on from these offsets: give up what is kept for them."""

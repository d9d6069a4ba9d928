"""What a source is: something that says which rows came since an offset.

takes  the offsets that a mill has committed, the columns that its table has
gives  steps: rows, and the offsets that are reached with them; a mill commits both together
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

Offsets = Mapping[str, str]  # by part of the source: a file's path, a topic's partition


@dataclass(frozen=True)
class Step:
    """Rows that are committed together, and the offsets that have changed with them."""

    inserted: pa.Table | None
    offsets: Offsets
    deleted: pa.Table | None = None

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(each.num_rows for each in (self.inserted, self.deleted) if each is not None)


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

    def changes(self, offsets: Offsets, schema: pa.Schema) -> Iterator[Step]:
        """Everything that is available now and comes after the offsets."""

    def close(self) -> None:
        """Release what it holds; `changes` may be called again."""

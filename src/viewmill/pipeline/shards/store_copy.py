"""One slot's part of Spark's state store, as a batch job reads it.

takes  the pieces of its entries
gives  what `slot.made_again` asks for
"""

from __future__ import annotations

from viewmill.pipeline.shards.slot import HEAD, SNAPSHOT
from viewmill.pipeline.shards.slot_bytes import Entry, Head, read_entry, read_head


class StoreCopy:
    """One slot's part of the state store, read and not written."""

    def __init__(self) -> None:
        self.pieces: dict[tuple[int, int], bytes] = {}  # by version and place in it

    def head(self) -> Head:
        """What the store says about the slot."""
        content = self._read(HEAD)
        return read_head(content) if content else Head()

    def set_head(self, head: Head) -> None:
        """Nothing is written here."""
        raise AssertionError("a copy is only read")

    def entry(self, version: int) -> Entry:
        """One batch of the log."""
        return read_entry(self._read(version))

    def snapshot(self) -> bytes:
        """The states at the log's beginning."""
        return self._read(SNAPSHOT)

    def append(self, version: int, entry: Entry) -> None:
        """Nothing is written here."""
        raise AssertionError("a copy is only read")

    def replace(self, snapshot: bytes) -> None:
        """Nothing is written here."""
        raise AssertionError("a copy is only read")

    def _read(self, version: int) -> bytes:
        return b"".join(
            content for place, content in sorted(self.pieces.items()) if place[0] == version
        )

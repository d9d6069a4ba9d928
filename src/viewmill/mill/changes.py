"""What a subscriber gets: the change of a view by one refresh, and a stream of them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.mill.readers import Readers, table_text

Row = tuple[Any, ...]


class Change(Readers):
    """The delta of a view: rows with multiplicity, at the version that made it.

    Iterating gives (row, multiplicity); `to_arrow` has them in a last column `_multiplicity`.
    If `is_whole`, these are all rows of the view: what came before is to be forgotten.
    """

    def __init__(
        self,
        view: str,
        version: int,
        delta: Delta,
        dictionary: Dictionary,
        *,
        is_whole: bool = False,
    ) -> None:
        self.view, self.version, self.is_whole = view, version, is_whole
        self._delta, self._dictionary = delta, dictionary
        self._table: Any = None

    @property
    def delta(self) -> Delta:
        """The rows in codes of `dictionary`."""
        return self._delta

    @property
    def dictionary(self) -> Dictionary:
        """What the codes of strings stand for."""
        return self._dictionary

    def to_arrow(self) -> Any:
        """A pyarrow.Table with a last column `_multiplicity`."""
        if self._table is None:
            self._table = decode_delta(self._delta, self._dictionary, multiplicity="_multiplicity")
        return self._table

    def __iter__(self) -> Iterator[tuple[Row, int]]:
        return iter([(row[:-1], row[-1]) for row in self.rows()])

    def __len__(self) -> int:
        return self._delta.size

    @property
    def inserted(self) -> list[Row]:
        """Rows that came, each as often as it came."""
        return [row for row, times in self for _ in range(times)]

    @property
    def deleted(self) -> list[Row]:
        """Rows that went, each as often as it went."""
        return [row for row, times in self for _ in range(-times)]

    def __repr__(self) -> str:
        table = self.to_arrow()
        return f"{self.view} at version {self.version}\n" + table_text(
            table.column_names, self.rows(), table.num_rows
        )


class Changes(Iterator[Change]):
    """The changes of a view since this was made, one for each refresh that changed something.

    In another thread than the writer's, `next` waits (at most `timeout` seconds, for ever if None).
    In the thread that wrote last, waiting could never end, so there the stream ends at the last
    change and goes on when asked again.
    """

    def __init__(self, writer: Callable[[], int], timeout: float | None) -> None:
        self._queue: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._writer, self._timeout = writer, timeout
        self.stop: Callable[[], None] | None = None

    def put(self, change: Change | None) -> None:
        """Hand over a change; None ends the stream."""
        self._queue.put(change)

    def __next__(self) -> Change:
        try:
            if self._timeout is None and self._writer() == threading.get_ident():
                change = self._queue.get_nowait()
            else:
                change = self._queue.get(timeout=self._timeout)
        except queue.Empty:
            raise StopIteration from None
        if change is None:
            self._queue.put(None)
            raise StopIteration
        return change

    def close(self) -> None:
        """Stop listening."""
        if self.stop is not None:
            self.stop()

"""Follow a source: its rows and its offsets are committed together, so each row is taken once.

takes  a source, the table that its rows go to
does   passes over what the source has now, asked by `catch_up` or by a thread of its own
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from viewmill.deltas.arrow import arrow_schema
from viewmill.errors import InvalidArgument, SourceBroken, ViewmillError
from viewmill.mill.import_table import create_statement
from viewmill.program.threads import one_of_ours
from viewmill.sources.source import Source, Step

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill

OFFSETS = "_viewmill_offsets"
_CREATE = (
    f"CREATE TABLE {OFFSETS} (name STRING NOT NULL, source STRING NOT NULL, part STRING NOT NULL, "
    "reached STRING NOT NULL, PRIMARY KEY (name, source, part))"
)
_LONGEST_S = 60.0  # between two attempts


class Follower:
    """One source that a mill follows."""

    def __init__(self, mill: Mill, name: str, source: Source, every: float) -> None:
        self._mill, self.name, self.source, self._every = weakref.ref(mill), name, source, every
        self._lock, self._awake = threading.Lock(), threading.Event()
        self._offsets: dict[str, str] | None = None  # None: to be read from the mill
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._rows, self._errors, self._caught_up = 0, 0, time.monotonic()
        self._error: ViewmillError | None = None

    def start(self) -> None:
        """Follow in a thread."""
        self._thread = threading.Thread(
            target=self._run, name=f"viewmill-source-{self.name}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a step that is being committed is finished."""
        self._stopped = True
        self._awake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self.source.close()

    def status(self) -> dict[str, Any]:
        """How far it is, for `mill.status()`."""
        return {
            "source": self.source.title,
            "state": self._state(),
            "offset": dict(self._offsets or {}),
            "rows": self._rows,
            "lag_s": time.monotonic() - self._caught_up,
            "error": None if self._error is None else str(self._error),
        }

    def _state(self) -> str:
        if self._stopped:
            return "stopped"
        if self._error is not None:
            return "failed" if isinstance(self._error, SourceBroken) else "retrying"
        return "following"

    def catch_up(self, deadline: float) -> bool:
        """Take everything that is there now; False if the deadline passes first."""
        if not self._lock.acquire(timeout=max(0.0, min(deadline - time.monotonic(), 1e6))):
            return False
        try:
            return self._pass_over(deadline)
        finally:
            self._lock.release()

    def _pass_over(self, deadline: float) -> bool:
        mill, began = self._mill(), time.monotonic()
        if mill is None or self._stopped:
            return True
        try:
            schema = arrow_schema(mill.core.catalog.table(self.name).table.schema)
            if self._offsets is None:
                self._offsets = read_offsets(mill, self.name, self.source)
            for step in self.source.changes(self._offsets, schema):
                self._commit(mill, step)
                if self._stopped or time.monotonic() > deadline:
                    return False
        except Exception as why:
            self.source.close()
            self._errors += 1
            self._error = _named(self.source, why)
            raise self._error from why
        self._error, self._errors, self._caught_up = None, 0, began
        return True

    def _commit(self, mill: Mill, step: Step) -> None:
        """One version with the rows and the offsets. Until it is done, only the mill knows both."""
        offsets, self._offsets = self._offsets or {}, None
        title = self.source.title
        with mill.batch():
            if step.rows is not None:
                mill.insert(self.name, step.rows)
            noted = [(self.name, title, part, reached) for part, reached in step.offsets.items()]
            mill.upsert(OFFSETS, noted)
        self._offsets = {**offsets, **step.offsets}
        self._rows += 0 if step.rows is None else step.rows.num_rows

    def _run(self) -> None:
        with one_of_ours():
            while not self._stopped:
                mill = self._mill()
                if mill is None or mill.core.closed:
                    return
                del mill
                wait = self._attempt()
                self._awake.wait(wait)

    def _attempt(self) -> float:
        """Pass over the source once; how long to wait until the next time."""
        try:
            self.catch_up(float("inf"))
        except ViewmillError:
            return min(self._every * 2.0**self._errors, _LONGEST_S)  # `status` has the error
        return self._every


def prepare(mill: Mill, name: str, source: Source, key: tuple[str, ...], options: str) -> None:
    """Create the table if there is none; refuse one with rows that the source did not bring."""
    if OFFSETS not in mill:
        mill.sql(_CREATE)
    offsets = read_offsets(mill, name, source)
    if name in mill:
        if not offsets and mill.core.catalog.table(name).table.rows:
            raise InvalidArgument(
                f'table "{name}" has rows that did not come from {source.title}',
                hint=f'Follow into another table, or empty it first: DELETE FROM "{name}".',
            )
        return
    schema = source.schema()
    if schema is None:
        raise InvalidArgument(
            f"{source.title} do not say what their columns are",
            hint=f"CREATE TABLE {name} (...) first.",
        )
    mill.sql(create_statement(name, schema.empty_table(), key, options))
    forget(mill, name)


def read_offsets(mill: Mill, name: str, source: Source) -> dict[str, str]:
    """The offsets that the mill has committed."""
    mine = (name, source.title)
    found = mill.sql(f"SELECT name, source, part, reached FROM {OFFSETS}").rows()
    return {part: reached for *whose, part, reached in found if tuple(whose) == mine}


def forget(mill: Mill, name: str) -> None:
    """Forget the offsets of whatever a table followed."""
    found = mill.sql(f"SELECT name, source, part, reached FROM {OFFSETS}").rows()
    mill.delete(OFFSETS, [row for row in found if row[0] == name])


def _named(source: Source, why: Exception) -> ViewmillError:
    """The error with the name of its source."""
    if isinstance(why, ViewmillError):
        message = f"{source.title}: {why.message}"
        return type(why)(message, detail=why.detail, hint=why.hint, span=why.span)
    return ViewmillError(f"{source.title}: {why}")

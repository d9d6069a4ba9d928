"""Everything that can go wrong, said so that a person can act on it.

Every error is a `ViewmillError`: the message is short and factual, the detail gives the reason, the
hint the next thing to try, and the span underlines the place in the SQL.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` of `sql`, both included, as sqlglot counts them."""

    sql: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.sql[self.start : self.end + 1]

    def underlined(self) -> list[str]:
        """The line that holds the span, and the marks below it."""
        line_start = self.sql.rfind("\n", 0, self.start) + 1
        line = self.sql[line_start:].split("\n", 1)[0]
        number = str(self.sql.count("\n", 0, self.start) + 1)
        last = min(self.end, line_start + len(line) - 1)
        marks = " " * (self.start - line_start) + "^" * max(last - self.start + 1, 1)
        return [f"  {number} | {line}", f"  {' ' * len(number)} | {marks}"]


class ViewmillError(Exception):
    """Message: short and factual. Detail: the reason. Hint: the next thing to try."""

    def __init__(
        self, message: str, *, detail: str = "", hint: str = "", span: Span | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.detail, self.hint, self.span = message, detail, hint, span

    def __str__(self) -> str:
        lines = [self.message, *(self.span.underlined() if self.span else [])]
        lines += [f"  detail: {self.detail}"] if self.detail else []
        lines += [f"  hint: {self.hint}"] if self.hint else []
        # Half a character, which a name or value may hold, cannot be printed.
        return "\n".join(lines).encode(errors="backslashreplace").decode()


# What the user wrote.


class MalformedSQL(ViewmillError):
    """The text is not SQL that we understand."""


class UnknownName(ViewmillError):
    """A table, view, column or function that nobody defined."""


class NameTaken(ViewmillError):
    """A table or view of this name exists already."""


class NameInUse(ViewmillError):
    """Something else depends on the table or view."""


class CyclicViews(ViewmillError):
    """A view that would read itself."""


class TypeMismatch(ViewmillError):
    """An expression or a value of the wrong type."""


class UnsupportedQuery(ViewmillError):
    """No strategy, or no engine, can take the query."""


class BrokenView(ViewmillError):
    """A view that could not be opened; the detail says why."""


class InvalidArgument(ViewmillError):
    """A call of the Python interface that cannot be meant."""


# What the rows said.


class InvalidRow(ViewmillError):
    """A row that does not fit its table."""


class NullViolation(InvalidRow):
    """NULL in a NOT NULL column."""


class DuplicateKey(InvalidRow):
    """Two rows with one primary key."""


class MissingRow(InvalidRow):
    """A delete of a row that is not there."""


class ForbiddenChange(ViewmillError):
    """A change that the table's declaration rules out: APPEND ONLY, STATIC."""


class Overflow(ViewmillError):
    """A number that its type cannot hold."""


class Outgrown(Overflow):
    """A number that its type holds and the plan of a view does not."""


class OutOfMemory(ViewmillError):
    """A change for which the machine has no memory left."""


class EvaluationFailed(ViewmillError):
    """An expression that fails for some row: division by zero, a bad cast."""


class ResultTooLarge(ViewmillError):
    """A result with more rows or bytes than its reader may take."""


class SourceBroken(ViewmillError):
    """A source that cannot be what it was: rows lost, another checkpoint, another pipeline."""


class SinkBroken(ViewmillError):
    """A target of a view was changed by others, and waiting does not help."""


class RefusedCode(ViewmillError):
    """Generated code with anything but triggers in it. It is not run."""


# What the machine lacks.


class MissingDependency(ViewmillError):
    """Something that must be installed first: Java, PySpark, deltalake."""


# What the disk said.


class UnfitKernels(ViewmillError):
    """Packed kernels that were made for another machine or version, or that are damaged."""


class StorageFailed(ViewmillError):
    """The disk refused: full, read-only, gone."""


class OutcomeUnknown(StorageFailed):
    """The disk failed while a change was committed: only opening the mill again tells whether it
    is there."""


class DamagedFile(StorageFailed):
    """A file that is not what was written."""


class MillLocked(StorageFailed):
    """Another process has the mill open."""


class ReadOnlyMill(StorageFailed):
    """A change of a mill that was opened for reading."""


class WrongFormat(StorageFailed):
    """A directory that another version wrote, or that is no mill."""


class MillClosed(ViewmillError):
    """The mill was closed."""


class SnapshotTooOld(ViewmillError):
    """A version that a transaction reads and that is no longer kept."""


OWN = "_viewmill_"  # begins the names of tables that are ours; nobody who errs means them


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint naming what was probably meant, or listing what there is.

    >>> nearest("oders", ["orders", "lines"])
    'Did you mean "orders"?'
    >>> nearest("zzz", ["orders", "lines", "_viewmill_files"])
    'There is: lines, orders.'
    """
    known = {each.lower(): each for each in names if not each.startswith(OWN)}
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    if close:
        return f'Did you mean "{known[close[0]]}"?'
    shown = sorted(known.values())
    more = f" and {len(shown) - 12} more" if len(shown) > 12 else ""
    return f"There is: {', '.join(shown[:12])}{more}." if shown else ""

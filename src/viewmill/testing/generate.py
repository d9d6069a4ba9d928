"""Generators of tables, rows and batches for Hypothesis.

Small domains (three keys, values from -2 to 2) meet more collisions, empty groups and cancellations
than large ones; a few extremes ride along: NULL, NaN, infinities, -0.0, integers near 2^62,
decimals of all their digits, times before 1970, strings that are empty or not ASCII.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol
from typing import Literal as OneOf

from hypothesis import strategies as st

from viewmill.testing.oracle import Oracle, Row, canonical

Draw = Callable[[st.SearchStrategy[Any]], Any]

_NAN, _INFINITY = float("nan"), float("inf")

_SMALL: dict[str, list[Any]] = {
    "BOOLEAN": [False, True],
    "INT": [0, 1, 2, -1, -2],
    "BIGINT": [0, 1, 2, -1, -2],
    "FLOAT": [0.0, 1.0, 0.5, -2.0, 1.5],
    "DOUBLE": [0.0, 1.0, 0.5, -2.0, 1.5],
    "DECIMAL(5,2)": [Decimal(text) for text in ("0.00", "1.00", "-2.00", "0.25", "1.50")],
    "DECIMAL(9,2)": [Decimal(text) for text in ("0.00", "1.00", "-2.00", "0.01", "-0.50")],
    "DECIMAL(18,4)": [Decimal(text) for text in ("0.0000", "1.0000", "-2.0000", "0.0001")],
    "STRING": ["a", "b", "", "A"],
    "DATE": [dt.date(2024, 2, 29), dt.date(1970, 1, 1), dt.date(2024, 3, 1)],
    "TIMESTAMP": [dt.datetime(2024, 2, 29, 12), dt.datetime(1970, 1, 1)],
}
_EXTREME: dict[str, list[Any]] = {
    "BOOLEAN": [],
    "INT": [2**31 - 1, -(2**31)],
    "BIGINT": [2**62, -(2**62), 2**62 - 1, 2**63 - 1, -(2**63)],
    "FLOAT": [_NAN, _INFINITY, -_INFINITY, -0.0, 0.1],
    "DOUBLE": [_NAN, _INFINITY, -_INFINITY, -0.0, 0.1, 1000.5],
    "DECIMAL(5,2)": [Decimal("999.99"), Decimal("-999.99")],
    "DECIMAL(9,2)": [Decimal("9999999.99"), Decimal("-9999999.99")],
    "DECIMAL(18,4)": [Decimal("12345678.5678"), Decimal("-12345678.5678")],
    "STRING": ["é", "日本", "it's", "a b"],
    "DATE": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)],
    "TIMESTAMP": [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29, 12, 0, 0, 1),
    ],
}  # fmt: skip

TYPES = tuple(_SMALL)


@dataclass(frozen=True)
class Column:
    """A column of a generated table; its type is spelt as in Spark."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """A generated table."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    unchecked: bool = False

    @property
    def sql(self) -> str:
        """CREATE TABLE."""
        inside = [f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in self.columns]
        inside += [f"PRIMARY KEY ({', '.join(self.key)})"] if self.key else []
        return f"CREATE TABLE {self.name} ({', '.join(inside)})" + " UNCHECKED" * self.unchecked

    @property
    def key_positions(self) -> list[int]:
        """Where the key's columns are."""
        names = [column.name for column in self.columns]
        return [names.index(name) for name in self.key]


@dataclass(frozen=True)
class Change:
    """One call: rows inserted, deleted, upserted, or applied with multiplicities."""

    table: str
    kind: OneOf["insert", "delete", "upsert", "apply"]
    rows: tuple[Row, ...]
    times: tuple[int, ...] = ()


Batch = tuple[Change, ...]


# Tables.


def values(type_: str, *, nullable: bool = False, tame: bool = False) -> st.SearchStrategy[Any]:
    """Values of a type; `tame` leaves out those that overflow or poison sums."""
    small, extreme = _SMALL[type_], _EXTREME[type_]
    choices = [*small, *small] if tame else [*small, *small, *extreme]
    return st.sampled_from([None, *choices] if nullable else choices)


@st.composite
def tables(
    draw: Draw, name: str = "t", *, keyed: bool | None = None, unchecked: bool | None = None
) -> Table:
    """A table of two to five columns, the first an INT to group and join by."""
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    key: tuple[str, ...] = ()
    if keyed if keyed is not None else draw(st.integers(0, 3)) == 3:
        key = ("k", "c1")[: draw(st.integers(1, 2))]
    columns = [Column("k", "INT", "k" not in key and draw(st.booleans()))]
    for i, type_ in enumerate(types):
        column = f"c{i + 1}"
        columns.append(Column(column, type_, column not in key and draw(st.booleans())))
    if unchecked is None:
        unchecked = not key and draw(st.integers(0, 2)) == 2
    return Table(name, tuple(columns), key, unchecked)


def rows_of(table: Table, *, tame: bool = False) -> st.SearchStrategy[Row]:
    """Rows of a table."""
    return st.tuples(
        st.sampled_from([0, 1, 2, None] if table.columns[0].nullable else [0, 1, 2]),
        *(values(c.type, nullable=c.nullable, tame=tame) for c in table.columns[1:]),
    )


# Batches.


@st.composite
def batches(
    draw: Draw,
    over: Sequence[Table],
    *,
    most: int = 5,
    tame: bool = False,
    early_deletes: bool = False,
) -> list[Batch]:
    """Batches that are right one after another, and also if each of their changes comes alone.

    With `early_deletes`, rows of UNCHECKED tables may be deleted before they come; the last batch
    brings what is still owed.
    """
    known = {table.name: _Known(table, draw, tame, early_deletes) for table in over}
    made: list[Batch] = []
    for _ in range(draw(st.integers(1, most))):
        width = draw(st.sampled_from([1, 1, 2, 3]))
        names = [draw(st.sampled_from([table.name for table in over])) for _ in range(width)]
        made.append(tuple(known[name].change() for name in names))
    owed = tuple(c for each in known.values() for c in each.settle())
    return [*made, owed] if owed else made


class _Known:
    """What a table holds while its changes are drawn."""

    def __init__(self, table: Table, draw: Draw, tame: bool, early: bool) -> None:
        self.table, self.draw = table, draw
        self.early = early and table.unchecked
        self.rows = rows_of(table, tame=tame)
        self.present: list[Row] = []
        self.owed: list[Row] = []

    def change(self) -> Change:
        kinds = ["insert", "insert", "insert", "delete", "delete", "apply", "update", "none"]
        kinds += ["upsert", "upsert"] if self.table.key else []
        kind = self.draw(st.sampled_from(kinds))
        if kind == "upsert":
            return self._upsert()
        if kind == "update":
            return self._update()
        if kind == "delete":
            return Change(self.table.name, "delete", tuple(self._leave(self._some())))
        if kind == "apply":
            return self._apply()
        count = 0 if kind == "none" else self._some()
        return Change(self.table.name, "insert", tuple(self._come(count)))

    def _some(self) -> int:
        return int(self.draw(st.integers(1, 4)))

    def _come(self, count: int) -> list[Row]:
        new: list[Row] = []
        for _ in range(count):
            row = self.draw(self.rows)
            if self.table.key and any(self._same_key(row, other) for other in self.present):
                continue
            new.append(row)
            self._arrive(row)
        return new

    def _arrive(self, row: Row) -> None:
        same = next((i for i, other in enumerate(self.owed) if _same(row, other)), None)
        if same is None:
            self.present.append(row)
        else:
            del self.owed[same]

    def _leave(self, count: int) -> list[Row]:
        gone: list[Row] = []
        for _ in range(count):
            if self.early and self.draw(st.booleans()):
                row = self.draw(self.rows)
                same = next((i for i, o in enumerate(self.present) if _same(row, o)), None)
                if same is None:
                    self.owed.append(row)
                else:
                    del self.present[same]
                gone.append(row)
            elif self.present:
                gone.append(self.present.pop(self.draw(st.integers(0, len(self.present) - 1))))
        return gone

    def _apply(self) -> Change:
        if self.table.key:
            return self._update()
        rows, times = [], []
        for row in self._come(self._some()):
            more = self.draw(st.integers(0, 2))
            for _ in range(more):
                self._arrive(row)
            rows.append(row)
            times.append(1 + more)
        gone = self._leave(self.draw(st.integers(0, 2)))
        zero = [self.draw(self.rows)] if self.draw(st.integers(0, 7)) == 7 else []
        return Change(
            self.table.name,
            "apply",
            (*rows, *gone, *zero),
            (*times, *[-1] * len(gone), *[0] * len(zero)),
        )

    def _update(self) -> Change:
        """One row becomes another; in a keyed table it keeps its key."""
        if not self.present:
            return Change(self.table.name, "insert", tuple(self._come(1)))
        at = self.draw(st.integers(0, len(self.present) - 1))
        old, new = self.present.pop(at), list(self.draw(self.rows))
        for i in self.table.key_positions:
            new[i] = old[i]
        self._arrive(tuple(new))
        return Change(self.table.name, "apply", (old, tuple(new)), (-1, 1))

    def _upsert(self) -> Change:
        rows = [self.draw(self.rows) for _ in range(self._some())]
        for row in rows:
            self.present = [other for other in self.present if not self._same_key(row, other)]
            self.present.append(row)
        return Change(self.table.name, "upsert", tuple(rows))

    def _same_key(self, row: Row, other: Row) -> bool:
        return all(canonical(row[i]) == canonical(other[i]) for i in self.table.key_positions)

    def settle(self) -> list[Change]:
        owed, self.owed = tuple(self.owed), []
        return [Change(self.table.name, "insert", owed)] if owed else []


def _same(row: Row, other: Row) -> bool:
    return tuple(map(canonical, row)) == tuple(map(canonical, other))


# Feeding.


class Fed(Protocol):
    """What a batch is fed to: a mill."""

    def insert(self, table: str, rows: Any) -> None: ...
    def delete(self, table: str, rows: Any) -> None: ...
    def upsert(self, table: str, rows: Any) -> None: ...
    def apply(self, table: str, rows: Any, *, multiplicity: str | None) -> None: ...
    def batch(self) -> Any: ...


def feed(mill: Fed, batch: Batch) -> None:
    """Carry out a batch: one change as it is, several in one `mill.batch()`."""
    if len(batch) == 1:
        _feed_change(mill, batch[0])
        return
    with mill.batch():
        for change in batch:
            _feed_change(mill, change)


def _feed_change(mill: Fed, change: Change) -> None:
    if change.kind == "apply":
        rows = [(*row, m) for row, m in zip(change.rows, change.times, strict=True)]
        mill.apply(change.table, rows, multiplicity="m")
        return
    getattr(mill, change.kind)(change.table, list(change.rows))


def feed_oracle(oracle: Oracle, batch: Batch) -> None:
    """Apply a batch of changes to the oracle."""
    for change in batch:
        if change.kind == "upsert":
            oracle.upsert(change.table, change.rows)
            continue
        sign = -1 if change.kind == "delete" else 1
        times = change.times or [sign] * len(change.rows)
        for row, m in zip(change.rows, times, strict=True):
            oracle.change(change.table, row, m)


def declare(oracle: Oracle, over: Iterable[Table]) -> None:
    """Create generated tables in the oracle."""
    for table in over:
        oracle.create(table.name, [(c.name, c.type) for c in table.columns], table.key)


def inverse(batch: Batch) -> Batch:
    """The batch that takes back what `batch` did; there is none for upserts."""
    undone = []
    for change in reversed(batch):
        assert change.kind != "upsert"
        sign = -1 if change.kind == "delete" else 1
        times = change.times or (sign,) * len(change.rows)
        undone.append(Change(change.table, "apply", change.rows, tuple(-m for m in times)))
    return tuple(undone)

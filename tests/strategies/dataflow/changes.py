"""Random small tables under inserts, deletes and refused batches, for views of any shape."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from decimal import Decimal

import pytest

import viewmill as vm

Row = tuple[object, ...]  # a to h; any may be None

TABLES = ("r", "s", "t")
COLUMNS = "a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(9,2), f DATE, g TIMESTAMP, h BOOLEAN"
TEXTS = ("x", "yy", "zab", "", "Q", " 12 ", "a-b", "7")


def rows(source: random.Random, count: int) -> list[Row]:
    """Rows of `COLUMNS` with many equal values and NULLs."""

    def maybe(value: object) -> object:
        return None if source.random() < 0.15 else value

    return [
        (
            maybe(source.randrange(5)), maybe(source.randrange(5)),
            maybe(source.choice(TEXTS)), maybe(source.choice((1.5, -2.25, 0.0, 3.0))),
            maybe(Decimal(source.choice(("1.50", "-0.25", "3.00", "7.75")))),
            maybe(dt.date(2024, 2, 27) + dt.timedelta(days=source.randrange(5))),
            maybe(dt.datetime(1969, 12, 31, 22) + dt.timedelta(minutes=source.randrange(200))),
            maybe(source.random() < 0.5),
        )
        for _ in range(count)
    ]  # fmt: skip


class Changes:
    """A mill with three tables and a view for each query, all maintained incrementally."""

    def __init__(self, queries: Sequence[str], seed: int) -> None:
        self.source = random.Random(seed)
        self.mill = vm.connect()
        self.live: dict[str, list[Row]] = {}
        for table in TABLES:
            self.mill.sql(f"CREATE TABLE {table} ({COLUMNS})")
            self.live[table] = rows(self.source, 6)
            self.mill.insert(table, self.live[table])
        self.views = [f"v{i}" for i in range(len(queries))]
        for name, query in zip(self.views, queries, strict=True):
            strict = "REFRESH POLICY INCREMENTAL STRICT"
            self.mill.sql(f"CREATE MATERIALIZED VIEW {name} {strict} AS {query}")

    def verify(self) -> None:
        """Every view equals recompute."""
        for name in self.views:
            view = self.mill[name]
            assert view.verify() == [], view.explain()
            assert len(view) == len(view.rows())

    def change(self) -> None:
        """One batch of inserts and deletes in any of the tables."""
        with self.mill.batch():
            for table in TABLES:
                self._insert(table, self.source.randrange(4))
                self._delete(table, self.source.choice((0, 1, 2, 3, len(self.live[table]))))

    def _insert(self, table: str, count: int) -> None:
        new = rows(self.source, count)
        self.live[table] += new
        self.mill.insert(table, new)

    def _delete(self, table: str, count: int) -> None:
        self.source.shuffle(self.live[table])
        old, self.live[table] = self.live[table][:count], self.live[table][count:]
        self.mill.delete(table, old)

    def refuse(self) -> None:
        """A batch whose last row cannot be deleted changes nothing."""
        before = [sorted(map(repr, self.mill[name].rows())) for name in self.views]
        with pytest.raises(vm.errors.MissingRow):
            self._refused_batch()
        assert before == [sorted(map(repr, self.mill[name].rows())) for name in self.views]

    def _refused_batch(self) -> None:
        with self.mill.batch():
            for table in TABLES:
                self.mill.insert(table, rows(self.source, 3))
                self.mill.delete(table, self.live[table][:2])
            self.mill.delete("t", [(77, 77, "nobody", 1.0, None, None, None, None)])


def drive(queries: Sequence[str], seed: int, steps: int = 10) -> None:
    """Change, compare, refuse, refresh in full; an assertion fails where a view is wrong."""
    changes = Changes(queries, seed)
    with changes.mill:
        changes.verify()
        for step in range(steps):
            changes.change()
            changes.verify()
            if step % 4 == 1:
                changes.refuse()
        for name in changes.views:
            calls = changes.mill[name].status()["engine_calls"]
            changes.change()
            assert changes.mill[name].status()["engine_calls"] == calls
            changes.mill[name].refresh(full=True)
        changes.verify()

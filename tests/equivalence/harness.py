"""A mill and the oracle side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import note

import viewmill as vm
from viewmill.testing.generate import Batch, Table, declare, feed, feed_oracle
from viewmill.testing.generate_queries import Query
from viewmill.testing.oracle import Oracle, Refused, Row, differences

REFUSALS = (vm.errors.Overflow, vm.errors.EvaluationFailed)


class SideBySide:
    """Feeds both and compares; `path` makes the mill durable."""

    def __init__(
        self, over: Sequence[Table], queries: Sequence[Query], path: Any = None, clauses: str = ""
    ) -> None:
        self.queries = {f"v{i}": query for i, query in enumerate(queries)}
        self.path = path
        self.mill, self.oracle = vm.connect(path), Oracle()
        declare(self.oracle, over)
        for table in over:
            note(table.sql)
            self.mill.sql(table.sql)
        for name, query in self.queries.items():
            note(f"{name}: {query.spark}")
            self.mill.sql(f"CREATE MATERIALIZED VIEW {name} {clauses} AS {query.spark}")

    def feed(self, batch: Batch) -> None:
        """Feed both and compare; what the mill refuses, the oracle must refuse too."""
        note(f"feed {batch}")
        before, version = self.rows(), self.mill.status()["version"]
        try:
            feed(self.mill, batch)
        except REFUSALS as why:
            self._check_refusal(why, batch, before, version)
            raise
        feed_oracle(self.oracle, batch)
        self.compare()

    def _check_refusal(
        self, why: Exception, batch: Batch, before: dict[str, list[Row]], version: int
    ) -> None:
        note(f"refused: {why}")
        feed_oracle(self.oracle, batch)
        if self.oracle.is_settled:
            assert not all(map(self._is_answered, self.queries.values())), str(why)
        assert repr(before) == repr(self.rows())
        assert self.mill.status()["version"] == version

    def _is_answered(self, query: Query) -> bool:
        try:
            self.oracle.ask(query.duckdb)
        except Refused:
            return False
        return True

    def rows(self) -> dict[str, list[Row]]:
        tables = {name: self.mill.sql(f"SELECT * FROM {name}") for name in self.mill.tables()}
        shown = {name: sorted(rows.rows(), key=repr) for name, rows in tables.items() if rows}
        return shown | {name: sorted(self.mill[name].rows(), key=repr) for name in self.queries}

    def compare(self) -> None:
        for name, query in self.queries.items():
            view = self.mill[name]
            expected = self.oracle.ask(query.duckdb)
            if not self.oracle.is_settled:
                continue
            actual = view.rows()
            assert differences(expected, actual) == [], query.spark
            assert view.verify() == [], query.spark
            assert len(view) == len(expected)
            assert is_ordered(actual, query.ordered), query.spark

    def reopen(self) -> None:
        self.mill.close()
        self.mill = vm.connect(self.path)

    def close(self) -> None:
        self.mill.close()
        self.oracle.close()

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run(over: Sequence[Table], queries: Sequence[Query], feeds: Sequence[Batch]) -> None:
    """Feed batch after batch, until one is refused: what follows was drawn with it in mind."""
    with SideBySide(over, queries) as both:
        try:
            for batch in feeds:
                both.feed(batch)
        except REFUSALS:
            pass


def is_ordered(rows: Sequence[Row], width: int) -> bool:
    """Whether rows stand in ascending order of their first columns: NULL first, NaN last."""
    keys = [tuple(_rank(value) for value in row[:width]) for row in rows]
    return keys == sorted(keys)


def _rank(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0, 0)
    if isinstance(value, float):
        return (2, 0) if value != value else (1, value)
    return (1, value.encode()) if isinstance(value, str) else (1, value)

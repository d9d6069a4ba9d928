"""Every view equals the oracle after every batch, whatever the schema, the rows and the query."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import viewmill as vm
from viewmill.testing.generate import Batch, Table, batches, declare, feed, feed_oracle, tables
from viewmill.testing.generate_queries import Query, views, wide_views
from viewmill.testing.oracle import Oracle, Refused, Row, differences

REFUSALS = (vm.errors.Overflow, vm.errors.EvaluationFailed)


class Run:
    """A mill and an oracle side by side."""

    def __init__(self, over: Sequence[Table], queries: Sequence[Query]) -> None:
        self.queries = dict(zip("vwxyz", queries, strict=False))
        self.mill, self.oracle = vm.connect(), Oracle()
        declare(self.oracle, over)
        for table in over:
            note(table.sql)
            self.mill.sql(table.sql)
        for name, query in self.queries.items():
            note(f"{name}: {query.spark}")
            self.mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query.spark}")
        self.feeds: list[Batch] = []

    def feed(self, batch: Batch) -> None:
        """Feed both and compare; a batch that the mill refuses must be refused by the oracle too."""
        note(f"feed {batch}")
        before = {name: self.mill[name].rows() for name in self.queries}
        try:
            feed(self.mill, batch)
        except REFUSALS as why:
            note(f"refused: {why}")
            feed_oracle(self.oracle, batch)
            with pytest.raises(Refused):
                for query in self.queries.values():
                    self.oracle.ask(query.duckdb)
            after = {name: self.mill[name].rows() for name in self.queries}
            assert repr(before) == repr(after)
            raise
        feed_oracle(self.oracle, batch)
        self.compare()

    def compare(self) -> None:
        for name, query in self.queries.items():
            if not self.oracle.is_settled:
                continue
            expected = self.oracle.ask(query.duckdb)
            actual = self.mill[name].rows()
            assert differences(expected, actual) == [], self.mill[name].explain()
            assert self.mill[name].verify() == []
            assert len(self.mill[name]) == len(expected)
            assert is_ordered(actual, query.ordered)

    def close(self) -> None:
        self.mill.close()
        self.oracle.close()


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


def run(over: Sequence[Table], queries: Sequence[Query], feeds: Sequence[Batch]) -> None:
    both = Run(over, queries)
    try:
        for batch in feeds:
            both.feed(batch)
    except REFUSALS:
        pass  # compared by `feed`; what comes after was drawn for a batch that is not there
    finally:
        both.close()


@settings(max_examples=int(os.environ.get("N", "100")))
@given(data=st.data())
def test_views_over_one_table_equal_the_oracle_after_every_batch(data, uncompiled):
    table = data.draw(tables())
    queries = data.draw(st.lists(views(table), min_size=1, max_size=5))
    run([table], queries, data.draw(batches([table], early_deletes=True)))


@settings(max_examples=int(os.environ.get("N", "100")))
@given(data=st.data())
def test_recomputed_views_equal_the_oracle_after_every_batch(data, uncompiled):
    left, right = data.draw(tables("t")), data.draw(tables("u"))
    queries = data.draw(st.lists(wide_views(left, right), min_size=1, max_size=4))
    run([left, right], queries, data.draw(batches([left, right])))

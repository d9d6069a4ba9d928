"""Where batches end, when a view is created, refreshed, reopened: the rows do not show it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled
from tests.equivalence.harness import REFUSALS, SideBySide

import viewmill as vm
from viewmill.testing.generate import Batch, Table, batches, feed, feed_oracle, tables
from viewmill.testing.generate_queries import Query, views, wide_views
from viewmill.testing.oracle import Row, differences


def final_rows(table: Table, queries: Sequence[Query], feeds: Sequence[Batch]) -> list[list[Row]]:
    with vm.connect() as mill:
        mill.sql(table.sql)
        for i, query in enumerate(queries):
            mill.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query.spark}")
        for batch in feeds:
            feed(mill, batch)
        return [mill[f"v{i}"].rows() for i in range(len(queries))]


def assert_same(one: list[list[Row]], other: list[list[Row]]) -> None:
    for mine, theirs in zip(one, other, strict=True):
        assert differences(mine, theirs) == []


@settings(max_examples=scaled(0.25))
@given(data=st.data())
def test_splitting_and_joining_batches_changes_nothing(data, uncompiled):
    table = data.draw(tables())
    queries = data.draw(st.lists(views(table, depth=1), min_size=1, max_size=4))
    feeds = data.draw(batches([table], tame=True))
    split = [(change,) for batch in feeds for change in batch]
    joined = [tuple(change for batch in feeds for change in batch)]
    try:
        given_rows = final_rows(table, queries, feeds)
        split_rows = final_rows(table, queries, split)
    except REFUSALS:
        return  # a row that fails on its way fails in one of the two, and that is right
    assert_same(given_rows, split_rows)
    assert_same(given_rows, final_rows(table, queries, joined))


@settings(max_examples=scaled(0.25))
@given(data=st.data())
def test_a_view_created_between_batches_equals_one_that_saw_them_all(data, uncompiled):
    table = data.draw(tables())
    query = data.draw(views(table))
    feeds = data.draw(batches([table], tame=True, early_deletes=True))
    at = data.draw(st.integers(0, len(feeds)))
    with vm.connect() as mill:
        mill.sql(table.sql)
        mill.sql(f"CREATE MATERIALIZED VIEW early AS {query.spark}")
        try:
            for i, batch in enumerate(feeds):
                if i == at:
                    mill.sql(f"CREATE MATERIALIZED VIEW late AS {query.spark}")
                feed(mill, batch)
        except REFUSALS:
            return
        if at < len(feeds):
            assert differences(mill["early"].rows(), mill["late"].rows()) == []


@settings(max_examples=scaled(0.2))
@given(data=st.data())
def test_deferred_views_equal_the_oracle_when_they_are_refreshed(data, uncompiled):
    table = data.draw(tables())
    queries = data.draw(st.lists(views(table), min_size=1, max_size=3))
    feeds = data.draw(batches([table], tame=True))
    refreshed = data.draw(st.lists(st.booleans(), min_size=len(feeds), max_size=len(feeds)))
    with SideBySide([table], queries, clauses="REFRESH ON DEMAND") as both:
        for batch, is_refreshed in zip(feeds, refreshed, strict=True):
            feed(both.mill, batch)
            feed_oracle(both.oracle, batch)
            for name in both.queries:
                assert both.mill[name].verify() == []  # at its own version
            if is_refreshed:
                try:
                    for name in both.queries:
                        both.mill[name].refresh()
                except REFUSALS:
                    return
                both.compare()


@settings(max_examples=scaled(0.25))
@given(data=st.data())
def test_reopening_between_batches_gives_the_same_views(data, uncompiled):
    table, other = data.draw(tables("t")), data.draw(tables("u"))
    queries = [data.draw(views(table)), data.draw(wide_views(table, other))]
    feeds = data.draw(batches([table, other], tame=True, early_deletes=True))
    with (
        tempfile.TemporaryDirectory() as directory,
        SideBySide([table, other], queries, path=f"{directory}/m.mill") as both,
    ):
        try:
            for batch in feeds:
                both.feed(batch)
                if data.draw(st.booleans()):
                    if data.draw(st.booleans()):
                        both.mill.checkpoint()
                    before = both.rows()
                    both.reopen()
                    assert_same(list(before.values()), list(both.rows().values()))
                    both.compare()
        except REFUSALS:
            return

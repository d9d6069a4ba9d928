"""Every view equals the oracle after every batch, whatever the schema, the rows and the query."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled
from tests.equivalence.harness import run

from viewmill.testing.generate import batches, tables
from viewmill.testing.generate_queries import views, wide_views


@settings(max_examples=scaled(1.0))
@given(data=st.data())
def test_views_over_one_table_equal_the_oracle_after_every_batch(data, uncompiled):
    table = data.draw(tables())
    queries = data.draw(st.lists(views(table), min_size=1, max_size=5))
    run([table], queries, data.draw(batches([table])))


@settings(max_examples=scaled(0.4))
@given(data=st.data())
def test_views_equal_the_oracle_once_every_early_delete_has_its_insert(data, uncompiled):
    table = data.draw(tables(keyed=False, unchecked=True))
    queries = data.draw(st.lists(views(table), min_size=1, max_size=5))
    run([table], queries, data.draw(batches([table], early_deletes=True)))


@settings(max_examples=scaled(1.0))
@given(data=st.data())
def test_views_over_two_tables_equal_the_oracle_after_every_batch(data, uncompiled):
    left, right = data.draw(tables("t")), data.draw(tables("u"))
    queries = data.draw(st.lists(wide_views(left, right), min_size=1, max_size=4))
    run([left, right], queries, data.draw(batches([left, right])))

"""The baselines of the intermittent bench: which tables keeping everything means."""

import pytest

from viewmill.bench.intermittent.everything import Joins
from viewmill.bench.intermittent.many_joins import MOST_JOINS, QUERIES, generate
from viewmill.bench.tpch.queries import QUERIES as TPCH


@pytest.mark.parametrize(("query", "tables"), [(3, 5), (9, 21)], ids=["Q3", "Q9"])
def test_everything_is_a_table_for_each_relation_and_each_sub_join(query, tables):
    assert len(Joins(TPCH[query]).subsets()) == tables


def test_generated_queries_are_33_of_up_to_16_joins():
    made = generate(seed=1)
    assert len(made) == QUERIES == 33
    assert max(each.joins for each in made) == MOST_JOINS == 16
    assert made == generate(seed=1)

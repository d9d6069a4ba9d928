"""How queries are spread over shards."""

from __future__ import annotations

import pytest

import viewmill as vm
from viewmill.planner.sharding.split import Split, split
from viewmill.rewrite.rules import rewrite
from viewmill.sql.lower import lower
from viewmill.sql.parse import parse

TABLES = """
CREATE TABLE o (id BIGINT, customer BIGINT, amount BIGINT, price DOUBLE, ts TIMESTAMP);
CREATE TABLE c (id INT, region STRING);
CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT, c INT); CREATE TABLE t (c INT, a INT)
"""

SPREAD = {
    "groups": ("SELECT customer, sum(amount) AS x FROM o GROUP BY customer", "by key customer"),
    "two_keys": (
        "SELECT id, customer, count(*) AS n FROM o GROUP BY id, customer",
        "by key id, customer",
    ),
    "join_groups": (
        "SELECT region, sum(amount) AS x FROM o JOIN c ON o.customer = c.id GROUP BY region",
        "hypercube c.id × 4; the parts of groups are merged",
    ),
    "triangle": (
        "SELECT count(*) AS n FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a",
        "hypercube r.b × 2, s.c × 2; the parts of groups are merged",
    ),
    "outer_join": (
        "SELECT o.id, region FROM o LEFT JOIN c ON o.customer = c.id",
        "by key customer",
    ),
    "exists": (
        "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM c WHERE c.id = o.customer)",
        "by key customer",
    ),
    "nested_with_key": (
        "SELECT sum(amount) AS x FROM o WHERE amount > "
        "(SELECT avg(b.amount) FROM o b WHERE b.customer = o.customer)",
        "partial aggregates of rows spread by customer",
    ),
    "nested_global": (
        "SELECT count(*) AS n FROM o WHERE amount > (SELECT avg(amount) FROM o)",
        "one shard",
    ),
    "time_windows": (
        "SELECT window.start AS w, count(*) AS n FROM o GROUP BY window(ts, '10 minutes')",
        "partial aggregates of rows spread by id, customer, amount, ts",
    ),
    "float_key": ("SELECT price, count(*) AS n FROM o GROUP BY price", "partial aggregates"),
    "distinct_values": ("SELECT count(DISTINCT customer) AS n FROM o", "spread by customer"),
    "window_function": (
        "SELECT id, row_number() OVER (PARTITION BY customer ORDER BY id) AS n FROM o",
        "by key customer",
    ),
    "limit": ("SELECT id FROM o ORDER BY id LIMIT 3", "by key id, customer, amount, ts"),
}  # fmt: skip


def made(mill: vm.Mill, sql: str, cells: int = 4) -> Split:
    mill.sql(TABLES)
    query = lower(parse(sql)[-1].query, sql, mill.core.catalog, None)
    return split(rewrite(query), cells, {"o": 10.0})


@pytest.mark.parametrize("name", SPREAD)
def test_queries_are_spread_as_their_rows_meet(mill, name):
    sql, expected = SPREAD[name]
    assert expected in str(made(mill, sql).exchange)


def test_every_row_of_a_triangle_goes_where_it_may_meet_others(mill):
    found = made(mill, SPREAD["triangle"][0])
    assert {route.source: route.copies for route in found.routes} == {"r": 2, "s": 1, "t": 2}


def test_integers_of_any_width_are_one_variable(mill):
    found = made(mill, SPREAD["join_groups"][0])
    assert sorted(route.stream for route in found.routes) == ["c@id/4", "o@customer/4"]

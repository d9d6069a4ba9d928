"""Patterns over joins and over tables in no parts; the time is a column."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.strategies.temporal_view.row_pattern_oracle import (
    Clause,
    aggregate,
    compare,
    first,
    last,
)
from tests.strategies.temporal_view.streams import Row, stamped

import viewmill as vm

TABLES = (
    "CREATE TABLE a (ts TIMESTAMP, g STRING, x BIGINT);"
    "CREATE TABLE b (g STRING, w BIGINT, PRIMARY KEY (g));"
    "CREATE MATERIALIZED VIEW j AS SELECT a.ts, a.g, a.x * b.w AS x FROM a JOIN b ON a.g = b.g;"
)
RISES = (
    "(PARTITION BY g ORDER BY ts MEASURES FIRST(x) AS f, LAST(up.x) AS l, COUNT(*) AS n "
    "PATTERN (s up{1,3}) DEFINE up AS x > PREV(x))"
)
CLAUSE = Clause(
    ("seq", ("var", "s"), ("rep", ("var", "u"), 1, 3, True)),
    {"u": compare(last("", 2), ">", last("", 2, shift=-1))},
    [(first("", 2), False), (last("u", 2), False), (aggregate("", 0, len), False)],
)


def test_patterns_over_a_join_follow_all_its_tables(uncompiled):
    draw, rows = random.Random(5), list[Row]()
    weights = {"p": 1, "q": 2}
    with vm.connect() as mill:
        mill.sql(TABLES + f"CREATE MATERIALIZED VIEW v AS SELECT * FROM j MATCH_RECOGNIZE {RISES}")
        mill.insert("b", list(weights.items()))
        for step in range(40):
            choice = draw.random()
            if choice < 0.2 and rows:
                mill.delete("a", stamped([rows.pop(draw.randrange(len(rows)))]))
            elif choice < 0.35:
                weights[draw.choice("pq")] = draw.randrange(-2, 3)
                mill.upsert("b", list(weights.items()))
            else:
                rows.append((draw.randrange(4000), draw.choice("pq"), draw.randrange(5)))
                mill.insert("a", stamped(rows[-1:]))
            joined = sorted((ts, g, x * weights[g]) for ts, g, x in rows)
            wanted = [row for g in "pq" for row in CLAUSE.show([r for r in joined if r[1] == g])]
            assert sorted(mill["v"].rows()) == sorted(wanted), step
        assert mill["v"].verify() == []
        assert mill["v"].status()["engine_calls"] == 0


def test_patterns_over_views_survive_restarts_and_failed_batches(tmp_path, uncompiled):
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(TABLES + f"CREATE MATERIALIZED VIEW v AS SELECT * FROM j MATCH_RECOGNIZE {RISES}")
        mill.sql("CREATE MATERIALIZED VIEW p AS SELECT g, count(*) AS n FROM j PATTERN [s, up+] "
                 "WHERE up.x > PREV(up.x) GROUP BY g")  # fmt: skip
        mill.sql("CREATE MATERIALIZED VIEW w AS SELECT 10 DIV (x - 99) AS q FROM a")
        mill.insert("b", [("p", 1)])
        mill.insert("a", stamped([(i, "p", i) for i in range(3)]))
        shown = mill["v"].rows(), mill["p"].rows()
        assert shown == ([("p", 0, 2, 3)], [("p", 3)])
        with pytest.raises(vm.ViewmillError, match="division by zero"):
            mill.insert("a", stamped([(3, "p", 99)]))
        assert (mill["v"].rows(), mill["p"].rows()) == shown
        mill.checkpoint()
        mill.insert("a", stamped([(4, "p", 7)]))
    with vm.connect(tmp_path / "m.mill") as mill:
        assert (mill["v"].rows(), mill["p"].rows()) == ([("p", 0, 7, 4)], [("p", 4)])
        mill.insert("a", stamped([(5, "p", 8), (6, "p", 9)]))
        assert sorted(mill["v"].rows()) == [("p", 0, 7, 4), ("p", 8, 9, 2)]
        assert mill["v"].verify() == mill["p"].verify() == []


def test_whole_numbers_order_rows_and_many_rows_are_cut_into_shorter_parts(uncompiled):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (n BIGINT, x BIGINT)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n "
                 "MEASURES LAST(n) AS n PATTERN (s up) DEFINE up AS x >= 2 * PREV(x))")  # fmt: skip
        mill.insert("t", [(i, i % 50 + 1) for i in range(20_000)])
        assert len(mill["v"].rows()) == 400
        maintainer: Any = mill.core.catalog.view("v").block.maintainer
        assert len(maintainer.source.parts_within(0, 10**9)) > 10
        mill.delete("t", [(19_951, 2)])
        mill.insert("t", [(7, 100)])
        assert (7,) in mill["v"].rows()
        assert len(mill["v"].rows()) == 401
        assert mill["v"].verify() == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("j MATCH_RECOGNIZE (ORDER BY g MEASURES x AS x PATTERN (s))", "order of a time"),
        ("j MATCH_RECOGNIZE (ORDER BY tz MEASURES x AS x PATTERN (s))", "no column"),
        ("b PATTERN [s, t]", "which column"),
    ],
)
def test_what_orders_no_rows_is_refused(query, message, uncompiled):
    with vm.connect() as mill:
        mill.sql(TABLES)
        shown = "*" if "MATCH" in query else "count(*) AS n"
        with pytest.raises(vm.ViewmillError, match=message) as refused:
            mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {shown} FROM {query}")
        assert refused.value.span is not None
        assert refused.value.hint


OVER_QUERY = (
    "CREATE {replace} MATERIALIZED VIEW v AS SELECT * FROM (SELECT ts, (x * w) AS x, g FROM a "
    "JOIN b USING (g) WHERE (x) > 0) AS t MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts "
    "MEASURES LAST(up.x) AS l PATTERN (s up{{1,3}}) DEFINE up AS x > PREV({x}))"
)


def test_a_subquery_is_kept_by_a_view_that_comes_and_goes_with_the_pattern(tmp_path, uncompiled):
    def views(mill: vm.Mill) -> list[str]:
        return sorted(each.name for each in mill.core.catalog.views())

    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql("CREATE TABLE a (ts TIMESTAMP, g STRING, x BIGINT)")
        mill.sql("CREATE TABLE b (g STRING, w BIGINT, PRIMARY KEY (g))")
        mill.sql("CREATE VIEW plain AS SELECT ts, x + 1 AS x FROM a")
        with pytest.raises(vm.ViewmillError, match="zz"):
            mill.sql(OVER_QUERY.format(replace="", x="zz"))
        assert views(mill) == []
        mill.sql(OVER_QUERY.format(replace="", x="x"))
        mill.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM plain MATCH_RECOGNIZE (ORDER BY ts "
                 "MEASURES LAST(x) AS l PATTERN (s up+) DEFINE up AS x > PREV(x))")  # fmt: skip
        mill.insert("b", [("p", 2)])
        mill.insert("a", stamped([(i, "p", i) for i in range(4)]))
        assert (mill["v"].rows(), mill["w"].rows()) == ([("p", 6)], [(4,)])
        mill.sql(OVER_QUERY.format(replace="OR REPLACE", x="x"))
        assert views(mill) == ["v", "v rows 2", "w", "w rows"]
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.insert("a", stamped([(9, "p", 9)]))
        assert mill["v"].rows() == [("p", 18)]
        assert mill["v"].verify() == mill["w"].verify() == []
        assert mill["v"].status()["engine_calls"] == 0
        mill.sql("DROP MATERIALIZED VIEW v")
        mill.sql("DROP MATERIALIZED VIEW w")
        assert views(mill) == []

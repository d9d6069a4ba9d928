"""Which tables a query of a bench reads."""

from __future__ import annotations

from viewmill.bench.nexmark.queries import QUERIES as NEXMARK
from viewmill.bench.stream import tables_of
from viewmill.bench.tpch.queries import QUERIES as TPCH
from viewmill.bench.tpch.queries import TABLES


def test_every_query_reads_tables_that_are_there() -> None:
    nexmark = {
        query: tables_of(sql, ("person", "auction", "bid")) for query, sql in NEXMARK.items()
    }
    assert [query for query, tables in nexmark.items() if not tables] == []
    assert nexmark[7] == ["bid"]  # window() in GROUP BY is ours, and `auction` is a column there
    assert [query for query, sql in TPCH.items() if not tables_of(sql, TABLES)] == []

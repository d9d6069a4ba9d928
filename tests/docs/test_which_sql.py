"""The page on incremental SQL says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import viewmill as vm

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how_to/know_which_sql_is_incremental.md").read_text()
KEPT, RECOMPUTED = PAGE.split("## Computed again")
ROW = re.compile(r"^\| ([^|`]+) \| `([^`]+)` \| ([^|]+) \|$", re.M)
COLUMNS = re.search(r"`\((a INT.*)\)`", PAGE)


@pytest.fixture
def mill(uncompiled):
    assert COLUMNS is not None
    with vm.connect() as mill:
        for table in ("r", "s"):
            mill.sql(f"CREATE TABLE {table} ({COLUMNS.group(1)})")
        mill.function("twice", lambda x: None if x is None else 2 * x, "BIGINT")
        yield mill


def strict(query: str) -> str:
    return f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {query}"


def test_what_the_page_calls_incremental_is_taken(mill):
    rows = ROW.findall(KEPT)
    assert len(rows) > 25
    for what, query, _ in rows:
        mill.sql(strict(query))
        calls = mill["v"].status()["engine_calls"]
        mill.insert("r", [(1, 2, "x", 0.5, None, None, None, True)])
        assert mill["v"].status()["engine_calls"] == calls, what
        assert mill["v"].verify() == [], what
        mill.sql("DROP MATERIALIZED VIEW v")


def test_what_the_page_calls_recomputed_is_refused_for_the_reason_it_gives(mill):
    rows = ROW.findall(RECOMPUTED)
    assert len(rows) >= 4
    for _, query, why in rows:
        with pytest.raises(vm.errors.UnsupportedQuery) as refused:
            mill.sql(strict(query))
        assert why in (refused.value.detail or ""), query

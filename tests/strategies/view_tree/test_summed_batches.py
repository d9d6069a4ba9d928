"""Batches in which keys repeat are summed by key before they go up the tree."""

from typing import Any

import numpy as np
import pytest

import viewmill as vm
from viewmill.errors import Overflow

pytestmark = pytest.mark.usefixtures("uncompiled")

JOINED = "FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c"
QUERIES = {
    "keyed": f"SELECT s.a, SUM(r.b * s.e * t.d) AS v, COUNT(*) AS n {JOINED} GROUP BY s.a",
    "filtered": f"SELECT s.a, s.c, AVG(t.d) AS v {JOINED} WHERE t.d <> 3 GROUP BY s.a, s.c",
    "without_key": f"SELECT SUM(r.x * t.d) AS v, COUNT(t.d) AS n {JOINED}",
    "self_join": "SELECT p.a, SUM(p.e * q.e) AS v FROM s p JOIN s q ON p.c = q.c GROUP BY p.a",
}


def _mill(query: str) -> Any:
    mill = vm.connect()
    mill.sql("CREATE TABLE r (a INT, b INT, x DOUBLE)")
    mill.sql("CREATE TABLE s (a INT, c INT, e INT)")
    mill.sql("CREATE TABLE t (c INT, d INT)")
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {query}")
    return mill


def _rows(random: np.random.Generator, width: int, size: int) -> list[tuple[int | None, ...]]:
    found = random.integers(0, 8, (size, width)).tolist()
    return [tuple(None if random.random() < 0.05 else x for x in row) for row in found]


def _summed(mill: Any) -> list[str]:
    """The inputs of which a batch was summed."""
    feeds = mill.core.catalog.view("v").block.maintainer._product_feeds
    return [name for (name, _), feed in feeds.items() if feed is not None]


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_equal_to_recompute(query: str) -> None:
    random = np.random.default_rng(5)
    with _mill(query) as mill:
        for size in (3, 150, 160):
            for name, width in (("s", 3), ("t", 2), ("r", 3)):
                rows = _rows(random, width, size)
                mill.insert(name, rows)
                mill.delete(name, rows[: size - 20])
                assert mill["v"].verify() == []
        assert _summed(mill)


def test_explain_says_so_and_keys_that_hardly_repeat_are_not_summed() -> None:
    with _mill(QUERIES["keyed"]) as mill:
        assert "batches of t are summed by c first if keys repeat" in mill["v"].explain()
        mill.insert("t", [(i, 1) for i in range(300)])
        assert _summed(mill) == []
        mill.insert("t", [(i % 100, 1) for i in range(300)])  # the first ones do not
        assert _summed(mill) == []
        mill.insert("t", [(i % 40, 1) for i in range(300)])
        assert _summed(mill) == ["t"]
        assert mill["v"].verify() == []


def test_a_row_that_fails_is_named_and_nothing_changes() -> None:
    query = f"SELECT s.a, SUM(t.d + 2147483000) AS v {JOINED} GROUP BY s.a"
    with _mill(query) as mill:
        mill.insert("r", [(1, 1, 1.0)])
        mill.insert("s", [(1, 2, 1)])
        mill.insert("t", [(2, 1)] * 200)
        before = mill["v"].rows()
        with pytest.raises(Overflow) as caught:
            mill.insert("t", [(2, 1)] * 199 + [(2, 2147483647)])
        assert "d = 2147483647" in caught.value.detail
        assert mill["v"].rows() == before
        assert mill["v"].verify() == []

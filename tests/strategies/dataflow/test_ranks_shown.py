"""Which ranks a filter above row_number, rank and dense_rank lets through, in every form."""

from __future__ import annotations

import random

import pytest

import viewmill as vm

CONDITIONS = [
    "rn = 3", "3 = rn", "rn = 0", "rn = -1", "rn = 2 AND rn = 3", "rn IN (2, 4)", "rn <> 2",
    "rn <> 2 AND rn <= 4", "rn >= 2 AND rn < 5", "2 <= rn AND 5 > rn", "rn > 3", "rn >= 3",
    "rn = 3 OR rn = 1", "rn BETWEEN 2 AND 4", "rn NOT BETWEEN 2 AND 4", "rn <= 3 AND a > 2",
    "rn = 3 AND b IS NOT NULL", "NOT rn > 3", "rn % 2 = 1", "rn <= 3 AND rn >= -5", "rn < b",
    "rn = 4 - 1", "rn <= 2.5", "rn > 4 AND rn < 3", "rn <= 5000",
]  # fmt: skip
OVERS = [
    "row_number() OVER (ORDER BY a)",
    "row_number() OVER (PARTITION BY b ORDER BY a DESC)",
    "rank() OVER (ORDER BY a)",
    "dense_rank() OVER (ORDER BY a DESC)",
    "dense_rank() OVER (PARTITION BY b ORDER BY a)",
]


@pytest.fixture
def changing(mill: vm.Mill) -> vm.Mill:
    mill.sql("CREATE TABLE t (a INT, b INT, c INT)")
    return mill


def change(mill: vm.Mill, views: dict[str, str], seed: int) -> None:
    """Random rows come and go, many of them equal; every view equals recompute after each batch."""
    source, live = random.Random(seed), list[tuple[int | None, ...]]()
    for _ in range(5):
        coming = [
            (source.choice([None, *range(6)]), source.choice([None, 1, 2]), source.randrange(2))
            for _ in range(source.randrange(8))
        ]
        source.shuffle(live)
        cut = source.randrange(len(live) // 2 + 1)
        gone, live = live[:cut], live[cut:]
        with mill.batch():
            mill.insert("t", coming)
            mill.delete("t", gone)
        live += coming
        for name, sql in views.items():
            assert mill[name].verify() == [], sql


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("over", OVERS)
def test_a_filter_shows_the_ranks_that_it_names(changing: vm.Mill, over: str) -> None:
    """`rn = 3` showed the first three rows."""
    views: dict[str, str] = {}
    for i, condition in enumerate(CONDITIONS):
        inner = f"SELECT *, {over} AS rn FROM t"
        shapes = [
            f"SELECT a, c FROM ({inner}) WHERE {condition}",
            f"SELECT a, rn FROM ({inner}) WHERE {condition}",
            f"SELECT a, c FROM t QUALIFY {condition.replace('rn', over)}",
        ]
        for sql in (shapes[0], shapes[1 + i % 2]):
            name = f"v{len(views)}"
            changing.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
            views[name] = sql
    change(changing, views, seed=len(over))


@pytest.mark.usefixtures("uncompiled")
def test_a_single_rank_is_one_row(changing: vm.Mill) -> None:
    changing.sql(
        "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS "
        "SELECT a FROM (SELECT *, row_number() OVER (ORDER BY a) AS rn FROM t) WHERE rn = 3"
    )
    changing.insert("t", [(a, 0, 0) for a in range(1, 6)])
    assert changing["v"].rows() == [(3,)]
    changing.delete("t", [(1, 0, 0)])
    assert changing["v"].rows() == [(4,)]

"""Lists whose entries remember where they lead, compiled: entries move, so that links go stale."""

import numpy as np
import pytest

import viewmill as vm
from viewmill.mill.mill import Mill

QUERIES = {
    "summed": "SELECT SUM(r.b * t.d * s.e) AS v FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c",
    "grouped": (
        "SELECT s.a, COUNT(*) AS n, SUM(t.d) AS v FROM r JOIN s ON r.a = s.a "
        "JOIN t ON s.c = t.c GROUP BY s.a"
    ),
}
COLUMNS = {"r": ("a", "b"), "s": ("a", "c", "e"), "t": ("c", "d")}


@pytest.fixture
def mill(monkeypatch: pytest.MonkeyPatch) -> Mill:
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    made = vm.connect()
    for name, columns in COLUMNS.items():
        made.sql(f"CREATE TABLE {name} ({', '.join(f'{each} BIGINT' for each in columns)})")
    return made


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_links_that_went_stale_are_found_out(mill: Mill, query: str) -> None:
    """Keys come and go, so that entries of the states move under the links to them, and lists grow
    from one entry past those that are known by tags and shrink again."""
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {query}")
    source = mill.core.catalog.view("v").plan.program.body.source
    assert "linked_touch" in source
    random = np.random.default_rng(7)
    held: dict[str, list[tuple[int, ...]]] = {name: [] for name in COLUMNS}
    for step in range(24):
        with mill.batch():
            for name, columns in COLUMNS.items():
                limits = [60 if each == "a" else 4 if each == "c" else 9 for each in columns]
                rows = [tuple(map(int, random.integers(0, limits))) for _ in range(25)]
                mill.insert(name, rows)
                held[name] += rows
                random.shuffle(held[name])
                gone = len(held[name]) * (9 if step % 6 == 5 else 2) // 10
                mill.delete(name, held[name][:gone])
                del held[name][:gone]
        assert mill["v"].verify() == []
    with mill.batch():
        for name, rows in held.items():
            mill.delete(name, rows)
    assert mill["v"].verify() == []
    for name in COLUMNS:
        mill.insert(name, [tuple(1 for _ in COLUMNS[name])] * 2)
    assert mill["v"].verify() == []

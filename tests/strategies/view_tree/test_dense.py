"""A chain of matrices kept as arrays equals the same chain kept by key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")

TABLES = (("A1", "i", "j"), ("A2", "j", "k"), ("A3", "k", "l"))
CHAIN = (
    "A3.l, SUM(A1.P * A2.P * A3.P) AS P, A1.i FROM A1 JOIN A2 ON A1.j = A2.j "
    "JOIN A3 ON A2.k = A3.k GROUP BY A1.i, A3.l"
)


@pytest.fixture
def chain(mill: vm.Mill) -> vm.Mill:
    for name, a, b in TABLES:
        mill.sql(f"CREATE TABLE {name} ({a} INT NOT NULL, {b} INT NOT NULL, P DOUBLE NOT NULL)")
    mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT /*+ DENSE */ {CHAIN}")
    return mill


def cells(random: Any, height: int, width: int) -> list[tuple[int, int, float]]:
    matrix = random.normal(size=(height, width))
    return [(i, j, float(p)) for (i, j), p in np.ndenumerate(matrix)]


def test_rows_products_and_batches(chain: vm.Mill) -> None:
    random = np.random.default_rng(3)
    chain.insert("A2", cells(random, 5, 4))
    assert chain["v"].count() == 0
    chain.insert("A1", cells(random, 3, 5))
    chain.insert("A3", cells(random, 4, 6))
    assert (chain["v"].count(), chain["v"].verify()) == (18, [])
    with chain.batch():  # every matrix at once, and keys that were not there
        u, v = random.normal(size=8), random.normal(size=3)
        chain.apply_product("A2", [{"j": range(8), "P": u}, {"k": range(3), "P": v}], "P")
        chain.apply_product("A1", [{"i": [7], "P": [2.0]}, {"j": range(8), "P": u}], "P")
        chain.insert("A3", [(9, 1, 1.5), (1, 2, 3.0)])
    assert chain["v"].verify() == []
    chain.delete("A3", [(1, 2, 3.0)])
    gone = chain.sql("SELECT * FROM A1 WHERE i = 0").rows()
    chain.delete("A1", gone)
    assert chain["v"].verify() == []
    assert not any(i == 0 for _, _, i in chain["v"].rows())
    status = chain["v"].status()
    assert (status["result"], status["strategy"]) == ("dense", "view_tree")
    assert status["refresh_kind"] == "incremental"
    assert status["engine_calls"] == 0


def test_a_view_created_late_or_opened_again_has_the_same_values(tmp_path: Any) -> None:
    random = np.random.default_rng(4)
    with vm.connect(tmp_path / "m") as mill:
        for name, a, b in TABLES:
            mill.sql(f"CREATE TABLE {name} ({a} INT NOT NULL, {b} INT NOT NULL, P DOUBLE NOT NULL)")
            mill.insert(name, cells(random, 3, 3))
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT /*+ DENSE */ {CHAIN}")
        assert mill["v"].verify() == []
        before = sorted(mill["v"].rows())
    with vm.connect(tmp_path / "m") as mill:
        assert np.allclose(sorted(mill["v"].rows()), before)
        mill.apply_product("A2", [{"j": [0], "P": [1.0]}, {"k": [0, 1], "P": [1.0, 2.0]}], "P")
        assert mill["v"].verify() == []


@pytest.mark.parametrize("row", [(1, -1, 2.0), (1, 1 << 20, 2.0), (1, 1, float("nan"))])
def test_what_no_array_holds_is_refused_and_changes_nothing(chain: vm.Mill, row: Any) -> None:
    for name, *_ in TABLES:
        chain.insert(name, [(0, 0, 1.0), (1, 1, 2.0)])
    before = sorted(chain["v"].rows())
    with pytest.raises(vm.EvaluationFailed, match="DENSE view keeps"):
        chain.insert("A2", [(0, 1, 5.0), row])
    assert sorted(chain["v"].rows()) == before
    assert chain["v"].verify() == []


@pytest.mark.parametrize(
    "query",
    [
        "A1.i, SUM(A1.P * A2.P) AS P FROM A1 JOIN A2 ON A1.j = A2.j GROUP BY A1.i",
        "A1.i, A2.k, SUM(A1.P + A2.P) AS P FROM A1 JOIN A2 ON A1.j = A2.j GROUP BY A1.i, A2.k",
        "A1.i, A2.k, COUNT(*) AS P FROM A1 JOIN A2 ON A1.j = A2.j GROUP BY A1.i, A2.k",
        "A1.i, A2.k, A1.P FROM A1 JOIN A2 ON A1.j = A2.j",
    ],
    ids=["one-end", "sum", "count", "join"],
)
def test_what_is_no_chain_is_refused_kindly(chain: vm.Mill, query: str) -> None:
    with pytest.raises(vm.UnsupportedQuery, match="cannot be kept as arrays"):
        chain.sql(f"CREATE MATERIALIZED VIEW w AS SELECT /*+ DENSE */ {query}")
    with pytest.raises(vm.UnsupportedQuery, match="does not list its changes"):
        chain["v"].subscribe(print)

"""Views made over rows that are there, whose aggregate is fed by a block that keeps no rows."""

from pathlib import Path
from typing import Any

import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")

# Expressions over several tables go through a join that passes its rows on.
QUERIES = {
    "moments": "SELECT cofactor(r.x * s.y, s.y) AS c FROM r JOIN s ON r.k = s.k",
    "by_group": "SELECT r.k, cofactor(r.x * s.y, s.y) AS c FROM r JOIN s ON r.k = s.k GROUP BY r.k",
    "outer": "SELECT cofactor(r.x, s.y) AS c FROM r LEFT JOIN s ON r.k = s.k",
}


def _fill(mill: Any) -> None:
    mill.sql("CREATE TABLE r (k INT, x DOUBLE)")
    mill.sql("CREATE TABLE s (k INT, y DOUBLE) UNCHECKED")
    mill.insert("r", [(1, 2.0), (1, 2.0), (2, 5.0), (None, 1.0)])
    mill.insert("s", [(1, 3.0), (2, 4.0), (2, None)])
    mill.delete("s", [(3, 7.0)])  # before it comes


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_a_view_made_late_equals_recompute_and_goes_on(query: str, tmp_path: Path) -> None:
    with vm.connect(str(tmp_path / "mill")) as mill:
        _fill(mill)
        mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {query}")
        assert mill["v"].verify() == []
        mill.insert("r", [(3, 1.0), (2, 1.5)])
        mill.insert("s", [(3, 7.0)])
        assert mill["v"].verify() == []
        shown = mill["v"].rows()
    with vm.connect(str(tmp_path / "mill")) as mill:
        assert mill["v"].rows() == shown
        mill.delete("r", [(1, 2.0)])
        assert mill["v"].verify() == []
        mill.sql("REFRESH MATERIALIZED VIEW v FULL")
        assert mill["v"].verify() == []


def test_a_ring_that_does_not_commute_multiplies_in_the_order_of_its_arguments() -> None:
    def multiply(a: Any, b: Any) -> Any:
        return (
            a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
            a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3],
        )  # fmt: skip

    ring = vm.Ring(
        zero=(0.0, 0.0, 0.0, 0.0),
        one=(1.0, 0.0, 0.0, 1.0),
        add=lambda a, b: (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]),
        negate=lambda a: (-a[0], -a[1], -a[2], -a[3]),
        multiply=multiply,
        lift=lambda x: (1.0, x, 0.5, 2.0 * x),
    )
    with vm.connect() as mill:
        mill.register("chain", ring)
        _fill(mill)
        joined = "FROM r JOIN s ON r.k = s.k"
        mill.sql(f"CREATE MATERIALIZED VIEW ahead AS SELECT chain(x, y) AS p {joined}")
        mill.sql(f"CREATE MATERIALIZED VIEW back AS SELECT chain(y, x) AS p {joined}")
        for view in ("ahead", "back"):
            assert mill[view].verify() == []
        assert mill["ahead"].rows() != mill["back"].rows()

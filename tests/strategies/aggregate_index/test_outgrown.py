"""Numbers that grow out of the 64 bits of a level: the view is planned anew and stays right."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pytest

import viewmill as vm
from viewmill.mill.mill import Mill

LARGE = {
    "order": "SELECT sum(price * vol) AS s FROM b WHERE 0.75 * (SELECT sum(c.vol) FROM b c) < "
    "(SELECT sum(d.vol) FROM b d WHERE d.price <= b.price)",
    "equal": "SELECT sum(price) AS s FROM b WHERE "
    "10 < (SELECT sum(d.vol) FROM b d WHERE d.price = b.price)",
    "groups": "SELECT k, sum(vol) AS s FROM b WHERE "
    "1 < (SELECT count(*) FROM b d WHERE d.price <= b.price) GROUP BY k",
    "by_key": "SELECT k, count(*) AS n FROM b WHERE "
    "vol > (SELECT 0.1 * sum(c.vol) FROM b c WHERE c.k = b.k) GROUP BY k",
    "rows": "SELECT k, vol FROM b WHERE vol > (SELECT avg(c.vol) FROM b c WHERE c.k = b.k)",
    "general": "SELECT k, count(*) AS n FROM b WHERE 0.75 * (SELECT sum(y.vol) FROM b y "
    "WHERE y.vol <= b.vol) < (SELECT sum(y.vol) FROM b y WHERE y.price <= b.price) GROUP BY k",
    "sums": "SELECT k, total FROM (SELECT k, sum(vol) AS total FROM b GROUP BY k) g "
    "WHERE total < (SELECT max(total) FROM (SELECT sum(vol) AS total FROM b GROUP BY k) h)",
}
# More than 2^63 with two digits behind the point, when there are eleven of a key.
VOLUME = Decimal(9 * 10**15)
ENDS = (-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1)


def _create(mill: Mill, query: str) -> None:
    mill.sql("CREATE TABLE b (k INT, price DECIMAL(18,2), vol DECIMAL(18,2))")
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {query}")
    assert "aggregate_index" in mill["v"].status()["strategy"]


def _outgrow(mill: Mill) -> None:
    for i in range(36):
        mill.insert("b", [(i % 3, Decimal(i % 2), VOLUME + i)])
        assert mill["v"].verify() == [], i
    assert "aggregate_index" not in mill["v"].status()["strategy"]
    mill.delete("b", [(i % 3, Decimal(i % 2), VOLUME + i) for i in range(4, 20)])
    assert mill["v"].verify() == []


@pytest.mark.parametrize("name", LARGE)
def test_sums_grow_out_of_the_levels_of_an_index(uncompiled, name: str) -> None:
    with vm.connect() as mill:
        _create(mill, LARGE[name])
        _outgrow(mill)


def test_a_compiled_group_notices_that_its_sum_leaves_a_word() -> None:
    """It was cut to 64 bits without a word, and groups lost their place."""
    with vm.connect() as mill:
        _create(mill, LARGE["equal"])
        _outgrow(mill)


def test_a_view_that_was_outgrown_opens_again(uncompiled, tmp_path: Path) -> None:
    with vm.connect(tmp_path / "m.mill") as mill:
        _create(mill, LARGE["order"])
        _outgrow(mill)
        mill.insert("b", [(0, Decimal(1), VOLUME)] * 8)
        rows = mill["v"].rows()
    with vm.connect(tmp_path / "m.mill") as mill:
        assert mill["v"].rows() == rows
        mill.insert("b", [(1, Decimal(0), VOLUME)])
        assert mill["v"].verify() == []


SIGNS = ("<", "<=", ">", ">=", "=", "<>")
EXTREMES = {
    "rows": "SELECT k, x FROM t WHERE x {} (SELECT max(y) FROM u)",
    "by_key": "SELECT k, x FROM t WHERE x {} (SELECT sum(y) FROM u WHERE u.k = t.k)",
    "column": "SELECT count(*) AS n FROM t WHERE x {} (SELECT max(y) FROM u)",
    "factor": "SELECT count(*) AS n FROM t WHERE 2 * s {} (SELECT max(y) FROM u)",
}


def _meet_the_ends(query: str, steps: int) -> None:
    source, live = random.Random(1), list[tuple[int, int]]()
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k INT, x BIGINT, s INT)")
        mill.sql("CREATE TABLE u (k INT, y BIGINT)")
        mill.insert("t", [(0, x, 1) for x in ENDS[2:5]])
        for i, sign in enumerate(SIGNS):
            mill.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query.format(sign)}")
            assert mill[f"v{i}"].status()["strategy"] == "aggregate_index"
        for step in range(steps):
            with mill.batch():
                mill.insert("t", [(source.randrange(2), source.choice(ENDS), step)])
                mill.delete("u", live[:1] if step % 3 else live)
                live = live[1:] if step % 3 else []
                live.append((source.randrange(2), source.choice(ENDS)))
                mill.insert("u", live[-1:])
            for i, sign in enumerate(SIGNS):
                assert mill[f"v{i}"].verify() == [], (sign, step)


@pytest.mark.parametrize("name", EXTREMES)
def test_the_ends_of_bigint_are_compared_as_all_others(uncompiled, name: str) -> None:
    _meet_the_ends(EXTREMES[name], 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXTREMES)
def test_compiled_triggers_compare_the_ends_of_bigint(name: str) -> None:
    _meet_the_ends(EXTREMES[name], 20)

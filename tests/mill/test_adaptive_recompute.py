"""Large changes: a view is computed again when that is cheaper, which only its status shows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.engines.duckdb import DuckdbEngine
from viewmill.mill import adaptive_recompute
from viewmill.mill.adaptive_recompute import RecomputeEstimate
from viewmill.mill.calibration import EngineSpeed, engine_speed, measure
from viewmill.mill.mill import Mill

GROUPED = "SELECT k, COUNT(*) AS n, SUM(x) AS total, MIN(x) AS least FROM t GROUP BY k"


def rows(count: int, seed: int = 0) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table({"k": chance.integers(0, 50, count), "x": chance.integers(-9, 9, count)})


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change of 300 rows is called a large one, whatever the machine."""
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    monkeypatch.setattr(adaptive_recompute, "LEAST_ROWS", 300)
    monkeypatch.setattr(adaptive_recompute, "engine_speed", lambda engine: EngineSpeed(1.0, 0.0001))
    monkeypatch.setattr(
        adaptive_recompute.RecomputeEstimate, "is_cheaper_for", lambda self, rows: True
    )


@pytest.fixture
def mill() -> Iterator[Mill]:
    with vm.connect() as made:
        made.sql("CREATE TABLE t (k BIGINT, x BIGINT) UNCHECKED")
        made.sql("CREATE TABLE names (k BIGINT, name STRING)")
        made.insert("names", [(i, f"name {i % 7}") for i in range(50)])
        yield made


def kinds(mill: Mill) -> dict[str, str]:
    return {name: mill[name].status()["refresh_kind"] for name in mill.views()}


def check(mill: Mill) -> None:
    for name in mill.views():
        view = mill[name]
        assert view.verify() == [], name
        assert view.status()["rows"] == len(view.rows())


def test_a_large_change_is_computed_again_and_small_ones_go_on_from_there(mill: Mill) -> None:
    mill.sql(f"CREATE MATERIALIZED VIEW g AS {GROUPED}")
    mill.insert("t", rows(20))
    assert kinds(mill) == {"g": "incremental"}
    before = mill["g"].status()["engine_calls"]
    mill.insert("t", rows(2000, 1))
    assert kinds(mill) == {"g": "full"}
    assert mill["g"].status()["engine_calls"] > before
    check(mill)
    calls = mill["g"].status()["engine_calls"]
    for seed in range(3):
        mill.insert("t", rows(5, seed))
        mill.delete("t", rows(5, seed))
        mill.delete("t", rows(10, 0).slice(seed, 1))
        assert kinds(mill) == {"g": "incremental"}
        check(mill)
    assert mill["g"].status()["engine_calls"] == calls


@pytest.mark.parametrize("policy", ["INCREMENTAL", "INCREMENTAL STRICT"])
def test_a_view_that_must_be_incremental_stays_so(mill: Mill, policy: str) -> None:
    mill.sql(f"CREATE MATERIALIZED VIEW g REFRESH POLICY {policy} AS {GROUPED}")
    calls = mill["g"].status()["engine_calls"]
    mill.insert("t", rows(2000))
    assert kinds(mill) == {"g": "incremental"}
    assert mill["g"].status()["engine_calls"] == calls
    check(mill)


def test_views_in_blocks_views_over_views_and_their_listeners_see_one_change(mill: Mill) -> None:
    mill.sql(f"CREATE MATERIALIZED VIEW g AS {GROUPED}")
    mill.sql("CREATE MATERIALIZED VIEW h AS SELECT n, COUNT(*) AS groups FROM g GROUP BY n")
    mill.sql(
        "CREATE MATERIALIZED VIEW best AS SELECT name, SUM(x) AS total FROM t JOIN names "
        "ON t.k = names.k GROUP BY name ORDER BY total DESC LIMIT 3"
    )
    heard: dict[str, list[object]] = {name: [] for name in mill.views()}
    for name in mill.views():
        mill[name].subscribe(heard[name].append)
    for step, count in enumerate((40, 1500, 3, 900)):
        mill.insert("t", rows(count, step))
        check(mill)
    assert kinds(mill)["g"] == "full"
    assert kinds(mill)["best"] == "full"
    assert len(heard["g"]) == len(heard["h"]) == 4


def _refused(mill: Mill) -> None:
    with mill.batch():
        mill.insert("t", rows(3000, 5))
        mill.delete("names", [(99, "nobody")])


def test_a_batch_that_fails_leaves_the_old_states(mill: Mill) -> None:
    mill.sql(f"CREATE MATERIALIZED VIEW g AS {GROUPED}")
    mill.sql("CREATE MATERIALIZED VIEW quotient AS SELECT k, 10 / x AS q FROM t WHERE x <> 0")
    mill.insert("t", rows(30))
    before = {name: sorted(mill[name].rows()) for name in mill.views()}
    with pytest.raises(vm.errors.MissingRow):
        _refused(mill)
    assert before == {name: sorted(mill[name].rows()) for name in mill.views()}
    mill.insert("t", rows(2, 6))
    check(mill)


def test_an_error_is_the_triggers_and_names_the_row(mill: Mill) -> None:
    mill.sql("CREATE MATERIALIZED VIEW q AS SELECT k, SUM(100 / x) AS q FROM t GROUP BY k")
    good = pa.table({"k": np.arange(1000), "x": np.ones(1000, np.int64)})
    bad = pa.concat_tables([good, pa.table({"k": [1], "x": [0]})])
    with pytest.raises(vm.ViewmillError, match="division by zero") as caught:
        mill.insert("t", bad)
    assert "row 1000" in caught.value.detail
    mill.insert("t", good)
    assert kinds(mill) == {"q": "full"}
    check(mill)


def test_deletes_that_come_before_their_inserts_are_not_lost(mill: Mill) -> None:
    mill.sql(f"CREATE MATERIALIZED VIEW g AS {GROUPED}")
    mill.delete("t", pa.table({"k": [3], "x": [4]}))
    mill.insert("t", rows(2000))
    assert kinds(mill) == {"g": "full"}
    mill.insert("t", pa.table({"k": [3], "x": [4]}))
    check(mill)


def test_a_deferred_view_takes_what_waited_in_one_go(mill: Mill) -> None:
    mill.sql(f"CREATE MATERIALIZED VIEW g REFRESH ON DEMAND AS {GROUPED}")
    for seed in range(4):
        mill.insert("t", rows(500, seed))
    mill["g"].refresh()
    assert kinds(mill) == {"g": "full"}
    check(mill)


def test_it_survives_a_restart(tmp_path) -> None:
    with vm.connect(tmp_path / "m") as mill:
        mill.sql("CREATE TABLE t (k BIGINT, x BIGINT)")
        mill.sql(f"CREATE MATERIALIZED VIEW g AS {GROUPED}")
        mill.insert("t", rows(2000))
        assert kinds(mill) == {"g": "full"}
        expected = sorted(mill["g"].rows())
    with vm.connect(tmp_path / "m") as mill:
        assert sorted(mill["g"].rows()) == expected
        mill.delete("t", rows(2000).slice(0, 1500))
        check(mill)


def test_what_decides_is_the_cost_of_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    cheap = RecomputeEstimate(
        EngineSpeed(1000.0, 0.01), row_us=1.0, is_measured=True, recompute_us=20_000.0
    )
    assert cheap.break_even_rows == 30_001
    assert not cheap.is_cheaper_for(30_000)
    assert cheap.is_cheaper_for(30_001)
    dear = RecomputeEstimate(cheap.engine, row_us=0.001, is_measured=True, recompute_us=20_000.0)
    assert not dear.is_cheaper_for(1_000_000)


def test_explain_says_from_which_size_on_and_why(mill: Mill) -> None:
    mill.sql(f"CREATE MATERIALIZED VIEW g AS {GROUPED}")
    mill.sql(f"CREATE MATERIALIZED VIEW s REFRESH POLICY INCREMENTAL STRICT AS {GROUPED}")
    assert "estimated" in str(mill["g"].explain())
    for seed in range(2):
        mill.insert("t", rows(1500, seed))
    text = str(mill["s"].explain())
    assert "adaptive" not in text
    facts = mill["g"].explain("json")["adaptive"]
    assert facts["recompute_from_rows"] >= 300
    assert facts["engine_start_us"] == 1.0
    assert "computed again from" in str(mill["g"].explain())


def test_the_engine_is_measured_once_and_remembered(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path))
    engine = DuckdbEngine()
    speed = engine_speed(engine)
    assert speed.start_us > 0
    assert 0 < speed.row_us < speed.start_us
    assert engine_speed(object.__new__(DuckdbEngine)) == speed  # nothing is run again
    (tmp_path / "calibration.json").write_text("{ torn")
    assert engine_speed(engine).start_us > 0
    assert measure(engine).query_us(10**6) > measure(engine).query_us(10)
    engine.close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT SUM(a) AS s, COUNT(*) AS n FROM (SELECT k, AVG(x) AS a FROM t GROUP BY k)",
        "SELECT k, SUM(a) AS s FROM (SELECT DISTINCT k, x / 8 AS a FROM t) GROUP BY k",
        "SELECT k % 3 AS g, AVG(m / 4) AS a FROM (SELECT k, MAX(x) AS m FROM t GROUP BY k)"
        " GROUP BY 1",
    ],
)
def test_float_sums_over_an_inner_aggregate_are_computed_again_from_the_new_one(
    mill: Mill, query: str
) -> None:
    """They were added up from what the inner aggregate showed before the change."""
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    mill.insert("t", rows(20))
    for seed, kind in ((1, "full"), (2, "full")):
        mill.insert("t", rows(400, seed))
        assert kinds(mill) == {"v": kind}
        check(mill)
    mill.insert("t", rows(5, 3))
    check(mill)

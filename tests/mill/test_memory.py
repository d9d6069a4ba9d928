"""Budgets for states: whatever is kept, views equal recompute, and the budget is never exceeded."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewmill as vm
from viewmill.mill import memory
from viewmill.mill.fill import load_states
from viewmill.mill.held_states import switch_to_full
from viewmill.planner.allot import SELECTORS, Claim
from viewmill.planner.select_states import Selection, reasons

VIEWS = {
    "tree": "SELECT s.a, sum(r.b * t.d) AS v, count(*) AS n FROM r JOIN s ON r.a = s.a "
    "JOIN t ON s.c = t.c GROUP BY s.a",
    "joined": "SELECT r.b, s.c, t.d FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c",
    "padded": "SELECT r.b, s.c, t.d FROM r LEFT JOIN s ON r.a = s.a LEFT JOIN t ON s.c = t.c",
    "extremes": "SELECT a, max(b) AS hi, min(b) AS lo, count(DISTINCT b) AS n FROM r GROUP BY a",
    "pairs": "SELECT x.a, count(*) AS n FROM r x JOIN r y ON x.b = y.b GROUP BY x.a",
    "top": "SELECT a, b FROM r ORDER BY b DESC, a LIMIT 3",
    "nested": "SELECT sum(a * b) AS v FROM r WHERE 0.25 * (SELECT sum(b) FROM r) > "
    "(SELECT sum(r2.b) FROM r r2 WHERE r2.a > r.a)",
    "cut": "SELECT n, count(*) AS m FROM (SELECT a, count(*) AS n FROM r GROUP BY a) GROUP BY n",
    "difference": "SELECT a FROM r EXCEPT SELECT a FROM s",
}


COMPILED = ("test_no_memory_equals_recompute_and_ample_memory_is_incremental",)


@pytest.fixture(autouse=True)
def compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine views compile for a minute: one test does it, the others mean the same without."""
    if request.node.originalname not in COMPILED:
        monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def _mill(**options: Any) -> vm.Mill:
    mill = vm.connect(**options)
    mill.sql("CREATE TABLE r (a INT, b INT); CREATE TABLE s (a INT, c INT)")
    mill.sql("CREATE TABLE t (c INT, d INT)")
    return mill


def _check(mill: vm.Mill, names: Any) -> None:
    for name in names:
        status = mill[name].status()
        assert mill[name].verify() == [], name
        assert status["state_bytes"] <= status["budget_bytes"], name


rows = st.tuples(st.sampled_from([None, 1, 2, 3]), st.integers(0, 3))
changes = st.tuples(st.sampled_from("rst"), st.lists(rows, min_size=1, max_size=4), st.booleans())


def _change(mill: vm.Mill, table: str, coming: list[Any], deletes: bool) -> None:
    held = mill.sql(f"SELECT * FROM {table}").rows()
    with mill.batch():
        mill.insert(table, coming)
        if deletes and held:
            mill.delete(table, held[: len(held) // 2 + 1])


def _by_chance(seed: int) -> Any:
    chance = random.Random(seed)

    def select(claim: Claim, budget: int) -> Selection:
        names = sorted(each.name for op in claim.root.walk() for each in op.holdings)
        kept = frozenset(name for name in names if chance.random() < 0.6)
        mode = "full" if chance.random() < 0.2 else "incremental"
        why = reasons(claim.root, kept, mode, budget)  # type: ignore[arg-type]
        return Selection(kept, mode, 0.0, 0, budget, why)  # type: ignore[arg-type]

    return select


@settings(max_examples=5)
@given(
    steps=st.lists(changes, min_size=3, max_size=6),
    seed=st.integers(0, 1000),
    views=st.permutations(sorted(VIEWS)),
)
def test_whatever_is_kept_by_chance_the_views_equal_recompute(
    steps: list[Any], seed: int, views: list[str]
) -> None:
    before = SELECTORS["dynamic"]
    SELECTORS["dynamic"] = _by_chance(seed)
    try:
        with _mill() as mill:
            mill.insert("r", [(1, 2), (2, 3)])
            now, later = views[:2], views[2:4]
            for name in now:
                mill.sql(f"CREATE MATERIALIZED VIEW {name} MEMORY '64 MB' AS {VIEWS[name]}")
            for name in later:
                head = f"CREATE MATERIALIZED VIEW {name} REFRESH ON DEMAND MEMORY '64 MB'"
                mill.sql(f"{head} AS {VIEWS[name]}")
            for i, (table, coming, deletes) in enumerate(steps):
                _change(mill, table, coming, deletes)
                for entry in mill.core.catalog.budgeted_views():
                    assert entry.budgeted is not None
                    entry.budgeted.selection = None  # choose anew each time
                memory.release_states(mill.core)
                if i % 2:
                    mill[later[0]].refresh()
                _check(mill, now + later)
    finally:
        SELECTORS["dynamic"] = before


@pytest.mark.parametrize("budget", [0, 30_000], ids=str)
def test_no_view_is_ever_over_its_budget(budget: int) -> None:
    with _mill() as mill:
        for name, query in VIEWS.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} MEMORY {budget} AS {query}")
        for i in range(4):
            more = [(j % 50, (j + i) % 7) for j in range(200 * (i + 1))]
            for table in "rst":
                _change(mill, table, more[: 30 * (i + 1)], deletes=i % 2 == 1)
                assert all(mill[n].status()["state_bytes"] <= budget for n in VIEWS)
        _check(mill, VIEWS)


@pytest.mark.parametrize("selection", ["dynamic", "recycler", "rebatch", "everything"])
def test_one_budget_for_all_views(selection: str) -> None:
    with _mill(memory="100 KB", selection=selection) as mill:
        for name, query in VIEWS.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for i in (1, 3):
            more = [(j % 40, (j * i) % 9) for j in range(60)]
            for table in "rst":
                _change(mill, table, more, deletes=i == 3)
                assert mill.status()["state_bytes"] <= 100_000
        _check(mill, VIEWS)


def test_no_memory_equals_recompute_and_ample_memory_is_incremental() -> None:
    with _mill() as mill:
        mill.sql(f"CREATE MATERIALIZED VIEW none MEMORY '0 MB' AS {VIEWS['tree']}")
        mill.sql(f"CREATE MATERIALIZED VIEW ample MEMORY '1 GB' AS {VIEWS['tree']}")
        for table in "rst":
            mill.insert(table, [(i % 5, i) for i in range(50)])
        assert mill["none"].status()["state_bytes"] == 0
        assert mill["none"].status()["refresh_kind"] == "full"
        calls = mill["ample"].status()["engine_calls"]
        mill.insert("r", [(1, 1)])
        assert mill["ample"].status()["refresh_kind"] == "incremental"
        assert mill["ample"].status()["engine_calls"] == calls
        assert sorted(mill["none"].rows()) == sorted(mill["ample"].rows())


def test_a_hint_releases_what_only_a_complete_table_would_need() -> None:
    with _mill() as mill:
        mill.insert("r", [(i, i) for i in range(1000)])
        mill.insert("s", [(i, i % 7) for i in range(1000)])
        mill.insert("t", [(i, i) for i in range(7)])
        mill.sql(f"CREATE MATERIALIZED VIEW v MEMORY '64 MB' AS {VIEWS['joined']}")
        assert mill["v"].status()["released"] == {}
        for table in "st":
            mill.expect(table, complete=True)
        released = mill["v"].status()["released"]
        assert "v/r_by_a" in released
        assert "no delta that is expected reads it" in released["v/r_by_a"]
        mill.insert("r", [(5, 5)])
        assert mill["v"].status()["refresh_kind"] == "incremental"
        # A wrong prediction costs time, never rows.
        mill.insert("t", [(3, 3)])
        assert mill["v"].status()["refresh_kind"] in ("rebuilt", "full")
        assert mill["v"].verify() == []
        assert mill.status()["tables"]["t"]["expected"]["surprises"] == 1
        assert not mill["v"].status()["complete"]


def test_many_rows_that_wait_do_not_release_what_the_deltas_after_them_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")  # so many joined rows take minutes without
    with _mill() as mill:
        for table in "rst":
            mill.insert(table, [(i % 50, i) for i in range(500)])
            mill.expect(table, rows=1)
        mill.sql(
            f"CREATE MATERIALIZED VIEW v REFRESH ON DEMAND MEMORY '64 MB' AS {VIEWS['joined']}"
        )
        kept = mill["v"].status()["kept"]
        mill.insert("r", [(i % 50, i) for i in range(20_000)])
        assert mill["v"].status()["kept"] == kept
        mill["v"].refresh()  # by triggers or computed again, as it is cheaper on this machine
        assert mill["v"].verify() == []


def test_a_view_over_complete_tables_is_complete_and_holds_no_state() -> None:
    with _mill() as mill:
        mill.insert("r", [(1, 2), (2, 3)])
        mill.sql("CREATE MATERIALIZED VIEW v MEMORY '1 MB' AS SELECT a, sum(b) x FROM r GROUP BY a")
        assert mill["v"].status()["life"] == "inactive"
        mill.expect("r", complete=True)
        status = mill["v"].status()
        assert (status["life"], status["state_bytes"]) == ("complete", 0)
        assert sorted(mill["v"].rows()) == [(1, 2), (2, 3)]
        mill.insert("r", [(1, 1)])
        assert sorted(mill["v"].rows()) == [(1, 3), (2, 3)]
        assert mill["v"].status()["life"] == "inactive"


def test_a_failed_batch_changes_nothing_of_a_view_at_rest() -> None:
    with _mill() as mill:
        mill.sql("CREATE MATERIALIZED VIEW v MEMORY '0' AS SELECT sum(b / (a - 9)) AS x FROM r")
        mill.sql(f"CREATE MATERIALIZED VIEW w MEMORY '64 MB' AS {VIEWS['joined']}")
        mill.insert("r", [(1, 2)])
        mill.expect("r", complete=True)
        before = mill["v"].rows(), mill["w"].rows()
        with pytest.raises(vm.ViewmillError):
            mill.insert("r", [(9, 1)])
        assert (mill["v"].rows(), mill["w"].rows()) == before
        _check(mill, "vw")
        mill.insert("r", [(2, 2)])
        _check(mill, "vw")


def test_a_budget_survives_reopening(tmp_path: Path) -> None:
    with _mill(path=tmp_path / "m") as mill:
        mill.sql(f"CREATE MATERIALIZED VIEW v MEMORY '20 KB' AS {VIEWS['tree']}")
        for table in "rst":
            mill.insert(table, [(i % 90, i) for i in range(900)])
        assert mill["v"].status()["state_bytes"] <= 20_000
    with vm.connect(tmp_path / "m") as mill:
        assert mill["v"].status()["budget_bytes"] == 20_000
        mill.insert("r", [(1, 1)])
        _check(mill, "v")


def test_views_over_views_wake_together() -> None:
    with _mill(memory="30 KB") as mill:
        mill.sql(f"CREATE MATERIALIZED VIEW below AS {VIEWS['tree']}")
        mill.sql("CREATE MATERIALIZED VIEW above AS SELECT n, count(*) AS m FROM below GROUP BY n")
        mill.sql(
            "CREATE MATERIALIZED VIEW later REFRESH ON DEMAND AS "
            "SELECT above.n, t.d FROM above JOIN t ON above.n = t.c"
        )
        for i in range(5):
            for table in "rst":
                _change(mill, table, [(j % 4, j + i) for j in range(9)], deletes=i > 1)
            if i % 2:
                mill["later"].refresh()
            _check(mill, ("below", "above", "later"))


def test_deletes_before_their_inserts_reach_states_that_are_built_again() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (a INT, b INT) UNCHECKED; CREATE TABLE s (a INT, c INT) UNCHECKED")
        query = "SELECT r.a, sum(b * c) AS v FROM r JOIN s ON r.a = s.a GROUP BY r.a"
        mill.sql(f"CREATE MATERIALIZED VIEW v MEMORY '1 MB' AS {query}")
        mill.insert("r", [(1, 10), (2, 20)])
        mill.delete("s", [(1, 5)])
        mill.expect("r", complete=True)
        mill.expect("r")
        mill.insert("r", [(1, 7)])
        mill.insert("s", [(1, 5), (2, 3), (1, 2)])
        _check(mill, "v")


def test_windows_release_their_panes() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (t TIMESTAMP, x INT) APPEND ONLY TIMESTAMP BY t")
        query = "SELECT sum(x) AS v, count(*) AS n FROM s [WINDOW 10 ROWS SLIDE 2 ROWS]"
        mill.sql(f"CREATE MATERIALIZED VIEW v MEMORY '0' AS {query}")
        mill.sql(f"CREATE MATERIALIZED VIEW w MEMORY '10 MB' AS {query}")
        start = datetime.datetime(2026, 1, 1)
        for i in range(7):
            mill.insert("s", [(start + datetime.timedelta(seconds=9 * i + j), j) for j in range(5)])
            if i == 3:
                mill.expect("s", complete=True)
            _check(mill, "vw")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"rows": -1}, "at least 0"),
        ({"rows": "many"}, "number"),
        ({"complete": 1}, "True or False"),
        ({"row": 5}, "expect takes no row="),
        ({"late": 0.9}, "needs every="),
        ({"late": 0.9, "every": "60 seconds"}, "needs total="),
        ({"every": 0}, "longer than zero"),
        ({"complete": True, "rows": 5}, "expects no rows"),
    ],
    ids=str,
)
def test_wrong_expectations_are_refused(said: dict[str, Any], problem: str) -> None:
    with _mill() as mill, pytest.raises(vm.ViewmillError, match=problem):
        mill.expect("r", **said)


def test_wrong_budgets_are_refused() -> None:
    for wrong in ("many", -1, True, 1.5):
        with pytest.raises(vm.ViewmillError):
            vm.connect(memory=wrong)  # type: ignore[arg-type]
    with pytest.raises(vm.ViewmillError, match="no selection"):
        vm.connect(memory="1 MB", selection="magic")
    with _mill() as mill, pytest.raises(vm.ViewmillError, match="no table"):
        mill.expect("orders", rows=5)


def test_how_a_table_arrives_survives_reopening_a_hint_does_not(tmp_path: Path) -> None:
    with _mill(path=tmp_path / "m") as mill:
        mill.expect("r", late=0.5, every="60 seconds", total=1000)
        mill.expect("s", every="1 hour", rows=7)
        mill.expect("t", rows=5000)
    with vm.connect(tmp_path / "m") as mill:
        expected = {name: mill.status()["tables"][name]["expected"] for name in "rst"}
        assert (expected["r"]["basis"], expected["r"]["rows"]) == ("model", 500.0)
        assert (expected["s"]["basis"], expected["s"]["rows"]) == ("model", 7.0)
        assert expected["t"]["basis"] == "nothing known"
        mill.expect("s")
    with vm.connect(tmp_path / "m") as mill:
        assert mill.status()["tables"]["s"]["expected"]["basis"] == "nothing known"


def test_a_table_created_again_expects_nothing_of_the_one_dropped() -> None:
    mill = _mill()
    mill.expect("r", late=0.5, every="60 seconds", total=1000)
    mill.sql("DROP TABLE r; CREATE TABLE r (a INT, b INT)")
    assert mill.status()["tables"]["r"]["expected"]["basis"] == "nothing known"


def test_states_of_few_groups_are_kept_for_large_deltas_before_any_was_built() -> None:
    """A state has as many rows as its keys have values, not as many as the table."""
    with vm.connect() as mill:
        mill.sql("CREATE TABLE big (k INT, v INT) UNCHECKED")
        mill.insert("big", [(n % 4, n) for n in range(40_000)])
        mill.expect("big", late=0.9, every="60 seconds", total=44_000)
        for name, sql in (("few", "SELECT k, sum(v) AS s FROM big GROUP BY k"),
                          ("one", "SELECT sum(v) AS s FROM big"),
                          ("many", "SELECT v, count(*) AS n FROM big GROUP BY v")):  # fmt: skip
            head = f"CREATE MATERIALIZED VIEW {name} REFRESH ON DEMAND MEMORY '1 GB'"
            mill.sql(f"{head} AS {sql}")
        assert [bool(mill[each].status()["kept"]) for each in ("few", "one")] == [True, True]
        mill.insert("big", [(1, 5), (7, 8)])
        calls = mill["few"].status()["engine_calls"]
        for name in ("few", "one", "many"):
            mill[name].refresh()
            assert mill[name].verify() == []
        assert mill["few"].status()["engine_calls"] == calls


@pytest.mark.parametrize(
    "query",
    [
        "SELECT window.start AS w, count(DISTINCT b) AS n FROM e"
        " GROUP BY window(at, '5 minutes', '2 minutes')",
        "SELECT * FROM (SELECT 1 AS a)",
    ],
)
def test_a_view_with_a_block_that_reads_nothing_fits_into_a_budget(query: str) -> None:
    """Creating it ended in a Python ValueError or IndexError."""
    with vm.connect(memory="1 MB") as mill:
        mill.sql("CREATE TABLE e (at TIMESTAMP, b INT)")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        mill.insert("e", [(datetime.datetime(2024, 1, 1, 0, i), i % 3) for i in range(9)])
        _check(mill, ["v"])


@pytest.mark.parametrize("value", ["var_pop(x)", "avg(x)"])
def test_who_follows_a_view_hears_of_digits_that_change_when_it_turns_incremental(
    value: str,
) -> None:
    """Readers kept the engine's last digits for good: COUNT DISTINCT grew with every change."""
    chance, told = random.Random(3), Counter[Any]()
    with vm.connect(memory="64 MB") as mill:
        mill.sql("CREATE TABLE e (k INT, x DOUBLE)")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT k, {value} AS a FROM e GROUP BY k")
        mill.sql("CREATE MATERIALIZED VIEW w AS SELECT k, a FROM v WHERE k > 0")
        mill.sql("CREATE MATERIALIZED VIEW n AS SELECT count(DISTINCT k, a) AS n FROM v")
        mill["v"].subscribe(lambda change: told.update(_signed(change)))
        entry = mill.core.catalog.view("v")
        assert entry.budgeted is not None
        for step in range(8):
            if step % 3 == 1:
                switch_to_full(mill.core, entry, entry.budgeted)
                entry.budgeted.selection = None
            mill.insert("e", [(chance.randint(1, 4), 1e5 * chance.random()) for _ in range(8)])
            shown = sorted(mill["v"].rows())
            assert sorted(mill["w"].rows()) == shown
            assert mill["n"].rows() == [(len(shown),)]
            assert sorted(+told) == shown
            assert min(told.values()) >= 0


def _signed(change: Any) -> dict[Any, int]:
    found = Counter[Any]()
    for *row, times in change.to_arrow().to_pandas().itertuples(index=False, name=None):
        found[tuple(row)] += times
    return dict(found)


@pytest.mark.parametrize("seed", range(3))
def test_states_that_memory_does_not_suffice_for_after_a_commit_are_left_out(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A committed insert raised the MemoryError of states that were built after it."""
    chance = random.Random(seed)

    def fail_at_times(*given: Any) -> None:
        load_states(*given)
        if chance.random() < 0.5:
            raise MemoryError

    monkeypatch.setitem(SELECTORS, "dynamic", _by_chance(seed))
    with _mill() as mill:
        for name in list(VIEWS)[:4]:
            mill.sql(f"CREATE MATERIALIZED VIEW {name} MEMORY '64 MB' AS {VIEWS[name]}")
        for i in range(8):
            for entry in mill.core.catalog.budgeted_views():
                assert entry.budgeted is not None
                entry.budgeted.selection = None  # choose anew each time
            mill.insert("rst"[i % 3], [(i % 4, i % 3)])
            with monkeypatch.context() as patch:
                patch.setattr("viewmill.mill.held_states.load_states", fail_at_times)
                for entry in mill.core.catalog.budgeted_views():
                    assert entry.budgeted is not None
                    entry.budgeted.selection = None
                memory.release_states(mill.core)
            _check(mill, mill.views())


_LISTED = "SELECT k, e FROM s LATERAL VIEW explode(sequence(1, x)) q AS e"
WHOLE = {
    "windows": "SELECT k, sum(x) AS n FROM s GROUP BY k, window(ts, '10 minutes', '1 minute')",
    "recursive": "WITH RECURSIVE t(k) AS (SELECT k FROM s UNION SELECT k - 1 FROM t WHERE k > 0) "
    "SELECT * FROM t",
    "listed": f"SELECT k, sum(e) AS n FROM ({_LISTED}) GROUP BY k",
    "by_row": "SELECT z, count(*) AS n FROM (SELECT soundex(concat('a', k)) AS z FROM s) "
    "GROUP BY z",
    "moments": "SELECT k, cofactor(x, category(k)) AS m FROM s GROUP BY k",
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_view_of_which_no_single_state_can_be_released_keeps_to_a_budget_as_a_whole(
    name: str,
) -> None:
    """MEMORY was taken and ignored for these, and the budget of a mill was exceeded by them."""
    moment = datetime.datetime(2026, 1, 1)
    rows = [(moment + datetime.timedelta(seconds=7 * i), i % 40, i % 5) for i in range(300)]
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (ts TIMESTAMP, k INT, x INT)")
        mill.sql(f"CREATE MATERIALIZED VIEW v MEMORY '1 KB' AS {WHOLE[name]}")
        for start in range(0, 300, 100):
            mill.insert("s", rows[start : start + 100])
            assert mill["v"].status()["state_bytes"] <= 1000
            assert mill["v"].verify() == []
        mill.delete("s", rows[:250])
        assert mill["v"].verify() == []


@pytest.mark.parametrize(
    ("policy", "rows"),
    [("IMMEDIATE", 20), ("EVERY INTERVAL '60' SECONDS", 1200), ("EVERY 500 ROWS", 500)],
)
def test_states_are_chosen_for_all_that_comes_until_a_deferred_refresh(
    policy: str, rows: float
) -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k INT)")
        mill.expect("t", rows=20, every="1 second")
        query = "SELECT k, count(*) AS n FROM t GROUP BY k"
        mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH {policy} MEMORY '1 MB' AS {query}")
        (entry,) = mill.core.catalog.budgeted_views()
        memory.release_states(mill.core)
        assert entry.budgeted is not None
        assert entry.budgeted.planned_for["t"].rows == pytest.approx(rows)


def test_a_view_that_follows_the_clock_takes_no_memory() -> None:
    query = "SELECT k, count(*) AS n FROM s WHERE ts > now() - INTERVAL 1 HOUR GROUP BY k"
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (ts TIMESTAMP, k INT, x INT)")
        with pytest.raises(vm.UnsupportedQuery, match="clock takes no MEMORY"):
            mill.sql(f"CREATE MATERIALIZED VIEW v MEMORY '1 KB' AS {query}")

"""A mill opens its views from the states of the last checkpoint, and computes only the others."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

import viewmill as vm
from viewmill.mill import state_snapshots
from viewmill.mill.storage import crash_points

pytestmark = pytest.mark.usefixtures("uncompiled")

TABLES = """
CREATE TABLE t (k STRING, p INT, x BIGINT, d DOUBLE, w DECIMAL(38, 2)) UNCHECKED;
CREATE TABLE u (p INT, name STRING, PRIMARY KEY (p))
"""
VIEWS = {
    "grouped": "SELECT k, p, SUM(x) AS s, COUNT(*) AS n, AVG(d) AS a FROM t GROUP BY k, p",
    "exact": "SELECT k, SUM(w) AS s, MAX(w) AS high FROM t GROUP BY k",
    "extremes": "SELECT p, MIN(k) AS low, MAX(x) AS high, COUNT(DISTINCT k) AS n FROM t GROUP BY p",
    "joined": "SELECT name, SUM(x) AS s, SUM(d) AS f FROM t JOIN u ON t.p = u.p GROUP BY name",
    "listed": "SELECT t.k, t.x, u.name FROM t JOIN u ON t.p = u.p",
    "padded": "SELECT u.name, COUNT(t.x) AS n FROM u LEFT JOIN t ON t.p = u.p GROUP BY u.name",
    "nested": "SELECT SUM(x) AS s FROM t WHERE (SELECT SUM(b.x) FROM t b WHERE b.x <= t.x)"
    " > (SELECT 0.5 * SUM(c.x) FROM t c)",
    "ranked": "SELECT * FROM (SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x, p, d, w)"
    " AS place FROM t) WHERE place <= 2",
    "distinct_": "SELECT DISTINCT upper(k) AS k, p FROM t",
    "of_a_view": "SELECT n, COUNT(*) AS groups FROM grouped GROUP BY n",
}


def change(mill: vm.Mill, chance: random.Random, there: list[tuple[object, ...]]) -> None:
    """Insert some rows and delete some of those that are there."""
    keys = [None, "a", "b", "é", "", "long " * 9]
    rows = [
        (
            chance.choice(keys),
            chance.choice([None, 1, 2, 3]),
            chance.randrange(1, 50),
            chance.choice([0.1, 1e15, -2.5]),
            chance.choice([None, 10**35, -1]),
        )
        for _ in range(12)
    ]
    mill.insert("t", rows)
    there += rows
    chance.shuffle(there)
    gone, there[:] = there[:5], there[5:]
    mill.delete("t", gone)
    mill.upsert("u", [(chance.randrange(1, 4), f"name {chance.randrange(5)}")])


def shown(mill: vm.Mill) -> dict[str, list[str]]:
    return {name: sorted(map(repr, mill[name].rows())) for name in mill.views()}


def test_views_open_from_their_snapshots_and_the_log(tmp_path):
    chance, there = random.Random(11), list[tuple[object, ...]]()
    with vm.connect(tmp_path / "a.mill") as mill:
        mill.sql(TABLES)
        for name, query in VIEWS.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        change(mill, chance, there)
    for with_tail in (False, True, True):
        with vm.connect(tmp_path / "a.mill") as mill:
            change(mill, chance, there)
            mill.checkpoint()
            if with_tail:
                change(mill, chance, there)
                change(mill, chance, there)
            before = shown(mill)
        with vm.connect(tmp_path / "a.mill") as mill:
            opened = {name: mill[name].status()["opened"] for name in VIEWS}
            assert opened == dict.fromkeys(VIEWS, "snapshot")
            assert [mill[name].status()["engine_calls"] for name in VIEWS] == [0] * len(VIEWS)
            assert shown(mill) == before
            change(mill, chance, there)
            for name in VIEWS:
                assert mill[name].status()["rows"] == len(mill[name].rows()), name
                assert mill[name].verify() == [], name


def written(tmp_path: Path) -> tuple[Path, dict[str, list[str]]]:
    with vm.connect(tmp_path / "a.mill") as mill:
        mill.sql(TABLES)
        for name in ("grouped", "joined"):
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        change(mill, random.Random(1), [])
        mill.checkpoint()
        return tmp_path / "a.mill", shown(mill)


@pytest.mark.parametrize("damage", ["changed", "cut", "missing", "layout"])
def test_a_view_without_a_good_snapshot_is_computed_and_says_so(tmp_path, monkeypatch, damage):
    folder, before = written(tmp_path)
    (states,) = folder.glob("states-*.arrow")
    content = bytearray(states.read_bytes())
    if damage == "missing":
        states.unlink()
    elif damage == "cut":
        states.write_bytes(content[: len(content) // 2])
    elif damage == "changed":
        for i in range(0, len(content), 16):
            content[i] ^= 1
        states.write_bytes(content)
    else:
        monkeypatch.setattr(state_snapshots, "layout", lambda: "another")
    with vm.connect(folder) as mill:
        assert shown(mill) == before
        for name in before:
            assert mill[name].status()["opened"].startswith("computed: ")
            assert mill[name].verify() == []
        mill.checkpoint()
    monkeypatch.undo()


def test_another_definition_does_not_take_the_states_of_the_old_one(tmp_path):
    folder, _ = written(tmp_path)
    with vm.connect(folder) as mill:
        mill.sql("CREATE OR REPLACE MATERIALIZED VIEW grouped AS SELECT k, MAX(x) AS m FROM t"
                 " GROUP BY k")  # fmt: skip
    with vm.connect(folder) as mill:
        assert mill["grouped"].status()["opened"].startswith("computed: ")
        assert mill["grouped"].verify() == []


def test_strings_keep_their_ids_beside_nested_values(tmp_path):
    with vm.connect(tmp_path / "a.mill") as mill:
        mill.sql("CREATE TABLE t (a ARRAY<INT>, k STRING, x INT)")
        mill.sql("CREATE MATERIALIZED VIEW lists AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        mill.sql("CREATE TABLE s (k STRING, x INT)")
        mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(x) AS s FROM s GROUP BY k")
        for i in range(6):
            mill.insert("t", [([i], f"only here {i}", i)])
            mill.insert("s", [(f"k{i % 4}", i)])
        mill.delete("t", [([1], "only here 1", 1)])
        mill.checkpoint()
        before = shown(mill)
    with vm.connect(tmp_path / "a.mill") as mill:
        assert shown(mill) == before
        assert mill["sums"].status()["opened"] == "snapshot"
        assert "recompute" in mill["lists"].status()["opened"]
        mill.insert("s", [("only here 1", 1), ("k1", 1)])
        assert mill["sums"].verify() == mill["lists"].verify() == []


@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize("is_refreshed", [False, True])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_deferred_view_comes_back_as_stale_as_it_was(
    tmp_path, has_checkpoint, is_refreshed, goes_on
):
    mill = vm.connect(tmp_path / "a.mill")
    mill.sql("CREATE TABLE t (k INT, x BIGINT)")
    mill.sql("CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS "
             "SELECT k, SUM(x) AS s FROM t GROUP BY k")  # fmt: skip
    mill.insert("t", [(1, 5), (2, 7)])
    mill["v"].refresh()
    mill.insert("t", [(1, 1)])
    if has_checkpoint:
        mill.checkpoint()
    mill.insert("t", [(3, 9)])
    if is_refreshed:
        mill["v"].refresh()
    if goes_on:
        mill.delete("t", [(2, 7)])
    before, status = shown(mill), mill["v"].status()
    shutil.copytree(tmp_path / "a.mill", tmp_path / "b.mill")  # what a kill leaves
    mill.close()
    for _ in range(2):
        with vm.connect(tmp_path / "b.mill") as again:
            assert shown(again) == before
            for name in ("freshness", "version", "waiting_rows"):
                assert again["v"].status()[name] == status[name], name
            assert again["v"].verify() == []
            assert (again["v"].status()["opened"] == "snapshot") == has_checkpoint
    with vm.connect(tmp_path / "b.mill") as again:
        again["v"].refresh()
        assert again["v"].verify() == []
        assert again["v"].status()["freshness"] == "fresh"
        expected = {(1, 6), (2, 7), (3, 9)} - ({(2, 7)} if goes_on else set())
        assert set(again["v"].rows()) == expected


def test_a_kill_at_any_step_of_a_checkpoint_loses_nothing(tmp_path, monkeypatch):
    copies: list[str] = []

    def kill(point: str) -> None:
        shutil.copytree(folder, tmp_path / f"{len(copies)}.mill")
        copies.append(point)

    folder, before = written(tmp_path)
    with vm.connect(folder) as mill:
        monkeypatch.setattr(crash_points, "visit", kill)
        mill.checkpoint()
        monkeypatch.undo()
    assert {"words written", "file in place", "transaction committed"} <= set(copies)
    for i, point in enumerate(copies):
        with vm.connect(tmp_path / f"{i}.mill") as mill:
            assert shown(mill) == before, point
            assert {mill[name].status()["opened"] for name in before} == {"snapshot"}, point
            mill.insert("t", [("a", 1, 2, 0.5, None)])
            assert [mill[name].verify() for name in before] == [[], []], point


@pytest.mark.parametrize("content", [b"", b"[]", b'{"v@2": "x"}', b"\xff", b'{"v@2": 9999}'])
def test_a_damaged_note_of_refreshes_opens_all_the_same(tmp_path, content):
    with vm.connect(tmp_path / "a.mill") as mill:
        mill.sql("CREATE TABLE t (k INT)")
        mill.sql("CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS SELECT COUNT(*) AS n FROM t")
        mill.insert("t", [(1,), (2,)])
        mill["v"].refresh()
        assert json.loads((tmp_path / "a.mill" / "refreshed.json").read_bytes()) == {"v@2": 3}
    (tmp_path / "a.mill" / "refreshed.json").write_bytes(content)
    with vm.connect(tmp_path / "a.mill") as mill:
        mill["v"].refresh()
        assert mill["v"].rows() == [(2,)]
        assert mill["v"].verify() == []


def test_closing_writes_a_checkpoint_when_the_log_is_long(tmp_path, monkeypatch):
    folder, _ = written(tmp_path)
    monkeypatch.setattr("viewmill.mill.recovery._CLOSING_VERSIONS", 3)
    with vm.connect(folder) as mill:
        mill.insert("t", [("a", 1, 2, 0.5, None)])
        assert mill.core.store.log_size()[0] == 1
    with vm.connect(folder) as mill:
        assert mill.core.store.log_size()[0] == 1  # short: it stays
        for i in range(5):
            mill.insert("t", [("a", 1, i, 0.5, None)])
    with vm.connect(folder) as mill:
        assert mill.core.store.log_size()[0] == 0
        assert mill["grouped"].status()["opened"] == "snapshot"
        assert mill["grouped"].verify() == []


def test_rows_of_a_large_table_stay_as_they_are_until_they_are_read(tmp_path):
    rows = [(f"k{i % 7}" if i % 11 else None, i % 5, i, float(i), i) for i in range(12_000)]
    with vm.connect(tmp_path / "a.mill") as mill:
        mill.sql(TABLES)
        mill.sql(f"CREATE MATERIALIZED VIEW grouped AS {VIEWS['grouped']}")
        mill.insert("t", rows)
        mill.checkpoint()
    with vm.connect(tmp_path / "a.mill") as mill:
        assert mill["grouped"].status()["opened"] == "snapshot"
        assert mill.core.catalog.table("t").table.contents().lazy is not None
        mill.delete("t", rows[:3000])
        mill.sql(f"CREATE MATERIALIZED VIEW again AS {VIEWS['grouped']}")
        assert sorted(map(repr, mill["again"].rows())) == sorted(map(repr, mill["grouped"].rows()))
        assert mill["grouped"].verify() == []
        assert mill.sql("SELECT COUNT(*) FROM t").rows() == [(9000,)]


def test_views_beside_lists_open_at_once_every_time(tmp_path: Path) -> None:
    """From the second time on the ids of lists were saved as texts, which were all the same."""
    path = tmp_path / "m.mill"
    for time in range(3):
        with vm.connect(path) as mill:
            if time == 0:
                mill.sql("CREATE TABLE n (k BIGINT, xs ARRAY<BIGINT>)")
                mill.sql("CREATE TABLE s (k STRING, x BIGINT)")
                mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS c FROM s GROUP BY k")
            else:
                assert mill["v"].status()["opened"] == "snapshot"
            mill.insert("n", [(k, [k, time]) for k in range(3)])
            mill.insert("s", [(f"{time}", time)])
            mill.checkpoint()
            assert sorted(mill["v"].rows()) == [(f"{each}", each) for each in range(time + 1)]

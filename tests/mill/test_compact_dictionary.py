"""Strings and wide numbers that no row holds any more are given back; nobody notices."""

import collections
import datetime
import decimal
import itertools
import random
import resource
import sys
import threading
import time
from typing import Any

import pytest

import viewmill as vm
from viewmill.mill import compact_dictionary

MOMENT = datetime.datetime(2026, 1, 1)
FEW = 300  # strings at which it is asked how many are dead
VIEWS = (
    "CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n, MAX(d) AS most FROM t GROUP BY s",
    "CREATE MATERIALIZED VIEW w AS SELECT upper(s) AS u, n FROM v WHERE n > 0",
    "CREATE MATERIALIZED VIEW j AS SELECT a.s, b.id FROM t a JOIN t b ON a.s = b.s",
)


def make_mill(path=None, option: str = "", views=VIEWS) -> vm.Mill:
    mill = vm.connect() if path is None else vm.connect(path)
    mill.sql(f"CREATE TABLE t (id BIGINT, s STRING, d DECIMAL(38,2){option}")
    for each in views:
        mill.sql(each)
    mill.core.compact_at = mill.core.compact_at_least = FEW
    return mill


def row(i: int) -> tuple[int, str | None, decimal.Decimal | None]:
    if i % 7 == 0:
        return i, None, None
    return i, f"text {i}", decimal.Decimal(10**30 + i)


def come_and_go(mill: vm.Mill, count: int, first: int = 0) -> list[int]:
    """Insert rows with strings of their own, delete all but the last ones; how much was held."""
    live: collections.deque[int] = collections.deque()
    held = []
    for i in range(first, first + count):
        mill.insert("t", [row(i)])
        live.append(i)
        if len(live) > 10:
            mill.delete("t", [row(live.popleft())])
        held.append(mill.core.dictionary.held)
    return held


def assert_right(mill: vm.Mill, last: int) -> None:
    expected = sorted((row(i) for i in range(last - 10, last)), key=repr)
    assert sorted(mill.sql("SELECT * FROM t").rows(), key=repr) == expected
    assert {each[0] for each in mill["v"].rows()} == {each[1] for each in expected}
    assert all(mill[name].verify() == [] for name in mill.views())


@pytest.mark.parametrize("option", [")", ", PRIMARY KEY (id))", ") UNCHECKED"])
@pytest.mark.parametrize("is_durable", [False, True])
def test_what_no_row_holds_is_given_back(tmp_path, uncompiled, option, is_durable):
    path = tmp_path / "m.mill" if is_durable else None
    with make_mill(path, option) as mill:
        held = come_and_go(mill, 400)
        assert max(held) < 2 * FEW
        assert sum(after < before for before, after in itertools.pairwise(held)) >= 2
        assert_right(mill, 400)
        assert mill.core.trouble is None
    if path is not None:
        with vm.connect(path) as mill:
            assert_right(mill, 400)


def test_compiled_states_go_on_with_the_new_ids():
    with make_mill(option=") UNCHECKED", views=VIEWS[:1]) as mill:
        held = come_and_go(mill, 400)
        assert max(held) < 2 * FEW
        assert_right(mill, 400)


def test_subscribers_keep_what_they_heard(uncompiled):
    with make_mill(option=")") as mill:
        heard: list[vm.Change] = []
        mill["v"].subscribe(heard.append)
        stream = mill["v"].changes(timeout=0)
        come_and_go(mill, 400)
        came = {r[0] for change in heard for r in change.inserted}
        assert came == {row(i)[1] for i in range(400)}
        assert {r[0] for change in stream for r in change.inserted} == came


def test_rows_that_are_not_committed_yet_keep_the_dictionary(uncompiled):
    with make_mill(option=")") as mill:
        before = mill.core.dictionary
        with mill.core.lock:
            come_and_go(mill, 200)
            assert mill.core.dictionary is before
        come_and_go(mill, 20, first=200)
        assert mill.core.dictionary is not before


def test_changes_in_sql_give_strings_back_too(uncompiled):
    with make_mill(option=")") as mill:
        before = mill.core.dictionary
        for first in range(0, 600, 60):
            texts = ", ".join(f"('text {i}')" for i in range(first, first + 60))
            mill.sql("DELETE FROM t")
            mill.sql(f"INSERT INTO t (s) VALUES {texts}")
        assert mill.core.dictionary is not before
        assert mill["v"].verify() == []


def test_the_rows_of_an_open_batch_mean_what_they_meant(uncompiled):
    with make_mill(option=")") as mill:
        come_and_go(mill, 60)
        before = mill.core.dictionary
        with mill.batch():
            come_and_go(mill, 200, first=1000)
            assert mill.core.dictionary is before
        assert mill.core.dictionary is not before
        assert {each[0] for each in mill["v"].rows()} >= {row(i)[1] for i in range(1190, 1200)}
        assert mill["v"].verify() == []


def test_a_batch_that_is_about_to_commit_keeps_its_strings(uncompiled, monkeypatch):
    """Another thread gave strings back between the end of a batch and its commit."""
    with make_mill(option=")") as mill:
        commit = mill._commit_together

        def commit_late(batch: Any) -> None:
            other = threading.Thread(target=come_and_go, args=(mill, 400, 10_000))
            other.start()
            other.join()
            commit(batch)

        monkeypatch.setattr(mill, "_commit_together", commit_late)
        with mill.batch():
            mill.insert("t", [row(1), row(2)])
        assert {"text 1", "text 2"} <= {each[0] for each in mill["v"].rows()}
        assert all(mill[name].verify() == [] for name in mill.views())


def test_what_waits_for_a_view_goes_on_waiting(uncompiled):
    views = (
        "CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS SELECT s, COUNT(*) AS n FROM t GROUP BY s",
        "CREATE MATERIALIZED VIEW w REFRESH ON DEMAND REFRESH POLICY FULL AS SELECT s FROM t",
    )
    with make_mill(option=")", views=views) as mill:
        mill.insert("t", [row(i) for i in range(3)])
        mill["v"].refresh()
        mill["w"].refresh()
        shown, before = mill["v"].rows(), mill.core.dictionary
        held = come_and_go(mill, 400, first=10)
        assert mill.core.dictionary is not before
        assert max(held) < 2 * FEW
        assert sorted(mill["v"].rows(), key=repr) == sorted(shown, key=repr)
        assert sorted(mill["w"].rows(), key=repr) == sorted((r[:1] for r in shown), key=repr)
        assert all(mill[name].verify() == [] for name in mill.views())
        for name in mill.views():
            mill[name].refresh()
            assert {r[0] for r in mill[name].rows()} >= {row(i)[1] for i in range(400, 410)}
            assert mill[name].verify() == []


TIMED = (
    "CREATE TABLE e (ts TIMESTAMP, g STRING, s STRING, x BIGINT, d DECIMAL(38,2), "
    "f DOUBLE) TIMESTAMP BY ts PARTITION LENGTH 10 LATENESS INTERVAL 10 SECONDS "
    "RETENTION INTERVAL 40 SECONDS",
    "CREATE TABLE f (ts TIMESTAMP, s STRING, d DECIMAL(38,2), x DOUBLE) TIMESTAMP BY ts",
)
TIMED_VIEWS = (
    "CREATE MATERIALIZED VIEW rows_kept AS SELECT s, d FROM e WHERE x > 0",
    "CREATE MATERIALIZED VIEW windows AS SELECT s, COUNT(*) AS n, STDDEV(x) AS x "
    "FROM f [WINDOW 10 SECONDS SLIDE 5 SECONDS] GROUP BY s",
    "CREATE MATERIALIZED VIEW above AS SELECT MAX(x) AS x, COUNT(*) AS n FROM windows",
    "CREATE MATERIALIZED VIEW later REFRESH EVERY 30 ROWS AS SELECT s, MAX(d) AS d "
    "FROM f [WINDOW 10 SECONDS SLIDE 5 SECONDS] GROUP BY s",
    "CREATE MATERIALIZED VIEW every_window AS SELECT s, window.start, COUNT(*) AS n, AVG(x) AS x "
    "FROM f GROUP BY s, window(ts, '10 seconds')",
    "CREATE MATERIALIZED VIEW answers STRATEGY temporal_view AS SELECT g, SUM(x) AS x, "
    "SUM(f) AS f FROM e [WINDOW 20 SECONDS SLIDE 10 SECONDS] GROUP BY g",
    "CREATE MATERIALIZED VIEW runs AS SELECT g, COUNT(*) AS n, FIRST(s) AS s, LAST(d) AS d "
    "FROM e PATTERN [a, b+] WHERE a.x > 0 AND b.x > PREV(b.x) GROUP BY g",
    "CREATE MATERIALIZED VIEW matches AS SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY g "
    "ORDER BY ts MEASURES COUNT(*) AS n, FIRST(a.s) AS s, LAST(b.d) AS d ONE ROW PER MATCH "
    "AFTER MATCH SKIP PAST LAST ROW PATTERN (a b+ c) "
    "DEFINE b AS b.x > PREV(b.x), c AS c.s > b.s)",
    "CREATE VIEW parts AS INITIALIZE parts[i] AS SELECT g, MAX(s) AS s, MAX(d) AS d FROM e[i] "
    "GROUP BY g UPDATE parts[j] AS SELECT n.g, MAX(n.s) AS s, MAX(n.d) + 1 AS d FROM e[j] AS n "
    "GROUP BY n.g PARTITION LENGTH 10",
    "CREATE VIEW of_parts AS INITIALIZE of_parts[i] AS SELECT s, d FROM parts[i] UPDATE "
    "of_parts[j] AS SELECT s, d FROM parts[j-1..j] PARTITION LENGTH 10",
)
IN_PARTS = ("e", "answers", "runs", "parts", "of_parts")


def timed_mill(path=None, **options) -> vm.Mill:
    mill = vm.connect(path, **options) if path is not None else vm.connect(**options)
    for each in (*TIMED, *TIMED_VIEWS):
        mill.sql(each)
    mill.core.compact_at = mill.core.compact_at_least = 10**9
    return mill


def time_goes_on(chance: random.Random, mills: list[vm.Mill], step: int, live: list[object]):
    """The same rows into all mills, some of them late, and some of them out; a tick at times."""
    rows, others = [], []
    for _ in range(chance.randrange(5)):
        moment = MOMENT + datetime.timedelta(seconds=3 * step - chance.randrange(12))
        wide = decimal.Decimal(10**33 + chance.randrange(4))
        text, x = f"{chance.random()}", chance.randrange(-2, 5)
        rows.append((moment, f"g{chance.randrange(3)}", text, x, wide, x / 7))
        others.append((moment, chance.choice("abc") + str(step // 9), wide, x / 7))
    for mill in mills:
        mill.insert("e", rows)
        mill.insert("f", others)
    live += others
    gone = [live.pop(chance.randrange(len(live))) for _ in range(min(len(live), 3))]
    for mill in mills:
        mill.delete("f", gone)
        if step % 10 == 9:
            mill.advance("e", to=MOMENT + datetime.timedelta(seconds=3 * step + 15))


def shown_by(mill: vm.Mill) -> dict[str, list[str]]:
    found = {name: sorted(map(repr, mill[name].rows())) for name in mill.views()}
    for name in IN_PARTS:
        parts = mill.parts(name)
        found[f"parts of {name}"] = [f"{p['subscript']} {p['rows']} {p['version']}" for p in parts]
    return found


@pytest.mark.parametrize(("seed", "is_durable"), [(0, False), (1, True)])
def test_closed_windows_matches_and_parts_stay_as_they_are(tmp_path, uncompiled, seed, is_durable):
    """Another mill that never gives anything back shows the same at each step."""
    chance, live = random.Random(seed), list[object]()
    path = tmp_path / "m.mill" if is_durable else None
    mill, other = timed_mill(path), timed_mill()
    heard = {name: hear(mill, name) for name in ("windows", "every_window", "answers", "matches")}
    for step in range(35):
        time_goes_on(chance, [mill, other], step, live)
        if step % 3 == 2:
            compact_dictionary.compact(mill.core)
        assert shown_by(mill) == shown_by(other)
    assert all(mill[name].verify() == [] for name in mill.views())
    for name, bag in heard.items():
        assert +bag == collections.Counter(map(repr, mill[name].rows()))
        assert -bag == collections.Counter()
    if path is not None:
        before = {name: sorted(map(repr, mill[name].rows())) for name in ("matches", "runs")}
        mill.close()
        mill = vm.connect(path)
        assert {n: sorted(map(repr, mill[n].rows())) for n in before} == before
        assert all(mill[name].verify() == [] for name in mill.views())
    mill.close()
    other.close()


def hear(mill: vm.Mill, name: str) -> collections.Counter[str]:
    bag: collections.Counter[str] = collections.Counter(map(repr, mill[name].rows()))

    def take(change: vm.Change) -> None:
        bag.update(map(repr, change.inserted))
        bag.subtract(map(repr, change.deleted))

    mill[name].subscribe(take)
    return bag


def test_what_expires_is_given_back(uncompiled):
    with timed_mill() as mill:
        mill.core.compact_at = mill.core.compact_at_least = FEW
        held = []
        for i in range(150):
            moment = MOMENT + datetime.timedelta(seconds=3 * i)
            wide = decimal.Decimal(10**33 + i)
            mill.insert("e", [(moment, f"g{j}", f"text {i} {j}", i % 3, wide, 0.5) for j in "ab"])
            held.append(mill.core.dictionary.held)
        assert max(held) < 2 * FEW
        assert all(mill[name].verify() == [] for name in mill.views())
        assert mill.core.trouble is None


def test_a_mill_with_a_budget_gives_strings_back(uncompiled):
    with vm.connect(memory="200 KB") as mill:
        mill.sql("CREATE TABLE t (id BIGINT, s STRING, d DECIMAL(38,2))")
        for each in VIEWS:
            mill.sql(each)
        mill.core.compact_at = mill.core.compact_at_least = FEW
        assert max(come_and_go(mill, 400)) < 2 * FEW
        assert_right(mill, 400)


def test_a_failure_leaves_all_as_it_was_and_is_noted(uncompiled, monkeypatch):
    def fail(*given: object) -> None:
        raise MemoryError

    with make_mill(option=")") as mill:
        before = mill.core.dictionary
        with monkeypatch.context() as patch:
            patch.setattr(compact_dictionary, "fill_blocks", fail)
            come_and_go(mill, 300)
        assert mill.core.dictionary is before
        assert "giving strings back" in (mill.core.trouble or "")
        assert_right(mill, 300)


def test_strings_that_are_alive_stay(uncompiled):
    with make_mill(option=")") as mill:
        before = mill.core.dictionary
        mill.insert("t", [row(i) for i in range(1000)])
        mill.insert("t", [row(1000)])
        assert mill.core.dictionary is before


def test_rows_that_came_and_went_are_netted(uncompiled):
    """An UNCHECKED table keeps its changes as they come, but not for ever."""
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (id BIGINT) UNCHECKED")
        for i in range(40):
            mill.insert("t", [(i * 5000 + j,) for j in range(5000)])
            mill.delete("t", [(i * 5000 + j,) for j in range(5000)])
        assert mill.core.catalog.table("t").table.nbytes < 3_000_000


@pytest.mark.slow
@pytest.mark.parametrize("is_durable", [False, True])
@pytest.mark.parametrize("compiler", ["on", "off"])
def test_a_soak_with_unique_strings_is_flat(tmp_path, monkeypatch, is_durable, compiler):
    """A minute of rows that come and go: neither strings nor memory grow."""
    monkeypatch.setenv("VIEWMILL_COMPILER", compiler)
    with make_mill(tmp_path / "m.mill" if is_durable else None, ", PRIMARY KEY (id))") as mill:
        mill.core.compact_at = mill.core.compact_at_least = 20_000
        live: collections.deque[list[object]] = collections.deque()
        count, middle, end, begun = 0, 0, time.monotonic() + 60, time.monotonic()
        while time.monotonic() < end:
            rows: list[object] = [row(i) for i in range(count, count + 500)]
            count += 500
            mill.insert("t", rows)
            live.append(rows)
            if len(live) > 4:
                mill.delete("t", live.popleft())
            assert mill.core.dictionary.held < 40_000
            if not middle and time.monotonic() > begun + 20:
                middle = resident_bytes()
        assert resident_bytes() < middle + 80_000_000
        assert all(mill[name].verify() == [] for name in mill.views())


def resident_bytes() -> int:
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

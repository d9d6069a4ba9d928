"""Strings and wide numbers that no row holds any more are given back; nobody notices."""

import collections
import decimal
import itertools
import resource
import sys
import time

import pytest

import viewmill as vm
from viewmill.mill import compact_dictionary

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


def test_what_waits_for_a_view_keeps_the_dictionary(uncompiled):
    views = ("CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS SELECT s FROM t",)
    with make_mill(option=")", views=views) as mill:
        before = mill.core.dictionary
        come_and_go(mill, 300)
        assert mill.core.dictionary is before
        mill["v"].refresh()
        mill.insert("t", [row(10_000)])
        mill["v"].refresh()
        assert (row(10_000)[1],) in mill["v"].rows()


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

"""Views of one stream share what they keep, and explain says how."""

import datetime as dt

import pytest

import viewmill as vm
from viewmill.algebra.windows import SlidingWindow
from viewmill.errors import InvalidArgument
from viewmill.program.windows import Asked
from viewmill.strategies.shared_window.joint import plan_windows

TABLE = "CREATE TABLE s (ts TIMESTAMP, k BIGINT, x BIGINT, d DOUBLE) TIMESTAMP BY ts APPEND ONLY"


@pytest.fixture
def mill(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as mill:
        mill.sql(TABLE)
        yield mill


def view(mill, name, size, slide, shown="sum(x) AS t", hint="", unit="ROWS"):
    window = f"[WINDOW {size} {unit} SLIDE {slide} {unit}]"
    mill.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT {hint}{shown} FROM s {window} AS {name}x")


def feed(mill, first, end):
    start = dt.datetime(2024, 1, 1)
    mill.insert(
        "s", [(start + dt.timedelta(seconds=i), i % 3, i, i / 2) for i in range(first, end)]
    )


def test_views_share_one_tree_and_say_so(mill):
    for i in range(1, 8):
        view(mill, f"v{i}", 10 * i, i)
    feed(mill, 0, 100)
    assert mill["v3"].status()["shares_with"] == [f"v{i}" for i in range(1, 8) if i != 3]
    text = mill["v3"].explain()
    assert "slickdeque_inv" in text
    assert "shared with v1, v2" in text
    assert [mill[f"v{i}"].verify() for i in range(1, 8)] == [[]] * 7
    alone = mill["v1"].status()["state_bytes"]
    mill.sql("DROP MATERIALIZED VIEW v7")
    assert mill["v1"].status()["state_bytes"] >= alone
    assert mill["v3"].status()["shares_with"] == ["v1", "v2", "v4", "v5", "v6"]


def test_average_is_taken_from_the_sum_and_the_count_of_others(mill):
    view(mill, "a", 10, 2, "sum(x) AS t, count(*) AS n")
    view(mill, "b", 20, 4, "avg(x) AS m, sum(x) AS t")
    feed(mill, 0, 50)
    assert mill["b"].explain()["windows"][0]["components"] == ["Count", "WholeSum"]
    assert mill["a"].verify() == mill["b"].verify() == []


def test_a_technique_can_be_asked_for(mill):
    for name in ("naive", "flatfat", "slickdeque_inv"):
        view(mill, name, 12, 5, hint=f"/*+ TECHNIQUE({name}) */ ")
    feed(mill, 0, 60)
    for name in ("naive", "flatfat", "slickdeque_inv"):
        assert mill[name].explain()["windows"][0]["technique"] == name
        assert f"{name} was asked for" in mill[name].explain()
        assert mill[name].verify() == []
    with pytest.raises(InvalidArgument, match="no technique"):
        view(mill, "w", 12, 5, hint="/*+ TECHNIQUE(quantum) */ ")
    with pytest.raises(InvalidArgument, match="needs an inverse"):
        view(mill, "w", 12, 5, "max(x) AS m", hint="/*+ TECHNIQUE(slickdeque_inv) */ ")
    with pytest.raises(vm.ViewmillError, match="expected"):
        view(mill, "w", 12, 5, hint="/*+ TECHNIQUE flatfat */ ")


def test_views_that_are_refreshed_at_times_of_their_own_share_nothing(mill):
    view(mill, "a", 10, 2)
    mill.sql(
        "CREATE MATERIALIZED VIEW b REFRESH ON DEMAND AS SELECT sum(x) AS t"
        " FROM s [WINDOW 10 ROWS SLIDE 2 ROWS]"
    )
    feed(mill, 0, 30)
    assert mill["b"].rows() == [(None,)]
    mill["b"].refresh()
    assert mill["b"].rows() == mill["a"].rows() == [(245,)]
    assert mill["a"].status()["shares_with"] == []
    mill.sql("ALTER MATERIALIZED VIEW b REFRESH IMMEDIATE")
    feed(mill, 30, 40)
    assert mill["b"].rows() == mill["a"].rows()
    assert mill["a"].status()["shares_with"] == ["b"]
    mill.sql("ALTER MATERIALIZED VIEW a REFRESH ON DEMAND")
    feed(mill, 40, 50)
    assert mill["a"].rows() != mill["b"].rows()
    mill["a"].refresh()
    assert mill["a"].rows() == mill["b"].rows()


def test_a_view_over_windows_follows_them(mill):
    view(mill, "a", 10, 2, "count(*) AS n, max(x) AS h")
    mill.sql("CREATE MATERIALIZED VIEW over_a AS SELECT h + n AS z FROM a WHERE n > 3")
    feed(mill, 0, 30)
    assert mill["over_a"].rows() == [(39,)]
    mill.sql("DROP MATERIALIZED VIEW over_a")
    feed(mill, 30, 33)
    assert mill["a"].rows() == [(10, 31)]


def test_planning_many_windows_is_quick_and_places_each_once():
    divisors = [d for d in range(1, 1001) if 1000 % d == 0]
    windows = [
        SlidingWindow("rows", 7 + (i * 7919) % 90_000, divisors[i % len(divisors)])
        for i in range(3000)
    ]
    made = plan_windows(windows, [False] * 3000, Asked(), frozenset({"inverse"}), None)
    assert sorted(i for tree in made.trees for i in tree.members) == list(range(3000))
    for tree in made.trees:
        for i in tree.members[:50]:
            size, slide = windows[i].size, windows[i].slide
            for edge in (0, -size % slide):
                assert any(slide % s == 0 and (edge - o) % s == 0 for s, o in tree.steps)


def test_a_view_that_could_not_be_stored_leaves_nothing_behind(mill, monkeypatch):
    view(mill, "a", 10, 2, "count(*) + 1 AS n")

    def full(core, objects):
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr("viewmill.mill.create.save", full)
        with pytest.raises(OSError, match="full"):
            view(mill, "b", 10, 3, "count(*) + 2 AS n")
    feed(mill, 0, 30)
    assert mill["a"].rows() == [(11,)]
    assert mill["a"].status()["shares_with"] == []

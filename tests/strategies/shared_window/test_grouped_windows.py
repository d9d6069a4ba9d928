"""GROUP BY window(...): every window is put together from panes, open ones too."""

import datetime as dt
import random
from collections import Counter

import pytest

import viewmill as vm
from viewmill.errors import InvalidArgument

EPOCH = dt.datetime(2024, 1, 1)
SHOWN = {
    "inverse": "sum(x) AS a, count(*) AS n, avg(x) AS m",
    "selective": "max(x) AS a, min(d) AS b, count(x) AS n",
    "any": "stddev_pop(d) AS a, sum(d) AS b, max(x) AS c",
}
SIZES = [("10 seconds", "5 seconds"), ("9 seconds", "2 seconds"), ("1 minute", "10 seconds")]


@pytest.fixture
def mill(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (t TIMESTAMP, k STRING, x BIGINT, d DOUBLE)")
        yield mill


def view(mill, name, shown, size, slide, *, keys="k, ", where="", having="", hint=""):
    mill.sql(
        f"CREATE MATERIALIZED VIEW {name} AS SELECT {hint} {keys}window.start, window.end, {shown}"
        f" FROM s {where} GROUP BY {keys}window(t, '{size}', '{slide}') {having}"
    )


def row(chance, now):
    x = chance.choice([None, 1, 2, 3, -4])
    at = EPOCH + dt.timedelta(seconds=now - chance.choice([0, 0, 1, 40]))
    time = None if chance.random() < 0.05 else at
    return time, chance.choice(["a", "b", None]), x, chance.choice([None, 0.5, 2.25])


@pytest.mark.parametrize("kind", SHOWN)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_window_is_right(mill, kind, seed):
    chance = random.Random(seed)
    for i, (size, slide) in enumerate(SIZES):
        view(mill, f"v{i}", SHOWN[kind], size, slide)
    view(
        mill,
        "w",
        SHOWN[kind],
        *SIZES[1],
        keys="",
        where="WHERE x > 1",
        having="HAVING n > 1" if kind != "any" else "",
    )
    bag: Counter[str] = Counter()

    def hear(change):
        for shown, m in change:
            bag[repr(shown)] += m

    mill["v1"].subscribe(hear)
    live: list[tuple[object, ...]] = []
    now = 0
    for step in range(10):
        now += chance.randint(0, 7)
        if live and chance.random() < 0.4:
            gone = chance.sample(live, min(3, len(live)))
            mill.delete("s", gone)
            for each in gone:
                live.remove(each)
        rows = [row(chance, now) for _ in range(chance.randint(1, 6))]
        mill.insert("s", rows)
        live += rows
        names = ("v0", "v1", "v2", "w")
        assert {name: mill[name].verify() for name in names} == {name: [] for name in names}, step
        assert {k: m for k, m in bag.items() if m} == Counter(map(repr, mill["v1"].rows()))
    status = mill["v1"].status()
    assert (status["strategy"], status["engine_calls"]) == ("shared_window", 0)


def test_open_windows_are_queries_of_many_ranges(mill):
    view(mill, "v", "sum(x) AS a", "1 hour", "1 minute")
    view(mill, "w", "max(x) AS a", "1 hour", "1 minute", hint="/*+ TECHNIQUE(slickdeque_noninv) */")
    mill.insert("s", [(EPOCH + dt.timedelta(minutes=i), "a", i, None) for i in range(100)])
    text = mill["v"].explain()
    assert "every window, open ones too: queries of 60 ranges" in text
    assert mill["v"].explain()["windows"][0]["technique"] == "slickdeque_inv"
    assert mill["w"].explain()["windows"][0]["technique"] == "slickdeque_noninv"
    assert len(mill["v"].rows()) == 159
    assert mill["v"].verify() == mill["w"].verify() == []
    for name in ("daba", "twostacks"):
        with pytest.raises(InvalidArgument, match=f"{name} keeps one range only"):
            view(mill, "u", "sum(x) AS a", "1 hour", "1 minute", hint=f"/*+ TECHNIQUE({name}) */")


def test_every_window_survives_failures_and_reopening(tmp_path, monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    rows = [(EPOCH + dt.timedelta(seconds=i), "ab"[i % 2], i, i / 2) for i in range(40)]
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql("CREATE TABLE s (t TIMESTAMP, k STRING, x BIGINT, d DOUBLE)")
        view(mill, "v", "sum(x) AS a", "10 seconds", "5 seconds")
        mill.insert("s", rows[:20])
        before = mill["v"].rows()
        with pytest.raises(vm.ViewmillError):
            mill.insert("s", [(EPOCH, "a", 2**63 - 1, None), (EPOCH, "a", 2**63 - 1, None)])
        assert mill["v"].rows() == before
    with vm.connect(tmp_path / "m.mill") as mill:
        assert sorted(map(repr, mill["v"].rows())) == sorted(map(repr, before))
        mill.insert("s", rows[20:])
        assert mill["v"].verify() == []


@pytest.mark.parametrize(
    "window", ["window(t, '10 seconds')", "window(t, '10 seconds', '5 seconds')"]
)
def test_a_window_shown_whole_is_kept_up(mill, window):
    mill.sql(
        f"CREATE MATERIALIZED VIEW v AS SELECT window, k, sum(x) AS n FROM s GROUP BY k, {window}"
        " HAVING n > 1 ORDER BY n DESC"
    )
    mill.sql("CREATE MATERIALIZED VIEW above AS SELECT n, window FROM v WHERE n > 3")
    rows = [(EPOCH + dt.timedelta(seconds=i), "ab"[i % 2], i % 4, None) for i in range(30)]
    mill.insert("s", rows[:20])
    calls = mill["v"].status()["engine_calls"]
    mill.insert("s", rows[20:])
    mill.delete("s", rows[3:7])
    assert mill["v"].verify() == mill["above"].verify() == []
    first = mill["v"].rows()[0][0]
    assert first["end"] - first["start"] == dt.timedelta(seconds=10)
    status = mill["v"].status()
    assert "recompute" not in status["strategy"]
    assert status["engine_calls"] == calls


def windows_of(moment, size, slide, offset):
    """The starts of the windows that hold a moment, by trying all near it."""
    near = range((moment - size) // slide - 2, (moment + size) // slide + 3)
    starts = (i * slide + offset for i in near)
    return [start for start in starts if start <= moment < start + size]


@pytest.mark.parametrize("seed", range(6))
def test_any_ratio_of_size_and_slide(mill, seed):
    chance = random.Random(seed)
    sizes = {}
    for i in range(6):
        size = chance.randint(1, 20)
        slide = chance.randint(1, size)
        offset = chance.randint(1 - slide, slide - 1)
        key = chance.choice(["", "k, "])
        window = f"window(t, '{size} seconds', '{slide} seconds', '{offset} seconds')"
        count = chance.choice(["count(*)", "sum(1)", "max(1) + count(*) - 1"])
        mill.sql(
            f"CREATE MATERIALIZED VIEW v{i} AS SELECT {window}.start AS a, window.end AS e,"
            f" {key or 'NULL AS k, '}{count} AS n FROM s GROUP BY {key}{window}"
        )
        sizes[f"v{i}"] = size, slide, offset, bool(key)
        if chance.random() < 0.5:
            mill[f"v{i}"].subscribe(lambda change: None)
    live = []
    for _ in range(8):
        coming = [(chance.randint(-60, 60), chance.choice("ab")) for _ in range(5)]
        mill.insert("s", [(at(each), k, 1, None) for each, k in coming])
        live += coming
        gone = chance.sample(live, chance.randint(0, min(3, len(live))))
        mill.delete("s", [(at(each), k, 1, None) for each, k in gone])
        for each in gone:
            live.remove(each)
        for name, (size, slide, offset, keyed) in sizes.items():
            expected = Counter(
                (start, k if keyed else None)
                for moment, k in live
                for start in windows_of(moment, size, slide, offset)
            )
            rows = [(at(a), at(a + size), k, n) for (a, k), n in expected.items()]
            assert Counter(mill[name].rows()) == Counter(rows), (name, sizes[name])


def at(seconds):
    return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)

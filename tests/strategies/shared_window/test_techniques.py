"""Each technique in SQL: chosen, asked for, refused; and right whatever rows do."""

import datetime as dt
import random

import numpy as np
import pytest

import viewmill as vm
from viewmill.algebra.types import BIGINT
from viewmill.algebra.windows import SlidingWindow
from viewmill.errors import InvalidArgument
from viewmill.kernels import window_library, window_store
from viewmill.kernels.window_payloads import Chosen, Count, WholeSum
from viewmill.kernels.window_store import MODES, Layout, PartialStore
from viewmill.program.windows import Asked, WindowAggregate
from viewmill.strategies.shared_window.joint import plan_windows
from viewmill.strategies.shared_window.techniques import FOR_ONE, TECHNIQUES

EPOCH = dt.datetime(2024, 1, 1)
INVERSE = ("slickdeque_inv", "panes_inv")
ANY = ("naive", "flatfat", "bint", "flatfit", "twostacks", "daba")


@pytest.fixture
def mill(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (t TIMESTAMP, k BIGINT, x BIGINT, d DOUBLE) TIMESTAMP BY t")
        yield mill


def at(second):
    return EPOCH + dt.timedelta(seconds=second)


def view(mill, name, shown, hint="", size=10, slide=2):
    window = f"[WINDOW {size} SECONDS SLIDE {slide} SECONDS]"
    mill.sql(
        f"CREATE MATERIALIZED VIEW {name} AS SELECT {hint} k, {shown} FROM s {window} GROUP BY k"
    )


def technique(mill, name):
    return mill[name].explain()["windows"][0]["technique"]


def said(mill, name):
    return "\n".join(mill[name].explain()["windows"][0]["offers"])


CASES = {
    **dict.fromkeys(INVERSE, "sum(x) AS a, count(*) AS n, avg(x) AS m"),
    **dict.fromkeys(ANY, "sum(d) AS a, max(x) AS b, stddev(d) AS c, last(x) AS e"),
    "slickdeque_noninv": "max(x) AS a, min(d) AS b, count(*) AS n, max_by(d, x) AS c",
}


def test_every_technique_has_a_case_and_a_kernel():
    assert set(CASES) == set(TECHNIQUES) == set(MODES)


@pytest.mark.parametrize("name", TECHNIQUES)
@pytest.mark.parametrize("seed", [1])
def test_a_technique_that_is_asked_for_is_right(mill, name, seed):
    chance = random.Random(seed)
    for i, (size, slide) in enumerate([(10, 2), (7, 3), (2, 5), (20, 2)]):
        view(mill, f"v{i}", CASES[name], f"/*+ TECHNIQUE({name}) */", size, slide)
    seen: list[object] = []
    mill["v1"].subscribe(seen.append)
    live: list[tuple[object, ...]] = []
    now = 0
    for _ in range(14):
        now += chance.randint(0, 6)
        if live and chance.random() < 0.3:
            gone = chance.sample(live, min(3, len(live)))
            mill.delete("s", gone)
            live = [each for each in live if each not in gone]
        rows = [_row(chance, now) for _ in range(chance.randint(1, 6))]
        mill.insert("s", rows)
        live += rows
        assert [mill[f"v{i}"].verify() for i in range(4)] == [[]] * 4
    assert [technique(mill, f"v{i}") for i in range(4)] == [name] * 4
    assert f"{name} was asked for" in said(mill, "v0")
    shares = {tuple(mill[f"v{i}"].status()["shares_with"]) for i in range(4)}
    assert (shares == {()}) == (name in FOR_ONE)


def _row(chance, now):
    x = chance.choice([None, 1, 2, 3, -4])
    return at(max(0, now - chance.choice([0, 0, 1, 9]))), chance.randint(0, 2), x, x and x / 4


@pytest.mark.parametrize("name", ANY + INVERSE)
def test_a_technique_slides_over_rows(mill, name):
    mill.sql("CREATE TABLE r (x BIGINT) APPEND ONLY")
    mill.sql(
        f"CREATE MATERIALIZED VIEW v AS SELECT /*+ TECHNIQUE({name}) */ sum(x) AS t, count(*) AS n"
        " FROM r [WINDOW 9 ROWS SLIDE 2 ROWS]"
    )
    deltas: list[object] = []
    mill["v"].subscribe(deltas.append)
    for i in range(0, 60, 5):
        mill.insert("r", [(j * j,) for j in range(i, i + 5)])
        end = (i + 5) // 2 * 2
        inside = [j * j for j in range(max(0, end - 9), end)]
        assert mill["v"].rows() == [(sum(inside), len(inside))]
    assert technique(mill, "v") == name


def test_what_does_not_apply_is_refused_with_the_reason(mill):
    for name in INVERSE:
        with pytest.raises(
            InvalidArgument, match="needs an inverse, which max does not have"
        ) as no:
            view(mill, "w", "sum(x) AS t, max(x) AS m", f"/*+ TECHNIQUE({name}) */")
        assert no.value.span is not None
        with pytest.raises(InvalidArgument, match="needs an inverse, which sum does not"):
            view(mill, "w", "sum(d) AS t", f"/*+ TECHNIQUE({name}) */")
    for shown, what in {"max(x) AS m, sum(x) AS t": "sum", "count(*) AS n": "count"}.items():
        with pytest.raises(InvalidArgument, match=f"selective operation, which {what} is not"):
            view(mill, "w", shown, "/*+ TECHNIQUE(slickdeque_noninv) */")
    with pytest.raises(InvalidArgument, match="no technique 'dabba'") as unknown:
        view(mill, "w", "sum(x) AS t", "/*+ TECHNIQUE(dabba) */")
    assert 'Did you mean "daba"' in str(unknown.value.hint)
    with pytest.raises(vm.ViewmillError, match="no latency 'low'"):
        view(mill, "w", "sum(x) AS t", "/*+ LATENCY(low) */")
    with pytest.raises(vm.ViewmillError, match="expected"):
        view(mill, "w", "sum(x) AS t", "/*+ LATENCY worst */")


def test_the_planner_chooses_by_cost(mill):
    view(mill, "sums", "sum(x) AS t")
    view(mill, "spread", "stddev(d) AS t", size=100, slide=1)
    view(mill, "most", "max(x) AS t", size=100, slide=1)
    mill.insert("s", [(at(i), 1, i, i / 2) for i in range(50)])
    assert technique(mill, "sums") == "slickdeque_inv"
    assert technique(mill, "spread") in ("twostacks", "bint")
    assert technique(mill, "most") in ("twostacks", "bint", "slickdeque_noninv")
    assert "slickdeque_inv and panes_inv do not apply" in said(mill, "spread")
    assert "slickdeque_noninv does not apply" in said(mill, "spread")
    assert "slickdeque_noninv by" in said(mill, "most")


def test_worst_case_latency(mill):
    view(mill, "one", "stddev(d) AS t", "/*+ LATENCY(worst) */", size=64, slide=1)
    view(mill, "short", "stddev(x) AS t", "/*+ LATENCY(worst) */", size=4, slide=1)
    view(mill, "sums", "sum(x) AS t", "/*+ LATENCY(worst) */")
    mill.insert("s", [(at(i), 1, i, i / 2) for i in range(50)])
    assert technique(mill, "one") == "daba"
    assert technique(mill, "short") == "flatfat"
    assert technique(mill, "sums") == "slickdeque_inv"
    assert "LATENCY(worst) was asked for: no slickdeque_noninv, twostacks" in said(mill, "one")
    assert "LATENCY(worst)" in mill["one"].explain()
    assert mill["one"].verify() == mill["short"].verify() == []


@pytest.mark.parametrize(("count", "best"), [(1, "daba"), (12, "daba"), (100, "flatfat")])
def test_worst_case_of_many_ranges(count, best):
    windows = [SlidingWindow("rows", 64 + i, 1) for i in range(count)]
    made = plan_windows(windows, [True] * count, Asked(worst=True), frozenset({"selective"}), 1.0)
    assert {tree.technique for tree in made.trees} == {best}
    assert sorted(i for tree in made.trees for i in tree.members) == list(range(count))


def test_an_operation_with_an_inverse_uses_it(mill):
    product = vm.Operation(
        combine=lambda a, b: a * b,
        identity=1,
        inverse=lambda total, oldest: total // oldest,
        samples=(1, 2, 3, 5, -7),
    )
    mill.register("product", product)
    view(mill, "v", "product(x) AS p", size=6, slide=2)
    view(mill, "w", "product(x) AS p", "/*+ TECHNIQUE(slickdeque_inv) */", size=8, slide=2)
    view(mill, "u", "product(x) AS p", "/*+ TECHNIQUE(slickdeque_inv) */", size=3, slide=1)
    for i in range(120):  # a product of all rows would not fit
        mill.insert("s", [(at(i), i % 2, 1 + i % 5, None)])
        assert mill["v"].verify() == mill["w"].verify() == mill["u"].verify() == []
    assert technique(mill, "w") == "slickdeque_inv"


def test_an_operation_that_chooses_uses_the_deque(mill):
    longest = vm.Operation(
        combine=lambda a, b: a if abs(a) >= abs(b) else b, identity=0, selective=True
    )
    mill.register("farthest", longest)
    view(mill, "v", "farthest(x) AS p", "/*+ TECHNIQUE(slickdeque_noninv) */", size=9, slide=2)
    chance = random.Random(3)
    for i in range(40):
        mill.insert("s", [(at(i), i % 2, chance.randint(-9, 9), None)])
        assert mill["v"].verify() == []
    with pytest.raises(InvalidArgument, match="needs an inverse, which farthest"):
        view(mill, "w", "farthest(x) AS p", "/*+ TECHNIQUE(panes_inv) */")


# The store itself.


def _layout(name):
    call = WindowAggregate("sum", (0,), BIGINT, BIGINT)
    sums = [Count(()), WholeSum(call.arguments)]
    return Layout(sums if name in INVERSE else [*sums, Chosen((0,), function="max")])


def _payload(layout, chance):
    words = np.zeros((1, layout.words), np.int64)
    x = chance.randint(0, 5)
    words[0, :4] = 1, 1, 0, x
    if layout.words > 4:
        words[0, 4:] = 1, x, chance.randint(0, 99), 0, x, 0
    return words, np.zeros((1, 0))


@pytest.mark.parametrize(
    "compiled",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["plain", "compiled"],
)
def test_stores_agree_with_the_naive_one(compiled):
    """Partials come, change and go anywhere; windows ask for ever later stretches, mostly."""
    chance = random.Random(5)
    for name in TECHNIQUES:
        layout = _layout(name)
        own = PartialStore(layout, name, compiled, ())
        naive = PartialStore(layout, "naive", False, ())
        end = 0
        for step in range(400):
            end += chance.randint(0, 2)
            pane = end - (chance.randint(1, 12) if chance.random() < 0.1 else 0)
            pair = np.array([chance.randint(0, 1)]), np.array([pane])
            what = "set" if chance.random() < 0.1 else "merge"
            payload = _payload(layout, chance)
            if what == "set" and chance.random() < 0.5:
                payload = np.zeros_like(payload[0]), payload[1]
            for store in (own, naive):
                getattr(store, what)(*pair, payload)
            if step % 7 == 3:
                own.rollback()
                naive.rollback()
            else:
                own.commit()
                naive.commit()
            if step % 5 == 0:
                for store in (own, naive):
                    store.forget(np.array([0, 1]), end - 20)
            asked = end if chance.random() < 0.9 else end - 3
            at_ends = np.array([0, 1]), np.array([asked - 11] * 2), np.array([asked] * 2)
            found, right = own.answer(*at_ends, (11, 1)), naive.answer(*at_ends)
            chosen = slice(5, None) if layout.words > 4 else slice(0, 0)
            assert found[0][:, :4].tolist() == right[0][:, :4].tolist(), (name, step)
            assert found[0][:, chosen].tolist() == right[0][:, chosen].tolist(), (name, step)


# Operations per slide over 64 partials: on average, and where the paper bounds it at worst.
BOUNDS = {
    "naive": (64, 64),
    "panes_inv": (2, 2),
    "flatfit": (3.1, None),  # the last turn may lie within what is counted
    "twostacks": (3.1, None),
    "daba": (5, 8),
    "slickdeque_inv": (2, 2),
    "slickdeque_noninv": (3, None),  # one of them for the count of rows, which does not choose
    "flatfat": (20, None),  # 6 up the tree, as many down, and a new tree when a block is full
    "bint": (14, None),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_operations_per_slide(name, monkeypatch):
    """Counted in the very source that is compiled, by one call for each operation."""
    counted = _count_operations(monkeypatch)
    layout, size = Layout([Count(()), Chosen((0,), function="max")]), 64
    if name in INVERSE:
        layout = Layout([Count(())])
    store, chance, found = PartialStore(layout, name, False, ()), random.Random(3), []
    for i in range(600):
        before = counted[0]
        words = np.zeros((1, layout.words), np.int64)
        words[0, :4] = (1, 1, chance.randint(0, 2**40), i)[: layout.words]
        store.merge(np.array([0]), np.array([i]), (words, np.zeros((1, 0))))
        store.commit()
        store.answer(np.array([0]), np.array([i + 1 - size]), np.array([i + 1]), (size, 1))
        if i % 16 == 0:
            store.forget(np.array([0]), i + 1 - size)
        found.append(counted[0] - before)
    mean, worst = BOUNDS[name]
    assert np.mean(found[2 * size :]) <= mean
    assert worst is None or max(found[2 * size :]) <= worst


def _count_operations(monkeypatch):
    counted, original = [0], window_library._functions.__wrapped__

    def functions(file, compiled, operations):
        made = original(file, compiled, operations)
        names = next(iter(made.values())).__globals__
        for each in ("combine", "subtract", "beats"):
            names[each] = _counting(names[each], counted)
        return made

    monkeypatch.setattr(window_library, "_functions", functions)
    monkeypatch.setattr(window_store, "window_kernel", window_library.window_kernel.__wrapped__)
    return counted


def _counting(function, counted):
    def call(*arguments):
        counted[0] += 1
        return function(*arguments)

    return call

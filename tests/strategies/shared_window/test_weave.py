"""Edges, costs and plans of shared windows against counting and against every other plan."""

import random
from fractions import Fraction
from itertools import combinations
from math import gcd

import numpy as np
import pytest

from viewmill.bench.baselines.weave import composite_slide, count_edges, tri_weave, weave_share
from viewmill.bench.baselines.weave_costs import CORRECTED, PRINTED
from viewmill.errors import InvalidArgument
from viewmill.strategies.shared_window.cost import Windows, harmonic, lookup
from viewmill.strategies.shared_window.edges import edge_rate, without_contained
from viewmill.strategies.shared_window.queries import PARTIALS, Progression, WindowQuery


def partial_count(technique: str, query: WindowQuery) -> int:
    """Partials in one window, Table 1 of the paper: counted, not computed."""
    progressions = PARTIALS[technique](query)
    end = query.slide * (2 + query.range // query.slide)
    start = end - query.range
    inner = {
        at
        for each in progressions
        for at in range(start + (each.offset - start) % each.step, end, each.step)
        if at > start
    }
    return len(inner) + 1


@pytest.mark.parametrize("seed", range(40))
def test_f1_equals_bit_set(seed):
    chance = random.Random(seed)
    steps = [chance.choice([2, 3, 4, 6, 8, 9, 10, 12, 15]) for _ in range(chance.randint(1, 7))]
    progressions = [Progression(step, chance.randrange(step)) for step in steps]
    length = composite_slide(progressions)
    assert edge_rate(progressions) == Fraction(count_edges(progressions), length)


def test_the_papers_example_2_has_two_edges_in_a_slide_of_four():
    progressions = [Progression(2), Progression(4)]
    assert composite_slide(progressions) == 4
    assert count_edges(progressions) == 2
    assert edge_rate(progressions) == Fraction(2, 4)
    assert without_contained(progressions) == [Progression(2)]


@pytest.mark.parametrize(("rows", "slide"), [(r, s) for r in range(1, 25) for s in range(1, 12)])
def test_table_1_partials_per_window(rows, slide):
    query = WindowQuery(rows, slide)
    if rows % slide == 0:
        expected = dict.fromkeys(PARTIALS, rows // slide)
    else:
        expected = {
            "panes": rows // gcd(rows, slide),
            "pairs": 2 * (rows // slide) + 1,
            "cutty": -(-rows // slide),
        }
    assert {name: partial_count(name, query) for name in PARTIALS} == expected


@pytest.mark.parametrize(("rows", "slide"), [(0, 1), (-3, 1), (3, 0), (3, -1)])
def test_a_range_or_slide_that_is_not_positive_is_refused(rows, slide):
    with pytest.raises(InvalidArgument, match="positive"):
        WindowQuery(rows, slide)


def test_a_slide_longer_than_the_range_is_legal():
    assert partial_count("pairs", WindowQuery(3, 10)) == 1


def test_lookup_is_the_average_number_of_operations_over_all_positions():
    leaves = 16

    def nodes(start, end):
        count, low, high = 0, start + leaves, end + leaves
        while low < high:
            count += (low & 1) + (high & 1)
            low, high = (low + 1) >> 1, high >> 1
        return count

    for p in range(1, leaves):
        counts = []
        for end in range(1, leaves + 1):
            start = end - p
            pieces = nodes(start, end) if start >= 0 else nodes(0, end) + nodes(16 + start, 16)
            counts.append(pieces - 1)
        assert float(lookup(np.array([p]))[0]) == pytest.approx(np.mean(counts))


def test_the_deque_is_as_long_as_the_harmonic_number():
    chance, size, lengths = np.random.default_rng(1), 64, []
    for _ in range(3000):
        x = chance.random(size)[::-1]
        lengths.append(int((np.maximum.accumulate(x) == x).sum()))
    assert np.mean(lengths) == pytest.approx(harmonic(size), rel=0.05)
    assert harmonic(200) == pytest.approx(sum(1 / i for i in range(1, 201)), rel=1e-4)


def partitions(items):
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for together in combinations(rest, size):
            left = [each for each in rest if each not in together]
            for others in partitions(left):
                yield [[first, *together], *others]


def cost_of(plan, rows, omega, shared=None):
    total = rows if shared is not None else 0.0
    for queries in plan:
        progressions = {p for each in queries for p in PARTIALS["pairs"](each)}
        rate = edge_rate(progressions)
        windows = Windows.of(
            np.array([each.range for each in queries]), np.array([each.slide for each in queries])
        )
        total += (rows if shared is None else shared) + float(rate) * omega(windows, rate)
    return total


@pytest.mark.parametrize("technique", CORRECTED)
@pytest.mark.parametrize("seed", range(6))
def test_a_weave_is_near_the_best_of_all_plans_and_costs_what_it_says(technique, seed):
    chance = random.Random(seed)
    queries = {
        WindowQuery(chance.randint(1, 60), chance.choice([1, 2, 3, 4, 6, 10])) for _ in range(6)
    }
    omega, rows = CORRECTED[technique], chance.choice([0.2, 1.0, 5.0])
    best = min(cost_of(plan, rows, omega) for plan in partitions(sorted(queries)))
    found = weave_share(queries, omega=omega, rows=rows)
    plan = [
        [
            WindowQuery(int(r), int(s))
            for r, s in zip(t.windows.ranges, t.windows.slides, strict=True)
        ]
        for t in found.trees
    ]
    assert found.cost == pytest.approx(cost_of(plan, rows, omega))
    assert {each for tree in plan for each in tree} == queries
    assert best * (1 - 1e-9) <= found.cost <= 1.3 * best  # the paper's bound is four

    everything = {p for each in queries for p in PARTIALS["pairs"](each)}
    shared = float(edge_rate(everything))
    three = tri_weave(queries, omega=omega, rows=rows)
    best = min(cost_of(plan, rows, omega, shared) for plan in partitions(sorted(queries)))
    assert best * (1 - 1e-9) <= three.cost <= 1.3 * best


def drawn(seed, *, queries=100, overlap=1_000_000):
    chance = np.random.default_rng(seed)
    factors = np.array([d for d in range(1, 1001) if 1000 % d == 0])
    slides = chance.choice(factors, queries)
    return Windows.of(slides * chance.integers(1, overlap, queries, endpoint=True), slides)


def test_experiment_3_as_the_errata_checked_it():
    windows = drawn(1)
    plans = {name: weave_share(windows, omega=omega) for name, omega in PRINTED.items()}
    assert [len(each.trees) for each in plans.values()] == [16, 13, 9, 9, 6]
    panes = plans["naive"].cost
    assert panes / plans["slickdeque_inv"].cost > 150_000
    assert panes / plans["slickdeque_noninv"].cost > 200_000


def test_windows_of_equal_slide_and_offset_are_one_tree_from_the_start():
    plan = weave_share(drawn(1, queries=50_000, overlap=1000), omega=CORRECTED["naive"], rows=0.0)
    assert len(plan.trees) <= 16
    assert sum(len(tree.windows) for tree in plan.trees) == len(
        drawn(1, queries=50_000, overlap=1000)
    )

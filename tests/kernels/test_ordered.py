"""Ordered states: the compiled ones against the plain ones, which walk sorted lists."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from viewmill.algebra.schema import Field
from viewmill.algebra.types import BIGINT
from viewmill.kernels import compiler
from viewmill.kernels.ordered_stores import OrderedStore
from viewmill.kernels.plain import ordered as plain
from viewmill.kernels.plain.ordered_stores import OrderedStore as PlainStore
from viewmill.kernels.source import STRUCTURES, load_source
from viewmill.program.states import Ordered, Slot

pytestmark = pytest.mark.xdist_group("ordered")  # one worker compiles, none waits

# Words: rows inside, their sum, rows outside, their sum.
SLOTS = tuple(Slot(name, "int") for name in ("count", "volume", "rows", "money"))
KIND = Ordered(Field("level", BIGINT, nullable=True), SLOTS, results=2, watched=1, counted=0)
SOURCE = """
def add(s, is_null, k, a, b, c, d):
    if is_null != 0:
        ordered_add_null(s, (a, b, c, d))
    else:
        ordered_add(s, (k,), (a, b, c, d))
    return 0


def pick(s, side, c, low, high, bounded, outside, empty):
    ordered_pick(s, side, 1, c, low, high, bounded != 0, outside != 0, empty != 0)
    return ordered_picked(s, 2) * 1000003 + ordered_picked(s, 3)


def pick_keys(s, low, high, bounded, outside):
    ordered_pick_keys(s, low, high, bounded != 0, outside != 0)
    return ordered_picked(s, 2) * 1000003 + ordered_picked(s, 3)
"""


@cache
def kernel(name: str, arguments: int) -> Any:
    functions = load_source("test_ordered", SOURCE, STRUCTURES)
    return compiler.compile_kernel(functions[name], (compiler.WORD,) * arguments)


class Pair:
    """The same state twice."""

    def __init__(self) -> None:
        self.compiled, self.plain = OrderedStore(KIND), PlainStore(KIND)

    def add(self, key: int | None, words: tuple[int, int, int, int]) -> None:
        kernel("add", 7)(self.compiled.handle, key is None, key or 0, *words)
        if key is None:
            plain.ordered_add_null(self.plain.handle, words)
        else:
            plain.ordered_add(self.plain.handle, (key,), words)

    def picked(self) -> int:
        _, _, rows, money = self.plain.handle.picked
        return rows * 1000003 + money

    def check_pick(self, *arguments: Any) -> None:
        side, c, *rest = arguments
        found = kernel("pick", 8)(self.compiled.handle, *arguments)
        plain.ordered_pick(self.plain.handle, side, 1, c, *rest)
        assert found == self.picked(), arguments

    def check_pick_keys(self, *arguments: Any) -> None:
        found = kernel("pick_keys", 5)(self.compiled.handle, *arguments)
        plain.ordered_pick_keys(self.plain.handle, *arguments)
        assert found == self.picked(), arguments

    def check_contents(self) -> None:
        keys, payload = self.compiled.export_payload()
        plain_keys, plain_payload = self.plain.export_payload()
        assert keys.tolist() == plain_keys.tolist()
        for ours, theirs in zip(payload, plain_payload, strict=True):
            assert ours.tolist() == theirs.tolist()
        again = OrderedStore(KIND)
        again.load_payload(keys, payload)
        assert again.export_payload()[0].tolist() == keys.tolist()


def random_words(draw: random.Random, lowest: int) -> tuple[int, int, int, int]:
    inside, outside = draw.choice([(1, 1), (1, 0), (0, 1)])
    return inside, inside * draw.randint(lowest, 5), outside, outside * draw.randint(-9, 9)


def random_bounds(draw: random.Random, total: int) -> tuple[int, int, bool, bool]:
    low = draw.choice([-(2**63), 0, 1, draw.randint(-5, max(total, 0) + 3)])
    high = draw.randint(-5, 10) if low < -9 else low + draw.randint(0, 8)
    return low, high, draw.random() < 0.5, draw.random() < 0.5


def test_rows_that_are_deleted_before_they_come():
    """A count is negative for a while: what is picked in between and after is the same."""
    for seed in range(30):
        draw, pair = random.Random(seed), Pair()
        held = [(draw.randint(-5, 5), random_words(draw, 0)) for _ in range(8)]
        changes = [(key, words, sign) for key, words in held for sign in (-1, 1, 1)]
        draw.shuffle(changes)
        for key, words, sign in changes:
            pair.add(key, tuple(sign * x for x in words))  # type: ignore[arg-type]
            bounds = random_bounds(draw, sum(words[1] for _, words in held))
            pair.check_pick(draw.randrange(4), draw.choice([0, -1]), *bounds, draw.random() < 0.5)


@pytest.mark.parametrize("lowest", [0, -3], ids=["no negative level", "negative levels"])
@pytest.mark.parametrize(("keys", "live", "steps"), [(5, 8, 150), (4000, 3000, 6000)])
def test_compiled_equals_plain(keys, live, steps, lowest):
    for seed in range(40 if keys == 5 else 1):
        draw, pair = random.Random(seed), Pair()
        held: list[tuple[int | None, tuple[int, int, int, int]]] = []
        for step in range(steps):
            if held and (draw.random() < 0.45 or len(held) > live):
                key, words = held.pop(draw.randrange(len(held)))
                pair.add(key, tuple(-x for x in words))  # type: ignore[arg-type]
            else:
                key = draw.choice([None, *[draw.randint(-keys, keys)] * 9])
                held.append((key, random_words(draw, lowest)))
                pair.add(*held[-1])
            if keys == 5 or step % 200 == 0:
                total = sum(words[1] for _, words in held)
                bounds = random_bounds(draw, total)
                empty = draw.random() < 0.5
                pair.check_pick(draw.randrange(4), draw.choice([0, -1]), *bounds, empty)
                pair.check_pick_keys(*random_bounds(draw, keys))
            if draw.random() < 0.01:
                for store in (pair.compiled, pair.plain):
                    store.commit()
        pair.check_contents()
        for store in (pair.compiled, pair.plain):
            store.rollback()
        pair.check_contents()


def test_everything_can_go_and_come_again():
    store, count = OrderedStore(KIND), 40_000  # several groups of leaves
    keys = np.arange(count) * 7919 % 40_009
    for _ in range(2):
        for sign in (1, -1):
            for key in keys.tolist():
                kernel("add", 7)(store.handle, 0, key, sign, sign, sign, sign * key)
            if sign == 1:
                exported, _ = store.export_payload()
                store.commit()
                shown, _ = store.export_payload()
                assert shown[:, 0].tolist() == sorted(keys.tolist())
                assert len(exported) == 0 or len(exported) == count
        assert kernel("pick_keys", 5)(store.handle, -5, 0, False, False) == 0
        store.commit()
        assert len(store.export_payload()[0]) == 0


def expected(levels: dict[int, list[int]], side: int, c: int, bounds: tuple[Any, ...]) -> int:
    """What a loop picks: sums over the levels <=, <, >=, > each, none of them negative in count."""
    low, high, bounded, outside, empty = bounds
    rows = money = below = counted = 0
    whole = sum(words[1] for words in levels.values())
    all_rows = sum(words[0] for words in levels.values())
    for _, words in sorted(levels.items()):
        upto, count = below + words[1], counted + words[0]
        a = (upto, below, whole - below, whole - upto)[side]
        has = c < 0 or (count, counted, all_rows - counted, all_rows - count)[side] != 0
        if ((low <= a and (not bounded or a < high)) != outside) if has else empty:
            rows, money = rows + words[2], money + words[3]
        below, counted = upto, count
    return rows * 1000003 + money


def test_negative_levels_in_several_groups_of_leaves():
    """Sums that rise and fall across the bounds, in more leaves than one group holds."""
    draw, store = random.Random(5), OrderedStore(KIND)
    held = [(key, random_words(draw, -5)) for key in draw.sample(range(40_000), 9_000)]
    levels = {key: list(words) for key, words in held if any(words)}
    for key, words in held:
        kernel("add", 7)(store.handle, 0, key, *words)
    for _ in range(60):
        key, words = held.pop(draw.randrange(len(held)))
        levels.pop(key, None)
        kernel("add", 7)(store.handle, 0, key, *(-x for x in words))
        low = draw.randint(-200, 200)
        bounds = (low, low + draw.randint(0, 60), *(draw.random() < 0.5 for _ in range(3)))
        side, c = draw.randrange(4), draw.choice([0, -1])
        found = kernel("pick", 8)(store.handle, side, c, *bounds)
        assert found == expected(levels, side, c, bounds)

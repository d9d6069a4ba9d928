"""The paper's own triggers for VWAP, compiled by our compiler: what the plans are measured against.

figure 2b   DBToaster: for every price, the volume up to it is summed again, O(n^2) per row
figure 6    the general algorithm: a sum for every price, moved by every row, O(n) per row
            (corrected: the total is added to, and a price without rows is removed)

A level is a price; its sums are in arrays, found by walking them, which is less than what follows.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int64]

_LEVEL = """
def level_of(prices, levels, price):
    for k in range(levels):
        if prices[k] == price:
            return k
    return levels


def forget(prices, rows, volumes, money, upto, levels, k):
    last = levels - 1
    prices[k], rows[k], volumes[k] = prices[last], rows[last], volumes[last]
    money[k], upto[k] = money[last], upto[last]
    return last
"""

FIGURE_2B = (
    _LEVEL
    + """

def replay(
    start, size, multiplicity, volume, price, prices, rows, volumes, money, upto, kept, answers
):
    for i in range(start, size):
        m, levels = multiplicity[i], kept[0]
        k = level_of(prices, levels, price[i])
        if k == levels:
            prices[k], rows[k], volumes[k], money[k] = price[i], 0, 0, 0
            levels += 1
        rows[k] += m
        volumes[k] += m * volume[i]
        money[k] += m * volume[i] * price[i]
        kept[1] += m * volume[i]
        if rows[k] == 0:
            levels = forget(prices, rows, volumes, money, upto, levels, k)
        kept[0] = levels
        answer = 0
        for b in range(levels):
            below = 0
            for other in range(levels):
                if prices[other] <= prices[b]:
                    below += volumes[other]
            if 3 * kept[1] < 4 * below:
                answer += money[b]
        answers[i] = answer
    return size
"""
)

FIGURE_6 = (
    _LEVEL
    + """

def replay(
    start, size, multiplicity, volume, price, prices, rows, volumes, money, upto, kept, answers
):
    for i in range(start, size):
        m, levels = multiplicity[i], kept[0]
        k = level_of(prices, levels, price[i])
        if k == levels:
            below = 0
            for b in range(levels):
                if prices[b] <= price[i]:
                    below += volumes[b]
            prices[k], rows[k], volumes[k], money[k], upto[k] = price[i], 0, 0, 0, below
            levels += 1
        rows[k] += m
        volumes[k] += m * volume[i]
        money[k] += m * volume[i] * price[i]
        kept[1] += m * volume[i]
        for b in range(levels):
            if price[i] <= prices[b]:
                upto[b] += m * volume[i]
        if rows[k] == 0:
            levels = forget(prices, rows, volumes, money, upto, levels, k)
        kept[0] = levels
        answer = 0
        for b in range(levels):
            if 3 * kept[1] < 4 * upto[b]:
                answer += money[b]
        answers[i] = answer
    return size
"""
)

TRIGGERS = {"dbtoaster_trigger": FIGURE_2B, "general_algorithm": FIGURE_6}


@dataclass
class PaperTrigger:
    """One of the triggers at work."""

    name: str
    room: int

    def __post_init__(self) -> None:
        load = pkgutil.resolve_name("viewmill.kernels.source:load_source")
        compiler: Any = pkgutil.resolve_name("viewmill.kernels.compiler")
        functions = load(self.name, TRIGGERS[self.name], None, f"VWAP, {self.name}.")
        for name in ("level_of", "forget"):
            functions["replay"].__globals__[name] = compiler.structure(functions[name])
        types = (compiler.WORD, compiler.WORD, *(compiler.WORDS,) * 10)
        self._kernel = compiler.compile_kernel(functions["replay"], types)
        self._levels = [np.zeros(self.room, np.int64) for _ in range(5)]
        self._kept = np.zeros(2, np.int64)

    def load(self, volume: Words, price: Words) -> None:
        """Start with these rows."""
        prices, where = np.unique(price, return_inverse=True)
        n = len(prices)
        rows = np.bincount(where, minlength=n).astype(np.int64)
        volumes, money = (np.zeros(n, np.int64) for _ in range(2))
        np.add.at(volumes, where, volume)
        np.add.at(money, where, volume * price)
        for kept, values in zip(
            self._levels, (prices, rows, volumes, money, np.cumsum(volumes)), strict=True
        ):
            kept[:n] = values
        self._kept[:] = n, volume.sum()

    def replay(self, multiplicity: Words, volume: Words, price: Words) -> Words:
        """The answer after every row, in cents."""
        answers = np.zeros(len(volume), np.int64)
        columns = [np.ascontiguousarray(each) for each in (multiplicity, volume, price)]
        self._kernel(0, len(volume), *columns, *self._levels, self._kept, answers)
        return answers

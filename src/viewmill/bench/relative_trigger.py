"""The paper's Figure 2c for VWAP over the index with relative keys, compiled by our compiler.

Prices with their volumes, and sums of volumes with their money: a row shifts the sums from its own
price on. It is correct only while all volumes are positive, as they are in this bench; our plans
order levels by price instead and have no such restriction.
"""

from __future__ import annotations

import hashlib
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int64]

FIGURE_2C = """
def load(size, volume, price, by_price, by_sum, kept):
    upto = 0
    for i in range(size):
        upto += volume[i]
        relative_add(by_price, price[i], volume[i])
        relative_add(by_sum, upto, volume[i] * price[i])
        kept[1] += volume[i] * price[i]
    kept[0] = upto
    return 0


def replay(start, size, multiplicity, volume, price, by_price, by_sum, kept, answers):
    for i in range(start, size):
        change = multiplicity[i] * volume[i]
        below = relative_sum(by_price, price[i], 1)
        own = relative_add(by_price, price[i], change)
        if change < 0:  # what goes is taken away before its level comes nearer to the one below
            relative_add(by_sum, below + own - change, change * price[i])
        relative_shift(by_sum, below, change)
        if change > 0:
            relative_add(by_sum, below + own, change * price[i])
        kept[0] += change
        kept[1] += change * price[i]
        answers[i] = kept[1] - relative_sum(by_sum, 3 * kept[0] // 4, 0)
    return size
"""
_USED = ("relative_add", "relative_sum", "relative_shift")


class RelativeTrigger:
    """The trigger at work."""

    def __init__(self) -> None:
        load = pkgutil.resolve_name("viewmill.kernels.source:load_source")
        compiler: Any = pkgutil.resolve_name("viewmill.kernels.compiler")
        relative: Any = pkgutil.resolve_name("viewmill.bench.baselines.relative")
        # The cache of kernels must see a change of the structure, which is in another file.
        text = hashlib.blake2b(Path(relative.__file__).read_bytes(), digest_size=6).hexdigest()
        functions = load("relative_index", FIGURE_2C, None, f"VWAP, figure 2c over {text}.", _USED)
        for each in functions.values():
            each.__globals__.update({name: getattr(relative, name) for name in _USED})
        word, words = compiler.WORD, compiler.WORDS
        self._load = compiler.compile_kernel(
            functions["load"], (word, words, words, word, word, words)
        )
        self._replay = compiler.compile_kernel(
            functions["replay"], (word, word, words, words, words, word, word, words, words)
        )
        self._headers = np.zeros((2, relative.HEADER_WORDS), np.int64)
        self._states = [int(row.ctypes.data) for row in self._headers]
        self._bytes_at = relative.BYTES >> 3
        self._kept = np.zeros(2, np.int64)

    def load(self, volume: Words, price: Words) -> None:
        """Start with these rows."""
        prices, where = np.unique(price, return_inverse=True)
        volumes = np.zeros(len(prices), np.int64)
        np.add.at(volumes, where, volume)
        self._load(len(prices), volumes, prices, *self._states, self._kept)

    def replay(self, multiplicity: Words, volume: Words, price: Words) -> Words:
        """The answer after every row, in cents."""
        answers = np.zeros(len(volume), np.int64)
        columns = [np.ascontiguousarray(each) for each in (multiplicity, volume, price)]
        self._replay(0, len(volume), *columns, *self._states, self._kept, answers)
        return answers

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self._headers[:, self._bytes_at].sum())

"""What a followed view has said last of each group.

Answers of floats may differ in their last bit when they are put together anew, and who follows a
view must see that very row go which came before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.kernels.window_store import Layout, Payloads

Array = npt.NDArray[Any]


class ShownAnswers:
    """Payloads by group. A layout only grows at its end, so that old payloads stay good."""

    def __init__(self, layout: Layout, groups: Array, payloads: Payloads) -> None:
        self._words = np.zeros((16, layout.words), np.int64)
        self._reals = np.zeros((16, layout.reals))
        self._journal: list[tuple[Array, Array, Array]] = []
        self.put(layout, groups, payloads)
        self._journal.clear()

    def get(self, layout: Layout, groups: Array) -> Payloads:
        """What was said of groups; nothing of those that are not there."""
        self._fit(layout, groups)
        return self._words[groups], self._reals[groups]

    def put(self, layout: Layout, groups: Array, payloads: Payloads) -> None:
        """What is said of groups now, each once."""
        self._fit(layout, groups)
        self._journal.append((groups, self._words[groups], self._reals[groups]))
        self._words[groups], self._reals[groups] = payloads

    def groups(self) -> Array:
        """The groups that are there."""
        return np.flatnonzero(self._words[:, 0] > 0)

    def commit(self) -> None:
        """Keep what was said."""
        self._journal.clear()

    def rollback(self) -> None:
        """Take back what was said since."""
        for groups, words, reals in reversed(self._journal):
            self._words[groups, : words.shape[1]] = words
            self._reals[groups, : reals.shape[1]] = reals
        self._journal.clear()

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self._words.nbytes + self._reals.nbytes

    def _fit(self, layout: Layout, groups: Array) -> None:
        size = len(self._words)
        if len(groups) and int(groups.max()) >= size:
            size = max(int(groups.max()) + 1, 2 * size)
        words, reals = (size, layout.words), (size, layout.reals)
        if self._words.shape != words or self._reals.shape != reals:
            self._words, self._reals = _padded(self._words, words), _padded(self._reals, reals)


def _padded(array: Array, shape: tuple[int, int]) -> Array:
    return np.pad(array, [(0, new - old) for old, new in zip(array.shape, shape, strict=True)])

"""Where panes begin: the edges of all windows of a tree.

A pane is named by the moment at which it begins, so that windows that share it need agree on
nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_LONGEST = 1 << 20  # of a composite slide whose edges are listed


class Edges:
    """Progressions of moments, step and offset each."""

    def __init__(self, steps: Sequence[tuple[int, int]]) -> None:
        self.steps = tuple((step, offset % step) for step, offset in steps)
        self._whole = lcm(*(step for step, _ in self.steps))
        self._listed: Array | None = None
        if len(self.steps) > 2 and self._whole <= _LONGEST:
            marked = np.zeros(self._whole, np.bool_)
            for step, offset in self.steps:
                marked[offset::step] = True
            self._listed = np.flatnonzero(marked)

    def starts(self, moments: Array) -> Array:
        """The last edge up to each moment: where its pane begins."""
        if self._listed is not None:
            rounds, within = np.divmod(moments, self._whole)
            # Before the first edge of a round lies the last edge of the round before: index -1.
            at = np.searchsorted(self._listed, within, side="right") - 1
            return np.asarray(
                rounds * self._whole + self._listed[at] - np.where(at < 0, self._whole, 0)
            )
        found: Array | None = None
        for step, offset in self.steps:
            edges = moments - (moments - offset) % step
            found = edges if found is None else np.maximum(found, edges)
        assert found is not None
        return found

    def after(self, start: int) -> int:
        """The next edge."""
        return min(start + step - (start - offset) % step for step, offset in self.steps)

    def contains(self, steps: Sequence[tuple[int, int]]) -> bool:
        """Whether all edges of these progressions are edges already."""
        return all(
            any(step % own == 0 and (offset - place) % own == 0 for own, place in self.steps)
            for step, offset in steps
        )

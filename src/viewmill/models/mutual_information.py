"""Mutual information of categories over a cofactor view: how much one tells of another, in nats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.errors import InvalidArgument, UnknownName, nearest
from viewmill.models.moments import Group
from viewmill.models.view_model import ViewModel, categories_of, moments_of

Floats = npt.NDArray[np.float64]


class MutualInformation(ViewModel):
    """The mutual information of each pair of categories: of all that the cofactor of a view has,
    or of some, among which may be keys of the view.

    `matrix` has the pairs in the order of `columns`, on the diagonal the entropies.
    """

    def __init__(
        self,
        view: Any,
        columns: Sequence[str] | None = None,
        *,
        groups: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(columns, str):
            raise InvalidArgument("columns is a list of categories")
        self._asked = columns
        super().__init__(view, groups)

    def _learn(self, groups: Sequence[Group]) -> None:
        self.columns = tuple(categories_of(groups, self._asked))
        moments = moments_of(groups, [], self.columns)
        counts = moments.matrix.high
        place: dict[str, list[int]] = {name: [] for name in self.columns}
        self.values: dict[str, list[Any]] = {name: [] for name in self.columns}
        for i, each in enumerate(moments.columns, 1):
            if not isinstance(each, str):
                place[each[0]].append(i)
                self.values[each[0]].append(each[1])
        self.joint = {
            (a, b): counts[np.ix_(place[a], place[b])] / max(self.n, 1)
            for a, b in combinations(self.columns, 2)
        }
        self.shares = {name: counts[0, place[name]] / max(self.n, 1) for name in self.columns}
        size = len(self.columns)
        self.matrix = np.zeros((size, size))
        for i, a in enumerate(self.columns):
            self.matrix[i, i] = -_sum_of(self.shares[a], self.shares[a])
            for j in range(i + 1, size):
                b = self.columns[j]
                apart = np.outer(self.shares[a], self.shares[b])
                # 0 at least: rounding may leave a little less of independent columns.
                found = max(
                    _sum_of(self.joint[a, b], self.joint[a, b] / np.where(apart, apart, 1)), 0.0
                )
                self.matrix[i, j] = self.matrix[j, i] = found

    def between(self, a: str, b: str) -> float:
        """The mutual information of two categories; of one with itself its entropy."""
        return float(self.matrix[self._at(a), self._at(b)])

    def ranking(self, label: str) -> list[tuple[str, float]]:
        """The other categories by what they tell of one, most first."""
        at = self._at(label)
        others = [
            (name, float(self.matrix[at, i])) for i, name in enumerate(self.columns) if i != at
        ]
        return sorted(others, key=lambda each: (-each[1], each[0]))

    def _at(self, name: str) -> int:
        for i, each in enumerate(self.columns):
            if each.lower() == name.lower():
                return i
        raise UnknownName(f'no category "{name}"', hint=nearest(name, self.columns))


def _sum_of(shares: Floats, ratios: Floats) -> float:
    """The sum of shares times the logarithms of ratios; nothing where a share is 0."""
    there = shares > 0
    return float(np.sum(shares[there] * np.log(ratios[there])))

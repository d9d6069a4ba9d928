"""Choose the features of a regression over a cofactor view, one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from typing import Literal as OneOf

import numpy as np

from viewmill.deltas.least_squares import Centred, fit, rank
from viewmill.errors import InvalidArgument
from viewmill.models.moments import Category, Group
from viewmill.models.view_model import ViewModel, moments_of, split_columns

Criterion = OneOf["bic", "aic", "r2"]


class FeatureSelection(ViewModel):
    """Forward selection: in each step the feature joins that lowers the criterion most, until none
    does or `count` are chosen.

    `criterion` "bic" or "aic" weighs the fit against the number of columns, where a category counts
    for as many as it adds; "r2" takes whatever explains most. `selected` has the features in their
    order, `steps` (feature, r2, criterion) of each step.
    """

    def __init__(
        self,
        view: Any,
        label: str,
        features: Sequence[str],
        *,
        count: int | None = None,
        criterion: Criterion = "bic",
        groups: Mapping[str, Any] | None = None,
    ) -> None:
        if criterion not in ("bic", "aic", "r2"):
            raise InvalidArgument(f"criterion {criterion!r} is none of 'bic', 'aic' and 'r2'")
        if isinstance(features, str) or not features:
            raise InvalidArgument("features is a list of at least one column")
        if label.lower() in {each.lower() for each in features}:
            raise InvalidArgument(f'"{label}" is the label and a feature')
        if count is not None and count < 1:
            raise InvalidArgument(f"count must be at least 1, got {count}")
        self.label, self.features = label, tuple(features)
        self.count, self.criterion = count, criterion
        super().__init__(view, groups)

    def _learn(self, groups: Sequence[Group]) -> None:
        self.selected: list[str] = []
        self.steps: list[tuple[str, float, float]] = []
        label, categories = split_columns(groups, [self.label])
        if categories:
            raise InvalidArgument(
                f'the label "{self.label}" is a category',
                hint="MutualInformation(view).ranking(label) ranks categories.",
            )
        numbers, categories = split_columns(groups, self.features)
        if self.n <= 0:
            return
        moments = moments_of(groups, [*label, *numbers], categories)
        centred, places = moments.centred(), _places(moments.columns, self.features)
        chosen, best = list[int](), self._judge(centred, [], 0.0)
        while len(self.selected) < (self.count or len(self.features)):
            trials = [
                (*self._try(centred, [*chosen, *places[name]]), name)
                for name in self.features
                if name not in self.selected
            ]
            if not trials:
                break
            judged, r2, name = min(trials, key=lambda each: each[0])
            if judged >= best - 1e-12 * abs(best):
                break
            best = judged
            chosen += places[name]
            self.selected.append(name)
            self.steps.append((name, r2, judged))

    def _try(self, centred: Centred, columns: list[int]) -> tuple[float, float]:
        r2 = fit(centred, 0, columns).r2
        return self._judge(centred, columns, r2), r2

    def _judge(self, centred: Centred, columns: list[int], r2: float) -> float:
        """Less is better."""
        if self.criterion == "r2":
            return -r2
        size = 1 + rank(centred.correlations[np.ix_(columns, columns)])
        weight = np.log(self.n) if self.criterion == "bic" else 2.0
        return float(self.n * np.log(max(1.0 - r2, 1e-300)) + weight * size)

    def __repr__(self) -> str:
        return f"FeatureSelection({self.label} by {', '.join(self.selected)}, n = {self.n})"


def _places(columns: Sequence[str | Category], features: Sequence[str]) -> dict[str, list[int]]:
    """The columns of each feature."""
    names = [each if isinstance(each, str) else each[0] for each in columns]
    lower = [name.lower() for name in names]
    return {name: [i for i, each in enumerate(lower) if each == name.lower()] for name in features}

"""Principal components over a cofactor view: the directions in which its columns vary most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.errors import InvalidArgument
from viewmill.models.moments import Category, Group
from viewmill.models.view_model import ViewModel, moments_of, split_columns

Floats = npt.NDArray[np.float64]


class PrincipalComponents(ViewModel):
    """The components of some columns; categories are columns of 0 and 1 for each of their values.

    Without `columns` all numbers of the cofactor. `scaled` divides by standard deviations first, as
    for columns of different units. The sign of a component is that of its largest entry: positive.
    """

    def __init__(
        self,
        view: Any,
        columns: Sequence[str] | None = None,
        *,
        count: int | None = None,
        scaled: bool = False,
        groups: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(columns, str) or (columns is not None and not columns):
            raise InvalidArgument("columns is a list of at least one column")
        if count is not None and count < 1:
            raise InvalidArgument(f"count must be at least 1, got {count}")
        self._asked = columns
        self.count, self.scaled = count, scaled
        super().__init__(view, groups)

    def _learn(self, groups: Sequence[Group]) -> None:
        first = groups[0].moments.columns if groups else ()
        asked = [str(c) for c in first] if self._asked is None else list(self._asked)
        moments = moments_of(groups, *split_columns(groups, asked))
        self.columns: tuple[str | Category, ...] = moments.columns
        size = len(self.columns)
        if self.n <= 0:
            self.means = self.scales = np.full(size, np.nan)
            self.components, self.variances = np.zeros((0, size)), np.zeros(0)
            self.variance_ratios = np.zeros(0)
            return
        centred = moments.centred()
        self.means, self.scales = centred.means, np.ones(size)
        matrix = centred.correlations
        if self.scaled:
            self.scales = centred.scales
        else:
            matrix = matrix * np.outer(centred.scales, centred.scales)
        values, vectors = np.linalg.eigh(matrix)
        order = np.argsort(values)[::-1][: self.count or size]
        self.components = _signed(vectors.T[order])
        # Of a sample: by n - 1, as scikit-learn has it.
        self.variances = np.maximum(values[order], 0.0) * self.n / max(self.n - 1, 1)
        total = float(np.trace(matrix))
        self.variance_ratios = np.maximum(values[order], 0.0) / total if total > 0 else values * 0

    def transform(self, rows: Sequence[Sequence[Any]]) -> Floats:
        """Rows of numbers, in the order of `columns`, as their shares of the components."""
        given = np.asarray(rows, np.float64)
        if given.ndim != 2 or given.shape[1] != len(self.columns):
            raise InvalidArgument(f"a row has {len(self.columns)} numbers, one for each column")
        return np.asarray((given - self.means) / self.scales @ self.components.T)

    def __repr__(self) -> str:
        shares = ", ".join(f"{each:.1%}" for each in self.variance_ratios[:5])
        return f"PrincipalComponents({len(self.columns)} columns, {shares}, n = {self.n})"


def _signed(components: Floats) -> Floats:
    """Components whose largest entry is positive."""
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return np.asarray(components * np.where(signs == 0, 1.0, signs)[:, np.newaxis])

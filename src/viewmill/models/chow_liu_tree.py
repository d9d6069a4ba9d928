"""The Chow-Liu tree over a cofactor view: the tree of categories that is nearest to their joint
distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from viewmill.errors import InvalidArgument, UnknownName, nearest
from viewmill.models.moments import Group
from viewmill.models.mutual_information import MutualInformation


class ChowLiuTree(MutualInformation):
    """A Bayesian network in which each category has one parent: a spanning tree of the largest
    mutual information.

    `parents` has for each category its parent, None for the root; `edges` has (parent, child,
    mutual information), from the root down. Equal ones are chosen by name.
    """

    def __init__(
        self,
        view: Any,
        columns: Sequence[str] | None = None,
        *,
        root: str | None = None,
        groups: Mapping[str, Any] | None = None,
    ) -> None:
        self._root = root
        super().__init__(view, columns, groups=groups)

    def _learn(self, groups: Sequence[Group]) -> None:
        super()._learn(groups)
        self.parents: dict[str, str | None] = {}
        self.edges: list[tuple[str, str, float]] = []
        if not self.columns:
            return
        root = self.columns[0] if self._root is None else self.columns[self._at(self._root)]
        self.parents[root] = None
        while len(self.parents) < len(self.columns):
            found, parent, child = min(
                (-self.between(a, b), a, b)
                for a in self.parents
                for b in self.columns
                if b not in self.parents
            )
            self.parents[child] = parent
            self.edges.append((parent, child, -found))

    @property
    def log_likelihood(self) -> float:
        """Of the rows, in nats per row: minus the entropies, plus what the edges tell."""
        return float(sum(each for _, _, each in self.edges) - np.trace(self.matrix))

    def probability(self, row: Mapping[str, Any]) -> float:
        """The share of rows with these values that the tree expects."""
        values = {name.lower(): value for name, value in row.items()}
        places = {name: self._place(name, values) for name in self.columns}
        found = 1.0
        for name, parent in self.parents.items():
            at = places[name]
            if at is None:
                return 0.0
            share = float(self.shares[name][at])
            if parent is not None:
                above = places[parent]
                if above is None or not self.shares[parent][above]:
                    return 0.0
                both = self.joint.get((name, parent))
                joint = self.joint[parent, name][above, at] if both is None else both[at, above]
                share = float(joint / self.shares[parent][above])
            found *= share
        return found

    def _place(self, name: str, row: Mapping[str, Any]) -> int | None:
        if name.lower() not in row:
            raise UnknownName(f'the row has no "{name}"', hint=nearest(name, row))
        value = row[name.lower()]
        return self.values[name].index(value) if value in self.values[name] else None

    def __repr__(self) -> str:
        if not self.columns:
            raise InvalidArgument("the view has no categories")
        shown = ", ".join(f"{a} → {b}" for a, b, _ in self.edges)
        return f"ChowLiuTree({shown or self.columns[0]}, n = {self.n})"

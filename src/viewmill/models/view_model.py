"""What models over a view have in common: they read its moments, all or those of some groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from viewmill.deltas.least_squares import Pairs
from viewmill.errors import InvalidArgument, UnknownName, nearest
from viewmill.models.moments import Group, Moments, read_groups, with_categories

Model = TypeVar("Model", bound="ViewModel")


class ViewModel:
    """A model of the rows that a view with a cofactor column is over.

    `groups` gives values of the view's keys: a model of those rows only. Without it a view of
    several rows is one data set. `refresh` brings the model up to date with the view.
    """

    def __init__(self, view: Any, groups: Mapping[str, Any] | None = None) -> None:
        self.view, self.groups = view, dict(groups or {})
        self.n = 0
        self.refresh()

    def refresh(self: Model) -> Model:
        """Learn from the view as it is now."""
        found = [group for group in read_groups(self.view) if self._is_wanted(group)]
        self.n = int(sum(group.moments.n for group in found))
        self._learn(found)
        return self

    def _learn(self, groups: Sequence[Group]) -> None:
        """Compute the model from the moments of these groups."""
        raise NotImplementedError

    def _is_wanted(self, group: Group) -> bool:
        keys = {name.lower(): value for name, value in group.keys.items()}
        for name, value in self.groups.items():
            if name.lower() not in keys:
                raise UnknownName(f'the view has no key "{name}"', hint=nearest(name, group.keys))
            if keys[name.lower()] != value:
                return False
        return True


def split_columns(groups: Sequence[Group], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns of numbers among `names`, and the categories in the view's own spelling."""
    if not groups:
        return list(names), []
    first = groups[0]
    measured = {str(name).lower() for name in first.moments.columns}
    known = {name.lower(): name for name in (*first.keys, *first.categories)}
    numbers, categories = list[str](), list[str]()
    for name in names:
        if name.lower() in known and name.lower() not in measured:
            categories.append(known[name.lower()])
        elif name.lower() in measured:
            numbers.append(name)
        else:
            every = (*map(str, first.moments.columns), *known.values())
            raise UnknownName(f'no column "{name}" among the moments', hint=nearest(name, every))
    return numbers, categories


def categories_of(groups: Sequence[Group], names: Sequence[str] | None) -> list[str]:
    """The categories that are asked for, or all that the cofactor of a view has."""
    if names is None:
        return list(groups[0].categories) if groups else []
    numbers, categories = split_columns(groups, names)
    if numbers and groups:
        raise InvalidArgument(
            f'"{numbers[0]}" is a column of numbers, a category is needed',
            hint="cofactor(..., category(x)) counts the values of x.",
        )
    return categories or numbers


def moments_of(
    groups: Sequence[Group], numbers: Sequence[str], categories: Sequence[str]
) -> Moments:
    """Numbers first, then a column of 0 and 1 for each value of each category."""
    if groups:
        return with_categories(groups, numbers, categories)
    nothing = np.zeros((1 + len(numbers), 1 + len(numbers)))
    return Moments(tuple(numbers), Pairs(nothing, nothing))

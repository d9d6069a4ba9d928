"""A view by GROUP BY window(...): every window that has rows, open ones too.

It reads its tree as other views of a family do. A window's group and start have a number, under
which its answer is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT
from viewmill.algebra.windows import SlidingWindow
from viewmill.deltas.delta import Delta
from viewmill.kernels.group_numbers import GroupNumbers
from viewmill.kernels.window_store import Payloads
from viewmill.kernels.window_tree import EARLIEST, Tree
from viewmill.kernels.window_view import WindowView
from viewmill.program.program import Program
from viewmill.program.windows import Windowed

if TYPE_CHECKING:
    from viewmill.kernels.window_family import WindowFamily

Array = npt.NDArray[Any]
_LATEST = int(np.iinfo(np.int64).max)
_PAIR = Schema((Field("group", BIGINT, False), Field("start", BIGINT, False)))


class GroupedWindowsView(WindowView):
    """All windows of a view, by group and start."""

    shows_all_windows = True

    def __init__(
        self, name: str, view_name: str, program: Program, body: Windowed, family: WindowFamily
    ) -> None:
        super().__init__(name, view_name, program, body, family)
        self._pairs = GroupNumbers(_PAIR, family.compiled)

    @property
    def is_grouped(self) -> bool:
        """A window without rows is not shown."""
        return True

    def ranges(self) -> list[SlidingWindow]:
        """Open windows are queries of different ranges that end now."""
        window, count = self.window, -(-self.window.size // self.window.slide)
        sizes = [window.size - i * window.slide for i in range(count)]
        return [replace(window, size=size) for size in sizes]

    def _keys(self, groups: Array) -> tuple[list[Array], list[Array | None]]:
        pairs = self._pairs.keys(groups)
        own, starts = pairs.columns
        keys = self._numbers.keys(own)
        columns, nulls = list(keys.columns), list(keys.nulls)
        assert self.body.every is not None
        start, end = self.body.every
        added = sorted([(start, starts), (end, starts + self.window.size)], key=lambda e: e[0])
        for place, column in added:
            columns.insert(place, column)
            nulls.insert(place, None)
        return columns, nulls

    def _groups_of(
        self, old: WindowView, groups: Array, translate: Callable[[Delta], Delta]
    ) -> Array:
        assert isinstance(old, GroupedWindowsView)
        own, starts = old._pairs.keys(groups).columns
        own = super()._groups_of(old, own, translate)
        return self._pairs.of((own, starts), (None, None), len(groups))

    def _numbered(self, groups: Array, panes: Array) -> Array:
        """The numbers of the windows that see panes of groups, each once."""
        size, slide = self.window.size, self.window.slide
        back = np.arange(-(-size // slide)) * slide
        within = (panes - self.window.offset + size) % slide  # since the last window began
        starts = (panes - within)[:, None] - back
        seen = starts + size > panes[:, None]
        found = np.stack([np.broadcast_to(groups[:, None], starts.shape)[seen], starts[seen]])
        found = np.unique(found, axis=1)
        return self._pairs.of((found[0], found[1]), (None, None), found.shape[1])

    def _answers(self, tree: Tree) -> tuple[Array, Payloads]:
        panes, groups = tree.log.between(EARLIEST, _LATEST)
        numbers = self._numbered(groups, panes)
        return numbers, self._answer(tree, numbers, 0, 0)

    def _answer(self, tree: Tree, groups: Array, first: Array | int, end: Array | int) -> Payloads:
        own, starts = self._pairs.keys(groups).columns
        return super()._answer(tree, own, starts, starts + self.window.size)

    def watch(self, groups: Array, panes: Array, end: int | None) -> Callable[[], None] | None:
        """Rows come for these pairs: the windows that see them are answered again."""
        seen = self._numbered(groups, panes)
        tree, shown, layout = self._tree(), self._listed(), self.lane.layout

        def changed() -> None:
            old, new = shown.get(layout, seen), self._answer(tree, seen, 0, 0)
            shown.put(layout, seen, new)
            self._note(seen, old, new)

        return changed

    def slide(self, old_end: int | None, end: int) -> None:
        """Windows are shown whether they have ended or not."""

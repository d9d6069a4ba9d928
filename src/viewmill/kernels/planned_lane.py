"""A lane with its views and the trees that they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from viewmill.deltas.delta import Delta
from viewmill.kernels.window_edges import Edges
from viewmill.kernels.window_lane import Lane, LaneRows
from viewmill.kernels.window_payloads import WholeSum
from viewmill.kernels.window_tree import Tree, Watch, paired
from viewmill.program.windows import Asked, TreePlan, WindowAggregate, WindowsPlan

if TYPE_CHECKING:
    from viewmill.kernels.lane_reading import Reading
    from viewmill.kernels.window_family import Planner
    from viewmill.kernels.window_view import WindowView

Array = npt.NDArray[Any]

LaneKey = tuple[str, Asked]

_SAFE_SUM = 2.0**62  # sums of smaller magnitude cannot overflow


class PlannedLane:
    """Views that prepare rows alike, planned together."""

    def __init__(self, lane: Lane, asked: Asked, why: str = "") -> None:
        self.lane, self._asked, self.why = lane, asked, why
        self.readings: dict[LaneKey, Reading] = {}  # of a joined lane
        self.keys: Counter[LaneKey] = Counter()  # how many views have which parts
        self.fragments = 0  # when it was last decided that views share it
        self.views: dict[int, WindowView] = {}
        self.trees: list[Tree] = []
        self.plan: WindowsPlan | None = None
        self.is_marked = True
        self._is_spoilt = True
        self._planned_for = 0
        self._shared: Edges | None = None  # where all trees are cut, if they share partials
        self._magnitude = 0.0
        self._saved: tuple[list[Any] | None, float] = None, 0.0
        self._replaced: tuple[dict[int, Tree | None], list[Tree]] | None = None
        self._windows: dict[int, tuple[Array, Array]] = {}  # sizes and slides, by tree
        self._listed: list[WindowView] | None = None
        self._shortest: int | None = None

    # Views.

    def add(self, view: WindowView) -> None:
        """Add a view. A tree that has its edges and history serves it without a new plan."""
        self.views[id(view)] = view
        self.keys[view.key] += 1
        self._forget_windows()
        if not self._is_spoilt and len(self.views) <= 2 * self._planned_for:
            view.tree = next((tree for tree in self.trees if tree.can_answer(view.window)), None)
        if view.tree is None:
            self.is_marked = True
        else:
            view.tree.readers += 1

    def remove(self, view: WindowView) -> None:
        """A view goes. Trees that cut more finely than they need stay right."""
        del self.views[id(view)]
        self.keys[view.key] -= 1
        if not self.keys[view.key]:
            del self.keys[view.key]
        self._forget_windows()
        if view.tree is not None:
            view.tree.readers -= 1
        if self.views and 2 * len(self.views) < self._planned_for:
            self.is_marked = True
        self.trees = [tree for tree in self.trees if tree.readers]

    @property
    def is_joined(self) -> bool:
        """Whether its rows are cut more finely than one kind of view needs."""
        return bool(self.readings)

    def calls_of(self, view: WindowView) -> tuple[WindowAggregate, ...]:
        """The aggregates of a view over the arguments of this lane."""
        own = view.body.aggregates
        if not self.readings:
            return own
        to = self.readings[view.key].how.arguments
        return tuple(replace(c, arguments=tuple(to[i] for i in c.arguments)) for c in own)

    def _forget_windows(self) -> None:
        self._windows.clear()
        self._listed = self._shortest = None

    def forget_listed(self) -> None:
        """A view is followed now, or not any more."""
        self._listed = None

    @property
    def listed(self) -> list[WindowView]:
        """The views whose changes are listed."""
        if self._listed is None:
            self._listed = [view for view in self.views.values() if view.is_listed]
        return self._listed

    @property
    def shortest(self) -> int:
        """How long before the watermark every view still sees a row: the shortest window."""
        if self._shortest is None:
            self._shortest = min(each.window.size for each in self.views.values())
        return self._shortest

    def _windows_of(self, tree: Tree) -> tuple[Array, Array]:
        found = self._windows.get(id(tree))
        if found is None:
            own = [view.window for view in self.views.values() if view.tree is tree]
            found = np.array([w.size for w in own]), np.array([w.slide for w in own])
            self._windows[id(tree)] = found
        return found

    # Plans.

    def spoil(self) -> None:
        """What is kept is not what is needed any more."""
        self.is_marked = self._is_spoilt = True
        for view in self.views.values():
            view.tree = None

    def replan(self, plan: Planner, compiled: bool, rate: float | None) -> list[Tree]:
        """Plan all windows together; the trees that are new and empty."""
        views = list(self.views.values())
        asked = [(view, window) for view in views for window in view.ranges()]
        windows = [window for _, window in asked]
        followed = [view.is_listed for view, _ in asked]
        self.plan = made = plan(windows, followed, self._asked, self.lane.offers, rate)
        kept = [] if self._is_spoilt else self.trees
        self.is_marked = self._is_spoilt = False
        self._planned_for = len(views)
        self._forget_windows()
        self.trees, fresh = [], []
        for wanted in made.trees:
            members = list({id(asked[i][0]): asked[i][0] for i in wanted.members}.values())
            longest = max(view.window.size for view in members)
            tree = next((each for each in kept if _serves(each, wanted, longest)), None)
            if tree is None:
                tree = Tree(self.lane, wanted, compiled)
                fresh.append(tree)
            tree.plan, tree.longest = wanted, max(longest, tree.longest)
            self.trees.append(tree)
            tree.readers = len(members)
            for view in members:
                view.tree = tree
        self._shared = None
        if made.optimizer == "triweave" and len(self.trees) > 1:
            self._shared = Edges([step for tree in self.trees for step in tree.edges.steps])
        return fresh

    def fill(self, fresh: list[Tree], rows: Delta, times: Array, reached: int | None) -> None:
        """Fill new trees from the stream's rows."""
        if self.lane.raw is not None:
            self.lane.raw.runs = []
        found = self.lane.rows(rows, times, 0)
        self.lane.hold(found)
        self._magnitude = 0.0
        self._note_magnitude(found)
        for tree in fresh:
            tree.begin()
            tree.take(found, None)
            tree.commit(self._first_of(tree, reached))

    def refill(self, rows: LaneRows, reached: int | None) -> None:
        """Put these rows, all that can be seen, in the place of what trees hold."""
        if self._replaced is None:
            self._replaced = {id(view): view.tree for view in self.views.values()}, self.trees
        made = {id(tree): tree.emptied() for tree in self.trees}
        self.trees = list(made.values())
        for view in self.views.values():
            view.tree = made[id(view.tree)]
        self._windows.clear()
        if self.lane.raw is not None:
            self.lane.raw.runs = []
        self.lane.hold(rows)
        for tree in self.trees:
            tree.begin()
            tree.take(rows, None)

    # Rows.

    def take(self, rows: LaneRows, reached: int | None) -> None:
        """Rows of a batch, for every tree."""
        self.lane.hold(rows)
        self._note_magnitude(rows)
        shared = None
        if self._shared is not None and len(rows) and not self.lane.needs_rows(rows, None):
            ordered, starts, pairs = paired(rows, self._shared)
            payloads = self.lane.lift(ordered, pairs, len(starts))
            shared = ordered.groups[starts], self._shared.starts(ordered.times[starts]), payloads
        for tree in self.trees:
            watch = self._watch(tree, reached)
            if shared is None:
                tree.take(rows, watch)
            else:
                tree.take_partials(*shared, watch)

    def _watch(self, tree: Tree, reached: int | None) -> Watch | None:
        views = [view for view in self.listed if view.tree is tree]
        if not views or (reached is None and not any(view.shows_all_windows for view in views)):
            return None

        def watch(groups: Array, panes: Array) -> Callable[[], None]:
            calls = [each.watch(groups, panes, _last_end(each, reached)) for each in views]

            def changed() -> None:
                for call in calls:
                    if call is not None:
                        call()

            return changed

        return watch

    def _note_magnitude(self, rows: LaneRows) -> None:
        """How large sums can have become, at most."""
        for each in self.lane.components:
            if isinstance(each, WholeSum) and len(rows):
                column = rows.columns[each.arguments[0]].astype(np.float64)
                self._magnitude += float(np.abs(column * rows.multiplicity).sum())

    @property
    def may_overflow(self) -> bool:
        """Whether window sums must be checked for overflow before a batch is committed."""
        return self._magnitude > _SAFE_SUM

    def _first_of(self, tree: Tree, reached: int | None) -> int | None:
        """The first moment that a window of a tree can still see."""
        if reached is None or self._asked.every:
            return None
        sizes, slides = self._windows_of(tree)
        return int((reached // slides * slides - sizes).min())

    def begin(self) -> None:
        """A change comes that may be undone."""
        raw = self.lane.raw
        self._saved = None if raw is None else raw.runs, self._magnitude
        for tree in self.trees:
            tree.begin()
        for view in self.listed:
            view.begin()

    def commit(self, reached: int | None) -> None:
        """Keep what was done; forget what no window can see any more."""
        self._replaced = None
        firsts = []
        for tree in self.trees:
            first = self._first_of(tree, reached)
            tree.commit(first)
            firsts.append(first)
        if self.lane.raw is not None and firsts and firsts[0] is not None:
            self.lane.raw.forget(min(each for each in firsts if each is not None))
        for view in self.listed:
            view.forget_changes(undo=False)

    def rollback(self) -> None:
        """Undo what was done."""
        runs, self._magnitude = self._saved
        if self.lane.raw is not None and runs is not None:
            self.lane.raw.runs = runs
        if self._replaced is not None:
            (before, self.trees), self._replaced = self._replaced, None
            for key, view in self.views.items():
                view.tree = before[key]
            self._windows.clear()
        for tree in self.trees:
            tree.rollback()
        for view in self.listed:
            view.forget_changes(undo=True)


def _last_end(view: WindowView, reached: int | None) -> int | None:
    return None if reached is None else view.window.last_end(reached)


def _serves(tree: Tree, wanted: TreePlan, longest: int) -> bool:
    """Whether a tree can stay: it has all edges, all the past, and the same technique."""
    return (
        tree.plan.technique == wanted.technique
        and tree.plan.window == wanted.window
        and tree.longest >= longest
        and tree.edges.contains(wanted.steps)
    )

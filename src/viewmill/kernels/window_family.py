"""All window views over one stream: rows are taken once, partials are kept once.

takes  the programs of views whose bodies are `Windowed`, a way to plan trees, the stream's rows
gives  a `WindowView` for each; together they are one maintainer

A view that joins or goes only marks its lane. Before rows come or answers are read the marked lanes
are planned again, all at once, and trees that changed are filled from the stream's rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.windows import SlidingWindow
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Product, rows_of
from viewmill.kernels import compiler
from viewmill.kernels.build import build
from viewmill.kernels.planned_lane import PlannedLane
from viewmill.kernels.row_order import RowOrder
from viewmill.kernels.window_lane import InOrder, Lane
from viewmill.kernels.window_view import WindowView
from viewmill.program.program import Program
from viewmill.program.windows import Asked, Windowed, WindowsPlan

Array = npt.NDArray[Any]
# Windows, which of them are followed, what was asked for, what the lane offers, rows per unit.
Planner = Callable[
    [Sequence[SlidingWindow], Sequence[bool], Asked, frozenset[str], float | None], WindowsPlan
]

_LARGE = 2.0**62


class WindowFamily:
    """Views over one stream that take the same batches."""

    def __init__(
        self,
        source: str,
        dictionary: Dictionary,
        plan: Planner,
        rows: Callable[[], Delta],
        tick: Callable[[], int | None],
        *,
        has_deletes: bool = True,
        may_owe: bool = False,
        is_shared: bool = False,
        compiled: bool | None = None,
    ) -> None:
        self.source = source
        self.views: dict[int, WindowView] = {}
        self._named: Counter[str] = Counter()
        self.is_shared = is_shared
        self.refreshes = 0  # batches since the family began
        self.reached: int | None = None  # the watermark, or the number of rows
        self._dictionary, self._plan, self._rows, self._tick = dictionary, plan, rows, tick
        self._has_deletes, self._may_owe = has_deletes, may_owe
        self._compiled = compiler.is_on(compiled)
        self._lanes: dict[tuple[str, Asked], PlannedLane] = {}
        self._finishes: dict[str, InOrder] = {}
        self._arrived = 0
        self._order: RowOrder | None = None  # of rows that windows of rows count by time
        self._saved: tuple[int | None, int] | None = None
        self._late: dict[int, int] = {}

    # Views.

    @property
    def names(self) -> Set[str]:
        """The views."""
        return self._named.keys()

    def add(self, name: str, view_name: str, program: Program) -> WindowView:
        """A view joins; `name` is that of its block."""
        body = program.body
        assert isinstance(body, Windowed)
        view = WindowView(name, view_name, program, body, self)
        if body.finish is not None:
            view.finish = self._finish(body.finish)
        self.join(view)
        return view

    def join(self, member: WindowView) -> None:
        """A view comes, or comes back."""
        if id(member) in self.views:
            return
        body = member.body
        planned = self._lanes.get((body.lane, body.asked))
        if planned is None:
            lane = Lane(
                body,
                self._dictionary,
                self._compiled,
                has_deletes=self._has_deletes,
                may_owe=self._may_owe,
            )
            planned = self._lanes[body.lane, body.asked] = PlannedLane(lane, body.asked)
        if planned.lane.add(body.aggregates):
            planned.spoil()
        member.take_place(planned.lane, self.refreshes)
        self.views[id(member)] = member
        self._named[member.view_name] += 1
        planned.add(member)

    def _finish(self, program: Program) -> InOrder:
        known = self._finishes.get(program.fingerprint)
        if known is None:
            known = InOrder(build(program, self._dictionary, compiled=self._compiled))
            self._finishes[program.fingerprint] = known
        return known

    def leave(self, member: WindowView) -> None:
        """A view goes."""
        if self.views.pop(id(member), None) is None:
            return
        self._named[member.view_name] -= 1
        if not self._named[member.view_name]:
            del self._named[member.view_name]
        key = member.body.lane, member.body.asked
        planned = self._lanes[key]
        planned.remove(member)
        if not planned.views:
            del self._lanes[key]

    def follow(self, view: WindowView, followed: bool) -> None:
        """Whether somebody wants every change of a view."""
        if view.followed != followed:
            view.follow(followed)
            self._lanes[view.body.lane, view.body.asked].forget_listed()

    def spoil(self, view: WindowView) -> None:
        """Build what a view reads again, from the stream's rows."""
        view.forget_shown()
        self._lanes[view.body.lane, view.body.asked].spoil()

    def plan_of(self, view: WindowView) -> WindowsPlan:
        """How the view's lane is run."""
        self.settle()
        plan = self._lanes[view.body.lane, view.body.asked].plan
        assert plan is not None
        return plan

    def sharing(self, view: WindowView) -> list[str]:
        """The other views that read the same tree."""
        self.settle()
        planned = self._lanes[view.body.lane, view.body.asked]
        others = (each for each in planned.views.values() if each is not view)
        return sorted(each.view_name for each in others if each.tree is view.tree)

    def shares(self, view: WindowView) -> dict[str, int]:
        """The bytes of a view's tree and lane, spread over the views that share them."""
        tree = view.tree
        if tree is None:
            return {"partials": 0}
        planned = self._lanes[view.body.lane, view.body.asked]
        return {
            "partials": tree.nbytes // max(1, tree.readers),
            "lane": view.lane.nbytes // len(planned.views),
        }

    def settle(self) -> None:
        """Plan the lanes that changed, and fill their new trees from the stream's rows."""
        marked = [each for each in self._lanes.values() if each.is_marked]
        if not marked:
            return
        rows = self._rows()
        self._arrived = max(self._arrived, rows.size)
        self._reach_tick()
        times, rows = self._all_moments(rows)
        rate = _rate(rows, times, self._unit)
        for planned in marked:
            fresh = planned.replan(self._plan, self._compiled, rate)
            if fresh:
                planned.fill(fresh, rows, times, self.reached)

    def _reach_tick(self) -> None:
        tick = self._tick()
        if tick is not None and self._unit == "time":
            self._reach(tick)

    @property
    def _unit(self) -> str:
        return self._window.unit

    @property
    def _window(self) -> SlidingWindow:
        return next(iter(self.views.values())).window

    # The maintainer's calls.

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Put rows into their panes."""
        delta = rows_of(delta)
        self._begin()
        self._reach_tick()
        if not delta.size:
            return
        first, before = self._arrived, self.reached
        self._arrived += delta.size
        if self._order is not None:
            found = self._order.add(delta, first)
            if found is None:
                self._number_anew(delta, before)
                return
            delta = found[0]
        times, delta = self._moments(delta, first)
        self._count_late(times, delta, before)
        if not delta.size:
            return
        for planned in self._lanes.values():
            planned.take(planned.lane.rows(delta, times, first), before)

    def _all_moments(self, rows: Delta) -> tuple[Array, Delta]:
        """The same for all rows of the stream."""
        if self._window.unit == "rows" and self._window.column:
            self._order = self._order or RowOrder(self._window.column)
            rows, _ = self._order.start(rows)
            self._order.forget(self._farthest)
        return self._moments(rows, 0)

    @property
    def _farthest(self) -> int:
        """So many rows can windows see."""
        return max(each.farthest for each in self._lanes.values())

    def _number_anew(self, delta: Delta, before: int | None) -> None:
        """Rows of a window of rows come late: those after them move on by so many places."""
        assert self._order is not None
        shown = {id(v): v.contents() for p in self._lanes.values() for v in p.listed}
        rows, numbers = self._order.add_late(delta, self._arrived)
        self._reach(self._arrived)
        self._count_unseen(delta, rows, before)
        for planned in self._lanes.values():
            planned.refill(planned.lane.rows(rows, numbers, int(numbers[0])), self.reached)
            for view in planned.listed:
                view.note_difference(shown[id(view)])

    def _count_unseen(self, delta: Delta, rows: Delta, reached: int | None) -> None:
        """The late rows among these come before all that a view shows."""
        if reached is None:
            return
        at = rows.schema.names.index(self._window.column)
        times, late = rows.columns[at], np.sort(delta.columns[at])
        for view in self.views.values():
            end = view.window.last_end(self._arrived) - view.window.size
            first = end - (self._arrived - rows.size)
            if 0 < first < len(times):
                unseen = int(np.searchsorted(late, times[first]))
                if unseen:
                    self._late.setdefault(id(view), view.late_rows)
                    view.late_rows += unseen

    def _moments(self, delta: Delta, first: int) -> tuple[Array, Delta]:
        """The moment of each row, and the rows that have one; time goes on."""
        window = self._window
        if window.unit == "rows":
            self._reach(first + delta.size)
            return np.arange(first, first + delta.size), delta
        at = delta.schema.names.index(window.column)
        mask = delta.nulls[at]
        if mask is not None and mask.any():
            delta = delta.take(mask == 0)  # a row without a time is in no window
        times = delta.columns[at]
        coming = times if delta.multiplicity is None else times[delta.multiplicity > 0]
        if len(coming):
            self._reach(int(coming.max()) - window.lateness)
        return times, delta

    def _reach(self, moment: int) -> None:
        self.reached = moment if self.reached is None else max(self.reached, moment)

    def _count_late(self, times: Array, delta: Delta, reached: int | None) -> None:
        """Rows that come when no window of a view can see them any more."""
        if reached is None or not len(times):
            return
        earliest = int(times.min())
        if earliest >= reached - min(each.shortest for each in self._lanes.values()):
            return
        coming = np.sort(times if delta.multiplicity is None else times[delta.multiplicity > 0])
        for view in self.views.values():
            late = int(np.searchsorted(coming, view.window.last_end(reached) - view.window.size))
            if late:
                self._late.setdefault(id(view), view.late_rows)
                view.late_rows += late

    def _begin(self) -> None:
        if self._saved is None:
            self.settle()
            self._saved = self.reached, self._arrived
            if self._order is not None:
                self._order.begin()
            for planned in self._lanes.values():
                planned.begin()

    def advance(self, watermark: int) -> None:
        """Time has come this far."""
        self._begin()
        if self._unit == "time":
            self._reach(watermark)

    def flush(self) -> dict[str, Delta]:
        """The changes of the views that are followed."""
        if self._saved is None:
            return {}
        before = self._saved[0]
        outputs = {}
        for planned in self._lanes.values():
            for view in planned.listed:
                if self.reached is not None:
                    end = view.window.last_end(self.reached)
                    since = None if before is None else view.window.last_end(before)
                    if (since is None or end > since) and not view.is_renewed:
                        view.slide(since, end)
                outputs[view.name] = view.output()
            if planned.may_overflow:
                for view in planned.views.values():
                    view.contents()
        return outputs

    def commit(self) -> None:
        """Keep what was applied."""
        if self._saved is None:
            return
        self.refreshes += 1
        self._saved = None
        self._late.clear()
        for planned in self._lanes.values():
            planned.commit(self.reached)
        if self._order is not None:
            self._order.forget(self._farthest)

    def rollback(self) -> None:
        """Go back to the last commit."""
        if self._saved is None:
            return
        self.reached, self._arrived = self._saved
        self._saved = None
        for key, late in self._late.items():
            self.views[key].late_rows = late
        self._late.clear()
        if self._order is not None:
            self._order.rollback()
        for planned in self._lanes.values():
            planned.rollback()


def _rate(rows: Delta, times: Array, unit: str) -> float | None:
    """Rows per unit of time, if there are enough to tell."""
    if unit == "rows":
        return 1.0
    span = int(times.max()) - int(times.min()) if len(times) > 1 else 0
    return len(times) / span if span else None

"""All window views over one stream: rows are taken once, partials are kept once.

takes  the programs of views whose bodies are `Windowed`, a way to plan trees, the stream's rows
gives  a `WindowView` for each; together they are one maintainer

A view that joins or goes only marks its lane. Before rows come or answers are read the marked lanes
are planned again, all at once, and trees that changed are filled from the stream's rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.algebra.windows import SlidingWindow
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Product, rows_of
from viewmill.kernels import compiler
from viewmill.kernels.build import build
from viewmill.kernels.grouped_windows import GroupedWindowsView
from viewmill.kernels.lane_reading import Reading
from viewmill.kernels.planned_lane import LaneKey, PlannedLane
from viewmill.kernels.row_order import RowOrder
from viewmill.kernels.window_lane import InOrder, Lane
from viewmill.kernels.window_view import WindowView
from viewmill.program.program import Program
from viewmill.program.windows import Asked, LanePlan, LaneSpec, LaneUse, Windowed, WindowsPlan

Array = npt.NDArray[Any]
# Windows, which of them are followed, what was asked for, what the lane offers, rows per unit.
Planner = Callable[
    [Sequence[SlidingWindow], Sequence[bool], Asked, frozenset[str], float | None], WindowsPlan
]

# Kinds of views, some rows, rows per unit, the fragments that joined lanes have.
LanePlanner = Callable[
    [Sequence[LaneUse], Delta, float | None, Mapping[frozenset[int], int]], list[LanePlan]
]


class Watermark(Protocol):
    """How far time has come for the stream: now, or when the family took its last change (seen)."""

    def __call__(self, *, seen: bool) -> int | None: ...


_FRAGMENT_SLACK = 64  # fragments beyond the planned ones before lanes are planned again


class WindowFamily:
    """All window views over one stream, fed the same batches and sharing partials."""

    def __init__(
        self,
        source: str,
        dictionary: Dictionary,
        plan: Planner,
        rows: Callable[[], Delta],
        watermark: Watermark,
        *,
        has_deletes: bool = True,
        may_owe: bool = False,
        lanes: LanePlanner | None = None,
        is_shared: bool = False,
        compiled: bool | None = None,
    ) -> None:
        self.source = source
        self.views: dict[int, WindowView] = {}
        self._named: Counter[str] = Counter()
        self.is_shared = is_shared
        self.refreshes = 0  # batches since the family began
        self.reached: int | None = None  # the watermark, or the number of rows
        self._dictionary, self._plan, self._rows = dictionary, plan, rows
        self._watermark = watermark
        self._plan_lanes = lanes  # without it only views that prepare rows alike share a lane
        self._has_deletes, self._may_owe = has_deletes, may_owe
        self.compiled = compiler.is_on(compiled)
        self._lanes: list[PlannedLane] = []
        self._open: set[tuple[Asked, str]] = set()  # kinds of views whose lanes are not decided
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
        made = WindowView if body.every is None else GroupedWindowsView
        view = made(name, view_name, program, body, self)
        if body.finish is not None:
            view.finish = self._finish(body.finish)
        self.join(view)
        return view

    def join(self, member: WindowView) -> None:
        """A view comes, or comes back."""
        if id(member) in self.views:
            return
        self.views[id(member)] = member
        self._named[member.view_name] += 1
        member.begin_at(self.refreshes)
        planned = next((each for each in self._lanes if member.key in each.keys), None)
        if planned is None and self._plan_lanes is not None and member.body.parts is not None:
            self._open.add(_kind(member))
            return
        if planned is None:
            body = member.body
            spec = LaneSpec(body.keys, body.prepare, body.picked)
            planned = self._new_lane(spec, body.asked)
        self._put(member, planned)

    def _new_lane(self, spec: LaneSpec, asked: Asked, why: str = "") -> PlannedLane:
        lane = Lane(
            spec,
            self._dictionary,
            self.compiled,
            has_deletes=self._has_deletes,
            may_owe=self._may_owe,
        )
        self._lanes.append(PlannedLane(lane, asked, why))
        return self._lanes[-1]

    def _put(self, member: WindowView, planned: PlannedLane) -> None:
        calls = planned.calls_of(member)
        if planned.lane.add(calls):
            planned.spoil()
        member.take_place(planned, planned.readings.get(member.key), calls)
        planned.add(member)

    def _finish(self, program: Program) -> InOrder:
        known = self._finishes.get(program.fingerprint)
        if known is None:
            known = InOrder(build(program, self._dictionary, compiled=self.compiled))
            self._finishes[program.fingerprint] = known
        return known

    def leave(self, member: WindowView) -> None:
        """A view goes."""
        if self.views.pop(id(member), None) is None:
            return
        self._named[member.view_name] -= 1
        if not self._named[member.view_name]:
            del self._named[member.view_name]
        if member.planned is not None:
            self._take_out(member, member.planned)
            if member.planned.is_joined and len(member.planned.keys) == 1:
                self._open.add(_kind(member))

    def _take_out(self, member: WindowView, planned: PlannedLane) -> None:
        planned.remove(member)
        if not planned.views:
            self._lanes.remove(planned)

    def follow(self, view: WindowView, followed: bool) -> None:
        """Whether somebody wants every change of a view."""
        if view.followed != followed:
            view.follow(followed)
            if view.planned is not None:
                view.planned.forget_listed()

    def spoil(self, view: WindowView) -> None:
        """Build what a view reads again, from the stream's rows."""
        view.forget_shown()
        if view.planned is not None:
            view.planned.spoil()

    def _planned(self, view: WindowView) -> PlannedLane:
        self.settle()
        assert view.planned is not None
        return view.planned

    def plan_of(self, view: WindowView) -> WindowsPlan:
        """How the view's lane is run."""
        plan = self._planned(view).plan
        assert plan is not None
        return plan

    def sharing(self, view: WindowView) -> list[str]:
        """The other views that read the same tree."""
        others = (each for each in self._planned(view).views.values() if each is not view)
        return sorted(each.view_name for each in others if each.tree is view.tree)

    def shares(self, view: WindowView) -> dict[str, int]:
        """The bytes of a view's tree and lane, spread over the views that share them."""
        tree, planned = view.tree, view.planned
        if tree is None or planned is None:
            return {"partials": 0}
        return {
            "partials": tree.nbytes // max(1, tree.readers),
            "lane": view.lane.nbytes // len(planned.views),
        }

    def settle(self) -> None:
        """Plan the lanes that changed, and fill their new trees from the stream's rows.

        Not while a change is under way: the stream does not have its rows yet.
        """
        if self._saved is not None:
            return
        for planned in self._lanes:
            order = planned.lane.order
            if order is not None and order.is_tight:
                order.give_anew()
                planned.spoil()
        if not self.views or not (self._open or any(each.is_marked for each in self._lanes)):
            return
        rows = self._rows()
        self._arrived = max(self._arrived, rows.size)
        self._reach_watermark(seen=True)
        times, rows = self._all_moments(rows)
        rate = _rate(rows, times, self._unit)
        self._place(rows, rate)
        for planned in self._lanes:
            if planned.is_marked:
                fresh = planned.replan(self._plan, self.compiled, rate)
                if fresh:
                    planned.fill(fresh, rows, times, self.reached)

    def _place(self, rows: Delta, rate: float | None) -> None:
        """Decide which views share a lane, where some came or went or fragments became many."""
        for kind in self._open:
            views: dict[LaneKey, list[WindowView]] = {}
            for each in self.views.values():
                if each.body.parts is not None and _kind(each) == kind:
                    views.setdefault(each.key, []).append(each)
            if views:
                self._share(views, rows, rate)
        self._open.clear()

    def _share(
        self, views: dict[LaneKey, list[WindowView]], rows: Delta, rate: float | None
    ) -> None:
        assert self._plan_lanes is not None
        keys = list(views)
        uses = [_use(each) for each in views.values()]
        at = {key: i for i, key in enumerate(keys)}
        measured = {
            frozenset(at[key] for key in lane.keys): len(lane.lane.numbers)
            for lane in self._lanes
            if lane.is_joined and lane.keys.keys() <= at.keys()
        }
        for plan in self._plan_lanes(uses, rows, rate, measured):
            own = [keys[i] for i in plan.members]
            planned = self._lane_for(own, views[own[0]][0], plan)
            planned.fragments = len(planned.lane.numbers)
            for member in (each for key in own for each in views[key]):
                if member.planned is planned:
                    continue
                if member.planned is not None:
                    self._take_out(member, member.planned)
                self._put(member, planned)

    def _lane_for(self, keys: list[LaneKey], example: WindowView, plan: LanePlan) -> PlannedLane:
        """The existing lane of these views, or a new one."""
        body, wanted = example.body, set(keys)
        for each in self._lanes:
            same = each.keys.keys() == wanted if plan.joined else keys[0] in each.keys
            if same and each.is_joined == (plan.joined is not None):
                each.why = plan.why
                return each
        if plan.joined is None:
            return self._new_lane(LaneSpec(body.keys, body.prepare, body.picked), body.asked)
        planned = self._new_lane(plan.joined.spec, body.asked, plan.why)
        for key, how in zip(keys, plan.joined.readings, strict=True):
            schema = Schema(tuple(plan.joined.spec.keys[i] for i in how.keys))
            planned.readings[key] = Reading(planned.lane, how, schema, self.compiled)
        return planned

    def _reach_watermark(self, *, seen: bool) -> None:
        moment = self._watermark(seen=seen) if self._unit == "time" else None
        if moment is not None:
            self._reach(moment)

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
        before = self._begin()
        self._reach_watermark(seen=False)
        if not delta.size:
            return
        first = self._arrived
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
        for planned in self._lanes:
            planned.take(planned.lane.rows(delta, times, first), before)

    def _all_moments(self, rows: Delta) -> tuple[Array, Delta]:
        """The moments of all rows of the stream, and the rows in their order."""
        if self._window.unit == "rows" and self._window.column:
            self._order = self._order or RowOrder(self._window.column)
            rows, _ = self._order.start(rows)
            self._order.forget(self._farthest)
        return self._moments(rows, 0)

    @property
    def _farthest(self) -> int:
        """How many rows back the longest window reaches."""
        return max(each.window.size + each.window.slide for each in self.views.values())

    def _number_anew(self, delta: Delta, before: int | None) -> None:
        """Insert late rows into a row-counted window: later rows are renumbered."""
        assert self._order is not None
        shown = {id(v): v.contents() for p in self._lanes for v in p.listed}
        rows, numbers = self._order.add_late(delta, self._arrived)
        self._reach(self._arrived)
        self._count_unseen(delta, rows, before)
        for planned in self._lanes:
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
        """Count rows that arrive after every window of a view has closed."""
        if reached is None or not len(times):
            return
        earliest = int(times.min())
        if earliest >= reached - min(each.shortest for each in self._lanes):
            return
        coming = np.sort(times if delta.multiplicity is None else times[delta.multiplicity > 0])
        for view in self.views.values():
            if view.shows_all_windows:
                continue
            late = int(np.searchsorted(coming, view.window.last_end(reached) - view.window.size))
            if late:
                self._late.setdefault(id(view), view.late_rows)
                view.late_rows += late

    def _begin(self) -> int | None:
        """A change comes; how far time had come before it."""
        if self._saved is None:
            self.settle()
            self._saved = self.reached, self._arrived
            if self._order is not None:
                self._order.begin()
            for planned in self._lanes:
                planned.begin()
        return self._saved[0]

    def flush(self) -> dict[str, Delta]:
        """The changes of the views that are followed."""
        if self._saved is None:
            return {}
        before = self._saved[0]
        outputs = {}
        for planned in self._lanes:
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
        for planned in self._lanes:
            planned.commit(self.reached)
        if self._order is not None:
            self._order.forget(self._farthest)
        for planned in self._lanes:
            if (
                planned.is_joined
                and len(planned.lane.numbers) > 2 * planned.fragments + _FRAGMENT_SLACK
            ):
                self._open.add(_kind(next(iter(planned.views.values()))))

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
        for planned in self._lanes:
            planned.rollback()


def _rate(rows: Delta, times: Array, unit: str) -> float | None:
    """Rows per unit of time, if there are enough to tell."""
    if unit == "rows":
        return 1.0
    span = int(times.max()) - int(times.min()) if len(times) > 1 else 0
    return len(times) / span if span else None


def _kind(view: WindowView) -> tuple[Asked, str]:
    """Views of different kinds are never joined."""
    assert view.body.parts is not None
    return view.body.asked, view.body.parts.kind


def _use(views: Sequence[WindowView]) -> LaneUse:
    parts = views[0].body.parts
    assert parts is not None
    windows = tuple(view.window for view in views)
    return LaneUse(parts, windows, tuple(view.is_listed for view in views))

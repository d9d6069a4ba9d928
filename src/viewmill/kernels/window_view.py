"""One view of a family: a maintainer that answers from the partials of its tree.

Its rows are computed when they are read. Only while somebody follows it are the answers of all
slides listed: for each group that changed the old one deleted, the new one inserted, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.algebra.windows import SlidingWindow
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.product import Product
from viewmill.errors import EvaluationFailed, Overflow
from viewmill.kernels.shown_answers import ShownAnswers
from viewmill.kernels.window_payloads import kept_words
from viewmill.kernels.window_store import Layout, Payloads, nothing
from viewmill.kernels.window_tree import EARLIEST, Tree
from viewmill.program.program import Maintainer, Program
from viewmill.program.windows import Asked, WindowAggregate, Windowed

if TYPE_CHECKING:
    from viewmill.kernels.group_numbers import GroupNumbers
    from viewmill.kernels.lane_reading import Reading
    from viewmill.kernels.planned_lane import PlannedLane
    from viewmill.kernels.window_family import WindowFamily
    from viewmill.kernels.window_lane import InOrder, Lane

Array = npt.NDArray[Any]
Answered = tuple[Array, Payloads, Payloads]  # groups, their answers before and after


class WindowView(Maintainer):
    """A view's handle on its family."""

    shows_all_windows = False  # whether all windows are shown, and not the last one
    family: WindowFamily
    lane: Lane
    planned: PlannedLane | None = None  # the lane with its trees, once it has a place
    reading: Reading | None = None  # of a lane that is cut more finely
    places: list[int]  # of the components that keep the aggregates

    def __init__(
        self, name: str, view_name: str, program: Program, body: Windowed, family: WindowFamily
    ) -> None:
        self.name, self.view_name, self.family = name, view_name, family
        self.program, self.body = program, body
        self.window = body.window
        self.tree: Tree | None = None
        self.finish: InOrder | None = None  # given by the family
        self.followed = False  # whether somebody wants every change
        self.late_rows = 0
        self._joined = 0
        self.is_renewed = False  # whether its changes are listed as a whole already
        self._shown: ShownAnswers | None = None  # while changes are listed
        self._changes: list[Answered] = []
        self._output: Delta | None = None  # flushed, not committed

    def begin_at(self, batch: int) -> None:
        """Reset the view when it joins, or rejoins, at a batch."""
        self._joined, self._shown, self.planned, self.tree = batch, None, None, None

    def take_over(self, old: WindowView, translate: Callable[[Delta], Delta]) -> None:
        """Continue for the maintainer of the same view before, with other ids of strings.

        Floats that followers have been told stay, to the last bit.
        """
        self.family.refreshes, self._joined = old.family.refreshes, old._joined
        self.late_rows = old.late_rows
        self.family.follow(self, old.followed)
        self.family.settle()
        if old._shown is None:
            return
        self.begin()
        told, shown, layout = old._shown.groups(), self._listed(), self.lane.layout
        groups = self._groups_of(old, told, translate)
        _, reals = old._shown.get(old.lane.layout, told)
        words, own = shown.get(layout, groups)
        for here, there in zip(self.places, old.places, strict=True):
            _, _, start, end = layout.places[here]
            _, _, first, last = old.lane.layout.places[there]
            own[:, start:end] = reals[:, first:last]
        shown.put(layout, groups, (words, own))
        shown.commit()

    def _groups_of(
        self, old: WindowView, groups: Array, translate: Callable[[Delta], Delta]
    ) -> Array:
        """The numbers here of groups that have other numbers there."""
        if not self.body.keys:
            return groups
        keys = translate(old._numbers.keys(groups))
        return self._numbers.of(keys.columns, keys.nulls, keys.size)

    def take_place(
        self, planned: PlannedLane, reading: Reading | None, calls: Sequence[WindowAggregate]
    ) -> None:
        """The lane that the view reads from now on; what followers have been told stays."""
        told = None if self._shown is None else self._told(self._shown)
        self.planned, self.lane, self.reading, self.tree = planned, planned.lane, reading, None
        self.places = [self.lane.place_of(call) for call in calls]
        self._shown = None if told is None else self._shown_again(*told)

    @property
    def _numbers(self) -> GroupNumbers:
        """The numbering of the view's groups."""
        return self.lane.numbers if self.reading is None else self.reading.numbers

    def _told(self, shown: ShownAnswers) -> tuple[Delta, list[Payloads]]:
        """What followers have been told: keys, and the payloads of its components."""
        groups, layout = shown.groups(), self.lane.layout
        words, reals = shown.get(layout, groups)
        places = [layout.places[each] for each in (0, *self.places)]
        return self._numbers.keys(groups), [
            (words[:, w:end_w], reals[:, r:end_r]) for w, end_w, r, end_r in places
        ]

    def _shown_again(self, keys: Delta, told: list[Payloads]) -> ShownAnswers:
        groups = self._numbers.of(keys.columns, keys.nulls, keys.size)
        layout = Layout(self.lane.components)
        words, reals = nothing(layout, keys.size)
        for each, payload in zip((0, *self.places), told, strict=True):
            w, end_w, r, end_r = layout.places[each]
            words[:, w:end_w], reals[:, r:end_r] = payload
        return ShownAnswers(layout, groups, (words, reals))

    @property
    def key(self) -> tuple[str, Asked]:
        """Equal for views that prepare rows alike and ask for the same."""
        return self.body.lane, self.body.asked

    @property
    def is_grouped(self) -> bool:
        """Whether groups without rows are not shown."""
        return bool(self.body.keys)

    def ranges(self) -> list[SlidingWindow]:
        """The windows that it asks for."""
        return [self.window]

    @property
    def batches(self) -> int:
        """How many batches it has taken."""
        return self.family.refreshes - self._joined

    def count_rows(self) -> int:
        """How many rows it shows."""
        return int(self.contents().multiplicities().sum())

    @property
    def is_listed(self) -> bool:
        """Whether all changes are listed: somebody reads them, or they could fail."""
        return self.followed or not self.body.is_safe

    def _tree(self) -> Tree:
        self.family.settle()
        assert self.tree is not None
        return self.tree

    # Answers.

    def _span(self, end: Array | int) -> tuple[Array | int, Array | int]:
        return end - self.window.size, end

    def _rows(self, groups: Array, payloads: Payloads, signs: Array) -> Delta:
        """Answers as rows of the finish program, without those of groups that are not there."""
        words, reals = payloads
        if self.is_grouped:
            there = words[:, 0] > 0
            groups, words, reals, signs = groups[there], words[there], reals[there], signs[there]
        columns, nulls = self._keys(groups)
        for call, place in zip(self.body.aggregates, self.places, strict=True):
            own = self.lane.layout.columns(place, words, reals)
            values, null = self.lane.components[place].finish(call, *own)
            values = kept_words(values, self.lane.dictionary)
            columns.append(np.where(null, 0, values).astype(values.dtype, copy=False))
            nulls.append(null.astype(np.uint8) if null.any() else None)
        if self.finish is None:
            picked = self.body.shown
            output = self.program.output
            taken = tuple(columns[i] for i in picked)
            return Delta(output, taken, tuple(nulls[i] for i in picked), signs, len(signs))
        numbers = np.arange(len(signs))
        schema = self.finish.schema
        return Delta(schema, (numbers, *columns), (None, *nulls), signs, len(signs))

    def _keys(self, groups: Array) -> tuple[list[Array], list[Array | None]]:
        """The keys of groups as columns."""
        if not self.body.keys:
            return [], []
        keys = self._numbers.keys(groups)
        return list(keys.columns), list(keys.nulls)

    def _finished(self, parts: list[Delta]) -> Delta:
        if not parts:
            return Delta.empty(self.program.output)
        if self.finish is None:
            return concat(self.program.output, parts)
        return self.finish.run_in_order(parts, self.program.output)

    def contents(self) -> Delta:
        """The last answer of each group, as committed."""
        tree = self._tree()
        if self._shown is not None:
            groups = self._shown.groups() if self.is_grouped else np.zeros(1, np.int64)
            payloads = self._shown.get(self.lane.layout, groups)
        else:
            groups, payloads = self._answers(tree)
        now = self._finished([self._rows(groups, payloads, np.ones(len(groups), np.int64))])
        if self._output is None or not self._output.size:
            return now
        return consolidate(concat(now.schema, [now, self._output.negated()]))

    def _answers(self, tree: Tree) -> tuple[Array, Payloads]:
        """The groups, and the answers at the last end of a window."""
        reached = self.family.reached
        groups = np.zeros(1, np.int64)
        if self.body.keys:
            groups = tree.store.groups()
            groups = groups if self.reading is None else self.reading.groups(groups)
        if reached is None:
            groups = groups[:0] if self.body.keys else groups
            return groups, self._answer(tree, groups, 0, 0)
        return groups, self._answer(tree, groups, *self._span(self.window.last_end(reached)))

    def _answer(self, tree: Tree, groups: Array, first: Array | int, end: Array | int) -> Payloads:
        """The aggregate of groups over [first, end)."""
        if self.reading is None:
            return tree.answer(groups, first, end, self.window)
        fragments, at = self.reading.members(groups)
        first, end = (np.broadcast_to(each, groups.shape)[at] for each in (first, end))
        return self.lane.folded(tree.answer(fragments, first, end, self.window), at, len(groups))

    def begin(self) -> None:
        """A change comes: remember what is shown before it, to let that very rows go."""
        if self._shown is None:
            groups, payloads = self._answers(self._tree())
            self._shown = ShownAnswers(self.lane.layout, groups, payloads)

    def follow(self, followed: bool) -> None:
        """Whether somebody wants every change from now on."""
        self.followed = followed
        if not self.is_listed:
            self._shown = None

    def forget_shown(self) -> None:
        """Discard the cached answers, so that they are recomputed."""
        self._shown = None

    # Changes.

    def watch(self, groups: Array, panes: Array, end: int | None) -> Callable[[], None] | None:
        """Rows come for these pairs: if the last answer shows them, it is corrected."""
        if end is None:
            return None
        first, _ = self._span(end)
        seen = self._own(groups[(panes >= first) & (panes < end)])
        if not len(seen):
            return None
        tree, shown, layout = self._tree(), self._listed(), self.lane.layout

        def changed() -> None:
            old, new = shown.get(layout, seen), self._answer(tree, seen, first, end)
            shown.put(layout, seen, new)
            self._note(seen, old, new)

        return changed

    def _own(self, groups: Array) -> Array:
        """The view's groups among those of the lane."""
        return np.unique(groups) if self.reading is None else self.reading.groups(groups)

    def _listed(self) -> ShownAnswers:
        assert self._shown is not None
        return self._shown

    def slide(self, old_end: int | None, end: int) -> None:
        """Answer every window that ends after `old_end`, up to `end`."""
        tree = self._tree()
        moments, groups = self._events(tree, old_end, end)
        if not len(moments):
            return
        new = self._answer(tree, groups, *self._span(moments))
        # The answer before: that of the group's last event, or of the end that was reached before.
        shown, layout = self._listed(), self.lane.layout
        by_group = np.lexsort((moments, groups)) if self.body.keys else slice(None)
        ordered = groups[by_group]
        first = np.ones(len(groups), np.bool_)
        first[1:] = ordered[1:] != ordered[:-1]
        before = shown.get(layout, ordered[first])
        old = np.empty_like(new[0]), np.empty_like(new[1])
        for to, now, earlier in zip(old, new, before, strict=True):
            moved = np.empty_like(now)
            moved[1:] = now[by_group][:-1]
            moved[first] = earlier
            to[by_group] = moved
        last = np.arange(len(groups))[by_group][np.append(first[1:], True)]
        shown.put(layout, groups[last], (new[0][last], new[1][last]))
        self._note(groups, old, new)

    def _events(self, tree: Tree, old_end: int | None, end: int) -> tuple[Array, Array]:
        """The ends of windows at which a group's panes enter or leave, in order."""
        size, slide = self.window.size, self.window.slide
        since = EARLIEST if old_end is None else old_end
        panes, groups = tree.log.between(since, end)
        enters = (panes // slide + 1) * slide
        seen = panes >= enters - size
        low = EARLIEST if old_end is None else old_end - size
        gone, gone_groups = tree.log.between(low, end - size)
        leaves = ((gone + size) // slide + 1) * slide
        was_seen = gone >= (gone // slide + 1) * slide - size
        moments = np.concatenate([enters[seen], leaves[was_seen]])
        both = np.concatenate([groups[seen], gone_groups[was_seen]])
        if self.reading is not None:
            both = self.reading.owners(both)
            moments, both = moments[both >= 0], both[both >= 0]
        if not self.body.keys:
            moments = _multiples(moments, slide)
            return moments, np.zeros(len(moments), np.int64)
        order = np.lexsort((both, moments))
        moments, both = moments[order], both[order]
        new = np.ones(len(moments), np.bool_)
        new[1:] = (moments[1:] != moments[:-1]) | (both[1:] != both[:-1])
        return moments[new], both[new]

    def note_difference(self, before: Delta) -> None:
        """What is shown changed as a whole: the old rows that differ go, the new ones come."""
        self._output = None
        groups, payloads = self._answers(self._tree())
        shown, layout = self._listed(), self.lane.layout
        gone = np.setdiff1d(shown.groups(), groups)
        shown.put(layout, gone, nothing(layout, len(gone)))
        shown.put(layout, groups, payloads)
        after = self.contents()
        self._output = consolidate(concat(after.schema, [before.negated(), after]))
        self.is_renewed = True

    def _note(self, groups: Array, old: Payloads, new: Payloads) -> None:
        """Note for each group its old answer and its new one."""
        self._changes.append((groups, old, new))

    def _signed(self, groups: Array, old: Payloads, new: Payloads) -> Delta:
        size = len(groups)
        both = tuple(
            np.stack([a, b], axis=1).reshape(2 * size, -1) for a, b in zip(old, new, strict=True)
        )
        signs = np.tile(np.array([-1, 1]), size)
        return self._rows(np.repeat(groups, 2), (both[0], both[1]), signs)

    # The maintainer's calls: of a family of one.

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Feed the stream's rows to the whole family."""
        self.family.apply(input, delta)

    def flush(self) -> Delta:
        """Answer every window that has ended; all answers in order."""
        self.family.flush()
        return self.output()

    def output(self) -> Delta:
        """All changes since the last commit."""
        if self._changes:
            changes, self._changes = self._changes, []
            more = self._taken(changes)
            self._output = (
                more if self._output is None else concat(more.schema, [self._output, more])
            )
        return Delta.empty(self.program.output) if self._output is None else self._output

    def _taken(self, changes: list[Answered]) -> Delta:
        """All answers in order; if one that is over already has no value, only the last ones."""
        try:
            return self._finished([self._signed(*each) for each in changes])
        except (Overflow, EvaluationFailed):
            return self._finished([self._signed(*_net(changes))])

    def forget_changes(self, *, undo: bool) -> None:
        """Drop the pending changes after a commit or rollback."""
        self._changes, self._output, self.is_renewed = [], None, False
        if self._shown is not None:
            if undo:
                self._shown.rollback()
            else:
                self._shown.commit()

    def commit(self) -> None:
        """Keep what was applied."""
        self.family.commit()

    def rollback(self) -> None:
        """Go back to the last commit."""
        self.family.rollback()

    def state_bytes(self) -> Mapping[str, int]:
        """This view's share of what its tree and lane hold."""
        return self.family.shares(self)

    @property
    def schema(self) -> Schema:
        """The schema of the output."""
        return self.program.output


def _net(changes: list[Answered]) -> Answered:
    """The net change per group: the first old answer and the last new one."""
    groups = np.concatenate([each for each, _, _ in changes])
    own, first = np.unique(groups, return_index=True)
    _, last = np.unique(groups[::-1], return_index=True)
    last = len(groups) - 1 - last
    old, new = (
        [np.concatenate([each[side][i] for each in changes]) for i in (0, 1)] for side in (1, 2)
    )
    return own, (old[0][first], old[1][first]), (new[0][last], new[1][last])


def _multiples(moments: Array, step: int) -> Array:
    """Multiples of a step in order, each once; by marking them where that is quicker."""
    if not len(moments):
        return moments
    first = int(moments.min())
    count = (int(moments.max()) - first) // step + 1
    if count > 4 * len(moments):
        return np.unique(moments)
    marked = np.zeros(count, np.bool_)
    marked[(moments - first) // step] = True
    return np.flatnonzero(marked) * step + first

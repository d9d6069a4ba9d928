"""Views of a stream whose rows become the same groups and arguments: they are prepared once.

takes  the rows of a batch with their moments
gives  `LaneRows`: those that WHERE lets through, with the number of their group
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT
from viewmill.deltas.consolidate import group_rows
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.kernels.build import build
from viewmill.kernels.group_numbers import GroupNumbers
from viewmill.kernels.linear import Linear
from viewmill.kernels.sorted_runs import SortedRuns
from viewmill.kernels.string_order import StringOrder
from viewmill.kernels.window_library import window_kernel
from viewmill.kernels.window_payloads import Component, Count, Rows, UserOperation, component_of
from viewmill.kernels.window_store import Layout, Payloads, nothing
from viewmill.program.windows import FRAGMENT, LaneSpec, WindowAggregate

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class LaneRows:
    """Rows as columns."""

    times: Array
    arrivals: Array
    groups: Array
    multiplicity: Array
    columns: tuple[Array, ...]
    nulls: tuple[Array | None, ...]

    def __len__(self) -> int:
        return len(self.times)

    def take(self, places: Array) -> LaneRows:
        """Some of them."""
        return LaneRows(
            self.times[places],
            self.arrivals[places],
            self.groups[places],
            self.multiplicity[places],
            tuple(each[places] for each in self.columns),
            tuple(None if each is None else each[places] for each in self.nulls),
        )


class Lane:
    """What is common to views with the same WHERE, keys and arguments, or to views whose rows are
    cut finely enough for all of them."""

    def __init__(
        self,
        spec: LaneSpec,
        dictionary: Dictionary,
        compiled: bool,
        *,
        has_deletes: bool,
        may_owe: bool = False,
    ) -> None:
        self.spec, self._has_deletes = spec, has_deletes
        self._may_owe, self._owes = may_owe, False
        self._compiled = compiled
        fragment = (Field(FRAGMENT, BIGINT, False),) if spec.predicates else ()
        self.numbers = GroupNumbers(Schema((*spec.keys, *fragment)), compiled)
        self._prepare: Linear | None = None
        if spec.prepare is not None:
            self._prepare = Linear(build(spec.prepare, dictionary, compiled=compiled))
        # The first component counts rows: a group is there while it has some.
        self.components: list[Component] = [Count(())]
        self.layout = Layout(self.components)
        self.dictionary = dictionary
        self.order: StringOrder | None = None  # where strings are compared
        self.raw: SortedRuns | None = None  # the rows themselves, where partials do not suffice

    def add(self, calls: Sequence[WindowAggregate]) -> bool:
        """Keep what these aggregates need; whether that is more than before."""
        before = len(self.components)
        for call in calls:
            self.place_of(call)
        if len(self.components) == before:
            return False
        self.layout = Layout(self.components)
        if self.order is None and any(getattr(each, "by_text", False) for each in self.components):
            self.order = StringOrder(self.dictionary)
        undone = not all(each.has_inverse for each in self.components) and self._has_deletes
        if undone or not self.commutes:
            width = 4 + 2 * self._width
            self.raw = SortedRuns(width)
        return True

    @property
    def _width(self) -> int:
        return max((max(each.arguments, default=-1) + 1 for each in self.components), default=0)

    @property
    def has_inverse(self) -> bool:
        """Whether every component can be taken away again."""
        return all(each.has_inverse for each in self.components)

    @property
    def offers(self) -> frozenset[str]:
        """What techniques may need and this lane has: "inverse", "selective".

        Beside what chooses, sums of whole numbers are taken from their inverse. An inverse that a
        user declares for floats is used only by who asks for it.
        """
        found = set()
        if all(each.has("inverse") for each in self.components):
            real = any(not each.is_whole for each in self.operations)
            found |= {"inverse", "float_inverse"} if real else {"inverse"}
        chosen = [each for each in self.components if not each.has_inverse]
        if chosen and all(each.has("selective") for each in chosen):
            found.add("selective")
        return frozenset(found)

    @property
    def commutes(self) -> bool:
        """Whether rows may be combined in any order."""
        return all(each.commutes for each in self.components)

    @property
    def operations(self) -> tuple[Any, ...]:
        """The users' own, in the order of their numbers."""
        return tuple(e.call for e in self.components if isinstance(e, UserOperation))

    def place_of(self, call: WindowAggregate) -> int:
        """The number of the component that keeps an aggregate; a new one if there is none."""
        wanted = component_of(call)
        if isinstance(wanted, UserOperation):
            own = [each for each in self.components if isinstance(each, UserOperation)]
            same = [e for e in own if (e.call, e.arguments) == (call.operation, call.arguments)]
            wanted = same[0] if same else replace(wanted, number=len(own))
        if wanted not in self.components:
            self.components.append(wanted)
        return self.components.index(wanted)

    # Rows.

    def rows(self, delta: Delta, times: Array, first: int) -> LaneRows:
        """The rows of a batch, whose arrivals count from `first`."""
        keys = len(self.spec.keys)
        if self._prepare is None:
            picked = self.spec.picked
            columns = tuple(delta.columns[i] for i in picked)
            nulls = tuple(delta.nulls[i] for i in picked)
            arrivals = np.arange(first, first + delta.size)
            groups = self.numbers.of(columns[:keys], nulls[:keys], delta.size)
            m = delta.multiplicities()
            return LaneRows(times, arrivals, groups, m, columns[keys:], nulls[keys:])
        done = self._prepare.run(_numbered(delta, self._prepare.schema, first))
        columns, nulls = tuple(done.columns), tuple(done.nulls)
        rest = 2 + keys  # after arrival, time and keys come the arguments
        end = len(columns) - (1 if self.spec.predicates else 0)
        own_keys, masks = (*columns[2:rest], *columns[end:]), (*nulls[2:rest], *nulls[end:])
        groups = self.numbers.of(own_keys, masks, done.size)
        arrivals = columns[0]
        m = done.multiplicities()
        found = LaneRows(
            times[arrivals - first], arrivals, groups, m, columns[rest:end], nulls[rest:end]
        )
        return found if self.spec.takes_all else found.take(own_keys[-1] != 0)

    def hold(self, rows: LaneRows) -> None:
        """Keep the rows themselves, where they may be needed again."""
        if self.raw is None or not len(rows):
            return
        width = self._width
        masks = [np.zeros(len(rows), np.uint8) if m is None else m for m in rows.nulls[:width]]
        own = (rows.times, rows.arrivals, rows.groups, rows.multiplicity)
        self.raw.add((*own, *rows.columns[:width], *masks))

    def held(self, first: int, end: int, groups: Array) -> LaneRows:
        """The rows of groups in a stretch of time, those that were deleted left out."""
        assert self.raw is not None
        width = self._width
        found = self.raw.between(first, end)
        rows = LaneRows(
            found[0], found[1], found[2], found[3], found[4 : 4 + width], found[4 + width :]
        )
        rows = rows.take(np.isin(rows.groups, groups))
        rows = rows.take(np.argsort(rows.arrivals, kind="stable"))
        return _cancelled(rows) if (rows.multiplicity < 0).any() else rows

    def needs_rows(self, rows: LaneRows, newest: int | None) -> bool:
        """Whether partials cannot take these rows, so that panes are computed from all of theirs:
        some go, or come before others where order matters."""
        if self.raw is None:
            return False
        goes = bool((rows.multiplicity < 0).any()) and not self.has_inverse
        # Where a row may go before it comes, the one that comes later must meet it.
        self._owes = self._owes or (goes and self._may_owe)
        if self.commutes or goes or self._owes:
            return goes or self._owes
        return newest is None or bool((rows.times < newest).any())

    def lift(self, rows: LaneRows, pairs: Array, count: int) -> tuple[Array, Array]:
        """The payloads of pairs of pane and group; rows are in order."""
        lifted = Rows(
            pairs, count, rows.multiplicity, rows.times, rows.arrivals, rows.columns, rows.nulls,
            None if self.order is None else self.order.labels,
        )  # fmt: skip
        return self.layout.packed([each.lift(lifted) for each in self.components], count)

    def folded(self, payloads: Payloads, at: Array, count: int) -> Payloads:
        """Payloads of fragments put together: each into the place that is said."""
        words, reals = nothing(self.layout, count)
        fold = window_kernel("stretches", "fold", self._compiled, self.operations)
        fold(at, *payloads, words, reals, self.layout.ops)
        return words, reals

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.numbers.nbytes + (0 if self.raw is None else self.raw.nbytes)


class InOrder(Linear):
    """One whose rows have an order."""

    def run_in_order(self, parts: list[Delta], output: Schema) -> Delta:
        """What numbered rows become, in their order, without the number."""
        rows = concat(self.schema, parts)
        numbered = replace(rows, columns=(np.arange(rows.size), *rows.columns[1:]))
        done = self.run(numbered)
        done = done.take(np.argsort(done.columns[0], kind="stable"))
        return Delta(output, done.columns[1:], done.nulls[1:], done.multiplicities(), done.size)


def _numbered(delta: Delta, schema: Schema, first: int) -> Delta:
    """The rows with the number of their arrival as a last column."""
    numbers = np.arange(first, first + delta.size)
    columns, nulls = (*delta.columns, numbers), (*delta.nulls, None)
    return Delta(schema, columns, nulls, delta.multiplicity, delta.size)


def _cancelled(rows: LaneRows) -> LaneRows:
    """Equal rows as one, whenever they arrived; those that are gone left out."""
    masks = [np.zeros(len(rows), np.uint8) if m is None else m for m in rows.nulls]
    columns = [rows.times, rows.groups, *rows.columns, *masks]
    words = np.stack([_bits(each) for each in columns], axis=1)
    first, group = group_rows(words)
    totals = np.zeros(len(first), np.int64)
    np.add.at(totals, group, rows.multiplicity)
    kept = np.flatnonzero(totals > 0)
    order = kept[np.argsort(first[kept], kind="stable")]
    return replace(rows.take(first[order]), multiplicity=totals[order])


def _bits(column: Array) -> Array:
    return column.view(np.int64) if column.dtype == np.float64 else column.astype(np.int64)

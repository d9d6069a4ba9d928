"""A ring that a user wrote: its functions are called where others write arithmetic.

takes  one aggregate whose type says which ring it is, and the tree
gives  a slot for each number of a payload; between lines a payload is the user's own tuple

Payloads are multiplied in the order of FROM. A ring that does not commute is taken only where every
view of the tree joins tables that stand side by side there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from viewmill.algebra.conditions import conjuncts
from viewmill.algebra.expressions import Aggregate, Expression
from viewmill.algebra.packed import Packed
from viewmill.algebra.rings import Payload, RingCall, paths_of
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.program.states import Slot
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.polynomials import columns_in
from viewmill.strategies.view_tree.rings.ring import SlotRef
from viewmill.strategies.view_tree.rows import Rows
from viewmill.strategies.view_tree.tree import View

FUNCTIONS = ("add", "negate", "multiply", "times", "finish")


def ring_of_call(call: Aggregate) -> RingCall | None:
    """The user's ring that an aggregate is of."""
    if isinstance(call.type, Packed) and isinstance(call.type.shape, RingCall):
        return call.type.shape
    return None


class OutOfOrder(NotTaken):
    """A ring that does not commute would be multiplied in another order than it is written."""


@dataclass
class UserRing:
    """The ring of one aggregate."""

    block: Block
    root: View
    call: Aggregate
    slot: str  # how the names of its slots begin
    _arguments: dict[str, list[int]] = field(init=False)
    _guards: dict[str, list[Expression]] = field(init=False)

    def __post_init__(self) -> None:
        made = ring_of_call(self.call)
        assert made is not None
        self.made, self.prefix = made, f"ring_{made.ring.fingerprint}"
        self._places = {each.alias: i for i, each in enumerate(self.block.occurrences)}
        scans = [each.scan for each in self.block.occurrences]
        self._alias_of = {name: scan.alias for scan in scans for name in scan.schema.names}
        self._arguments = {alias: [] for alias in self._places}
        self._guards = {alias: [] for alias in self._places}
        for i, argument in enumerate(self.call.arguments):
            self._arguments[self._table(argument)].append(i)
        for each in conjuncts(self.call.where) if self.call.where is not None else ():
            self._guards[self._table(each)].append(each)
        if not made.commutes:
            self._require_order()

    def _table(self, expression: Expression) -> str:
        aliases = {self._alias_of[name] for name in columns_in(expression)}
        if len(aliases) > 1:
            what = f"{self.call.function} of an expression over several tables"
            raise NotTaken(what, expression.span)
        return next(iter(aliases), self.block.occurrences[0].alias)

    # The order of factors.

    def _span(self, view: View) -> tuple[int, int] | None:
        """The first and the last table below a view that have a factor, as they stand in FROM."""
        found = [self._places[a] for a in view.relations if self._arguments[a]]
        return (min(found), max(found)) if found else None

    def _in_order(self, views: Sequence[View]) -> list[View]:
        """Views in the order of their factors; those without one change nothing."""
        return sorted(views, key=lambda view: self._span(view) or (-1, -1))

    def _require_order(self) -> None:
        reason = f"{self.call.function} does not commute, and "
        given = [i for alias in self._places for i in self._arguments[alias]]
        if given != sorted(given):
            raise OutOfOrder(reason + "its arguments are not in the order of FROM", self.call.span)
        for view in self.root.walk():
            spans = [each for each in map(self._span, view.children) if each is not None]
            spans.sort()
            if any(a[1] > b[0] for a, b in pairwise(spans)):
                raise OutOfOrder(
                    reason + f"the view {view.name} multiplies in another order than FROM",
                    self.call.span,
                )

    # The ring.

    def _names(self) -> list[str]:
        return [f"{self.slot}_{i + 1}" for i in range(len(self.made.kinds))]

    def slots(self, view: View) -> tuple[Slot, ...]:
        """A word for each number."""
        return tuple(
            Slot(name, "int" if kind == "int" else "floats")
            for name, kind in zip(self._names(), self.made.kinds, strict=True)
        )

    def reads(self, leaf: View) -> Sequence[Expression]:
        """The columns of the table, and what guards them."""
        (alias,) = leaf.relations
        return [*(self.call.arguments[i] for i in self._arguments[alias]), *self._guards[alias]]

    def _payload(self, payload: Payload, texts: Sequence[str]) -> str:
        """A payload as text, its numbers from `texts`."""
        waiting = iter(texts)

        def text(part: Payload) -> str:
            if not isinstance(part, tuple):
                return next(waiting)
            inside = ", ".join(text(each) for each in part)
            return f"({inside},)" if part else "()"

        return text(payload)

    def _cast(self, texts: Sequence[str]) -> list[str]:
        """Numbers in the kinds of the payload's words."""
        return [f"{k}({t})" for t, k in zip(texts, self.made.kinds, strict=True)]

    def _same(self, source: Source, text: str) -> str:
        """A payload whose numbers are of their kinds, under a name."""
        name = source.name("payload")
        source.line(f"{name} = {text}")
        paths = paths_of(self.made.ring.zero)
        parts = [name + "".join(f"[{i}]" for i in path) for path in paths]
        source.line(f"{name}_ = {self._payload(self.made.ring.zero, self._cast(parts))}")
        return f"{name}_"

    def _zero(self) -> str:
        zeros = ["0" if kind == "int" else "0.0" for kind in self.made.kinds]
        return self._payload(self.made.ring.zero, zeros)

    def _one(self) -> str:
        paths = paths_of(self.made.ring.one)
        words = []
        for path, kind in zip(paths, self.made.kinds, strict=True):
            value = self.made.ring.one
            for i in path:
                value = value[i]
            words.append(repr(int(value) if kind == "int" else float(value)))
        return self._payload(self.made.ring.one, words)

    def lift(self, source: Source, leaf: View, rows: Rows) -> str:
        """m times the product of the lifts, zero where a column is NULL."""
        (alias,) = leaf.relations
        operands = [(i, rows.value(self.call.arguments[i])) for i in self._arguments[alias]]
        guards = [f"not {o.null}" for _, o in operands if o.null is not None]
        guards += [rows.guard(each) for each in self._guards[alias]]
        text = self._one()
        for n, (i, operand) in enumerate(operands):
            kind = self.made.arguments[i]
            lifted = f"{self.prefix}_lift_{i}({kind}({operand.value}))"
            text = lifted if n == 0 else f"{self.prefix}_multiply({text}, {lifted})"
        name = source.name("lifted")
        source.line(f"{name} = {self._zero()}")
        if guards:
            with source.block(f"if {' and '.join(guards)}:"):
                source.line(f"{name} = {self._times(source, text, 'm')}")
        else:
            source.line(f"{name} = {self._times(source, text, 'm')}")
        return name

    def _times(self, source: Source, text: str, count: str) -> str:
        return f"{self.prefix}_times({self._same(source, text)}, {self._zero()}, {count})"

    def one(self, source: Source, times: str) -> str:
        """The user's one."""
        name = source.name("lifted")
        source.line(f"{name} = {self._times(source, self._one(), times)}")
        return name

    def stored(self, view: View, ref: SlotRef) -> str:
        """What reads the words."""
        return self._payload(self.made.ring.zero, self._words(ref))

    def _words(self, ref: SlotRef) -> list[str]:
        return [
            f"int_at({ref.at(name)})" if kind == "int" else f"floats_get({ref.at(name)})"
            for name, kind in zip(self._names(), self.made.kinds, strict=True)
        ]

    def join(
        self,
        source: Source,
        above: View,
        parts: Sequence[tuple[View, str]],
        keys: Mapping[str, Operand],
    ) -> str:
        """The product in the order of FROM."""
        by_name = {view.name: payload for view, payload in parts}
        views = [view for view, _ in parts if not view.indicates]
        others = [payload for view, payload in parts if view.indicates]
        factors = [*others, *(by_name[view.name] for view in self._in_order(views))]
        text = factors[0]
        for each in factors[1:]:
            text = f"{self.prefix}_multiply({text}, {each})"
        return self._same(source, text) if len(factors) > 1 else text

    def nonzero(self, payload: str) -> None:
        """Only its zero is known, not what equals it."""

    def add(self, source: Source, view: View, payload: str, ref: SlotRef) -> None:
        """The user's sum, word by word back into the entry."""
        old = source.name("kept")
        source.line(f"{old} = {self.stored(view, ref)}")
        total = self._same(source, f"{self.prefix}_add({old}, {payload})")
        paths = paths_of(self.made.ring.zero)
        for name, kind, path in zip(self._names(), self.made.kinds, paths, strict=True):
            function = "ints_set" if kind == "int" else "floats_set"
            value = total + "".join(f"[{i}]" for i in path)
            source.line(f"{function}({ref.at(name)}, {value})")

    def begin(self, source: Source) -> None:
        """Nothing to open: changes go directly to the entry."""

    def gather(self, source: Source, total: None, payload: str, ref: SlotRef) -> None:
        """Add the payload directly to the entry."""
        self.add(source, self.root, payload, ref)

    def end(self, source: Source, total: None, ref: SlotRef) -> None:
        """Nothing to do: every change was added to the entry directly."""

    def finish(self, name: str, call: Aggregate, scalar: Scalar, ref: SlotRef) -> Operand:
        """What the user's finish makes of the payload, or the payload itself."""
        source, ring = scalar.source, self.made.ring
        shown = source.name("shown_value")
        text = self.stored(self.root, ref)
        source.line(f"{shown} = {text if ring.finish is None else f'{self.prefix}_finish({text})'}")
        if self.made.is_single:
            return Operand(f"{self.made.results[0]}({shown})")
        packed = source.name("packed")
        source.line(f"{packed} = scratch({self.made.width})")
        for j, path in enumerate(paths_of(ring.shown(ring.one))):
            value = shown + "".join(f"[{i}]" for i in path)
            source.line(f"floats_put({packed}, {j}, float({value}))")
        return Operand(packed)


def write_times(source: Source, prefix: str) -> None:
    """Write the function that adds up `count` copies of a payload."""
    with source.block(f"def {prefix}_times(payload, zero, count):"):
        with source.block("if count == 1:"):
            source.line("return payload")
        with source.block("if count < 0:"):
            source.line(f"payload = {prefix}_negate(payload)")
            source.line("count = -count")
        source.line("total = zero")
        with source.block("while count > 0:"):
            with source.block("if count & 1:"):
                source.line(f"total = {prefix}_add(total, payload)")
            source.line(f"payload = {prefix}_add(payload, payload)")
            source.line("count >>= 1")
        source.line("return total")
    source.line()

"""Write the trigger of a product: its factors climb the tree side by side (section 5, Optimize).

takes  a plan, an occurrence, the shape of the product
gives  `ProductTrigger`, or None where the rows must be listed; of a product of one factor, the
       trigger of a batch that is summed by key at every view

A change is a set of parts with disjoint keys, each summed up in a scratch state. At a view above, a
part meets the siblings that share a variable with it, and the view's own variable is summed out of
the part that has it; parts that a sibling connects become one. Only where a view is kept are they
multiplied out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace

from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.walk import columns_of
from viewmill.codegen.inputs import input_of
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.deltas.product import Shape
from viewmill.program.program import FactorColumns, ProductTrigger
from viewmill.program.states import Indexed
from viewmill.strategies.view_tree.cuts import Cut, cut_update
from viewmill.strategies.view_tree.deltas import Path, Step, Visit
from viewmill.strategies.view_tree.indicators import holders
from viewmill.strategies.view_tree.layout import Layout
from viewmill.strategies.view_tree.plan import TreePlan
from viewmill.strategies.view_tree.polynomials import Factor, Term
from viewmill.strategies.view_tree.result import STATE, Result
from viewmill.strategies.view_tree.rings.arithmetic import Value
from viewmill.strategies.view_tree.rings.numbers import Numbers, Signature
from viewmill.strategies.view_tree.rings.ring import SlotRef
from viewmill.strategies.view_tree.rows import Rows
from viewmill.strategies.view_tree.states import StateRef
from viewmill.strategies.view_tree.tree import View
from viewmill.strategies.view_tree.trigger import RESERVED, TriggerWriter


@dataclass(frozen=True)
class Part:
    """A factor of the change of a view, summed up in a scratch state."""

    view: View
    state: str
    kind: Indexed

    def slot_ref(self, entry: str) -> SlotRef:
        """The slots of the part's payload in an entry."""
        words = {slot.name: self.kind.word(slot.name) for slot in self.kind.payload}
        return SlotRef(self.state, entry, words)


def product_trigger(plan: TreePlan, input_name: str, shape: Shape) -> ProductTrigger | None:
    """The trigger that takes products of this shape to an input."""
    path = next((each for each in plan.paths if each.leaf == input_name), None)
    (numbers, *others) = plan.layout.rings
    if path is None or others or not isinstance(numbers, Numbers):
        return None
    if any(holders(plan.root)):
        return None  # an indicator must see which rows come and go, and is in no part
    occurrence = plan.block.occurrence(path.leaf)
    keys = [plan.block.variable(n).member(path.leaf) for n in path.steps[0].view.keys]
    owned = [f for term in numbers.terms for owner, f in term.factors if owner == path.leaf]
    cut = cut_update(path.leaf, shape, [*occurrence.where, *keys], owned)
    if len(cut.pieces) < 2 and len(shape.factors) > 1:
        return None  # of one factor, it is a batch that is summed by key
    try:
        return _write(plan, path, cut, numbers)
    except NotTaken:
        return None


def batch_keys(plan: TreePlan, path: Path) -> tuple[str, ...]:
    """The columns by which a batch of a table is summed first if they repeat in it.

    None where a row costs a few steps only, and where rows must go up one by one.
    """
    if path.loops == 0 or not plan.layout.is_of_numbers or any(holders(plan.root)):
        return ()
    if len(plan.layout.rings) > 1 or plan.result is not None:
        return ()
    members = [plan.block.variable(n).member(path.leaf) for n in path.steps[0].view.keys]
    names = [each.name for each in members if isinstance(each, Column)]
    if len(names) < len(members):
        return ()
    return tuple(each.removeprefix(f"{path.leaf}.") for each in names)


def _write(plan: TreePlan, path: Path, cut: Cut, numbers: Numbers) -> ProductTrigger | None:
    source = Source()
    states = [*(place.state for place in plan.places.all), STATE]
    source.reserve(*RESERVED, *states)
    layout = copy(plan.layout)
    layout.numbers = copy(numbers)
    layout.rings = (layout.numbers,)
    writer = ProductWriter(
        source, plan.block, layout, plan.places, Result(plan.block, layout), cut, numbers
    )
    made = writer.write_product(path, states)
    return None if source.lookups else made


class ProductWriter(TriggerWriter):
    """Writes the trigger of one shape of product."""

    def __init__(
        self, source: Source, block: object, layout: Layout, places: object, result: Result,
        cut: Cut, original: Numbers,
    ) -> None:  # fmt: skip
        super().__init__(source, block, layout, places, result)  # type: ignore[arg-type]
        self.cut, self.original = cut, original
        self.scratch: list[Part] = []
        self.numbers = layout.numbers
        self.numbers.by_signature = dict(original.by_signature)
        self.numbers.root_slots = [
            replace(
                each, terms=tuple(Term(t.coefficient, self._cut(t.factors)) for t in each.terms)
            )
            for each in original.root_slots
        ]

    def _cut(self, signature: Signature) -> Signature:
        """A product of whole factors as one of the pieces' factors."""
        result: list[tuple[str, Factor]] = []
        for owner, factor in signature:
            result += self.cut.factors(factor) if owner == self.cut.alias else [(owner, factor)]
        return tuple(sorted(result, key=lambda each: each[0]))

    def write_product(self, path: Path, states: list[str]) -> ProductTrigger:
        """The whole trigger."""
        source = self.source
        leaf = path.steps[0].view
        pieces = range(len(self.cut.pieces))
        parts = [self._leaf_part(path, leaf, piece) for piece in pieces]
        factors = self._factor_columns(path, parts)
        function = source.name(f"on_{path.leaf}_product")
        arguments, bound, loops = self._arguments(path, factors)
        head = len(source.lines)
        with source.block(""):  # its head is written when all scratch states are known
            for piece, part in enumerate(parts):
                self._write_piece(path, part, piece, bound, loops)
            if source.messages:
                with source.block("if failed(errors):"):
                    source.line("return 0")
            self._climb_parts(path, parts)
            source.line("return 1")
        scratch = [part.state for part in self.scratch]
        arguments = [*arguments, *states, *scratch, "texts", "errors"]
        source.lines[head] = f"def {function}({', '.join(arguments)}):"
        return ProductTrigger(
            source=str(source),
            function=function,
            factors=factors,
            value=self.cut.shape.value,
            scratch=tuple((part.state, part.kind) for part in self.scratch),
            texts=tuple(source.texts),
            messages=tuple(source.messages),
        )

    # The factors as they come.

    def _leaf_part(self, path: Path, leaf: View, piece: int) -> Part:
        own, alias = self.cut.columns(piece), path.leaf
        keys = tuple(
            name
            for name in leaf.keys
            if self.cut.touched(self.block.variable(name).member(alias)) == [piece]
        )
        assert own or self.cut.has_value(piece)
        view = View(f"{leaf.name}_part", keys, frozenset({self.cut.owner(piece)}), ())
        return self._new_part(view)

    def _new_part(self, view: View) -> Part:
        """A part with a scratch state of its own."""
        name = self.source.name(view.name)
        view = replace(view, name=name)
        self.numbers.by_signature[name] = self.numbers.view_slots(view)
        kind = Indexed(tuple(self.places.field_of(n) for n in view.keys), self.layout.slots(view))
        part = Part(view, name, kind)
        self.scratch.append(part)
        return part

    def _used(self, path: Path, part: Part, piece: int) -> list[Expression]:
        occurrence = self.block.occurrence(path.leaf)
        used = [each for each in occurrence.where if self._belongs(each, piece)]
        used += [self.block.variable(name).member(path.leaf) for name in part.view.keys]
        (owner,) = part.view.relations
        for term in self.numbers.terms:
            for whose, factor in term.factors:
                used += [*factor.values, *factor.guards] if whose == owner else []
        return used

    def _belongs(self, condition: Expression, piece: int) -> bool:
        touched = self.cut.touched(condition)
        return (touched[0] if touched else 0) == piece

    def _factor_columns(self, path: Path, parts: list[Part]) -> tuple[FactorColumns, ...]:
        """Which columns of each factor the trigger reads."""
        made: dict[int, FactorColumns] = {}
        for piece, part in enumerate(parts):
            expressions = self._used(path, part, piece)
            names: set[str] = set().union(*map(columns_of, expressions)) if expressions else set()
            for f in self.cut.pieces[piece]:
                columns, has_value = self.cut.shape.factors[f]
                used = tuple(c for c in columns if f"{path.leaf}.{c}" in names)
                made[f] = FactorColumns(used, has_value and self.cut.value in names)
        return tuple(made[f] for f in range(len(made)))

    def _arguments(
        self, path: Path, factors: tuple[FactorColumns, ...]
    ) -> tuple[list[str], dict[int, dict[str, Operand]], dict[int, tuple[str, str, str]]]:
        """Arguments, the operands of each factor's columns, and its loop: index, size, times."""
        schema = input_of(self.block.occurrence(path.leaf).scan).schema
        arguments: list[str] = []
        bound: dict[int, dict[str, Operand]] = {}
        loops: dict[int, tuple[str, str, str]] = {}
        for f, each in enumerate(factors):
            index, size, times = (self.source.name(f"{w}_{f}") for w in ("i", "size", "times"))
            loops[f], bound[f] = (index, size, times), {}
            arguments += [size, times]
            value = [self.cut.shape.value] if each.has_value else []
            for column in (*each.columns, *value):
                assert column is not None
                field = schema[schema.names.index(column)]
                name = self.source.name(column)
                arguments.append(name)
                text, null = f"{name}[{index}]", None
                if str(field.type) == "BOOLEAN":
                    text = f"({text} != 0)"
                if field.nullable:
                    mask = self.source.name(f"{name}_null")
                    arguments.append(mask)
                    null = f"({mask}[{index}] != 0)"
                bound[f][f"{path.leaf}.{column}"] = Operand(text, null)
        return arguments, bound, loops

    def _write_piece(
        self, path: Path, part: Part, piece: int, bound: Mapping[int, dict[str, Operand]],
        loops: Mapping[int, tuple[str, str, str]],
    ) -> None:  # fmt: skip
        """Sum the rows of a piece up in its scratch state."""
        source, factors = self.source, self.cut.pieces[piece]
        columns: dict[str, Operand] = {}
        with ExitStack() as stack:
            for f in factors:
                index, size, _ = loops[f]
                stack.enter_context(source.block(f"for {index} in range({size}):"))
                for name, operand in bound[f].items():
                    known = columns.get(name)
                    columns[name] = operand if known is None else _product(known, operand)
            times = " * ".join(f"{loops[f][2]}[{loops[f][0]}]" for f in factors)
            source.line(f"m = {times}")
            scalar = Scalar(source, columns, loops[factors[0]][0])
            scan = self.block.occurrence(path.leaf).scan
            rows = Rows(input_of(scan), (), (), scalar)
            for condition in self.block.occurrence(path.leaf).where:
                if self._belongs(condition, piece):
                    with source.block(f"if not {scalar.is_true(condition)}:"):
                        source.line("continue")
            keys = {name: self._key(name, path.leaf, rows) for name in part.view.keys}
            self._add_to_part(part, keys, self.numbers.lift(source, part.view, rows))

    def _add_to_part(
        self, part: Part, keys: dict[str, Operand], values: dict[Signature, Value]
    ) -> None:
        entry = self.source.name("e_part")
        key = self._key_text(part.view.keys, keys)
        self.source.line(f"{entry} = indexed_touch({part.state}, {key})")
        self._add(self.numbers.by_signature[part.view.name].items(), values, part.slot_ref(entry))

    def _add(self, slots: object, values: dict[Signature, Value], ref: SlotRef) -> None:
        self.numbers.add_values(self.source, slots, values, ref)  # type: ignore[arg-type]

    # The way up.

    def _climb_parts(self, path: Path, parts: list[Part]) -> None:
        for at, step in enumerate(path.steps):
            if step.view is self.original.root:
                self._write_root(step.view, parts)
                return
            if step.is_stored:
                for place in self.places.of(step.view):
                    self._write_store(place, step.view, parts)
            parts = self._write_join(step, path.steps[at + 1].view, parts)

    def _opened(
        self, parts: Sequence[Part], stack: ExitStack
    ) -> tuple[dict[str, Operand], list[tuple[View, dict[Signature, Value]]]]:
        """Open a loop over each part; the keys that are known inside, and the payloads."""
        keys: dict[str, Operand] = {}
        payloads = []
        for part in parts:
            index, entry = self.source.name("t"), self.source.name("e_part")
            loop = f"for {index} in range(indexed_count({part.state})):"
            stack.enter_context(self.source.block(loop))
            self.source.line(f"{entry} = indexed_at({part.state}, {index})")
            keys |= self._part_keys(part, entry)
            payloads.append((part.view, self.numbers.stored(part.view, part.slot_ref(entry))))
        return keys, payloads

    def _part_keys(self, part: Part, entry: str) -> dict[str, Operand]:
        known: dict[str, Operand] = {}
        fields = part.kind.key
        for i, field in enumerate(fields):
            word, null = self.source.name(f"{field.name}_key"), None
            self.source.line(f"{word} = indexed_word({part.state}, {entry}, {i})")
            if field.nullable:
                null = self.source.name(f"{field.name}_none")
                bits = f"indexed_word({part.state}, {entry}, {len(fields)})"
                self.source.line(f"{null} = ({bits} >> {i}) & 1")
            known[field.name] = Operand(word, null)
        return known

    def _whole(self, view: View, parts: Sequence[Part]) -> View:
        """A view on the path, over the parts of its change."""
        relations = frozenset().union(*(part.view.relations for part in parts))
        return View(view.name, view.keys, relations, (), tuple(part.view for part in parts))

    def _write_store(self, place: StateRef, view: View, parts: list[Part]) -> None:
        """Multiply the parts out into a view that is kept."""
        original = self.original.by_signature[view.name]
        whole = self._whole(view, parts)
        self.numbers.by_signature[view.name] = {self._cut(s): slot for s, slot in original.items()}
        with ExitStack() as stack:
            keys, payloads = self._opened(parts, stack)
            values = self.numbers.join(self.source, whole, payloads, keys)
            entry = self.source.name(f"e_{view.name}")
            self.source.line(f"{entry} = {self._touch(place, view, keys)}")
            slots = self.numbers.by_signature[view.name].items()
            self._add(slots, values, place.slot_ref(view, entry))
            self._settle(place, entry, keys)

    def _write_root(self, root: View, parts: list[Part]) -> None:
        whole = self._whole(root, parts)
        self.numbers.root = self.layout.root = whole
        totals = self.result.begin(self.source)
        with ExitStack() as stack:
            keys, payloads = self._opened(parts, stack)
            values = self.numbers.join(self.source, whole, payloads, keys)
            self.result.add(self.source, [values], keys, totals)
        self.result.end(self.source, totals)

    def _write_join(self, step: Step, above: View, parts: list[Part]) -> list[Part]:
        """The parts of the change of the view above."""
        after: list[Part] = []
        for members, visits in _grouped(parts, step.visits):
            known = {key for part in members for key in part.view.keys}
            known |= {key for visit in visits for key in visit.view.keys}
            variables = tuple(each for each in above.variables if each in known)
            if not visits and not variables:
                after += members
                continue
            children = (*(p.view for p in members), *(v.view for v in visits))
            view = View(
                f"{above.name}_part",
                tuple(key for key in above.keys if key in known),
                frozenset().union(*(child.relations for child in children)),
                variables,
                children,
            )
            made = self._new_part(view)
            self._write_group(members, visits, made)
            after.append(made)
        return after

    def _write_group(self, members: list[Part], visits: list[Visit], made: Part) -> None:
        with ExitStack() as stack:
            keys, payloads = self._opened(members, stack)
            entries: dict[str, str] = {}
            for visit in visits:
                keys, entries = self._visit(visit, keys, entries, stack)
            for visit in visits:
                ref = self._slot_ref(visit.view, entries)
                payloads.append((visit.view, self.numbers.stored(visit.view, ref)))
            values = self.numbers.join(self.source, made.view, payloads, keys)
            self._add_to_part(made, keys, values)


def _grouped(
    parts: list[Part], visits: Sequence[Visit]
) -> Iterator[tuple[list[Part], list[Visit]]]:
    """Parts and siblings that hang together by variables."""
    groups: list[tuple[set[str], list[Part], list[Visit]]] = [
        (set(part.view.keys), [part], []) for part in parts
    ]
    for visit in visits:
        keys = set(visit.view.keys)
        touching = [group for group in groups if group[0] & keys] or groups[:1]
        first, *others = touching
        for each in others:
            groups = [group for group in groups if group is not each]
            first[1].extend(each[1])
            first[2].extend(each[2])
            first[0].update(each[0])
        first[0].update(keys)
        first[2].append(visit)
    for _, members, siblings in groups:
        yield members, [visit for visit in visits if visit in siblings]


def _product(left: Operand, right: Operand) -> Operand:
    """The value of a piece whose factors each have one."""
    nulls = [each.null for each in (left, right) if each.null is not None]
    null = f"({' or '.join(nulls)})" if nulls else None
    return Operand(f"({left.value} * {right.value})", null)

"""Classical first-order maintenance: the tables and the result are kept, nothing between them.

takes  `Block`
gives  a program: whole rows of every table, found by the columns that they are joined on; a change
       is joined with them when it comes

The variables of the changed row are known, so the other tables fall apart into parts that know
nothing of each other; each part is summed on its own, as DBToaster does it, and the sums are
multiplied. A part that the view groups by is looped over instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import Values
from viewmill.algebra.schema import Field
from viewmill.algebra.walk import columns_of
from viewmill.bench.baselines.recursive import SubJoins, Tables
from viewmill.codegen.scalar import Operand
from viewmill.codegen.source import Source
from viewmill.program.program import Program, Trigger
from viewmill.program.states import Listed, State
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.emit import assemble
from viewmill.strategies.view_tree.layout import Layout
from viewmill.strategies.view_tree.result import STATE, Result
from viewmill.strategies.view_tree.rings import arithmetic
from viewmill.strategies.view_tree.rings.arithmetic import Value
from viewmill.strategies.view_tree.rings.numbers import Values as Products
from viewmill.strategies.view_tree.rings.ring import SlotRef
from viewmill.strategies.view_tree.rows import Rows, key_text, key_word, read_rows
from viewmill.strategies.view_tree.states import StateRefs
from viewmill.strategies.view_tree.tree import View
from viewmill.strategies.view_tree.trigger import TriggerWriter


@dataclass(frozen=True)
class Scan:
    """Go through the rows of a table by what is known of them, then through those that follow."""

    table: str
    bound: tuple[str, ...]
    tables: Tables  # those of the whole part
    parts: tuple[Scan, ...]


def first_order_program(block: Block) -> Program:
    """The program of delta queries."""
    joins = SubJoins(block)
    plans = {each.alias: _scans(joins, joins.everything, each.alias) for each in block.occurrences}
    views = [joins.view(part) for part in joins.reached() if part != joins.everything]
    views += [joins.view(part) for part in _parts(plans) if joins.view(part) not in views]
    whole = joins.view(joins.everything)
    root = View(whole.name, whole.keys, whole.relations, whole.variables, tuple(views))
    layout = Layout(block, root)
    result = Result(block, layout)
    writer = _Writer(Source(), block, layout, StateRefs(block, layout), result, joins)
    writer.keep(plans)
    states = [State(n, kind, Values((), kind.schema)) for n, kind in writer.kinds.items()]
    states.append(State(STATE, result.kind, Values((), result.kind.schema)))

    def write(_: TriggerWriter, names: list[str]) -> tuple[Trigger, ...]:
        return tuple(writer.write_delta(alias, scans, names) for alias, scans in plans.items())

    return assemble(writer, states, write, "first_order", ["whole rows"])


def _scans(joins: SubJoins, tables: Tables, first: str) -> tuple[Scan, ...]:
    """How the tables that are left are gone through once a row of `first` is known."""
    return _after(joins, tables - {first}, joins.graph[first])


def _after(joins: SubJoins, tables: Tables, known: frozenset[str]) -> tuple[Scan, ...]:
    scans = []
    for part in joins.apart(tables, known):
        table = max(sorted(part), key=lambda alias: len(joins.graph[alias] & known))
        bound = tuple(v.name for v in joins.block.variables if v.name in joins.graph[table] & known)
        below = _after(joins, part - {table}, known | joins.graph[table])
        scans.append(Scan(table, bound, part, below))
    return tuple(scans)


def _walk(scans: Sequence[Scan]) -> Iterator[Scan]:
    for each in scans:
        yield each
        yield from _walk(each.parts)


def _parts(plans: dict[str, tuple[Scan, ...]]) -> list[Tables]:
    found = [scan.tables for scans in plans.values() for scan in _walk(scans)]
    return list(dict.fromkeys(found))


@dataclass
class _Writer(TriggerWriter):
    """Writes delta queries; the ring is that of numbers."""

    joins: SubJoins
    kinds: dict[str, Listed] = field(default_factory=dict)
    stored: dict[str, list[tuple[str, tuple[str, ...]]]] = field(default_factory=dict)

    def keep(self, plans: dict[str, tuple[Scan, ...]]) -> None:
        """A state for each way in which a table is gone through."""
        for scans in plans.values():
            for scan in _walk(scans):
                ways = self.stored.setdefault(scan.table, [])
                if scan.bound not in [bound for _, bound in ways]:
                    name = f"rows_{scan.table.lower()}_{len(ways)}"
                    ways.append((name, scan.bound))
                    self.kinds[name] = self._kind(scan.table, scan.bound)

    def _kind(self, alias: str, bound: tuple[str, ...]) -> Listed:
        leaf = self.joins.view(frozenset({alias}))
        first = tuple(self.places.field_of(name) for name in bound)
        rest = tuple(self.places.field_of(name) for name in leaf.keys if name not in bound)
        return Listed(first, rest + self._local(alias), self.layout.slots(leaf))

    def _local(self, alias: str) -> tuple[Field, ...]:
        """The columns of a row that are no variables."""
        scan = self.block.occurrence(alias).scan
        members = [v.member(alias) for v in self.block.variables_of(alias)]
        shared = {name for each in members for name in columns_of(each)}
        return tuple(f for f in scan.schema if f.name not in shared)

    def write_delta(self, alias: str, scans: tuple[Scan, ...], states: list[str]) -> Trigger:
        """The trigger of one occurrence."""
        source, occurrence = self.source, self.block.occurrence(alias)
        leaf = self.joins.view(frozenset({alias}))
        local = [Column(f.name, f.type, f.nullable) for f in self._local(alias)]
        used: list[Expression] = [*self.used(leaf), *local]
        function = source.name(f"on_{alias}")
        rows = read_rows(source, occurrence, used)
        arguments = ["start", "size", "multiplicity", *rows.arguments, *states, "texts", "errors"]
        with source.block(f"def {function}({', '.join(arguments)}):"):
            totals = self.result.begin(source)
            source.line("done = size")
            with source.block("for i in range(start, size):"):
                source.line("m = multiplicity[i]")
                path = _LeafOnly(alias)
                keys, payloads = self._lift(rows, path, leaf)  # type: ignore[arg-type]
                self._stop_if_failed()
                self._keep_row(leaf, rows, local, keys, payloads[0])
                self._meet(leaf, scans, payloads[0], keys, totals)
            self.result.end(source, totals)
            source.line("return done")
        source.line()
        return Trigger(rows.input.name, function, rows.columns)

    def _keep_row(
        self, leaf: View, rows: Rows, local: list[Column], keys: dict[str, Operand],
        payload: Products,
    ) -> None:  # fmt: skip
        (alias,) = leaf.relations
        fields = self._local(alias)
        words = [rows.value(column) for column in local]
        own = [
            Operand(key_word(each, f), f"int({each.null})" if each.null else None)
            for each, f in zip(words, fields, strict=True)
        ]
        for name, bound in self.stored.get(alias, []):
            first = self._key_text(bound, keys)
            rest = [key for key in leaf.keys if key not in bound]
            operands = [*(keys[key] for key in rest), *own]
            text = key_text(operands, [*(self.places.field_of(key) for key in rest), *fields])
            entry = self.source.name("e_row")
            self.source.line(f"{entry} = list_touch({name}, {first}, {text})")
            self.layout.numbers.add(
                self.source, leaf, payload, self._slot_ref_of(leaf, name, entry)
            )
            self.source.line(f"list_settle({name}, {first}, {entry})")

    def _slot_ref_of(self, leaf: View, state: str, entry: str) -> SlotRef:
        kind = self.kinds[state]
        return SlotRef(state, entry, {slot.name: kind.word(slot.name) for slot in kind.payload})

    def _meet(
        self, leaf: View, scans: tuple[Scan, ...], payload: Products, keys: dict[str, Operand],
        totals: list[object],
    ) -> None:  # fmt: skip
        """The change of the result: the row times the sums of the parts."""
        (alias,) = leaf.relations
        with ExitStack() as stack:
            parts, keys = self._parts_of(scans, keys, stack)
            above = self.joins.joined(
                self.joins.everything, alias, [self.joins.view(s.tables) for s in scans]
            )
            joined = self.layout.numbers.join(self.source, above, [(leaf, payload), *parts], keys)
            self.result.add(self.source, [joined], keys, totals)

    def _parts_of(
        self, scans: tuple[Scan, ...], keys: dict[str, Operand], stack: ExitStack
    ) -> tuple[list[tuple[View, Products]], dict[str, Operand]]:
        parts = []
        for scan in scans:
            if set(self.joins.keys(scan.tables)) <= set(keys):
                parts.append((self.joins.view(scan.tables), self._summed(scan, keys)))
            else:
                payload, keys = self._looped(scan, keys, stack)
                parts.append((self.joins.view(scan.tables), payload))
        return parts, keys

    def _summed(self, scan: Scan, keys: dict[str, Operand]) -> Products:
        """The sums over a part, in variables."""
        source, numbers = self.source, self.layout.numbers
        view = self.joins.view(scan.tables)
        totals: Products = {}
        for signature, slot in numbers.by_signature[view.name].items():
            name = source.name("part")
            assert slot.kind != "floats"  # which are of other rings
            source.line(f"{name} = {arithmetic.zero(slot.kind)}")
            totals[signature] = Value(name, slot.kind)
        with ExitStack() as stack:
            payload, _ = self._looped(scan, keys, stack)
            for signature, total in totals.items():
                value = payload[signature]
                source.line(f"{total.text} = {arithmetic.plus(total.text, value, total.kind)}")
        return totals

    def _looped(
        self, scan: Scan, keys: dict[str, Operand], stack: ExitStack
    ) -> tuple[Products, dict[str, Operand]]:
        """Open the loop over a table's rows; what the part has for one of them."""
        source, leaf = self.source, self.joins.view(frozenset({scan.table}))
        state = next(name for name, bound in self.stored[scan.table] if bound == scan.bound)
        kind = self.kinds[state]
        first = self._key_text(scan.bound, keys)
        found, j, entry = source.name("l"), source.name("j"), source.name("e_row")
        source.line(f"{found} = list_of({state}, {first})")
        stack.enter_context(source.block(f"for {j} in range(list_size({state}, {found})):"))
        source.line(f"{entry} = list_at({state}, {found}, {j})")
        keys = dict(keys)
        for i, each in enumerate(kind.rest):
            if each.name in leaf.keys:
                keys[each.name] = self._word(state, entry, i, kind)
        payload = self.layout.numbers.stored(leaf, self._slot_ref_of(leaf, state, entry))
        if len(scan.tables) == 1:
            return payload, keys
        parts, keys = self._parts_of(scan.parts, keys, stack)
        views = [self.joins.view(each.tables) for each in scan.parts]
        above = self.joins.joined(scan.tables, scan.table, views)
        return self.layout.numbers.join(source, above, [(leaf, payload), *parts], keys), keys

    def _word(self, state: str, entry: str, i: int, kind: Listed) -> Operand:
        word, null = self.source.name(f"{kind.rest[i].name}_key"), None
        self.source.line(f"{word} = list_word({state}, {entry}, {i})")
        if kind.rest[i].nullable:
            null = self.source.name("none")
            bits = f"list_word({state}, {entry}, {len(kind.rest)})"
            self.source.line(f"{null} = ({bits} >> {i}) & 1")
        return Operand(word, null)


@dataclass(frozen=True)
class _LeafOnly:
    """As much of a path as lifting a row needs."""

    leaf: str

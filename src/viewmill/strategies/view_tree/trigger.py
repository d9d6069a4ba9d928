"""Write the trigger of one table: lift a row, add it to its view, climb to the root.

takes  the block, the layout, the places, the path of the table
gives  lines of source
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from viewmill.algebra.expressions import Expression
from viewmill.program.program import Trigger
from viewmill.program.states import Listed, Slot
from viewmill.strategies.dataflow.scalar import Operand
from viewmill.strategies.dataflow.source import Source
from viewmill.strategies.view_tree import rings
from viewmill.strategies.view_tree.ahead import write_ahead, write_ahead_in_list
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.deltas import Path, Step, Visit
from viewmill.strategies.view_tree.layout import Layout, Signature
from viewmill.strategies.view_tree.polynomials import (
    Factor,
    is_null_test,
    judges,
    not_null,
    variable_owner,
)
from viewmill.strategies.view_tree.result import Result
from viewmill.strategies.view_tree.rings import Value
from viewmill.strategies.view_tree.rows import Rows, key_text, key_word, read_rows
from viewmill.strategies.view_tree.states import Place, Places
from viewmill.strategies.view_tree.tree import View

RESERVED = ("start", "size", "multiplicity", "texts", "errors", "m", "i", "e", "t", "out", "done")

Values = dict[Signature, Value]


@dataclass
class TriggerWriter:
    """Writes triggers of one program into `source`."""

    source: Source
    block: Block
    layout: Layout
    places: Places
    result: Result

    def write(self, path: Path, states: list[str]) -> Trigger:
        """The trigger of one occurrence."""
        source, occurrence = self.source, self.block.occurrence(path.leaf)
        leaf = path.steps[0].view
        slots = self._leaf_slots(path)
        used: list[Expression] = [*occurrence.where]
        used += [self.block.variable(name).member(path.leaf) for name in leaf.keys]
        for factor in slots.values():
            used += [*factor.values, *factor.guards]
        function = source.name(f"on_{occurrence.alias}")
        rows = read_rows(source, occurrence, used)
        arguments = ["start", "size", "multiplicity", *rows.arguments, *states, "texts", "errors"]
        with source.block(f"def {function}({', '.join(arguments)}):"):
            totals = self.result.begin(self.source)
            source.line("done = size")
            with source.block("for i in range(start, size):"):
                before = len(source.messages)
                write_ahead(source, self.block, self.places, path, rows)
                source.line("m = multiplicity[i]")
                keys, values = self._lift(rows, path, leaf, slots)
                # Nothing is added before everything that can fail has not.
                if len(source.messages) > before or occurrence.where or slots:
                    self._stop_if_failed(rows)
                self._climb(path, 0, values, keys, {}, totals)
            self.result.end(self.source, totals)
            source.line("return done")
        source.line()
        return Trigger(rows.input.name, function, rows.columns)

    def _stop_if_failed(self, rows: Rows) -> None:
        if not self.source.messages:
            return
        with self.source.block("if failed(errors):"):
            self.source.line("done = i")
            self.source.line("break")

    # The row itself.

    def _leaf_slots(self, path: Path) -> dict[Signature, Factor]:
        """The products that the row is lifted into, by signature."""
        view = path.steps[0].view
        if view is self.layout.root:
            signatures = {self.layout.restrict(t.factors, view) for t in self.layout.terms}
        else:
            signatures = set(self.layout.slots[view.name])
        ordered = sorted(signatures, key=lambda each: (len(each), repr(each)))
        return {each: dict(each).get(path.leaf, Factor()) for each in ordered}

    def _lift(
        self, rows: Rows, path: Path, leaf: View, slots: Mapping[Signature, Factor]
    ) -> tuple[dict[str, Operand], Values]:
        """Write filters, keys and factors of row i."""
        source, scalar = self.source, rows.scalar
        for condition in self.block.occurrence(path.leaf).where:
            with source.block(f"if not {scalar.is_true(condition)}:"):
                source.line("continue")
        keys = {name: self._key(name, path.leaf, rows) for name in leaf.keys}
        return keys, {signature: self._factor(factor, rows) for signature, factor in slots.items()}

    def _key(self, name: str, alias: str, rows: Rows) -> Operand:
        """The word of a variable in row i; a row whose joined variable is NULL meets nothing."""
        source, variable = self.source, self.block.variable(name)
        operand = rows.value(variable.member(alias))
        if variable.is_joined and operand.null is not None:
            with source.block(f"if {operand.null}:"):
                source.line("continue")
        word, null = source.name(f"{name}_key"), None
        if variable.nullable and operand.null is not None:
            null = source.name(f"{name}_none")
            source.line(f"{null} = int({operand.null})")
        source.line(f"{word} = {key_word(operand, self.places.field_of(name))}")
        return Operand(word, null)

    def _factor(self, factor: Factor, rows: Rows) -> Value:
        """m times the factor, 0 where its guards do not hold."""
        if not factor.values and not factor.guards:
            return Value("m", "int")
        source, kind, name = self.source, rings.leaf_kind(factor), self.source.name("x")
        # The word of NULL is 0, so a sum needs no test whether its own value is NULL.
        own = {not_null(value) for value in factor.values}
        guards = [guard for guard in factor.guards if guard not in own]
        conditions = [rows.guard(guard) for guard in guards]
        if all(is_null_test(g) or _judges_one_of(g, factor.values) for g in guards):
            product = self._product([rows.value(value) for value in factor.values], kind)
            test = f" if {' and '.join(conditions)} else {rings.zero(kind)}" if conditions else ""
            source.line(f"{name} = {product}{test}")
            return Value(name, kind)
        source.line(f"{name} = {rings.zero(kind)}")
        # Behind a condition a value may fail where the condition does not hold.
        with source.block(f"if {' and '.join(conditions)}:"):
            operands = [rows.scalar.emit(value) for value in factor.values]
            source.line(f"{name} = {self._product(operands, kind)}")
        return Value(name, kind)

    def _product(self, operands: list[Operand], kind: rings.Kind) -> str:
        values = [each.value for each in operands]
        if kind in ("int", "sum"):
            return " * ".join(["m", *values])
        text = f"wide_product(m, {values[0]})"
        for other in values[1:]:
            text = f"wide_times({text}, {other})"
        return text

    # The way up.

    def _climb(
        self, path: Path, at: int, values: Values, keys: dict[str, Operand],
        entries: dict[str, str], totals: dict[str, str],
    ) -> None:  # fmt: skip
        step = path.steps[at]
        if step.view is self.layout.root:
            self.result.add(self.source, values, keys, totals)
            return
        settled: list[tuple[Place, str]] = []
        if step.is_stored:
            for place in self.places.of(step.view):
                entry = self._store(place, step.view, values, keys)
                settled.append((place, entry))
                entries = {**entries, place.state: entry}
        with ExitStack() as stack:
            for visit in step.visits:
                keys, entries = self._visit(visit, keys, entries, stack, path.steps[at:])
            above = path.steps[at + 1].view
            joined = self._join(step, above, values, keys, entries)
            self._climb(path, at + 1, joined, keys, {}, totals)
        for place, entry in settled:
            self._settle(place, entry, keys)

    def _store(self, place: Place, view: View, values: Values, keys: dict[str, Operand]) -> str:
        """Add a change to the view's state; its entry."""
        source, entry = self.source, self.source.name(f"e_{view.name}")
        source.line(f"{entry} = {self._touch(place, view, keys)}")
        for signature, slot in self.layout.slots[view.name].items():
            word = place.word(view, signature)
            rings.add(source, place.state, entry, word, slot, values[signature])
        return entry

    def _touch(self, place: Place, view: View, keys: dict[str, Operand]) -> str:
        if isinstance(place.kind, Listed):
            first, rest = self._parts(place, keys)
            return f"list_touch({place.state}, {first}, {rest})"
        return f"indexed_touch({place.state}, {self._key_text(view.keys, keys)})"

    def _settle(self, place: Place, entry: str, keys: dict[str, Operand]) -> None:
        if isinstance(place.kind, Listed):
            first, _ = self._parts(place, keys)
            self.source.line(f"list_settle({place.state}, {first}, {entry})")
        else:
            self.source.line(f"indexed_settle({place.state}, {entry})")

    def _key_text(self, names: tuple[str, ...], keys: dict[str, Operand]) -> str:
        return key_text([keys[n] for n in names], [self.places.field_of(n) for n in names])

    def _parts(self, place: Place, keys: dict[str, Operand]) -> tuple[str, str]:
        assert isinstance(place.kind, Listed)
        rest = tuple(field.name for field in place.kind.rest)
        return self._key_text(place.first, keys), self._key_text(rest, keys)

    def _visit(
        self, visit: Visit, keys: dict[str, Operand], entries: dict[str, str], stack: ExitStack,
        ahead: Sequence[Step],
    ) -> tuple[dict[str, Operand], dict[str, str]]:  # fmt: skip
        """Open what reads a sibling: a lookup, or a loop that makes the rest of its key known."""
        source, view = self.source, visit.view
        if visit.is_lookup:
            place = self.places.for_lookup(view)
            if place.state in entries:
                return keys, entries  # a fused state: the entry is at hand
            entry = source.name(f"e_{view.name}")
            source.line(f"{entry} = {self._find(place, view, keys)}")
            stack.enter_context(source.block(f"if {entry} != 0:"))
            return keys, {**entries, place.state: entry}
        place = self.places.for_visit(view, visit.bound)
        found, j = source.name(f"l_{view.name}"), source.name("j")
        first = self._key_text(visit.bound, keys)
        source.line(f"{found} = list_of({place.state}, {first})")
        loop = f"for {j} in range(list_size({place.state}, {found})):"
        stack.enter_context(source.block(loop))
        write_ahead_in_list(source, self.places, visit, ahead, found, j)
        entry = source.name(f"e_{view.name}")
        source.line(f"{entry} = list_at({place.state}, {found}, {j})")
        return {**keys, **self._rest(place, entry)}, {**entries, place.state: entry}

    def _find(self, place: Place, view: View, keys: dict[str, Operand]) -> str:
        if isinstance(place.kind, Listed):
            first, rest = self._parts(place, keys)
            return f"list_find({place.state}, {first}, {rest})"
        return f"indexed_find({place.state}, {self._key_text(view.keys, keys)})"

    def _rest(self, place: Place, entry: str) -> dict[str, Operand]:
        """The variables that a visited entry makes known."""
        assert isinstance(place.kind, Listed)
        known: dict[str, Operand] = {}
        fields = place.kind.rest
        for i, field in enumerate(fields):
            word, null = self.source.name(f"{field.name}_key"), None
            self.source.line(f"{word} = list_word({place.state}, {entry}, {i})")
            if field.nullable:
                null = self.source.name(f"{field.name}_none")
                bits = f"list_word({place.state}, {entry}, {len(fields)})"
                self.source.line(f"{null} = ({bits} >> {i}) & 1")
            known[field.name] = Operand(word, null)
        return known

    # The join.

    def _join(
        self, step: Step, above: View, values: Values, keys: dict[str, Operand],
        entries: dict[str, str],
    ) -> Values:  # fmt: skip
        """The products that the view above keeps, of this change and its siblings."""
        if above is self.layout.root:
            wanted = {self.layout.restrict(t.factors, above) for t in self.layout.terms}
        else:
            wanted = set(self.layout.slots[above.name])
        memo: dict[tuple[str, ...], Value] = {}
        result: Values = {}
        for signature in sorted(wanted, key=lambda each: (len(each), repr(each))):
            parts = [values[self.layout.restrict(signature, step.view)]]
            for visit in step.visits:
                parts.append(self._read(visit.view, signature, entries))
            parts += self._lifted(above, signature, keys)
            result[signature] = self._multiplied(parts, memo)
        return result

    def _read(self, view: View, signature: Signature, entries: dict[str, str]) -> Value:
        own = self.layout.restrict(signature, view)
        slot: Slot = self.layout.slots[view.name][own]
        for place in self.places.of(view):
            if place.state in entries:
                word = place.word(view, own)
                return rings.read(place.state, entries[place.state], word, slot)
        raise AssertionError(f"{view.name} was not visited")

    def _lifted(self, view: View, signature: Signature, keys: dict[str, Operand]) -> list[Value]:
        """The powers of the view's own variable."""
        if view.variable is None:
            return []
        factor = dict(signature).get(variable_owner(view.variable))
        powers = () if factor is None else factor.values
        return [Value(keys[view.variable].value, "int") for _ in powers]

    def _multiplied(self, parts: list[Value], memo: dict[tuple[str, ...], Value]) -> Value:
        """The product, its beginnings shared with products that begin alike."""
        total = parts[0]
        for n in range(2, len(parts) + 1):
            texts = tuple(part.text for part in parts[:n])
            if texts not in memo:
                memo[texts] = rings.multiply(self.source, total, parts[n - 1], "p")
            total = memo[texts]
        return total


def _judges_one_of(guard: Expression, values: Sequence[Expression]) -> bool:
    return any(judges(guard, value) for value in values)

"""Write the trigger of one table: lift a row, add it to its view, climb to the root.

takes  the block, the layout, the places, the path of the table
gives  lines of source
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from viewmill.algebra.expressions import Expression
from viewmill.codegen.pushed_filter import pushed_filter_of
from viewmill.codegen.scalar import Operand
from viewmill.codegen.source import Source
from viewmill.program.program import Trigger
from viewmill.program.states import Listed
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.deltas import Path, Reaction, Step, Visit
from viewmill.strategies.view_tree.layout import Layout
from viewmill.strategies.view_tree.prefetch import (
    emit_cache_tests,
    emit_list_prefetch,
    emit_prefetch,
)
from viewmill.strategies.view_tree.result import STATE, Result
from viewmill.strategies.view_tree.rings.ring import Payload, SlotRef
from viewmill.strategies.view_tree.rows import Rows, key_text, key_word, read_rows
from viewmill.strategies.view_tree.states import StateRef, StateRefs
from viewmill.strategies.view_tree.tree import View

RESERVED = (
    "at",
    "start",
    "size",
    "multiplicity",
    "texts",
    "errors",
    "m",
    "i",
    "e",
    "t",
    "out",
    "done",
    "far",
    "taken",
)


@dataclass(frozen=True)
class _Watch:
    """The variables that say whether a table's view held nothing for a key, and holds nothing."""

    was: str
    now: str


@dataclass
class TriggerWriter:
    """Writes triggers of one program into `source`."""

    source: Source
    block: Block
    layout: Layout
    places: StateRefs
    result: Result
    # The list entries that the enclosing loops are at, the innermost last.
    matched_entries: list[tuple[StateRef, str]] = field(default_factory=list, init=False)
    visited: frozenset[str] = field(default=frozenset(), init=False)  # lists that are prefetched

    def write(
        self, paths: Sequence[Path], reactions: Sequence[Reaction], states: list[str]
    ) -> Trigger:
        """The trigger of one occurrence, whose changes go one way after the other."""
        path = paths[0]
        source, occurrence = self.source, self.block.occurrence(path.leaf)
        leaf = path.steps[0].view
        used = self.used(leaf)
        function = source.name(f"on_{occurrence.alias}")
        rows = read_rows(source, occurrence, used)
        arguments = ["start", "size", "multiplicity", *rows.arguments, *states, "texts", "errors"]
        with source.block(f"def {function}({', '.join(arguments)}):"):
            totals = self.result.begin(self.source)
            source.line("done = size")
            wanted = emit_cache_tests(source, self.block, self.places, path)
            self.visited = wanted.visited
            is_picky = bool(wanted.places and occurrence.where)
            if is_picky:
                source.line("taken = 0")
            with source.block("for i in range(start, size):"):
                emit_prefetch(source, self.block, path, rows, wanted)
                if is_picky:  # asking for rows that are not taken would cost more than waiting
                    source.line("far = far and (i - start < 64 or taken * 16 > i - start)")
                source.line("m = multiplicity[i]")
                keys, payloads = self._lift(rows, path, leaf)
                if is_picky:
                    source.line("taken += 1")
                # Nothing is added before everything that can fail has not.
                self._stop_if_failed()
                watch = _Watch(source.name("was"), source.name("now")) if reactions else None
                self._climb(path, 0, payloads, keys, {}, totals, watch)
                for further in paths[1:]:
                    self._climb(further, 0, payloads, keys, {}, totals)
                if watch is not None:
                    self._react(reactions, keys, totals, watch)
            self.result.end(self.source, totals)
            source.line("return done")
        source.line()
        own = dict(zip(occurrence.scan.schema.names, rows.input.schema.names, strict=True))
        pushed = pushed_filter_of(occurrence.where, own)
        return Trigger(rows.input.name, function, rows.columns, pushed_filter=pushed)

    def used(self, leaf: View) -> list[Expression]:
        """What a trigger reads of the rows of a table."""
        (alias,) = leaf.relations
        used: list[Expression] = [*self.block.occurrence(alias).where]
        used += [self.block.variable(name).member(alias) for name in leaf.keys]
        for ring in self.layout.rings:
            used += ring.reads(leaf)
        return used

    def _stop_if_failed(self) -> None:
        if not self.source.messages:
            return
        with self.source.block("if failed(errors):"):
            self.source.line("done = i")
            self.source.line("break")

    # The row itself.

    def _lift(self, rows: Rows, path: Path, leaf: View) -> tuple[dict[str, Operand], list[Payload]]:
        """Write filters, keys and payloads of row i."""
        source, scalar = self.source, rows.scalar
        for condition in self.block.occurrence(path.leaf).where:
            with source.block(f"if not {scalar.is_true(condition)}:"):
                source.line("continue")
        keys = {name: self._key(name, path.leaf, rows) for name in leaf.keys}
        return keys, [ring.lift(source, leaf, rows) for ring in self.layout.rings]

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

    # The way up.

    def _climb(
        self, path: Path, at: int, payloads: list[Payload], keys: dict[str, Operand],
        entries: dict[str, str], totals: list[Payload], watch: _Watch | None = None,
    ) -> None:  # fmt: skip
        """Add the change of a view to it, meet its siblings, go on with the view above.

        `watch` is told whether the table's view holds anything for the key, before and after.
        """
        step = path.steps[at]
        if step.view.name == self.layout.root.name:
            link = self._link_text(STATE, step.view.keys)
            self.result.add(self.source, payloads, keys, totals, link)
            return
        settled: list[tuple[StateRef, str]] = []
        if step.is_stored:
            for place in self.places.of(step.view):
                first = watch if not settled else None
                entry = self._store(place, step.view, payloads, keys, first)
                settled.append((place, entry))
                entries = {**entries, place.state: entry}
        with ExitStack() as stack:
            for place, entry in settled:
                self._hold(place, entry, stack)
            for visit in step.visits:
                keys, entries = self._visit(visit, keys, entries, stack)
            if at + 1 < len(path.steps):
                above = path.steps[at + 1].view
                joined = self._join(step, above, payloads, keys, entries)
                self._open_unless_zero(step, above, joined, stack)
                self._climb(path, at + 1, joined, keys, {}, totals)
        for place, entry in settled:
            self._settle(place, entry, keys)

    def _store(
        self, place: StateRef, view: View, payloads: list[Payload], keys: dict[str, Operand],
        watch: _Watch | None = None,
    ) -> str:  # fmt: skip
        """Add a change to the view's state; its entry."""
        source, entry = self.source, self.source.name(f"e_{view.name}")
        source.line(f"{entry} = {self._touch(place, view, keys)}")
        zero = self.places.zero_test(view, entry, place)
        if watch is not None:
            source.line(f"{watch.was} = int({zero})")
        ref = place.slot_ref(view, entry)
        for ring, payload in zip(self.layout.rings, payloads, strict=True):
            ring.add(source, view, payload, ref)
        if watch is not None:
            source.line(f"{watch.now} = int({zero})")
        return entry

    def _touch(self, place: StateRef, view: View, keys: dict[str, Operand]) -> str:
        if isinstance(place.kind, Listed):
            first, rest = self._parts(place, keys)
            return f"list_touch({place.state}, {first}, {rest})"
        key, link = self._key_text(view.keys, keys), self._link_text(place.state, view.keys)
        return f"{'linked' if link else 'indexed'}_touch({place.state}, {key}{link})"

    def _hold(self, place: StateRef, entry: str, stack: ExitStack) -> None:
        """Note the current entry of a list until the stack is closed."""
        if isinstance(place.kind, Listed):
            self.matched_entries.append((place, entry))
            stack.callback(self.matched_entries.pop)

    def _link_text(self, state: str, names: tuple[str, ...]) -> str:
        """The link arguments: the matched entry that caches where a key is in a state."""
        for place, entry in reversed(self.matched_entries):
            if state in place.links and set(names) <= set(place.keys):
                return f", {place.state}, {entry}, {place.link(state)}"
        return ""

    def _settle(self, place: StateRef, entry: str, keys: dict[str, Operand]) -> None:
        if isinstance(place.kind, Listed):
            first, _ = self._parts(place, keys)
            self.source.line(f"list_settle({place.state}, {first}, {entry})")
        else:
            self.source.line(f"indexed_settle({place.state}, {entry})")

    def _key_text(self, names: tuple[str, ...], keys: dict[str, Operand]) -> str:
        return key_text([keys[n] for n in names], [self.places.field_of(n) for n in names])

    def _parts(self, place: StateRef, keys: dict[str, Operand]) -> tuple[str, str]:
        assert isinstance(place.kind, Listed)
        rest = tuple(field.name for field in place.kind.rest)
        return self._key_text(place.first, keys), self._key_text(rest, keys)

    def _visit(
        self, visit: Visit, keys: dict[str, Operand], entries: dict[str, str], stack: ExitStack
    ) -> tuple[dict[str, Operand], dict[str, str]]:  # fmt: skip
        """Open the read of a sibling: a lookup, or a loop that binds the rest of its key."""
        source, view = self.source, visit.view
        if visit.is_lookup:
            place = self.places.for_lookup(view)
            held = [p for p in self.places.of(view) if p.state in entries]
            if held and (not view.indicates or isinstance(held[0].kind, Listed)):
                return keys, entries  # a fused state: its entry was found already
            entry = source.name(f"e_{view.name}")
            source.line(f"{entry} = {self._find(place, view, keys)}")
            holds = f"{entry} != 0"
            if view.indicates and (len(place.views) > 1 or place.kind.journal):
                holds += f" and not {self.places.zero_test(view, entry, place)}"
            stack.enter_context(source.block(f"if {holds}:"))
            return keys, {**entries, place.state: entry}
        if visit.rival is not None:
            return self._visit_shorter(visit, visit.rival, keys, entries, stack)
        place = self.places.for_visit(view, visit.bound)
        found, j = source.name(f"l_{view.name}"), source.name("j")
        first = self._key_text(visit.bound, keys)
        source.line(f"{found} = list_of({place.state}, {first})")
        loop = f"for {j} in range(list_size({place.state}, {found})):"
        stack.enter_context(source.block(loop))
        emit_list_prefetch(source, place, found, j, self.visited)
        entry = source.name(f"e_{view.name}")
        source.line(f"{entry} = list_at({place.state}, {found}, {j})")
        self._hold(place, entry, stack)
        return {**keys, **self._rest(place, entry)}, {**entries, place.state: entry}

    def _visit_shorter(
        self, visit: Visit, rival: Visit, keys: dict[str, Operand], entries: dict[str, str],
        stack: ExitStack,
    ) -> tuple[dict[str, Operand], dict[str, str]]:  # fmt: skip
        """Open a loop over the shorter one of two lists; the other view is looked up."""
        source = self.source
        sides = [visit, rival]
        places = [self.places.for_visit(each.view, each.bound) for each in sides]
        firsts = [self._key_text(each.bound, keys) for each in sides]
        lists = [source.name(f"l_{each.view.name}") for each in sides]
        found = [source.name(f"e_{each.view.name}") for each in sides]
        for place, first, list_ in zip(places, firsts, lists, strict=True):
            source.line(f"{list_} = list_of({place.state}, {first})")
        sizes = [f"list_size({p.state}, {name})" for p, name in zip(places, lists, strict=True)]
        turned, count, j = source.name("turned"), source.name("count"), source.name("j")
        source.line(f"{turned} = {sizes[1]} < {sizes[0]}")
        source.line(f"{count} = {sizes[1]} if {turned} else {sizes[0]}")
        stack.enter_context(source.block(f"for {j} in range({count}):"))
        assert isinstance(places[0].kind, Listed)
        words = [source.name(f"{field.name}_key") for field in places[0].kind.rest]
        rest = f"({', '.join(words)},)"
        for test, a, b in ((f"if {turned}:", 1, 0), ("else:", 0, 1)):
            with source.block(test):
                source.line(f"{found[a]} = list_at({places[a].state}, {lists[a]}, {j})")
                for i, word in enumerate(words):
                    source.line(f"{word} = list_word({places[a].state}, {found[a]}, {i})")
                source.line(f"{found[b]} = list_find({places[b].state}, {firsts[b]}, {rest})")
        stack.enter_context(source.block(f"if {found[0]} != 0 and {found[1]} != 0:"))
        fields = places[0].kind.rest
        known = {f.name: Operand(word) for f, word in zip(fields, words, strict=True)}
        here = {place.state: entry for place, entry in zip(places, found, strict=True)}
        return {**keys, **known}, {**entries, **here}

    def _find(self, place: StateRef, view: View, keys: dict[str, Operand]) -> str:
        if isinstance(place.kind, Listed):
            first, rest = self._parts(place, keys)
            return f"list_find({place.state}, {first}, {rest})"
        key, link = self._key_text(view.keys, keys), self._link_text(place.state, view.keys)
        return f"{'linked' if link else 'indexed'}_find({place.state}, {key}{link})"

    def _rest(self, place: StateRef, entry: str) -> dict[str, Operand]:
        """The variables that a visited entry makes known."""
        assert isinstance(place.kind, Listed)
        known: dict[str, Operand] = {}
        fields = place.kind.rest
        for i, each in enumerate(fields):
            word, null = self.source.name(f"{each.name}_key"), None
            self.source.line(f"{word} = list_word({place.state}, {entry}, {i})")
            if each.nullable:
                null = self.source.name(f"{each.name}_none")
                bits = f"list_word({place.state}, {entry}, {len(fields)})"
                self.source.line(f"{null} = ({bits} >> {i}) & 1")
            known[each.name] = Operand(word, null)
        return known

    # Indicators.

    def _react(
        self, reactions: Sequence[Reaction], keys: dict[str, Operand], totals: list[Payload],
        watch: _Watch,
    ) -> None:  # fmt: skip
        """The table gained or lost a key: its indicators change, the highest first."""
        source = self.source
        with source.block(f"if {watch.was} != {watch.now}:"):
            change = source.name("change")
            source.line(f"{change} = {watch.was} - {watch.now}")
            signs: dict[str, str] = {}
            for each in reactions:
                name = each.indicator.name
                if name not in signs:
                    counted = name not in self.places.same
                    signs[name] = self._count(each.indicator, change, keys) if counted else change
                one = [ring.one(source, signs[name]) for ring in self.layout.rings]
                if signs[name] == change:
                    self._climb(each.path, 0, one, keys, {}, totals)
                else:
                    with source.block(f"if {signs[name]} != 0:"):
                        self._climb(each.path, 0, one, keys, {}, totals)

    def _count(self, indicator: View, change: str, keys: dict[str, Operand]) -> str:
        """Count the table's keys behind an indicator's key; 1 if it comes, -1 if it goes, or 0."""
        source, sign = self.source, self.source.name("sign")
        for place in self.places.of(indicator):
            entry = source.name(f"e_{indicator.name}")
            source.line(f"{entry} = {self._touch(place, indicator, keys)}")
            count = f"{place.function('int_at')}({place.state}, {entry}, 0)"
            source.line(f"{sign} = -int({count} != 0)")
            add = place.function("indexed_add")
            source.line(f"{add}({place.state}, {entry}, 0, {change})")
            source.line(f"{sign} += int({count} != 0)")
            self._settle(place, entry, keys)
        return sign

    # The join.

    def _open_unless_zero(
        self, step: Step, above: View, joined: list[Payload], stack: ExitStack
    ) -> None:
        """Open a test whether anything goes up, where an entry says nothing about a sibling.

        Siblings that lie side by side have one entry: of one that holds nothing for the key the
        payload is zero, and so is the product. A view would be touched for nothing then; adding
        nothing to a total takes no longer than the test.
        """
        is_total = above.name == self.layout.root.name and not self.result.fields
        fused = [v for v in step.visits if v.is_lookup and not v.view.indicates]
        if is_total or all(len(self.places.for_lookup(v.view).views) == 1 for v in fused):
            return
        tests = [r.nonzero(each) for r, each in zip(self.layout.rings, joined, strict=True)]
        if None not in tests:
            stack.enter_context(self.source.block(f"if {' or '.join(filter(None, tests))}:"))

    def _join(
        self, step: Step, above: View, payloads: list[Payload], keys: dict[str, Operand],
        entries: dict[str, str],
    ) -> list[Payload]:  # fmt: skip
        """The payloads of the view above: this change joined with its siblings."""
        joined_views = [visit.view for visit in step.visits if not visit.view.indicates]
        refs = [(view, self._slot_ref(view, entries)) for view in joined_views]
        joined = []
        for ring, payload in zip(self.layout.rings, payloads, strict=True):
            parts = [(step.view, payload)]
            parts += [(view, ring.stored(view, ref)) for view, ref in refs]
            joined.append(ring.join(self.source, above, parts, keys))
        return joined

    def _slot_ref(self, view: View, entries: dict[str, str]) -> SlotRef:
        """The slots of a visited view in its current entry."""
        place = next(each for each in self.places.of(view) if each.state in entries)
        return place.slot_ref(view, entries[place.state])

"""The states of a tree: which kept views share one, and how each is reached.

takes  the kept views, the paths of all changes
gives  `StateRef`s: an `Indexed` state for views looked up by whole keys (siblings with equal keys
       share one), a `Listed` one for each way of visiting a view by part of its key
next   emit, definitions
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from viewmill.algebra.schema import Field
from viewmill.program.generated_source import Names
from viewmill.program.states import Indexed, Listed, Slot
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.deltas import Path
from viewmill.strategies.view_tree.indicators import holders, same_as_table
from viewmill.strategies.view_tree.layout import Layout
from viewmill.strategies.view_tree.rings.ring import NARROW_FUNCTIONS, SlotRef
from viewmill.strategies.view_tree.tree import View, parents


@dataclass(frozen=True)
class StateRef:
    """A state, the views it holds, and the name of each view's slots in it."""

    state: str
    kind: Indexed | Listed
    views: tuple[View, ...]
    first: tuple[str, ...] = ()  # the variables that a list is found by
    names: dict[tuple[str, str], str] = field(default_factory=dict, hash=False)
    links: tuple[str, ...] = ()  # the states where an entry of a list remembers its place
    low_at: dict[str, int] = field(default_factory=dict, hash=False)  # in each slot of a list

    @property
    def keys(self) -> tuple[str, ...]:
        """The variables of its key."""
        return tuple(each.name for each in self.kind.key)

    def link(self, state: str) -> int:
        """The word of the link to a state."""
        return self.kind.payload_words + self.links.index(state)

    def function(self, name: str) -> str:
        """What reads or adds to a slot of numbers here, by its name for other states."""
        is_narrow = isinstance(self.kind, Listed) and self.kind.may_be_narrow
        return NARROW_FUNCTIONS[name] if is_narrow else name

    def slot_ref(self, view: View, entry: str) -> SlotRef:
        """The slots of a view's payload in an entry."""
        own = {slot: name for (owner, slot), name in self.names.items() if owner == view.name}
        words = {slot: self.kind.word(name) for slot, name in own.items()}
        if isinstance(self.kind, Listed):
            # In a list, low parts follow the floats they belong to.
            lows = {slot: words[slot] + self.low_at[name] for slot, name in own.items()}
            narrow = self.kind.may_be_narrow
            return SlotRef(self.state, entry, words, lows, is_listed=True, is_narrow=narrow)
        lows = {slot: self.kind.low_word(name) for slot, name in own.items()}
        return SlotRef(self.state, entry, words, lows, self.kind.roomy)


@dataclass
class StateRefs:
    """The states of all kept views."""

    block: Block
    layout: Layout
    all: list[StateRef] = field(default_factory=list)
    journal: bool = False  # every state has one
    same: dict[str, View] = field(default_factory=dict)  # the table that an indicator is read from

    def field_of(self, name: str) -> Field:
        """A variable as a column of a key."""
        variable = self.block.variable(name)
        return Field(name, variable.type, variable.nullable)

    def of(self, view: View) -> list[StateRef]:
        """The states of a view; a view with several is written to all and read from one."""
        name = self.same.get(view.name, view).name
        return [each for each in self.all if name in [view.name for view in each.views]]

    def zero_test(self, view: View, entry: str, place: StateRef) -> str:
        """The condition that an entry holds a zero payload for a view."""
        stored = self.same.get(view.name, view)
        slots = self.layout.slots(stored)
        first = place.kind.word(place.names[stored.name, slots[0].name])
        words = sum(slot.words for slot in slots)
        function = "list_is_zero" if isinstance(place.kind, Listed) else "indexed_is_zero"
        return f"{function}({place.state}, {entry}, {first}, {words})"

    def for_lookup(self, view: View) -> StateRef:
        """The state in which a whole key is looked up."""
        return self.of(view)[0]

    def for_visit(self, view: View, bound: tuple[str, ...]) -> StateRef:
        """The state that is visited by `bound`, a part of the key."""
        return next(p for p in self.of(view) if isinstance(p.kind, Listed) and p.first == bound)


def place_views(
    block: Block, layout: Layout, root: View, kept: dict[str, str], paths: list[Path]
) -> StateRefs:
    """Assign states to every kept view but the root, and to the indicators."""
    places = StateRefs(block, layout)
    indicators = {each.name: each for each, _ in holders(root)}
    # What an indicator says of floats depends on rounding: only a journal leads back exactly.
    if indicators:
        places.journal = any(_has_floats(layout.slots(view)) for view in root.walk())
    for each in indicators.values():
        table = same_as_table(each, root)
        if table is not None:
            places.same[each.name] = table
    visits: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        for step in path.steps:
            for visit in step.visits:
                for reached in filter(None, (visit, visit.rival)):
                    stored = places.same.get(reached.view.name, reached.view)
                    known = visits.setdefault(stored.name, [])
                    if not reached.is_lookup and reached.bound not in known:
                        known.append(reached.bound)
    above = parents(root)
    fused: dict[tuple[str, tuple[str, ...]], list[View]] = {}
    own = [each for each in indicators.values() if each.name not in places.same]
    for view in (*root.walk(), *own):
        if view is root or view.name not in kept:
            continue
        if visits.get(view.name):
            for bound in visits[view.name]:
                places.all.append(listed_state(places, view, bound, len(visits[view.name]) > 1))
        else:
            together = above[view.name].name if view.name in above else view.name
            fused.setdefault((together, view.keys), []).append(view)
    for views in fused.values():
        places.all.append(indexed_state(places, views))
    return places


def indexed_state(places: StateRefs, views: list[View]) -> StateRef:
    """A state that whole keys are looked up in; views with equal keys lie side by side."""
    view, layout = views[0], places.layout
    if len(views) == 1:
        slots = layout.slots(view)
        journal = not _is_exact(views, slots) or places.journal
        kind = Indexed(_fields(places, view.keys), slots, journal=journal)
        names = {(view.name, slot.name): slot.name for slot in slots}
        return StateRef(_state_name(places, f"v_{view.name}"), kind, (view,), (), names)
    names = {}
    together: list[Slot] = []
    for each in views:
        for slot in layout.slots(each):
            names[each.name, slot.name] = f"{each.name}_{slot.name}"
            together.append(replace(slot, name=f"{each.name}_{slot.name}"))
    wish = "by_" + "_".join(view.keys) if view.keys else "all_" + "_".join(v.name for v in views)
    state = _state_name(places, wish)
    journal = not _is_exact(views, together) or places.journal
    kind = Indexed(_fields(places, view.keys), tuple(together), journal=journal)
    return StateRef(state, kind, tuple(views), (), names)


def listed_state(
    places: StateRefs, view: View, bound: tuple[str, ...], several: bool = False
) -> StateRef:
    """A state whose entries are visited by some of their keys."""
    rest = tuple(key for key in view.keys if key not in bound)
    slots = tuple(
        replace(slot, size=slot.size + slot.lows, lows=0) for slot in places.layout.slots(view)
    )
    journal = not _is_exact((view,), places.layout.slots(view)) or places.journal
    kind = Listed(
        _fields(places, bound),
        _fields(places, rest),
        slots,
        journal=journal,
        may_be_narrow=not journal and places.layout.is_of_numbers,
    )
    names = {(view.name, slot.name): slot.name for slot in slots}
    wish = f"v_{view.name}" + (f"_by_{'_'.join(bound) or 'none'}" if several else "")
    low_at = {slot.name: slot.size for slot in places.layout.slots(view)}
    return StateRef(_state_name(places, wish), kind, (view,), bound, names, low_at=low_at)


def _state_name(places: StateRefs, wish: str) -> str:
    """A name that triggers can say, and that no other state has; columns may have any."""
    return Names(place.state for place in places.all).new(wish)


def _is_exact(views: Iterable[View], slots: Iterable[Slot]) -> bool:
    """Whether taking a change away leaves exactly what was there: floats of tables with low parts,
    which lose nothing, too; their products round."""
    lossless = all(view.is_leaf for view in views)
    return all(slot.is_exact or (lossless and slot.lows > 0) for slot in slots)


def _has_floats(slots: Iterable[Slot]) -> bool:
    """Whether taking a change away may not leave exactly what was there: a journal must."""
    return not all(slot.is_exact for slot in slots)


def _fields(places: StateRefs, names: tuple[str, ...]) -> tuple[Field, ...]:
    return tuple(places.field_of(name) for name in names)

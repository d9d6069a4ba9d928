"""Ask for memory ahead of time: what a batch will touch is known before it is needed.

takes  the path of a change, the places of the views
gives  lines at the top of a trigger's loops, which change nothing but the speed

A lookup in a large state waits for memory twice: for the slot that says where the entry is, then
for the entry. Rows further on in the batch ask for theirs while earlier ones are worked on. That
costs a few steps for each row, so it is done only while a state is larger than the caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from viewmill.algebra.expressions import Column
from viewmill.algebra.types import Boolean, Float
from viewmill.program.states import Listed
from viewmill.strategies.dataflow.source import Source
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.deltas import Path, Step, Visit
from viewmill.strategies.view_tree.rows import Rows
from viewmill.strategies.view_tree.states import Place, Places

# How many rows ahead each step of asking is.
_FIRST, _SECOND, _THIRD = 24, 12, 6


Wanted = list[tuple[Place, tuple[str, ...]]]


def write_is_far(source: Source, block: Block, places: Places, path: Path) -> Wanted:
    """What later rows look up by their own keys, and the line that says whether to ask for it."""
    wanted = [
        (place, names)
        for place, names in dict.fromkeys(_reached(places, path))
        if names and all(_is_plain(block, name, path.leaf) for name in names)
    ]
    if wanted:
        states = dict.fromkeys(place.state for place, _ in wanted)
        source.line(f"far = {' or '.join(f'is_far({state})' for state in states)}")
    return wanted


def write_ahead(source: Source, block: Block, path: Path, rows: Rows, wanted: Wanted) -> None:
    """Ask for what later rows look up."""
    for distance, functions in (
        (_FIRST, ("indexed_fetch", "list_fetch")),
        (_SECOND, ("indexed_fetch_entry", "list_fetch_head")),
        (_THIRD, ("", "list_fetch_entries")),
    ):
        calls = []
        for place, names in wanted:
            function = functions[isinstance(place.kind, Listed)]
            words = [_word(block, name, path.leaf, rows, distance) for name in names]
            if function and words:
                calls.append(f"{function}({place.state}, ({', '.join(words)},))")
        if calls:
            with source.block(f"if far and i + {distance} < size:"):
                for call in calls:
                    source.line(call)


def _reached(places: Places, path: Path) -> Iterator[tuple[Place, tuple[str, ...]]]:
    """The places that a row reaches by its own keys, and the variables that lead there."""
    own = set(path.steps[0].view.keys)
    for step in path.steps:
        if step.is_stored and step is not path.steps[-1] and set(step.view.keys) <= own:
            for place in places.of(step.view):
                yield place, _led(place, step.view.keys)
        for visit in step.visits:
            if not set(visit.bound) <= own:
                return
            if visit.is_lookup:
                yield (
                    places.for_lookup(visit.view),
                    _led(places.for_lookup(visit.view), visit.view.keys),
                )
            else:
                yield places.for_visit(visit.view, visit.bound), visit.bound
                return


def _led(place: Place, keys: tuple[str, ...]) -> tuple[str, ...]:
    return place.first if isinstance(place.kind, Listed) else keys


def _is_plain(block: Block, name: str, alias: str) -> bool:
    """Whether the variable is a bare column whose word needs no work."""
    variable = block.variable(name)
    member = variable.member(alias)
    plain = isinstance(member, Column) and not isinstance(member.type, Float | Boolean)
    return plain and not variable.nullable


def _word(block: Block, name: str, alias: str, rows: Rows, distance: int) -> str:
    operand = rows.scalar.columns[block.variable(name).member(alias).name]  # type: ignore[union-attr]
    return operand.value.replace("[i]", f"[i + {distance}]")


def write_ahead_in_list(
    source: Source, places: Places, visit: Visit, steps: Sequence[Step], list_: str, j: str
) -> None:
    """Ask for what the next entries of a list lead to: states looked up by one word of theirs."""
    place = places.for_visit(visit.view, visit.bound)
    assert isinstance(place.kind, Listed)
    rest = [field.name for field in place.kind.rest]
    found = [
        (target, rest.index(keys[0]))
        for target, keys in dict.fromkeys(_led_to(places, steps))
        if len(keys) == 1
        and keys[0] in rest
        and not isinstance(target.kind, Listed)
        and not target.kind.has_null_word
    ]
    if not found:
        return
    with source.block(f"if {j} & 15 == 0:"):
        for target, word in found:
            source.line(f"list_fetch_next({place.state}, {list_}, {j}, {word}, {target.state})")


def _led_to(places: Places, steps: Sequence[Step]) -> Iterator[tuple[Place, tuple[str, ...]]]:
    for step in steps:
        for visit in step.visits:
            if visit.is_lookup:
                yield places.for_lookup(visit.view), visit.view.keys
    for step in steps[1:-1]:
        if step.is_stored:
            for place in places.of(step.view):
                yield place, step.view.keys

"""Prefetch the state entries that later rows of a batch will touch.

takes  the path of a change, the states of the views
gives  lines at the top of a trigger's loops, which change nothing but the speed

A lookup in a large state waits for memory twice: for the slot that says where the entry is, then
for the entry. Rows further on in the batch ask for theirs while earlier ones are worked on. That
costs a few steps for each row, so it is done only while a state is larger than the caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from viewmill.algebra.expressions import Call, Column, Expression, Literal
from viewmill.algebra.types import Boolean, Float, String
from viewmill.codegen.source import Source
from viewmill.program.states import Listed
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.deltas import Path
from viewmill.strategies.view_tree.rows import Rows
from viewmill.strategies.view_tree.states import StateRef, StateRefs

# How many rows ahead each step prefetches: the slot, the entry, the list, what the list links to.
_FIRST, _SECOND, _THIRD, _FOURTH = 24, 12, 6, 2


_COMPARED = {"=": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


@dataclass(frozen=True)
class Wanted:
    """What later rows look up by their own keys; `visited` are lists whose links they follow.

    `flags` are the variables that say whether a state exceeds the CPU caches.
    """

    places: tuple[tuple[StateRef, tuple[str, ...]], ...]
    visited: frozenset[str]
    flags: dict[str, str]


def emit_cache_tests(source: Source, block: Block, places: StateRefs, path: Path) -> Wanted:
    """Write the lines that test which states exceed the cache; return what later rows look up."""
    wanted = tuple(
        (place, names)
        for place, names in dict.fromkeys(_reached(places, path))
        if names and all(_is_plain(block, name, path.leaf) for name in names)
    )
    visited = frozenset(_visited(places, path)) & {place.state for place, _ in wanted}
    flags = {}
    for state in dict.fromkeys(_asked(wanted, visited)):
        flags[state] = source.name(f"far_{state}")
        source.line(f"{flags[state]} = exceeds_cache({state})")
    if wanted:
        source.line(f"far = {' or '.join(flags.values())}")
    return Wanted(wanted, visited, flags)


def _asked(
    wanted: Sequence[tuple[StateRef, tuple[str, ...]]], visited: frozenset[str]
) -> Iterator[str]:
    """The states that are looked up, and those that visited lists lead to."""
    for place, _ in wanted:
        yield place.state
        yield from place.links if place.state in visited else ()


def emit_prefetch(source: Source, block: Block, path: Path, rows: Rows, wanted: Wanted) -> None:
    """Write the prefetch of what later rows look up, unless the filter is going to drop them."""
    likely = _likely(rows, block.occurrence(path.leaf).where)
    for distance, functions in (
        (_FIRST, ("indexed_fetch", "list_fetch")),
        (_SECOND, ("indexed_fetch_entry", "list_fetch_head")),
        (_THIRD, ("", "list_fetch_entries")),
        (_FOURTH, ("", "list_fetch_linked")),
    ):
        calls: list[tuple[str, str]] = []  # with the state whose memory is asked for
        for place, names in wanted.places:
            function = functions[isinstance(place.kind, Listed)]
            words = [_word(block, name, path.leaf, rows, distance) for name in names]
            key = f"({', '.join(words)},)"
            is_visited = place.state in wanted.visited
            if function == "list_fetch_linked":
                links = place.links if is_visited else ()
                for each in links:
                    linked = f"{key}, {place.link(each)}, {each}"
                    calls.append((each, f"{function}({place.state}, {linked})"))
                continue
            if function == "list_fetch_entries" and not is_visited:
                function = "list_fetch_end"
            if function:
                calls.append((place.state, f"{function}({place.state}, {key})"))
        if calls:
            later = likely.replace("[i]", f"[i + {distance}]")
            with source.block(f"if far and i + {distance} < size{later}:"):
                for state, call in calls:
                    with source.block(f"if {wanted.flags[state]}:"):
                        source.line(call)


def _likely(rows: Rows, conditions: Sequence[Expression]) -> str:
    """The cheap part of the filter, comparisons with constants: rows that fail get no prefetch."""
    tests = []
    for each in conditions:
        if not isinstance(each, Call) or each.function not in _COMPARED:
            continue
        column, literal = each.arguments
        if (
            isinstance(column, Column)
            and isinstance(literal, Literal)
            and literal.value is not None
        ):
            if isinstance(column.type, String) and each.function != "=":
                continue
            word, constant = rows.scalar.emit(column).value, rows.scalar.emit(literal).value
            tests.append(f" and {word} {_COMPARED[each.function]} {constant}")
    return "".join(tests)


def _visited(places: StateRefs, path: Path) -> Iterator[str]:
    """The lists that a change of this path goes through, but for the shorter one of two."""
    for step in path.steps:
        for visit in step.visits:
            if not visit.is_lookup and visit.rival is None:
                yield places.for_visit(visit.view, visit.bound).state


def _reached(places: StateRefs, path: Path) -> Iterator[tuple[StateRef, tuple[str, ...]]]:
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


def _led(place: StateRef, keys: tuple[str, ...]) -> tuple[str, ...]:
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


def emit_list_prefetch(
    source: Source, place: StateRef, list_: str, j: str, visited: frozenset[str]
) -> None:
    """Write the prefetch of what the next entries of a list link to.

    The first entries of `visited` lists were prefetched with the row.
    """
    if not place.links:
        return
    later = f" and {j} > 0" if place.state in visited else ""
    with source.block(f"if {j} & 15 == 0{later}:"):
        for target in place.links:
            word = place.link(target)
            source.line(f"list_fetch_next({place.state}, {list_}, {j}, {word}, {target})")

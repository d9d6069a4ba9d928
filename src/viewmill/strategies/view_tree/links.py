"""Entries of lists that remember where they lead (`Listed.links`).

takes  the places of the views, the paths of all changes
gives  lists with a link for each state that is looked up for every entry visited

A change that visits a list goes on, for each entry, to states whose keys the entry says. What is
found there is remembered in the entry: the next visit needs neither a hash nor a search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from viewmill.program.states import Listed
from viewmill.strategies.view_tree.deltas import Path
from viewmill.strategies.view_tree.states import StateRef, StateRefs

_MAX_LINKS = 2  # of an entry: each takes a word


def add_links(places: StateRefs, paths: Iterable[Path], result: str) -> None:
    """Give the lists among the places their links; `result` is the state of the root."""
    found: dict[str, dict[str, None]] = {}
    for path in paths:
        for place, target in _led_to(places, path, result):
            found.setdefault(place.state, {})[target] = None
    for i, place in enumerate(places.all):
        links = tuple(found.get(place.state, ()))[:_MAX_LINKS]
        if links:
            assert isinstance(place.kind, Listed)
            kind = replace(place.kind, links=len(links))
            places.all[i] = replace(place, kind=kind, links=links)


def _led_to(places: StateRefs, path: Path, result: str) -> Iterator[tuple[StateRef, str]]:
    """The lists that a change visits, each with the states that their entries lead to."""
    matched: list[StateRef] = []
    for step in path.steps:
        keys = step.view.keys
        if step.view is path.steps[-1].view:
            targets = [result] if keys else []
        elif step.is_stored:
            targets = [p.state for p in places.of(step.view) if not isinstance(p.kind, Listed)]
        else:
            targets = []
        yield from ((p, each) for each in targets for p in nearest(matched, keys))
        for visit in step.visits:
            if visit.is_lookup:
                place = places.for_lookup(visit.view)
                if not isinstance(place.kind, Listed):
                    yield from ((p, place.state) for p in nearest(matched, visit.view.keys))
            elif visit.rival is None:
                matched.append(places.for_visit(visit.view, visit.bound))


def nearest(matched: list[StateRef], keys: tuple[str, ...]) -> list[StateRef]:
    """The innermost list whose entries say the whole key; none or one."""
    return [place for place in reversed(matched) if set(keys) <= set(place.keys)][:1]

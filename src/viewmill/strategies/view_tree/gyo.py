"""Which hyperedges are part of a cycle: the reduction of Graham, Yu and Özsoyoğlu (section 6).

takes  the keys of the views that a join has, and keys of other tables
gives  the tables among those others that close a cycle
next   indicators
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def reduced(edges: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """What is left of a hypergraph: nothing if it is acyclic.

    >>> reduced({"r": frozenset("ab"), "s": frozenset("bc")})
    {}
    >>> sorted(reduced({"r": frozenset("ab"), "s": frozenset("bc"), "t": frozenset("ca")}))
    ['r', 's', 't']
    """
    left = dict(edges)
    while True:
        before = dict(left)
        for name in reversed(list(left)):
            if any(left[name] <= other for key, other in left.items() if key != name):
                del left[name]
        counts: dict[str, int] = {}
        for edge in left.values():
            for vertex in edge:
                counts[vertex] = counts.get(vertex, 0) + 1
        left = {k: frozenset(v for v in edge if counts[v] > 1) for k, edge in left.items()}
        left = {name: edge for name, edge in left.items() if edge}
        if left == before:
            return left


def surviving(joined: Iterable[frozenset[str]], others: Mapping[str, frozenset[str]]) -> list[str]:
    """The tables among `others` that form a cycle with the joined views.

    >>> surviving([frozenset("bc"), frozenset("ca")], {"r": frozenset("ab")})
    ['r']
    >>> surviving([frozenset("ab"), frozenset("bc")], {"r3": frozenset("c"), "r4": frozenset("a")})
    []
    """
    edges = {f"\0{i}": keys for i, keys in enumerate(joined)}
    shared = frozenset().union(*edges.values()) if edges else frozenset()
    edges |= {name: keys & shared for name, keys in others.items() if keys & shared}
    left = reduced(edges)
    return [name for name in others if name in left]

"""Between which sums the levels of a node lie: what lets a selection pass over whole nodes.

Once a level is negative in the watched word, sums along the order rise and fall. The
hull of a node is the least and the most that the watched word sums to over its first levels, over
none of them included. If all sums of a node qualify, or none, nobody looks inside: of a walk up
and down, as many leaves as the square root of their number lie across a bound.

A hull is computed when it is asked for and forgotten when something below its node changes.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.memory import load_word, store_word
from viewmill.kernels.structures.ordered_nodes import (
    GROUP,
    HULL_KNOWN,
    KEYS,
    LEAF,
    LEAST,
    MOST,
    SIGNED,
    array_of,
)
from viewmill.kernels.structures.vectors import load_at


@structure
def know_leaf(s, leaf):
    """Compute the hull of a leaf, unless it is known."""
    if load_word(leaf + HULL_KNOWN) != 0:
        return
    words = array_of(leaf, LEAF, load_word(s + KEYS) + load_word(s + SIGNED))
    least, most, running = 0, 0, 0
    for i in range(load_word(leaf)):
        running += load_at(words, i)
        least, most = min(least, running), max(most, running)
    keep_hull(leaf, least, most)


@structure
def know_group(s, group):
    """Compute the hull of a group, unless it is known."""
    if load_word(group + HULL_KNOWN) != 0:
        return
    keys = load_word(s + KEYS)
    sums = array_of(group, GROUP, keys + 1 + load_word(s + SIGNED))
    least, most, running = 0, 0, 0
    for j in range(load_word(group)):
        leaf = load_at(array_of(group, GROUP, keys), j)
        know_leaf(s, leaf)
        least = min(least, running + load_word(leaf + LEAST))
        most = max(most, running + load_word(leaf + MOST))
        running += load_at(sums, j)
    keep_hull(group, least, most)


@structure
def keep_hull(node, least, most):
    """The hull of a node is known."""
    store_word(node + HULL_KNOWN, 1)
    store_word(node + LEAST, least)
    store_word(node + MOST, most)

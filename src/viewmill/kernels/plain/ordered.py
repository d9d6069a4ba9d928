"""An ordered state as a dict of levels; ranges and aggregates by walking the sorted keys."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from viewmill.kernels.plain.arithmetic import float_key, key_float, sort_word
from viewmill.program.states import Ordered

Key = tuple[int, ...]
Words = list[int]  # of a float the first is an exact fraction instead


class PlainOrdered:
    """Levels by key, the level of NULL, and every change since the commit."""

    def __init__(self, kind: Ordered) -> None:
        self.kind = kind
        self.floats = {kind.word(s.name) for s in kind.payload if s.kind == "sum"}
        self.clear()

    def clear(self) -> None:
        """Hold nothing."""
        self.levels: dict[Key, Words] = {}
        self.nulls: Words = [0] * self.kind.payload_words
        self.log: list[tuple[Key | None, Words]] = []
        self.picked: Words = [0] * self.kind.payload_words
        self.aim: tuple[int, ...] = ()
        self.groups: list[Key] = []

    def change(self, key: Key | None, words: Sequence[int], sign: int = 1) -> None:
        """A level += words."""
        values = [Fraction(key_float(x)) if j in self.floats else x for j, x in enumerate(words)]
        self.add(key, values, sign)

    def add(self, key: Key | None, values: Sequence[Any], sign: int = 1) -> None:
        """A level += numbers, of which those of floats are exact."""
        level = self.nulls if key is None else self.levels.setdefault(key, [0] * len(values))
        for j, x in enumerate(values):
            level[j] += sign * x
        if key is not None and not any(level):
            del self.levels[key]

    def repeat(self, sign: int) -> None:
        """Make the noted changes once more, or take them back."""
        for key, words in self.log:
            self.change(key, words, sign)

    def in_order(self) -> list[Key]:
        """The keys in order."""
        return sorted(self.levels)

    def pick(self, keys: Sequence[Key], *, nulls: bool = False) -> None:
        """Remember the sums over these levels."""
        chosen = [self.levels[key] for key in keys] + ([self.nulls] if nulls else [])
        self.picked = [sum(column) for column in zip(*chosen, strict=True)] or [0] * len(self.nulls)


def ordered_add(s: PlainOrdered, key: Sequence[int], words: Sequence[int]) -> None:
    """The level of a key += words."""
    noted = (tuple(map(int, key)), [int(x) for x in words])
    s.change(*noted)
    s.log.append(noted)


def ordered_add_null(s: PlainOrdered, words: Sequence[int]) -> None:
    """The level of rows whose key is NULL += words."""
    s.change(None, words)
    s.log.append((None, [int(x) for x in words]))


def ordered_total(s: PlainOrdered, j: int) -> int:
    """Word j of all levels."""
    return s.nulls[j] + sum(level[j] for level in s.levels.values())


def ordered_null(s: PlainOrdered, j: int) -> int:
    """Word j of the level of NULL."""
    return s.nulls[j]


def ordered_strained(s: PlainOrdered) -> bool:
    """Whether some sum of levels could leave 64 bits."""
    levels = [*s.levels.values(), s.nulls]
    return any(sum(abs(x) for x in column) >= 2**62 for column in zip(*levels, strict=True))


def ordered_total_real(s: PlainOrdered, j: int) -> float:
    """Float word j of all levels."""
    return real_value(ordered_total(s, j), ordered_total(s, j + 3))


def real_value(x: Fraction | int, special: int) -> float:
    """A sum together with what is not finite."""
    plus, minus = special % 2**32, special >> 32
    if plus and minus:
        return math.nan
    return math.inf if plus else -math.inf if minus else float(x)


def first_whole(w: float, scale: int, strict: bool) -> int:
    """The first whole number q for which q / scale >= w, or > w if `strict`, of 64 bits; the last
    one where there is none."""
    if w != w:
        return 2**63 - 1
    low, high = -(2**63), 2**63 - 1
    while low < high:
        q = (low + high) // 2
        if q / scale > w or (not strict and q / scale == w):
            high = q
        else:
            low = q + 1
    return low


def no_whole(w: float, scale: int, strict: bool) -> bool:
    """Whether no whole number q has q / scale >= w, or > w if `strict`."""
    last = (2**63 - 1) / scale
    return w != w or (last <= w if strict else last < w)


def ordered_negative(s: PlainOrdered) -> int:
    """How many levels are negative in a word that the state watches, once for each word."""
    watched = [each for each in (s.kind.watched, s.kind.counted) if each is not None]
    return sum(level[each] < 0 for level in s.levels.values() for each in watched)


def ordered_size(s: PlainOrdered) -> int:
    """How many levels there are."""
    return len(s.levels)


def ordered_end(s: PlainOrdered) -> int:
    """The position behind the last level."""
    return len(s.levels)


def ordered_before(s: PlainOrdered, p: int, j: int) -> int:
    """The sum of word j over the levels before position p."""
    return sum(s.levels[key][j] for key in s.in_order()[:p])


def ordered_next(s: PlainOrdered, p: int) -> int:
    """The position after p."""
    return p + 1


def ordered_word(s: PlainOrdered, p: int, j: int) -> int:
    """Word j of the level at p."""
    return s.levels[s.in_order()[p]][j]


def ordered_key(s: PlainOrdered, p: int, j: int) -> int:
    """Word j of the key of the level at p."""
    return s.in_order()[p][j]


def ordered_from(s: PlainOrdered, key: Sequence[int]) -> int:
    """The first position whose key is at least `key`."""
    return bisect_left(s.in_order(), tuple(map(int, key)))


def ordered_after(s: PlainOrdered, key: Sequence[int]) -> int:
    """The first position whose key is larger than `key`."""
    return bisect_right(s.in_order(), tuple(map(int, key)))


def ordered_reach(s: PlainOrdered, j: int, goal: int) -> int:
    """The first position up to which word j sums to at least `goal`."""
    running = 0
    for p, key in enumerate(s.in_order()):
        running += s.levels[key][j]
        if running >= goal:
            return p
    return len(s.levels)


def ordered_picked(s: PlainOrdered, j: int) -> int:
    """Word j of the levels that the last selection picked."""
    return s.picked[j]


def ordered_picked_real(s: PlainOrdered, j: int) -> float:
    """Float word j of the levels that the last selection picked."""
    return real_value(s.picked[j], s.picked[j + 3])


def ordered_picked_finite(s: PlainOrdered, j: int) -> float:
    """Float word j of the picked levels, without NaN and infinities."""
    return float(s.picked[j])


def ordered_pick_none(s: PlainOrdered) -> None:
    """Pick no level."""
    s.pick([])


def ordered_pick_all(s: PlainOrdered) -> None:
    """Pick every level."""
    s.pick(s.in_order(), nulls=True)


def ordered_pick_keys(s: PlainOrdered, low: int, high: int, bounded: bool, outside: bool) -> None:
    """Pick the levels with low <= key < high, or the others."""
    inside = {k for k in s.levels if low <= k[0] and (not bounded or k[0] < high)}
    s.pick([key for key in s.in_order() if (key in inside) != bool(outside)])


def ordered_pick(
    s: PlainOrdered, side: int, j: int, c: int, low: int, high: int,
    bounded: bool, outside: bool, empty: bool,
) -> None:  # fmt: skip
    """Pick the levels whose aggregate lies within bounds."""
    keys = s.in_order()
    chosen = _chosen(s, keys, side, j, c, low, high, bounded, outside, empty)
    s.pick(chosen, nulls=bool(empty))


def ordered_pick_run(
    s: PlainOrdered, p: int, q: int, side: int, j: int, c: int, low: int, high: int,
    bounded: bool, outside: bool, empty: bool,
) -> None:  # fmt: skip
    """Pick the levels from p to q whose aggregate, over these levels alone, lies within bounds."""
    keys = s.in_order()[p:q]
    s.pick(_chosen(s, keys, side, j, c, low, high, bounded, outside, empty))


def _chosen(
    s: PlainOrdered, keys: list[Key], side: int, j: int, c: int, low: int, high: int,
    bounded: bool, outside: bool, empty: bool,
) -> list[Key]:  # fmt: skip
    chosen = []
    for p, key in enumerate(keys):
        over = [keys[: p + 1], keys[:p], keys[p:], keys[p + 1 :]][side]
        rows = 1 if c < 0 else sum(s.levels[each][c] for each in over)
        a = _summed(s, [s.levels[each] for each in over], j)
        inside = low <= a and (not bounded or a < high)
        if (inside != bool(outside)) if rows else empty:
            chosen.append(key)
    return chosen


def _summed(s: PlainOrdered, levels: Sequence[Words], j: int) -> int:
    """The sum of word j; of floats a word that compares as they do."""
    a = sum(words[j] for words in levels)
    if j not in s.floats:
        return a
    return sort_word(float_key(real_value(a, sum(words[j + 3] for words in levels))))


def _group_of(s: PlainOrdered, key: Key) -> Key:
    """The group of a level: its key without the level and the bit that says whether it is NULL."""
    *group, _ = key
    if s.kind.has_bits:
        group[0 if s.kind.is_narrow else -1] &= ~1
    return tuple(group)


def _is_null(s: PlainOrdered, key: Key) -> bool:
    return s.kind.has_bits and key[0 if s.kind.is_narrow else -2] & 1 != 0


def ordered_groups(s: PlainOrdered) -> int:
    """List the groups; how many there are."""
    s.groups = sorted({_group_of(s, key) for key in s.levels})
    return len(s.groups)


def ordered_group_key(s: PlainOrdered, t: int, j: int) -> int:
    """Word j of the key of group t."""
    return s.groups[t][j]


def ordered_regroup(s: PlainOrdered) -> bool:
    """Nothing is ever known of the groups."""
    return True


def ordered_moved(s: PlainOrdered) -> bool:
    """Nobody remembers what was picked before."""
    return True


def _levels_of(s: PlainOrdered, t: int) -> list[Key]:
    return [key for key in s.in_order() if _group_of(s, key) == s.groups[t]]


def ordered_aim(
    s: PlainOrdered, side: int, j: int, c: int, low: int, high: int,
    bounded: bool, outside: bool, empty: bool,
) -> None:  # fmt: skip
    """Note which outer keys would qualify."""
    s.aim = (side, j, c, low, high, bounded, outside, empty)


def _is_aimed(s: PlainOrdered, x: int) -> bool:
    """Whether a level x, that need not be there, would be picked."""
    side, j, c, low, high, bounded, outside, empty = s.aim
    tests = (x.__ge__, x.__gt__, x.__le__, x.__lt__)  # this level against those inside
    over = [words for key, words in s.levels.items() if tests[side](key[0])]
    if c >= 0 and sum(words[c] for words in over) == 0:
        return bool(empty)
    a = _summed(s, over, j)
    return (low <= a and (not bounded or a < high)) != bool(outside)


def ordered_regather(s: PlainOrdered, by: PlainOrdered, t: int) -> bool:
    """Pick in group t as aimed in `by`."""
    empty = bool(by.aim[-1])
    s.pick([k for k in _levels_of(s, t) if (empty if _is_null(s, k) else _is_aimed(by, k[-1]))])
    return True


def ordered_regather_keys(
    s: PlainOrdered, t: int, low: int, high: int, bounded: bool, outside: bool, is_none: bool
) -> bool:
    """Pick in group t by the level."""
    keys = [] if is_none else [key for key in _levels_of(s, t) if not _is_null(s, key)]
    inside = [low <= key[-1] and (not bounded or key[-1] < high) for key in keys]
    s.pick([key for key, is_in in zip(keys, inside, strict=True) if is_in != bool(outside)])
    return True


def ordered_gather_keys(
    s: PlainOrdered, p: int, q: int, low: int, high: int, bounded: bool, outside: bool
) -> None:
    """Pick among positions p to q by the level."""
    keys = s.in_order()[p:q]
    inside = [low <= key[-1] and (not bounded or key[-1] < high) for key in keys]
    s.pick([key for key, is_in in zip(keys, inside, strict=True) if is_in != bool(outside)])

"""A keyed state as a dict of dicts, with a copy of every touched entry in a list."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from viewmill.kernels.plain.arithmetic import HIGH, LOW, half_up, wrapped
from viewmill.program.states import Keyed

Key = tuple[int, ...]
# By the number of the slot's first word: int and wide are Python ints, a sum is an exact fraction;
# floats are a list that is replaced, never changed.
Slot = int | Fraction | list[Fraction]
Values = dict[int, Slot]


class PlainKeyed:
    """The entries by number. Numbers are never used twice, so an old copy is an entry too."""

    def __init__(self, kind: Keyed) -> None:
        self.kind = kind
        self.clear()

    def clear(self) -> None:
        """Hold nothing."""
        self.numbers: dict[Key, int] = {}
        self.entries: dict[int, tuple[Key, Values]] = {}
        self.journal: list[tuple[Key, int, bool]] = []  # key, number of its old copy, was it there
        self.touched: set[Key] = set()
        self.positions: list[int] = []
        self.committed = False
        self._next = 0

    def new_entry(self, key: Key, values: Values) -> int:
        """A number for an entry."""
        self._next += 1
        self.entries[self._next] = (key, values)
        return self._next

    def zero(self) -> Values:
        """The payload of no rows."""
        return {
            self.kind.word(slot.name): Fraction(0) if slot.kind == "sum" else 0
            for slot in self.kind.payload
        }

    def commit(self) -> None:
        """Forget the copies, drop what is zero."""
        for key, before, _ in self.journal:
            del self.entries[before]
            if all(is_zero(value) for value in self.entries[self.numbers[key]][1].values()):
                del self.entries[self.numbers.pop(key)]
        self.journal, self.touched = [], set()

    def rollback(self) -> None:
        """Put the copies back."""
        for key, before, existed in self.journal:
            _, values = self.entries.pop(before)
            number = self.numbers[key]
            if existed:
                self.entries[number] = (key, values)
            else:
                del self.entries[number], self.numbers[key]
        self.journal, self.touched = [], set()

    def scan(self, *, committed: bool) -> None:
        """Fix the positions that `keyed_at` gives."""
        self.committed = committed
        old = {key: before if existed else -1 for key, before, existed in self.journal}
        now = self.numbers
        self.positions = [old.get(key, now[key]) if committed else now[key] for key in now]


def is_zero(value: Slot) -> bool:
    """Whether a slot is zero; floats of a ring are not asked."""
    return isinstance(value, list) or value == 0


def keyed_full(s: PlainKeyed) -> bool:
    """Whether there is no room for one more touch: never."""
    return False


def keyed_touch(s: PlainKeyed, key: Sequence[int]) -> int:
    """The entry of a key (made if absent); its old payload is noted."""
    words = tuple(map(int, key))
    existed = words in s.numbers
    if not existed:
        s.numbers[words] = s.new_entry(words, s.zero())
    number = s.numbers[words]
    if words not in s.touched:
        s.touched.add(words)
        s.journal.append((words, s.new_entry(words, dict(s.entries[number][1])), existed))
    return number


def keyed_touched(s: PlainKeyed) -> int:
    """How many keys were touched since the last commit."""
    return len(s.journal)


def keyed_before(s: PlainKeyed, t: int) -> int:
    """Touched key t as it was at the last commit."""
    return s.journal[t][1]


def keyed_now(s: PlainKeyed, t: int) -> int:
    """Touched key t as it is."""
    return s.numbers[s.journal[t][0]]


def keyed_capacity(s: PlainKeyed) -> int:
    """How many positions `keyed_at` takes."""
    s.scan(committed=s.committed)
    return len(s.positions)


def keyed_at(s: PlainKeyed, i: int) -> int:
    """The entry at position i, or -1."""
    return s.positions[i]


def key_word(s: PlainKeyed, e: int, i: int) -> int:
    """Word i of the key of entry e."""
    return s.entries[e][0][i]


def keyed_add(s: PlainKeyed, e: int, k: int, x: int) -> None:
    """Int slot += x."""
    s.entries[e][1][k] = wrapped(_whole(s, e, k) + int(x))


def keyed_add_wide(s: PlainKeyed, e: int, k: int, x: int, m: int) -> None:
    """Wide slot += x * m."""
    s.entries[e][1][k] = _whole(s, e, k) + int(x) * int(m)


def keyed_add_value(s: PlainKeyed, e: int, k: int, w: int, m: int) -> None:
    """Wide slot += w * m, which fits."""
    s.entries[e][1][k] = _whole(s, e, k) + int(w) * int(m)


def keyed_add_carried(s: PlainKeyed, e: int, k: int, c: int, w: int, m: int) -> None:
    """Wide slot k += w * m; int slot c counts how often that left 128 bits."""
    total = _whole(s, e, k) + int(w) * int(m)
    over = (total + 2**127) >> 128
    s.entries[e][1][k] = total - (over << 128)
    s.entries[e][1][c] = _whole(s, e, c) + over


def _whole(s: PlainKeyed, e: int, k: int) -> int:
    value = s.entries[e][1][k]
    assert isinstance(value, int)
    return value


def int_at(s: PlainKeyed, e: int, k: int) -> int:
    """The value of an int slot."""
    return _whole(s, e, k)


def nearest_float(total: Fraction) -> float:
    """A fraction as a float, infinite where it is too large for one."""
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def wide_fits(s: PlainKeyed, e: int, k: int) -> bool:
    """Whether a wide slot's value is an int64."""
    return LOW <= _whole(s, e, k) <= HIGH


def wide_int(s: PlainKeyed, e: int, k: int) -> int:
    """The value of a wide slot that fits."""
    return _whole(s, e, k)


def wide_float(s: PlainKeyed, e: int, k: int) -> float:
    """The value of a wide slot as a float."""
    return float(_whole(s, e, k))


def wide_ratio_fits(s: PlainKeyed, e: int, k: int, scale: int, n: int) -> bool:
    """Whether wide * scale / n is an int64; n = 0 is not."""
    return n != 0 and LOW <= wide_ratio(s, e, k, scale, n) <= HIGH


def wide_ratio(s: PlainKeyed, e: int, k: int, scale: int, n: int) -> int:
    """Wide * scale / n, half away from zero."""
    return half_up(Fraction(_whole(s, e, k) * scale, int(n)))

"""An indexed state as a dict; entries are numbered from 1, as 0 means none."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from viewmill.kernels.plain.arithmetic import wrapped
from viewmill.kernels.plain.keyed import Key, Values, is_zero
from viewmill.program.states import Indexed, Listed, Passing, Slot


def zero_of(payload: Sequence[Slot]) -> Values:
    """The payload of no rows, by the number of each slot's first word."""
    values: Values = {}
    at = 0
    for slot in payload:
        if slot.kind == "floats":
            values[at] = [Fraction(0)] * slot.size
        else:
            values[at] = Fraction(0) if slot.kind == "sum" else 0
        at += slot.words
    return values


class PlainIndexed:
    """The entries by number. Numbers are never used twice, so an old copy is an entry too."""

    def __init__(self, kind: Indexed | Listed | Passing) -> None:
        self.kind = kind
        self.clear()

    def clear(self) -> None:
        """Hold nothing."""
        self.numbers: dict[Key, int] = {}
        self.entries: dict[int, tuple[Key, Values]] = {}
        self.journal: dict[Key, tuple[int, bool]] = {}  # number of its old copy, was it there
        self.committed = False
        self._next = 0

    @property
    def has_journal(self) -> bool:
        """Whether changes are noted."""
        return isinstance(self.kind, Indexed) and self.kind.journal

    def new_entry(self, key: Key, values: Values) -> int:
        """A number for an entry."""
        self._next += 1
        self.entries[self._next] = (key, values)
        return self._next

    def touch(self, key: Key) -> int:
        """The number of a key's entry, made if absent, noted."""
        existed = key in self.numbers
        if not existed:
            self.numbers[key] = self.new_entry(key, zero_of(self.kind.payload))
        number = self.numbers[key]
        if self.has_journal and key not in self.journal:
            old = self.new_entry(key, dict(self.entries[number][1]))
            self.journal[key] = (old, existed)
        return number

    def is_zero(self, number: int) -> bool:
        """Whether a whole payload is zero."""
        values = self.entries[number][1].values()
        return all(
            slot.is_note or is_zero(value)
            for slot, value in zip(self.kind.payload, values, strict=True)
        )

    def drop(self, key: Key) -> None:
        """Forget an entry."""
        del self.entries[self.numbers.pop(key)]

    def commit(self) -> None:
        """Forget the copies, drop what is zero."""
        for key, (before, _) in self.journal.items():
            del self.entries[before]
            if self.is_zero(self.numbers[key]):
                self.drop(key)
        self.journal = {}

    def rollback(self) -> None:
        """Put the copies back."""
        for key, (before, existed) in self.journal.items():
            copy = self.entries.pop(before)
            if existed:
                self.entries[self.numbers[key]] = copy
            else:
                self.drop(key)
        self.journal = {}

    def positions(self) -> list[int]:
        """The entries that a scan sees, 0 where there is none."""
        if not self.committed:
            return list(self.numbers.values())
        old = {key: before if existed else 0 for key, (before, existed) in self.journal.items()}
        return [old.get(key, number) for key, number in self.numbers.items()]


def words_of(key: Sequence[int]) -> Key:
    """A key of plain integers."""
    return tuple(map(int, key))


def indexed_find(s: PlainIndexed, key: Sequence[int]) -> int:
    """The entry of a key, or 0."""
    return s.numbers.get(words_of(key), 0)


def indexed_touch(s: PlainIndexed, key: Sequence[int]) -> int:
    """The entry of a key, made if absent."""
    return s.touch(words_of(key))


def indexed_fetch(s: PlainIndexed, key: Sequence[int]) -> None:
    """Nothing to do: plain states are not prefetched."""


def exceeds_cache(s: object) -> bool:
    """Never: a Python dict cannot be prefetched."""
    return False


def indexed_fetch_entry(s: PlainIndexed, key: Sequence[int]) -> None:
    """Nothing to do: plain states are not prefetched."""


def indexed_is_zero(s: PlainIndexed, e: int, first: int, words: int) -> bool:
    """Whether some words of a payload are zero."""
    values = s.entries[e][1]
    return all(is_zero(value) for k, value in values.items() if first <= k < first + words)


def indexed_settle(s: PlainIndexed, e: int) -> None:
    """Drop an entry without journal if its whole payload is zero."""
    if not s.has_journal and s.is_zero(e):
        s.drop(s.entries[e][0])


def indexed_word(s: PlainIndexed, e: int, i: int) -> int:
    """Word i of the key of entry e."""
    return s.entries[e][0][i]


def indexed_add(s: PlainIndexed, e: int, k: int, x: int) -> None:
    """Int slot += x."""
    s.entries[e][1][k] = wrapped(_whole(s, e, k) + int(x))


def indexed_add_wide(s: PlainIndexed, e: int, k: int, w: int) -> None:
    """Wide slot += w."""
    s.entries[e][1][k] = _whole(s, e, k) + int(w)


def _whole(s: PlainIndexed, e: int, k: int) -> int:
    value = s.entries[e][1][k]
    assert isinstance(value, int)
    return value


def indexed_touched(s: PlainIndexed) -> int:
    """How many keys were touched since the last commit."""
    return len(s.journal)


def indexed_before(s: PlainIndexed, t: int) -> int:
    """Touched key t as it was at the last commit."""
    return list(s.journal.values())[t][0]


def indexed_now(s: PlainIndexed, t: int) -> int:
    """Touched key t as it is."""
    return s.numbers[list(s.journal)[t]]


def indexed_old(s: PlainIndexed, e: int) -> int:
    """Entry e as it was at the last commit."""
    key = s.entries[e][0]
    return s.journal[key][0] if key in s.journal else e


def indexed_count(s: PlainIndexed) -> int:
    """How many positions `indexed_at` takes."""
    return len(s.numbers)


def indexed_at(s: PlainIndexed, i: int) -> int:
    """The entry at position i, or 0."""
    return s.positions()[i]


def indexed_commit(s: PlainIndexed) -> int:
    """Keep what was done; what is zero is dropped."""
    s.commit()
    return 0

"""A listed state as a dict of dicts; a list is known by the first words of its keys."""

from __future__ import annotations

from collections.abc import Sequence

from viewmill.kernels.plain.indexed import (
    PlainIndexed,
    indexed_add,
    indexed_add_wide,
    indexed_is_zero,
    words_of,
)
from viewmill.kernels.plain.keyed import Key, Values
from viewmill.kernels.plain.wide_values import wide_at
from viewmill.program.states import Listed


class PlainListed(PlainIndexed):
    """The entries by number, and the numbers of each list by the first words of their keys."""

    def __init__(self, kind: Listed) -> None:
        self.first_words, self.is_logged = kind.first_words, kind.journal
        super().__init__(kind)

    def clear(self) -> None:
        """Hold nothing."""
        super().clear()
        self.log: dict[Key, Values | None] = {}  # as they were at the last commit
        self._lists: dict[Key, dict[int, None]] = {}

    def new_entry(self, key: Key, values: Values) -> int:
        """A number for an entry, at the end of its list."""
        number = super().new_entry(key, values)
        self._lists.setdefault(key[: self.first_words], {})[number] = None
        return number

    def drop(self, key: Key) -> None:
        """Forget an entry."""
        first = key[: self.first_words]
        del self._lists[first][self.numbers[key]]
        if not self._lists[first]:
            del self._lists[first]
        super().drop(key)

    def commit(self) -> None:
        """Forget how it was."""
        self.log = {}

    def rollback(self) -> None:
        """Put back how it was."""
        for key, values in self.log.items():
            if key in self.numbers:
                self.drop(key)
            if values is not None:
                self.numbers[key] = self.new_entry(key, values)
        self.log = {}

    def note(self, key: Key) -> None:
        """Remember an entry before its first change."""
        if self.is_logged and key not in self.log:
            number = self.numbers.get(key)
            self.log[key] = None if number is None else dict(self.entries[number][1])

    def members(self, first: Key) -> list[int]:
        """The entries whose key begins so."""
        return list(self._lists.get(first, ()))


def list_of(s: PlainListed, first: Sequence[int]) -> list[int]:
    """The list of the entries whose first words are these."""
    return s.members(words_of(first))


def list_size(s: PlainListed, list_: list[int]) -> int:
    """How many entries a list has."""
    return len(list_)


def list_at(s: PlainListed, list_: list[int], j: int) -> int:
    """Entry j of a list."""
    return list_[j]


def list_word(s: PlainListed, e: int, i: int) -> int:
    """Word i of the rest of the key of entry e."""
    return s.entries[e][0][s.first_words + i]


def list_find(s: PlainListed, first: Sequence[int], rest: Sequence[int]) -> int:
    """The entry of a key, or 0."""
    return s.numbers.get(words_of(first) + words_of(rest), 0)


def list_touch(s: PlainListed, first: Sequence[int], rest: Sequence[int]) -> int:
    """The entry of a key, made if absent."""
    key = words_of(first) + words_of(rest)
    s.note(key)
    return s.touch(key)


def list_int(s: PlainListed, e: int, k: int) -> int:
    """The value of an int slot."""
    return wide_at(s, e, k)


def list_wide(s: PlainListed, e: int, k: int) -> int:
    """The value of a wide slot."""
    return wide_at(s, e, k)


def list_add(s: PlainListed, e: int, k: int, x: int) -> None:
    """Int slot += x."""
    indexed_add(s, e, k, x)


def list_add_wide(s: PlainListed, e: int, k: int, w: int) -> None:
    """Wide slot += w."""
    indexed_add_wide(s, e, k, w)


def list_is_zero(s: PlainListed, e: int, first: int, words: int) -> bool:
    """Whether some words of a payload are zero."""
    return indexed_is_zero(s, e, first, words)


def list_settle(s: PlainListed, first: Sequence[int], e: int) -> None:
    """Drop an entry if its whole payload is zero."""
    if s.is_zero(e):
        s.drop(s.entries[e][0])


def list_fetch(s: PlainListed, first: Sequence[int]) -> None:
    """Nothing to do: plain states are not prefetched."""


def list_fetch_head(s: PlainListed, first: Sequence[int]) -> None:
    """Nothing to do: plain states are not prefetched."""


def list_fetch_end(s: PlainListed, first: Sequence[int]) -> None:
    """Nothing to do: plain states are not prefetched."""


def list_fetch_entries(s: PlainListed, first: Sequence[int]) -> None:
    """Nothing to do: plain states are not prefetched."""

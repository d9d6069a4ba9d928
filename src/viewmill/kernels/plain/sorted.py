"""Rows in an order as a sorted Python list of keys, with their words in a dict."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import total_ordering
from itertools import repeat
from typing import Any

from viewmill.kernels.plain.arithmetic import sort_word
from viewmill.kernels.plain.outlet import Texts
from viewmill.kernels.plain.wide_numbers import wide_number
from viewmill.program.states import Sorted

Key = tuple[int, ...]


@total_ordering
class Down:
    """A text in descending order."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Down) and self.text == other.text

    def __lt__(self, other: Down) -> bool:
        return self.text > other.text

    def __hash__(self) -> int:
        return hash(self.text)


class PlainSorted:
    """Keys in order, payload words by key, and every change since the commit."""

    def __init__(self, kind: Sorted) -> None:
        self.kind = kind
        self.texts: Texts | None = None
        self.table = 0
        self.clear()

    def clear(self) -> None:
        """Hold nothing."""
        self.keys: list[Key] = []
        self.words: dict[Key, list[int]] = {}
        self.log: list[tuple[Key, list[int] | None, list[int] | None]] = []

    def rank(self, key: Sequence[int]) -> tuple[Any, ...]:
        """What a key, or its first words, compares by."""
        if self.kind.nulls_first is None:
            return tuple(map(self._comparable, range(len(key)), key))
        bits = key[-1] if self.kind.has_null_word else 0
        return tuple(map(self._place, range(len(self.kind.key)), key, repeat(bits)))

    def _place(self, i: int, word: int, bits: int) -> Any:
        """A column that may be NULL: before the values, or behind them."""
        assert self.kind.nulls_first is not None
        if (bits >> i) & 1:
            return (0 if self.kind.nulls_first[i] else 2,)
        return 1, self._comparable(i, word)

    def _comparable(self, i: int, word: int) -> Any:
        how = self.kind.words[i]
        if how.startswith(("number", "float")):
            number = sort_word(word) if how.startswith("float") else int(word)
            return -1 - number if how.endswith("down") else number
        assert self.texts is not None
        if how.startswith("wide"):
            number = wide_number(self.texts, word)
            return -number if how == "wide_down" else number
        known = self.texts.lookups[self.table]
        # A NULL has word 0, whatever string that is; the word before it told them apart already.
        text = known.get(int(word), "").encode()
        return text if how == "text" else Down(text)

    def put(self, key: Key, words: list[int] | None) -> None:
        """The row has these words, or is not there."""
        if words is None:
            if self.words.pop(key, None) is not None:
                del self.keys[bisect_left(self.keys, self.rank(key), key=self.rank)]
            return
        if key not in self.words:
            self.keys.insert(bisect_left(self.keys, self.rank(key), key=self.rank), key)
        self.words[key] = words

    def change(self, key: Key, words: list[int] | None) -> None:
        """Set or remove a row, and log it for rollback."""
        old = self.words.get(key)
        self.log.append((key, None if old is None else list(old), words))
        self.put(key, words)

    def repeat(self, forward: bool) -> None:
        """Make the noted changes once more, or take them back."""
        for key, before, after in self.log if forward else reversed(self.log):
            words = after if forward else before
            self.put(key, None if words is None else list(words))


def _key(words: Sequence[int]) -> Key:
    return tuple(map(int, words))


def sorted_insert(s: PlainSorted, key: Sequence[int]) -> None:
    """A row comes, with payload words 0, unless it is there."""
    if _key(key) not in s.words:
        s.change(_key(key), [0] * len(s.kind.payload))


def sorted_remove(s: PlainSorted, key: Sequence[int]) -> None:
    """A row goes, if it is there."""
    if _key(key) in s.words:
        s.change(_key(key), None)


def sorted_count(s: PlainSorted, key: Sequence[int], m: int) -> int:
    """A row is there m times more; gives its mark if it goes."""
    whole = _key(key)
    if whole not in s.words:
        p = bisect_left(s.keys, s.rank(whole), key=s.rank)
        is_hidden = p > 0 and sorted_word(s, p - 1, 1) == 1
        s.change(whole, [int(m), int(is_hidden)])
        return 0
    count, mark = s.words[whole]
    s.change(whole, [count + int(m), mark] if count + m else None)
    return 0 if count + m else mark


def sorted_put(s: PlainSorted, p: int, words: Sequence[int]) -> None:
    """The payload words of the row at p become these."""
    s.change(s.keys[p], [int(x) for x in words])


def sorted_from(s: PlainSorted, key: Sequence[int]) -> int:
    """The first position whose first words are at least these."""
    return bisect_left(s.keys, s.rank(key), key=lambda k: s.rank(k[: len(key)]))


def sorted_after(s: PlainSorted, key: Sequence[int]) -> int:
    """The first position whose first words are more than these."""
    return bisect_right(s.keys, s.rank(key), key=lambda k: s.rank(k[: len(key)]))


def sorted_end(s: PlainSorted) -> int:
    """The position behind the last row."""
    return len(s.keys)


def sorted_next(s: PlainSorted, p: int) -> int:
    """The position after p."""
    return p + 1


def sorted_prev(s: PlainSorted, p: int) -> int:
    """The position before p."""
    return p - 1


def sorted_step(s: PlainSorted, p: int, k: int, begin: int, end: int) -> int:
    """k positions further, but not out of begin to end."""
    return min(p + k, max(p, end)) if k > 0 else max(p + k, min(p, begin))


def sorted_offset(s: PlainSorted, p: int, k: int, begin: int, end: int) -> int:
    """The row k positions further, or -1 if that is not within begin to end."""
    return p + k if begin <= p + k < end else -1


def sorted_key(s: PlainSorted, p: int, i: int) -> int:
    """Word i of the key of the row at p."""
    return s.keys[p][i]


def sorted_word(s: PlainSorted, p: int, j: int) -> int:
    """Payload word j of the row at p."""
    return s.words[s.keys[p]][j]


def sorted_same(s: PlainSorted, p: int, q: int, words: int) -> bool:
    """Whether the rows at p and q have equal first words."""
    return s.keys[p][:words] == s.keys[q][:words]

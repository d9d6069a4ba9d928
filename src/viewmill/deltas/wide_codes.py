"""Words for numbers that are wider than a word.

takes  whole numbers of up to 38 digits
gives  words: equal for equal numbers, different for different ones

A number below 2^62 is its own word. A larger one gets the next free code from 2^62 on, a negative
one the code of the positive one, negated. So a code is further from zero than every number that is
its own word; only two codes of the same sign are ordered by what they stand for. Codes are local to
a process and never given to other numbers, as the ids of strings are not.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

OWN = 1 << 62  # from here on numbers have codes
_LOW = (1 << 64) - 1

Words = npt.NDArray[np.int64]


class Wides(Protocol):
    """Where numbers are kept by code."""

    def code(self, number: int) -> int: ...
    def number(self, code: int) -> int: ...
    def encode(self, low: Words, high: Words) -> Words: ...
    def decode(self, words: Words) -> tuple[Words, Words]: ...
    def __len__(self) -> int: ...


class WideCodes:
    """Numbers to codes and back, in a dict and a list."""

    def __init__(self) -> None:
        self._codes: dict[int, int] = {}
        self._numbers: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def code(self, number: int) -> int:
        """The word of a number, a new one if need be."""
        if -OWN < number < OWN:
            return number
        size = abs(number)
        code = self._codes.get(size)
        if code is None:
            code = self._codes[size] = OWN + len(self._numbers)
            self._numbers.append(size)
        return code if number > 0 else -code

    def number(self, code: int) -> int:
        """What a word stands for."""
        if -OWN < code < OWN:
            return code
        size = self._numbers[abs(code) - OWN]
        return size if code > 0 else -size

    def encode(self, low: Words, high: Words) -> Words:
        """The words of numbers, given as two words each."""
        words = low.copy()
        for i in np.flatnonzero((high != (low >> 63)) | is_code(low)).tolist():
            words[i] = self.code((int(high[i]) << 64) | (int(low[i]) & _LOW))
        return words

    def decode(self, words: Words) -> tuple[Words, Words]:
        """The numbers of words, as two words each."""
        low, high = words.copy(), words >> 63
        for i in np.flatnonzero(is_code(words)).tolist():
            number = self.number(int(words[i]))
            low[i], high[i] = np.uint64(number & _LOW).astype(np.int64), number >> 64
        return low, high


def is_code(words: Any) -> npt.NDArray[np.bool_]:
    """Which words are codes."""
    found: npt.NDArray[np.bool_] = (words >= OWN) | (words <= -OWN)
    return found

"""The wide numbers of a mill where kernels read and add them."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np

from viewmill.kernels.library import kernel
from viewmill.kernels.stores import IntArray, address_of
from viewmill.kernels.structures import wide_numbers

_LOW = (1 << 64) - 1


class WideStore:
    """Numbers to codes and back."""

    def __init__(self) -> None:
        self._header = np.zeros(wide_numbers.HEADER_WORDS, np.int64)
        self.handle = address_of(self._header)
        self._encode = kernel(wide_numbers.encode_wides)
        self._decode = kernel(wide_numbers.decode_wides)
        weakref.finalize(self, _free, kernel(wide_numbers.free_wides), self._header)

    def __len__(self) -> int:
        return int(self._header[wide_numbers.COUNT >> 3])

    def code(self, number: int) -> int:
        """The word of a number, a new one if need be."""
        low, high = np.array([number & _LOW], np.uint64), np.array([number >> 64], np.int64)
        return int(self.encode(low.view(np.int64), high)[0])

    def number(self, code: int) -> int:
        """What a word stands for."""
        low, high = self.decode(np.array([code], np.int64))
        return (int(high[0]) << 64) | (int(low[0]) & _LOW)

    def encode(self, low: IntArray, high: IntArray) -> IntArray:
        """The words of numbers, given as two words each."""
        low, high, words = _dense(low), _dense(high), np.empty(len(low), np.int64)
        self._encode(self.handle, len(words), *map(address_of, (low, high, words)))
        return words

    def decode(self, words: IntArray) -> tuple[IntArray, IntArray]:
        """The numbers of words, as two words each."""
        words, low, high = _dense(words), np.empty(len(words), np.int64), np.empty(len(words), "q")
        self._decode(self.handle, len(words), *map(address_of, (words, low, high)))
        return low, high


def _dense(words: IntArray) -> IntArray:
    return np.ascontiguousarray(words, np.int64)


def _free(free: Callable[..., int], header: IntArray) -> None:
    free(address_of(header))

"""Words for numbers that are wider than a word.

takes  whole numbers of up to 38 digits
gives  words, different for different numbers and in the same order

A number of up to 62 bits is its own word. A larger one gets a code from what is left of 64 bits:
first by its leading bits, as a float would have it, and next to a neighbour where that is taken. So
kernels hash, compare and sort them as if they were numbers. Codes are local to a process, as the
ids of strings are.
"""

from __future__ import annotations

from bisect import bisect_left

OWN = 1 << 62  # from here on numbers have codes
_END = (1 << 63) - 1
_MOST_BITS, _LEAST_BITS = 59, 40  # that a code keeps of the shortest and of the longest numbers
_ROOM = 2  # codes for numbers that begin with the same bits


class WideCodes:
    """Numbers to codes and back; a negative one has the code of the positive one, negated."""

    def __init__(self) -> None:
        self._numbers: list[int] = []  # in order
        self._codes: list[int] = []  # theirs, so in order too
        self._number_of: dict[int, int] = {}

    def code(self, number: int) -> int:
        """The word of a number, a new one if need be."""
        if number < 0:
            return -self.code(-number)
        if number < OWN:
            return number
        at = bisect_left(self._numbers, number)
        if at < len(self._numbers) and self._numbers[at] == number:
            return self._codes[at]
        below = self._codes[at - 1] if at else OWN - 1
        above = self._codes[at] if at < len(self._codes) else _END
        code = _between(below, above, _wish(number))
        self._numbers.insert(at, number)
        self._codes.insert(at, code)
        self._number_of[code] = number
        return code

    def number(self, code: int) -> int:
        """What a word stands for."""
        if code < 0:
            return -self.number(-code)
        return code if code < OWN else self._number_of[code]


def _wish(number: int) -> int:
    """A code by the length of a number and its leading bits; the shorter ones keep more."""
    length = number.bit_length() - 1
    leading = (number - (1 << length)) >> (length - _bits(length))
    return _FIRST[length] + _ROOM * leading + _ROOM // 2


def _bits(length: int) -> int:
    return max(_MOST_BITS - (length - 62), _LEAST_BITS)


def _first_codes() -> dict[int, int]:
    found, code = {}, OWN
    for length in range(62, 127):
        found[length] = code
        code += _ROOM << _bits(length)
    return found


_FIRST = _first_codes()  # by the bits that a number has after its first


def _between(below: int, above: int, wish: int) -> int:
    if below < wish < above:
        return wish
    if above - below < 2:
        raise OverflowError("too many numbers next to one another for 64 bits")
    return below + 1 if wish <= below else above - 1

"""Words for numbers that are wider than a word.

takes  whole numbers of up to 38 digits
gives  words, different for different numbers and in the same order

A number of up to 62 bits is its own word. A larger one gets a code from what is left of 64 bits:
those with the same leading bits share a few, which are given out in the order of the numbers. So
kernels hash, compare and sort them as if they were numbers. Codes are local to a process and never
given back, as the ids of strings are.
"""

from __future__ import annotations

OWN = 1 << 62  # from here on numbers have codes
_MOST_BITS, _LEAST_BITS = 57, 40  # that decide the codes of the shortest and the longest numbers
_ROOM = 8  # codes for numbers that begin with the same bits
_MIDDLE = _ROOM // 2  # of the first of them


class WideCodes:
    """Numbers to codes and back; a negative one has the code of the positive one, negated."""

    def __init__(self) -> None:
        self._number_of: dict[int, int] = {}  # by code

    def code(self, number: int) -> int:
        """The word of a number, a new one if need be."""
        if number < 0:
            return -self.code(-number)
        if number < OWN:
            return number
        first = _first_code(number)
        code = first + _MIDDLE
        known = self._number_of.setdefault(code, number)
        return code if known == number else self._beside(first, number)

    def number(self, code: int) -> int:
        """What a word stands for."""
        if code < 0:
            return -self.number(-code)
        return code if code < OWN else self._number_of[code]

    def _beside(self, first: int, number: int) -> int:
        """The code of a number that shares its leading bits with one that came before."""
        below, above = first - 1, first + _ROOM
        for code in range(first, first + _ROOM):
            known = self._number_of.get(code)
            if known == number:
                return code
            if known is not None and known < number:
                below = code
            elif known is not None:
                above = code
                break
        if above - below < 2:
            raise OverflowError("too many numbers next to one another for 64 bits")
        code = (below + above) // 2
        self._number_of[code] = number
        return code


def _first_code(number: int) -> int:
    """The first code for the length of a number and its leading bits; shorter ones keep more."""
    length = number.bit_length() - 1
    leading = (number - (1 << length)) >> (length - _bits(length))
    return _FIRST[length] + _ROOM * leading


def _bits(length: int) -> int:
    return max(_MOST_BITS - (length - 62), _LEAST_BITS)


def _first_codes() -> dict[int, int]:
    found, code = {}, OWN
    for length in range(62, 127):
        found[length] = code
        code += _ROOM << _bits(length)
    return found


_FIRST = _first_codes()  # by the bits that a number has after its first

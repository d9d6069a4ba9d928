"""Words of wide decimals, by the mill's own codes."""

from __future__ import annotations

from viewmill.kernels.plain.outlet import Texts


def wide_word(texts: Texts, w: int) -> int:
    """The word of a wide value."""
    return texts.wides.code(int(w))


def wide_number(texts: Texts, word: int) -> int:
    """The wide value of a word."""
    return texts.wides.number(int(word))


def wide_less(texts: Texts, a: int, b: int) -> bool:
    """Whether the number of word a is less than that of word b."""
    return wide_number(texts, a) < wide_number(texts, b)

"""The fingerprint of a bag of rows, over Python's integers."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from viewmill.kernels.plain.indexed import PlainIndexed

_MODULUS = 1 << 64


def bag_row(words: Sequence[int]) -> int:
    """The number of a row, an odd one."""
    digest = blake2b(repr(tuple(map(int, words))).encode(), digest_size=8).digest()
    return _signed(int.from_bytes(digest, "little") | 1)


def bag_times(a: int, b: int) -> int:
    """The product."""
    return _signed(int(a) * int(b))


def bag_plus(a: int, b: int) -> int:
    """The sum."""
    return _signed(int(a) + int(b))


def bag_add(s: PlainIndexed, e: int, k: int, x: int) -> None:
    """The bag at word k of an entry += x."""
    kept = s.entries[e][1][k]
    assert isinstance(kept, int)
    s.entries[e][1][k] = _signed(kept + int(x))


def _signed(x: int) -> int:
    x %= _MODULUS
    return x - _MODULUS if x >= _MODULUS >> 1 else x

"""The ordered index with relative keys as a Python object."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cache

import numpy as np

from viewmill.bench.baselines import relative
from viewmill.kernels import compiler
from viewmill.kernels.compiler import WORD
from viewmill.kernels.stores import IntArray, address_of


class RelativeIndex:
    """A map from int64 to int64 whose keys can be shifted by range."""

    def __init__(self) -> None:
        self._header = np.zeros(relative.HEADER_WORDS, np.int64)
        self._s = address_of(self._header)
        weakref.finalize(self, _free, _kernel(relative.relative_clear, 1), self._header)

    def get(self, key: int) -> int:
        """The value of a key, 0 if it has none."""
        return _kernel(relative.relative_get, 2)(self._s, key)

    def put(self, key: int, value: int) -> None:
        """Set the value of a key."""
        _kernel(relative.relative_put, 3)(self._s, key, value)

    def add(self, key: int, value: int) -> None:
        """Value += value; a key whose value is 0 goes."""
        _kernel(relative.relative_add, 3)(self._s, key, value)

    def delete(self, key: int) -> None:
        """Forget a key."""
        self.put(key, 0)

    def get_sum(self, key: int, *, strict: bool = False) -> int:
        """The sum of the values of keys at most `key`, or below it."""
        return _kernel(relative.relative_sum, 3)(self._s, key, int(strict))

    def shift_keys(self, key: int, by: int) -> None:
        """Move the keys larger than `key`; those that meet become one."""
        _kernel(relative.relative_shift, 3)(self._s, key, by)

    def __len__(self) -> int:
        return int(self._header[relative.SIZE >> 3])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self._header[relative.BYTES >> 3])

    def items(self) -> list[tuple[int, int]]:
        """Keys with their values, in order."""
        rows = np.empty((len(self), 2), np.int64)
        _kernel(relative.relative_export, 2)(self._s, address_of(rows))
        return [(int(key), int(value)) for key, value in rows]


@cache
def _kernel(function: Callable[..., int], arguments: int) -> Callable[..., int]:
    return compiler.compile_structure(function, (WORD,) * arguments)


def _free(clear: Callable[..., int], header: IntArray) -> None:
    clear(address_of(header))

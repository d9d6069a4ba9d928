"""Links of lists: a dict needs none."""

from __future__ import annotations

from collections.abc import Sequence

from viewmill.kernels.plain.indexed import PlainIndexed, indexed_find, indexed_touch
from viewmill.kernels.plain.listed import PlainListed


def linked_find(t: PlainIndexed, key: Sequence[int], s: PlainListed, e: int, k: int) -> int:
    """The entry of a key, or 0."""
    return indexed_find(t, key)


def linked_touch(t: PlainIndexed, key: Sequence[int], s: PlainListed, e: int, k: int) -> int:
    """The entry of a key, made if absent."""
    return indexed_touch(t, key)


def list_fetch_linked(s: PlainListed, first: Sequence[int], k: int, t: PlainIndexed) -> None:
    """Nothing to do: plain states are not prefetched."""


def list_fetch_next(s: PlainListed, list_: list[int], j: int, k: int, t: PlainIndexed) -> None:
    """Nothing to do: plain states are not prefetched."""

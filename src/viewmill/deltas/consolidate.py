"""Consolidate a delta: equal rows become one row with the sum of their multiplicities, zeros go."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from viewmill.deltas.delta import Delta, concat

_MIX = np.uint64(0xBF58476D1CE4E5B9)
_GOLD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def consolidate(delta: Delta, words: npt.NDArray[np.int64] | None = None) -> Delta:
    """Each row at most once, in order of its first appearance, none with multiplicity 0.

    `words` say which rows are equal, if not those of the delta.
    """
    if delta.size == 0:
        return delta
    if delta.size == 1:
        gone = delta.multiplicity is not None and delta.multiplicity[0] == 0
        return Delta.empty(delta.schema) if gone else delta
    first, group = group_rows(delta.words() if words is None else words)
    totals = np.zeros(len(first), np.int64)
    np.add.at(totals, group, delta.multiplicities())
    kept = np.flatnonzero(totals)
    order = kept[np.argsort(first[kept], kind="stable")]
    result = delta.take(first[order])
    result.multiplicity = totals[order]
    return result


def cancelled(delta: Delta) -> Delta:
    """Cancel inserts and deletes of the same row; other rows keep their order."""
    if not delta.size or not delta.deletes:
        return delta
    first, group = group_rows(delta.words())
    signs = delta.multiplicities()
    totals, comes = np.zeros(len(first), np.int64), np.zeros(len(first), np.bool_)
    goes = comes.copy()
    np.add.at(totals, group, signs)
    comes[group[signs > 0]] = goes[group[signs < 0]] = True
    mixed = comes & goes
    is_first = np.zeros(delta.size, np.bool_)
    is_first[first] = True
    kept = ~mixed[group] | (is_first & (totals[group] != 0))
    result = delta.take(kept)
    result.multiplicity = np.where(mixed[group], totals[group], signs)[kept]
    return result


def without(rows: Delta, later: Delta) -> Delta:
    """`rows` as they were before `later` came, in order of arrival.

    Where rows only came, of equal ones the last are taken away.
    """
    if not later.size:
        return rows
    if later.deletes or (rows.multiplicities() != 1).any():
        return consolidate(concat(rows.schema, [rows, later.negated()]))
    _, group = group_rows(np.concatenate([later.words(), rows.words()[::-1]]))
    counts = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
    np.add.at(counts, group[: later.size], later.multiplicities())
    own = group[later.size :]
    order = np.argsort(own, kind="stable")
    starts = np.searchsorted(own[order], own[order])
    ranks = np.empty(len(own), np.int64)
    ranks[order] = np.arange(len(own)) - starts
    return rows.take((ranks >= counts[own])[::-1])


def group_rows(
    words: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The first position of each distinct row, and for each row the number of its group."""
    hashes = hash_rows(words)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.empty(len(order), np.bool_)
    starts[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
    group_in_order = np.cumsum(starts) - 1
    first = order[starts]
    if not np.array_equal(words[order], words[first[group_in_order]]):
        return _group_exactly(words)  # two rows share a hash: once in a long lifetime
    group = np.empty(len(order), np.int64)
    group[order] = group_in_order
    return first, group


def hash_rows(words: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each row."""
    hashes = np.zeros(len(words), np.uint64)
    for i in range(words.shape[1]):
        hashes ^= words[:, i].astype(np.uint64)
        hashes += _GOLD
        hashes ^= hashes >> _SHIFT
        hashes *= _MIX
        hashes ^= hashes >> _SHIFT
    return hashes


def _group_exactly(
    words: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    _, first, group = np.unique(words, axis=0, return_index=True, return_inverse=True)
    return first.astype(np.int64), group.astype(np.int64).ravel()

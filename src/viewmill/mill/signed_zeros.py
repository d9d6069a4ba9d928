"""Deletes of rows with zeros: -0.0 equals 0.0, but a table keeps the zero that was inserted.

takes  a change and the rows that it may delete
gives  the change with the zeros of the held rows in its deletes, so that views remove the same row
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.algebra.types import is_float_word
from viewmill.deltas.delta import Delta

MINUS_ZERO = -(2**63)  # its bits as a word

Supply = dict[bytes, Counter[bytes]]  # by row as SQL compares it: multiplicities by exact bits


def float_columns(schema: Schema) -> list[int]:
    """Which columns hold floats."""
    return [i for i, field in enumerate(schema) if is_float_word(field.type)]


def minus_zeros(delta: Delta, column: int) -> npt.NDArray[np.bool_]:
    """Which rows have -0.0 in a column."""
    found: npt.NDArray[np.bool_] = delta.pair(column)[0].view(np.int64) == MINUS_ZERO
    return found


def has_minus_zeros(delta: Delta, columns: Sequence[int]) -> bool:
    """Whether some row has -0.0 in one of these columns."""
    if delta.size == 1:  # faster than NumPy for one number
        values = [delta.columns[i].item() for i in columns]
        return 0.0 in values and any(x == 0.0 and math.copysign(1.0, x) < 0.0 for x in values)
    return any(minus_zeros(delta, i).any() for i in columns)


def signed_words(delta: Delta, columns: Sequence[int]) -> npt.NDArray[np.int64]:
    """The words of a change with different words for -0.0 and 0.0."""
    words = delta.words()
    for i in columns:
        words[minus_zeros(delta, i), i] = MINUS_ZERO
    return words


def without_minus_zeros(
    delta: Delta, columns: Sequence[int], rows: npt.NDArray[np.bool_] | None = None
) -> Delta:
    """The change with -0.0 replaced by 0.0 in these columns, and only in `rows` if given."""
    changed = {}
    for i in columns:
        found = minus_zeros(delta, i)
        found = found if rows is None else found & rows
        if found.any():
            changed[i] = np.where(found, 0.0, delta.pair(i)[0])
    if not changed:
        return delta
    kept = [changed.get(i, each) for i, each in enumerate(delta.columns)]
    return Delta(delta.schema, tuple(kept), tuple(delta.nulls), delta.multiplicity, delta.size)


def as_held(delta: Delta, held: Delta, columns: Sequence[int]) -> Delta:
    """The change whose deletes have the zeros of held rows, or of rows that it inserts.

    Rows with exactly the same zeros are matched first. A delete without a match stays as it is.
    """
    plain, exact, times = delta.words(), signed_words(delta, columns), delta.multiplicities()
    supply: Supply = defaultdict(Counter)
    comes = times > 0
    _supply(supply, held.words(), signed_words(held, columns), held.multiplicities())
    _supply(supply, plain[comes], exact[comes], times[comes])
    rows, signs, counts = [], [], []
    taken = _exact_first(supply, plain, exact, times)
    for row in range(delta.size):
        if comes[row]:
            rows.append(row)
            signs.append(exact[row].tobytes())
            counts.append(int(times[row]))
            continue
        for bits, count in _found(supply[plain[row].tobytes()], exact[row], taken[row], times[row]):
            rows.append(row)
            signs.append(bits)
            counts.append(-count)
    made = delta.take(np.array(rows, np.int64))
    words = np.frombuffer(b"".join(signs), np.int64).reshape(len(rows), -1)
    return _with_zeros(made, words, columns, np.array(counts, np.int64))


def _supply(
    supply: Supply,
    plain: npt.NDArray[np.int64],
    exact: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
) -> None:
    for key, bits, count in zip(plain, exact, times.tolist(), strict=True):
        supply[key.tobytes()][bits.tobytes()] += count


def _exact_first(
    supply: Supply,
    plain: npt.NDArray[np.int64],
    exact: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
) -> list[int]:
    """How often each deleted row is matched by a row with exactly the same zeros."""
    taken = [0] * len(times)
    for row in np.flatnonzero(times < 0).tolist():
        there, bits = supply[plain[row].tobytes()], exact[row].tobytes()
        taken[row] = max(0, min(there[bits], -int(times[row])))
        there[bits] -= taken[row]
    return taken


def _found(
    there: Counter[bytes], row: npt.NDArray[np.int64], taken: int, times: int
) -> Iterator[tuple[bytes, int]]:
    """The zeros with which a row is deleted, each with how often."""
    own, left = row.tobytes(), -int(times) - taken
    for bits in list(there):
        count = max(0, min(there[bits], left))
        if count:
            there[bits] -= count
            left -= count
            yield bits, count
    if taken + left:
        yield own, taken + left


def _with_zeros(
    made: Delta,
    words: npt.NDArray[np.int64],
    columns: Sequence[int],
    times: npt.NDArray[np.int64],
) -> Delta:
    """The rows with the zeros that these words have."""
    kept = list(made.columns)
    for i in columns:
        signed = np.ascontiguousarray(words[:, i]).view(np.float64)
        kept[i] = np.where(kept[i] == 0.0, signed, kept[i])
    return Delta(made.schema, tuple(kept), made.nulls, times, made.size)

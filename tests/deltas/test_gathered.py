"""Rows that come in pieces are what `concat` makes of them, whichever columns are read first."""

from __future__ import annotations

import numpy as np

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, DOUBLE
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.gathered import gather

SCHEMA = Schema((Field("k", BIGINT, False), Field("x", DOUBLE, True), Field("y", BIGINT, True)))


def piece(first: int, size: int, *, has_null: bool, times: int | None = None) -> Delta:
    keys, mask = np.arange(first, first + size), np.arange(size) % 2 == 0
    nulls = (None, mask.astype(np.uint8) if has_null else None, None)
    signs = None if times is None else np.full(size, times)
    return Delta(SCHEMA, (keys, keys / 4, -keys), nulls, signs, size)


def test_pieces_are_one_delta() -> None:
    pieces = [
        piece(0, 5, has_null=False),
        piece(5, 3, has_null=True, times=-1),
        piece(8, 4, has_null=False, times=2),
    ]
    whole, expected = gather(SCHEMA, pieces), concat(SCHEMA, pieces)
    assert (whole.size, whole.net_rows, whole.deletes) == (12, 10, 3)
    assert (whole.words() == expected.words()).all()
    assert (whole.multiplicities() == expected.multiplicities()).all()
    assert whole.nulls[0] is None
    assert whole.nulls[1:][1] is None
    assert [each.tolist() for each in whole.columns[:2]] == [
        each.tolist() for each in expected.columns[:2]
    ]
    assert whole.columns[-1] is whole.columns[2]  # put together once
    assert (whole.take(np.array([6])).words() == expected.take(np.array([6])).words()).all()


def test_pieces_without_signs_are_inserted_once() -> None:
    whole = gather(SCHEMA, [piece(0, 2, has_null=True), piece(2, 2, has_null=True)])
    assert whole.multiplicity is None
    assert whole.pair(1)[1].tolist() == [1, 0, 1, 0]

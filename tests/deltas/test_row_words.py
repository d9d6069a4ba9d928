"""The words of one row are those that it has among others."""

import random

import numpy as np
import pytest

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, DOUBLE
from viewmill.deltas.delta import Delta

FLOATS = [0.0, -0.0, 1.5, float("nan"), -float("nan"), float("inf"), 5e-324]


@pytest.mark.parametrize("width", [1, 3, 64, 130])
def test_one_row_has_the_words_it_has_among_others(width):
    chance = random.Random(width)
    types = [chance.choice((BIGINT, DOUBLE)) for _ in range(width)]
    schema = Schema(tuple(Field(f"c{i}", each) for i, each in enumerate(types)))
    columns = tuple(
        np.array([chance.choice(FLOATS) for _ in range(9)])
        if each == DOUBLE
        else np.array([chance.randrange(-(2**63), 2**63) for _ in range(9)], np.int64)
        for each in types
    )
    masks = tuple(
        np.array([chance.randrange(2) for _ in range(9)], np.uint8)
        if chance.random() < 0.7
        else None
        for _ in types
    )
    rows = Delta(schema, columns, masks, None, 9)
    together = rows.words()
    for i in range(9):
        assert (rows.take(np.array([i])).words() == together[i : i + 1]).all()

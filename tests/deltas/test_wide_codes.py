"""Numbers wider than a word have codes: equal for equal numbers, further out than all others."""

from __future__ import annotations

import random

import numpy as np
import pytest

from viewmill.deltas.wide_codes import OWN, WideCodes, Wides
from viewmill.kernels.wide_store import WideStore

LARGEST = 10**38 - 1
EDGES = (0, 1, OWN - 1, OWN, OWN + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**126, LARGEST)


def _plain() -> Wides:
    return WideCodes()


def _compiled() -> Wides:
    return WideStore()


@pytest.mark.parametrize("make", [_plain, _compiled])
def test_every_number_has_one_code_and_comes_back(make):
    source, codes = random.Random(1), make()
    numbers = [source.randrange(10 ** source.randint(1, 38)) for _ in range(3000)]
    numbers += [LARGEST - i for i in range(500)]  # next to one another
    numbers += [-each for each in (*numbers, *EDGES)] + list(EDGES)
    source.shuffle(numbers)
    found = {each: codes.code(each) for each in numbers}
    assert len(set(found.values())) == len(found)
    assert all(codes.number(code) == number for number, code in found.items())
    assert {each: codes.code(each) for each in numbers} == found
    assert len(codes) == len({abs(each) for each in numbers if abs(each) >= OWN})


@pytest.mark.parametrize("make", [_plain, _compiled])
def test_arrays_of_numbers_are_the_same_codes(make):
    codes, numbers = make(), [*EDGES, *(-each for each in EDGES)]
    low = np.array([each & (2**64 - 1) for each in numbers], np.uint64).view(np.int64)
    high = np.array([each >> 64 for each in numbers], np.int64)
    words = codes.encode(low, high)
    assert words.tolist() == [codes.code(each) for each in numbers]
    assert [each.tolist() for each in codes.decode(words)] == [low.tolist(), high.tolist()]


def test_a_code_is_further_from_zero_than_every_number_without_one():
    codes = WideCodes()
    assert codes.code(OWN - 1) == OWN - 1 < codes.code(LARGEST)
    assert codes.code(1 - OWN) == 1 - OWN > codes.code(-OWN)

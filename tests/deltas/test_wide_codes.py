"""Codes of numbers wider than a word are different, in order, and lead back."""

from __future__ import annotations

import random

import pytest

from viewmill.deltas.wide_codes import OWN, WideCodes

EDGES = (0, OWN - 1, OWN, OWN + 1, 2**63, 2**64 - 1, 2**126 - 1, 2**126, 10**38 - 1)


@pytest.mark.parametrize("seed", range(4))
def test_codes_are_in_the_order_of_the_numbers(seed: int) -> None:
    source, codes = random.Random(seed), WideCodes()
    numbers = [source.randrange(10 ** source.randint(1, 38)) for _ in range(2000)]
    # Percentages with 17 digits after the point, closer than any two sums of cents make them.
    numbers += [100 * 10**17 + 500 * i + source.randrange(400) for i in range(2000)]
    numbers += [-each for each in (*numbers, *EDGES)] + list(EDGES)
    source.shuffle(numbers)
    found = {each: codes.code(each) for each in numbers}
    assert all(codes.number(code) == number for number, code in found.items())
    in_order = [found[each] for each in sorted(found)]
    assert in_order == sorted(set(in_order))
    assert in_order[0] > -(2**63)
    assert in_order[-1] < 2**63


def test_what_a_word_holds_is_its_own_code() -> None:
    codes = WideCodes()
    assert [codes.code(each) for each in (7, -7, 1 - OWN)] == [7, -7, 1 - OWN]
    assert codes.code(OWN) == codes.code(OWN) >= OWN


def test_numbers_without_room_between_them_are_an_honest_error() -> None:
    codes = WideCodes()
    low, high, middle = (codes.code(2**126 + each) for each in (0, 16, 8))
    assert low < middle < high
    with pytest.raises(OverflowError, match="next to one another"):
        codes.code(2**126 + 12)
    assert codes.code(2**126 + 8) == middle

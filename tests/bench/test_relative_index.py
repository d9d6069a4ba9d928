"""The index with relative keys against a dict."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bench.relative_index import RelativeIndex
from tests.conftest import scaled

keys = st.integers(-6, 6)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), keys, st.integers(-2, 2)),
        st.tuples(st.just("put"), keys, st.integers(-2, 2)),
        st.tuples(st.just("shift"), keys, st.integers(-9, 9)),
    ),
    max_size=25,
)


def shifted(held: dict[int, int], key: int, by: int) -> dict[int, int]:
    moved: dict[int, int] = {}
    for k, value in held.items():
        to = k + by if k > key else k
        moved[to] = moved.get(to, 0) + value
    return {k: value for k, value in moved.items() if value}


def check(index: RelativeIndex, held: dict[int, int], probes: list[int]) -> None:
    assert index.items() == sorted(held.items())
    for key in probes:
        assert index.get(key) == held.get(key, 0)
        assert index.get_sum(key) == sum(v for k, v in held.items() if k <= key)
        assert index.get_sum(key, strict=True) == sum(v for k, v in held.items() if k < key)


@settings(max_examples=scaled(2))
@given(steps=operations)
def test_it_equals_a_dict(steps):
    index, held = RelativeIndex(), dict[int, int]()
    for what, key, number in steps:
        if what == "shift":
            index.shift_keys(key, number)
            held = shifted(held, key, number)
        elif what == "add":
            index.add(key, number)
            held[key] = held.get(key, 0) + number
        else:
            index.put(key, number)
            held[key] = number
        held = {k: value for k, value in held.items() if value}
        check(index, held, list(range(-12, 13, 3)))


@settings(max_examples=scaled(0.05))
@given(st.data())
def test_it_equals_a_dict_over_many_blocks(data):
    index, held = RelativeIndex(), dict[int, int]()
    for n in range(700):
        key = n * 7919 % 4001
        index.add(key, n % 5 + 1)
        held[key] = n % 5 + 1
    for _ in range(6):
        key, by = data.draw(st.integers(-100, 4100)), data.draw(st.integers(-3000, 3000))
        index.shift_keys(key, by)
        held = shifted(held, key, by)
        check(index, held, [key, key + by, 2000])
    for key in list(held):
        index.delete(key)
    assert len(index) == 0


def test_a_shift_that_leaves_nothing():
    """Two values meet and give 0: the only block goes while the shift is under way."""
    index = RelativeIndex()
    for _ in range(50):
        index.add(1, 5)
        index.add(7, -5)
        index.shift_keys(3, -6)
        assert index.items() == []
        index.add(1, 5)
        index.add(7, -5)
        index.add(40, 2)
        index.shift_keys(3, -6)
        assert index.items() == [(34, 2)]
        assert (index.get(34), index.get_sum(33), index.get_sum(34)) == (2, 0, 2)
        index.delete(34)

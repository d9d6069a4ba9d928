"""Deltas are a group: adding commutes, negation takes back, consolidation changes nothing."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, DOUBLE, STRING
from viewmill.deltas.arrow import decode_delta, encode_columns
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.rows import to_delta
from viewmill.testing.generate import values
from viewmill.testing.oracle import canonical

SCHEMA = Schema(
    (Field("k", BIGINT), Field("x", DOUBLE), Field("s", STRING), Field("n", BIGINT, False))
)
DICTIONARY = Dictionary()

rows = st.tuples(
    values("BIGINT", nullable=True),
    values("DOUBLE", nullable=True),
    values("STRING", nullable=True),
    values("BIGINT"),
    st.integers(-2, 2),
)
deltas = st.lists(rows, max_size=8).map(
    lambda drawn: to_delta(drawn, SCHEMA, DICTIONARY, multiplicity="m")
)


def bag(delta: Delta) -> Counter[tuple[object, ...]]:
    table = decode_delta(delta, DICTIONARY, multiplicity="m")
    found: Counter[tuple[object, ...]] = Counter()
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found[tuple(map(canonical, row[:-1]))] += row[-1]
    return Counter({row: times for row, times in found.items() if times})


@settings(max_examples=scaled(3))
@given(delta=deltas)
def test_consolidating_keeps_the_bag_and_leaves_no_row_twice_or_at_zero(delta):
    once = consolidate(delta)
    assert bag(once) == bag(delta)
    assert once.size == len(bag(delta))
    assert consolidate(once).size == once.size


@settings(max_examples=scaled(3))
@given(a=deltas, b=deltas)
def test_adding_deltas_adds_bags_in_any_order(a, b):
    total = Counter(bag(a))
    total.update(bag(b))
    expected = {row: times for row, times in total.items() if times}
    assert bag(concat(SCHEMA, [a, b])) == bag(concat(SCHEMA, [b, a])) == expected


@settings(max_examples=scaled(3))
@given(delta=deltas)
def test_a_delta_and_its_negation_are_nothing(delta):
    assert consolidate(concat(SCHEMA, [delta, delta.negated()])).size == 0
    assert bag(delta.negated().negated()) == bag(delta)


@settings(max_examples=scaled(3))
@given(delta=deltas, cut=st.integers(0, 8))
def test_the_two_parts_of_a_delta_add_up_to_it(delta, cut):
    first, second = (
        delta.take(np.arange(delta.size) < cut),
        delta.take(np.arange(delta.size) >= cut),
    )
    assert first.size + second.size == delta.size
    assert bag(concat(SCHEMA, [first, second])) == bag(delta)


@settings(max_examples=scaled(3))
@given(delta=deltas)
def test_words_hold_the_whole_row(delta):
    again = Delta.from_words(SCHEMA, delta.words(), delta.multiplicities())
    assert bag(again) == bag(delta)


@settings(max_examples=scaled(3))
@given(delta=deltas)
def test_arrow_holds_the_whole_row(delta):
    again = encode_columns(SCHEMA, decode_delta(delta, DICTIONARY), DICTIONARY)
    again.multiplicity = delta.multiplicities()
    assert bag(again) == bag(delta)

"""The laws of a ring, for each ring: associativity, distributivity, negation, commutativity."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewmill as vm
from viewmill.algebra.ring_laws import LAWS, broken_law, commutes, is_near
from viewmill.algebra.rings import Ring
from viewmill.kernels.plain import bag, cofactor
from viewmill.kernels.plain.wide_values import wide_mul, wide_of, wide_plus, wide_times

INTS = st.integers(-3, 3)

# Numbers as triggers compute them: 128 bits, and floats.
WIDE = Ring(
    0, 1, lambda a, b: wide_plus(a, b), lambda a: wide_times(a, -1), lambda a, b: wide_mul(a, b),
    lambda x: wide_of(int(x)),
)  # fmt: skip
FLOATS = Ring(0.0, 1.0, lambda a, b: a + b, lambda a: -a, lambda a, b: a * b, lambda x: float(x))
BAG = Ring(0, 1, bag.bag_plus, lambda a: bag.bag_times(a, -1), bag.bag_times,
           lambda x: bag.bag_row((int(x),)))  # fmt: skip
MATRICES = Ring(
    zero=((0, 0), (0, 0)),
    one=((1, 0), (0, 1)),
    add=lambda a, b: tuple(tuple(x + y for x, y in zip(p, q, strict=True))
                           for p, q in zip(a, b, strict=True)),
    negate=lambda a: tuple(tuple(-x for x in row) for row in a),
    multiply=lambda a, b: tuple(
        tuple(sum(a[i][k] * b[k][j] for k in range(2)) for j in range(2)) for i in range(2)
    ),
    lift=[lambda x: ((1, x), (0, 1)), lambda x: ((1, 0), (x, 1))],
)  # fmt: skip
RINGS = {"wide": WIDE, "floats": FLOATS, "bag": BAG, "matrices": MATRICES}


@pytest.mark.parametrize("name", sorted(RINGS))
def test_the_ring_keeps_the_laws(name: str) -> None:
    assert broken_law(RINGS[name]) is None
    assert commutes(RINGS[name]) == (name != "matrices")


# The cofactor ring has a schema, the columns it is over: here two, and every element has both.


def block(values: list[Any]) -> list[Fraction]:
    return [Fraction(each) for each in values]


def times(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
    """The degree-2 ring of definition 7.2 on (c, s1, s2, q11, q12, q22): full, not sparse."""
    c, d = a[0], b[0]
    s = [d * a[i] + c * b[i] for i in (1, 2)]
    pairs = ((1, 1), (1, 2), (2, 2))
    q = [d * a[3 + n] + c * b[3 + n] + a[i] * b[j] + b[i] * a[j] for n, (i, j) in enumerate(pairs)]
    return [c * d, *s, *q]


ELEMENTS = st.lists(INTS, min_size=6, max_size=6).map(block)
DEGREE_2 = Ring(
    zero=(0,) * 6,
    one=(1, 0, 0, 0, 0, 0),
    add=lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)),
    negate=lambda a: tuple(-x for x in a),
    multiply=lambda a, b: tuple(int(x) for x in times(block(list(a)), block(list(b)))),
    lift=[lambda x: (1, x, 0, x * x, 0, 0), lambda x: (1, 0, x, 0, 0, x * x)],
)


@given(a=ELEMENTS, b=ELEMENTS, c=ELEMENTS)
@settings(max_examples=30, deadline=None)
def test_the_cofactor_ring_keeps_the_laws(a: Any, b: Any, c: Any) -> None:
    for name, law in LAWS:
        left, right = law(DEGREE_2, *(tuple(map(int, each)) for each in (a, b, c)))
        assert is_near(left, right), name
    assert times(a, b) == times(b, a)


BLOCKS = st.integers(0, 2).flatmap(
    lambda k: st.tuples(
        st.just(k),
        st.lists(INTS, min_size=(k + 1) * (k + 2) // 2, max_size=(k + 1) * (k + 2) // 2),
    )
)


@given(a=BLOCKS, b=BLOCKS, c=BLOCKS)
@settings(max_examples=40, deadline=None)
def test_products_of_sparse_blocks_are_associative_and_distribute(a: Any, b: Any, c: Any) -> None:
    """A view's block has the columns below it only; columns of factors are disjoint."""

    def join(*parts: Any) -> Any:
        made: list[Fraction] = []
        cofactor.cofactor_join(made, [], [block(p[1]) for p in parts], (), [p[0] for p in parts])
        return (sum(p[0] for p in parts), made)

    assert join(join(a, b), c) == join(a, join(b, c)) == join(a, b, c)
    twice = (b[0], [2 * each for each in b[1]])
    assert join(a, twice)[1] == [2 * each for each in join(a, b)[1]]
    negated = (b[0], [-each for each in b[1]])
    assert join(a, negated)[1] == [-each for each in join(a, b)[1]]


def test_what_is_no_ring_is_found_out() -> None:
    maximum = vm.Ring(0, 0, max, lambda a: -a, lambda a, b: a + b, lambda x: x)
    assert "does not hold" in str(broken_law(maximum))

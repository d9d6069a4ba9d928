"""128-bit numbers: compiled arithmetic agrees with Python's integers on every edge."""

from __future__ import annotations

import random

import numpy as np
import pytest

from viewmill.kernels.compiler import WORD, compile_kernel
from viewmill.kernels.plain import wide_arithmetic as plain
from viewmill.kernels.plain.outlet import Failed
from viewmill.kernels.source import STRUCTURES, load_source

LARGEST = 10**38 - 1
EDGES = (0, 1, -1, 2, 5, 10, 2**62, 2**63 - 1, -(2**63), 2**64, 2**64 - 1, 10**18, 10**19, LARGEST)

# One kernel for all: `what` says which function, the result and 1 if it failed are written.
SOURCE = """
def call(what, a0, a1, b0, b1, c0, c1, rounding, out, errors):
    a, b, c = wide_from(a0, a1), wide_from(b0, b1), wide_from(c0, c1)
    w = a
    if what == 0:
        w = wide_of(wide_carry(a, b))
    elif what == 1:
        w = wide_minus(a, b)
    elif what == 2:
        w = wide_ratio_of(errors, 0, 0, a, b, c, rounding)
    elif what == 3:
        w = wide_rest_of(errors, 0, 0, a, c, b, wide_of(1))
    elif what == 9:
        w = wide_rest_of(errors, 0, 0, a, wide_of(1), b, c)
    elif what == 10:
        w = wide_sum_of(errors, 0, 0, a, b, c, wide_of(rounding * 1000000007 + 1))
    elif what == 11:
        w = wide_sum_of(errors, 0, 0, a, b, c, wide_from(rounding, 1000000007))
    elif what == 4:
        w = wide_within(errors, 0, 0, a, b)
    elif what == 5:
        w = wide_of(wide_narrow(errors, 0, 0, a, -1000, 1000))
    elif what == 6:
        w = wide_of(wide_compare(a, b))
    elif what == 7:
        w = wide_absolute(a)
    elif what == 8:
        w = wide_negate(a)
    ints_set(0, out, 0, wide_low(w))
    ints_set(0, out, 1, wide_high(w))
    return 0
"""


@pytest.fixture(scope="module")
def call():
    function = load_source("test", SOURCE, STRUCTURES, "Wide arithmetic.")["call"]
    return compile_kernel(function, (WORD,) * 10)


def _halves(x: int) -> tuple[int, int]:
    low = x % 2**64
    return (low - 2**64 if low >= 2**63 else low), x >> 64


def _compiled(call, what, a, b, c, rounding):
    out, errors = np.zeros(2, np.int64), np.zeros(2, np.int64)
    words = [*_halves(a), *_halves(b), *_halves(c)]
    call(what, *words, rounding, out.ctypes.data, errors.ctypes.data)
    return (int(out[1]) << 64) | (int(out[0]) % 2**64), bool(errors[0])


def _plain(what, a, b, c, rounding):
    failed = Failed()
    made = {
        0: lambda: plain.wide_carry(a, b),
        1: lambda: plain.wide_minus(a, b),
        2: lambda: plain.wide_ratio_of(failed, 0, 0, a, b, c, rounding),
        3: lambda: plain.wide_rest_of(failed, 0, 0, a, c, b, 1),
        9: lambda: plain.wide_rest_of(failed, 0, 0, a, 1, b, c),
        10: lambda: plain.wide_sum_of(failed, 0, 0, a, b, c, rounding * 1000000007 + 1),
        11: lambda: plain.wide_sum_of(failed, 0, 0, a, b, c, rounding + (1000000007 << 64)),
        4: lambda: plain.wide_within(failed, 0, 0, a, b),
        5: lambda: plain.wide_narrow(failed, 0, 0, a, -1000, 1000),
        6: lambda: plain.wide_compare(a, b),
        7: lambda: plain.wide_absolute(a),
        8: lambda: plain.wide_negate(a),
    }[what]()
    return made, bool(failed.words[0])


def _number(source: random.Random) -> int:
    size = source.choice(EDGES) if source.random() < 0.4 else source.randrange(
        10 ** source.randint(1, 38)
    )  # fmt: skip
    return size if source.random() < 0.5 else -size


def test_compiled_arithmetic_is_that_of_whole_numbers(call):
    source = random.Random(5)
    for i in range(6000):
        a, b, c = (_number(source) for _ in range(3))
        what, rounding = i % 12, source.randrange(4)
        if what == 1:
            b //= 4  # a difference that fits
        if what in (4, 10, 11):
            b = abs(b)
        if what in (3, 9):
            c = abs(c) or 1
        found, wanted = (
            f(what, a, b, c, rounding) for f in (lambda *x: _compiled(call, *x), _plain)
        )
        assert found == wanted, (what, a, b, c, rounding)

"""Numbers: compiled and plain agree on every edge, and both fail where Spark's ANSI mode does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewmill.kernels.compiler import WORD, compile_kernel
from viewmill.kernels.plain.arithmetic import float_key
from viewmill.kernels.plain.outlet import Failed
from viewmill.kernels.source import PLAIN, STRUCTURES, load_source

LOW, HIGH = -(2**63), 2**63 - 1
edges = [0, 1, -1, 2, 10, 2**31, 2**32 - 1, 2**32, 2**62, HIGH, -HIGH, LOW, 10**18, 10**9]
words = st.sampled_from(edges) | st.integers(LOW, HIGH) | st.integers(-1000, 1000)
factors = st.sampled_from([1, 10, 100, 10**4, 10**9, 10**18])
numbers = st.sampled_from(
    [0.0, -0.0, 0.5, -2.5, 2.0**63, -(2.0**63), 2.0**31, 1e300, math.nan, math.inf, -math.inf]
) | st.floats(allow_nan=True)

CALLS = """
def call_add(errors, a, b, low, high):
    return add_checked(errors, 3, 7, a, b, low, high)


def call_sub(errors, a, b, low, high):
    return sub_checked(errors, 3, 7, a, b, low, high)


def call_mul(errors, a, b, low, high):
    return mul_checked(errors, 3, 7, a, b, low, high)


def call_div(errors, a, b):
    return div_int(errors, 3, 7, a, b)


def call_mod(errors, a, b):
    return mod_int(errors, 3, 7, a, b)


def call_scale_up(errors, a, factor):
    return scale_up(errors, 3, 7, a, factor)


def call_scale_down(errors, a, factor):
    return scale_down_half_up(a, factor)


def call_div_decimal(errors, a, b, factor):
    return div_decimal(errors, 3, 7, a, b, factor)


def call_float_to_int(errors, word, low, high):
    return float_to_int(errors, 3, 7, key_float(word), low, high)


def call_float_lt(errors, a, b):
    return float_lt(key_float(a), key_float(b))


def call_float_eq(errors, a, b):
    return float_eq(key_float(a), key_float(b))


def call_div_float(errors, a, b):
    return float_key(div_float(errors, 3, 7, key_float(a), key_float(b)))


def call_mod_float(errors, a, b):
    return float_key(mod_float(errors, 3, 7, key_float(a), key_float(b)))
"""


class Calls:
    """Each function of CALLS in both forms, compiled when first called."""

    def __init__(self) -> None:
        self._compiled = load_source("arithmetic", CALLS, STRUCTURES)
        self._plain = load_source("arithmetic", CALLS, PLAIN)
        self._kernels: dict[str, Any] = {}

    def agree(self, name: str, *arguments: int) -> tuple[int, bool]:
        """The result and whether it failed, the same in both forms."""
        if name not in self._kernels:
            types = (WORD,) * (1 + len(arguments))
            self._kernels[name] = compile_kernel(self._compiled[name], types)
        noted = np.zeros(2, np.int64)
        got = self._kernels[name](noted.ctypes.data, *arguments)
        errors = Failed()
        wanted = self._plain[name](errors, *arguments)
        failed = errors.words[0] != 0
        assert (got, bool(noted[0])) == (wanted, failed), (name, arguments)
        if failed:
            assert tuple(noted[:2]) == (4, 7) == tuple(errors.words)
        return got, failed


@pytest.fixture(scope="module")
def calls() -> Calls:
    return Calls()


@settings(deadline=None)
@given(a=words, b=words)
@pytest.mark.parametrize("name", ["call_add", "call_sub", "call_mul"])
@pytest.mark.parametrize("bits", [8, 32, 64])
def test_checked(calls: Calls, name: str, bits: int, a: int, b: int) -> None:
    calls.agree(name, a, b, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@settings(deadline=None)
@given(a=words, b=words)
@pytest.mark.parametrize("name", ["call_div", "call_mod"])
def test_division_truncates(calls: Calls, name: str, a: int, b: int) -> None:
    calls.agree(name, a, b)


def test_remainder_has_the_sign_of_the_dividend(calls: Calls) -> None:
    assert calls.agree("call_mod", -7, 3) == (-1, False)
    assert calls.agree("call_mod", 7, -3) == (1, False)
    assert calls.agree("call_div", -7, 2) == (-3, False)
    assert calls.agree("call_div", LOW, -1) == (0, True)
    assert calls.agree("call_mod", LOW, -1) == (0, False)
    assert calls.agree("call_div", 1, 0) == (0, True)


@settings(deadline=None)
@given(a=words, factor=factors)
def test_scaling(calls: Calls, a: int, factor: int) -> None:
    calls.agree("call_scale_up", a, factor)
    calls.agree("call_scale_down", a, factor)


def test_half_goes_away_from_zero(calls: Calls) -> None:
    assert calls.agree("call_scale_down", 25, 10) == (3, False)
    assert calls.agree("call_scale_down", -25, 10) == (-3, False)
    assert calls.agree("call_div_decimal", 10, 3, 100) == (333, False)


@settings(deadline=None, max_examples=500)
@given(a=words, b=words, factor=factors | st.integers(1, HIGH))
def test_decimals(calls: Calls, a: int, b: int, factor: int) -> None:
    calls.agree("call_div_decimal", a, b, factor)


@settings(deadline=None)
@given(x=numbers)
@pytest.mark.parametrize("bits", [8, 32, 64])
def test_float_to_int(calls: Calls, x: float, bits: int) -> None:
    bounds = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    calls.agree("call_float_to_int", float_key(x), *bounds)


@settings(deadline=None)
@given(a=numbers, b=numbers)
def test_comparing_and_dividing_floats(calls: Calls, a: float, b: float) -> None:
    keys = float_key(a), float_key(b)
    for name in ("call_float_lt", "call_float_eq", "call_div_float", "call_mod_float"):
        calls.agree(name, *keys)


def test_nan_is_the_largest_and_equal_to_itself(calls: Calls) -> None:
    nan, infinity = float_key(math.nan), float_key(math.inf)
    assert calls.agree("call_float_lt", infinity, nan) == (1, False)
    assert calls.agree("call_float_lt", nan, nan) == (0, False)
    assert calls.agree("call_float_eq", nan, nan) == (1, False)
    assert float_key(-0.0) == float_key(0.0)

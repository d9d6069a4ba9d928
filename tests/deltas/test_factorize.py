"""vm.factorize: products whose union is exactly the rows."""

from __future__ import annotations

import decimal
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled

import viewmill as vm


def bag(rows, names):
    """The rows with the sum of their multiplicities."""
    counted: Counter[tuple[object, ...]] = Counter()
    for row in rows:
        counted[tuple(row[name] for name in names)] += row.get("_multiplicity", 1)
    return {row: times for row, times in counted.items() if times}


def test_example_5_1_a_full_relation_is_one_product_of_n_plus_m_values():
    rows = [{"A": i, "B": j} for i in range(7) for j in range(5)]
    (product,) = vm.factorize(rows)
    assert sorted(len(factor) for factor in product) == [5, 7]
    assert product.values == 12
    assert bag(product.rows(), "AB") == bag(rows, "AB")


@pytest.mark.parametrize(("n", "m"), [(2, 3), (7, 5), (40, 90)])
def test_example_5_1_r_prime_takes_n_plus_m_plus_3_values(n, m):
    rows = [{"A": i, "B": j} for i in range(n) for j in range(m)]
    rows += [{"A": n, "B": j} for j in range(m - 1)]
    products = vm.factorize(rows)
    assert products.values <= n + m + 3
    signed = any("_multiplicity" in factor.column_names for each in products for factor in each)
    assert signed or n + 2 * m <= n + m + 3
    assert bag(products.rows(), "AB") == bag(rows, "AB")


def test_three_columns_come_apart_as_finely_as_they_can():
    rows = [{"a": i, "b": j, "c": k} for i in range(3) for j in range(4) for k in "xyz"]
    (product,) = vm.factorize(pd.DataFrame(rows))
    assert [factor.column_names for factor in product] == [["a"], ["b"], ["c"]]
    # c is the parity of a and b: two by two independent, all three are not
    rows = [{"a": i, "b": j, "c": (i + j) % 2} for i in range(2) for j in range(2)]
    products = vm.factorize(pa.Table.from_pylist(rows))
    assert bag(products.rows(), "abc") == bag(rows, "abc")


VALUES = st.sampled_from([1, 2, 3, None])


@settings(max_examples=scaled(1))
@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.tuples(*[VALUES] * width, st.sampled_from([1, 1, 1, 2, -1])), max_size=30
        )
    )
)
def test_the_union_of_the_products_is_the_bag(rows):
    names = "abcd"[: len(rows[0]) - 1] if rows else "a"
    given_rows = [dict(zip([*names, "m"], row, strict=True)) for row in rows]
    products = vm.factorize(given_rows, multiplicity="m" if rows else None)
    wanted = [{**row, "_multiplicity": row["m"]} for row in given_rows]
    assert bag(products.rows(), names) == bag(wanted, names)
    assert products.values <= max(len(rows), 1) * len(names)


# Matrices.


def summed(products, shape, dtype):
    total = np.zeros(shape, dtype)
    for row in products.rows():
        total[row["i"], row["j"]] += row["P"] * row["_multiplicity"]
    return total


@pytest.mark.parametrize("rank", [1, 2, 5])
@pytest.mark.parametrize("kind", ["whole", "float"])
def test_a_matrix_comes_apart_into_as_many_products_as_its_rank(rank, kind):
    random = np.random.default_rng(rank)
    left, right = random.integers(-5, 6, (30, rank)), random.integers(-5, 6, (rank, 40))
    matrix = left @ right if kind == "whole" else (left * 0.3) @ (right * 0.7)
    products = vm.factorize(matrix)
    assert len(products) == np.linalg.matrix_rank(matrix)
    found = summed(products, matrix.shape, matrix.dtype)
    if kind == "whole":
        assert np.array_equal(found, matrix)
    else:
        assert np.allclose(found, matrix, rtol=0, atol=1e-12 * np.abs(matrix).max())


def test_a_matrix_of_full_rank_is_given_by_its_rows():
    matrix = np.random.default_rng(1).normal(size=(12, 9))
    products = vm.factorize([(i, j, float(matrix[i, j])) for i in range(12) for j in range(9)])
    assert len(products) >= 1  # columns of tuples have no names: a bag of three columns
    table = pa.table({"i": np.repeat(np.arange(12), 9), "j": np.tile(np.arange(9), 12),
                      "P": matrix.ravel()})  # fmt: skip
    products = vm.factorize(table)
    assert np.array_equal(summed(products, matrix.shape, matrix.dtype), matrix)


def test_decimals_come_apart_exactly():
    cells = [{"i": i, "j": j, "P": decimal.Decimal(i * j) / 4} for i in (1, 2, 3) for j in (1, 5)]
    products = vm.factorize(cells, value="P")
    found = {(r["i"], r["j"]): r["P"] for r in products.rows()}
    assert len(products) == 1
    assert found == {(r["i"], r["j"]): r["P"] for r in cells}


def test_odd_input_is_refused_kindly():
    with pytest.raises(vm.UnknownName, match='no column "Q"'):
        vm.factorize([{"i": 1, "P": 2}], value="Q")
    with pytest.raises(vm.InvalidArgument, match="numbers"):
        vm.factorize([{"i": 1, "P": "x"}], value="P")
    with pytest.raises(vm.InvalidRow, match="NULL"):
        vm.factorize([{"i": 1, "P": 1}, {"i": 2, "P": None}], value="P")
    with pytest.raises(vm.InvalidRow, match="equally long"):
        vm.factorize([(1, 2), (3,)])
    with pytest.raises(vm.InvalidRow, match="from int"):
        vm.factorize(7)
    for ragged in ({"i": [1, 2], "j": [1]}, [(1, "x"), (2, 3)], [(2**70, 1), (2, 3)]):
        with pytest.raises(vm.InvalidRow, match="do not make rows"):
            vm.factorize(ragged)
    for times in ("x", None, 1.5):
        with pytest.raises(vm.InvalidRow, match="whole numbers"):
            vm.factorize([{"i": 1, "j": 2, "m": times}], multiplicity="m")
    with pytest.raises(vm.InvalidRow, match='"i" holds'):
        vm.factorize([{"i": [1], "j": 2}])
    assert vm.factorize([]) == []

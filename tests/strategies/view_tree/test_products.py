"""A product climbs the tree as its rows would, one by one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled
from tests.strategies.view_tree.generate_joins import Case, Table, cases, rows
from tests.strategies.view_tree.test_random_joins import apply

import viewmill as vm
from viewmill.kernels.plain import indexed

Update = tuple[str, list[list[dict[str, Any]]], str | None]


@st.composite
def updates(draw: st.DrawFn, table: Table) -> Update:
    """A product of two or three factors, with or without a value that several of them have."""
    value = draw(st.sampled_from([None, "i", "n", "d", "f"]))
    columns = [name for name in table.columns if name != value]
    count = draw(st.integers(2, 3))
    owner = [draw(st.integers(0, count - 1)) for _ in columns]
    factors = []
    for number in range(count):
        own = [c for c, o in zip(columns, owner, strict=True) if o == number]
        has_value = value is not None and (number == 0 or draw(st.booleans()))
        names = [*own, str(value)] if has_value else own
        if not names:
            continue
        factor = []
        for _ in range(draw(st.integers(1, 3))):
            row = dict(zip(table.columns, draw(rows(table)), strict=True))
            made = {n: Decimal(row[n]) if isinstance(row[n], str) else row[n] for n in names}
            made["_multiplicity"] = draw(st.sampled_from([1, 1, 2]))
            factor.append(made)
        factors.append(factor)
    return table.name, factors, value


@st.composite
def changed_cases(draw: st.DrawFn) -> tuple[Case, list[Update]]:
    case = draw(cases(cyclic=True, most=4))
    wanted = st.sampled_from(case.tables).flatmap(updates)
    return case, draw(st.lists(wanted, min_size=1, max_size=3))


def run(case: Case, products: list[Update]) -> None:
    with vm.connect() as mill:
        for table in case.tables:
            mill.sql(table.sql)
        mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {case.query}")
        for batch in case.batches:
            apply(mill, batch)
        taken = []
        for name, factors, value in products:
            try:
                mill.apply_product(name, factors, value=value)
            except vm.InvalidRow:  # digits that the column does not have
                assert value == "d"
                continue
            taken.append((name, factors, value))
            assert mill["v"].verify() == []
        for name, (first, *others), value in taken:
            opposite = [{**row, "_multiplicity": -row["_multiplicity"]} for row in first]
            mill.apply_product(name, [opposite, *others], value=value)
            assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
@settings(max_examples=scaled(0.4))
@given(changed_cases())
def test_products_equal_recompute(case: tuple[Case, list[Update]]) -> None:
    run(*case)


@pytest.mark.slow
@settings(max_examples=scaled(0.05))
@given(changed_cases())
def test_compiled_products_equal_recompute(case: tuple[Case, list[Update]]) -> None:
    run(*case)


def chain(mill: vm.Mill, kind: str = "BIGINT") -> None:
    for name, a, b in (("A1", "i", "j"), ("A2", "j", "k"), ("A3", "k", "l")):
        mill.sql(
            f"CREATE TABLE {name} ({a} INT NOT NULL, {b} INT NOT NULL, P {kind} NOT NULL) UNCHECKED"
        )
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT A1.i, A3.l, SUM(A1.P * A2.P * A3.P) AS P "
        "FROM A1 JOIN A2 ON A1.j = A2.j JOIN A3 ON A2.k = A3.k GROUP BY A1.i, A3.l"
    )


def fill(mill: vm.Mill, n: int) -> list[Any]:
    """Three matrices of small numbers."""
    random = np.random.default_rng(n)
    matrices = [random.integers(-4, 5, (n, n)) for _ in range(3)]
    for name, a, b, matrix in zip(("A1", "A2", "A3"), "ijk", "jkl", matrices, strict=True):
        i, j = np.divmod(np.arange(n * n), n)
        cells = zip(i.tolist(), j.tolist(), matrix.ravel().tolist(), strict=True)
        mill.insert(name, [{a: x, b: y, "P": p} for x, y, p in cells])
    return matrices


def test_rank_one_updates_of_a_matrix_chain(mill: vm.Mill) -> None:
    chain(mill)
    a1, a2, a3 = fill(mill, 12)
    u, v = np.arange(12) - 5, np.arange(12) % 5
    calls = mill["v"].status()["engine_calls"]
    mill.apply_product("A2", [{"j": np.arange(12), "P": u}, {"k": np.arange(12), "P": v}], "P")
    expected = a1 @ (a2 + np.outer(u, v)) @ a3
    found = np.zeros((12, 12), np.int64)
    for i, l, p in mill["v"].rows():  # noqa: E741 (the paper's name)
        found[i, l] = p
    assert np.array_equal(found, expected)
    assert mill["v"].status()["engine_calls"] == calls
    assert mill.core.catalog.table("A2").table.products  # nobody looked at rows


@pytest.mark.usefixtures("uncompiled")
def test_a_batch_that_fails_takes_its_products_back(mill: vm.Mill) -> None:
    chain(mill)
    fill(mill, 4)
    mill.sql("CREATE MATERIALIZED VIEW tiny AS SELECT CAST(sum(P) AS TINYINT) AS s FROM A2")
    before, table = sorted(mill["v"].rows()), mill.sql("SELECT count(*) FROM A2").rows()
    with pytest.raises(vm.ViewmillError):
        mill.apply_product("A2", [{"j": [0, 1], "P": [100, 3]}, {"k": [0, 1], "P": [9, 9]}], "P")
    assert sorted(mill["v"].rows()) == before
    assert mill.sql("SELECT count(*) FROM A2").rows() == table
    assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
def test_the_steps_of_a_product_grow_with_its_factors_not_with_its_rows(
    mill: vm.Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Example 5.2: S = S_A x S_C x S_E costs |S_A| + |S_C| + |S_E|."""
    mill.sql("CREATE TABLE R (A INT NOT NULL, B INT NOT NULL) UNCHECKED")
    mill.sql("CREATE TABLE S (A INT NOT NULL, C INT NOT NULL, E INT NOT NULL) UNCHECKED")
    mill.sql("CREATE TABLE T (C INT NOT NULL, D INT NOT NULL) UNCHECKED STATIC")
    mill.insert("T", [(c, 1) for c in range(40)])
    mill.sql("DROP TABLE R")
    mill.sql("CREATE TABLE R (A INT NOT NULL, B INT NOT NULL) STATIC")
    mill.insert("R", [(a, 1) for a in range(40)])
    mill.sql(
        "CREATE MATERIALIZED VIEW v STRATEGY view_tree AS SELECT SUM(R.B * T.D * S.E) AS s "
        "FROM R JOIN S ON R.A = S.A JOIN T ON S.C = T.C"
    )
    touched = 0
    touch = indexed.PlainIndexed.touch

    def counted(self: Any, key: Any) -> int:
        nonlocal touched
        touched += 1
        return touch(self, key)

    monkeypatch.setattr(indexed.PlainIndexed, "touch", counted)
    steps = []
    for n in (10, 20, 40):
        touched = 0
        factors = [{"A": range(n)}, {"C": range(n)}, {"E": range(n)}]
        mill.apply_product("S", [{k: list(v) for k, v in f.items()} for f in factors])
        steps.append(touched)
    assert steps[2] - steps[1] == 2 * (steps[1] - steps[0])
    assert steps[2] < 10 * 40
    assert mill["v"].verify() == []

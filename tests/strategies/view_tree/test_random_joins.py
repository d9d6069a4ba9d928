"""Random joins of up to six tables, changed at random, are what recompute says they are."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from tests.conftest import scaled
from tests.strategies.view_tree.generate_joins import Case, cases

import viewmill as vm
from viewmill.mill.mill import Mill


def run(case: Case, *, backfill: bool = False) -> None:
    """Create the view before the rows, or with `backfill` after the first batch, and compare."""
    with vm.connect() as mill:
        for table in case.tables:
            mill.sql(table.sql)
        create = f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {case.query}"
        batches = list(case.batches)
        if backfill:
            apply(mill, batches.pop(0))
        mill.sql(create)
        assert mill["v"].verify() == []
        for batch in batches:
            apply(mill, batch)
            assert mill["v"].verify() == []
            assert mill["v"].status()["refresh_kind"] in ("incremental", "backfill")


def apply(mill: Mill, batch: list[tuple[str, tuple[object, ...], int]]) -> None:
    with mill.batch():
        for table, row, multiplicity in batch:
            values = [Decimal(v) if isinstance(v, str) else v for v in row]
            (mill.insert if multiplicity > 0 else mill.delete)(table, [tuple(values)])


@pytest.mark.usefixtures("uncompiled")
@settings(max_examples=scaled(1))
@given(cases())
def test_acyclic_joins_equal_recompute(case: Case) -> None:
    run(case)


@pytest.mark.usefixtures("uncompiled")
@settings(max_examples=scaled(1))
@given(cases(cyclic=True))
def test_cyclic_joins_equal_recompute(case: Case) -> None:
    run(case)


@pytest.mark.usefixtures("uncompiled")
@settings(max_examples=scaled(0.5))
@given(cases(cyclic=True))
def test_a_filled_view_goes_on_as_one_that_was_there(case: Case) -> None:
    run(case, backfill=True)


@pytest.mark.slow
@settings(max_examples=scaled(0.1))
@given(cases(cyclic=True, most=4))
def test_compiled_joins_equal_recompute(case: Case) -> None:
    run(case, backfill=True)

"""Numbers in lists have little room while they are small, compiled: those that outgrow it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewmill as vm
from viewmill.kernels.structures import listed_payloads
from viewmill.mill.mill import Mill

QUERY = (
    "SELECT COUNT(*) AS n, SUM(r.b * t.d * s.e) AS v FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c"
)
COLUMNS = {"r": ("a", "b"), "s": ("a", "c", "e"), "t": ("c", "d")}
BIG = 2**62


def _create(mill: Mill) -> Mill:
    for table, columns in COLUMNS.items():
        declared = ", ".join(f"{each} BIGINT" for each in columns)
        mill.sql(f"CREATE TABLE {table} ({declared}) UNCHECKED")
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {QUERY}")
    return mill


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")


@pytest.fixture
def mill() -> Iterator[Mill]:
    with vm.connect() as made:
        yield _create(made)


def _is_narrow(mill: Mill) -> bool:
    block: Any = mill.core.catalog.view("v").block
    return bool(block.maintainer._stores["v_s"].get(listed_payloads.NARROW))


def _fill(mill: Mill) -> None:
    mill.insert("r", [(1, 1), (2, 3)])
    mill.insert("s", [(1, 1, 5), (1, 2, 6), (2, 1, -7), (2, 9, 8)])
    mill.insert("t", [(1, 0), (1, 2), (2, 10)])
    assert mill["v"].verify() == []
    assert _is_narrow(mill)


def test_a_sum_outgrows_64_bits_and_comes_back(mill: Mill) -> None:
    _fill(mill)
    mill.delete("t", [(1, 2)])  # so that what is shown stays small
    mill.insert("s", [(1, 1, BIG)] * 3 + [(2, 1, -BIG)] * 3)
    assert not _is_narrow(mill)
    assert mill["v"].verify() == []
    mill.delete("s", [(1, 1, BIG), (2, 1, -BIG)] * 3)
    mill.insert("t", [(1, 2)])
    assert mill["v"].verify() == []
    mill.delete("s", [(1, 1, 5)])
    assert mill["v"].verify() == []


def test_it_outgrows_in_the_middle_of_a_batch_of_several_tables(mill: Mill) -> None:
    _fill(mill)
    with mill.batch():
        mill.insert("t", [(9, 0), (3, 4)])
        mill.insert("r", [(4, 7)])
        mill.insert("s", [(4, 3, 2), *[(2, 9, BIG)] * 4, (4, 9, 1)])
        mill.delete("t", [(2, 10)])
    assert not _is_narrow(mill)
    assert mill["v"].verify() == []


def test_a_count_outgrows_32_bits(mill: Mill) -> None:
    _fill(mill)
    before = mill["v"].rows()
    rows = [{"a": 1, "c": 2, "e": 0, "m": 2**31}, {"a": 2, "c": 9, "e": 0, "m": -(2**31) - 1}]
    mill.apply("s", rows, multiplicity="m")
    assert not _is_narrow(mill)
    ((n, v),) = before
    assert mill["v"].rows() == [(n + 2**31, v)]
    mill.apply("s", [{**each, "m": -each["m"]} for each in rows], multiplicity="m")
    assert mill["v"].rows() == before
    assert mill["v"].verify() == []


def test_a_batch_that_outgrows_and_fails_leaves_all_as_it_was(mill: Mill) -> None:
    _fill(mill)
    before = mill["v"].rows()
    with pytest.raises(vm.ViewmillError):
        mill.insert("s", [(1, 2, BIG)] * 3)  # 10 times as much does not fit BIGINT
    assert mill["v"].rows() == before
    assert mill["v"].verify() == []
    mill.insert("s", [(1, 2, 4)])
    assert mill["v"].verify() == []


def test_a_product_outgrows(mill: Mill) -> None:
    _fill(mill)
    mill.insert("t", [(5, 0)])
    keys, values = {"a": [1, 2], "c": [5, 5]}, {"e": [BIG, BIG, BIG]}
    mill.apply_product("s", [keys, values])
    assert mill["v"].verify() == []
    assert not _is_narrow(mill)


def test_what_outgrew_is_there_after_a_restart(tmp_path: Path) -> None:
    with vm.connect(tmp_path / "m.mill") as mill:
        _fill(_create(mill))
        mill.insert("s", [(2, 9, BIG)] * 3)
        mill.checkpoint()
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.delete("s", [(2, 9, BIG)] * 3)
        mill.insert("t", [(9, 3)])
        assert not _is_narrow(mill)
        assert mill["v"].verify() == []


def test_nothing_is_left_when_all_is_deleted(mill: Mill) -> None:
    _fill(mill)
    mill.delete("s", [(1, 1, 5), (1, 2, 6), (2, 1, -7), (2, 9, 8)])
    assert mill["v"].verify() == []
    block: Any = mill.core.catalog.view("v").block
    assert block.maintainer._stores["v_s"].export_payload()[0].shape == (0, 2)

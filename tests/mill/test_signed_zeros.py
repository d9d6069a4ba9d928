"""-0.0 equals 0.0, and a table shows the one that was inserted, before and after it is reopened."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")

TEXTS = "SELECT CAST(d AS STRING) AS s, COUNT(*) AS n FROM t GROUP BY CAST(d AS STRING)"


def _tables(mill, key=""):
    mill.sql(f"CREATE TABLE t (k INT, d DOUBLE, e DOUBLE{key})")
    mill.sql(f"CREATE MATERIALIZED VIEW texts AS {TEXTS}")


def _rows(mill):
    return sorted(map(repr, mill.sql("SELECT k, d, e FROM t").rows()))


def _is_right(mill, rows):
    assert _rows(mill) == sorted(map(repr, rows))
    assert mill["texts"].verify() == []


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (k)"])
@pytest.mark.parametrize("form", [list, "arrow"])
def test_a_zero_is_shown_as_it_was_inserted(tmp_path, key, form):
    rows = [(1, -0.0, 0.0), (2, 0.0, -0.0), (3, None, -0.0), (4, 1.5, None)]
    columns = dict(zip("kde", map(list, zip(*rows, strict=True)), strict=True))
    with vm.connect(tmp_path / "m") as mill:
        _tables(mill, key)
        mill.insert("t", pa.table(columns) if form == "arrow" else rows)
        _is_right(mill, rows)
    for _ in range(2):  # from the log, then from a checkpoint
        with vm.connect(tmp_path / "m") as mill:
            _is_right(mill, rows)
            mill.checkpoint()


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (k)"])
@pytest.mark.parametrize("held", [0.0, -0.0])
@pytest.mark.parametrize("said", [0.0, -0.0])
def test_a_delete_of_one_zero_finds_the_other(tmp_path, key, held, said):
    with vm.connect(tmp_path / "m") as mill:
        _tables(mill, key)
        mill.insert("t", [(1, held, 2.0), (2, -0.0, 2.0)])
        mill.delete("t", [(1, said, 2.0)])
        _is_right(mill, [(2, -0.0, 2.0)])
        with pytest.raises(vm.errors.MissingRow):
            mill.delete("t", [(1, said, 2.0)])
    with vm.connect(tmp_path / "m") as mill:
        _is_right(mill, [(2, -0.0, 2.0)])


def test_the_very_row_goes_first(mill):
    _tables(mill)
    mill.insert("t", [(1, 0.0, 0.0), (1, -0.0, 0.0), (1, 0.0, -0.0)])
    mill.delete("t", [(1, 0.0, -0.0)])
    _is_right(mill, [(1, 0.0, 0.0), (1, -0.0, 0.0)])
    with pytest.raises(vm.errors.MissingRow):
        mill.delete("t", [(1, 0.0, 0.0)] * 3)
    mill.delete("t", [(1, 0.0, 0.0)] * 2)
    _is_right(mill, [])


def test_a_batch_deletes_the_zero_that_it_inserts(mill):
    _tables(mill)
    with mill.batch() as batch:
        batch.insert("t", [(1, -0.0, 1.0)])
        batch.delete("t", [(1, 0.0, 1.0)])
    _is_right(mill, [])


def test_a_row_is_replaced_by_its_other_zero(mill):
    _tables(mill, ", PRIMARY KEY (k)")
    mill.insert("t", [(1, 0.0, 1.0)])
    mill.upsert("t", [(1, -0.0, 1.0)])
    _is_right(mill, [(1, -0.0, 1.0)])
    with mill.batch() as batch:
        batch.delete("t", [(1, -0.0, 1.0)])
        batch.insert("t", [(1, 0.0, 1.0)])
    _is_right(mill, [(1, 0.0, 1.0)])


def test_a_primary_key_has_no_minus_zero(tmp_path):
    with vm.connect(tmp_path / "m") as mill:
        _tables(mill, ", PRIMARY KEY (d)")
        mill.insert("t", [(1, -0.0, -0.0)])
        _is_right(mill, [(1, 0.0, -0.0)])
        with pytest.raises(vm.errors.DuplicateKey):
            mill.insert("t", [(2, 0.0, 1.0)])
        mill.upsert("t", [(2, -0.0, 1.0)])
        _is_right(mill, [(2, 0.0, 1.0)])
    with vm.connect(tmp_path / "m") as mill:
        _is_right(mill, [(2, 0.0, 1.0)])


def test_zeros_that_come_and_go_at_random(tmp_path):
    chance, zeros = random.Random(7), (0.0, -0.0)
    counts = dict.fromkeys(range(3), 0)
    with vm.connect(tmp_path / "m") as mill:
        _tables(mill)
        for _ in range(60):
            k, row = chance.randrange(3), tuple(chance.choice(zeros) for _ in range(2))
            if counts[k] and chance.random() < 0.5:
                mill.delete("t", [(k, *row)])
                counts[k] -= 1
            else:
                mill.insert("t", [(k, *row)])
                counts[k] += 1
            assert mill["texts"].verify() == []
        before = _rows(mill)
        assert len(before) == sum(counts.values())
    with vm.connect(tmp_path / "m") as mill:
        assert _rows(mill) == before

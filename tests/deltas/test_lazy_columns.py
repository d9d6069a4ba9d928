"""Columns that came as Arrow: words when they are read, the same words, and Arrow again."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP
from viewmill.algebra.types import Decimal as DecimalType
from viewmill.deltas.arrow import decode_delta, encode_columns
from viewmill.deltas.delta import concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.rows import to_delta

SCHEMA = Schema(
    (
        Field("n", BIGINT), Field("x", DOUBLE), Field("s", STRING), Field("d", DATE),
        Field("t", TIMESTAMP), Field("p", DecimalType(12, 2)), Field("b", BOOLEAN),
    )
)  # fmt: skip


def rows(count: int, *, with_nulls: bool = False) -> pa.Table:
    def some(values: list[object]) -> list[object]:
        return [None if with_nulls and i % 3 == 0 else each for i, each in enumerate(values)]

    every = range(count)
    return pa.table(
        {
            "n": pa.array(some([i - 2 for i in every]), pa.int64()),
            "x": pa.array(some([i / 4 for i in every]), pa.float64()),
            "s": pa.array(some([f"text {i % 5}" for i in every]), pa.string()),
            "d": pa.array(some([dt.date(1960 + i % 50, 1, 1) for i in every]), pa.date32()),
            "t": pa.array(some([dt.datetime(2000, 1, 1, 0, i % 60) for i in every])),
            "p": pa.array(some([Decimal(i - 3).scaleb(-2) for i in every]), pa.decimal128(12, 2)),
            "b": pa.array(some([i % 2 == 0 for i in every]), pa.bool_()),
        }
    )


@pytest.mark.parametrize("with_nulls", [False, True], ids=["full", "nulls"])
@pytest.mark.parametrize("cut", [(0, 40), (7, 20), (39, 1), (5, 0)], ids=str)
def test_late_words_are_those_made_at_once(with_nulls: bool, cut: tuple[int, int]) -> None:
    dictionary, table = Dictionary(), rows(40, with_nulls=with_nulls).slice(*cut)
    lazy, now = to_delta(table, SCHEMA, dictionary), encode_columns(SCHEMA, table, dictionary)
    assert lazy.lazy is not None
    assert lazy.words().tolist() == now.words().tolist()
    assert decode_delta(lazy, dictionary).to_pylist() == table.to_pylist()


def test_joined_late_rows_keep_their_order_and_are_not_made_words() -> None:
    dictionary, table = Dictionary(), rows(30, with_nulls=True)
    deltas = [
        to_delta(table.slice(a, b - a), SCHEMA, dictionary) for a, b in pairwise([0, 9, 9, 30])
    ]
    assert len(deltas[0].columns[2]) == 9  # a view has read it
    whole = concat(SCHEMA, deltas)
    assert whole.lazy is not None
    assert decode_delta(whole, dictionary).to_pylist() == table.to_pylist()
    signed = concat(SCHEMA, [deltas[0], deltas[2].negated()])
    assert signed.multiplicities().tolist() == [1] * 9 + [-1] * 21


def test_columns_that_no_view_reads_are_never_encoded() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE w (k BIGINT, note STRING) UNCHECKED")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM w GROUP BY k")
        known = len(mill.core.dictionary)
        notes = pa.array([f"note {i}" for i in range(100)])
        mill.insert("w", pa.table({"k": pa.array(np.arange(100) % 3), "note": notes}))
        assert len(mill.core.dictionary) == known
        mill.delete("w", pa.table({"k": pa.array([0]), "note": pa.array(["note 0"])}))
        assert mill.sql("SELECT COUNT(DISTINCT note) FROM w").rows() == [(99,)]
        assert mill["v"].verify() == []


def test_what_does_not_fit_is_refused_before_anything_changes() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE w (k INT NOT NULL, p DECIMAL(4,2), d DATE) UNCHECKED")
        good = {"k": pa.array([1], pa.int32()), "p": [Decimal("1.25")], "d": [dt.date(2020, 1, 1)]}
        bad = {
            "k": pa.array([None], pa.int32()),
            "p": pa.array([Decimal("123.25")], pa.decimal128(5, 2)),
            "d": pa.array(["2020-13-01"]),
        }
        for name, column in bad.items():
            with pytest.raises(vm.ViewmillError):
                mill.insert("w", pa.table({**good, name: column}))
        mill.insert("w", pa.table(good))
        assert mill.sql("SELECT * FROM w").rows() == [(1, Decimal("1.25"), dt.date(2020, 1, 1))]


def test_late_rows_survive_a_restart(tmp_path) -> None:
    table = rows(700, with_nulls=True)
    columns = "n BIGINT, x DOUBLE, s STRING, d DATE, t TIMESTAMP, p DECIMAL(12,2), b BOOLEAN"
    with vm.connect(tmp_path / "m") as mill:
        mill.sql(f"CREATE TABLE w ({columns}) UNCHECKED")
        mill.insert("w", table.slice(0, 600))
        mill.insert("w", table.slice(600))
        mill.delete("w", table.slice(10, 20))
    with vm.connect(tmp_path / "m") as mill:
        kept = pa.concat_tables([table.slice(0, 10), table.slice(30)]).to_pylist()
        found = mill.sql("SELECT * FROM w").to_arrow().to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, kept))


@pytest.mark.parametrize(
    "values", [["A", "b", "A"], ["é"], ["ab", "", "c"], [""], ["A", "é", "zz"]], ids=str
)
def test_strings_of_one_letter_have_the_ids_that_all_strings_have(values: list[str]) -> None:
    dictionary = Dictionary()
    known = [dictionary.intern(each) for each in ("b", "zz")]
    ids = dictionary.encode(pa.array(["x", *values]).slice(1))
    assert [dictionary.value(i) for i in ids.tolist()] == values
    assert ids.tolist() == [dictionary.intern(each) for each in values]
    assert known == [dictionary.intern(each) for each in ("b", "zz")]

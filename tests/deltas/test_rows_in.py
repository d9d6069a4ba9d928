"""Rows as people have them: every layout gives the same rows, or a clear refusal."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import viewmill as vm
from viewmill import errors
from viewmill.deltas.arrow_types import from_arrow_type

COLUMNS = {
    "b": ("BOOLEAN", [True, None, False]),
    "i": ("INT", [1, None, -3]),
    "n": ("BIGINT", [2**62, None, -(2**62)]),
    "f": ("FLOAT", [0.5, None, -1.5]),
    "x": ("DOUBLE", [0.1, None, 1e300]),
    "d": ("DECIMAL(9,2)", [Decimal("1.50"), None, Decimal("-9999999.99")]),
    "s": ("STRING", ["ann", None, "日本"]),
    "y": ("DATE", [dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]),
    "z": (
        "TIMESTAMP",
        [dt.datetime(2024, 2, 29, 12, 0, 0, 1), None, dt.datetime(1969, 12, 31, 23)],
    ),
}
ROWS = list(zip(*(values for _, values in COLUMNS.values()), strict=True))
ARROW = pa.table(
    {
        "b": pa.array(COLUMNS["b"][1]),
        "i": pa.array(COLUMNS["i"][1], pa.int32()),
        "n": pa.array(COLUMNS["n"][1]),
        "f": pa.array(COLUMNS["f"][1], pa.float32()),
        "x": pa.array(COLUMNS["x"][1]),
        "d": pa.array(COLUMNS["d"][1], pa.decimal128(9, 2)),
        "s": pa.array(COLUMNS["s"][1]),
        "y": pa.array(COLUMNS["y"][1]),
        "z": pa.array(COLUMNS["z"][1], pa.timestamp("us")),
    }
)


def recast(**types: Any) -> pa.Table:
    table = ARROW
    for name, type_ in types.items():
        at = table.column_names.index(name)
        table = table.set_column(at, name, table.column(name).cast(type_))
    return table


def pandas_rows() -> pd.DataFrame:
    return pd.DataFrame(
        {name: pd.Series(values, dtype=object) for name, (_, values) in COLUMNS.items()}
    )


LAYOUTS = {
    "tuples": ROWS,
    "lists": [list(row) for row in ROWS],
    "dicts": [dict(zip(COLUMNS, row, strict=True)) for row in ROWS],
    "dicts without the missing": [
        {name: value for name, value in zip(COLUMNS, row, strict=True) if value is not None}
        for row in ROWS
    ],
    "generator": (row for row in ROWS),
    "pyarrow table": ARROW,
    "pyarrow chunks": pa.concat_tables([ARROW.slice(0, 1), ARROW.slice(1, 2)]),
    "pyarrow slice": pa.concat_tables([ARROW, ARROW]).combine_chunks().slice(3, 3),
    "pyarrow batch": ARROW.to_batches()[0],
    "pyarrow reader": pa.RecordBatchReader.from_batches(ARROW.schema, ARROW.to_batches()),
    "other column order": ARROW.select(list(reversed(ARROW.column_names))),
    "string_view": recast(s=pa.string_view()),
    "large": recast(s=pa.large_string()),
    "dictionary": ARROW.set_column(6, "s", ARROW.column("s").dictionary_encode()),
    "dictionary of numbers": ARROW.set_column(1, "i", ARROW.column("i").dictionary_encode()),
    "dictionary that holds NULL": ARROW.set_column(
        6, "s",
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["ann", None, "日本"])),
    ),
    "numbers whose dictionary holds NULL": ARROW.set_column(
        1, "i", pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array([1, None, -3]))),
    "wide integers": recast(i=pa.int64()),
    "whole floats": recast(i=pa.float64()),
    "wide decimals": recast(d=pa.decimal128(38, 4)),
    "milliseconds": recast(y=pa.date64()),
    "polars": pl.from_arrow(ARROW),
    "pandas": pandas_rows(),
    "pandas with its own types": ARROW.drop_columns(["y"]).to_pandas().assign(y=COLUMNS["y"][1]),
}  # fmt: skip


@pytest.fixture
def table(mill: vm.Mill, uncompiled) -> vm.Mill:
    inside = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    mill.sql(f"CREATE TABLE t ({inside})")
    return mill


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_rows(layout, table):
    table.insert("t", LAYOUTS[layout])
    assert sorted(table.sql("SELECT * FROM t").rows(), key=repr) == sorted(ROWS, key=repr)


def test_rows_come_out_as_they_went_in_by_every_reader(table):
    table.insert("t", ROWS)
    table.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    assert sorted(table["v"].rows(), key=repr) == sorted(ROWS, key=repr)
    assert table["v"].to_arrow().schema.equals(ARROW.schema)
    assert table["v"].to_polars().shape == table["v"].to_pandas().shape == (3, 9)
    for read in (table["v"].to_arrow(), table["v"].to_polars(), table["v"].rows()):
        table.delete("t", read)
        assert len(table["v"]) == 0
        table.insert("t", read)


def test_pandas_nan_is_null_and_other_nan_stays(mill, uncompiled):
    mill.sql("CREATE TABLE t (x DOUBLE)")
    mill.insert("t", pd.DataFrame({"x": [float("nan")]}))
    assert mill.sql("SELECT * FROM t").rows() == [(None,)]
    mill.insert("t", [(float("nan"),)])
    mill.insert("t", pa.table({"x": [float("nan")]}))
    assert mill.sql("SELECT COUNT(*) AS n FROM t WHERE isnan(x)").rows() == [(2,)]


def test_what_is_changed_later_in_pandas_does_not_change_the_table(mill, uncompiled):
    mill.sql("CREATE TABLE t (x BIGINT) UNCHECKED")
    frame = pd.DataFrame({"x": np.array([1, 2, 3])})
    mill.insert("t", frame)
    frame.loc[:, "x"] = 9
    assert sorted(mill.sql("SELECT * FROM t").rows()) == [(1,), (2,), (3,)]


REFUSED = {
    "fraction": pa.table({"i": [1.5]}),
    "text for a number": pa.table({"i": ["1"]}),
    "number for text": pa.table({"s": [1]}),
    "too large": pa.table({"i": [2**31]}),
    "beyond 64 bits": pa.table({"n": pa.array([2**63], pa.uint64())}),
    "too many digits": pa.table({"d": [Decimal("0.001")]}),
    "too wide": pa.table({"d": [Decimal("10000000.00")]}),
    "beyond FLOAT": pa.table({"f": [1e300]}),
    "beyond FLOAT in a list": [{"f": 1e300}],
    "nanoseconds lost": pa.table({"z": pa.array([1], pa.timestamp("ns"))}),
    "time of day in a DATE": [{"y": dt.datetime(2024, 1, 1, 12)}],
    "two columns of one name": pa.table([[1], [2]], names=["i", "I"]),
    "not a number": pa.table({"i": [float("nan")]}),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_and_changes_nothing(case, table):
    with pytest.raises(errors.InvalidRow):
        table.insert("t", REFUSED[case])
    assert table.sql("SELECT * FROM t").rows() == []


CHANGES = [
    "insert",
    "delete",
    "update_preimage",
    "update_postimage",
    "i",
    "d",
    "+1",
    "-1",
    "Insert",
    1,
    -1,
]


@pytest.mark.parametrize("word", CHANGES)
def test_change_words_are_understood(word, mill, uncompiled):
    mill.sql("CREATE TABLE t (x INT) UNCHECKED")
    mill.insert("t", [(1,)])
    mill.apply("t", [(1, word)], change="op")
    comes = word in ("insert", "Insert", "update_postimage", "i", "+1", 1)
    assert len(mill.sql("SELECT * FROM t")) == (2 if comes else 0)


def test_multiplicities_count_rows(mill, uncompiled):
    mill.sql("CREATE TABLE t (x INT)")
    mill.sql("CREATE MATERIALIZED VIEW n AS SELECT x, COUNT(*) AS n FROM t GROUP BY x")
    mill.apply("t", pa.table({"m": [3, 0, 2], "x": [1, 2, 3]}), multiplicity="m")
    mill.apply("t", [{"x": 1, "m": -2}], multiplicity="m")
    assert sorted(mill["n"].rows()) == [(1, 1), (3, 2)]
    with pytest.raises(errors.InvalidArgument):
        mill.apply("t", [(1, 1)])
    with pytest.raises(errors.UnknownName, match='no column "m"'):
        mill.apply("t", pa.table({"x": [1]}), multiplicity="m")
    with pytest.raises(errors.NullViolation):
        mill.apply("t", [(1, None)], multiplicity="m")


_ODD: dict[str, list[Any]] = {
    "BIGINT": [0, -(2**63), 2**63 - 1, 2**63, True, 3.0, 3.5, np.int32(7), Decimal(4), "5", None],
    "TINYINT": [127, 128, -128, np.uint8(200), None],
    "DOUBLE": [-0.0, float("nan"), float("inf"), 10**400, 3, Decimal("0.5"), True, "x", None],
    "FLOAT": [0.1, 1e39, None],
    "STRING": ["", "é", "a\0b", np.str_("n"), 5, "\ud800", pd.NA, None],
    "BOOLEAN": [True, np.bool_(False), 1, None],
    "DECIMAL(10, 2)": [Decimal("1.25"), Decimal("1.255"), 10**9, None],
    "DECIMAL(38, 2)": [Decimal("12345678901234567890.25"), 10**37, 7, None],
    "DATE": [dt.date(2024, 2, 29), "2024-02-30", dt.datetime(2024, 1, 1, 1), pd.NaT, None],
    "TIMESTAMP": [dt.datetime(1, 1, 1), dt.date(2024, 1, 1), np.datetime64("2024-01-01"), None],
}


@pytest.mark.parametrize("type_", _ODD)
def test_a_row_alone_is_taken_or_refused_as_among_others(type_, mill, uncompiled):
    mill.sql(f"CREATE TABLE one (k BIGINT NOT NULL, v {type_}) UNCHECKED")
    mill.sql(f"CREATE TABLE two (k BIGINT NOT NULL, v {type_}) UNCHECKED")
    for i, value in enumerate(_ODD[type_]):
        said: list[str] = []
        for table, rows in (("one", [(i, value)]), ("two", [(i, value), (-1, None)])):
            try:
                mill.insert(table, rows)
            except errors.ViewmillError as why:
                said.append(str(why))
        assert len(said) in (0, 2), (value, said)
        assert len(set(said)) <= 1
    read = "SELECT * FROM {} WHERE k >= 0 ORDER BY k"
    one, two = (mill.sql(read.format(each)).rows() for each in ("one", "two"))
    assert list(map(repr, one)) == list(map(repr, two))
    assert one


def test_a_row_alone_must_have_a_value_for_each_column(mill, uncompiled):
    mill.sql("CREATE TABLE one (k BIGINT NOT NULL, v STRING) UNCHECKED")
    for wrong in [(1,), (1, "a", 2), (None, "a")]:
        with pytest.raises(errors.ViewmillError):
            mill.insert("one", [wrong])
    assert mill.sql("SELECT * FROM one").rows() == []


@pytest.mark.parametrize("type_", [pa.time64("us"), pa.list_(pa.time32("s")), pa.uuid()])
def test_a_type_of_arrow_that_has_no_twin_is_named(type_):
    with pytest.raises(errors.TypeMismatch, match="has no twin"):
        from_arrow_type(type_)


def test_bytes_of_a_fixed_size_are_bytes():
    assert str(from_arrow_type(pa.binary(2))) == str(from_arrow_type(pa.binary_view())) == "BINARY"

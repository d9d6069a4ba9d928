"""The gate for rows: what is taken can be read again, what is refused names row and column."""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")

COLUMNS = (
    "b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(12,2), w DECIMAL(30,4), s STRING, "
    "day DATE, ts TIMESTAMP"
)


@pytest.fixture
def table(mill: vm.Mill) -> vm.Mill:
    mill.sql(f"CREATE TABLE t ({COLUMNS})")
    return mill


EAST = dt.timezone(dt.timedelta(hours=9))


class Colour(enum.StrEnum):
    RED = "red"

    def __str__(self) -> str:
        return "Colour.RED"


REFUSED: dict[str, tuple[str, Any]] = {
    "lone surrogate": ("s", "a\ud800"),
    "bytes": ("s", b"x"),
    "number for text": ("s", 5),
    "flag for number": ("i", True),
    "NaN for INT": ("i", float("nan")),
    "infinity for INT": ("i", float("inf")),
    "beyond 64 bits": ("l", 2**63),
    "unsigned beyond 64 bits": ("l", np.uint64(2**64 - 1)),
    "far beyond": ("l", Decimal("1e999999")),
    "integer beyond DOUBLE": ("d", 10**400),
    "decimal beyond DOUBLE": ("d", Decimal("1e400")),
    "beyond FLOAT": ("f", 1e300),
    "complex": ("d", 1j),
    "flag for DOUBLE": ("d", True),
    "NaN for DECIMAL": ("m", float("nan")),
    "signalling NaN": ("m", Decimal("sNaN")),
    "three digits": ("m", Decimal("1.234")),
    "seventy digits": ("m", Decimal("1." + "0" * 69 + "1")),
    "too wide": ("m", Decimal("1e20")),
    "as wide as can be written": ("m", Decimal("1e999999")),
    "no such day": ("day", "2024-02-30"),
    "time of day in a DATE": ("day", dt.datetime(2024, 1, 1, 1)),
    "number for DATE": ("day", 5),
    "day of the year 100000": ("day", np.datetime64("100000-01-01")),
    "nanoseconds of pandas": ("ts", pd.Timestamp(1)),
    "nanoseconds of NumPy": ("ts", np.datetime64(1, "ns")),
    "nanoseconds in a text": ("ts", "2024-01-01 00:00:00.123456789"),
    "year 100000": ("ts", np.datetime64("100000-01-01")),
    "seconds that wrap around": ("ts", np.datetime64(2**62, "s")),
    "before the year 1 in UTC": ("ts", dt.datetime(1, 1, 1, tzinfo=EAST)),
    "list": ("i", [1]),
    "object": ("d", object()),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 200], ids=["few", "many"])
@pytest.mark.parametrize("case", REFUSED)
def test_a_value_that_does_not_fit_is_refused_with_its_row_and_column(
    case: str, size: int, table: vm.Mill
) -> None:
    column, value = REFUSED[case]
    rows = [{"i": n} for n in range(size)] + [{column: value}]
    for change in (table.insert, table.delete):
        with pytest.raises(vm.InvalidRow, match=f'row {size} .*column "{column}"'):
            change("t", rows)
    assert table.sql("SELECT * FROM t").rows() == []


TAKEN: dict[str, tuple[str, Any, Any]] = {
    "NUL": ("s", "a\0b", "a\0b"),
    "Enum holds its value": ("s", Colour.RED, "red"),
    "text of NumPy": ("s", np.str_("x"), "x"),
    "whole float": ("i", 1.0, 1),
    "nearest float": ("d", 2**53 + 1, 2.0**53),
    "wide decimal": ("w", Decimal(10) ** 25, Decimal(10) ** 25),
    "NA": ("i", pd.NA, None),
    "NA for TIMESTAMP": ("ts", pd.NA, None),
    "NaT": ("ts", pd.NaT, None),
    "NaT of NumPy": ("day", np.datetime64("NaT"), None),
    "last microsecond": ("ts", dt.datetime.max, dt.datetime.max),
    "first day": ("day", dt.date.min, dt.date.min),
}


@pytest.mark.parametrize("size", [1, 200], ids=["few", "many"])
@pytest.mark.parametrize("case", TAKEN)
def test_a_value_that_fits_is_kept_as_it_is(case: str, size: int, table: vm.Mill) -> None:
    column, value, kept = TAKEN[case]
    table.insert("t", [{column: value}, *[{}] * size])
    assert table.sql(f"SELECT {column} FROM t").rows().count((kept,)) >= 1
    table.delete("t", [{column: value}])
    assert len(table.sql("SELECT * FROM t")) == size


def _words(type_: Any, *words: int) -> Any:
    wide = pa.int32() if type_ == pa.date32() else pa.int64()
    return pa.array(words, wide).view(type_)


BAD_TEXT = pa.array([b"good", b"\xff\xfe"]).view(pa.string())
ARROW_REFUSED: dict[str, tuple[str, Any]] = {
    "not UTF-8": ("s", BAD_TEXT),
    "not UTF-8, in a dictionary": ("s", pa.DictionaryArray.from_arrays([0, 1], BAD_TEXT)),
    "a surrogate in UTF-8": ("s", pa.array([b"good", b"\xed\xa0\x80"]).view(pa.string())),
    "binary": ("s", pa.array([None, b"x"])),
    "unsigned": ("l", pa.array([1, 2**64 - 1], pa.uint64())),
    "fraction": ("i", pa.array([1.0, 1.5])),
    "flag": ("i", pa.array([None, True])),
    "beyond its own precision": (
        "w",
        pa.Array.from_buffers(
            pa.decimal128(30, 4), 2, [None, pa.py_buffer(np.array([0, 0, 0, 2**62]))]
        ),
    ),
    "decimal256": ("w", pa.array([Decimal(1), Decimal(10) ** 40], pa.decimal256(60, 2))),
    "more digits": ("m", pa.array([Decimal("1.5"), Decimal("1.555")], pa.decimal128(9, 3))),
    "day of the year 5 million": ("day", _words(pa.date32(), 0, 2**31 - 1)),
    "day before the year 1": ("day", _words(pa.date32(), 0, -719_163)),
    "odd date64": ("day", _words(pa.date64(), 0, 86_400_001)),
    "time of day": ("day", _words(pa.timestamp("us"), 0, 1)),
    "nanoseconds": ("ts", _words(pa.timestamp("ns"), 1000, 1)),
    "year 294247": ("ts", _words(pa.timestamp("us"), 0, 2**63 - 1)),
    "seconds that wrap around": ("ts", _words(pa.timestamp("s"), 0, 2**62)),
    "in a dictionary": ("ts", _words(pa.timestamp("us"), 0, 2**62).dictionary_encode()),
    "year 0 in a text": ("ts", pa.array(["2024-01-01", "0000-01-01"])),
    "duration": ("l", pa.array([None, 5], pa.duration("s"))),
    "a zone that is none": ("l", pa.array([None, 5], pa.timestamp("us", "No/Where"))),
    "struct": ("s", pa.array([None, {"a": 1}])),
    "list": ("i", pa.array([None, [1]])),
    "union": (
        "i",
        pa.UnionArray.from_sparse(
            pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]
        ),
    ),
}


@pytest.mark.parametrize("case", ARROW_REFUSED)
def test_an_arrow_value_that_does_not_fit_is_refused(case: str, table: vm.Mill) -> None:
    column, array = ARROW_REFUSED[case]
    where = "[01]" if case == "union" else "1"
    with pytest.raises(vm.InvalidRow, match=f'row {where} .*column "{column}"'):
        table.insert("t", pa.table({column: array}))
    assert table.sql("SELECT * FROM t").rows() == []


class Own(pa.ExtensionType):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.own")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


ARROW_TAKEN: dict[str, tuple[str, Any, list[Any]]] = {
    "dictionary with NULL": (
        "s",
        pa.DictionaryArray.from_arrays([0, 1, None], pa.array(["x", None])),
        ["x", None, None],
    ),
    "runs": ("i", pa.RunEndEncodedArray.from_arrays([2, 3], [1, None]), [1, 1, None]),
    "runs of text": ("s", pa.RunEndEncodedArray.from_arrays([2, 3], ["x", "y"]), ["x", "x", "y"]),
    "views": ("s", pa.array(["x", None], pa.string_view()), ["x", None]),
    "views for dates": ("day", pa.array(["2024-02-03"], pa.string_view()), [dt.date(2024, 2, 3)]),
    "decimal256": ("m", pa.array([Decimal("1.5")], pa.decimal256(50, 3)), [Decimal("1.50")]),
    "negative scale": ("m", pa.array([Decimal(100)], pa.decimal128(5, -2)), [Decimal(100)]),
    "extension": ("l", pa.ExtensionArray.from_storage(Own(), pa.array([5])), [5]),
    "half float": ("f", pa.array(np.array([1.5], np.float16)), [1.5]),
    "nothing of another type": ("s", pa.array([None, None], pa.float64()), [None, None]),
    "no rows of another type": ("s", pa.array([], pa.float64()), []),
    "time in Berlin": (
        "ts",
        pa.array([0], pa.timestamp("s", "Europe/Berlin")),
        [dt.datetime(1970, 1, 1)],
    ),
    "slice": ("b", pa.array([True, False, None])[1:], [False, None]),
}


@pytest.mark.parametrize("case", ARROW_TAKEN)
def test_an_arrow_array_of_any_layout_is_taken(case: str, table: vm.Mill) -> None:
    column, array, kept = ARROW_TAKEN[case]
    table.insert("t", pa.table({column: array}))
    found = [value for (value,) in table.sql(f"SELECT {column} FROM t").rows()]
    assert sorted(found, key=repr) == sorted(kept, key=repr)


def _nested(depth: int) -> Any:
    return [] if depth == 0 else [_nested(depth - 1)]


FRAMES: dict[str, tuple[Any, str]] = {
    "duplicate columns": (pd.DataFrame([[1, 2]], columns=["i", "i"]), 'two columns are named "i"'),
    "complex column": (pd.DataFrame({"d": [1.0, 2j]}), 'row 0 .*column "d"'),
    "mixed objects": (pd.DataFrame({"s": ["a", 1]}), 'row 1 .*column "s"'),
    "lists": (pd.DataFrame({"s": [None, [1]]}), 'row 1 .*column "s"'),
    "huge integer": (pd.DataFrame({"l": [1, 2**70]}), 'row 1 .*column "l"'),
    "lone surrogate": (pd.DataFrame({"s": ["a", "\ud800"]}), 'row 1 .*column "s"'),
    "nanoseconds": (pd.DataFrame({"ts": pd.to_datetime([0, 1])}), 'row 1 .*column "ts"'),
    "nanoseconds in objects": (
        pd.DataFrame({"ts": pd.Series([pd.NaT, pd.Timestamp(1)], dtype=object)}),
        'row 1 .*column "ts"',
    ),
    "nanoseconds in a day": (
        pd.DataFrame({"day": pd.Series([pd.NaT, pd.Timestamp(1)], dtype=object)}),
        'row 1 .*column "day"',
    ),
    "very deep": (pd.DataFrame({"s": [None, _nested(900)]}), 'row 1 .*column "s"'),
    "periods": (pd.DataFrame({"day": pd.period_range("2024", periods=2)}), 'row 0 .*column "day"'),
    "a series": (pd.Series([1], name="i"), "Series"),
    "a polars series": (pl.Series("i", [1]), "Series"),
    "polars nanoseconds": (
        pl.DataFrame({"ts": pl.Series([0, 1], dtype=pl.Datetime("ns"))}),
        'row 1 .*column "ts"',
    ),
    "wide integers": (
        pl.DataFrame({"l": pl.Series([1, 2**70], dtype=pl.Int128)}),
        'row 1 .*column "l"',
    ),
    "a column twice": ([{"i": 1, "I": 2}], "row 0 gives a column twice"),
}


@pytest.mark.parametrize("case", FRAMES)
def test_an_odd_frame_is_refused_with_what_is_odd(case: str, table: vm.Mill) -> None:
    rows, says = FRAMES[case]
    with pytest.raises(vm.InvalidRow, match=says):
        table.insert("t", rows)


def test_sparse_categorical_and_missing_columns_are_taken(table: vm.Mill) -> None:
    frame = pd.DataFrame(
        {
            "d": pd.arrays.SparseArray([0.0, 1.0]),
            "s": pd.Categorical(["a", None]),
            "i": [1, pd.NA],
            "day": [np.nan, np.nan],
        }
    )
    table.insert("t", frame)
    assert sorted(table.sql("SELECT d, s, i, day FROM t").rows()) == [
        (0.0, "a", 1, None),
        (1.0, None, None, None),
    ]


@pytest.mark.parametrize("times", [2**62, -(2**63), 2**40 + 1])
def test_a_row_that_comes_too_often_is_refused(times: int, table: vm.Mill) -> None:
    """Two times 2 ** 62 was less than nothing, and the mill did not open again."""
    rows = [{"i": 1, "n": 1}, {"i": 2, "n": times}]
    for given in (rows, pa.Table.from_pylist(rows)):
        with pytest.raises(vm.InvalidRow, match=r'row 1 .*column "n"'):
            table.apply("t", given, multiplicity="n")
    assert table.sql("SELECT * FROM t").rows() == []


def test_a_table_out_of_a_frame_refuses_what_an_insert_refuses(table: vm.Mill) -> None:
    with pytest.raises(vm.InvalidRow, match=r'row 1 .*column "x"'):
        table.table(
            pd.DataFrame({"x": pd.Series([pd.NaT, pd.Timestamp(1)], dtype=object)}), name="r"
        )
    assert table.tables() == ["t"]


@pytest.mark.parametrize("word", ["inserted", None, 1.5, [1], {}, "\ud800"])
def test_what_is_no_change_is_refused(word: Any, table: vm.Mill) -> None:
    with pytest.raises(vm.InvalidRow, match=r"row 1: .* is no change"):
        table.apply("t", [{"i": 1, "op": "i"}, {"i": 2, "op": word}], change="op")


def test_an_error_can_be_printed_whatever_it_names(table: vm.Mill) -> None:
    for rows in ([{"\ud800": 1}], pd.DataFrame({"\ud800": [1]})):
        with pytest.raises(vm.UnknownName) as caught:
            table.insert("t", rows)
        assert "ud800" in str(caught.value)
        str(caught.value).encode()

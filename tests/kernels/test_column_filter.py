"""Rows that fail a trigger's first tests are not read: the view is the same, and so are errors."""

from __future__ import annotations

import datetime as dt
import operator
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.algebra import types
from viewmill.algebra.schema import Field, Schema
from viewmill.deltas.arrow import encode_columns
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.lazy_columns import FilterTest
from viewmill.kernels import column_reader

SQL_TYPES: list[types.Type] = [types.BIGINT, types.Integer(8), types.Integer(16), types.Integer(32),
             types.Integer(32), types.Decimal(9, 2), types.Date(), types.Timestamp(),
             types.String(), types.String(), types.Float(64)]  # fmt: skip

NAMES = ["id", "small", "short", "number", "other", "price", "day", "at", "word", "name", "part"]
TYPES = [pa.int64(), pa.int8(), pa.int16(), pa.int32(), pa.int32(), pa.decimal128(9, 2),
         pa.date32(), pa.timestamp("us"), pa.string(), pa.large_string(), pa.float64()]  # fmt: skip
WORDS = ["", "R", "MAIL", "a word longer than sixteen bytes", "é", "MAI", "MAIL ROOM"]
OPERATORS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le,
             ">": operator.gt, ">=": operator.ge}  # fmt: skip


def rows(source: random.Random, count: int) -> pa.Table:
    """Rows as Arrow, cut out of the middle of more."""
    first, moment = dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)
    drawn = [
        (i, source.randrange(-2, 4), source.randrange(4), source.randrange(6), source.randrange(6),
         Decimal(source.randrange(400)) / 100, first + dt.timedelta(days=source.randrange(6)),
         moment + dt.timedelta(hours=source.randrange(60)), source.choice(WORDS),
         source.choice(WORDS), source.randrange(8) / 4)
        for i in range(count + 20)
    ]  # fmt: skip
    columns = zip(*drawn, strict=True)
    arrays = [pa.array(values, type_) for values, type_ in zip(columns, TYPES, strict=True)]
    return pa.table(arrays, names=NAMES).slice(13, count)


def drawn_test(source: random.Random) -> tuple[FilterTest, Callable[[dict[str, Any]], bool]]:
    """A test, and the same in Python over the words of a row."""
    sign = source.choice(list(OPERATORS))
    compare = OPERATORS[sign]
    kind = source.randrange(4)
    if kind == 0:  # strings
        name = source.choice(["word", "name"])
        given = tuple(source.sample(WORDS, source.randrange(1, 4)))
        sign = source.choice(["=", "<>"])
        return (
            NAMES.index(name),
            sign,
            given,
            None,
        ), lambda row: (row[name] in given) == (sign == "=")
    if kind == 1:
        return (3, sign, (), 4), lambda row: compare(row["number"], row["other"])
    name = source.choice(["small", "short", "number", "price", "day", "at"])
    low = {"price": 200, "day": 19725, "at": 1704200400000000}.get(name, 2)
    if kind == 2:
        return (NAMES.index(name), sign, (low,), None), lambda row: compare(row[name], low)
    some, sign = (low, low + 1, -2), source.choice(["=", "<>"])
    return (NAMES.index(name), sign, some, None), lambda row: (row[name] in some) == (sign == "=")


def test_rows_that_pass_are_those_of_python() -> None:
    source = random.Random(3)
    for count in (1, 7, 1000, 3000):
        dictionary = Dictionary()
        dictionary.speed_up(column_reader)
        table = rows(source, count)
        schema = Schema(tuple(map(Field, NAMES, SQL_TYPES)))
        plain = encode_columns(schema, table, dictionary)
        words = [column.tolist() for column in plain.columns]
        texts = {name: table.column(name).to_pylist() for name in ("word", "name")}
        for _ in range(40):
            drawn = [drawn_test(source) for _ in range(source.randrange(1, 4))]
            pushed = dictionary.pushed_filter(TYPES, [test for test, _ in drawn])
            assert pushed is not None
            found = pushed.read(table, table.num_rows)
            passing = [
                i
                for i in range(count)
                if all(
                    holds({**{n: words[c][i] for c, n in enumerate(NAMES)},
                           **{n: values[i] for n, values in texts.items()}})
                    for _, holds in drawn
                )
            ]  # fmt: skip
            assert found == len(passing)
            if found < count:
                assert pushed.rows[:found].tolist() == passing
            for c in range(len(NAMES)):
                assert pushed.columns[c][:found].tolist() == [words[c][i] for i in passing]


def test_what_is_skipped_is_skipped_by_the_view() -> None:
    source = random.Random(4)
    with vm.connect() as mill:
        columns = ", ".join(f"{n} {t}" for n, t in zip(NAMES, SQL_TYPES, strict=True))
        mill.sql(f"CREATE TABLE t ({columns}) UNCHECKED")
        mill.sql("CREATE TABLE u (number INT, note STRING)")
        mill.insert("u", [(i, f"note {i}") for i in range(6)])
        mill.sql(
            "CREATE MATERIALIZED VIEW j AS SELECT t.name, u.note, count(*) AS n, sum(price) AS s "
            "FROM t, u WHERE t.number = u.number AND t.word IN ('R', 'MAIL') AND small > 0 "
            "AND t.short NOT IN (1, 2) AND t.number <= other GROUP BY t.name, u.note"
        )
        batches = [rows(source, count) for count in (1, 7, 1000, 2500)]
        for batch in batches:
            mill.insert("t", batch)
        mill.delete("t", batches[2])
        assert mill["j"].verify() == []
        assert len(mill["j"].rows()) > 10


def test_null_goes_the_long_way() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k INT, x INT)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS s FROM t WHERE x < 3 GROUP BY k"
        )
        mill.insert("t", pa.table({"k": pa.array([1, 1, 2], pa.int32()),
                                   "x": pa.array([1, None, 5], pa.int32())}))  # fmt: skip
        mill.insert("t", pa.table({"k": pa.array([2], pa.int32()), "x": pa.array([2], pa.int32())}))
        assert sorted(mill["v"].rows()) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("none", [None, 0, 5, 6, 14, 15, 19])
def test_a_mask_is_looked_at(none: int | None) -> None:
    """Rows 6 to 14 of a column that has a mask; only a NULL among them counts."""
    dictionary = Dictionary()
    dictionary.speed_up(column_reader)
    mask = pa.array([i != none for i in range(20)], pa.bool_()).buffers()[1]
    numbers = pa.array(range(20), pa.int64()).buffers()[1]
    array = pa.Array.from_buffers(pa.int64(), 20, [mask, numbers])
    pushed = dictionary.pushed_filter([pa.int64()], [(0, ">", (7,), None)])
    assert pushed is not None
    found = pushed.read(pa.table([array], names=["x"]).slice(6, 9), 9)
    assert found == 7 if none not in (6, 14) else found < 0


def test_an_error_names_the_row_as_it_came() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k INT, x INT)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k, sum(10 DIV x) AS s FROM t WHERE k > 1 "
            "GROUP BY k"
        )
        mill.insert("t", pa.table({"k": pa.array([2], pa.int32()), "x": pa.array([5], pa.int32())}))
        bad = pa.table({"k": pa.array([1, 1, 2, 3], pa.int32()),
                        "x": pa.array([0, 7, 1, 0], pa.int32())})  # fmt: skip
        with pytest.raises(vm.errors.EvaluationFailed) as caught:
            mill.insert("t", bad)
        assert "row 3 of the batch: k = 3, x = 0" in str(caught.value)
        assert mill["v"].rows() == [(2, 2)]
        assert mill.sql("SELECT count(*) AS n FROM t").rows() == [(1,)]

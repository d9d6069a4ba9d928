"""Rows as bytes come back as they were, in another process too."""

import datetime
import decimal
import random

import pytest

import viewmill as vm
from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.row_bytes import RowBytes
from viewmill.deltas.rows import to_delta
from viewmill.errors import DamagedFile
from viewmill.mill.table import Table
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateTable

COLUMNS = (
    "a BIGINT, b DOUBLE, c STRING, d DECIMAL(38,2), e DATE, f TIMESTAMP, g BOOLEAN, h DECIMAL(9,3)"
)


def schema_of(columns: str):
    (statement,) = parse(f"CREATE TABLE t ({columns})")
    assert isinstance(statement, CreateTable)
    return Table.from_statement(statement, Dictionary()).schema


def random_row(chance: random.Random) -> tuple[object, ...]:
    values = (
        chance.randrange(-(2**63), 2**63),
        chance.choice([0.0, -0.0, 1.5, float("inf"), chance.random()]),
        chance.choice(["", "a", "Käse", "\0", "x" * chance.randrange(100)]),
        decimal.Decimal(chance.randrange(-(10**37), 10**37)).scaleb(-2),
        datetime.date(1900 + chance.randrange(200), 1, 1),
        datetime.datetime(1969, 12, 31, 23, 59, chance.randrange(60)),
        chance.random() < 0.5,
        decimal.Decimal(chance.randrange(-(10**8), 10**8)).scaleb(-3),
    )
    return tuple(None if chance.random() < 0.2 else value for value in values)


@pytest.mark.parametrize("rows", [1, 2, 9, 300])
@pytest.mark.parametrize("is_delete", [False, True])
def test_rows_come_back(rows, is_delete):
    chance = random.Random(rows)
    schema, here, there = schema_of(COLUMNS), Dictionary(), Dictionary()
    there.intern("something else has the first id there")
    there.wide.code(10**37)
    given = to_delta([random_row(chance) for _ in range(rows)], schema, here)
    given = given.negated() if is_delete else given
    packed = RowBytes(schema, here).pack(given)
    assert packed is not None
    found = RowBytes(schema, there).unpack(packed)
    expected = decode_delta(given, here, multiplicity="_multiplicity")
    assert decode_delta(found, there, multiplicity="_multiplicity").equals(expected)


def test_many_rows_are_left_to_arrow():
    schema, dictionary = schema_of("a BIGINT"), Dictionary()
    many = to_delta([(i,) for i in range(5000)], schema, dictionary)
    assert RowBytes(schema, dictionary).pack(many) is None


def test_rows_of_other_types_are_refused():
    dictionary = Dictionary()
    schema = schema_of("a BIGINT")
    packed = RowBytes(schema, dictionary).pack(to_delta([(1,)], schema, dictionary)) or b""
    with pytest.raises(DamagedFile):
        RowBytes(schema_of("a DOUBLE"), dictionary).unpack(packed)


def test_small_changes_of_every_type_survive_reopening(tmp_path, uncompiled):
    chance = random.Random(7)
    rows = [random_row(chance) for _ in range(20)]
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(f"CREATE TABLE t ({COLUMNS})")
        for row in rows:
            mill.insert("t", [row])
        mill.delete("t", rows[3:5])
        expected = sorted(mill.sql("SELECT * FROM t").rows(), key=repr)
    with vm.connect(tmp_path / "m.mill") as mill:
        assert sorted(mill.sql("SELECT * FROM t").rows(), key=repr) == expected
        assert len(expected) == 18

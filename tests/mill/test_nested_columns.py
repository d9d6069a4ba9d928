"""Tables with columns of arrays, maps, structs and binary strings."""

import datetime as dt
import random
from decimal import Decimal

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import viewmill as vm

COLUMNS = (
    "id BIGINT, a ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<x: INT, `y z`: STRING>, b BINARY, "
    "deep ARRAY<STRUCT<p: DECIMAL(38,2), q: ARRAY<DATE>>>"
)
FULL = (
    1,
    [1, 2, None],
    [("k", 5), ("l", None)],
    {"x": 7, "y z": "it's"},
    b"\x00\xff",
    [{"p": Decimal("1.50"), "q": [dt.date(2024, 2, 29), None]}, None],
)
EMPTY: tuple[object, ...] = (2, [], [], {"x": None, "y z": None}, b"", [])
NULLS = (3, None, None, None, None, None)


@pytest.fixture
def mill(uncompiled):
    with vm.connect() as mill:
        mill.sql(f"CREATE TABLE t ({COLUMNS})")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        yield mill


def shown(mill):
    return sorted(map(repr, mill["v"].rows()))


def test_values_come_back_as_they_were_given(mill):
    mill.insert("t", [FULL, EMPTY, NULLS])
    assert shown(mill) == sorted(map(repr, [FULL, EMPTY, NULLS]))
    assert mill["v"].status()["strategy"] == "dataflow"
    assert mill["v"].verify() == []


def test_every_form_of_rows_gives_equal_values(mill):
    mill.insert("t", [FULL])
    table = mill["v"].to_arrow()
    mill.insert("t", table)
    mill.insert("t", table.to_pandas())
    mill.insert("t", [dict(zip(table.column_names, FULL, strict=True))])
    as_tuple = (*FULL[:3], (7, "it's"), bytearray(b"\x00\xff"), FULL[5])
    mill.insert("t", [as_tuple])
    mapping = (*FULL[:2], {"k": 5, "l": None}, {"Y Z": "it's", "X": 7}, *FULL[4:])
    mill.insert("t", [mapping])
    assert mill["v"].rows() == [FULL] * 6
    mill.delete("t", [FULL] * 6)
    assert mill["v"].rows() == []


def test_values_of_sql(mill):
    mill.sql(
        "INSERT INTO t VALUES (1, array(1, 2, NULL), map('k', 5, 'l', NULL), "
        "named_struct('x', 7, 'y z', 'it''s'), X'00FF', NULL)"
    )
    assert mill["v"].rows() == [(*FULL[:5], None)]
    mill.sql("UPDATE t SET a = array(9) WHERE s.x = 7")
    assert mill["v"].rows()[0][1] == [9]
    mill.sql("DELETE FROM t WHERE a[0] = 9")
    assert mill["v"].rows() == []


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("a", ["x"], "ARRAY<INT>"),
        ("a", [1.5], "ARRAY<INT>"),
        ("a", [True], "ARRAY<INT>"),
        ("a", "12", "a list is expected"),
        ("a", [1 << 40], "outside"),
        ("m", {1: 2}, "MAP<STRING, INT>"),
        ("m", {None: 2}, "a key of a map is NULL"),
        ("m", [("k", 1), ("k", 2)], "twice"),
        ("m", ["k"], "pairs"),
        ("s", {"w": 1}, "no field 'w'"),
        ("s", {"x": 1, "X": 2}, "given twice"),
        ("s", (1,), "2 fields, got 1"),
        ("b", "text", "bytes are expected"),
        ("deep", [{"p": Decimal("1.555")}], "digits after the point"),
        ("deep", [{"q": ["not a day"]}], "STRUCT"),
    ],
)
def test_a_value_that_does_not_fit_names_its_row_and_column(mill, column, value, said):
    with pytest.raises(vm.errors.InvalidRow) as caught:
        mill.insert("t", [{"id": 1}, {"id": 2, column: value}])
    assert f'column "{column}"' in str(caught.value)
    assert "row 1" in str(caught.value)
    assert said in str(caught.value)
    assert mill["v"].rows() == []


def test_arrow_of_another_type_is_checked_value_by_value(mill):
    fits = pa.table({"id": [1], "a": pa.array([[1, 2]], pa.large_list(pa.int64()))})
    mill.insert("t", fits)
    assert mill["v"].rows() == [(1, [1, 2], None, None, None, None)]
    for array in (pa.array([["1"]]), pa.array([[1 << 40]]), pa.array([{"x": 1}])):
        with pytest.raises(vm.errors.InvalidRow):
            mill.insert("t", pa.table({"id": [2], "a": array}))
    swapped = pa.array([{"y z": "q", "x": 3}])
    mill.insert("t", pa.table({"id": [2], "s": swapped}))
    assert mill["v"].rows()[-1][3] == {"x": 3, "y z": "q"}


def test_pandas_lists_and_missing_values(mill):
    frame = pd.DataFrame({"id": [1, 2], "a": [[1, 2], None], "s": [{"x": 1}, None]})
    mill.insert("t", frame)
    assert [row[1] for row in mill["v"].rows()] == [[1, 2], None]
    assert [row[3] for row in mill["v"].rows()] == [{"x": 1, "y z": None}, None]


@pytest.mark.parametrize(
    ("type_", "said"),
    [
        ("ARRAY<FOO>", "no column can be of type FOO"),
        ("ARRAY", "expected <"),
        ("ARRAY<INT", "expected >"),
        ("MAP<INT>", "expected ,"),
        ("MAP<MAP<INT, INT>, INT>", "holds no map"),
        ("STRUCT<a: INT, A: INT>", "twice"),
        ("STRUCT<a: INT NOT NULL>", "may be NULL"),
        ("ARRAY<" * 60 + "INT" + ">" * 60, "50 deep"),
    ],
)
def test_a_type_that_is_none_is_refused(uncompiled, type_, said):
    with vm.connect() as mill, pytest.raises(vm.ViewmillError, match=said):
        mill.sql(f"CREATE TABLE t (x {type_})")


def test_equal_types_are_equal_however_they_are_spelled(uncompiled):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE a (x struct<n:int, `o p` : map<string,int>>)")
        mill.sql("CREATE TABLE b (x STRUCT<n INT COMMENT 'of n', `o p`: MAP<STRING, INT>>)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT x FROM a UNION ALL SELECT x FROM b")
        mill.insert("a", [({"n": 1, "o p": {"k": 2}},)])
        mill.insert("b", [({"n": 1, "o p": {"k": 2}},)])
        assert mill["v"].rows() == [({"n": 1, "o p": [("k", 2)]},)] * 2


def test_a_mill_on_disk_keeps_them(tmp_path, uncompiled):
    with vm.connect(tmp_path / "m") as mill:
        mill.sql(f"CREATE TABLE t ({COLUMNS})")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        mill.insert("t", [FULL, EMPTY])
        mill.checkpoint()
        mill.insert("t", [NULLS, FULL])
        mill.delete("t", [EMPTY])
    with vm.connect(tmp_path / "m") as mill:
        assert sorted(map(repr, mill["v"].rows())) == sorted(map(repr, [FULL, FULL, NULLS]))
        mill.delete("t", [FULL])
        assert sorted(map(repr, mill["v"].rows())) == sorted(map(repr, [FULL, NULLS]))
        assert mill["v"].verify() == []


VIEWS = {
    "fields": "SELECT id, s.x AS x, s.`y z` AS y FROM t WHERE s.x > 1",
    "elements": "SELECT id, try_element_at(a, 1) AS f, size(a) AS n, m['k'] AS k FROM t",
    "groups": "SELECT a, COUNT(*) AS n FROM t GROUP BY a",
    "structs": "SELECT s, COUNT(*) AS n, SUM(s.x) AS x FROM t GROUP BY s",
    "words": "SELECT x, COUNT(*) AS n FROM t LATERAL VIEW explode(a) e AS x GROUP BY x",
    "joined": "SELECT l.id, r.a, r.m FROM t l JOIN t r ON l.id = r.id",
    "first": "SELECT id, a FROM t ORDER BY id, a LIMIT 3",
    "distinct": "SELECT DISTINCT a, b FROM t",
    "contains": "SELECT COUNT(*) AS n FROM t WHERE array_contains(a, 2)",
}
# DuckDB's own spelling, over a table of the same rows.
ORACLE = {
    "fields": 'SELECT id, s.x, s."y z" FROM t WHERE s.x > 1',
    "elements": "SELECT id, a[1], len(a), m['k'] FROM t",
    "groups": "SELECT a, COUNT(*) FROM t GROUP BY a",
    "structs": "SELECT s, COUNT(*), SUM(s.x)::BIGINT FROM t GROUP BY s",
    "words": "SELECT x, COUNT(*) FROM (SELECT unnest(a) AS x FROM t) GROUP BY x",
    "joined": "SELECT l.id, r.a, r.m FROM t l JOIN t r ON l.id = r.id",
    "first": "SELECT id, a FROM t ORDER BY id NULLS FIRST, a NULLS FIRST LIMIT 3",
    "distinct": "SELECT DISTINCT a, b FROM t",
    "contains": "SELECT COUNT(*) FROM t WHERE list_contains(a, 2)",
}
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("a", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("s", pa.struct([("x", pa.int32()), ("y z", pa.string())])),
        ("b", pa.binary()),
    ]
)


def random_row(rng):
    number = [None, 0, 1, 2, 3]
    pairs = {key: rng.choice(number) for key in rng.sample("klm", rng.randrange(3))}
    struct = {"x": rng.choice(number), "y z": rng.choice([None, "", "q"])}
    return (
        rng.randrange(4),
        rng.choice([None, [], [rng.choice(number) for _ in range(rng.randrange(3))]]),
        rng.choice([None, list(pairs.items())]),
        rng.choice([None, struct, struct]),
        rng.choice([None, b"", b"a", b"\xff"]),
    )


def plain(value):
    """A value that can be compared: DuckDB gives a map as a dict."""
    if isinstance(value, dict):
        return ("pairs", tuple((key, plain(each)) for key, each in value.items()))
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return plain(dict(value))
    return tuple(map(plain, value)) if isinstance(value, list) else value


def in_duckdb(rows, query):
    columns = list(zip(*rows, strict=True)) or [() for _ in ARROW]
    arrays = [pa.array(list(each), type_) for each, type_ in zip(columns, ARROW.types, strict=True)]
    with duckdb.connect() as connection:
        connection.register("t", pa.Table.from_arrays(arrays, schema=ARROW))
        return connection.sql(query).to_arrow_table().to_pylist()


@pytest.mark.parametrize("seed", range(4))
def test_views_equal_duckdb_under_inserts_and_deletes(seed, uncompiled):
    rng = random.Random(seed)
    rows: list[tuple[object, ...]] = []
    with vm.connect() as mill:
        mill.sql(f"CREATE TABLE t ({COLUMNS.rpartition(', deep')[0]})")
        for name, query in VIEWS.items():
            mill.sql(f"CREATE MATERIALIZED VIEW `{name}` AS {query}")
        for _ in range(6):
            new = [random_row(rng) for _ in range(rng.randrange(5))]
            gone = rng.sample(rows, rng.randrange(len(rows) + 1)) if rng.random() < 0.5 else []
            mill.insert("t", new)
            mill.delete("t", gone)
            rows += new
            for each in gone:
                rows.remove(each)
            for name, query in ORACLE.items():
                expected = [tuple(row.values()) for row in in_duckdb(rows, query)]
                got = mill[name].rows()
                assert sorted(repr([plain(x) for x in row]) for row in got) == sorted(
                    repr([plain(x) for x in row]) for row in expected
                ), name


def test_empty_arrays_and_maps_need_no_type(mill):
    """`array()` is an ARRAY<VOID>, which DuckDB has no name for."""
    mill.sql("INSERT INTO t (id, a, m) VALUES (1, array(), map()), (2, array(NULL), NULL)")
    mill.sql("UPDATE t SET m = map() WHERE id = 2")
    assert mill.sql("SELECT a, m FROM v ORDER BY id").rows() == [([], []), ([None], [])]
    assert mill.sql("SELECT array() AS a, map() AS m, size(array()) AS n").rows() == [([], [], 0)]
    assert mill.sql("SELECT CAST(array() AS ARRAY<STRING>) AS a").rows() == [([],)]
    assert mill["v"].verify() == []


def test_a_zero_in_an_array_has_no_sign(mill, uncompiled):
    """A view was filled with [0.0] twice, and the delete of [-0.0] found no such row."""
    mill.sql("CREATE TABLE z (k INT, a ARRAY<DOUBLE>, m MAP<STRING, STRUCT<x: DOUBLE>>)")
    rows = [(1, [zero, 1.5], {"-0.0": {"x": zero}}) for zero in (0.0, -0.0)]
    mill.insert("z", rows)
    mill.sql("CREATE MATERIALIZED VIEW zeros AS SELECT a, m FROM z WHERE k = 1")
    mill.delete("z", rows[1:])
    assert repr(mill["zeros"].rows()) == repr([([0.0, 1.5], [("-0.0", {"x": 0.0})])])
    assert mill["zeros"].verify() == []
    mill.delete("z", rows[1:])
    assert mill["zeros"].rows() == mill.sql("SELECT * FROM z").rows() == []

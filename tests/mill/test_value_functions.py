"""Functions of bytes, JSON, URLs, zones and text in views: every value here is Spark 4.3's."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

import viewmill as vm
from viewmill.mill.mill import Mill

_COLUMNS = "k INT, s STRING, b BINARY, a ARRAY<INT>, j STRING, st STRUCT<x: INT, y: STRING>"
_ROWS: list[tuple[Any, ...]] = [
    (1, "Ab-1é", b"\x01\x02", [1, 2, None], '{"a":1,"b":[1,2],"d":{"e":1.50}}', {"x": 1, "y": "q"}),
    (2, "b,c:d", b"\xffa", [], "nope", {"x": None, "y": None}),
    (None, None, None, None, None, None),
]
_UTC = "2024-01-01 10:00:00"
# An expression, and what it is for the first row, which the third row's NULLs must not disturb.
_EXPRESSIONS: tuple[tuple[str, Any], ...] = (
    ("hex(b)", "0102"), ("length(b)", 2), ("base64(b)", "AQI="), ("b || X'00'", b"\1\2\0"),
    ("substring(b, -1)", b"\2"), ("left(b, 1)", b"\1"), ("right(b, 1)", "\2"),
    ("lpad(b, 3)", b"\0\1\2"), ("rpad(b, 5, X'41')", b"\1\2AAA"), ("CAST(b AS STRING)", "\1\2"),
    ("unhex('f')", b"\x0f"), ("unhex('g')", None), ("CAST('é' AS BINARY)", b"\xc3\xa9"),
    ("encode('a', 'UTF-16')", b"\xfe\xff\0a"), ("encode('', 'UTF-16')", b""),
    ("decode(X'e282ac', 'utf-8')", "€"), ("is_valid_utf8(b)", True), ("bitmap_count(b)", 2),
    ("mask(s)", "Xx-nx"), ("mask(s, 'Q', NULL, 'd', 'o')", "Qbodé"), ("elt(k, s, 'z')", "Ab-1é"),
    ("instr('abcabc', 'b', -1)", 5), ("instr('abcabc', 'b', 1, 2)", 5),
    ("split(s, '[-1]', 2)", ["Ab", "1é"]), ("split(s, '', 2)", ["A", "b-1é"]),
    ("regexp_extract_all('a1b22', '([a-z])([0-9]+)', 2)", ["1", "22"]),
    ("str_to_map('a:1,b')", [("a", "1"), ("b", None)]), ("getbit(k, 0)", 1),
    ("parse_url('http://u:p@h:80/p?q=1&r=2#f', 'QUERY', 'r')", "2"),
    ("parse_url('http://u:p@h:80/p?q=1#f', 'HOST')", "h"), ("try_parse_url('in va', 'HOST')", None),
    (f"from_utc_timestamp('{_UTC}', 'Asia/Seoul')", dt.datetime(2024, 1, 1, 19)),
    (f"to_utc_timestamp('{_UTC}', 'Europe/Berlin')", dt.datetime(2024, 1, 1, 9)),
    ("make_timestamp(2024, 12, 28, 6, 30, 45, 'CET')", dt.datetime(2024, 12, 28, 5, 30, 45)),
    ("try_make_timestamp(2024, 13, 1, 0, 0, 0)", None), ("try_to_date('x')", None),
    ("unix_timestamp('2016-04-08', 'yyyy-MM-dd')", 1460073600),
    ("to_json(st)", '{"x":1,"y":"q"}'), ("to_json(a)", "[1,2,null]"),
    ("to_json(named_struct('d', DATE'2024-02-29', 'f', 1e20D, 'n', CAST(NULL AS INT)))",
     '{"d":"2024-02-29","f":1.0E20}'),
    ("from_json(j, 'a INT, b ARRAY<INT>, c STRING')", {"a": 1, "b": [1, 2], "c": None}),
    ("from_json(j, 'STRUCT<b: STRING, d: STRING>').d", '{"e":1.5}'),
    ("from_json('{\"a\": 9999999999}', 'a INT')", {"a": None}),
    ("from_json('{\"a\": [1, null, 2.5]}', 'a ARRAY<INT>')", {"a": None}),
    ("from_json('{\"a\":1}', 'ARRAY<STRUCT<a: INT>>')", [{"a": 1}]),
    ("json_array_length('[1,[2,3]]')", 2), ("json_object_keys(j)", ["a", "b", "d"]),
    ("schema_of_json('{\"b\":[1.5,null],\"a\":1}')", "STRUCT<a: BIGINT, b: ARRAY<DOUBLE>>"),
    ("arrays_zip(a, array(7))", [{"a": 1, "1": 7}, {"a": 2, "1": None}, {"a": None, "1": None}]),
    ("array_insert(a, 5, 9)", [1, 2, None, None, 9]), ("array_insert(a, -1, 8)", [1, 2, None, 8]),
    ("asinh(0.0)", 0.0), ("acosh(0.5) <=> CAST('NaN' AS DOUBLE)", True),
    ("ceil(3.1411, 3)", Decimal("3.142")), ("regexp_replace('abcabc', 'b', 'x', 3)", "abcaxc"),
    ("floor(-3.55D, 1)", Decimal("-3.6")), ("ceil(k, -1)", Decimal(10)),
    ("array_append(a, NULL)", [1, 2, None, None]),
    ("array_prepend(a, k)", [1, 1, 2, None]),
    ("map_zip_with(map('a', k), map('b', 2), (i, x, y) -> coalesce(x, y))", [("a", 1), ("b", 2)]),
    ("zip_with(a, array(5), (x, y) -> (y, x))[0]", {"y": 5, "x": 1}),
    ("sequence(k, 3)", [1, 2, 3]), ("typeof(st)", "struct<x:int,y:string>"),
)  # fmt: skip


def _mill() -> Mill:
    mill = vm.connect()
    mill.sql(f"CREATE TABLE t ({_COLUMNS})")
    return mill


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("half", [_EXPRESSIONS[::2], _EXPRESSIONS[1::2]])
def test_functions_of_values_are_kept_up_to_date(half: tuple[tuple[str, Any], ...]) -> None:
    mill = _mill()
    shown = ", ".join(f"{each} AS v{i}" for i, (each, _) in enumerate(half))
    mill.sql(
        f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS SELECT k, {shown} FROM t"
    )
    mill.insert("t", [_ROWS[0], _ROWS[2], _ROWS[0]])
    mill.delete("t", [_ROWS[2], _ROWS[0]])
    [row] = mill["v"].rows()
    wanted = dict(half)
    assert dict(zip(wanted, row[1:], strict=True)) == wanted
    assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
def test_queries_and_inserts_take_bytes_as_they_are_written() -> None:
    mill = _mill()
    mill.sql("INSERT INTO t (k, b) VALUES (1, X'0102'), (2, X'FF61')")
    assert mill.sql("SELECT k FROM t WHERE b = X'ff61'").rows() == [(2,)]
    mill.sql("DELETE FROM t WHERE b = X'0102'")
    assert mill.sql("SELECT k, hex(b) FROM t").rows() == [(2, "FF61")]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT explode(array(1, 2)) AS x", [(1,), (2,)]),
        ("SELECT q.x, k FROM explode(array(1, 2)) AS q(x) JOIN t ON k = q.x", [(1, 1), (2, 2)]),
        ("SELECT id FROM range(2, 9, 3)", [(2,), (5,), (8,)]),
        ("SELECT 1 AS one FROM range(10) HAVING max(id) > 8", [(1,)]),
        ("SELECT r.x FROM range(2) AS r(x) JOIN t ON k = r.x", [(1,)]),
        ("SELECT stack(2, k, s, 7) AS (p, q) FROM t WHERE k = 1", [(1, "Ab-1é"), (7, None)]),
        ("SELECT k, x FROM t LATERAL VIEW json_tuple(j, 'd') q AS x",
         [(1, '{"e":1.5}'), (2, None), (None, None)]),
        ("SELECT st.*, k FROM t", [(1, "q", 1), (None, None, 2), (None, None, None)]),
        ("SELECT q.* FROM (SELECT st AS q FROM t) r WHERE q.x = 1", [(1, "q")]),
    ],
)  # fmt: skip
def test_generators_and_parts_stand_where_spark_has_them(
    query: str, wanted: list[tuple[Any, ...]]
) -> None:
    mill = _mill()
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    mill.insert("t", _ROWS)
    assert sorted(mill["v"].rows(), key=repr) == sorted(wanted, key=repr)
    assert mill["v"].verify() == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT max_by(s, k, 2) FROM t",  # gave one value, not two
        "SELECT percentile(k, 0.5, k) FROM t",  # left the frequency out
    ],
)
def test_an_argument_is_never_left_out_in_silence(query: str) -> None:
    with pytest.raises(vm.UnsupportedQuery, match="with more arguments"):
        _mill().sql(f"CREATE MATERIALIZED VIEW v AS {query}")


@pytest.mark.usefixtures("uncompiled")
def test_rows_meet_by_structs_and_arrays() -> None:
    mill = _mill()
    mill.insert("t", _ROWS)
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT x.k FROM t x JOIN t y ON x.st = y.st AND x.a = y.a"
    )
    assert sorted(mill["v"].rows()) == [(1,), (2,)]

"""VARIANT columns, their paths and functions: every value here is what Spark 4.3 gives."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewmill as vm
from viewmill.deltas.variant_text import of_python, shown, value_of

_EXPRESSIONS: tuple[tuple[str, Any], ...] = (
    ("v", '{"a":1000.0,"b":[1,2.5,null],"c":{"d":"x","e f":true}}'),
    ("v:b[1]::double", 2.5), ("v:c.d::string", "x"), ("v:c['e f']::boolean", True),
    ("variant_get(v, '$.a', 'int')", 1000), ("variant_get(v, '$.a', 'string')", "1000.0"),
    ("try_variant_get(v, '$.c', 'int')", None), ("v:nothing", None), ("v:b[9]", None),
    ("variant_get(v, '$.b', 'array<decimal(3,1)>')", [Decimal("1.0"), Decimal("2.5"), None]),
    ("variant_get(v, '$.c', 'map<string,string>')", [("d", "x"), ("e f", "true")]),
    ("variant_get(v, '$.c', 'struct<d string, q int>')", {"d": "x", "q": None}),
    ("is_variant_null(v:b[2])", True), ("typeof(v)", "variant"),
    ("schema_of_variant(v)",
     "OBJECT<a: DOUBLE, b: ARRAY<DECIMAL(21,1)>, c: OBJECT<d: STRING, `e f`: BOOLEAN>>"),
    ("to_json(v:c)", '{"d":"x","e f":true}'), ("CAST(v:b AS STRING)", "[1,2.5,null]"),
    ("CAST(k AS VARIANT)", "1"),
    ("to_variant_object(named_struct('b', k, 'a', 'q'))", '{"a":"q","b":1}'),
    ("parse_json('5.0')", "5"), ("try_parse_json('nul')", None),
    ("try_parse_json('{\"a\":1,\"a\":2}')", None),
)  # fmt: skip
_TEXT = '{"c": {"e f": true, "d": "x"}, "b": [1, 2.50, null], "a": 1e3}'


@pytest.mark.usefixtures("uncompiled")
def test_functions_of_variants_are_kept_up_to_date() -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE t (k INT, v VARIANT)")
    outputs = ", ".join(f"{each} AS v{i}" for i, (each, _) in enumerate(_EXPRESSIONS))
    mill.sql(
        f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS SELECT {outputs} FROM t"
    )
    mill.insert("t", [(1, _TEXT), (2, {"a": 1}), (3, None)])
    mill.delete("t", [(2, '{"a":1}'), (3, None)])
    [row] = mill["v"].rows()
    wanted = dict(_EXPRESSIONS)
    assert dict(zip(wanted, row, strict=True)) == wanted
    assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
def test_a_variant_is_a_row_for_each_field() -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE t (k INT, v VARIANT)")
    mill.sql(
        "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS"
        " SELECT k, e.* FROM t, LATERAL variant_explode(v) AS e"
    )
    mill.sql("""INSERT INTO t SELECT 1, parse_json('{"b":[1],"a":null}')""")
    mill.insert("t", [(2, ["x"]), (3, "7"), (4, None)])
    rows = sorted(mill["v"].rows())
    assert rows == [(1, 0, "a", "null"), (1, 1, "b", "[1]"), (2, 0, None, '"x"')]


def test_variants_stay_on_disk(tmp_path: Path) -> None:
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql("CREATE TABLE t (k INT, v VARIANT)")
        mill.insert("t", [(1, _TEXT)])
        before = mill.sql("SELECT * FROM t").rows()
    with vm.connect(tmp_path / "m.mill") as mill:
        assert mill.sql("SELECT * FROM t").rows() == before
        mill.delete("t", before)


@pytest.mark.parametrize("text", ["1000.0", "1.0E30", "-0.5", "[1.5,2.0]", '"\\u001F\\n"', "1e400"])
def test_the_text_of_a_variant_is_that_of_the_variant_it_is_read_as(text: str) -> None:
    made = of_python(text)
    assert of_python(made) == made == shown(value_of(made))


def test_what_is_no_json_is_refused_with_its_row() -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE t (k INT, v VARIANT)")
    with pytest.raises(vm.ViewmillError, match="row 1 does not fit"):
        mill.insert("t", [(1, "1"), (2, "{")])
    with pytest.raises(vm.TypeMismatch, match="variant_get needs a VARIANT, got INT") as refused:
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT variant_get(k, '$.a') FROM t")
    assert refused.value.span is not None

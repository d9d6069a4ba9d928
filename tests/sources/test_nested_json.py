"""Arrays, maps and structs in JSON, of files and of messages."""

from __future__ import annotations

import datetime
import json

import pytest

import viewmill as vm
from viewmill.deltas.arrow import arrow_schema
from viewmill.sources.message_formats import Json

CREATE = """CREATE TABLE t (id INT, a ARRAY<DECIMAL(5, 2)>, m MAP<STRING, ARRAY<DATE>>,
    s STRUCT<x: INT, Y: STRUCT<z: BOOLEAN>>) UNCHECKED"""
ROWS = [
    {"id": 1, "a": [1.5, None, "2"], "m": {"k": ["2024-01-01"], "l": None},
     "s": {"x": 1, "y": {"Z": True}, "more": 1}},
    {"id": 2, "a": [], "m": {}, "s": {"x": None}},
    {"id": 3},
]  # fmt: skip
READ = [
    (1, ["1.50", None, "2.00"], {"k": [datetime.date(2024, 1, 1)], "l": None}, 1, True),
    (2, [], {}, None, None),
    (3, None, None, None, None),
]


def shown(mill):
    rows = mill.sql("SELECT id, a, m, s.x, s.Y.z FROM t ORDER BY id").rows()
    return [
        (i, a and [each and str(each) for each in a], m if m is None else dict(m), x, z)
        for i, a, m, x, z in rows
    ]


def test_files_of_json_have_nested_columns(tmp_path, mill):
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    mill.sql(CREATE)
    mill.follow("t", vm.sources.files(tmp_path / "*.jsonl"), background=False)
    assert mill.catch_up()
    assert shown(mill) == READ


def test_messages_have_nested_columns(mill):
    mill.sql(CREATE)
    schema = arrow_schema(mill.core.catalog.table("t").table.schema)
    values = [json.dumps(each).encode() for each in ROWS]
    mill.insert("t", Json().images([None] * 3, values, schema, ()).rows)
    assert shown(mill) == READ


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"a": 1}, "row 2: a: '1' is not an array"), ({"a": "x"}, "a: 'x' is not an array"),
        ({"a": [1.234]}, "a: .*1.234"), ({"m": []}, r"m: \[\] is not an object"),
        ({"s": {"y": {"z": [1]}}}, "not one value"), ({"s": {"x": "one"}}, "s: x cannot be 'one'"),
    ],
)  # fmt: skip
def test_a_value_of_another_shape_is_named_with_its_row(tmp_path, mill, row, said):
    (tmp_path / "a.jsonl").write_text(f'{{"id": 1}}\n{json.dumps(row)}\n')
    mill.sql(CREATE)
    mill.follow("t", vm.sources.files(tmp_path / "*.jsonl"), background=False)
    with pytest.raises(vm.ViewmillError, match=said):
        mill.catch_up()
    assert mill.sql("SELECT * FROM t").rows() == []

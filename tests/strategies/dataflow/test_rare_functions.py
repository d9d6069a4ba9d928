"""Functions that engines lack: by row and in bulk they say what Spark 4.3 was seen to say."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

import viewmill as vm

COLUMNS = "i INT, b BIGINT, d DOUBLE, s STRING, ts TIMESTAMP, x DECIMAL(10,2)"
ROW = (-33, 2**63 - 1, 2.5, "a,b,,c,", dt.datetime(2024, 3, 31, 5, 6, 7), Decimal("0.25"))

SAID = {
    "try_add(b, 1)": None, "try_subtract(b, 1)": 2**63 - 2, "try_multiply(i, 100000000)": None,
    "try_mod(i, 0)": None, "shiftleft(i, 33)": -66, "shiftrightunsigned(i, 1)": 2147483631,
    "b >> 70": 144115188075855871, "i << 3": -264, "bround(d)": 2.0,
    "bround(x, 1)": Decimal("0.2"), "rint(d)": 2.0, "factorial(5)": 120, "factorial(21)": None,
    "width_bucket(d, 0, 10, 5)": 2, "bin(i)": f"{(-33) % 2**64:b}", "conv('ff', 16, 10)": "255",
    "conv(i, 10, -16)": "-21", "crc32('abc')": 891568578, "soundex('Robert Rubin')": "R163",
    "levenshtein('kitten', 'sitting')": 3, "levenshtein('kitten', 'sitting', 2)": -1,
    "format_number(b, 0)": "9,223,372,036,854,775,807", "format_number(x, 1)": "0.2",
    "format_number(12345.675D, 2)": "12,345.67", "space(2)": "  ", "find_in_set('b', s)": 2,
    "overlay('Spark SQL' PLACING 'CORE' FROM 7)": "Spark CORE", "base64('abc')": "YWJj",
    "url_encode('a b&é')": "a+b%26%C3%A9", "url_decode('%41+b')": "A b",
    "luhn_check('4539578763621486')": True, "regexp_count(s, '[a-z]')": 3,
    "regexp_substr(s, 'z')": None, "regexp_instr(s, 'b')": 3, "split(s, ',')[3]": "c",
    "element_at(split(s, ','), -1)": "", "get(split(s, ','), 9)": None,
    "size(split(s, ','))": 5, "array_contains(split(s, ','), 'c')": True,
    "size(split('abc', ''))": 3, "size(split('abc', 'X*'))": 4,
    """get_json_object('{"a": [1, 2.50, {"c": null}]}', '$.a[1]')""": "2.5",
    """get_json_object('{"a": [1, "x"]}', '$.a')""": '[1,"x"]',
    """get_json_object('{"a"', '$.a')""": None,
    "make_timestamp(2024, 2, 29, 1, 2, 3.5)": dt.datetime(2024, 2, 29, 1, 2, 3, 500000),
    "timestampadd(MONTH, -1, ts)": dt.datetime(2024, 2, 29, 5, 6, 7),
    "dateadd(QUARTER, 1, ts)": dt.datetime(2024, 6, 30, 5, 6, 7),
    "timestampdiff(MONTH, ts, TIMESTAMP '2024-02-29 12:00:00')": 0,
    "datediff(YEAR, TIMESTAMP '2020-03-31 05:06:08', ts)": 3,
    "datediff(DAY, ts, TIMESTAMP '2024-04-01 05:00:00')": 0,
    "datediff(TIMESTAMP '2024-04-01 05:00:00', ts)": 1,
}  # fmt: skip


@pytest.mark.parametrize("first", ["rows", "view"])
def test_they_say_what_spark_says(uncompiled, first):
    outputs = ", ".join(f"{text} AS c{n}" for n, text in enumerate(SAID))
    with vm.connect() as mill:
        mill.sql(f"CREATE TABLE t ({COLUMNS})")
        if first == "rows":
            mill.insert("t", [ROW])
        mill.sql(
            "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT"
            f" AS SELECT {outputs} FROM t"
        )
        if first == "view":
            mill.insert("t", [ROW])
        (row,) = mill["v"].rows()
        assert dict(zip(SAID, row, strict=True)) == SAID
        mill.insert("t", [(None,) * 6])
        assert mill["v"].verify() == []


@pytest.mark.parametrize(
    "text", ["split(s, ',')[5]", "element_at(split(s, ','), 0)", "regexp_count(s, '(')"]
)
def test_what_has_no_value_names_the_row_and_changes_nothing(uncompiled, text):
    with vm.connect() as mill:
        mill.sql(f"CREATE TABLE t ({COLUMNS})")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {text} AS x FROM t")
        with pytest.raises(vm.ViewmillError) as caught:
            mill.insert("t", [ROW])
        assert "a,b,,c," in caught.value.detail
        assert mill["v"].rows() == mill.sql("SELECT * FROM t").rows() == []

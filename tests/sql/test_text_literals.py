"""Texts written in SQL reach the engine as they are: line breaks, quotes, backslashes, NUL.

The rows come from Python and are looked for in Python: nothing here reads our rendered SQL.
"""

from __future__ import annotations

import pytest
from tests.sql.lowering import lowered

import viewmill as vm
from viewmill.sql.render import render

ODD = [
    "p\nq", "p\n  q", "(\np\n)", "p\rq", "p\r\nq", "p\x0bq", "p\x0cq", "p\x85q", "p\u2028q",
    "p\u2029q", "p\x1c\x1d\x1eq", "p\x00q", "it's", "''", 'say "x"', "back\\slash", "\\n", "\\",
    "\\'", "`t`", "{0}", "%s", "--p", "/*p*/", "p;q", "\U0001f600", "",
]  # fmt: skip


def quoted(text: str) -> str:
    """The text as Spark SQL reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def table_of(texts):
    mill = vm.connect()
    mill.sql("CREATE TABLE t (c STRING, x INT)")
    mill.insert("t", list(zip(texts, range(len(texts)), strict=True)))
    return mill


def test_a_written_text_finds_its_row_in_queries():
    mill = table_of(ODD)
    finds = [
        f"SELECT x, {i} AS n FROM (SELECT DISTINCT c, x FROM t WHERE c = {quoted(text)})"
        for i, text in enumerate(ODD)
    ]
    found = mill.sql(" UNION ALL ".join(finds)).rows()
    assert sorted(found) == [(i, i) for i in range(len(ODD))]


def test_a_written_text_finds_its_row_in_views():
    mill = table_of(ODD)
    number = " ".join(f"WHEN {quoted(text)} THEN {i}" for i, text in enumerate(ODD))
    find = f"SELECT x, CASE c {number} END AS n FROM t WHERE c IN ({', '.join(map(quoted, ODD))})"
    mill.sql(f"CREATE MATERIALIZED VIEW found AS {find}")
    mill.sql(
        f"CREATE MATERIALIZED VIEW ranked AS SELECT *, max(x) OVER (ORDER BY x) AS m FROM ({find})"
    )
    mill.delete("t", [(ODD[0], 0)])
    mill.insert("t", [(text, 100 + i) for i, text in enumerate(ODD)])
    rows = [(x, x % 100) for x in (*range(1, len(ODD)), *range(100, 100 + len(ODD)))]
    assert sorted(mill["found"].rows()) == rows
    assert sorted(mill["ranked"].rows()) == [(x, n, x) for x, n in rows]
    assert mill["found"].verify() == mill["ranked"].verify() == []


def test_insert_update_and_delete_take_a_written_text_as_it_is():
    mill = table_of([])
    for i, text in enumerate(ODD):
        mill.sql(f"INSERT INTO t VALUES ({quoted(text)}, {i})")
    everything = list(enumerate(ODD))
    assert sorted(mill.sql("SELECT x, c FROM t").rows()) == everything
    for i, text in enumerate(ODD[:9]):
        mill.sql(f"UPDATE t SET x = {100 + i} WHERE c = {quoted(text)}")
        mill.sql(f"DELETE FROM t WHERE c = {quoted(text)} AND x = {100 + i}")
    assert sorted(mill.sql("SELECT x, c FROM t").rows()) == everything[9:]


@pytest.mark.parametrize("text", ODD)
def test_an_indented_subquery_keeps_its_texts_for_spark(text):
    query = f"SELECT n FROM (SELECT DISTINCT id AS n, {quoted(text)} AS c FROM lines) a"
    assert quoted(text) in render(lowered(query), "spark")


def test_a_line_break_in_a_name_stays_in_the_name():
    mill = table_of(["a"])
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT `p\nq` AS `r\n\ns` FROM (SELECT x AS `p\nq` FROM t)"
    )
    assert mill["v"].to_arrow().column_names == ["r\n\ns"]
    assert mill.sql("SELECT `r\n\ns` + 1 AS z FROM (SELECT DISTINCT * FROM v)").rows() == [(1,)]


FIELDS = [
    "a b", "a:b", "a,b", "a>", "x INT, y", "'", '"', "`", "a``b", "\\", "--", "/*", "select", "end",
    "1", "p\nq", "x': (SELECT 99), 'y",
]  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
def test_the_name_of_a_field_is_no_part_of_a_type(field):
    """It was written into the name of the type as it is, and read from there as SQL."""
    name = "`" + field.replace("`", "``") + "`"
    mill = table_of(["a"])
    mill.sql(f"CREATE MATERIALIZED VIEW made AS SELECT named_struct({quoted(field)}, c, 'n', x) "
             f"AS s, array(struct(x AS {name})) AS l FROM t")  # fmt: skip
    mill.sql(f"CREATE MATERIALIZED VIEW taken AS SELECT s.{name} AS c, s.n AS n FROM made")
    mill.insert("t", [("b", 1)])
    wanted = [({field: c, "n": x}, [{field: x}]) for c, x in (("a", 0), ("b", 1))]
    assert sorted(mill["made"].rows(), key=repr) == wanted
    assert sorted(mill["taken"].rows()) == [("a", 0), ("b", 1)]


@pytest.mark.parametrize("field", ["", "p\0q"])
def test_what_the_engine_cannot_name_a_field_is_refused(field):
    """The field came back under another name, and NULL."""
    with pytest.raises(vm.InvalidArgument, match="field"):
        table_of(["a"]).sql(f"SELECT named_struct({quoted(field)}, c, 'n', x) AS s FROM t")


def test_the_name_of_a_lateral_view_is_no_sql():
    query = "SELECT {0}.y FROM t LATERAL VIEW explode(array(1)) {0} AS y"
    mill = table_of(["a"])
    for name in ("`a,b`", "`q AS z LATERAL VIEW explode(array(77)) w`", "`select`", "e"):
        assert mill.sql(query.format(name)).rows() == [(1,)]


@pytest.mark.parametrize(
    "text", ["7 day or so", "about 7 day", "1' + (SELECT 7 day)", "3 days ago"]
)
def test_all_of_the_text_of_an_interval_is_read(text):
    """Seven days were found in it, and the rest was left out."""
    with pytest.raises(vm.MalformedSQL, match="no interval"):
        table_of(["a"]).sql(f"SELECT DATE '2024-01-01' + INTERVAL {quoted(text)} AS d FROM t")


def test_an_interval_has_its_sign_in_the_text():
    signs = {"+7 days": 8, " 7  DAYS ": 8, "- 1 day": 31}
    for text, day in signs.items():
        found = table_of(["a"]).sql(
            f"SELECT day(DATE '2024-01-01' + INTERVAL '{text}') AS d FROM t"
        )
        assert found.rows() == [(day,)]

"""Table suffixes are read, kept and placed; what has no meaning yet is refused with its span.

Operators have Spark's ranks.
"""

from typing import Any

import pytest
from sqlglot import exp, parse_one

from viewmill.errors import MalformedSQL, UnsupportedQuery
from viewmill.sql.dialect import (
    PartRangeSuffix,
    PartSuffix,
    PlainSpark,
    Viewmill,
    WindowSuffix,
    parse_tokens,
    reject_future_syntax,
    suffixes_of,
    tokenize,
)
from viewmill.sql.parse_match import PatternSuffix
from viewmill.sql.spans import span_of
from viewmill.sql.transpile import transpile


def tree_of(sql: str) -> exp.Expr:
    return parse_tokens(tokenize(sql), sql)


def table_of(sql: str) -> exp.Table:
    table = tree_of(sql).find(exp.Table)
    assert table is not None
    return table


def only_suffix(sql: str) -> Any:
    [suffix] = suffixes_of(table_of(sql))
    return suffix


def test_a_time_window_is_kept_in_microseconds() -> None:
    suffix = only_suffix("SELECT * FROM s [WINDOW 10 MINUTES SLIDE 1 MINUTE]")
    assert isinstance(suffix, WindowSuffix)
    assert suffix.args == {"unit": "time", "size": 600_000_000, "slide": 60_000_000}


def test_a_row_window_is_kept_in_rows() -> None:
    suffix = only_suffix("SELECT * FROM s [WINDOW 100 ROWS SLIDE 10 ROWS] WHERE a > 1")
    assert suffix.args == {"unit": "rows", "size": 100, "slide": 10}


def test_a_subscript_is_an_expression() -> None:
    suffix = only_suffix("SELECT * FROM m[i-1]")
    assert isinstance(suffix, PartSuffix)
    assert suffix.this.sql() == "i - 1"


@pytest.mark.parametrize(
    ("subscript", "low", "high"),
    [
        ("a..b", "a", "b"),
        ("1..i", "1", "i"),
        ("1..60", "1", "60"),
        ("i-5..i", "i - 5", "i"),
        ("i*60-59..i*60", "i * 60 - 59", "i * 60"),
        ("i*60-59 .. i*60", "i * 60 - 59", "i * 60"),
        ("23667840..23667841", "23667840", "23667841"),
    ],
)
def test_both_ends_of_a_range_are_read(subscript: str, low: str, high: str) -> None:
    suffix = only_suffix(f"SELECT * FROM m[{subscript}]")
    assert isinstance(suffix, PartRangeSuffix)
    assert (suffix.this.sql(), suffix.expression.sql()) == (low, high)


@pytest.mark.parametrize(
    "suffix",
    ["[a..b]", "[1..i]", "[i-1]", " [WINDOW 10 MINUTES SLIDE 1 MINUTE]", " PATTERN [a, b+]"],
)
@pytest.mark.parametrize("alias", [" t", " AS t"])
def test_a_table_keeps_its_alias_after_a_suffix(suffix: str, alias: str) -> None:
    table = table_of(f"SELECT t.x FROM m{suffix}{alias} WHERE t.x > 1")
    assert (table.name, table.alias) == ("m", "t")
    assert len(suffixes_of(table)) == 1


def test_every_table_of_a_join_keeps_its_own_suffix() -> None:
    tree = tree_of("SELECT * FROM m[j] AS New LEFT OUTER JOIN Helper[j-1] AS Prev ON a = b, n[1] x")
    found = [(each.alias, suffixes_of(each)[0].this.sql()) for each in tree.find_all(exp.Table)]
    assert sorted(found) == [("New", "j"), ("Prev", "j - 1"), ("x", "1")]


def test_natural_join_is_not_an_alias_of_a_suffixed_table() -> None:
    tree = tree_of("SELECT * FROM m[i] NATURAL JOIN n[i]")
    assert [each.alias for each in tree.find_all(exp.Table)] == ["", ""]


def test_a_pattern_knows_which_variable_repeats() -> None:
    suffix = only_suffix("SELECT src FROM M PATTERN [a, b, c, d+] WHERE a.loss > 10 GROUP BY src")
    assert isinstance(suffix, PatternSuffix)
    variables = [(each.name, each.args["plus"]) for each in suffix.expressions]
    assert variables == [("a", False), ("b", False), ("c", False), ("d", True)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM s [WINDOW 10 MINUTES SLIDE 1 MINUTE] AS w",
        "SELECT * FROM s [WINDOW 100 ROWS SLIDE 10 ROWS]",
        "SELECT * FROM m[i - 1] AS t",
        "SELECT * FROM m[i * 60 - 59 .. i * 60] AS t",
        "SELECT * FROM m PATTERN [a, b+] WHERE a.x > 1",
    ],
)
def test_suffixes_are_written_back(sql: str) -> None:
    assert tree_of(sql).sql(Viewmill) == sql


def test_a_column_subscript_is_still_an_array_element() -> None:
    tree = tree_of("SELECT xs[0], m['k'] FROM t")
    assert len(list(tree.find_all(exp.Bracket))) == 2
    assert not list(tree.find_all(PartSuffix))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM t GROUP BY window(ts, '10 minutes', '1 minute'), k",
        "SELECT count(*) FROM t GROUP BY k, window(ts, '10 minutes', '1 minute')",
        "SELECT window, count(*) FROM t GROUP BY window(ts, '1 minute') HAVING count(*) > 1",
        "SELECT window.start, count(*) FROM t GROUP BY window(ts, '1 minute') ORDER BY window",
    ],
)
def test_window_in_group_by_is_a_function(sql: str) -> None:
    group = tree_of(sql).args["group"]
    assert "window" in [each.name.lower() for each in group.find_all(exp.Anonymous)]


def test_a_named_window_is_still_a_window_clause() -> None:
    tree = tree_of("SELECT sum(a) OVER w FROM t GROUP BY a WINDOW w AS (ORDER BY a)")
    assert tree.args["windows"]
    assert tree.find(exp.Table).alias == ""


@pytest.mark.parametrize(
    ("sql", "text", "hint"),
    [
        ("SELECT 1 FROM a JOIN m[i-1] t ON a.x = t.x", "[i-1]", "temporal view"),
        ("SELECT 1 FROM m[1..i]", "[1..i]", "temporal view"),
        (
            "SELECT 1 FROM (SELECT * FROM m PATTERN [a, b+]) x",
            "PATTERN [a, b+]",
            "MATERIALIZED VIEW",
        ),
        ("SELECT * FROM STREAM t", "STREAM t", "leave STREAM out"),
        ("SELECT * FROM STREAM(t)", "STREAM(t)", "leave STREAM out"),
        ("SELECT 1 FROM a WHERE x IN (SELECT y FROM STREAM t AS u)", "STREAM t AS u", "STREAM"),
    ],
)
def test_syntax_without_meaning_is_refused_where_it_stands(sql: str, text: str, hint: str) -> None:
    with pytest.raises(UnsupportedQuery) as caught:
        reject_future_syntax(tree_of(sql), sql)
    assert caught.value.span is not None
    assert caught.value.span.text == text
    assert hint in caught.value.hint


def test_match_recognize_is_refused_from_its_first_to_its_last_character() -> None:
    match = (
        "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS first_x "
        "PATTERN (A B+) DEFINE B AS B.x > PREV(B.x))"
    )
    sql = f"SELECT * FROM t {match} WHERE first_x > 1"
    with pytest.raises(UnsupportedQuery) as caught:
        reject_future_syntax(tree_of(sql), sql)
    assert caught.value.span is not None
    assert caught.value.span.text == match


def test_plain_queries_are_not_refused() -> None:
    sql = "SELECT xs[0], window(ts, '1 minute') FROM t JOIN stream ON a = b"
    reject_future_syntax(tree_of(sql), sql)


def test_a_table_named_stream_is_a_table() -> None:
    assert table_of("SELECT * FROM `stream` s").name == "stream"
    assert table_of("SELECT * FROM stream").name == "stream"


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT * FROM s [WINDOW 10 PARSECS SLIDE 1 MINUTE]", "PARSECS"),
        ("SELECT * FROM s [WINDOW 10 MINUTES SLIDE 1 ROWS]", "ROWS"),
        ("SELECT * FROM s [WINDOW 0 ROWS SLIDE 1 ROWS]", "0"),
        ("SELECT * FROM s [WINDOW 10 ROWS]", "]"),
        ("SELECT * FROM s [WINDOW 1.5 ROWS SLIDE 1 ROWS]", "ROWS"),
        ("SELECT * FROM m[] t", "]"),
        ("SELECT * FROM m[a..] t", "]"),
        ("SELECT * FROM m[a b] t", "b"),
        ("SELECT * FROM m PATTERN [a, ] t", "]"),
        ("SELECT * FROM m PATTERN [a b]", "b"),
        ("SELECT a..b FROM t", ".."),
    ],
)
def test_a_broken_suffix_is_underlined(sql: str, text: str) -> None:
    with pytest.raises(MalformedSQL) as caught:
        tree_of(sql)
    assert caught.value.span is not None
    assert caught.value.span.text == text


def test_numbers_with_a_point_stay_whole() -> None:
    assert [token.text for token in tokenize("1.5 2. t.c 3.")] == ["1.5", "2.", "t", ".", "c", "3."]


def test_a_range_has_the_offsets_of_its_text() -> None:
    sql = "m[59..i]"
    assert [sql[each.start : each.end + 1] for each in tokenize(sql)] == [
        "m", "[", "59", "..", "i", "]",
    ]  # fmt: skip


def test_a_span_reaches_from_the_first_to_the_last_name_below() -> None:
    sql = "SELECT a.x + sum(b.y) AS total FROM t"
    addition = tree_of(sql).find(exp.Add)
    assert addition is not None
    span = span_of(addition, sql)
    assert span is not None
    assert span.text == "a.x + sum(b.y"
    assert span_of(exp.column("made_up"), sql) is None


def test_spans_hold_in_a_later_statement() -> None:
    sql = "SELECT 1;\nSELECT name FROM t"
    tokens = tokenize(sql)
    column = parse_tokens(tokens[3:], sql).find(exp.Column)
    assert column is not None
    span = span_of(column, sql)
    assert span is not None
    assert span.text == "name"


RANKS = [
    ("a | b << c", "a | (b << c)"),
    ("a & b ^ c | d", "((a & b) ^ c) | d"),
    ("a | b ^ c & d >> e + f", "a | (b ^ (c & (d >> (e + f))))"),
    ("a << b >> c", "(a << b) >> c"),
    ("a || b + c", "(a || b) + c"),
    ("a & b = c", "(a & b) = c"),
    ("a >>> b + c", "shiftrightunsigned(a, b + c)"),
]


@pytest.mark.parametrize(("written", "meant"), RANKS)
def test_operators_bind_as_in_spark(written: str, meant: str) -> None:
    for dialect in (Viewmill, PlainSpark):
        trees = [parse_one(f"SELECT {text}", read=dialect) for text in (written, meant)]
        for each in [each for tree in trees for each in tree.find_all(exp.Paren)]:
            each.replace(each.this)
        assert trees[0] == trees[1]


def test_duckdb_is_given_parentheses() -> None:
    text = "SELECT 1 | 2 << 3, ~5 + 1, 'a' || 'b' || 'c', 'a' || (1 | 2 & b)"
    assert transpile(text, "duckdb", str) == (
        "SELECT 1 | (2 << 3), (~5) + 1, 'a' || 'b' || 'c', 'a' || (1 | (2 & b))"
    )


def test_functions_by_way_of_python_are_so_in_any_query() -> None:
    text = "SELECT get_json_object(s, '$.a[*].b'), soundex(url_encode(s)) FROM t"
    assert transpile(text, "duckdb", str) == (
        "SELECT SPARK_GET_JSON_OBJECT_2(s, '$.a[*].b'),"
        ' SPARK_SOUNDEX_1(SPARK_URL_ENCODE_1(s)) FROM "t"'
    )

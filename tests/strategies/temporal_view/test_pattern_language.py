"""What of SQL's row patterns is taken, and that the rest is refused where it stands."""

from __future__ import annotations

import pytest
from tests.strategies.temporal_view.streams import stamped

import viewmill as vm

TABLE = (
    "CREATE TABLE m (ts TIMESTAMP, g STRING, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60;"
    "CREATE MATERIALIZED VIEW v AS "
)
MATCH = {
    "partition": "PARTITION BY g", "order": "ORDER BY ts", "measures": "MEASURES a.x AS q",
    "rows": "", "after": "", "pattern": "PATTERN (a b+)", "behind": "",
    "define": "DEFINE b AS x > PREV(x)",
}  # fmt: skip


def match_recognize(table: str = "m", beside: str = "", **clauses: str) -> str:
    return (
        f"SELECT * FROM {table} MATCH_RECOGNIZE ({' '.join((MATCH | clauses).values())}) {beside}"
    )


def pattern(
    shown: str = "g, count(*) AS n",
    variables: str = "a, b+",
    where: str = "b.x > PREV(b.x)",
    beside: str = "GROUP BY g",
    table: str = "m",
) -> str:
    return f"SELECT {shown} FROM {table} PATTERN [{variables}] WHERE {where} {beside}"


@pytest.mark.parametrize(
    ("measures", "shown"),
    [
        ("LAST(b.x, 1) AS q", 5),
        ("LAST(b.x, 0) AS q", 6),
        ("LAST(b.x, 2) AS q", 4),
        ("LAST(b.x, 3) AS q", None),
        ("FIRST(b.x, 1) AS q", 5),
        ("FIRST(b.x, 3) AS q", None),
        ("FIRST(x, 1) AS q", 4),
        ("LAST(x, 3) AS q", 3),
        ("LAST(a.x, 1) AS q", None),
        ("FINAL LAST(b.x, 1) - FIRST(b.x, 1) AS q", 0),
        ("RUNNING COUNT(b.*) AS q", 3),
    ],
)
def test_measures_honour_their_offsets(measures, shown, uncompiled):
    mill = vm.connect()
    mill.sql(TABLE + match_recognize(measures=f"MEASURES {measures}"))
    mill.insert("m", stamped([(i, "ann", x) for i, x in enumerate([3, 4, 5, 6])]))
    assert mill["v"].rows() == [("ann", shown)]
    assert mill["v"].verify() == []


REFUSED = {
    "quantified anchor": (match_recognize(pattern="PATTERN (^+ a b)"), "^+"),
    "two quantifiers": (match_recognize(pattern="PATTERN (a b+*)"), "b+*"),
    "from large to small": (match_recognize(pattern="PATTERN (a b{3,2})"), "{3,2}"),
    "too many": (match_recognize(pattern="PATTERN (a b{2,20000})"), "{2,20000}"),
    "dot": (match_recognize(pattern="PATTERN (a . b)"), "."),
    "permute of many": (
        match_recognize(pattern="PATTERN (a b PERMUTE(c, d, e, f, h, i, j, k))"),
        "PERMUTE(c, d, e, f, h, i, j, k)",
    ),
    "skip to nothing": (
        match_recognize(after="AFTER MATCH SKIP TO"), "AFTER MATCH SKIP TO PATTERN",
    ),
    "skip to another": (match_recognize(after="AFTER MATCH SKIP TO FIRST z"), "z"),
    "subset of another": (match_recognize(behind="SUBSET u = (a, z)"), "z"),
    "subset like a variable": (match_recognize(behind="SUBSET a = (a, b)"), "a = (a, b)"),
    "within months": (
        match_recognize(behind="WITHIN INTERVAL '1' MONTH"), "INTERVAL '1' MONTH",
    ),
    "defined but not there": (match_recognize(define="DEFINE z AS x > 1"), "z AS x > 1"),
    "final in define": (
        match_recognize(define="DEFINE b AS x > FINAL LAST(a.x)"), "FINAL LAST(a.x)",
    ),
    "seek": (match_recognize(after="SEEK"), "SEEK"),
    "order by another": (match_recognize(order="ORDER BY g"), "g"),
    "prev of prev": (match_recognize(define="DEFINE b AS x > PREV(PREV(x))"), "PREV(PREV(x))"),
    "offset of a column": (match_recognize(measures="MEASURES LAST(b.x, x) AS q"), "LAST(b.x, x)"),
    "ignore nulls": (match_recognize(measures="MEASURES LAST(b.x, TRUE) AS q"), "LAST(b.x"),
    "distinct": (match_recognize(measures="MEASURES SUM(DISTINCT x) AS q"), "SUM(DISTINCT x"),
    "filter": (
        match_recognize(measures="MEASURES SUM(x) FILTER (WHERE x > 1) AS q"),
        "SUM(x) FILTER (WHERE x > 1",
    ),
    "over": (match_recognize(measures="MEASURES SUM(x) OVER () AS q"), "SUM(x) OVER ("),
    "two arguments": (match_recognize(measures="MEASURES COUNT(a.x, b.x) AS q"), "COUNT(a.x, b.x"),
    "two variables": (match_recognize(measures="MEASURES LAST(a.x + b.x) AS q"), "LAST(a.x + b.x"),
    "sum of text": (match_recognize(measures="MEASURES SUM(b.g) AS q"), "SUM(b.g"),
    "limit": (match_recognize(beside="LIMIT 3"), "3"),
    "sample": (match_recognize(table="m TABLESAMPLE (10 PERCENT)"), "m TABLESAMPLE (10 PERCENT"),
    "window": (match_recognize(table="m [WINDOW 1 MINUTE]"), "m [WINDOW 1 MINUTE]"),
    "offset in PATTERN": (pattern("g, first(x, 1) AS q"), "first(x, 1"),
    "ignore nulls in PATTERN": (pattern("g, last(x, true) AS q"), "last(x"),
    "star in PATTERN": (pattern("*"), "*"),
    "quantifier in PATTERN": (pattern(variables="a, b*"), "*"),
    "limit in PATTERN": (pattern(beside="GROUP BY g LIMIT 1"), "1"),
    "offset clause in PATTERN": (pattern(beside="GROUP BY g OFFSET 1"), "1"),
    "part in PATTERN": (pattern(table="m[1]"), "m[1]"),
    "group by of another": (pattern(beside="GROUP BY z.g"), "z.g"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_taken_is_refused_where_it_stands(name):
    query, underlined = REFUSED[name]
    with pytest.raises(vm.ViewmillError) as refused:
        vm.connect().sql(TABLE + query)
    span = refused.value.span
    assert span is not None
    assert span.text in underlined or underlined in span.text
    assert len(span.text) < len(underlined) + 20
    assert refused.value.hint

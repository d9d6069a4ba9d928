"""Columns may be called as what states add beside them, and as what generated lines use."""

from __future__ import annotations

import random

import pytest

import viewmill as vm
from viewmill.codegen.source import Source
from viewmill.kernels import plain, structures

TABLES = "WITH t AS (SELECT * FROM t0), u AS (SELECT * FROM u0) "
COMPUTED = (
    "WITH t AS (SELECT `B` + 0 AS `A`, `A` + 0 AS `B` FROM t0), "
    "u AS (SELECT `B` AS `A`, count(*) AS `B` FROM u0 GROUP BY `B`) "
)
# `A` and `B` stand for the names.
QUERIES = {
    "kept": "SELECT `A`, `B` FROM t WHERE `A` > 0",
    "first_rows": "SELECT * FROM t ORDER BY `A` DESC LIMIT 2",
    "later_rows": "SELECT `B`, `A` FROM t ORDER BY `B`, `A` DESC LIMIT 3 OFFSET 1",
    "first_groups": "SELECT `A`, sum(`B`) AS `B` FROM t GROUP BY `A` ORDER BY `B`, `A` LIMIT 2",
    "different": "SELECT DISTINCT `A`, `B` FROM t",
    "swapped": "SELECT `A` AS `B`, sum(`B`) AS `A` FROM t GROUP BY `A` HAVING count(*) > 1",
    "total": "SELECT count(*) AS `A`, sum(`B`) AS `B` FROM t",
    "extremes": "SELECT `A`, min(`B`) AS `B`, count(DISTINCT `B`) AS z FROM t GROUP BY `A`",
    "middle": "SELECT `A`, median(`B`) AS `B`, stddev(`B`) AS z FROM t GROUP BY `A`",
    "joined": "SELECT t.`A`, u.`B` FROM t JOIN u ON t.`A` = u.`A`",
    "computed_keys": "SELECT t.`A`, t.`B`, u.`A` AS z FROM t JOIN u ON t.`A` + 1 = u.`A` + u.`B`",
    "padded": "SELECT t.`A`, t.`B`, u.`A` AS y, u.`B` AS z FROM t FULL JOIN u ON t.`A` = u.`A` + 0",
    "met": "SELECT `A`, `B` FROM t WHERE `A` IN (SELECT `B` FROM u) OR `B` > 2",
    "not_met": "SELECT `A`, `B` FROM t WHERE `A` NOT IN (SELECT `A` FROM u WHERE `A` = t.`A`)",
    "asked": "SELECT `A`, (SELECT max(u.`B`) FROM u WHERE u.`A` = t.`A`) AS `B` FROM t",
    "joined_sums": "SELECT `A`, sum(t.`B` * u.`B`) AS `B` FROM t JOIN u USING (`A`) GROUP BY `A`",
    "joined_total": "SELECT sum(t.`B` * u.`B`) AS `A`, count(*) AS `B` FROM t JOIN u USING (`A`)",
    "both": "SELECT `A`, `B` FROM t UNION SELECT `B`, `A` FROM u",
    "without": "SELECT `A`, `B` FROM t EXCEPT ALL SELECT `A`, `B` FROM u",
    "common": "SELECT `A`, `B` FROM t INTERSECT SELECT `A`, `B` FROM u",
    "rolled_up": "SELECT `A`, `B`, count(*) AS z FROM t GROUP BY ROLLUP (`A`, `B`)",
    "chosen": "SELECT `A`, max_by(`B`, `A`) AS `B` FROM t GROUP BY `A`",
    "windows": "SELECT `A`, lag(`B` + 1) OVER (PARTITION BY `A` + 1 ORDER BY -`B`) AS `B` FROM t",
    "ranks": "SELECT `A`, `B` FROM t QUALIFY rank() OVER (PARTITION BY `A` ORDER BY `B`) <= 2",
    "nested": (
        "SELECT sum(t.`B`) AS `B` FROM t WHERE 0.5 * (SELECT sum(x.`A`) FROM t x) < "
        "(SELECT sum(y.`A`) FROM t y WHERE y.`B` <= t.`B`)"
    ),
    "by_row": "SELECT reverse(cast(`A` AS STRING)) AS `A`, `B` FROM t",
}
NAMES = [
    ("rows", "count"),
    ("#count", "mark"),
    ("#RANK", "#Left"),
    ("key0", "#right"),
    ("present", "keys"),
    ("#one", "#value"),
    ("exceeds_cache", "linked_find"),
    ("a:b", "v.c"),
]
Rows = list[tuple[int | None, ...]]


def rows(source: random.Random, count: int) -> Rows:
    values = [None, 0, 1, 2, 3]
    return [(source.choice(values), source.choice(values)) for _ in range(count)]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("names", NAMES, ids=" ".join)
@pytest.mark.parametrize("tables", [TABLES, COMPUTED], ids=["tables", "computed"])
def test_views_of_any_column_names_equal_recompute(
    mill: vm.Mill, names: tuple[str, str], tables: str
) -> None:
    """`SELECT DISTINCT a, rows` counted wrongly, ORDER BY `#count` LIMIT 2 showed a row twice, and
    a column `count` behind a join became the number of rows."""
    source = random.Random(5)
    first, second = (f"`{name}`" for name in names)
    held: dict[str, Rows] = {"t0": rows(source, 8), "u0": rows(source, 8)}
    for table, live in held.items():
        mill.sql(f"CREATE TABLE {table} ({first} INT, {second} INT)")
        mill.insert(table, live)
    for view, sql in QUERIES.items():
        named = (tables + sql).replace("`A`", first).replace("`B`", second)
        mill.sql(f"CREATE MATERIALIZED VIEW {view} REFRESH POLICY INCREMENTAL STRICT AS {named}")
        assert mill[view].verify() == [], f"{view}, as it was filled"
    for _ in range(2):
        with mill.batch():
            for table, live in held.items():
                coming = rows(source, 4)
                mill.insert(table, coming)
                mill.delete(table, live[:3])
                live[:3] = coming
        for view in QUERIES:
            assert mill[view].verify() == [], view


def test_no_column_takes_the_name_of_what_generated_lines_call() -> None:
    called = {*structures.__all__, *plain.__all__}
    assert [name for name in called if Source().name(name) == name] == []

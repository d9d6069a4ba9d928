"""MIN, MAX and DISTINCT aggregates stand beside sums over a join, and the join is not listed."""

from __future__ import annotations

import random
from collections import defaultdict
from decimal import Decimal

import pytest

import viewmill as vm

TABLES = (
    "CREATE TABLE r (a INT, b INT, x INT, u STRING);"
    "CREATE TABLE s (b INT, c INT, y DOUBLE, p DECIMAL(9, 2), q DECIMAL(38, 2))"
)
SHOWN = (
    "MIN(x) AS lo, MAX(u) AS up, MAX(y) - MIN(y) AS wide, COUNT(DISTINCT u) AS n, MAX(p) AS p,"
    " MAX(x) FILTER (WHERE u = 'k') AS hi, COUNT(*) AS rows, SUM(y) AS total"
)
JOIN = "FROM r JOIN s USING (b)"


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def row_of(rng, table):
    if table == "r":
        return (rng.choice([1, None]), rng.randint(1, 3), rng.choice([None, -2, 4, 9]),
                rng.choice(["k", "m", None]))  # fmt: skip
    return (rng.randint(1, 3), rng.randint(1, 2), rng.choice([None, -0.5, 2.25]),
            rng.choice([None, Decimal("7.25"), Decimal("-1.50")]), None)  # fmt: skip


def expected(held, *, is_grouped):
    groups: dict[object, list[tuple[object, ...]]] = defaultdict(list)
    if not is_grouped:
        groups[None] = []
    for a, b, x, u in held["r"]:
        for other, _, y, p, _ in held["s"]:
            if b == other:
                groups[a if is_grouped else None].append((x, u, y, p))
    return {key: _shown(rows) for key, rows in groups.items()}


def _shown(rows):
    xs, us, ys, ps = ([row[i] for row in rows if row[i] is not None] for i in range(4))
    chosen = [x for x, u, _, _ in rows if u == "k" and x is not None]
    return (
        min(xs, default=None), max(us, default=None), max(ys) - min(ys) if ys else None,
        len(set(us)), max(ps, default=None), max(chosen, default=None), len(rows),
        sum(ys) if ys else None,
    )  # fmt: skip


@pytest.mark.parametrize("is_grouped", [True, False])
def test_they_are_what_the_joined_rows_give(is_grouped):
    rng = random.Random(11)
    held: dict[str, list[object]] = {"r": [], "s": []}
    with vm.connect() as mill:
        mill.sql(TABLES)
        keys, by = ("a, ", " GROUP BY a") if is_grouped else ("", "")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {keys}{SHOWN} {JOIN}{by}")
        assert "view_tree" in mill["v"].status()["strategy"]
        calls = mill["v"].status()["engine_calls"]
        for _ in range(25):
            change(mill, rng, held)
            rows = mill["v"].rows()
            got = {row[0]: row[1:] for row in rows} if is_grouped else {None: rows[0]}
            assert got == expected(held, is_grouped=is_grouped)
        assert mill["v"].status()["engine_calls"] == calls
        assert mill["v"].verify() == []


def change(mill, rng, held):
    with mill.batch():
        for _ in range(rng.choice([1, 3])):
            table = rng.choice("rs")
            if held[table] and rng.random() < 0.45:
                mill.delete(table, [held[table].pop(rng.randrange(len(held[table])))])
            else:
                held[table].append(row_of(rng, table))
                mill.insert(table, held[table][-1:])


def test_no_block_lists_the_join():
    with vm.connect() as mill:
        mill.sql(TABLES)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a, {SHOWN} {JOIN} GROUP BY a")
        shown = mill["v"].explain()
        blocks = [each.split("\n")[0].split()[0] for each in shown.split("├─ block")[1:]]
        assert blocks == ["view_tree", "dataflow", "view_tree", "dataflow", "view_tree"]


def test_an_argument_over_two_tables_leaves_the_query_as_it_was():
    with vm.connect() as mill:
        mill.sql(TABLES)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a, MAX(x + y), COUNT(*) {JOIN} GROUP BY a")
        assert mill["v"].status()["strategy"] == "dataflow"


def test_decimals_wider_than_a_word_are_no_values_beside():
    """They were added up as words, which overflowed; beside a cofactor, too."""
    largest = Decimal("99999999999999999999.25")
    with vm.connect() as mill:
        mill.sql(TABLES)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a, MAX(q), SUM(x) {JOIN} GROUP BY a")
        mill.sql(f"CREATE MATERIALIZED VIEW w AS SELECT a, MAX(q), cofactor(x) {JOIN} GROUP BY a")
        mill.insert("r", [(1, 1, 4, "k")])
        mill.insert("s", [(1, 1, None, None, largest), (1, 1, None, None, Decimal(-1))])
        assert mill["v"].rows() == [(1, largest, 8)]
        assert mill["w"].rows()[0][:2] == (1, largest)


def test_rows_that_were_there_before_the_view_count_after_a_reopen(tmp_path):
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(TABLES)
        mill.insert("r", [(1, 1, 4, "k"), (1, 1, 9, "m")])
        mill.insert("s", [(1, 1, 2.25, None, None)])
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a, MAX(x), SUM(y) {JOIN} GROUP BY a")
        assert mill["v"].rows() == [(1, 9, 4.5)]
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.delete("r", [(1, 1, 9, "m")])
        assert mill["v"].rows() == [(1, 4, 2.25)]


def test_they_stand_below_what_reads_them_when_a_view_is_filled():
    """A window function over such a group-by: its states are filled by the engine."""
    mill = vm.connect()
    mill.sql(TABLES)
    mill.insert("r", [(1, 1, 4, "k"), (1, 1, None, "m"), (2, 1, 9, None)])
    mill.insert("s", [(1, 1, 0.5, None, None)])
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT *, LAG(lo) OVER (ORDER BY a) AS before"
        f" FROM (SELECT a, MIN(x) AS lo, COUNT(*) AS n {JOIN} GROUP BY a)"
    )
    assert sorted(mill["v"].rows()) == [(1, 4, 2, None), (2, 9, 1, 4)]
    mill.delete("r", [(1, 1, 4, "k")])
    assert sorted(mill["v"].rows()) == [(1, None, 1, None), (2, 9, 1, None)]

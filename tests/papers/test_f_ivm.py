"""The worked examples of F-IVM on the database of Figure 2c, with the numbers of the errata (F1).

a1 is 1, b1 is 1, and so on: names are numbered in the order in which the paper has them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import viewmill as vm
from viewmill.algebra.relations import Relation
from viewmill.mill.mill import Mill
from viewmill.rewrite.rules import rewrite
from viewmill.sql.lower import lower
from viewmill.sql.parse import parse
from viewmill.sql.statements import Query
from viewmill.strategies.strategy import Statistics
from viewmill.strategies.view_tree.block import block_of
from viewmill.strategies.view_tree.plan import TreePlan, plan_tree
from viewmill.strategies.view_tree.variable_order import Order

R = [(1, 1), (1, 2), (2, 3), (3, 4)]
S = [(1, 1, 1), (1, 1, 2), (1, 2, 3), (2, 2, 4)]
T = [(1, 1), (2, 2), (2, 3), (3, 4)]
JOINED = "FROM R JOIN S ON R.A = S.A JOIN T ON S.C = T.C"
ORDER = Order(None, (), (Order("A", ("R",), (Order("C", ("S", "T")),)),))


@pytest.fixture(params=["compiled", "plain"])
def figure_2c(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mill]:
    """The database, empty of rows."""
    monkeypatch.setenv("VIEWMILL_COMPILER", "on" if request.param == "compiled" else "off")
    with vm.connect() as mill:
        mill.sql("CREATE TABLE R (A BIGINT NOT NULL, B BIGINT NOT NULL) UNCHECKED")
        mill.sql(
            "CREATE TABLE S (A BIGINT NOT NULL, C BIGINT NOT NULL, E BIGINT NOT NULL) UNCHECKED"
        )
        mill.sql("CREATE TABLE T (C BIGINT NOT NULL, D BIGINT NOT NULL) UNCHECKED")
        yield mill


def fill(mill: Mill) -> None:
    for table, rows in (("R", R), ("S", S), ("T", T)):
        mill.insert(table, rows)


def plan(mill: Mill, query: str, *, static: frozenset[str] = frozenset()) -> TreePlan:
    """The tree of a query over Figure 2a's variable order."""
    (statement,) = parse(query)
    assert isinstance(statement, Query)
    relation: Relation = rewrite(lower(statement.query, query, mill._core.catalog))
    return plan_tree(block_of(relation), Statistics(static=static), ORDER)


def state(mill: Mill, name: str) -> dict[tuple[int, ...], tuple[int, ...]]:
    """The rows of a state of view v: key to payload."""
    block = mill._core.catalog.view("v").blocks[-1]
    kind = next(s.kind for s in block.program.states if s.name == name)
    rows = [
        tuple(int(value) for value in row.values())
        for batch in block.maintainer.snapshot(name)
        for row in batch.to_pylist()
    ]
    width = len(kind.key)
    return {row[:width]: row[width:] for row in rows}


def test_example_1_1_sums_per_group_of_free_variables(figure_2c):
    figure_2c.sql(
        "CREATE MATERIALIZED VIEW v STRATEGY view_tree AS "
        f"SELECT S.A, S.C, SUM(R.B * T.D * S.E) AS q {JOINED} GROUP BY S.A, S.C"
    )
    fill(figure_2c)
    # (B sums 3 and 3) * (E sums 3, 3, 4) * (D sums 1, 5, 5)
    assert sorted(figure_2c["v"].rows()) == [(1, 1, 9), (1, 2, 45), (2, 2, 60)]


def test_example_1_1_takes_constant_time_for_s_and_linear_time_for_r_and_t(figure_2c):
    made = plan(figure_2c, f"SELECT S.A, S.C, SUM(R.B * T.D * S.E) {JOINED} GROUP BY S.A, S.C")
    assert {path.leaf: path.cost_class for path in made.paths} == {
        "R": "O(n)", "S": "O(1)", "T": "O(n)",
    }  # fmt: skip


def test_example_2_4_and_3_2_count_the_join(figure_2c):
    figure_2c.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS SELECT COUNT(*) AS n {JOINED}")
    fill(figure_2c)
    assert figure_2c["v"].rows() == [(10,)]
    assert state(figure_2c, "by_A") == {  # V_R and V_ST of Figure 2d, fused
        (1,): (2, 4), (2,): (1, 2), (3,): (1, 0),
    }  # fmt: skip
    assert state(figure_2c, "v_s") == {(1, 1): (2,), (2, 1): (1,), (2, 2): (1,)}  # by C, A
    assert state(figure_2c, "v_t") == {(1,): (1,), (2,): (2,), (3,): (1,)}


def test_example_4_1_a_change_of_t_climbs_the_tree(figure_2c):
    figure_2c.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS SELECT COUNT(*) AS n {JOINED}")
    fill(figure_2c)
    # dT = {(c1,d1) -> -1, (c2,d2) -> 3}
    figure_2c.apply("T", [{"C": 1, "D": 1, "m": -1}, {"C": 2, "D": 2, "m": 3}], multiplicity="m")
    assert figure_2c["v"].rows() == [(15,)]  # 10 and 5
    assert state(figure_2c, "by_A") == {  # V_ST: a1 4 + 1, a2 2 + 3
        (1,): (2, 5), (2,): (1, 5), (3,): (1, 0),
    }  # fmt: skip
    assert state(figure_2c, "v_t") == {(2,): (5,), (3,): (1,)}


def test_example_4_1_costs_without_free_variables(figure_2c):
    made = plan(figure_2c, f"SELECT COUNT(*) {JOINED}")
    assert {path.leaf: path.cost_class for path in made.paths} == {
        "R": "O(1)", "S": "O(1)", "T": "O(n)",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("static", "kept"),
    [
        ({"R", "S"}, {"r_s_t_at_A", "r", "s"}),
        (set(), {"r_s_t_at_A", "r", "s", "s_t_at_C", "t"}),
        ({"R", "S", "T"}, {"r_s_t_at_A"}),
        ({"S", "T"}, {"r_s_t_at_A", "s_t_at_C"}),
        ({"R", "T"}, {"r_s_t_at_A", "r", "t"}),
    ],
)
def test_example_4_2_which_views_are_kept(figure_2c, static, kept):
    made = plan(figure_2c, f"SELECT COUNT(*) {JOINED}", static=frozenset(static))
    assert set(made.kept) == kept


def test_example_2_5_the_same_tree_sums_products(figure_2c):
    figure_2c.sql(
        "CREATE MATERIALIZED VIEW v STRATEGY view_tree AS "
        f"SELECT SUM(R.B * T.D * S.E) AS q, COUNT(*) AS n {JOINED}"
    )
    fill(figure_2c)
    assert figure_2c["v"].rows() == [(9 + 45 + 60, 10)]


def test_example_7_5_listed_result(figure_2c):
    figure_2c.sql(
        f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS SELECT R.A, R.B, S.C, T.D {JOINED}"
    )
    fill(figure_2c)
    rows = figure_2c["v"].rows()
    assert len(rows) == 10
    assert len(set(rows)) == 8
    assert sorted(row for row in set(rows) if rows.count(row) == 2) == [(1, 1, 1, 1), (1, 2, 1, 1)]


def test_example_6_1_triangles_are_counted(figure_2c):
    mill = figure_2c
    for name, columns in (("X", "A, B"), ("Y", "B, C"), ("Z", "C, A")):
        first, second = columns.split(", ")
        mill.sql(
            f"CREATE TABLE {name} ({first} BIGINT NOT NULL, {second} BIGINT NOT NULL) UNCHECKED"
        )
    mill.sql(
        "CREATE MATERIALIZED VIEW v STRATEGY view_tree AS SELECT COUNT(*) AS n "
        "FROM X JOIN Y ON X.B = Y.B JOIN Z ON Y.C = Z.C AND Z.A = X.A"
    )
    edges = [(1, 2), (2, 3), (3, 1), (1, 1)]
    for name in "XYZ":
        mill.insert(name, edges)
    assert mill["v"].rows() == [(4,)]  # 1-2-3 from each corner, and 1-1-1
    mill.delete("X", [(1, 1)])
    assert mill["v"].rows() == [(3,)]
    assert mill["v"].verify() == []

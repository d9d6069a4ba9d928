"""The worked examples of F-IVM on the database of Figure 2c, with corrected numbers.

a1 is 1, b1 is 1, and so on: names are numbered in the order in which the paper has them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import viewmill as vm
from viewmill.algebra.packed import Moments
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


@pytest.fixture(params=[pytest.param("compiled", marks=pytest.mark.slow), "plain"])
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
    assert state(figure_2c, "by_a") == {  # V_R and V_ST of Figure 2d, fused
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
    assert state(figure_2c, "by_a") == {  # V_ST: a1 4 + 1, a2 2 + 3
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


# Example 2.3: union, join and aggregation over a ring.


def test_example_2_3_union_join_and_aggregation(figure_2c):
    """R: (a1,b1) r1, (a2,b1) r2; S: (a2,b1) s1, (a3,b2) s2; T: (b1,c1) t1, (b2,c2) t2; g_A is a."""
    mill = figure_2c
    r1, r2, s1, s2, t1, t2 = 2, 3, 5, 7, 11, 13
    mill.sql("CREATE TABLE U (A BIGINT NOT NULL, B BIGINT NOT NULL, P BIGINT NOT NULL) UNCHECKED")
    mill.sql("CREATE TABLE W (B BIGINT NOT NULL, C BIGINT NOT NULL, P BIGINT NOT NULL) UNCHECKED")
    mill.sql(
        "CREATE MATERIALIZED VIEW v STRATEGY view_tree AS "
        "SELECT U.B, W.C, SUM(U.P * W.P * U.A) AS s FROM U JOIN W ON U.B = W.B GROUP BY U.B, W.C"
    )
    mill.insert("U", [(1, 1, r1), (2, 1, r2)])
    mill.insert("W", [(1, 1, t1), (2, 2, t2)])
    mill.insert("U", [(2, 1, s1), (3, 2, s2)])  # the union of R and S
    assert sorted(mill["v"].rows()) == [
        (1, 1, r1 * t1 * 1 + (r2 + s1) * t1 * 2),
        (2, 2, s2 * t2 * 3),
    ]


# Section 5.


def test_example_5_2_a_product_climbs_as_three_factors(figure_2c):
    mill = figure_2c
    fill(mill)
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS SELECT SUM(1) AS n {JOINED}")
    mill.apply_product("S", [{"A": [1, 2]}, {"C": [1, 2]}, {"E": [7, 8, 9]}])
    # (sum over A of V_R) (sum over C of V_T) (sum over E of 1) = (2 + 1) (1 + 2) 3 more than 10
    assert mill["v"].rows() == [(10 + 27,)]
    assert mill["v"].verify() == []


# Section 7.


CHAIN = """SELECT /*+ VARIABLE_ORDER(x1(x5(x3(x2, x4)))) */
    A1.x1, A4.x5, SUM(A1.P * A2.P * A3.P * A4.P) AS P FROM A1 JOIN A2 ON A1.x2 = A2.x2
    JOIN A3 ON A2.x3 = A3.x3 JOIN A4 ON A3.x4 = A4.x4 GROUP BY A1.x1, A4.x5"""


def test_example_7_1_four_matrices_under_a_rank_one_update(figure_2c):
    mill, n = figure_2c, 3
    random = np.random.default_rng(1)
    matrices = [random.integers(-3, 4, (n, n)) for _ in range(4)]
    for k, matrix in enumerate(matrices, 1):
        keys = f"x{k} INT NOT NULL, x{k + 1} INT NOT NULL"
        mill.sql(f"CREATE TABLE A{k} ({keys}, P BIGINT NOT NULL) UNCHECKED")
        mill.insert(f"A{k}", [(i, j, int(matrix[i, j])) for i in range(n) for j in range(n)])
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {CHAIN}")
    assert {"v_a1_a2_at_x2", "v_a3_a4_at_x4"} <= set(states_of(mill))  # as in the paper
    u, v = [1, -2, 3], [2, 0, -1]
    mill.apply_product("A2", [{"x2": range_of(n), "P": u}, {"x3": range_of(n), "P": v}], "P")
    first, second, third, fourth = matrices
    product = first @ (second + np.outer(u, v)) @ third @ fourth
    assert {(i, j): p for i, j, p in mill["v"].rows()} == {
        (i, j): product[i, j] for i in range(n) for j in range(n)
    }
    assert mill["v"].verify() == []


def states_of(mill: Mill) -> list[str]:
    return [each.name for each in mill._core.catalog.view("v").block.program.states]


def range_of(n: int) -> list[int]:
    return list(range(n))


def test_examples_7_5_and_7_6_the_result_as_payloads(figure_2c):
    mill = figure_2c
    fill(mill)
    shown = f"SELECT /*+ VARIABLE_ORDER(A(B, C(D, E))) */ R.A, R.B, S.C, T.D {JOINED}"
    mill.sql(f"CREATE MATERIALIZED VIEW v RESULT FACTORIZED AS {shown}")
    # Figure 2e, factorized: V_ST a1 {c1:2, c2:2}, a2 {c2:2}; root {a1:8, a2:2}
    assert state(mill, "v_c_in_s_t") == {(1, 1): (2,), (1, 2): (2,), (2, 2): (2,)}
    assert state(mill, "v_a_in_r_s_t") == {(1,): (8,), (2,): (2,)}
    assert state(mill, "v_r_rows") == {(1, 1): (1,), (1, 2): (1,), (2, 3): (1,), (3, 4): (1,)}
    assert state(mill, "v_t_rows") == {(1, 1): (1,), (2, 2): (1,), (2, 3): (1,), (3, 4): (1,)}
    assert (mill["v"].count(), mill["v"].count(distinct=True)) == (10, 8)
    rows = mill["v"].rows()
    assert rows.count((1, 1, 1, 1)) == rows.count((1, 2, 1, 1)) == 2
    assert all(rows.count(row) == 1 for row in rows if row[2:] != (1, 1))
    mill.sql(f"CREATE MATERIALIZED VIEW listed AS {shown}")
    assert sorted(mill["listed"].rows()) == sorted(rows)


def test_example_7_6_without_d_the_unions_of_d_values_are_gone(figure_2c):
    mill = figure_2c
    fill(mill)
    mill.sql(f"CREATE MATERIALIZED VIEW v RESULT FACTORIZED AS SELECT R.A, R.B, S.C {JOINED}")
    assert "v_t_rows" not in states_of(mill)
    assert (mill["v"].count(), mill["v"].count(distinct=True)) == (10, 5)
    assert mill["v"].verify() == []


# Section 6: cyclic joins. The triangle of Example 6.1 over X(A,B), Y(B,C), Z(C,A).

TRIANGLE = "FROM X JOIN Y ON X.B = Y.B JOIN Z ON Y.C = Z.C AND Z.A = X.A"
TRIANGLE_ORDER = Order(
    None, (), (Order("A", (), (Order("B", ("X",), (Order("C", ("Y", "Z")),)),)),)
)


def triangle(mill: Mill) -> None:
    for name, first, second in (("X", "A", "B"), ("Y", "B", "C"), ("Z", "C", "A")):
        mill.sql(
            f"CREATE TABLE {name} ({first} BIGINT NOT NULL, {second} BIGINT NOT NULL) UNCHECKED"
        )


def triangle_plan(mill: Mill, *, indicators: bool) -> TreePlan:
    query = f"SELECT COUNT(*) {TRIANGLE}"
    (statement,) = parse(query)
    assert isinstance(statement, Query)
    block = block_of(rewrite(lower(statement.query, query, mill._core.catalog)))
    return plan_tree(block, Statistics(), TRIANGLE_ORDER, indicators=indicators)


def test_example_6_1_the_view_at_c_makes_updates_of_r_constant(figure_2c):
    triangle(figure_2c)
    made = triangle_plan(figure_2c, indicators=False)
    assert {path.leaf: path.cost_class for path in made.paths} == {
        "X": "O(1)", "Y": "O(n)", "Z": "O(n)",
    }  # fmt: skip


def test_example_6_2_counts_say_when_a_projection_changes(figure_2c):
    """R(A,B) with (a1,b1), (a1,b2), (a2,b3) is an indicator on A: CNT is a1 2, a2 1."""
    figure_2c.sql("CREATE TABLE P (A BIGINT NOT NULL, C BIGINT NOT NULL)")
    figure_2c.sql("CREATE TABLE Q (C BIGINT NOT NULL, D BIGINT NOT NULL)")
    # RR closes the cycle of P and Q by its A and D; a row more with the same A and D is no new key.
    figure_2c.sql("CREATE TABLE RR (A BIGINT NOT NULL, D BIGINT NOT NULL, B BIGINT NOT NULL)")
    figure_2c.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT /*+ VARIABLE_ORDER(RR.B(A(D(C)))) */ RR.B, "
        "COUNT(*) AS n FROM RR JOIN P ON RR.A = P.A JOIN Q ON P.C = Q.C AND Q.D = RR.D "
        "GROUP BY RR.B"
    )
    assert "∃ RR[A, D]" in figure_2c["v"].explain()
    figure_2c.insert("RR", [(1, 7, 1), (1, 7, 2), (2, 7, 3)])
    counts = next(
        each.name
        for each in figure_2c._core.catalog.view("v").blocks[-1].program.states
        if "has_rr" in each.name  # a second one is the list of the same counts by the other column
    )
    assert state(figure_2c, counts) == {(1, 7): (2,), (2, 7): (1,)}
    figure_2c.insert("P", [(1, 5), (2, 5)])
    figure_2c.insert("Q", [(5, 7)])
    assert sorted(figure_2c["v"].rows()) == [(1, 1), (2, 1), (3, 1)]
    figure_2c.delete("RR", [(1, 7, 2)])  # the count of a1 goes to 1: the indicator stays
    assert state(figure_2c, counts) == {(1, 7): (1,), (2, 7): (1,)}
    assert sorted(figure_2c["v"].rows()) == [(1, 1), (3, 1)]
    figure_2c.delete("RR", [(1, 7, 1)])  # to 0: it changes, and the view below forgets a1
    assert state(figure_2c, counts) == {(2, 7): (1,)}
    assert figure_2c["v"].rows() == [(3, 1)]
    assert figure_2c["v"].verify() == []


def test_example_6_3_the_triangle_has_an_indicator_at_c(figure_2c):
    triangle(figure_2c)
    made = triangle_plan(figure_2c, indicators=True)
    at_c = next(view for view in made.root.walk() if "C" in view.variables)
    assert [(each.indicates, set(each.keys)) for each in at_c.indicators] == [("X", {"A", "B"})]
    assert [each.path.cost_class for each in made.reactions["X"]] == ["O(n)"]
    assert {path.leaf: path.cost_class for path in made.paths} == {
        "X": "O(1)", "Y": "O(n)", "Z": "O(n)",
    }  # fmt: skip


def test_example_1_1_ten_aggregates_are_one_payload(figure_2c: Mill) -> None:
    """The nine of the text and SUM(B * B), which it leaves out: 1 + 3 + 6."""
    figure_2c.sql(
        f"CREATE MATERIALIZED VIEW v AS SELECT cofactor(B, D, E) AS c, SUM(B * D * E) AS s {JOINED}"
    )
    fill(figure_2c)
    ((value, total),) = figure_2c["v"].rows()
    joined = np.array(
        [(b, d, e) for a, b in R for i, c, e in S if i == a for j, d in T if j == c], float
    )
    assert value["n"] == len(joined) == 10
    assert value["names"] == ["B", "D", "E"]
    assert value["sums"] == joined.sum(axis=0).tolist()
    products = joined.T @ joined
    assert value["products"] == products[np.triu_indices(3)].tolist()
    assert len(value["sums"]) + len(value["products"]) + 1 == 10
    assert total == joined.prod(axis=1).sum()


def test_example_7_3_the_payload_of_a2(figure_2c: Mill) -> None:
    """V_ST[a2] of the degree-5 ring: only the blocks of C, D and E are there."""
    figure_2c.sql(
        "CREATE MATERIALIZED VIEW v AS "
        "SELECT S.A, cofactor(S.C, D, E) AS m FROM S JOIN T ON S.C = T.C GROUP BY S.A"
    )
    fill(figure_2c)
    c2, d2, d3, e4 = 2, 2, 3, 4
    found = dict(figure_2c["v"].rows())[2]
    assert found["n"] == 2
    assert found["sums"] == [2 * c2, d2 + d3, 2 * e4]
    assert found["products"] == [
        2 * c2**2, c2 * (d2 + d3), 2 * c2 * e4, d2**2 + d3**2, (d2 + d3) * e4, 2 * e4**2,
    ]  # fmt: skip


@pytest.mark.parametrize(("attributes", "aggregates"), [(43, 990), (27, 406), (3, 10)])
def test_the_degree_m_ring_has_so_many_aggregates(attributes: int, aggregates: int) -> None:
    assert Moments(tuple("x" * attributes)).size == aggregates

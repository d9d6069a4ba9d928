"""Variable orders: found by cost, as fast as a query may wait for, or as a hint says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled

import viewmill as vm
from viewmill.mill.mill import Mill
from viewmill.rewrite.rules import rewrite
from viewmill.sql.lower import lower
from viewmill.sql.parse import parse
from viewmill.sql.statements import Query
from viewmill.strategies.strategy import Statistics
from viewmill.strategies.view_tree.block import Block, block_of
from viewmill.strategies.view_tree.estimate import Sizes
from viewmill.strategies.view_tree.search import find_order
from viewmill.strategies.view_tree.variable_order import Order

pytestmark = pytest.mark.usefixtures("uncompiled")


def block(mill: Mill, query: str) -> Block:
    (statement,) = parse(query)
    assert isinstance(statement, Query)
    return block_of(rewrite(lower(statement.query, query, mill._core.catalog)))


def found(block: Block, statistics: Statistics) -> Order:
    everything = frozenset(each.alias for each in block.occurrences)
    return find_order(block, Sizes(block, statistics), everything - statistics.static)


# Chains of matrices.

CHAIN = 8


@pytest.fixture(scope="module")
def matrices() -> Any:
    with vm.connect() as mill:
        for i in range(1, CHAIN + 1):
            mill.sql(f"CREATE TABLE A{i} (x{i} INT, x{i + 1} INT, P{i} INT)")
        yield mill


def chain(count: int) -> str:
    product = " * ".join(f"A{i}.P{i}" for i in range(1, count + 1))
    joined = " ".join(f"JOIN A{i} ON A{i - 1}.x{i} = A{i}.x{i}" for i in range(2, count + 1))
    ends = f"A1.x1, A{count}.x{count + 1}"
    return f"SELECT {ends}, SUM({product}) AS v FROM A1 {joined} GROUP BY {ends}"


def textbook(sizes: Sequence[int]) -> int:
    """The fewest multiplications of a chain of matrices (Cormen et al., 15.2)."""
    count = len(sizes) - 1
    best = {(i, i): 0 for i in range(count)}
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length - 1
            best[i, j] = min(
                best[i, k] + best[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            )
    return best[0, count - 1]


def multiplications(order: Order, sizes: Sequence[int]) -> int:
    """What an order costs: each bound variable multiplies what is left and right of it."""
    count = len(sizes)
    (top,) = order.children
    assert top.variable in ("x1", f"x{count}")
    (below,) = top.children
    assert {top.variable, below.variable} == {"x1", f"x{count}"}
    return sum(_product(each, 1, count, sizes) for each in below.children)


def _product(order: Order, low: int, high: int, sizes: Sequence[int]) -> int:
    assert order.variable is not None
    k = int(order.variable[1:])
    total = sizes[low - 1] * sizes[k - 1] * sizes[high - 1]
    for child in order.children:
        is_left = int(child.variable[1:]) < k  # type: ignore[index]
        total += _product(child, low if is_left else k, k if is_left else high, sizes)
    return total


@settings(max_examples=scaled(1))
@given(sizes=st.lists(st.integers(1, 60), min_size=3, max_size=CHAIN + 1))
def test_a_matrix_chain_is_multiplied_as_in_the_textbook(matrices: Mill, sizes: list[int]) -> None:
    count = len(sizes) - 1
    names = range(1, count + 1)
    statistics = Statistics(
        rows={f"A{i}": sizes[i - 1] * sizes[i] for i in names},
        distinct={(f"A{i}", f"x{i + j}"): sizes[i - 1 + j] for i in names for j in (0, 1)},
    )
    order = found(block(matrices, chain(count)), statistics)
    assert multiplications(order, sizes) == textbook(sizes)


@pytest.mark.parametrize(("count", "joins"), [(2, 1), (4, 2), (5, 3), (8, 3)])
def test_equal_matrices_are_multiplied_in_a_balanced_tree(
    matrices: Mill, count: int, joins: int
) -> None:
    """A change of the last of eight matrices went through seven joins, and met n^7 entries."""
    statistics = Statistics(
        rows={f"A{i}": 10_000 for i in range(1, count + 1)},
        distinct={(f"A{i}", f"x{i + j}"): 100 for i in range(1, count + 1) for j in (0, 1)},
    )
    order = found(block(matrices, chain(count)), statistics)
    (top,) = order.children
    (below,) = top.children
    assert max(map(_joins, below.children)) == joins


def _joins(order: Order) -> int:
    """The most bound variables from here to a table."""
    return 1 + max(map(_joins, order.children), default=0)


def test_the_mill_knows_the_sizes_of_its_matrices() -> None:
    sizes = (3, 40, 2, 30, 5)
    with vm.connect() as mill:
        for i in range(1, 5):
            mill.sql(f"CREATE TABLE A{i} (x{i} INT, x{i + 1} INT, P{i} INT)")
            cells = [(a, b, 1) for a in range(sizes[i - 1]) for b in range(sizes[i])]
            mill.insert(f"A{i}", cells)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {chain(4)}")
        # (A1 A2) (A3 A4): 240 + 300 + 30 products; the other four ways need 690 and more
        assert textbook(sizes) == 570
        assert "variable order   x1(x5(x3(x2(P1, P2), x4(P3, P4))))" in mill["v"].explain()


# Costs.


@pytest.fixture
def figure_2(uncompiled: None) -> Any:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE R (A INT, B INT) UNCHECKED")
        mill.sql("CREATE TABLE S (A INT, C INT, E INT) UNCHECKED")
        mill.sql("CREATE TABLE T (C INT, D INT) UNCHECKED")
        yield mill


JOINED = "FROM R JOIN S ON R.A = S.A JOIN T ON S.C = T.C"


def test_the_table_that_changes_most_has_the_short_way(figure_2: Mill) -> None:
    query = block(figure_2, f"SELECT COUNT(*) {JOINED}")
    many = {"S": 10_000}
    assert str(found(query, Statistics(rows={**many, "R": 100_000, "T": 100}))) == "A(C)"
    assert str(found(query, Statistics(rows={**many, "R": 100, "T": 100_000}))) == "C(A)"
    # A table that never changes costs nothing: R alone decides.
    still = Statistics(rows={**many, "R": 100, "T": 100_000}, static=frozenset({"T"}))
    assert str(found(query, still)) == "A(C)"


def test_free_variables_are_on_top(figure_2: Mill) -> None:
    query = block(figure_2, f"SELECT T.D, COUNT(*) {JOINED} GROUP BY T.D")
    order = found(query, Statistics())
    assert order.children[0].variable == "D"
    assert {each.variable for each in order.children[0].walk()} == {"D", "A", "C"}


def test_chains_are_one_view(figure_2: Mill) -> None:
    figure_2.sql(
        "CREATE MATERIALIZED VIEW v STRATEGY view_tree AS SELECT r.A, r.B, s.C, s.E, COUNT(*) AS n "
        "FROM R r JOIN S s ON r.A = s.A GROUP BY r.A, r.B, s.C, s.E"
    )
    views = [line for line in figure_2["v"].explain().splitlines() if "kept: " in line]
    assert len(views) == 3  # r, s, and the result at A, B, C and E


@pytest.mark.parametrize("dimensions", [7, 15])
def test_orders_of_many_tables_are_found_at_once(dimensions: int) -> None:
    """A star of eight tables, and one of sixteen: 15! orders."""
    with vm.connect() as mill:
        mill.sql(f"CREATE TABLE f ({', '.join(f'k{i} INT' for i in range(dimensions))}, m INT)")
        for i in range(dimensions):
            mill.sql(f"CREATE TABLE d{i} (k{i} INT, v{i} INT)")
        joined = " ".join(f"JOIN d{i} ON f.k{i} = d{i}.k{i}" for i in range(dimensions))
        query = block(mill, f"SELECT SUM(f.m) FROM f {joined}")
        start = time.thread_time()
        order = found(query, Statistics())
        spent = time.thread_time() - start
        assert len([each for each in order.walk() if each.variable]) == dimensions
        assert spent < 2.0  # 0.03 s and 0.3 s on a quiet machine


def test_a_join_that_shows_many_columns_is_planned_at_once() -> None:
    with vm.connect() as mill:
        for i in range(5):
            columns = ", ".join(f"c{i}_{j} INT" for j in range(4))
            mill.sql(f"CREATE TABLE t{i} (k{i} INT, k{i + 1} INT, {columns})")
        shown = ", ".join(f"c{i}_{j}" for i in range(5) for j in range(4))
        joined = " ".join(f"JOIN t{i} ON t{i - 1}.k{i} = t{i}.k{i}" for i in range(1, 5))
        start = time.thread_time()
        mill.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT {shown} FROM t0 {joined}")
        assert time.thread_time() - start < 5.0


# Hints.


def explained(mill: Mill, hint: str) -> str:
    query = f"SELECT /*+ {hint} */ SUM(R.B * T.D * S.E) AS q {JOINED}"
    sql = f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}"
    return "\n".join(row[0] for row in mill.sql(sql).rows())


@pytest.mark.parametrize(
    ("hint", "root"),
    [
        ("VARIABLE_ORDER(A(B, C(D, E)))", "r_s_t_at_A@A[]"),
        ("VARIABLE_ORDER(C(D, A(B, E)))", "r_s_t_at_C@C[]"),
        ("VARIABLE_ORDER(c(a))", "r_s_t_at_C@C[]"),
        ("BROADCAST(R), VARIABLE_ORDER(S.C(`A`(R.B)))", "r_s_t_at_C@C[]"),
    ],
    ids=["of the paper", "turned", "without local columns", "with tables"],
)
def test_a_hint_is_taken_and_explained(figure_2: Mill, hint: str, root: str) -> None:
    text = explained(figure_2, hint)
    order = hint[hint.index("ORDER(") + 6 : -1].replace("`", "")
    assert f"variable order   {order}   as its hint says" in text
    assert root in text


def test_a_hinted_view_is_maintained_in_that_order(figure_2: Mill) -> None:
    figure_2.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT /*+ VARIABLE_ORDER(C(A)) */ S.A, COUNT(*) AS n "
        f"{JOINED} GROUP BY S.A"
    )  # the free variable is below the bound one
    for table, rows in {
        "R": [(1, 1), (1, 2), (2, 3), (3, 4)],
        "S": [(1, 1, 1), (1, 1, 2), (1, 2, 3), (2, 2, 4)],
        "T": [(1, 1), (2, 2), (2, 3), (3, 4)],
    }.items():
        figure_2.insert(table, rows)
    assert sorted(figure_2["v"].rows()) == [(1, 8), (2, 2)]
    figure_2.delete("T", [(2, 3)])
    assert sorted(figure_2["v"].rows()) == [(1, 6), (2, 1)]
    assert figure_2["v"].verify() == []


@pytest.mark.parametrize(
    ("hint", "error", "message", "underlined"),
    [
        ("VARIABLE_ORDER(A(C(X)))", vm.UnknownName, 'no column "X"', "X"),
        ("VARIABLE_ORDER(A(Q.C))", vm.UnknownName, 'no column "Q.C"', "Q.C"),
        ("VARIABLE_ORDER(A(B))", vm.InvalidArgument, "leaves out C", "VARIABLE_ORDER(A(B))"),
        ("VARIABLE_ORDER(A, C)", vm.InvalidArgument, "not a variable order", "A, C"),
        ("VARIABLE_ORDER(A(C, B(D)))", vm.InvalidArgument, "not a variable order", "C, B(D"),
        ("VARIABLE_ORDER(A(C(A)))", vm.InvalidArgument, "twice", "A"),
        ("VARIABLE_ORDER(A(C)", vm.MalformedSQL, 'expected ")"', "*/"),
        ("VARIABLE_ORDER", vm.MalformedSQL, 'expected "("', "*/"),
        ("VARIABLE_ORDER(A(C)) VARIABLE_ORDER(A(C))", vm.MalformedSQL, "twice", "VARIABLE_ORDER"),
    ],
    ids=[
        "unknown", "unknown table", "missing", "branches", "branch of a local column", "repeated",
        "not closed", "without order", "two hints",
    ],
)  # fmt: skip
def test_a_wrong_hint_is_a_kind_error(
    figure_2: Mill, hint: str, error: type[vm.ViewmillError], message: str, underlined: str
) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(").replace(")", r"\)")) as caught:
        explained(figure_2, hint)
    assert caught.value.span is not None
    assert caught.value.span.text == underlined


def test_a_column_that_could_be_two_is_asked_about(figure_2: Mill) -> None:
    figure_2.sql("CREATE TABLE U (A INT, C INT)")
    with pytest.raises(vm.InvalidArgument, match='"C" may be'):
        figure_2.sql(
            "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT /*+ VARIABLE_ORDER(C(A)) */ COUNT(*) "
            "FROM S s JOIN U u ON s.A = u.A GROUP BY s.C, u.C"
        )


def test_a_hint_for_another_strategy_is_refused(figure_2: Mill) -> None:
    with pytest.raises(vm.InvalidArgument, match="a hint for STRATEGY view_tree"):
        figure_2.sql(
            "CREATE MATERIALIZED VIEW v STRATEGY recompute AS "
            f"SELECT /*+ VARIABLE_ORDER(A(C)) */ COUNT(*) AS n {JOINED}"
        )

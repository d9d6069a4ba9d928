"""Indicators bound the views of cyclic joins, and never change what a join is."""

from __future__ import annotations

import random
from typing import Any

import pytest

import viewmill as vm
from viewmill.mill.mill import Mill
from viewmill.strategies.view_tree.gyo import reduced, surviving


def edges(*names: str) -> dict[str, frozenset[str]]:
    return {name: frozenset(name) for name in names}


# The reduction.


@pytest.mark.parametrize(
    ("graph", "left"),
    [
        (("ab", "bc", "cd"), ()),
        (("ab", "bc", "ca"), ("ab", "bc", "ca")),
        (("abc", "ab", "bc", "ca"), ()),  # a table that covers the triangle makes it acyclic
        (("ab", "bc", "cd", "da"), ("ab", "bc", "cd", "da")),
        (("ab", "bc", "ca", "cx", "xy"), ("ab", "bc", "ca")),  # ears fall off
        (("ab", "cd"), ()),
    ],
    ids=["path", "triangle", "covered", "square", "with ears", "apart"],
)
def test_gyo_leaves_the_cycles(graph: tuple[str, ...], left: tuple[str, ...]) -> None:
    assert tuple(reduced(edges(*graph))) == left


def test_example_of_the_errata_a_square_with_a_chord() -> None:
    """R1(A,B) R2(B,C) R3(C,D) R4(D,A) and the chord R5(A,C), at B: ∃ R3 and ∃ R4 are ears."""
    others = {"R3": frozenset("CD"), "R4": frozenset("DA"), "R5": frozenset("AC")}
    assert surviving([frozenset("AB"), frozenset("BC")], others) == ["R5"]


# Views.


@pytest.fixture
def graph(uncompiled: None) -> Any:
    with vm.connect() as mill:
        for name, columns in (("X", "AB"), ("Y", "BC"), ("Z", "CA")):
            types = ", ".join(f"{column} BIGINT" for column in columns)
            mill.sql(f"CREATE TABLE {name} ({types}) UNCHECKED")
        mill.sql("CREATE TABLE edges (s BIGINT, d BIGINT)")
        yield mill


TRIANGLES = "FROM X x JOIN Y y ON x.B = y.B JOIN Z z ON y.C = z.C AND z.A = x.A"
ORDER = "/*+ VARIABLE_ORDER(A(B(C))) */"
OWN_TRIANGLES = "FROM edges x JOIN edges y ON x.d = y.s JOIN edges z ON y.d = z.s AND z.d = x.s"


def create(mill: Mill, query: str, hint: str = "") -> str:
    body = query.replace("SELECT", f"SELECT {hint}", 1)
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {body}")
    return str(mill["v"].explain())


def entries(mill: Mill, state: str) -> int:
    """How many keys a state of the view holds."""
    maintainer = mill._core.catalog.view("v").blocks[-1].maintainer
    return sum(batch.num_rows for batch in maintainer.snapshot(state))


def test_explain_shows_the_indicator_and_what_it_costs(graph: Mill) -> None:
    text = create(graph, f"SELECT COUNT(*) AS n {TRIANGLES}", ORDER)
    assert "∃ x[B, A]   indicator, read from x" in text
    assert "update of x   O(1), O(n) when it brings a new key or takes the last one" in text
    assert "update of y   O(n)" in text
    assert "says what y_z_at_C can meet" in text


def test_a_hint_leaves_the_indicators_out(graph: Mill) -> None:
    text = create(graph, f"SELECT COUNT(*) AS n {TRIANGLES}", "/*+ NO_INDICATORS */")
    assert "∃" not in text


def test_acyclic_joins_have_none(graph: Mill) -> None:
    assert "∃" not in create(
        graph, "SELECT COUNT(*) AS n FROM X x JOIN Y y ON x.B = y.B JOIN Z z ON y.C = z.C"
    )


def test_the_view_of_a_triangle_is_no_larger_than_the_table_that_closes_it(graph: Mill) -> None:
    create(graph, f"SELECT COUNT(*) AS n {TRIANGLES}", ORDER)
    n = 20
    graph.insert("Y", [(b, 0) for b in range(n)])
    graph.insert("Z", [(0, a) for a in range(n)])
    graph.insert("X", [(1, 2), (3, 4), (3, 4)])
    assert graph["v"].rows() == [(3,)]
    # 400 pairs (b, a) meet at c = 0; two of them are edges of X
    assert entries(graph, "v_y_z_at_c") == 2
    graph.sql("DROP MATERIALIZED VIEW v")
    create(graph, f"SELECT COUNT(*) AS n {TRIANGLES}", ORDER.replace(" */", ", NO_INDICATORS */"))
    assert entries(graph, "by_b_a") == n * n


def test_duplicates_keep_an_indicator_until_the_last_one_goes(graph: Mill) -> None:
    create(graph, f"SELECT COUNT(*) AS n {TRIANGLES}", ORDER)
    for name, row in (("X", (1, 2)), ("Y", (2, 3)), ("Z", (3, 1))):
        graph.insert(name, [row, row])
    assert graph["v"].rows() == [(8,)]
    graph.delete("X", [(1, 2)])
    assert graph["v"].rows() == [(4,)]
    graph.delete("X", [(1, 2)])
    assert graph["v"].rows() == [(0,)]
    graph.insert("Y", [(2, 3)])  # while x has no such key the view forgets the path
    graph.insert("X", [(1, 2)])
    assert graph["v"].rows() == [(6,)]
    assert graph["v"].verify() == []


def test_a_row_deleted_before_it_comes_is_a_key_too(graph: Mill) -> None:
    """UNCHECKED tables: the key is there with multiplicity -1, and gone when the row has come."""
    create(graph, f"SELECT COUNT(*) AS n {TRIANGLES}", ORDER)
    graph.delete("X", [(1, 2)])
    graph.insert("Y", [(2, 3)])
    graph.insert("Z", [(3, 1)])
    graph.insert("X", [(1, 2)])
    assert graph["v"].rows() == [(0,)]
    graph.insert("X", [(1, 2)])
    assert graph["v"].rows() == [(1,)]
    assert graph["v"].verify() == []


def test_an_update_within_a_batch_may_leave_the_indicator_as_it_was(graph: Mill) -> None:
    create(graph, f"SELECT SUM(x.A + z.C) AS q {TRIANGLES}")
    for name, row in (("X", (1, 2)), ("Y", (2, 3)), ("Z", (3, 1))):
        graph.insert(name, [row])
    with graph.batch():
        for name, row in (("X", (1, 2)), ("Y", (2, 3)), ("Z", (3, 1))):
            graph.delete(name, [row])
            graph.insert(name, [row])
    assert graph["v"].rows() == [(4,)]
    assert graph["v"].verify() == []


def test_a_failing_batch_is_undone(graph: Mill) -> None:
    """A rollback runs the triggers backwards: the indicators go back too."""
    create(graph, f"SELECT COUNT(*) AS n, SUM(x.A) AS q {TRIANGLES}")
    for name, row in (("X", (1, 2)), ("Y", (2, 3)), ("Z", (3, 1))):
        graph.insert(name, [row])
    big = 2**62

    def overflow() -> None:
        with graph.batch():
            graph.delete("X", [(1, 2)])
            graph.insert("X", [(big, 2), (big, 2), (big, 2)])
            graph.insert("Z", [(3, big)])

    with pytest.raises(vm.Overflow):
        overflow()
    assert graph["v"].rows() == [(1, 1)]
    assert graph["v"].verify() == []
    graph.insert("X", [(1, 2)])
    assert graph["v"].rows() == [(2, 2)]


@pytest.mark.parametrize("compiler", ["on", "off"])
def test_triangles_of_one_table_with_itself(monkeypatch: pytest.MonkeyPatch, compiler: str) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", compiler)
    chance = random.Random(7)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE edges (s BIGINT, d BIGINT)")
        assert "∃" in create(mill, f"SELECT COUNT(*) AS n {OWN_TRIANGLES}")
        present: list[tuple[int | None, int]] = []
        for _ in range(12):
            with mill.batch():
                for _ in range(8):
                    if present and chance.random() < 0.4:
                        row = present.pop(chance.randrange(len(present)))
                        mill.delete("edges", [row])
                    else:
                        node = None if chance.random() < 0.1 else chance.randrange(5)
                        present.append((node, chance.randrange(5)))
                        mill.insert("edges", [present[-1]])
            assert mill["v"].verify() == []


def test_a_chord_is_the_indicator_of_both_sides(graph: Mill) -> None:
    """The 4-cycle with a chord over one table; a projection of it is counted on its own."""
    graph.sql("CREATE TABLE chord (s BIGINT, d BIGINT, kind BIGINT)")
    query = (
        "SELECT c.kind, COUNT(*) AS n FROM edges r1 JOIN edges r2 ON r1.d = r2.s "
        "JOIN edges r3 ON r2.d = r3.s JOIN edges r4 ON r3.d = r4.s AND r4.d = r1.s "
        "JOIN chord c ON c.s = r1.s AND c.d = r2.d GROUP BY c.kind"
    )
    text = create(graph, query, "/*+ VARIABLE_ORDER(kind(c.s(c.d(r1.d, r3.d)))) */")
    assert text.count("∃ c[") == 2
    assert "has_c" in text  # kind is no key of the sides: the pairs are counted
    chance = random.Random(3)
    for _ in range(4):
        with graph.batch():
            graph.insert("edges", [(chance.randrange(4), chance.randrange(4)) for _ in range(6)])
            graph.insert("chord", [(chance.randrange(4), chance.randrange(4), i) for i in (0, 1)])
        assert graph["v"].verify() == []
    rows = graph.sql("SELECT * FROM chord").rows()
    for row in rows[:5]:
        graph.delete("chord", [row])
        assert graph["v"].verify() == []


def test_a_static_table_is_an_indicator_that_never_changes(graph: Mill) -> None:
    graph.sql("CREATE TABLE fixed (A BIGINT, B BIGINT) STATIC")
    graph.insert("fixed", [(1, 2), (2, 2), (3, 1)])
    query = f"SELECT COUNT(*) AS n {TRIANGLES}".replace("FROM X x", "FROM fixed x")
    text = create(graph, query, ORDER)
    assert "∃ x[" in text
    assert "x is STATIC" in text
    graph.insert("Y", [(2, 3), (1, 1)])
    graph.insert("Z", [(3, 1), (1, 3)])
    assert graph["v"].rows() == [(2,)]
    assert graph["v"].verify() == []


def test_sums_of_floats_around_a_triangle(graph: Mill) -> None:
    graph.sql("CREATE TABLE W (A BIGINT, B BIGINT, w DOUBLE) UNCHECKED")
    query = f"SELECT SUM(x.w) AS q, COUNT(*) AS n {TRIANGLES}".replace("FROM X x", "FROM W x")
    create(graph, query)
    graph.insert("Y", [(2, 3), (2, 4)])
    graph.insert("Z", [(3, 1), (4, 1)])
    graph.insert("W", [(1, 2, 0.1), (1, 2, 0.2)])
    assert graph["v"].rows() == [(pytest.approx(0.6), 4)]
    graph.delete("W", [(1, 2, 0.1)])
    graph.delete("W", [(1, 2, 0.2)])
    assert graph["v"].rows() == [(None, 0)]
    graph.delete("Z", [(3, 1)])
    graph.insert("W", [(1, 2, 0.3)])
    assert graph["v"].rows() == [(pytest.approx(0.3), 1)]
    assert graph["v"].verify() == []

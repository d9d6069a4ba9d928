"""A factorized result has the rows of a listed one, and counts them without listing them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled
from tests.strategies.view_tree.generate_joins import (
    KEYS,
    NUMBERS,
    Case,
    cases,
    from_clause,
)
from tests.strategies.view_tree.test_random_joins import apply

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")


@st.composite
def joins(draw: st.DrawFn) -> Case:
    """Rows of tables, and a join of them that shows some columns."""
    case = draw(cases(cyclic=True, most=4))
    aliases, joined = draw(from_clause(case.tables, cyclic=True, most=4))
    columns = st.tuples(st.sampled_from(aliases), st.sampled_from((*KEYS, *NUMBERS)))
    chosen = draw(st.lists(columns, min_size=1, max_size=5, unique=True))
    shown = [f"{alias}.{column} AS c{i}" for i, (alias, column) in enumerate(chosen)]
    if draw(st.sampled_from([False, False, False, True])):
        shown.append(f"{aliases[0]}.a + {aliases[-1]}.b AS s")
    where = draw(st.sampled_from(["", "", f" WHERE {aliases[0]}.n <> 1"]))
    case.query = f"SELECT {', '.join(shown)} FROM {joined}{where}"
    return case


def bag(view: vm.View) -> Counter[str]:
    return Counter(map(repr, view.rows()))  # NaN is equal to itself in print only


def check(mill: vm.Mill) -> None:
    view = mill["v"]
    assert view.verify() == []
    rows = view.rows()
    assert len(rows) == view.count() == len(view) == view.status()["rows"]
    assert [tuple(map(repr, row)) for row in view] == [tuple(map(repr, row)) for row in rows]
    different = len({repr(row).replace("-0.0", "0.0") for row in rows})
    assert view.count(distinct=True) == different


@settings(max_examples=scaled(0.5))
@given(joins(), st.booleans())
def test_factorized_rows_are_the_rows(case: Case, backfill: bool) -> None:
    with vm.connect() as mill:
        for table in case.tables:
            mill.sql(table.sql)
        create = f"CREATE MATERIALIZED VIEW v RESULT FACTORIZED AS {case.query}"
        batches = list(case.batches)
        if backfill:
            apply(mill, batches.pop(0))
        mill.sql(create)
        mill.sql(f"CREATE MATERIALIZED VIEW listed AS {case.query}")
        calls = mill["v"].status()["engine_calls"]
        for batch in batches:
            apply(mill, batch)
            assert bag(mill["v"]) == bag(mill["listed"])
        assert mill["v"].status()["engine_calls"] == calls
        check(mill)


STAR = "FROM h JOIN s ON h.p = s.p JOIN i ON i.p = h.p"


def star(mill: vm.Mill, keys: int, rows: int) -> None:
    for name in "hsi":
        mill.sql(f"CREATE TABLE {name} (p INT NOT NULL, x{name} INT)")
    mill.sql(f"CREATE MATERIALIZED VIEW v RESULT FACTORIZED AS SELECT h.p, xh, xs, xi {STAR}")
    for name in "hsi":
        mill.insert(name, [(p, x) for p in range(keys) for x in range(rows)])


def test_counts_and_first_rows_do_not_enumerate(mill: vm.Mill, monkeypatch: Any) -> None:
    star(mill, 3, 10)
    enumerator = mill.core.catalog.view("v").enumerator
    made = 0
    deltas = enumerator.deltas

    def counted(rows: int = 100) -> Any:
        nonlocal made
        for delta in deltas(rows):
            made += delta.size
            yield delta

    monkeypatch.setattr(enumerator, "deltas", counted)
    assert mill["v"].count() == mill["v"].count(distinct=True) == 3 * 10**3
    assert mill.sql("SELECT count(*) AS n FROM v").rows() == [(3000,)]
    assert mill["v"].status()["rows"] == 3000
    assert made == 0
    assert mill["v"].head(5).num_rows == 5
    assert len(mill.sql("SELECT p, xs FROM v LIMIT 7").rows()) == 7
    assert mill.sql("SELECT xh FROM v LIMIT 3 OFFSET 2").to_arrow().num_rows == 3
    assert "3000 rows" in repr(mill["v"])
    next(iter(mill["v"]))
    assert made < 200


def test_rows_that_go_are_gone(mill: vm.Mill) -> None:
    star(mill, 2, 3)
    mill.delete("h", [(0, 0), (0, 1), (0, 2)])
    assert mill["v"].count() == 27
    mill.insert("h", [(0, None), (0, None)])
    assert (mill["v"].count(), mill["v"].count(distinct=True)) == (27 + 18, 27 + 9)
    assert mill["v"].verify() == []
    with pytest.raises(vm.MissingRow):
        mill.delete("s", [(9, 9)])
    assert mill["v"].count() == 45


def test_a_change_ends_a_reading(mill: vm.Mill) -> None:
    star(mill, 2, 3)
    reader = mill["v"].batches()
    next(reader)
    mill.insert("h", [(0, 7)])
    with pytest.raises(vm.InvalidArgument, match="changed while its rows were read"):
        next(reader)


def test_a_refused_batch_ends_a_reading_too(mill: vm.Mill) -> None:
    """Rows that went and came again are in other places: some were read twice."""
    star(mill, 2, 3)
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT sum(10 / (xh + 10)) AS s FROM h")
    reader = mill["v"].batches()
    next(reader)
    changes = [{"p": 0, "xh": 0, "m": -1}, {"p": 0, "xh": -10, "m": 1}]
    with pytest.raises(vm.ViewmillError, match="division by zero"):
        mill.apply("h", changes, multiplicity="m")
    with pytest.raises(vm.InvalidArgument, match="changed while its rows were read"):
        next(reader)
    assert mill["v"].verify() == []


def test_reopening_replacing_and_refreshing(tmp_path: Any) -> None:
    with vm.connect(tmp_path / "m") as mill:
        star(mill, 2, 3)
    with vm.connect(tmp_path / "m") as mill:
        assert (mill["v"].count(), mill["v"].status()["result"]) == (54, "factorized")
        mill.insert("h", [(1, 5)])
        mill["v"].refresh(full=True)
        check(mill)
        mill.sql("ALTER MATERIALIZED VIEW v REFRESH ON DEMAND")
        mill.insert("h", [(1, 6)])
        assert mill["v"].count() == 63
        mill["v"].refresh()
        assert mill["v"].count() == 72
        mill.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT h.p, xs {STAR}")
        assert (len(mill["v"].rows()), mill["v"].status()["result"]) == (72, "listed")
        mill.sql(
            f"CREATE OR REPLACE MATERIALIZED VIEW v RESULT FACTORIZED AS SELECT h.p, xs {STAR}"
        )
        check(mill)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT h.p, count(*) FROM h JOIN s ON h.p = s.p GROUP BY h.p", "without aggregates"),
        ("SELECT DISTINCT h.p FROM h JOIN s ON h.p = s.p", "without aggregates"),
        ("SELECT h.p FROM h", "one table"),
        ("SELECT h.p FROM h JOIN s ON h.p < s.p", "no equality"),
        ("SELECT h.p FROM h LEFT JOIN s ON h.p = s.p", "left join"),
        ("SELECT h.p FROM h JOIN s ON h.p = s.p ORDER BY h.p", "ORDER BY"),
    ],
    ids=["group", "distinct", "one", "inequality", "outer", "order"],
)
def test_what_is_not_taken_is_said_kindly(mill: vm.Mill, query: str, reason: str) -> None:
    star(mill, 1, 1)
    with pytest.raises(vm.UnsupportedQuery, match=reason):
        mill.sql(f"CREATE MATERIALIZED VIEW w RESULT FACTORIZED AS {query}")
    with pytest.raises(vm.UnsupportedQuery, match="does not go with"):
        mill.sql(
            f"CREATE MATERIALIZED VIEW w RESULT FACTORIZED STRATEGY dataflow AS SELECT xh {STAR}"
        )
    with pytest.raises(vm.UnsupportedQuery, match="does not list its changes"):
        mill["v"].subscribe(print)


def test_a_product_of_rows_reaches_a_factorized_result(mill: vm.Mill) -> None:
    star(mill, 2, 3)
    mill.apply_product("h", [{"p": [0, 1, 2]}, {"xh": [10, 11]}])
    assert mill["v"].count() == 2 * 5 * 9
    check(mill)

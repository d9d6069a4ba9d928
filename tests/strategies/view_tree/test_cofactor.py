"""cofactor() and linear_regression() over tables and joins, against sums that DuckDB computes."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewmill as vm
from viewmill.errors import EvaluationFailed, TypeMismatch
from viewmill.testing.oracle import Oracle

TABLES = {
    "r": (("k", "INT"), ("g", "INT"), ("x", "INT"), ("y", "DOUBLE")),
    "s": (("k", "INT"), ("l", "INT"), ("z", "DOUBLE")),
    "t": (("l", "INT"), ("w", "INT")),
}
ALONE = "FROM r"
CHAIN = "FROM r JOIN s ON r.k = s.k JOIN t ON s.l = t.l"
PAIR = "FROM r JOIN s ON r.k = s.k"
SELF = "FROM r JOIN r AS q ON r.k = q.k"
# What is read, the columns of the aggregate, the group, a condition.
SHAPES = {
    "one table": (ALONE, ("x", "y"), None, None),
    "one table by group": (ALONE, ("x", "y"), "g", None),
    "chain": (CHAIN, ("x", "y", "z", "w"), None, None),
    "chain with its keys": (CHAIN, ("r.k", "x", "s.l", "w"), None, "z > 0"),
    "chain by group": (CHAIN, ("w", "z", "y"), "g", None),
    "chain by join key": (CHAIN, ("w", "z", "y"), "s.l", "x < 2"),
    "pair with its key": (PAIR, ("z", "x", "r.k", "y"), None, None),
    "self-join": (SELF, ("r.x", "q.y"), None, None),
    "an expression": (CHAIN, ("x + 1", "z * 2"), None, None),
}


def moments(columns: tuple[str, ...]) -> str:
    """The count, the sums and the products as columns of their own."""
    whole = " AND ".join(f"{each} IS NOT NULL" for each in columns)
    pairs = [f"({a}) * ({b})" for a, b in combinations_with_replacement(columns, 2)]
    sums = [f"coalesce(sum(({each})::DOUBLE), 0)" for each in (*columns, *pairs)]
    filtered = [f"{each[:-4]} FILTER (WHERE {whole}), 0)" for each in sums]
    return ", ".join([f"count(*) FILTER (WHERE {whole})", *filtered])


def rows_of(table: str) -> Any:
    values = {"INT": st.integers(-1, 2), "DOUBLE": st.sampled_from([-1.5, 0.1, 0.7, 2.0])}
    columns = [st.none() | values[type_] for _, type_ in TABLES[table]]
    return st.tuples(*columns)


CHANGES = st.lists(
    st.sampled_from(sorted(TABLES)).flatmap(
        lambda t: st.tuples(st.just(t), rows_of(t), st.integers(0, 3))
    ),
    min_size=1,
    max_size=14,
)


class Both:
    """A mill with one view, and the oracle beside it."""

    def __init__(self, shape: str) -> None:
        from_, columns, group, where = SHAPES[shape]
        self.mill, self.oracle, self.rows = vm.connect(), Oracle(), dict[str, list[Any]]()
        tail = (f" WHERE {where}" if where else "") + (f" GROUP BY {group}" if group else "")
        key = f"{group}, " if group else ""
        for name, schema in TABLES.items():
            self.oracle.create(name, schema)
            self.rows[name] = []
            self.mill.sql(f"CREATE TABLE {name} ({', '.join(map(' '.join, schema))})")
        call = f"cofactor({', '.join(columns)})"
        self.mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {key}{call} AS c {from_}{tail}")
        self.query = f"SELECT {key}{moments(columns)} {from_}{tail}"
        assert self.mill["v"].status()["strategy"] == "view_tree"

    def change(self, table: str, row: Any, action: int) -> None:
        """Insert a row, or delete one that is there."""
        known = self.rows[table]
        if action == 0 and known:
            gone = known.pop(0)
            self.mill.delete(table, [gone])
            self.oracle.change(table, gone, -1)
        else:
            known.append(row)
            self.mill.insert(table, [row])
            self.oracle.change(table, row, 1)

    def check(self) -> None:
        shown = sorted(map(flat, self.mill["v"].rows()), key=repr)
        expected = sorted(self.oracle.ask(self.query), key=repr)
        assert len(shown) == len(expected)
        for ours, theirs in zip(shown, expected, strict=True):
            assert len(ours) == len(theirs)
            for a, b in zip(ours, theirs, strict=True):
                assert a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9), (ours, theirs)


def flat(row: tuple[Any, ...]) -> tuple[Any, ...]:
    value = row[-1]
    return (*row[:-1], value["n"], *value["sums"], *value["products"])


@pytest.mark.parametrize("shape", sorted(SHAPES))
@given(changes=CHANGES)
@settings(max_examples=6, deadline=None)
def test_cofactor_equals_duckdb_sums(shape: str, changes: Any, monkeypatch_module: Any) -> None:
    both = Both(shape)
    with both.mill:
        for table, row, action in changes:
            both.change(table, row, action)
            both.check()
        assert both.mill["v"].verify() == []
    both.oracle.close()


@pytest.fixture(scope="module", autouse=True)
def monkeypatch_module() -> Any:
    """The trigger source is the same; plain structures need no compiling."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VIEWMILL_COMPILER", "off")
        yield patch


def test_compiled_blocks_equal_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    both = Both("pair with its key")
    with both.mill:
        for name, schema in TABLES.items():
            rows = [tuple(int(x) for x in random.integers(-2, 4, len(schema))) for _ in range(60)]
            for row in rows:
                both.oracle.change(name, row, 1)
            both.mill.insert(name, rows)
            both.mill.delete(name, rows[:20])
            for row in rows[:20]:
                both.oracle.change(name, row, -1)
        both.check()
    both.oracle.close()


def test_a_rollback_leads_back_past_the_first_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers need no low parts; the first fraction makes room for them, in journals too."""
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    both = Both("chain")
    with both.mill as mill:
        for i in range(40):
            both.change("r", (i % 5, 0, i % 3, float(i % 4)), 1)
            both.change("s", (i % 5, i % 4, float(i % 7)), 1)
            both.change("t", (i % 4, i), 1)
        both.check()
        before = mill["v"].rows()
        monkeypatch.setenv("VIEWMILL_COMPILER", "off")
        mill.sql("CREATE MATERIALIZED VIEW failing AS SELECT 1 / (x - 9) AS one FROM r")
        with pytest.raises(EvaluationFailed), mill.batch():  # noqa: PT012 (it fails at its end)
            mill.insert("s", [(2, 1, 0.1), (3, 3, 1e-9), (9, 9, 0.3)])
            mill.insert("r", [(1, 0, 1, 0.1), (2, 0, 2, 1e-7), (3, 0, 9, 0.0)])
        assert mill["v"].rows() == before
        for i in range(6):
            both.change("r", (i % 5, 0, 1, 0.1 * i), 1)
            both.change("s", (i % 5, i % 4, 1e-3 * i), 1)
        both.check()
        for _ in range(46):
            both.change("r", None, 0)
        for _ in range(46):
            both.change("s", None, 0)
        both.change("r", (1, 0, 2, 0.5), 1)
        both.change("s", (1, 1, 0.25), 1)
        both.check()
        bytes_ = mill.core.catalog.view("v").block.maintainer.state_bytes()
        assert sum(bytes_.values()) < 100_000
    both.oracle.close()


def test_an_emptied_group_disappears_and_comes_back_clean() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (g INT, x DOUBLE, y DOUBLE)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT g, cofactor(x, y) AS c FROM t GROUP BY g")
        rows = [(1, 0.1 * i, 1 / (i + 3)) for i in range(50)]
        mill.insert("t", rows)
        mill.delete("t", rows[::-1])
        assert mill["v"].rows() == []
        mill.insert("t", [(1, 2.0, 3.0)])
        assert flat(mill["v"].rows()[0]) == (1, 1, 2.0, 3.0, 4.0, 6.0, 9.0)


def test_huge_rows_that_leave_take_nothing_with_them() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x DOUBLE, y DOUBLE)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT cofactor(x, y) AS c FROM t")
        mill.insert("t", [(0.1, 0.2), (3e9, 1e10), (0.3, 0.7)])
        mill.insert("t", [(1e12, 7.0)] * 5)
        mill.delete("t", [(1e12, 7.0)] * 5)
        mill.delete("t", [(3e9, 1e10)])
        ((shown),) = mill["v"].rows()
        expected = (2, 0.4, 0.9, 0.1, 0.1 * 0.2 + 0.3 * 0.7, 0.2**2 + 0.7**2)
        assert flat(shown) == pytest.approx(expected, rel=1e-9)


def test_rows_with_nan_or_null_are_skipped() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x DOUBLE, y DOUBLE)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT cofactor(x, y) AS c, count(*) AS n FROM t")
        odd = [(math.nan, 1.0), (1.0, math.inf), (None, 2.0), (1e200, 1.0)]
        mill.insert("t", [*odd, (2.0, 3.0)])
        ((value, count),) = mill["v"].rows()
        assert flat((value,)) == (1, 2.0, 3.0, 4.0, 6.0, 9.0)
        assert count == 5
        assert mill["v"].verify() == []
        mill.delete("t", odd)
        assert mill["v"].verify() == []


def test_linear_regression_equals_lstsq_on_the_join() -> None:
    random = np.random.default_rng(1)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (k INT, x DOUBLE, y DOUBLE)")
        mill.sql("CREATE TABLE s (k INT, z DOUBLE)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT linear_regression(y, x, z) AS m "
            "FROM r JOIN s ON r.k = s.k"
        )
        assert mill["v"].rows() == [(None,)]
        r = [(int(k), float(a), float(b)) for k, a, b in random.normal(3, 2, (40, 3)) // 0.01 / 100]
        s = [(int(k), float(a)) for k, a in random.normal(3, 2, (40, 2))]
        mill.insert("r", r)
        mill.insert("s", s)
        ((found,),) = mill["v"].rows()
        joined = np.array([(1.0, x, z, y) for k, x, y in r for j, z in s if k == j])
        expected = np.linalg.lstsq(joined[:, :3], joined[:, 3], rcond=None)[0]
        assert found["n"] == len(joined)
        assert found["label"] == "y"
        assert found["names"] == ["x", "z"]
        assert [found["intercept"], *found["coefficients"]] == pytest.approx(expected, rel=1e-8)
        assert mill["v"].verify() == []


def test_collinear_and_constant_columns_do_not_fail() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (y DOUBLE, a DOUBLE, b DOUBLE, c DOUBLE)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT linear_regression(y, a, b, c) AS m FROM t")
        mill.insert("t", [(3.0 * i + 1, float(i), 2.0 * i, 5.0) for i in range(10)])
        ((found,),) = mill["v"].rows()
        slope = found["coefficients"][0] + 2 * found["coefficients"][1]
        assert slope == pytest.approx(3.0)
        assert found["coefficients"][2] == 0.0
        assert found["intercept"] == pytest.approx(1.0)
        assert found["r2"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("cofactor()", "at least one column"),
        ("linear_regression(x)", "a label and at least one column"),
        ("cofactor(DISTINCT x)", "DISTINCT"),
        ("linear_regression(x, name)", "number"),
        ("cofactor(x) OVER ()", "OVER"),
    ],
    ids=["no column", "no feature", "distinct", "text", "over"],
)
def test_wrong_calls_are_refused_kindly(call: str, says: str) -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x DOUBLE, name STRING)")
        with pytest.raises(TypeMismatch, match=says):
            mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {call} FROM t")


def test_a_durable_mill_comes_back_with_its_moments(tmp_path: Any) -> None:
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql("CREATE TABLE t (g INT, x DOUBLE)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT g, cofactor(x) AS c FROM t GROUP BY g")
        mill.insert("t", [(1, 0.1), (1, 0.2), (2, 5.0)])
        before = sorted(mill["v"].rows(), key=repr)
    with vm.connect(tmp_path / "m.mill") as mill:
        assert sorted(mill["v"].rows(), key=repr) == before
        mill.delete("t", [(2, 5.0)])
        assert len(mill["v"].rows()) == 1


def test_a_delete_may_come_before_its_insert() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (k INT, x DOUBLE) UNCHECKED")
        mill.sql("CREATE TABLE s (k INT, y DOUBLE) UNCHECKED")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT cofactor(x, y) AS c FROM r JOIN s ON r.k = s.k"
        )
        mill.insert("s", [(1, 10.0)])
        mill.delete("r", [(1, 3.0)])
        mill.insert("r", [(1, 5.0)])
        ((value,),) = mill["v"].rows()
        assert (value["n"], value["sums"]) == (0, [0.0, 0.0])  # one row came, one is missing
        mill.insert("s", [(1, 1.0)])
        mill.insert("r", [(1, 3.0)])
        ((value,),) = mill["v"].rows()
        assert flat((value,)) == (2, 10.0, 11.0, 50.0, 55.0, 101.0)


def test_a_triangle_has_cofactors() -> None:
    random = np.random.default_rng(3)
    with vm.connect() as mill:
        for name, a, b in (("r", "a", "b"), ("s", "b", "c"), ("t", "c", "a")):
            mill.sql(f"CREATE TABLE {name} ({a} INT, {b} INT, x{name} DOUBLE)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT cofactor(xr, xs, xt, r.a, s.b) AS c FROM r "
            "JOIN s ON r.b = s.b JOIN t ON s.c = t.c AND t.a = r.a"
        )
        assert mill["v"].status()["strategy"] == "view_tree"
        rows = random.integers(0, 3, (24, 3)).tolist()
        for i, row in enumerate(rows):
            mill.insert("rst"[i % 3], [tuple(row)])
        assert mill["v"].verify() == []
        assert mill["v"].rows()[0][0]["n"] > 0
        for i, row in enumerate(rows[:18]):
            mill.delete("rst"[i % 3], [tuple(row)])
            assert mill["v"].verify() == []


@pytest.mark.parametrize("compiler", [pytest.param("on", marks=pytest.mark.slow), "off"])
def test_wide_cofactors_of_a_star(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From sixteen columns on, rows are padded and products are made from means, many at once."""
    monkeypatch.setenv("VIEWMILL_COMPILER", compiler)
    random = np.random.default_rng(7)
    widths = {"r": 9, "s": 7, "t": 1}
    with vm.connect() as mill:
        for name, width in widths.items():
            columns = ", ".join(f"{name}{i} DOUBLE" for i in range(width))
            mill.sql(f"CREATE TABLE {name} (k INT, {columns}) UNCHECKED")
        names = [f"{name}{i}" for name, width in widths.items() for i in range(width)]
        mill.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT cofactor(r.k, {', '.join(names)}) AS c "
            "FROM r JOIN s ON r.k = s.k JOIN t ON r.k = t.k"
        )
        rows = {
            name: [(int(k), *map(float, x)) for k, *x in random.integers(0, 4, (40, 1 + width))]
            for name, width in widths.items()
        }
        for name, some in rows.items():
            mill.insert(name, some)
        assert mill["v"].verify() == []
        assert mill["v"].rows()[0][0]["n"] > 0
        # One row too few and one too many: the count of the key is zero, its sums are not.
        gone, odd = rows["s"][0], (rows["s"][0][0], *[9.5] * 7)
        for row in (row for row in rows["s"][1:] if row[0] == gone[0]):
            mill.delete("s", [row])
        mill.delete("s", [odd])
        mill.insert("r", [rows["r"][0]])
        mill.delete("r", [rows["r"][0]])
        mill.insert("r", [(gone[0], *[0.5] * 9)])
        mill.insert("s", [odd])
        assert mill["v"].verify() == []
        for name, some in rows.items():
            mill.delete(name, [row for row in some if name != "s" or row[0] != gone[0]])
        mill.delete("s", [gone])
        mill.delete("r", [(gone[0], *[0.5] * 9)])
        ((value,),) = mill["v"].rows()
        assert value["n"] == 0
        assert set(value["sums"]) == {0.0}


def test_fields_of_moments_stand_in_having_and_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as mill:
        for name, columns in TABLES.items():
            mill.sql(f"CREATE TABLE {name} ({', '.join(f'{c} {t}' for c, t in columns)})")
        call = "cofactor(x, z)"
        mill.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT g, {call} AS c {PAIR} GROUP BY g "
            "HAVING c.n > 1 AND c.sums[0] > 3"
        )
        mill.sql(
            f"CREATE MATERIALIZED VIEW w AS SELECT g, {call}.n AS n, {call}.sums[1] AS z, "
            f"{call}.products[1] + {call}.n AS xz {PAIR} GROUP BY g"
        )
        mill.insert("s", [(1, 1, 0.5), (1, 2, 1.5), (2, 1, None)])
        mill.insert("r", [(1, 7, 2, 0.0), (1, 8, 1, 0.0), (2, 7, 9, 0.0), (1, 9, None, 0.0)])
        assert [(g, c["n"], c["sums"]) for g, c in mill["v"].rows()] == [(7, 2, [4.0, 2.0])]
        mill.delete("r", [(1, 9, None, 0.0)])
        assert sorted(mill["w"].rows()) == [(7, 2, 2.0, 6.0), (8, 2, 2.0, 4.0)]
        assert mill["w"].status()["strategy"] == "view_tree"
        assert mill["v"].verify() == []
        assert mill["w"].verify() == []
        read = mill.sql("SELECT v.c.n, c.sums[0] FROM v").rows()
        assert read == [(2, 4.0)]
        with pytest.raises(vm.ViewmillError, match="sums\\[2\\] of 2 values"):
            mill.sql(f"CREATE MATERIALIZED VIEW x AS SELECT {call}.sums[2] {PAIR}")


@pytest.mark.parametrize("compiler", ["off", "on"])
def test_a_row_deleted_before_it_comes_is_not_counted(compiler, monkeypatch):
    """The whole table's cofactor showed n = -1."""
    monkeypatch.setenv("VIEWMILL_COMPILER", compiler)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (x DOUBLE, y DOUBLE) UNCHECKED")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT cofactor(x, y) AS c FROM r")
        mill.delete("r", [(1.0, 2.0)])
        ((shown,),) = mill["v"].rows()
        assert (shown["n"], shown["sums"], shown["products"]) == (0, [0.0, 0.0], [0.0, 0.0, 0.0])
        mill.insert("r", [(1.0, 2.0), (3.0, 4.0)])
        ((shown,),) = mill["v"].rows()
        assert (shown["n"], shown["sums"]) == (1, [3.0, 4.0])


@pytest.mark.parametrize("query", ["SELECT * FROM v", "SELECT g, c FROM v WHERE g > 1"])
def test_a_view_over_a_cofactor_follows_it(query, uncompiled):
    """CREATE failed: the column has several words, and one was expected."""
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (g INT, x DOUBLE)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT g, cofactor(x) AS c FROM r GROUP BY g")
        mill.sql(f"CREATE MATERIALIZED VIEW w AS {query}")
        mill.sql("CREATE MATERIALIZED VIEW above AS SELECT * FROM w")
        mill.insert("r", [(2, 1.0), (2, 5.0)])
        assert mill["above"].rows() == mill["w"].rows() == mill["v"].rows()
        assert mill["w"].verify() == mill["above"].verify() == []

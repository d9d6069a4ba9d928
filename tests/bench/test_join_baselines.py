"""The baselines are other ways to the same result, and the join benches notice a wrong one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.bench import joins
from viewmill.bench.baselines.recursive import SubJoins
from viewmill.bench.baselines.systems import BASELINES, block_in
from viewmill.bench.joins import JoinWorkload, run
from viewmill.bench.moments import by_number, listed
from viewmill.bench.report import Report
from viewmill.bench.tree import COLUMNS, FACTORIZED, QUERY
from viewmill.deltas.rows import to_delta

pytestmark = pytest.mark.usefixtures("uncompiled")

FIGURE_2 = {
    "R": "A BIGINT, B BIGINT",
    "S": "A BIGINT, C BIGINT, E BIGINT",
    "T": "C BIGINT, D BIGINT",
}
JOINED = "FROM R JOIN S ON R.A = S.A JOIN T ON S.C = T.C"
TRIANGLE = {"X": "A BIGINT, B BIGINT", "Y": "B BIGINT, C BIGINT", "Z": "C BIGINT, A BIGINT"}
CASES: dict[str, tuple[dict[str, str], str]] = {
    "products": (FIGURE_2, f"SELECT SUM(R.B * T.D * S.E) AS q, COUNT(*) AS n {JOINED}"),
    "sums of join columns": (FIGURE_2, f"SELECT SUM(R.A * R.A * S.C) AS q {JOINED}"),
    "groups": (FIGURE_2, f"SELECT S.A, T.D, SUM(R.B * S.C) AS q {JOINED} GROUP BY S.A, T.D"),
    "rows": (FIGURE_2, f"SELECT S.A, T.D {JOINED}"),
    "cycle": (
        TRIANGLE,
        "SELECT COUNT(*) AS n, SUM(X.A * Y.C) AS s "
        "FROM X JOIN Y ON X.B = Y.B JOIN Z ON Y.C = Z.C AND Z.A = X.A",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_baseline_has_the_result_of_the_view(case: str) -> None:
    tables, query = CASES[case]
    chance = random.Random(case)
    with vm.connect() as mill:
        for name, columns in tables.items():
            mill.sql(f"CREATE TABLE {name} ({columns})")
        mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {query}")
        systems = {name: make(mill, query) for name, make in BASELINES.items()}
        present: dict[str, list[Any]] = {name: [] for name in tables}
        for _ in range(8):
            table = chance.choice(list(tables))
            width = tables[table].count(",") + 1
            gone = [present[table].pop() for _ in range(min(len(present[table]), 2))]
            come = [tuple(chance.choice([None, 0, 1, 2]) for _ in range(width)) for _ in range(5)]
            present[table] += come
            schema = mill._core.catalog.table(table).table.schema
            with mill.batch():
                mill.insert(table, come)
                mill.delete(table, gone)
            for system in systems.values():
                system.apply(table, to_delta(come, schema, mill._core.dictionary))
                system.apply(table, to_delta(gone, schema, mill._core.dictionary).negated())
            expected = sorted(mill["v"].rows(), key=str)
            for name, system in systems.items():
                assert sorted(system.rows(), key=str) == expected, name


WIDE = {
    "X": "k BIGINT NOT NULL, " + ", ".join(f"x{i} BIGINT NOT NULL" for i in range(6)),
    "Y": "k BIGINT NOT NULL, l BIGINT NOT NULL, " + ", ".join(f"y{i} BIGINT" for i in range(5)),
    "Z": "l BIGINT NOT NULL, " + ", ".join(f"z{i} BIGINT NOT NULL" for i in range(6)),
}


@pytest.mark.parametrize("attributes", [1, 5])
def test_recursion_with_rings_has_the_moments_of_the_view(attributes: int) -> None:
    """Blocks are kept in one order of columns and made in another, by whichever table changed."""
    own = [f"{t.lower()}{i}" for t in "ZXY" for i in range(attributes)]
    call = f"cofactor(X.k, {', '.join(own)})"
    query = f"SELECT {call} AS c FROM X JOIN Y ON X.k = Y.k JOIN Z ON Y.l = Z.l"
    chance = random.Random(attributes)
    with vm.connect() as mill:
        for name, columns in WIDE.items():
            mill.sql(f"CREATE TABLE {name} ({columns})")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        systems = {n: BASELINES[n](mill, query) for n in ("recursive_ring", "reevaluate")}
        for step in range(9):
            table = "XYZ"[step % 3]
            width = WIDE[table].count(",") + 1
            rows = [tuple(chance.randrange(3) for _ in range(width)) for _ in range(4)]
            schema = mill._core.catalog.table(table).table.schema
            mill.insert(table, rows)
            for system in systems.values():
                system.apply(table, to_delta(rows, schema, mill._core.dictionary))
            for name, system in systems.items():
                assert system.rows() == mill["v"].rows(), name


def test_the_recursion_keeps_what_the_paper_counts() -> None:
    """Example 1.1: the tables, and the two joins that a change of the third leaves."""
    with vm.connect() as mill:
        for name, columns in FIGURE_2.items():
            mill.sql(f"CREATE TABLE {name} ({columns})")
        reached = SubJoins(block_in(mill, f"SELECT COUNT(*) AS n {JOINED}")).reached()
    assert {"".join(sorted(each)) for each in reached} == {"RST", "RS", "ST", "R", "S", "T"}


def small(expected: str = FACTORIZED) -> JoinWorkload:
    chance = np.random.default_rng(1)
    rows = {
        name: pa.table({each.split()[0]: chance.integers(0, 5, 40) for each in columns.split(", ")})
        for name, columns in COLUMNS.items()
    }
    return JoinWorkload("tree", COLUMNS, rows, QUERY, expected, ids=True)


def test_a_bench_of_joins_has_every_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "_DUCKDB_SECONDS", 0.1)
    report = Report("tree", 1)
    run(small(), report, (1_000,), lambda _: None)
    assert report.verified
    systems = {figure.system for figure in report.results}
    assert systems == {"viewmill", "kernel", "duckdb", *BASELINES}
    assert {"rows_per_cpu_s", "us_per_update", "p99_ms", "state_bytes", "content_bytes"} <= {
        figure.metric for figure in report.results
    }
    assert report.value("recursive", "state_bytes", updates="largest") > 0


def test_a_bench_of_joins_notices_a_wrong_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "_DUCKDB_SECONDS", 0.1)
    report = Report("tree", 1)
    run(small(FACTORIZED.replace("SUM(b)", "MAX(b)")), report, (1_000,), lambda _: None)
    assert not report.verified


def test_numbers_of_a_cofactor_stand_for_their_kind() -> None:
    """One of each kind is run; together they stand for all, and a wrong one is noticed."""
    generator = np.random.default_rng(3)
    columns = {"X": "k BIGINT NOT NULL, a BIGINT NOT NULL, b BIGINT NOT NULL",
               "Y": "k BIGINT NOT NULL, c BIGINT NOT NULL"}  # fmt: skip
    rows = {
        name: pa.table({each.split()[0]: generator.integers(0, 9, 40) for each in text.split(", ")})
        for name, text in columns.items()
    }
    names, joined = ("X.a", "X.b", "Y.c"), "X JOIN Y ON X.k = Y.k"
    scalars = by_number(names, joined)
    assert sum(each.times for each in scalars) == 1 + 3 + 6
    query = listed(names, joined)
    workload = JoinWorkload("small", columns, rows, query, query, scalars=scalars)
    expected = joins._expected(workload)
    wrong = [tuple(value + 1 for value in expected[0])]
    for name in ("first_order", "recursive"):
        report = Report("small", 3)
        assert joins._by_number(name, workload, report, "all", expected)
        assert not joins._by_number(name, workload, report, "all", wrong)
        assert report.results[0].workload["numbers"] == 10

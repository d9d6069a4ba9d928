"""Policies of every kind, changed at random while rows wait, against DuckDB over Python lists.

A stale view must show what its query gave when it was last fresh, a fresh one what it gives now,
each over what the tables and views that it reads show; no code of the mill computes the answer.
VIEWMILL_POLICY_SEEDS=100-200 runs other seeds.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewmill as vm

TABLES = {"r": ("k", "x"), "s": ("k", "y"), "u": ("k", "z")}
KEYED = {"u"}  # the table with a primary key

# Each reads what its name in FROM says: tables, and views a to h when they are there.
QUERIES = {
    "a": [
        "SELECT k, count(*) AS n, sum(x) AS x FROM r GROUP BY k",
        "SELECT k, max(x) AS n, min(x) AS x FROM r GROUP BY k",
        "SELECT DISTINCT k, x % 3 AS n, k * k AS x FROM r",
    ],
    "b": [
        "SELECT count(*) AS n, sum(r.x * s.y) AS q FROM r JOIN s ON r.k = s.k",
        "SELECT count(*) AS n, sum(x) AS q FROM r WHERE x > 0",
        "SELECT count(*) AS n, max(r.x + s.y) AS q FROM r LEFT JOIN s ON r.k = s.k",
    ],
    "c": [
        "SELECT r.k, r.x, s.y FROM r JOIN s ON r.k = s.k WHERE r.x > s.y",
        "SELECT k, x, x AS y FROM r UNION ALL SELECT k, y, y FROM s",
        "SELECT r.k, r.x, u.z AS y FROM r JOIN u ON r.k = u.k",
    ],
    "d": [
        "SELECT a.k, a.n, s.y FROM a JOIN s ON a.k = s.k",
        "SELECT k, sum(n) AS n, count(*) AS y FROM a GROUP BY k",
    ],
    "e": [
        "SELECT k, count(*) AS n FROM c GROUP BY k HAVING count(*) > 1",
        "SELECT k, n FROM a WHERE n > (SELECT avg(n) FROM a)",
    ],
    "f": [
        "SELECT sum(r.x) AS t FROM r WHERE r.x > (SELECT avg(q.x) FROM r q WHERE q.k = r.k)",
        "SELECT sum(n) AS t FROM a",
        "SELECT count(*) AS t FROM r WHERE EXISTS (SELECT 1 FROM u WHERE u.k = r.k)",
    ],
    "g": ["SELECT d.k, d.n, e.n AS m FROM d JOIN e ON d.k = e.k", "SELECT k, n, n - n AS m FROM d"],
    "h": ["SELECT k, x, rank() OVER (PARTITION BY k ORDER BY x) AS p FROM r"],
    "i": [],  # shares its blocks with a
}
QUERIES["i"] = QUERIES["a"]
POLICIES = [
    ["IMMEDIATE"],
    ["ON DEMAND"],
    ["EVERY 3 ROWS"],
    ["EVERY 12 ROWS"],
    ["EVERY INTERVAL '1000' SECONDS"],
    ["WITHIN INTERVAL '1000' SECONDS"],
    ["ON READ AFTER INTERVAL '0' SECONDS"],
    ["ON READ AFTER INTERVAL '1000' SECONDS"],
    ["EVERY 20 ROWS", "ON READ AFTER INTERVAL '0' SECONDS"],
]
CLAUSES = ["", "", "", "", "REFRESH POLICY FULL", "MEMORY '1 KB'", "MEMORY '64 KB'"]

Row = tuple[Any, ...]


class Model:
    """Tables as lists, and what each view must show."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {name: [] for name in TABLES}
        self.queries: dict[str, str] = {}
        self.policies: dict[str, list[str]] = {}
        self.shown: dict[str, Counter[Row]] = {}
        self.taken: dict[str, Any] = {}  # what its sources were when it was last fresh
        self.duck = duckdb.connect()

    def reads(self, view: str) -> list[str]:
        words = self.queries[view].replace("(", " ").split()
        names = [*TABLES, *QUERIES]
        pairs = itertools.pairwise(words)
        return [name for word, name in pairs if word in ("FROM", "JOIN") and name in names]

    def contents(self, name: str) -> tuple[tuple[str, ...], list[Row]]:
        if name in TABLES:
            return TABLES[name], self.rows[name]
        columns = self.duck.sql(f"SELECT * FROM {name} LIMIT 0").columns
        return tuple(columns), list(self.shown[name].elements())

    def answer(self, view: str) -> Counter[Row]:
        """What the query gives over what its sources show now."""
        for name in dict.fromkeys(self.reads(view)):
            columns, rows = self.contents(name)
            typed = ", ".join(f"{each} BIGINT" for each in columns)
            self.duck.execute(f"CREATE OR REPLACE TABLE {name} ({typed})")
            if rows:
                marks = ", ".join("?" for _ in columns)
                self.duck.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        table = self.duck.sql(self.queries[view])
        found = Counter(tuple(row) for row in table.fetchall())
        typed = ", ".join(f"{each} BIGINT" for each in table.columns)
        self.duck.execute(f"CREATE OR REPLACE TABLE {view} ({typed})")
        return found

    def sources(self, view: str) -> dict[str, Counter[Row]]:
        return {name: Counter(self.contents(name)[1]) for name in self.reads(view)}

    def order(self) -> list[str]:
        return sorted(self.queries)  # by their letters every view reads earlier ones


class Session:
    """One mill and its model, moved step by step."""

    def __init__(self, seed: int, path: Path | None) -> None:
        self.random = random.Random(seed)
        self.path = path
        self.model = Model()
        self.mill = vm.connect(path)
        self.log: list[str] = []
        self.nets: dict[str, Counter[Row]] = {}
        for name, columns in TABLES.items():
            typed = ", ".join(f"{each} BIGINT" for each in columns)
            key = f", PRIMARY KEY ({columns[0]})" if name in KEYED else ""
            self.mill.sql(f"CREATE TABLE {name} ({typed}{key})")

    def row(self) -> tuple[int, int]:
        return self.random.randrange(4), self.random.randrange(-3, 9)

    def follow(self, view: str) -> None:
        """Add up what subscribers get, from what is shown now."""
        net = self.nets[view] = Counter(self.mill[view].rows())

        def add(change: Any) -> None:
            for row, times in zip(*_listed(change), strict=True):
                net[row] += times

        self.mill[view].subscribe(add)

    # Steps.

    def step(self) -> None:
        steps = [
            *[self.insert] * 6, *[self.delete] * 4, *[self.batch] * 2, self.upsert, self.refused,
            *[self.alter] * 5, *[self.refresh] * 2, self.refresh_fully, *[self.create] * 3,
            self.replace, self.drop, self.reopen, self.read,
        ]  # fmt: skip
        step = self.random.choice(steps)
        self.log.append(step.__name__)
        step()

    def insert(self) -> None:
        name = self.random.choice(["r", "s"])
        rows = [self.row() for _ in range(self.random.choice([1, 1, 2, 5, 15]))]
        self.log.append(f"{name} {rows}")
        self.mill.insert(name, rows)
        self.model.rows[name] += rows

    def delete(self) -> None:
        name = self.random.choice(["r", "s", "u"])
        held = self.model.rows[name]
        gone = self.random.sample(held, min(len(held), self.random.choice([1, 2, 8])))
        self.log.append(f"{name} {gone}")
        self.mill.delete(name, gone)
        for row in gone:
            held.remove(row)

    def upsert(self) -> None:
        rows: dict[int, int] = dict(self.row() for _ in range(3))
        self.mill.upsert("u", list(rows.items()))
        held = {**dict(self.model.rows["u"]), **rows}
        self.model.rows["u"] = list(held.items())

    def batch(self) -> None:
        with self.mill.batch():
            for _ in range(self.random.choice([1, 3])):
                self.random.choice([self.insert, self.delete])()

    def refused(self) -> None:
        with pytest.raises(vm.ViewmillError), self.mill.batch():  # noqa: PT012 (it ends the batch)
            self.mill.insert("r", [self.row()])
            self.mill.delete("s", [(77, 77)])

    def _some(self) -> str | None:
        return self.random.choice(self.model.order()) if self.model.queries else None

    def alter(self) -> None:
        view = self._some()
        if view is not None:
            policies = self.random.choice(POLICIES)
            self.log.append(f"{view} {policies}")
            self.mill[view].set_policies(*policies)
            self.model.policies[view] = policies

    def refresh(self) -> None:
        view = self._some()
        if view is not None:
            self.log.append(view)
            self.mill[view].refresh()
            assert self.mill[view].status()["freshness"] == "fresh"

    def refresh_fully(self) -> None:
        view = self._some()
        if view is not None:
            self.log.append(view)
            self.mill[view].refresh(full=True)

    def read(self) -> None:
        view = self._some()
        if view is not None:
            self.mill.sql(f"SELECT count(*) FROM {view}").rows()

    def create(self) -> None:
        absent = [view for view in QUERIES if view not in self.model.queries]
        for view in absent:
            self.model.queries[view] = query = self.random.choice(QUERIES[view])
            reads = self.model.reads(view)
            del self.model.queries[view]
            if all(each in TABLES or each in self.model.queries for each in reads):
                self._define(view, query, "CREATE")
                return

    def replace(self) -> None:
        view = self._some()
        if view is not None:
            query = self.random.choice(QUERIES[view])
            before = self.model.queries[view]
            self.model.queries[view] = query
            reads = self.model.reads(view)
            self.model.queries[view] = before
            if all(each in TABLES or each in self.model.queries for each in reads):
                self._define(view, query, "CREATE OR REPLACE")

    def _define(self, view: str, query: str, create: str) -> None:
        policies = self.random.choice([POLICIES[0], *POLICIES])
        clauses = " ".join(f"REFRESH {each}" for each in policies)
        more = self.random.choice(CLAUSES)
        sql = f"{create} MATERIALIZED VIEW {view} {clauses} {more} AS {query}"
        self.log.append(sql)
        self.mill.sql(sql)
        self.model.queries[view], self.model.policies[view] = query, policies
        if view not in self.nets:
            self.follow(view)

    def drop(self) -> None:
        for view in reversed(self.model.order()):
            if not any(view in self.model.reads(each) for each in self.model.queries):
                self.log.append(view)
                self.mill.sql(f"DROP MATERIALIZED VIEW {view}")
                for known in (self.model.queries, self.model.policies, self.nets):
                    del known[view]
                return

    def reopen(self) -> None:
        if self.path is None:
            return
        if self.random.random() < 0.3:
            self.mill.checkpoint()
        before = {view: self.mill[view].status() for view in self.model.order()}
        self.mill.close()
        self.mill = vm.connect(self.path)
        self.nets.clear()
        for view, status in before.items():
            if set(self.model.reads(view)) <= set(TABLES):
                assert self.mill[view].status()["freshness"] == status["freshness"], view
            self.follow(view)

    # Judging.

    def check(self) -> None:
        for view in self.model.order():
            rows = Counter(self.mill[view].rows())
            status = self.mill[view].status()
            if status["freshness"] == "fresh":
                self.model.shown[view] = self.model.answer(view)
                self.model.taken[view] = self.model.sources(view)
            assert rows == self.model.shown[view], f"{view}: {status}"
            self._check_policy(view, status)
            assert +self.nets[view] == rows, f"changes of {view}"
            assert not -self.nets[view]
        for view in self.model.order():
            assert self.mill[view].verify() == [], view

    def _check_policy(self, view: str, status: dict[str, Any]) -> None:
        """A view is late only as far as its policies let it be."""
        for policy in self.model.policies[view]:
            if policy in ("IMMEDIATE", "ON READ AFTER INTERVAL '0' SECONDS"):
                assert status["freshness"] == "fresh", f"{view} {policy}"
            elif policy.endswith("ROWS"):
                assert status["waiting_rows"] < int(policy.split()[1]), f"{view} {policy}"


def _listed(change: Any) -> tuple[list[Row], list[int]]:
    table = change.to_arrow()
    times = table.column("_multiplicity").to_pylist()
    columns = [each.to_pylist() for each in table.drop_columns(["_multiplicity"]).columns]
    return list(zip(*columns, strict=True)), times


def _seeds() -> range:
    first, _, last = os.environ.get("VIEWMILL_POLICY_SEEDS", "0-6").partition("-")
    return range(int(first), int(last))


@pytest.mark.parametrize("seed", _seeds())
def test_views_show_their_own_version_whatever_policies_they_get(uncompiled, tmp_path, seed):
    path = tmp_path / "m.mill" if seed % 2 else None
    session = Session(seed, path)
    try:
        for _ in range(int(os.environ.get("VIEWMILL_POLICY_STEPS", "30"))):
            session.step()
            session.check()
    except BaseException as why:
        why.add_note("\n".join(session.log))
        raise
    finally:
        session.mill.close()

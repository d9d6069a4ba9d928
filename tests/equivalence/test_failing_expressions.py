"""Views whose expressions can fail, under guards, joins and filters.

A batch is refused exactly when the query fails over the new rows; what is accepted shows what
Python computes over plain lists.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from tests.equivalence.failing_oracle import STRICT, Expr, Failed, Maker, column, group, passes

import viewmill as vm

TABLES = {
    "r": ("k INT, a INT, b INT, t STRING", ["r.k", "r.a", "r.b"], ["r.t"]),
    "s": ("k INT, c INT, u STRING", ["s.k", "s.c"], ["s.u"]),
    "q": ("k INT, e INT", ["q.k", "q.e"], []),
}
NAMES = {"r": ("k", "a", "b", "t"), "s": ("k", "c", "u"), "q": ("k", "e")}


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


Data = dict[str, list[tuple[Any, ...]]]


class Query:
    """A random query over joined tables: its SQL, and its rows by brute force."""

    def __init__(self, rng: random.Random) -> None:
        self.tables = rng.choice([("r",), ("r", "s"), ("r", "s"), ("r", "s", "q")])
        self.kind = rng.choice(["inner", "inner", "left"]) if len(self.tables) == 2 else "inner"
        ints = [name for each in self.tables for name in TABLES[each][1]]
        texts = [name for each in self.tables for name in TABLES[each][2]]
        maker = Maker(rng, ints, texts)
        self.where = [maker.condition() for _ in range(rng.choice([0, 1, 1, 2]))]
        if self.kind == "left":
            self.where = []
        self.nested = self.kind == "inner" and rng.random() < 0.15
        self.key = rng.choice([None, column("r.k"), column("r.k"), maker.failing()])
        self.calls = []
        for _ in range(rng.choice([1, 1, 2])):
            where = maker.condition() if rng.random() < 0.3 else None
            self.calls.append((rng.choice(["sum", "count", "avg", "max"]), maker.value(), where))
        self.listed = [maker.value() for _ in range(2)] if rng.random() < 0.2 else None

    def sql(self) -> str:
        """The query."""
        join = {"inner": "JOIN", "left": "LEFT JOIN"}[self.kind]
        source = "r" + "".join(f" {join} {each} ON {each}.k = r.k" for each in self.tables[1:])
        where = [each.sql for each in self.where]
        if self.nested:
            where.insert(0, "r.a > (SELECT AVG(x.a) FROM r x)")
        text = f" FROM {source}" + (f" WHERE {' AND '.join(where)}" if where else "")
        if self.listed is not None:
            return (
                f"SELECT {', '.join(f'{e.sql} AS c{i}' for i, e in enumerate(self.listed))}{text}"
            )
        shown = [f"{_call(each)} AS c{i}" for i, each in enumerate(self.calls)]
        if self.key is None:
            return f"SELECT {', '.join(shown)}{text}"
        return f"SELECT {self.key.sql} AS g, {', '.join(shown)}{text} GROUP BY {self.key.sql}"

    def rows(self, data, *, strict: bool):
        """The rows of the query, or `Failed`."""
        joined = [row for row in self._joined(data, strict) if passes(self.where, row)]
        if self.listed is not None:
            return [tuple(each.value(row) for each in self.listed) for row in joined]
        return group(iter(joined), self.key, self.calls)

    def _joined(self, data, strict):
        values = [row[1] for row in data["r"] if row[1] is not None]
        average = sum(values) / len(values) if values else None
        for row in data["r"]:
            if self.nested and (row[1] is None or average is None or not row[1] > average):
                continue
            start = {f"r.{n}": v for n, v in zip(NAMES["r"], row, strict=True)}
            yield from self._extended({**start, STRICT: strict}, self.tables[1:], data)

    def _extended(self, row, tables, data):
        if not tables:
            yield row
            return
        first, *others = tables
        met = [each for each in data[first] if each[0] is not None and each[0] == row["r.k"]]
        if not met and self.kind == "left":
            met = [(None,) * len(NAMES[first])]
        for each in met:
            more = {f"{first}.{n}": v for n, v in zip(NAMES[first], each, strict=True)}
            yield from self._extended({**row, **more}, others, data)


def _call(call: tuple[str, Expr, Expr | None]) -> str:
    name, argument, where = call
    text = f"{name.upper()}({argument.sql})"
    return text if where is None else f"{text} FILTER (WHERE {where.sql})"


def row_of(rng: random.Random, table: str) -> tuple[Any, ...]:
    key = rng.choice([1, 1, 1, 2, 3, None])
    number = lambda: rng.choice([0, 0, 1, 2, 3, -4, None, 70_000, -50_000])  # noqa: E731
    text = lambda: rng.choice(["1", "12", "a", "a", "a", None, "x"])  # noqa: E731
    if table == "r":
        return key, number(), number(), text()
    return (key, number(), text()) if table == "s" else (key, number())


def same(left, right) -> bool:
    if len(left) != len(right):
        return False
    rest = list(right)
    for row in left:
        found = next((each for each in rest if all(map(_equal, row, each))), None)
        if found is None:
            return False
        rest.remove(found)
    return True


def _equal(a, b) -> bool:
    if a is None or b is None:
        return a is b
    return math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-9)


def outcome(query, data, *, strict):
    try:
        return query.rows(data, strict=strict)
    except Failed:
        return None


def applied(mill, changes):
    """Make the changes as one batch; the error that refused it, if one did."""
    try:
        with mill.batch():
            for change, table, row in changes:
                change(table, [row])
    except (vm.EvaluationFailed, vm.Overflow) as why:
        return why
    return None


def run(seed: int, steps: int = 8) -> dict[str, int]:
    rng = random.Random(seed)
    query = Query(rng)
    mill = vm.connect()
    for name, (columns, _, _) in TABLES.items():
        mill.sql(f"CREATE TABLE {name} ({columns})")
    policy = rng.choice(["", "", "REFRESH POLICY FULL"])
    mill.sql(f"CREATE MATERIALIZED VIEW v {policy} AS {query.sql()}")
    data: Data = {name: [] for name in TABLES}
    seen = {"refused": 0, "accepted": 0}
    for step in range(steps):
        after = {name: list(rows) for name, rows in data.items()}
        changes = []
        for _ in range(rng.choice([1, 2, 3, 6])):
            table = rng.choice(query.tables)
            if after[table] and rng.random() < 0.4:
                row = after[table].pop(rng.randrange(len(after[table])))
                changes.append((mill.delete, table, row))
            else:
                row = row_of(rng, table)
                after[table].append(row)
                changes.append((mill.insert, table, row))
        lenient, strict = (outcome(query, after, strict=each) for each in (False, True))
        said = f"seed {seed} step {step}: {query.sql()}\n{mill['v'].status()['strategy']} {after}"
        refusal = applied(mill, changes)
        if refusal is None:
            assert lenient is not None, f"not refused: {mill['v'].rows()}\n{said}"
            data = after
        else:
            assert strict is None, f"refused: {refusal}\n{said}"
        seen["accepted" if refusal is None else "refused"] += 1
        shown = outcome(query, data, strict=False)
        assert same(mill["v"].rows(), shown), f"{mill['v'].rows()} for {shown}\n{said}"
    assert mill["v"].verify() == [], said
    mill.close()
    return seen


@pytest.mark.parametrize("seed", range(10))
def test_a_batch_is_refused_exactly_when_the_query_fails(seed):
    run(seed)

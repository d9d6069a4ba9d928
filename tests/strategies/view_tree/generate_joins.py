"""Generators of join-aggregate queries over small tables, and of changes to those tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

KEYS = ("a", "b", "c")
NUMBERS = {"i": "INT", "n": "BIGINT", "d": "DECIMAL(9,2)", "f": "DOUBLE"}


@dataclass(frozen=True)
class Table:
    """A table of three keys and four numbers; `nullable` columns may be NULL."""

    name: str
    nullable: frozenset[str]

    @property
    def columns(self) -> tuple[str, ...]:
        return (*KEYS, *NUMBERS)

    @property
    def sql(self) -> str:
        types = dict.fromkeys(KEYS, "BIGINT") | NUMBERS
        columns = [f"{n} {t}{'' if n in self.nullable else ' NOT NULL'}" for n, t in types.items()]
        return f"CREATE TABLE {self.name} ({', '.join(columns)}) UNCHECKED"


@dataclass
class Case:
    """Tables, a query, and batches: (table, row, multiplicity) changes that come together."""

    tables: list[Table]
    query: str
    batches: list[list[tuple[str, tuple[Any, ...], int]]] = field(default_factory=list)


@st.composite
def tables(draw: st.DrawFn, most: int = 4) -> list[Table]:
    count = draw(st.integers(1, most))
    made = []
    for i in range(count):
        nullable = draw(st.frozensets(st.sampled_from((*KEYS, *NUMBERS))))
        made.append(Table(f"t{i}", nullable))
    return made


@st.composite
def from_clause(
    draw: st.DrawFn, chosen: list[Table], *, cyclic: bool, most: int
) -> tuple[list[str], str]:
    """Aliases, and the tables joined: each to one before it, cyclic ones perhaps to another."""
    aliases: list[str] = []
    text = ""
    count = draw(st.integers(2, most))
    for i in range(count):
        table = draw(st.sampled_from(chosen))
        alias = f"x{i}"
        if not aliases:
            text = f"{table.name} {alias}"
        else:
            times = draw(st.integers(1, 2 if cyclic else 1)) if not draw(_rarely()) else 0
            conditions = []
            for _ in range(times):
                other = draw(st.sampled_from(aliases))
                own, theirs = draw(st.sampled_from(KEYS)), draw(st.sampled_from(KEYS))
                conditions.append(f"{alias}.{own} = {other}.{theirs}")
            if draw(_rarely()):
                conditions.append(f"{alias}.i > 1")
            on = f" ON {' AND '.join(conditions)}" if conditions else ""
            text += f" {'JOIN' if on else 'CROSS JOIN'} {table.name} {alias}{on}"
        aliases.append(alias)
    return aliases, text


def _rarely() -> st.SearchStrategy[bool]:
    return st.sampled_from([False] * 7 + [True])


@st.composite
def product_text(draw: st.DrawFn, aliases: list[str], numbers: str) -> str:
    """A product of columns of different tables, sometimes with a sum or a CASE inside."""
    factors = []
    for alias in draw(st.lists(st.sampled_from(aliases), min_size=1, max_size=3, unique=True)):
        column = draw(st.sampled_from(numbers))
        text = f"{alias}.{column}"
        if draw(_rarely()):
            text = (
                f"CASE WHEN {alias}.a > 1 THEN {text} ELSE {draw(st.sampled_from(['0', '2']))} END"
            )
        factors.append(text)
    return " * ".join(factors)


@st.composite
def aggregate_text(draw: st.DrawFn, aliases: list[str]) -> str:
    kind = draw(st.sampled_from(["sum", "sum", "sum", "avg", "count", "count(*)", "lift"]))
    if kind == "count(*)":
        return "COUNT(*)"
    if kind == "count":
        return f"COUNT({draw(st.sampled_from(aliases))}.{draw(st.sampled_from((*KEYS, *NUMBERS)))})"
    if kind == "lift":
        return f"SUM({draw(st.sampled_from(aliases))}.{draw(st.sampled_from(KEYS))})"
    numbers = draw(st.sampled_from(["in", "id", "f"]))
    terms = draw(st.lists(product_text(aliases, numbers), min_size=1, max_size=2))
    sign = draw(st.sampled_from([" + ", " - "]))
    where = f" FILTER (WHERE {draw(st.sampled_from(aliases))}.b < 2)" if draw(_rarely()) else ""
    return f"{kind.upper()}({sign.join(terms)}){where}"


@st.composite
def queries(draw: st.DrawFn, chosen: list[Table], *, cyclic: bool, most: int = 6) -> str:
    aliases, joined = draw(from_clause(chosen, cyclic=cyclic, most=most))
    where = f" WHERE {draw(st.sampled_from(aliases))}.n <> 1" if draw(_rarely()) else ""
    if draw(_rarely()) and len(aliases) <= 3:
        shown = [
            f"{alias}.{draw(st.sampled_from(KEYS))} AS c{i}" for i, alias in enumerate(aliases)
        ]
        return f"SELECT {', '.join(shown)} FROM {joined}{where}"
    keys = draw(st.lists(st.tuples(st.sampled_from(aliases), st.sampled_from(KEYS)), max_size=3))
    names = list(dict.fromkeys(f"{alias}.{column}" for alias, column in keys))
    calls = draw(st.lists(aggregate_text(aliases), min_size=1, max_size=3))
    shown = [f"{name} AS k{i}" for i, name in enumerate(names)]
    shown += [f"{call} AS v{i}" for i, call in enumerate(calls)]
    group = f" GROUP BY {', '.join(names)}" if names else ""
    having = " HAVING COUNT(*) > 1" if draw(_rarely()) and names else ""
    return f"SELECT {', '.join(shown)} FROM {joined}{where}{group}{having}"


def floats() -> st.SearchStrategy[float]:
    special = st.sampled_from([float("inf"), float("-inf"), float("nan"), 0.0])
    return st.one_of(*[st.integers(-8, 8).map(lambda n: n / 4)] * 7, special)


@st.composite
def rows(draw: st.DrawFn, table: Table) -> tuple[Any, ...]:
    values: list[Any] = [draw(st.integers(0, 2)) for _ in KEYS]
    values += [draw(st.integers(-2, 3)), draw(st.integers(-2, 3))]
    values += [f"{draw(st.integers(-20, 30)) / 10:.2f}", draw(floats())]
    if draw(st.booleans()) and table.nullable:
        gone = draw(st.sampled_from(sorted(table.nullable)))
        values[table.columns.index(gone)] = None
    return tuple(values)


@st.composite
def cases(draw: st.DrawFn, *, cyclic: bool = False, most: int = 6) -> Case:
    """A case whose deletes take away rows that are there."""
    chosen = draw(tables())
    case = Case(chosen, draw(queries(chosen, cyclic=cyclic, most=most)))
    present: dict[str, Counter[tuple[Any, ...]]] = {table.name: Counter() for table in chosen}
    for _ in range(draw(st.integers(1, 4))):
        batch: list[tuple[str, tuple[Any, ...], int]] = []
        for _ in range(draw(st.integers(1, 6))):
            table = draw(st.sampled_from(chosen))
            there = sorted(present[table.name].elements(), key=repr)
            if there and draw(st.sampled_from([False, False, True])):
                row = draw(st.sampled_from(there))
                batch.append((table.name, row, -1))
                present[table.name][row] -= 1
            else:
                row = draw(rows(table))
                batch.append((table.name, row, 1))
                present[table.name][row] += 1
        case.batches.append(batch)
    return case

"""Keep everything: a table for each relation and for each connected sub-join, in DuckDB.

That is what the paper calls DBT-PG: DBToaster's recursion with plain tables. A delta of a relation
meets the tables of the other relations' sub-joins, so each is one join; and every table that holds
the relation gets its own delta.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from viewmill.bench.intermittent.lab import CHANGING, cpu_s
from viewmill.bench.tpch.queries import TABLES

_WORD = 8
_ROOM = 1.8  # what hash tables leave free, as for our own states
MOST_ROWS = 20_000_000

_OWNERS = {
    column.split()[0]: table for table, text in TABLES.items() for column in text.split(", ")
}
Subset = frozenset[str]


class Joins:
    """The join graph of a flat query: aliases, their filters, and conditions between them."""

    def __init__(self, query: str) -> None:
        tree = sqlglot.parse_one(query, dialect="spark")
        inner = [each for each in tree.find_all(exp.Select) if each.args.get("where")][-1]
        tables = inner.find_all(exp.Table)
        self.sources = {each.alias_or_name: each.name for each in tables}
        conjuncts = list(inner.args["where"].this.flatten()) if inner.args.get("where") else []
        if not isinstance(inner.args["where"].this, exp.And):
            conjuncts = [inner.args["where"].this]
        self.conditions = [(self._aliases(each), each.sql(dialect="duckdb")) for each in conjuncts]
        named = {self._column(each) for each in tree.find_all(exp.Column)}
        self.columns = {
            alias: sorted(column for owner, column in named if owner == alias)
            for alias in self.sources
        }

    def _column(self, column: exp.Column) -> tuple[str, str]:
        if column.table:
            return column.table, column.name
        owner = _OWNERS.get(column.name)
        alias = next((a for a, source in self.sources.items() if source == owner), "")
        return alias, column.name

    def _aliases(self, condition: exp.Expr) -> Subset:
        found = {self._column(each)[0] for each in condition.find_all(exp.Column)}
        return frozenset(found & self.sources.keys())

    def is_connected(self, subset: Subset) -> bool:
        """Whether conditions lead from each of the aliases to each other."""
        reached = {min(subset)}
        while True:
            more = {
                alias
                for aliases, _ in self.conditions
                if len(aliases) > 1 and aliases <= subset and aliases & reached
                for alias in aliases
            }
            if more <= reached:
                return reached == subset
            reached |= more

    def subsets(self) -> list[Subset]:
        """Each relation and each connected sub-join that the recursion makes.

        It takes relations away that change, so one that does not stays with its neighbours.
        """
        names = sorted(self.sources)
        sizes = range(1, len(names))
        found = [frozenset(each) for size in sizes for each in combinations(names, size)]
        return [e for e in found if len(e) == 1 or (self.is_connected(e) and self._is_made(e))]

    def _is_made(self, subset: Subset) -> bool:
        near = {a for aliases, _ in self.conditions if aliases & subset for a in aliases - subset}
        return all(self.sources[alias] in CHANGING for alias in near)

    def parts(self, subset: Subset) -> list[Subset]:
        """The connected pieces of a set of aliases."""
        rest, found = set(subset), []
        while rest:
            piece = {min(rest)}
            grown = True
            while grown:
                near = [a for a, _ in self.conditions if a & piece and a <= subset]
                grown = bool(set().union(*near) - piece) if near else False
                piece |= set().union(*near) if near else set()
            found.append(frozenset(piece))
            rest -= piece
        return found


class Everything:
    """All tables of a query, filled and kept up to date by DuckDB."""

    def __init__(self, query: str, tables: dict[str, Any]) -> None:
        self.joins = Joins(query)
        self.is_finished = True
        self._duckdb = duckdb.connect(":memory:")
        self._duckdb.execute("SET threads = 2").fetchall()
        for name, rows in tables.items():
            self._duckdb.register(name, rows)
        self.initial_s = cpu_s(self._fill)

    @property
    def count(self) -> int:
        """How many tables there are."""
        return len(self.joins.subsets())

    def _fill(self) -> None:
        for subset in sorted(self.joins.subsets(), key=len):
            filters = [sql for aliases, sql in self.joins.conditions if aliases <= subset]
            sources = [f"{self.joins.sources[a]} AS {a}" for a in sorted(subset)]
            text = self._select(subset, sources, filters)
            if self._rows(f"SELECT count(*) FROM ({text})") > MOST_ROWS:
                self.is_finished = False
                return
            self._duckdb.execute(f"CREATE TABLE {_name(subset)} AS {text}").fetchall()

    def _rows(self, query: str) -> int:
        return int(self._duckdb.execute(query).fetchall()[0][0])

    def _select(self, subset: Subset, sources: list[str], conditions: list[str]) -> str:
        columns = [f"{a}.{c} AS {a}__{c}" for a in sorted(subset) for c in self.joins.columns[a]]
        where = " AND ".join(f"({each})" for each in conditions) or "true"
        return f"SELECT {', '.join(columns) or '1 AS one'} FROM {', '.join(sources)} WHERE {where}"

    def state_bytes(self) -> int:
        """As hash tables with one word for each column."""
        total = 0.0
        for subset in self.joins.subsets():
            width = 1 + sum(len(self.joins.columns[a]) for a in subset)
            total += _ROOM * _WORD * width * self._rows(f"SELECT count(*) FROM {_name(subset)}")
        return int(total)

    def apply(self, deltas: dict[str, Any]) -> float:
        """Insert deltas, relation by relation; gives CPU seconds."""
        seconds = 0.0
        for alias, source in sorted(self.joins.sources.items()):
            if source in CHANGING and source in deltas:
                self._duckdb.register("delta", deltas[source])
                seconds += cpu_s(lambda each=alias: self._apply(each))  # type: ignore[misc]
        return seconds

    def _apply(self, alias: str) -> None:
        """Each table that holds `alias`, the largest first: the smaller are still old."""
        whole = frozenset(self.joins.sources)
        for subset in [whole, *sorted(self.joins.subsets(), key=len, reverse=True)]:
            if alias not in subset:
                continue
            pieces = self.joins.parts(subset - {alias}) if len(subset) > 1 else []
            views = [_name(each) for each in pieces]
            conditions = [
                _qualified(sql, self.joins)
                for aliases, sql in self.joins.conditions
                if aliases <= subset and not any(aliases <= each for each in pieces)
            ]
            own = [f"{alias}.{c} AS {alias}__{c}" for c in self.joins.columns[alias]]
            delta = f"(SELECT {', '.join(own) or '1 AS one'} FROM delta AS {alias}) AS new"
            columns = [f"{a}__{c}" for a in sorted(subset) for c in self.joins.columns[a]]
            where = " AND ".join(f"({each})" for each in conditions) or "true"
            text = f"SELECT {', '.join(columns)} FROM {', '.join([delta, *views])} WHERE {where}"
            if subset == whole:
                self._duckdb.execute(f"SELECT count(*) FROM ({text})").fetchall()
            else:
                self._duckdb.execute(f"INSERT INTO {_name(subset)} {text}").fetchall()

    def close(self) -> None:
        """Give the memory back."""
        self._duckdb.close()


def _name(subset: Subset) -> str:
    return "kept_" + "_".join(sorted(subset))


def _qualified(condition: str, joins: Joins) -> str:
    """A condition over the columns as kept tables name them."""
    tree = sqlglot.parse_one(condition, dialect="duckdb")
    for column in list(tree.find_all(exp.Column)):
        alias, name = joins._column(column)
        column.replace(exp.column(f"{alias}__{name}"))
    return tree.sql(dialect="duckdb")

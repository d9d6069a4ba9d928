"""Rows of a key, by an index that follows the commits: for statements that are prepared once and
run often.

takes  SELECT columns FROM v WHERE key = $1 [AND ...], values of the parameters
gives  an Arrow table of the rows; None where the query must be planned and run as any other

The index holds the rows of one version and a list of the changes since, so a commit costs nothing
but a line in that list. Whatever is not plainly right here (filters of grants, floats as keys, old
versions, views with rows of their own kind) is left to the engine.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlglot import exp

from viewmill.algebra.schema import Schema
from viewmill.algebra.types import BIGINT, INT, STRING, Type
from viewmill.deltas.arrow import arrow_schema, decode_column
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Changed, as_delta
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.program.program import Queries, Triggers
from viewmill.program.threads import one_of_ours
from viewmill.serve.client_sql import ClientQuery, parameter_number

_PLANS = 1_000
_INDEXES = 16
_ROWS_AT_ONCE = 10_000  # listed while commits wait
_MAX_ROWS = 2_000_000  # of a table or view with an index
_KEYS: dict[Type, type] = {BIGINT: int, INT: int, STRING: str}
_CLAUSES = {"expressions", "from_", "where"}

Key = tuple[Any, ...]
Describe = Callable[[ClientQuery], Any]  # the columns of a query, as a schema of Arrow


@dataclass
class Plan:
    """A query of rows by key: which columns it compares with which parameters, what it shows."""

    query: ClientQuery
    generation: int  # of the catalog that it was made with
    name: str = ""  # "" for a query of another kind
    keys: tuple[int, ...] = ()  # columns
    given: tuple[int, ...] = ()  # the parameter of each
    kinds: tuple[type, ...] = ()
    shown: tuple[int, ...] = ()
    names: Sequence[str] = ()  # that the client sees
    runs: int = 0


class PointReads:
    """Finds rows by key for all connections of a server. Call with the core's lock held."""

    def __init__(self, core: Core, describe: Describe) -> None:
        self._core, self._describe = core, describe
        self._plans: OrderedDict[int, Plan] = OrderedDict()
        self._indexes: OrderedDict[tuple[str, tuple[int, ...]], _Index] = OrderedDict()
        with core.lock:
            core.noting.append(self)

    def close(self) -> None:
        """Follow no more."""
        with self._core.lock:
            if self in self._core.noting:
                self._core.noting.remove(self)

    def note(self, changes: Mapping[str, Changed]) -> None:
        """Take the change of each table and view; an index that nobody reads is dropped."""
        for name, change in changes.items():
            for key, index in list(self._indexes.items()):
                if key[0] == name.lower():
                    index.coming.append(change)
                    index.changed += change.size
                    if index.is_outdated():
                        del self._indexes[key]

    def reads(self, query: ClientQuery) -> str:
        """What a query reads by key, "" if it does not."""
        return self._plan(query).name

    def find(self, query: ClientQuery, given: Sequence[Any]) -> Any:
        """The rows now, or None."""
        plan = self._plan(query)
        if not plan.name:
            return None
        plan.runs += 1
        asked = zip((given[each] for each in plan.given), plan.kinds, strict=True)
        key = tuple(_as_key(value, kind) for value, kind in asked)
        if None in key:
            return None
        index = self._index(plan)
        if index is None or not index.is_ready:
            return None
        rows = index.rows(key, self._core.dictionary)
        if rows is None:
            self._indexes.pop((plan.name, plan.keys), None)
            return None
        table = expanded(rows, self._core.dictionary).select(list(plan.shown))
        return table.rename_columns(plan.names)

    def _plan(self, query: ClientQuery) -> Plan:
        key, generation = id(query), self._core.catalog.generation
        found = self._plans.get(key)
        if found is None or found.query is not query or found.generation != generation:
            found = _planned(self._core, query, self._describe)
            self._plans[key] = found
            while len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        return found

    def _index(self, plan: Plan) -> _Index | None:
        """The index of a plan. It is made when the plan has been run often enough to be worth it:
        the more rows there are, and the more of them change at once, the later."""
        entry = self._core.catalog.get(plan.name)
        found = self._indexes.get((plan.name, plan.keys))
        if found is not None and found.owner is entry:
            return found
        self._indexes.pop((plan.name, plan.keys), None)
        rows = self._core.row_count(plan.name)
        if plan.runs <= 2 + rows // 10_000 or rows > _MAX_ROWS:
            return None
        plan.runs = 0
        made = _Index(entry, self._core.contents(plan.name), plan.keys, self._core.dictionary)
        self._indexes[plan.name, plan.keys] = made
        if rows <= _ROWS_AT_ONCE:
            made.fill()
        else:  # nobody waits for it
            threading.Thread(target=made.fill_apart, name="viewmill-index", daemon=True).start()
        while len(self._indexes) > _INDEXES:
            self._indexes.popitem(last=False)
        return made


def _as_key(value: Any, kind: type) -> Any:
    """A parameter as a value of its column; None if the engine must compare them."""
    if type(value) is kind:
        return value
    if kind is int and type(value) is str and value.isascii() and value.isdecimal():
        return int(value)
    return None


@dataclass
class _Index:
    """Positions of rows by key, at one version, and the changes since."""

    owner: Any  # the entry of the table or view
    base: Delta
    keys: tuple[int, ...]
    dictionary: Dictionary
    positions: dict[Key, list[int]] = field(default_factory=dict)
    later: dict[Key, list[tuple[Delta, int]]] = field(default_factory=dict)
    coming: list[Changed] = field(default_factory=list)

    changed: int = 0  # rows since
    is_ready: bool = False

    def fill(self) -> None:
        """List the rows of each key."""
        for at, key in enumerate(self._keys_of(self.base)):
            self.positions.setdefault(key, []).append(at)
        self.is_ready = True

    def fill_apart(self) -> None:
        """The same, in a thread of its own."""
        with one_of_ours():
            self.fill()

    def _keys_of(self, rows: Delta) -> Any:
        columns = (rows.pair(each) for each in self.keys)
        fields = (rows.schema[each] for each in self.keys)
        arrays = [
            decode_column(words, mask, each, self.dictionary)
            for (words, mask), each in zip(columns, fields, strict=True)
        ]
        return zip(*(each.to_pylist() for each in arrays), strict=True)

    def is_outdated(self) -> bool:
        """Whether so much has changed that a new index is better."""
        return self.changed > 1_000 + self.base.size // 2

    def rows(self, key: Key, dictionary: Dictionary) -> Delta | None:
        """The rows of a key, None if they cannot be told."""
        if dictionary is not self.dictionary:
            return None
        coming, self.coming = self.coming, []
        for change in map(as_delta, coming):
            for at, changed in enumerate(self._keys_of(change)):
                self.later.setdefault(changed, []).append((change, at))
        base = self.base.take(np.array(self.positions.get(key, ()), np.int64))
        later = self.later.get(key)
        if not later:
            return base
        pieces = [change.take(np.array([at], np.int64)) for change, at in later]
        found = consolidate(concat(self.base.schema, [base, *pieces]))
        return None if (found.multiplicities() < 0).any() else found


def _planned(core: Core, query: ClientQuery, describe: Describe) -> Plan:
    """What a query asks for, if it asks for rows by key."""
    plan = Plan(query, core.catalog.generation)
    tree = query.tree
    if not isinstance(tree, exp.Select) or _parts(tree) != _CLAUSES:
        return plan
    table = tree.args["from_"].this
    if not isinstance(table, exp.Table) or _parts(table) - {"this", "alias"}:
        return plan
    schema = _schema_of(core.catalog.get(table.name))
    if schema is None or not isinstance(table.this, exp.Identifier):
        return plan
    columns = _Columns(schema, table.alias_or_name.lower())
    keys, shown = columns.compared(tree.args["where"].this), columns.shown(tree.expressions)
    if not keys or not shown:
        return plan
    found = describe(query)
    fields = arrow_schema(schema)
    if found.types == [fields.field(each).type for each in shown]:
        plan.names, plan.shown = found.names, tuple(shown)
        plan.keys, plan.given = tuple(keys), tuple(keys.values())
        plan.kinds = tuple(_KEYS[schema[each].type] for each in keys)
        plan.name = table.name.lower()
    return plan


def _parts(node: exp.Expr) -> set[str]:
    return {name for name, each in node.args.items() if each}


def _schema_of(entry: object) -> Schema | None:
    """The columns of what may have an index."""
    if isinstance(entry, TableEntry):
        return entry.table.schema if entry.table.is_timeless else None
    if not isinstance(entry, ViewEntry) or entry.enumerator is not None:
        return None
    is_plain = all(isinstance(each.program.body, Triggers | Queries) for each in entry.blocks)
    is_listed = getattr(entry.block.maintainer, "family", None) is None
    return entry.schema if is_plain and is_listed else None


@dataclass(frozen=True)
class _Columns:
    """Finds the columns of one table in a query, by position."""

    schema: Schema
    alias: str

    def _find(self, node: exp.Expr) -> int | None:
        if not isinstance(node, exp.Column) or _parts(node) - {"this", "table"}:
            return None
        if node.table and node.table.lower() != self.alias:
            return None
        return self.schema.find(node.name)

    def shown(self, nodes: Sequence[exp.Expr]) -> list[int]:
        """What is selected; nothing if that is not plain columns."""
        if len(nodes) == 1 and isinstance(nodes[0], exp.Star) and not _parts(nodes[0]):
            return list(range(len(self.schema)))
        found = [self._find(each.this if isinstance(each, exp.Alias) else each) for each in nodes]
        return [] if None in found else [each for each in found if each is not None]

    def compared(self, condition: exp.Expr) -> dict[int, int]:
        """By column, the parameter it must equal; nothing if there are other conditions."""
        found: dict[int, int] = {}
        for each in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            if not isinstance(each, exp.EQ):
                return {}
            column, number = self._find(each.this), parameter_number(each.expression)
            if column is None or number is None or column in found:
                return {}
            if self.schema[column].type not in _KEYS:
                return {}
            found[column] = number - 1
        return found

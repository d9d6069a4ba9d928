"""Read what dbt has compiled: `target/manifest.json`, with `catalog.json` beside it for types.

takes  the path of a manifest
gives  tables (sources and seeds), models and tests in our SQL, in the order of their dependencies

A model's compiled SQL is in the dialect of its database; names of relations become names of ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewmill.algebra.names import quoted
from viewmill.errors import InvalidArgument, ViewmillError
from viewmill.sql.data_types import type_of

_DIALECTS = {"postgres", "duckdb", "snowflake", "bigquery", "redshift", "databricks", "spark",
             "trino", "sqlite", "clickhouse", "athena", "tsql"}  # fmt: skip
_IS_WORD = re.compile("[A-Za-z0-9_]+").fullmatch
Relation = tuple[str, ...]


@dataclass(frozen=True)
class DbtTable:
    """A source or a seed; `columns` are pairs of a name and a type, () if nothing says them."""

    name: str
    columns: tuple[tuple[str, str], ...]
    seed: Path | None


@dataclass(frozen=True)
class DbtQuery:
    """A model, or a test whose rows are failures; `why_not` says why there is no SQL."""

    name: str
    kind: str  # as dbt materializes it, or "test"
    sql: str
    why_not: str = ""


@dataclass(frozen=True)
class DbtProject:
    """What a manifest says."""

    name: str
    tables: tuple[DbtTable, ...]
    models: tuple[DbtQuery, ...]
    tests: tuple[DbtQuery, ...]


def read_manifest(path: Path) -> DbtProject:
    """The project that a manifest describes."""
    manifest = _read_json(path)
    nodes = manifest.get("nodes")
    if not isinstance(nodes, dict) or not isinstance(manifest.get("metadata"), dict):
        raise InvalidArgument(
            f"{path} is no manifest of dbt", hint="`dbt compile` writes target/manifest.json."
        )
    try:
        return _Reader(path, manifest).project()
    except (AttributeError, LookupError, TypeError, ValueError, SqlglotError) as why:
        raise InvalidArgument(
            f"{path} is not as dbt writes it", detail=f"{type(why).__name__}: {why}"
        ) from why


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as why:
        raise InvalidArgument(f"{path} is not JSON", detail=str(why)) from why
    return found if isinstance(found, dict) else {}


class _Reader:
    """Reads one manifest."""

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self._root, self._metadata = path.resolve().parent.parent, manifest["metadata"]
        adapter = str(self._metadata.get("adapter_type") or "")
        self._dialect = adapter if adapter in _DIALECTS else None
        self._nodes: dict[str, Any] = {**manifest["nodes"], **manifest.get("sources", {})}
        catalog = path.with_name("catalog.json")
        known = _read_json(catalog) if catalog.exists() else {}
        self._catalog = {**known.get("nodes", {}), **known.get("sources", {})}
        self._names = self._name_all()

    def project(self) -> DbtProject:
        """Everything that is enabled."""
        ids = [*self._in_order()]
        of = self._of_kind
        return DbtProject(
            str(self._metadata.get("project_name") or "dbt"),
            tuple(self._table(each) for each in ids if of(each) in ("source", "seed")),
            tuple(self._query(each) for each in ids if self._is_model(each)),
            tuple(self._query(each) for each in ids if of(each) == "test"),
        )

    def _of_kind(self, id_: str) -> str:
        return str(self._nodes[id_].get("resource_type"))

    def _is_model(self, id_: str) -> bool:
        kind = (self._nodes[id_].get("config") or {}).get("materialized")
        return self._of_kind(id_) in ("model", "snapshot") and kind != "ephemeral"

    def _in_order(self) -> Iterator[str]:
        """All nodes, each after those that it depends on."""
        done: set[str] = set()
        for first in self._nodes:
            waiting = [(first, False)]
            while waiting:
                id_, is_ready = waiting.pop()
                if is_ready:
                    yield id_
                elif id_ in self._nodes and id_ not in done:
                    done.add(id_)
                    below = (self._nodes[id_].get("depends_on") or {}).get("nodes") or []
                    waiting.append((id_, True))
                    waiting += [(each, False) for each in below]

    # Names.

    def _name_all(self) -> dict[Relation, str]:
        """Our name of each relation: its own, with its schema where two are called alike."""
        found: dict[Relation, str] = {}
        taken: set[str] = set()
        for id_, node in self._nodes.items():
            if self._of_kind(id_) not in ("model", "seed", "source", "snapshot"):
                continue
            name = str(node.get("alias") or node.get("identifier") or node.get("name"))
            while name.lower() in taken:
                name = f"{node.get('schema')}_{name}"
            taken.add(name.lower())
            found[self._relation(node)] = name
        return found

    def _relation(self, node: Mapping[str, Any]) -> Relation:
        name = node.get("relation_name")
        if name:
            return _parts(sqlglot.exp.to_table(str(name), dialect=self._dialect))
        own = node.get("alias") or node.get("identifier") or node.get("name")
        parts = (node.get("database"), node.get("schema"), own)
        return tuple(str(each).lower() for each in parts if each)

    def _name(self, id_: str) -> str:
        return self._names[self._relation(self._nodes[id_])]

    # What there is.

    def _table(self, id_: str) -> DbtTable:
        node = self._nodes[id_]
        told = self._catalog.get(id_, {}).get("columns") or {}
        columns = [(str(each["name"]), str(each["type"])) for each in
                   sorted(told.values(), key=lambda each: each.get("index", 0))]  # fmt: skip
        if not columns:
            said = (node.get("columns") or {}).values()
            columns = [(str(each["name"]), str(each["data_type"])) for each in said
                       if each.get("data_type")]  # fmt: skip
        is_seed = self._of_kind(id_) == "seed"
        seed = self._seed(str(node["original_file_path"])) if is_seed else None
        types = tuple((name, self._type(type_)) for name, type_ in columns)
        return DbtTable(self._name(id_), types, seed)

    def _seed(self, path: str) -> Path:
        """The file of a seed, which is one of the project."""
        file = (self._root / path).resolve()
        if not file.is_relative_to(self._root):
            raise InvalidArgument(
                f"the seed {path} is not in the project", detail=f"The project is {self._root}."
            )
        return file

    def _type(self, text: str) -> str:
        """A type in our SQL; what is none is only a name, which our parser then refuses."""
        try:
            type_ = exp.DataType.build(text, dialect=self._dialect)
            if type_.this == exp.DataType.Type.TIMESTAMPTZ or type_.is_type("timestamp"):
                return "TIMESTAMP"
            ours = exp.DataType.build(type_.sql("databricks", comments=False), dialect="databricks")
            return str(type_of(ours))
        except (SqlglotError, ViewmillError, AttributeError):
            return text if _IS_WORD(text) else quoted(text)

    def _query(self, id_: str) -> DbtQuery:
        node = self._nodes[id_]
        kind = str((node.get("config") or {}).get("materialized") or "view")
        kind = "test" if self._of_kind(id_) == "test" else kind
        name = str(node["name"]) if kind == "test" else self._name(id_)
        if self._of_kind(id_) == "snapshot":
            return DbtQuery(name, "snapshot", "", "a snapshot of dbt keeps history of its own")
        if str(node.get("language") or "sql") != "sql":
            return DbtQuery(name, kind, "", f"it is written in {node['language']}")
        code = node.get("compiled_code") or node.get("compiled_sql")
        if not code:
            return DbtQuery(name, kind, "", "it is not compiled: run `dbt compile`")
        try:
            return DbtQuery(name, kind, self._translated(str(code), name))
        except (SqlglotError, InvalidArgument, RecursionError) as why:
            return DbtQuery(name, kind, "", str(why).split("\n")[0])

    def _translated(self, code: str, name: str) -> str:
        """A query in our dialect, over our names."""
        found = [each for each in sqlglot.parse(code, dialect=self._dialect) if each is not None]
        if len(found) != 1:
            raise InvalidArgument(f"it has {len(found)} statements")
        query = found[0]
        if not isinstance(query, exp.Query | exp.Values):
            raise InvalidArgument("it is no SELECT")
        for table in [*query.find_all(exp.Table)]:
            ours = self._names.get(_parts(table))
            if ours is None:
                continue
            if ours == name:
                raise InvalidArgument("it reads itself: run `dbt compile --full-refresh`")
            new = exp.to_identifier(ours, quoted=True)
            alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
            table.replace(exp.Table(this=new, alias=alias, joins=table.args.get("joins")))
        return query.sql("databricks", comments=False)


def _parts(table: exp.Table) -> Relation:
    return tuple(each.lower() for each in (table.catalog, table.db, table.name) if each)

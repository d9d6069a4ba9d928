"""Tables and shortcuts for the tests of lowering and rendering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from viewmill.algebra.expressions import Expression
from viewmill.algebra.relations import Project, Relation, Scan
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, Decimal
from viewmill.engines.duckdb import DuckdbEngine
from viewmill.engines.engine import Engine
from viewmill.sql.catalog import PlainView
from viewmill.sql.dialect import parse_tokens, tokenize
from viewmill.sql.lower import lower

ORDERS = Schema(
    (
        Field("id", BIGINT, False),
        Field("customer", STRING),
        Field("amount", Decimal(12, 2)),
        Field("day", DATE),
        Field("weight", DOUBLE),
        Field("at", TIMESTAMP),
    )
)
LINES = Schema((Field("id", BIGINT, False), Field("order_id", BIGINT), Field("quantity", INT)))


class Tables:
    """A catalog of a few tables and plain views."""

    def __init__(self, **more: Schema | PlainView) -> None:
        self.known: dict[str, Schema | PlainView] = {"orders": ORDERS, "lines": LINES, **more}

    def find(self, name: str) -> Schema | PlainView | None:
        return {key.lower(): value for key, value in self.known.items()}.get(name.lower())

    def names(self) -> list[str]:
        return list(self.known)


def parse(sql: str):
    return parse_tokens(tokenize(sql), sql)


def view(sql: str) -> PlainView:
    return PlainView(parse(sql), sql)


def describer(engine: Engine) -> Callable[[str, tuple[Scan, ...]], Schema]:
    """`engine.describe` in the form that `sql.lower` asks for."""

    def describe(text: str, scans: tuple[Scan, ...]) -> Schema:
        return engine.describe(text, {scan.source: source_schema(scan) for scan in scans})

    return describe


def source_schema(scan: Scan) -> Schema:
    """The schema of a scan's table, its columns by their own names."""
    prefix = f"{scan.alias}."
    return Schema(tuple(replace(each, name=each.name.removeprefix(prefix)) for each in scan.schema))


def lowered(
    sql: str, catalog: Tables | None = None, engine: DuckdbEngine | None = None
) -> Relation:
    describe = None if engine is None else describer(engine)
    return lower(parse(sql), sql, catalog or Tables(), describe)


def output(sql: str) -> Expression:
    """The first output of SELECT sql FROM orders."""
    relation = lowered(f"SELECT {sql} AS x FROM orders")
    assert isinstance(relation, Project)
    return relation.outputs[0][1]


def rows(
    engine: DuckdbEngine, sql: str, tables: dict[str, pa.Table] | None = None
) -> list[tuple[object, ...]]:
    """What the query answers, as tuples."""
    result = engine.run(lowered(sql, engine=engine), tables or {})
    return [tuple(row.values()) for row in result.to_pylist()]

"""What a bulk engine must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from viewmill.algebra.relations import Relation, Scan
from viewmill.algebra.schema import Schema


class Engine(Protocol):
    """Runs whole queries over Arrow tables. SQL text is Spark's; the engine translates it."""

    def run(self, relation: Relation, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of `relation`, in exactly the types of its schema."""

    def run_sql(self, text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of a query in Spark SQL, in whatever types the engine gives them."""

    def describe(self, text: str, tables: Mapping[str, Schema]) -> Schema:
        """The columns of a query in Spark SQL over tables of these schemas."""

    def catalog_table(self, name: str) -> pa.Table:
        """The rows of a table that the engine knows by itself."""

    def close(self) -> None:
        """Give everything back."""


def describer(engine: Engine) -> Callable[[str, tuple[Scan, ...]], Schema]:
    """`engine.describe` in the form that `sql.lower` asks for."""

    def describe(text: str, scans: tuple[Scan, ...]) -> Schema:
        return engine.describe(text, {scan.source: source_schema(scan) for scan in scans})

    return describe


def source_schema(scan: Scan) -> Schema:
    """The schema of a scan's table, its columns by their own names."""
    prefix = f"{scan.alias}."
    return Schema(tuple(replace(each, name=each.name.removeprefix(prefix)) for each in scan.schema))

"""What a bulk engine must do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Schema


class Engine(Protocol):
    """Runs whole queries over Arrow tables. SQL text is Spark's; the engine translates it."""

    def run(self, relation: Relation, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of `relation`, in exactly the types of its schema."""

    def run_sql(self, text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of a query in Spark SQL, in whatever types the engine gives them."""

    def describe(self, text: str, tables: Mapping[str, Schema]) -> Schema:
        """The columns of a query in Spark SQL over tables of these schemas."""

    def knows(self, name: str) -> bool:
        """Whether the engine has a table of this name by itself."""

    def catalog_table(self, name: str) -> pa.Table:
        """The rows of a table that the engine knows by itself."""

    def close(self) -> None:
        """Give everything back."""

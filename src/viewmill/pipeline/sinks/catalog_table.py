"""A view as a table of Spark's catalog, which Spark writes: Parquet, Delta, Iceberg, Hive.

A version replaces all rows. A table that is there is taken only if we have made it, which one of
its properties says.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from viewmill.algebra.names import quoted
from viewmill.deltas.arrow_types import in_utc
from viewmill.errors import SinkBroken, WrongFormat
from viewmill.mill.view import View
from viewmill.pipeline.sinks.sink import TableSink

_OWNER = "viewmill.view"


class CatalogTable(TableSink):
    """The view as the table `name`."""

    def __init__(self, spark: Any, name: str, format: str) -> None:
        super().__init__(self._replace)
        self._spark, self._table, self._format, self._view = spark, name, format, ""

    def open(self, view: View, pipeline: str) -> None:
        """Refuse a table of others."""
        self._view = view.name.lower()
        if self._spark.catalog.tableExists(self._table):
            found = self._spark.sql(f"SHOW TBLPROPERTIES {self._sql}").collect()
            if (_OWNER, self._view) not in {(each[0], each[1]) for each in found}:
                raise WrongFormat(
                    f"the table {self._table} was not made for the view {view.name}",
                    hint="Give another name, or drop it.",
                )
        super().open(view, pipeline)

    @property
    def _sql(self) -> str:
        return ".".join(quoted(each.strip("`")) for each in self._table.split("."))

    def _replace(self, rows: pa.Table, version: int) -> None:
        try:
            frame = self._spark.createDataFrame(in_utc(rows))
            made = frame.write.format(self._format).mode("overwrite")
            made.option("overwriteSchema", "true").saveAsTable(self._sql)
            self._spark.sql(
                f"ALTER TABLE {self._sql} SET TBLPROPERTIES ('{_OWNER}' = '{self._view}')"
            )
        except Exception as why:  # Spark's own, which is another class in every version
            said = str(why).split("\n")[0]
            raise SinkBroken(f"the table {self._table} cannot be written: {said}") from why

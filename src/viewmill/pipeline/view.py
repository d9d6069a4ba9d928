"""The handle that a pipeline gives on a view: rows that stay with executors, rows that come in.

takes  a view of the mill, the session, and for views in shards how their rows are read there
gives  DataFrames; rows up to a limit
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viewmill.errors import InvalidArgument
from viewmill.mill.view import View

MOST_ROWS = 1_000_000


class PipelineView(View):
    """A handle on a view of a pipeline."""

    def __init__(self, view: View, spark: Any, in_shards: Callable[[View], Any]) -> None:
        super().__init__(view.mill, view.mill.core, view.name)
        self._spark, self._in_shards = spark, in_shards

    def to_spark(self, spark: Any = None) -> Any:
        """A DataFrame of the view at one version.

        Rows that shards hold are read where Spark's state store is, by executors, as of the last
        batch that Spark noted as done. Other rows are sent by the driver, which has them.
        """
        if spark is None and (found := self._in_shards(self)) is not None:
            return found
        return super().to_spark(spark or self._spark)

    def rows(self, limit: int | None = MOST_ROWS) -> list[tuple[Any, ...]]:
        """Tuples of plain Python values; refused if there are more than `limit`."""
        self._require_few("rows", limit)
        return super().rows()

    def to_pandas(self, limit: int | None = MOST_ROWS) -> Any:
        """A pandas DataFrame; refused if there are more rows than `limit`."""
        self._require_few("to_pandas", limit)
        return super().to_pandas()

    def to_polars(self, limit: int | None = MOST_ROWS) -> Any:
        """A polars DataFrame; refused if there are more rows than `limit`."""
        self._require_few("to_polars", limit)
        return super().to_polars()

    def _require_few(self, method: str, limit: int | None) -> None:
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise InvalidArgument(f"limit={limit!r}", hint="A number of rows, or None for all.")
        count = len(self)
        if limit is not None and count > limit:
            raise InvalidArgument(
                f'view "{self.name}" has {count} rows, and {method}() fetches at most {limit}',
                detail="All of them would be in this process at once.",
                hint="to_spark() gives a DataFrame, head(10) the first rows;"
                f" {method}(limit=None) fetches all.",
            )

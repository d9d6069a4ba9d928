"""Tell somebody about every batch, with Spark's own figures and those of each view.

takes  Spark's progress events
gives  one dict per batch: Spark's names (batchId, numInputRows, processedRowsPerSecond, durationMs)
       and `views`, the status of each
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from viewmill.errors import MillClosed

Told = Callable[[dict[str, Any]], object]


class PipelineListener(StreamingQueryListener):  # type: ignore[misc]
    """Calls `fn` after each batch of the query that `query_id` names."""

    def __init__(
        self, query_id: Callable[[], str | None], status: Callable[[], Any], fn: Told
    ) -> None:
        self._query_id, self._status, self._fn = query_id, status, fn

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        """Nothing to tell yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        """A batch was done."""
        if str(event.progress.id) != self._query_id():
            return
        try:
            status = self._status()
        except MillClosed:
            return  # Spark tells some time after the batch, and the pipeline was closed meanwhile
        self._fn({**event.progress, **status})

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        """Nothing came."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        """`PipelineQuery.status` has the reason."""

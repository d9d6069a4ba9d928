"""A pipeline that runs: what `Pipeline.start` gives."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from viewmill.errors import EvaluationFailed, ViewmillError

if TYPE_CHECKING:
    from viewmill.pipeline.followed import Followed
    from viewmill.pipeline.pipeline import Pipeline


_PATIENCE_S = 5.0


class PipelineQuery:
    """One streaming query; its batches go to the mill until it is stopped."""

    def __init__(self, pipeline: Pipeline, followed: Followed) -> None:
        self._pipeline, self._followed = pipeline, followed
        self._spark_query: Any = None  # a StreamingQuery, None when all sources are batches
        self._turn = threading.Lock()  # held while a batch is taken
        self._stopped = False
        self._failure: BaseException | None = None

    def begin(self, writer: Any) -> None:
        """Start the stream."""
        self._spark_query = writer.foreachBatch(self._on_batch).start()

    def follow(self, *, is_once: bool) -> None:
        """Take what the followed tables lack: once, or from now on."""
        self._followed.take() if is_once else self._followed.start()

    def _on_batch(self, frame: Any, batch: int) -> None:
        with self._turn:
            if self._stopped:
                # Returning would tell Spark that the batch was taken.
                raise EvaluationFailed("the pipeline was stopped")
            try:
                self._pipeline.take(frame, batch)
            except BaseException as why:
                self._failure = why
                raise

    @property
    def spark_query(self) -> Any:
        """Spark's own handle, a StreamingQuery; None when all sources were batches."""
        return self._spark_query

    @property
    def is_active(self) -> bool:
        """Whether batches are still coming."""
        if self._spark_query is not None and bool(self._spark_query.isActive):
            return True
        return self._spark_query is None and self._followed.is_active

    def stop(self) -> None:
        """Stop after the batch under way; a later `start` goes on where this ended."""
        with self._turn:
            self._stopped = True
        if self._spark_query is not None:
            self._wait_for_note()
            self._spark_query.stop()
        self._pipeline.ended(self)

    def _wait_for_note(self) -> None:
        """Let Spark note the batch that was taken last, or it would run it again at the start."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.is_active and time.monotonic() < deadline and not self._pipeline.is_noted():
            time.sleep(0.01)

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until the query ends; True if it did. What made it fail is raised."""
        if self._spark_query is None:
            if ended := self._followed.wait(timeout_s):
                self._pipeline.ended(self)
            return ended
        try:
            done = self._spark_query.awaitTermination(*([] if timeout_s is None else [timeout_s]))
        except Exception as why:  # noqa: BLE001 (Spark wraps what our function raised)
            self._pipeline.ended(self)
            self._raise(why)
        ended = done is None or bool(done)
        if ended:
            self._pipeline.ended(self)
        return ended

    def _raise(self, why: BaseException) -> None:
        """Raise what made the query end; the pages that Spark said of it are the `__context__`."""
        if isinstance(self._failure, ViewmillError):
            raise self._failure from None
        raise self._pipeline.failure_of(why) from None

    def status(self) -> dict[str, Any]:
        """Batches, rows, dead letters, times, and the status of every view."""
        found: dict[str, Any] = {"active": self.is_active, "message": "", **self._pipeline.status()}
        if self._spark_query is not None:
            found["query_id"] = str(self._spark_query.id)
            found["message"] = self._spark_query.status.get("message", "")
            found["progress"] = dict(self._spark_query.lastProgress or {})
        if self._failure is not None:
            found["message"] = str(self._failure)
        return found

    def __repr__(self) -> str:
        state = "active" if self.is_active else "stopped"
        return f"pipeline query, {state}, batch {self._pipeline.status()['batch']}"

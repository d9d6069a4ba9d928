"""An error of Spark is told by its cause, in one line."""

from __future__ import annotations

import pytest

from viewmill.pipeline.root_cause import root_cause

TASK = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted
=== Streaming Query ===
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2898)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: org.apache.spark.sql.execution.QueryExecutionException: cannot convert column
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.lang.UnsupportedOperationException: [UNSUPPORTED] no dictionary of INT32
\t... 12 more"""
WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 2, in main
    raise ValueError
pyspark.errors.exceptions.base.PySparkValueError: no such column: x
\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:574)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (TASK, "UnsupportedOperationException: no dictionary of INT32"),
        (WORKER, "PySparkValueError: no such column: x"),
        ("[SOME_CONDITION] only this", "only this"),
        ("", "RuntimeError"),
        ("x" * 900, "x" * 500 + "..."),
    ],
)
def test_cause_is_the_innermost_that_is_no_wrapper(text, cause):
    assert root_cause(RuntimeError(text)) == cause

"""What the queries of a project read while they are looked at: stand-ins for their tables.

takes  functions that give the temporary view which stands for a name
does   `spark.table`, `spark.sql`, `read.table` and `readStream.table` read that view instead
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from viewmill.pipeline.declarative.names import rewrite

Called = Callable[[str, bool], str]  # a name, whether it is read as a stream
OfProject = Callable[[str], str | None]  # None: a table of others, which is read as it is written


@contextmanager
def reading(spark: Any, called: Called, of_project: OfProject) -> Iterator[Callable[[str], Any]]:
    """Gives a function that runs a query of the project."""
    session, reader, stream = type(spark), type(spark.read), type(spark.readStream)
    plain_table, plain_sql = session.table, session.sql
    plain_read, plain_stream = reader.table, stream.table

    def table(self: Any, tableName: str) -> Any:  # noqa: N803 (as PySpark calls it)
        return plain_table(self, of_project(tableName) or tableName)

    def read_table(self: Any, tableName: str) -> Any:  # noqa: N803
        view = of_project(tableName)
        return plain_read(self, tableName) if view is None else plain_table(spark, view)

    def read_stream(self: Any, tableName: str) -> Any:  # noqa: N803
        view = of_project(tableName)
        return plain_stream(self, tableName) if view is None else plain_table(spark, view)

    def sql(self: Any, sqlQuery: str, *more: Any, **named: Any) -> Any:  # noqa: N803
        text = rewrite(sqlQuery, called)
        frame = plain_sql(self, sqlQuery if text is None else text, *more, **named)
        if not more and not named:
            frame._viewmill_sql = sqlQuery  # its own text says more than its plan
        return frame

    with (
        patch.object(session, "table", table),
        patch.object(session, "sql", sql),
        patch.object(reader, "table", read_table),
        patch.object(stream, "table", read_stream),
        quiet(),
    ):
        yield lambda text: sql(spark, text)


@contextmanager
def quiet() -> Iterator[None]:
    """Queries that fail are reported, so PySpark need not log them."""
    loggers = [logging.getLogger(f"{each}QueryContextLogger") for each in ("SQL", "DataFrame")]
    before = [each.disabled for each in loggers]
    for each in loggers:
        each.disabled = True
    try:
        yield
    finally:
        for each, was in zip(loggers, before, strict=True):
            each.disabled = was

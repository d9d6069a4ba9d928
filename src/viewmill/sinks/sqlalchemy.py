"""A view as a table of any database that SQLAlchemy reaches, exactly once.

Read on in `sql_table.py`, which needs the package.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from typing import Any

from viewmill.errors import InvalidArgument, MissingDependency
from viewmill.sinks.sink import Sink

_SQL_TABLE = "viewmill.sinks.sql_table:SqlTable"


def sqlalchemy(
    url: Any, table: str, *, key: str | Sequence[str] = (), schema: str | None = None
) -> Sink:
    """Keep `table` equal to a view: inserts, updates and deletes in one transaction per version.

    `url` is a URL of SQLAlchemy or an engine. With `key`, the columns of a primary key, rows are
    updated in place, and two rows of one key are an error. Without it the table counts equal rows
    in the column `_viewmill_count`.
    """
    if not isinstance(table, str) or not table:
        raise InvalidArgument(f"{table!r} is no name of a table")
    keys = (key,) if isinstance(key, str) else tuple(key)
    try:
        made: Sink = pkgutil.resolve_name(_SQL_TABLE)(url, table, keys, schema)
    except ModuleNotFoundError as missing:
        hint = "pip install 'viewmill[sql]'" if missing.name == "sqlalchemy" else ""
        raise MissingDependency(
            f"{missing.name} is not installed", hint=hint or f"pip install {missing.name}"
        ) from missing
    return made

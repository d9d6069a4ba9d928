"""A table of PostgreSQL, followed by logical replication.

Read on in `postgres_table.py`, which needs psycopg.
"""

from __future__ import annotations

import pkgutil

from viewmill.errors import InvalidArgument, MissingDependency
from viewmill.sources.source import Stream

_TABLE = "viewmill.sources.postgres_table:PostgresTable"


def postgres(
    dsn: str, table: str, *, publication: str | None = None, slot: str | None = None
) -> Stream:
    """Follow `table` ("orders", "shop.orders") of the database that `dsn` names.

    First all rows, then every transaction, as one version or together with others. Without
    `publication` one is created for the table. The slot of a mill on disk stays at the server
    until `mill.unfollow`; `slot` gives it a name.
    """
    for what, given in (("dsn", dsn), ("table", table)):
        if not isinstance(given, str) or not given:
            raise InvalidArgument(f"{what}={given!r} is no text")
    try:
        made: Stream = pkgutil.resolve_name(_TABLE)(dsn, table, publication, slot)
    except ImportError as why:
        raise MissingDependency(
            "psycopg is not installed", detail=str(why), hint="pip install 'viewmill[postgres]'"
        ) from why
    return made

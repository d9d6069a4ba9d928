"""A view as an Iceberg table, as all rows of one version or as its changes. No JVM.

Read on in `iceberg_table.py`, which needs pyiceberg, and in `files.py`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any

from viewmill.errors import MissingDependency
from viewmill.sinks.files import made
from viewmill.sinks.sink import Sink

_TABLE = "viewmill.sinks.iceberg_table:IcebergTable"


def iceberg(catalog: str | Mapping[str, str] | Any, table: str, *, mode: str = "table") -> Sink:
    """Keep `table` ("shop.revenue") of a catalog equal to a view; mode="changes" adds changes.

    `catalog` is the name of one that pyiceberg is configured with, the properties of one, or a
    catalog of pyiceberg itself. The table is created; one that others made is refused.
    """
    try:
        place = pkgutil.resolve_name(_TABLE)(catalog, table)
    except ModuleNotFoundError as why:
        raise MissingDependency(
            f"{why.name} is not installed", hint="pip install 'viewmill[iceberg]'"
        ) from why
    return made(place, mode)

"""A table of an Iceberg catalog, through pyiceberg, without a JVM.

Read on in `iceberg_table.py`, which needs the package.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any

from viewmill.errors import MissingDependency
from viewmill.sources.source import Source

_TABLE = "viewmill.sources.iceberg_table:IcebergTable"


def iceberg(catalog: str | Mapping[str, str] | Any, table: str, *, branch: str = "main") -> Source:
    """Follow `table` ("shop.orders") of a catalog, on a branch or at a tag.

    `catalog` is the name of one that pyiceberg is configured with, the properties of one, or a
    catalog of pyiceberg itself.
    """
    try:
        made: Source = pkgutil.resolve_name(_TABLE)(catalog, table, branch)
    except ModuleNotFoundError as why:
        raise MissingDependency(
            f"{why.name} is not installed", hint="pip install 'viewmill[iceberg]'"
        ) from why
    return made

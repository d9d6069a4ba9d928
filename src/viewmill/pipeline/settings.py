"""Settings of a Spark session that hold for what is started meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def settings(spark: Any, wanted: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session for a while; a query that starts meanwhile keeps them."""
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)

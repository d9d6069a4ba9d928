"""A mill that is served on loopback, and clients of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

import viewmill as vm


@pytest.fixture
def served(uncompiled) -> Iterator[vm.Mill]:
    """Orders of two customers, and what each has paid."""
    with vm.connect() as mill:
        mill.sql(
            "CREATE TABLE orders (id BIGINT, customer STRING, amount DECIMAL(10, 2), "
            "at TIMESTAMP, paid BOOLEAN, weight DOUBLE, PRIMARY KEY (id))"
        )
        mill.sql(
            "CREATE MATERIALIZED VIEW revenue AS SELECT customer, count(*) AS orders, "
            "sum(amount) AS total FROM orders GROUP BY customer"
        )
        mill.insert("orders", [
            (1, "ann", 10, "2024-01-01 10:00:00", True, 1.5),
            (2, "bob", 5, None, False, None),
        ])  # fmt: skip
        yield mill


@pytest.fixture
def connect() -> Iterator[Callable[..., psycopg.Connection[Any]]]:
    """Connect to a server; the connections are closed after the test."""
    with ExitStack() as opened:

        def connected(server: Any, user: str = "ann", **options: Any) -> psycopg.Connection[Any]:
            made = psycopg.connect(
                host="127.0.0.1", port=server.port, user=user, dbname="viewmill",
                connect_timeout=20, **options,
            )  # fmt: skip
            opened.callback(made.close)
            return made

        yield connected

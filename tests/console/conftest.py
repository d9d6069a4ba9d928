"""A mill with a console, and a client that has opened its link."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

import viewmill as vm


@pytest.fixture
def shop(uncompiled) -> Iterator[vm.Mill]:
    with vm.connect() as made:
        made.sql(
            "CREATE TABLE orders (id BIGINT, customer STRING, amount BIGINT, PRIMARY KEY (id))"
        )
        made.sql(
            "CREATE MATERIALIZED VIEW revenue AS "
            "SELECT customer, SUM(amount) AS revenue FROM orders GROUP BY customer"
        )
        made.sql(
            "CREATE MATERIALIZED VIEW largest REFRESH ON DEMAND AS "
            "SELECT MAX(amount) AS amount FROM orders"
        )
        made.insert("orders", [(1, "ann", 10), (2, "bob", 7)])
        yield made


@pytest.fixture
def console(shop) -> Iterator[Any]:
    with shop.console() as running:
        yield running


@pytest.fixture
def client(console) -> Iterator[httpx.Client]:
    with opened(console.url) as made:
        yield made


@contextmanager
def opened(url: str) -> Iterator[httpx.Client]:
    """A client with the cookie of whoever opens the link."""
    with httpx.Client(base_url=url.partition("?")[0], timeout=20) as made:
        assert made.get(url).status_code == 200
        yield made

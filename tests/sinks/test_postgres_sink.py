"""A view as a table of a real PostgreSQL server."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal

import psycopg
import pytest
from tests.sources.conftest import postgres  # noqa: F401 (a fixture)

import viewmill as vm


@pytest.fixture
def target(postgres):  # noqa: F811
    """A connection, and the URL of SQLAlchemy for the same database."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        yield connection, postgres.dsn.replace("postgresql:", "postgresql+psycopg:")
        connection.execute("DROP TABLE IF EXISTS v, w, _viewmill_versions")


@pytest.mark.parametrize("key", ["k", ()])
def test_the_table_is_the_view_also_after_a_start(tmp_path, uncompiled, target, key):
    connection, url = target
    chance = random.Random(5)
    for _ in range(2):
        with vm.connect(tmp_path / "m.mill") as mill:
            if "t" not in mill:
                mill.sql("CREATE TABLE t (id BIGINT, k STRING, x DECIMAL(20, 4), PRIMARY KEY (id))")
                mill.sql(
                    "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(x) AS s, "
                    "MAX(id) > 20 AS large FROM t GROUP BY k"
                )
            mill.sink("v", vm.sinks.sqlalchemy(url, "v", key=key))
            for _ in range(5):
                rows = [(chance.randrange(40), chance.choice("abc\u00e9"), Decimal("1.0001"))
                        for _ in range(8)]  # fmt: skip
                mill.upsert("t", rows)
                mill.sql(f"DELETE FROM t WHERE id % 5 = {chance.randrange(5)}")
            assert mill.flush(60)
            found = connection.execute("SELECT k, n, s, large FROM v").fetchall()
            assert Counter(found) == Counter(mill["v"].rows())
            assert mill.status()["sinks"]["v"]["guarantee"] == "exactly once"
            mill.unsink("v")
            mill.upsert("t", [(99, "unseen", 1)])


def test_a_transaction_that_is_ended_by_the_server_is_made_again(uncompiled, target):
    connection, url = target
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (id BIGINT, PRIMARY KEY (id))")
        mill.sql("CREATE MATERIALIZED VIEW w AS SELECT id FROM t")
        mill.sink("w", vm.sinks.sqlalchemy(url, "w", key="id"))
        for i in range(6):
            mill.insert("t", [(i,)])
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
        for _ in range(20):
            try:
                assert mill.flush(60)
                break
            except vm.ViewmillError:
                continue
        assert connection.execute("SELECT id FROM w ORDER BY id").fetchall() == [
            (i,) for i in range(6)
        ]

"""A PostgreSQL server for the tests of this folder."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sources.postgres_server import Server, programs, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server; the tests make tables of their own."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="viewmill-postgres-") as folder:
        Path(folder).chmod(0o755)  # the server is another user
        with running(Path(folder) / "server") as server:
            yield server

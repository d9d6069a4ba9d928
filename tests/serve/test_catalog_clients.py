"""What psql, SQLAlchemy, node-postgres and JDBC ask of the catalog, and what they make of it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import sqlalchemy

CLIENTS = Path(__file__).with_name("clients")
JDBC = Path("/usr/share/java/postgresql.jar")


@pytest.fixture
def server(served):
    served.sql("CREATE VIEW paid AS SELECT id FROM orders WHERE paid")
    with served.serve(port=0) as started:
        yield started


def run(*command, **environment):
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def psql(server, command):
    found = run("psql", "-X", "-h", "127.0.0.1", "-p", str(server.port), "-U", "ann", "viewmill",
                "-v", "ON_ERROR_STOP=1", "-c", command)  # fmt: skip
    return [" ".join(line.replace("|", " ").split()) for line in found.splitlines()]


needs_psql = pytest.mark.skipif(shutil.which("psql") is None, reason="there is no psql")


@needs_psql
def test_psql_describes_a_table_with_its_key(server):
    found = psql(server, r"\d orders")
    assert found[0] == 'Table "public.orders"'
    assert "id bigint not null" in found
    assert "amount numeric(10,2)" in found
    assert "at timestamp without time zone" in found
    assert '"orders_pkey" PRIMARY KEY, btree (id)' in found


@needs_psql
def test_psql_describes_views_with_their_queries(server):
    found = psql(server, r"\d+ revenue")
    assert found[0] == 'Materialized view "public.revenue"'
    assert "SELECT customer, count(*) AS orders, sum(amount) AS total FROM orders GROUP BY " in (
        found[found.index("View definition:") + 1] + " "
    )
    assert "SELECT id FROM orders WHERE paid" in psql(server, r"\d+ paid")
    assert "public paid view viewmill" in psql(server, r"\d")


@needs_psql
def test_psql_lists_what_there_is_without_an_error(server):
    commands = (
        "dt+", "dv+", "dm+", "di", "dn+", "du", "l", "df", "dT", "dp", "dx", "ds", "db", "dRp",
        "det", "dy", "dC", "da", "d o*", "sv paid",
    )  # fmt: skip
    asked = [part for each in commands for part in ("-c", f"\\{each}")]
    found = run("psql", "-X", "-h", "127.0.0.1", "-p", str(server.port), "-U", "ann", "viewmill",
                "-v", "ON_ERROR_STOP=1", *asked)  # fmt: skip
    assert "orders_pkey" in found
    assert "CREATE OR REPLACE VIEW public.paid AS" in found


def test_sqlalchemy_reflects_tables_views_and_columns(server):
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://ann@127.0.0.1:{server.port}/viewmill")
    found = sqlalchemy.inspect(engine)
    assert found.get_table_names() == ["orders"]
    assert found.get_view_names() == ["paid"]
    assert found.get_materialized_view_names() == ["revenue"]
    assert found.get_view_definition("paid") == "SELECT id FROM orders WHERE paid"
    assert found.get_pk_constraint("orders")["constrained_columns"] == ["id"]
    assert found.get_foreign_keys("orders") == []
    assert found.get_indexes("orders") == []
    shown = [(each["name"], str(each["type"]), each["nullable"])
             for each in found.get_columns("orders")]  # fmt: skip
    assert shown == [
        ("id", "BIGINT", False), ("customer", "TEXT", True), ("amount", "NUMERIC(10, 2)", True),
        ("at", "TIMESTAMP", True), ("paid", "BOOLEAN", True), ("weight", "DOUBLE PRECISION", True),
    ]  # fmt: skip
    tables = sqlalchemy.MetaData()
    tables.reflect(engine, views=True)
    assert set(tables.tables) == {"orders", "paid", "revenue"}
    with engine.connect() as client:
        view = tables.tables["revenue"]
        query = sqlalchemy.select(view.c.orders).where(view.c.customer == "ann")
        assert client.execute(query).scalar_one() == 1
    engine.dispose()


def has_node_postgres():
    if shutil.which("node") is None or shutil.which("npm") is None:
        return False
    found = subprocess.run(
        ["node", "-e", "require('pg'); require('pg-cursor')"],
        capture_output=True,
        env=with_modules(),
    )
    return found.returncode == 0


def with_modules():
    root = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True).stdout.strip()
    return {**os.environ, "NODE_PATH": root}


def test_node_postgres_reads_by_prepared_statements_and_cursors(server):
    if not has_node_postgres():
        pytest.skip("node-postgres is not installed: npm install -g pg pg-cursor")
    script = str(CLIENTS / "read_orders.js")
    found = run("node", script, str(server.port), **{**with_modules(), "TZ": "UTC"})
    row = (
        '[{"id":"1","customer":"ann","amount":"10.00","at":"2024-01-01T10:00:00.000Z",'
        '"paid":true,"weight":1.5}]'
    )
    assert found.splitlines() == [row, row, '[[{"id":"1"}],[{"id":"2"}]]']


@pytest.mark.skipif(
    shutil.which("java") is None or not JDBC.exists(),
    reason="there is no JDBC driver: apt install libpostgresql-jdbc-java",
)
def test_jdbc_reads_names_rows_and_by_fetch_size(server):
    script = str(CLIENTS / "ReadOrders.java")
    found = run("java", "-Duser.timezone=UTC", "-cp", str(JDBC), script, str(server.port))
    lines = found.splitlines()
    assert lines[0] == "orders"
    assert lines[1:7] == [
        "id int8", "customer text", "amount numeric", "at timestamp", "paid bool", "weight float8",
    ]  # fmt: skip
    assert lines[7:9] == ["orders_pkey id", "orders_pkey"]
    assert set(lines[9:13]) == {"ann 10.00 2024-01-01 10:00:00 t 1.5"}
    assert len(set(lines[13:17])) == 1
    assert lines[17:] == ["1", "2"]


def test_columns_with_arrays_maps_and_structs_are_listed(served, connect):
    """The catalog of a mill with such a column could not be read at all."""
    served.sql("CREATE TABLE lists (l ARRAY<BIGINT>, s STRUCT<a: INT>, m MAP<STRING, INT>)")
    with served.serve(port=0) as server:
        client = connect(server)
        found = client.execute(
            "SELECT column_name, data_type, udt_name FROM information_schema.columns "
            "WHERE table_name = 'lists' ORDER BY ordinal_position"
        ).fetchall()
        assert found == [("l", "ARRAY", "_int8"), ("s", "json", "json"), ("m", "json", "json")]
        shown = client.execute(
            "SELECT format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a "
            "JOIN pg_class c ON c.oid = a.attrelid WHERE c.relname = 'lists' ORDER BY a.attnum"
        ).fetchall()
        assert shown == [("bigint[]",), ("json",), ("json",)]

"""psycopg and psql read a mill over the protocol of Postgres."""

import datetime as dt
import shutil
import subprocess
import threading
import time
from decimal import Decimal

import psycopg
import pytest

import viewmill as vm

ORDERS = [
    (1, "ann", Decimal("10.00"), dt.datetime(2024, 1, 1, 10), True, 1.5),
    (2, "bob", Decimal("5.00"), None, False, None),
]


@pytest.mark.parametrize("binary", [False, True])
def test_rows_arrive_with_their_types(served, connect, binary):
    with served.serve(port=0) as server:
        cursor = connect(server).cursor(binary=binary)
        assert cursor.execute("SELECT * FROM orders ORDER BY id").fetchall() == ORDERS
        assert [each.name for each in cursor.description] == [
            "id", "customer", "amount", "at", "paid", "weight",
        ]  # fmt: skip


def test_simple_queries_give_the_last_result_of_several(served, connect):
    with served.serve(port=0) as server:
        client = psycopg.ClientCursor(connect(server))
        assert client.execute("SELECT count(*) FROM orders").fetchall() == [(2,)]
        client.execute("SELECT 1 AS a; SELECT customer FROM revenue ORDER BY customer")
        assert client.fetchall() == [(1,)]
        assert client.nextset()
        assert client.fetchall() == [("ann",), ("bob",)]


@pytest.mark.parametrize("value", ["ann", "x' OR '1'='1", 'a"b', "$1", "\\", "ß", ""])
def test_a_parameter_stays_a_value(served, connect, value):
    with served.serve(port=0) as server:
        found = connect(server).execute("SELECT id FROM orders WHERE customer = %s", (value,))
        assert found.fetchall() == ([(1,)] if value == "ann" else [])


def test_parameters_of_many_types_find_their_row(served, connect):
    with served.serve(port=0) as server:
        client = connect(server)
        for column, value in zip(
            ("id", "customer", "amount", "at", "paid", "weight"), ORDERS[0], strict=True
        ):
            for form in ("%s", "%b", "%t"):
                query = f"SELECT id FROM orders WHERE {column} = {form}"
                assert client.execute(query, (value,)).fetchall() == [(1,)], query
        found = client.execute("SELECT id FROM orders WHERE id = ANY(%s) ORDER BY id", ([1, 2],))
        assert found.fetchall() == [(1,), (2,)]


def test_a_prepared_statement_sees_new_rows(served, connect):
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        query = "SELECT total FROM revenue WHERE customer = %s"
        for extra in range(4):
            found = client.execute(query, ("ann",), prepare=True).fetchall()
            assert found == [(Decimal(10 + extra),)]
            served.insert("orders", [(10 + extra, "ann", 1, None, None, None)])


def test_a_transaction_reads_one_version(served, connect):
    with served.serve(port=0) as server:
        client = connect(server)
        query = "SELECT (SELECT sum(amount) FROM orders) a, (SELECT sum(total) FROM revenue) b"
        assert client.execute(query).fetchall() == [(Decimal(15), Decimal(15))]
        served.insert("orders", [(3, "eve", 100, None, None, None)])
        served.delete("orders", [(2, "bob", 5, None, False, None)])
        assert client.execute(query).fetchall() == [(Decimal(15), Decimal(15))]
        assert client.execute("SELECT id FROM orders ORDER BY id").fetchall() == [(1,), (2,)]
        client.commit()
        assert client.execute(query).fetchall() == [(Decimal(110), Decimal(110))]


def copied_sum(client):
    with client.cursor().copy("COPY (SELECT sum(money) FROM accounts) TO STDOUT") as out:
        return next(iter(list(out.rows())))


@pytest.mark.parametrize(
    ("clients", "transfers"), [(4, 100), pytest.param(64, 50, marks=pytest.mark.slow)]
)
def test_no_client_sees_money_between_two_accounts(uncompiled, connect, clients, transfers):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE accounts (id BIGINT, money BIGINT, PRIMARY KEY (id))")
        mill.sql("CREATE MATERIALIZED VIEW bank AS SELECT sum(money) AS money FROM accounts")
        mill.insert("accounts", [(each, 100) for each in range(10)])
        with mill.serve(port=0) as server:
            seen, ends, failures = [], threading.Event(), []

            def read(client):
                try:
                    while not ends.is_set():
                        seen.append(client.execute("SELECT sum(money) FROM accounts").fetchone())
                        seen.append(client.execute("SELECT money FROM bank").fetchone())
                        seen.append(copied_sum(client))
                        query = "SELECT sum(money) FROM accounts WHERE id > %s"
                        seen.append(client.execute(query, (-1,), prepare=True).fetchone())
                        client.commit()
                except psycopg.Error as why:
                    failures.append(why)

            connected = [connect(server) for _ in range(clients)]
            threads = [threading.Thread(target=read, args=(each,)) for each in connected]
            for each in threads:
                each.start()
            for i in range(transfers):
                mill.upsert("accounts", [(i % 10, 100 - i), ((i + 1) % 10, 100 + i)])
                mill.upsert("accounts", [(i % 10, 100), ((i + 1) % 10, 100)])
            ends.set()
            for each in threads:
                each.join()
            assert failures == []
            assert len(seen) >= 4 * clients
            assert {int(row[0]) for row in seen} == {1000}


@pytest.mark.parametrize(
    ("query", "code", "word"),
    [
        ("SELECT nope FROM orders", "42703", "nope"),
        ("SELECT id FROM nowhere", "42P01", "nowhere"),
        ("SELEKT 1", "42601", "SELEKT"),
        ("SELECT id FROM orders WHERE", "42601", None),
        ("INSERT INTO orders VALUES (9)", "25006", "INSERT"),
        ("DROP TABLE orders", "25006", "DROP"),
        ("COPY orders TO '/tmp/x'", "42601", "COPY"),
        ("SELECT 1 / 0 AS x", "22012", None),
    ],
)
def test_an_error_has_a_code_and_a_place_and_changes_nothing(served, connect, query, code, word):
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        with pytest.raises(psycopg.Error) as raised:
            client.execute(query)
        assert raised.value.sqlstate == code
        if word is not None:
            assert raised.value.diag.statement_position == str(query.index(word) + 1)
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (2,)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv_auto('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM pg_class, read_text('/etc/passwd')",
        "SELECT * FROM pg_class, LATERAL read_csv('/etc/passwd')",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT getenv('HOME'), version()",
        "SELECT * FROM duckdb_settings(), pg_class",
        'SELECT * FROM pg_class, "filled pg_class"',
        "ATTACH '/tmp/x.db'",
        "SELECT relname INTO made FROM pg_class",
    ],
)
def test_sql_of_clients_reaches_no_files_and_no_engine(served, connect, query):
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        with pytest.raises(psycopg.Error):
            client.execute(query)
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (2,)


def test_a_failed_transaction_refuses_until_rollback(served, connect):
    with served.serve(port=0) as server:
        client = connect(server)
        with pytest.raises(psycopg.errors.UndefinedColumn):
            client.execute("SELECT nope FROM orders")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            client.execute("SELECT 1")
        client.rollback()
        assert client.execute("SELECT 1").fetchone() == (1,)


SLOW = "SELECT count(*) FROM n a, n b, n c WHERE a.x + b.x + c.x = -1"


@pytest.fixture
def with_numbers(served):
    served.sql("CREATE TABLE n (x BIGINT)")
    served.insert("n", [(each,) for each in range(4000)])
    return served


def test_a_client_cancels_its_query_and_goes_on(with_numbers, connect):
    with with_numbers.serve(port=0) as server:
        client, other = connect(server, autocommit=True), connect(server, autocommit=True)
        timer = threading.Timer(0.5, client.cancel_safe)
        timer.start()
        start = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.execute(SLOW)
        assert time.monotonic() - start < 10
        timer.join()
        assert client.execute("SELECT count(*) FROM n").fetchone() == (4000,)
        assert other.execute("SELECT count(*) FROM n").fetchone() == (4000,)


def test_a_query_stops_at_its_limit_of_time(with_numbers, connect):
    with with_numbers.serve(port=0, timeout=0.5) as server:
        client = connect(server, autocommit=True)
        client.execute("SET statement_timeout = '1h'")  # the server's own limit stays
        with pytest.raises(psycopg.errors.QueryCanceled, match=r"more than 0\.5 s"):
            client.execute(SLOW)
        assert client.execute("SELECT count(*) FROM n").fetchone() == (4000,)


def test_a_result_with_too_many_rows_is_refused(with_numbers, connect):
    with with_numbers.serve(port=0, max_rows=100) as server:
        client = connect(server, autocommit=True)
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            client.execute("SELECT x FROM n")
        assert len(client.execute("SELECT x FROM n LIMIT 100").fetchall()) == 100


def test_closing_the_mill_ends_its_server(served, connect):
    server = served.serve(port=0)
    client = connect(server)
    served.close()
    with pytest.raises(psycopg.OperationalError):
        client.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        connect(server)


@pytest.mark.skipif(shutil.which("psql") is None, reason="there is no psql")
def test_psql_prints_rows_and_points_at_errors(served):
    with served.serve(port=0) as server:
        command = ["psql", "-X", "-At", "-h", "127.0.0.1", "-p", str(server.port), "-U", "ann", "v"]
        query = "SELECT * FROM revenue ORDER BY customer"
        done = subprocess.run(
            [*command, "-c", query], capture_output=True, text=True, timeout=30, check=True
        )
        assert done.stdout == "ann|1|10.00\nbob|1|5.00\n"
        done = subprocess.run(
            [*command, "-c", "SELECT nope FROM orders"], capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 1
        assert "LINE 1: SELECT nope FROM orders\n               ^" in done.stderr


@pytest.mark.parametrize(
    "query",
    [
        "SELECT repeat('x', 2000000000)",
        "SELECT repeat('xyz', id * 1000000) FROM orders",
        "SELECT lpad('x', 1000000000, 'y')",
        "SELECT rpad('x', 1000000000, 'y')",
        "SELECT size(sequence(1, 1000000000))",
        "SELECT size(sequence(1, -1000000000))",
        "SELECT size(sequence(-9223372036854775807, 9223372036854775807))",
        "SELECT size(sequence(1, 1000000000, 2))",
        "SELECT size(sequence(1, -1000000000, -2))",
        "SELECT size(array_repeat(1, 1000000000))",
        "SELECT space(2000000000)",
        "SELECT replace(repeat('x', 60000), 'x', repeat('y', 60000))",
        "SELECT regexp_count(repeat('a', 40), '(a+)+b')",
        "SELECT rlike(repeat('a', 40), '(?=a)(a+)+b')",
    ],
)
def test_one_call_makes_no_giant_of_a_client(served, connect, query):
    """DuckDB works such calls out while it plans, and hears nobody meanwhile."""
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        start = time.monotonic()
        with pytest.raises(psycopg.errors.DataException):
            client.execute(query)
        assert time.monotonic() - start < 5


def test_calls_of_usual_size_are_what_they_are_in_a_mill(served, connect):
    query = (
        "SELECT repeat('ab', 3), repeat('x', -1), repeat('', 9), repeat(customer, 2), "
        "lpad('x', 3, 'ab'), lpad('xyz', 2), rpad('x', 3, ''), rpad('x', 5, 'ab'), lpad('x', -1), "
        "replace('abab', 'b', 'cc'), replace('ab', '', 'x'), array_repeat('x', 3), "
        "array_repeat(1, -1), sequence(1, 3), sequence(3, 1), sequence(1, 7, 3), "
        "sequence(7, 1, -3), sequence(2, 2, 0), repeat(NULL, 2), repeat('x', nullif(id, id)), "
        "sequence(1, nullif(id, id)), sequence(nullif(id, id), 1), sequence(1, nullif(id, id), 1), "
        "array_repeat(1, nullif(int(id), int(id))), lpad('x', nullif(int(id), int(id)), 'y'), "
        "space(3), space(nullif(int(id), int(id))), space(-1), "
        "sequence(9223372036854775806, 9223372036854775807), size(sequence(1, 65536)) FROM orders"
    )
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        assert sorted(client.execute(query).fetchall()) == sorted(served.sql(query).rows())


def test_a_result_with_too_many_bytes_is_refused(with_numbers, connect):
    with with_numbers.serve(port=0, max_bytes=1_000_000) as server:
        client = connect(server, autocommit=True)
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            client.execute("SELECT repeat('x', 1000) FROM n")
        assert len(client.execute("SELECT x FROM n").fetchall()) == 4000

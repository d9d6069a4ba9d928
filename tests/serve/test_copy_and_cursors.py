"""COPY out, cursors, change streams, lists, and encrypted connections."""

import csv
import io
import subprocess
import threading

import psycopg
import pytest

import viewmill as vm


def copied(client, query):
    with client.cursor().copy(query) as out:
        return b"".join(bytes(each) for each in out)


ODD = 'a\tb\\c\n"d",e'


@pytest.fixture
def odd(served):
    served.insert("orders", [(3, ODD, None, None, None, None)])
    return served


def test_copy_writes_text_that_reads_back(odd, connect):
    with odd.serve(port=0) as server:
        client = connect(server, autocommit=True)
        with client.cursor().copy("COPY orders (id, customer, amount) TO STDOUT") as out:
            assert list(out.rows()) == [
                ("1", "ann", "10.00"),
                ("2", "bob", "5.00"),
                ("3", ODD, None),
            ]
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_copy_writes_csv_that_reads_back(odd, connect):
    with odd.serve(port=0) as server:
        query = (
            "COPY (SELECT id, customer, amount FROM orders ORDER BY id) TO STDOUT "
            "WITH (FORMAT csv, HEADER, DELIMITER '|')"
        )
        text = copied(connect(server), query).decode()
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter="|"))
        assert rows == [["id", "customer", "amount"], ["1", "ann", "10.00"], ["2", "bob", "5.00"],
                        ["3", ODD, ""]]  # fmt: skip


def test_copy_writes_binary_that_reads_back(odd, connect):
    with odd.serve(port=0) as server:
        query = (
            "COPY (SELECT id, customer, weight FROM orders ORDER BY id) TO STDOUT (FORMAT binary)"
        )
        with connect(server).cursor().copy(query) as out:
            out.set_types(["int8", "text", "float8"])
            assert list(out.rows()) == [(1, "ann", 1.5), (2, "bob", None), (3, ODD, None)]


@pytest.mark.parametrize(
    "query",
    [
        "COPY orders TO '/tmp/x'",
        "COPY orders TO PROGRAM 'cat'",
        "COPY orders FROM STDIN",
        "COPY (INSERT INTO orders VALUES (1)) TO STDOUT",
        "COPY (SELECT 1 FROM orders TO STDOUT",
        "COPY orders TO STDOUT (FORMAT parquet)",
        "COPY orders TO STDOUT (DELIMITER 'ab')",
    ],
)
def test_copy_reads_and_writes_no_files(served, connect, query):
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        with pytest.raises(psycopg.Error):
            copied(client, query)
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (2,)


def test_a_cursor_reads_its_own_version_bit_by_bit(served, connect):
    with served.serve(port=0) as server:
        client = connect(server)
        for binary in (False, True):
            with client.cursor("bits", binary=binary) as cursor:
                cursor.itersize = 1
                cursor.execute("SELECT id FROM orders WHERE id > %s ORDER BY id", (0,))
                assert cursor.fetchone() == (1,)
                served.insert("orders", [(7 + binary, "eve", 1, None, None, None)])
                assert [row[0] for row in cursor] == [2]
        client.commit()
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (4,)


def test_a_cursor_moves_both_ways(served, connect):
    served.sql("CREATE TABLE n (x BIGINT)")
    served.insert("n", [(each,) for each in range(1, 6)])
    with served.serve(port=0) as server:
        client = connect(server)
        client.execute("DECLARE c SCROLL CURSOR FOR SELECT x FROM n ORDER BY x")
        for query, expected in [
            ("FETCH 2 FROM c", [1, 2]), ("FETCH PRIOR FROM c", [1]), ("FETCH ALL c", [2, 3, 4, 5]),
            ("FETCH NEXT FROM c", []), ("FETCH BACKWARD 2 FROM c", [5, 4]), ("FETCH FIRST c", [1]),
            ("FETCH LAST c", [5]), ("FETCH ABSOLUTE 3 IN c", [3]), ("FETCH FORWARD 1 c", [4]),
            ("FETCH ABSOLUTE 9 IN c", []), ("FETCH BACKWARD ALL c", [5, 4, 3, 2, 1]),
        ]:  # fmt: skip
            assert [row[0] for row in client.execute(query).fetchall()] == expected, query
        client.execute("CLOSE c")
        with pytest.raises(psycopg.errors.InvalidCursorName):
            client.execute("FETCH c")
        client.rollback()


def test_a_cursor_ends_with_its_transaction_unless_it_is_held(served, connect):
    with served.serve(port=0) as server:
        client = connect(server)
        client.execute("DECLARE a CURSOR FOR SELECT id FROM orders ORDER BY id")
        client.execute("DECLARE b CURSOR WITH HOLD FOR SELECT id FROM orders ORDER BY id")
        client.commit()
        assert client.execute("FETCH 1 FROM b").fetchall() == [(1,)]
        with pytest.raises(psycopg.errors.InvalidCursorName):
            client.execute("FETCH 1 FROM a")


@pytest.mark.parametrize("name", ["orders", "revenue"])
def test_subscribers_get_the_rows_and_then_every_change(served, connect, name):
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        kept: dict[tuple[str, ...], int] = {}
        with client.cursor().copy(f"COPY (SUBSCRIBE {name}) TO STDOUT") as out:
            rows = out.rows()

            def take(count):
                for _ in range(count):
                    version, times, *row = next(rows)
                    kept[tuple(row)] = kept.get(tuple(row), 0) + int(times)
                return int(version)

            take(2)
            served.insert("orders", [(3, "ann", 7, None, None, None)])
            take(1 if name == "orders" else 2)
            served.delete("orders", [(2, "bob", 5, None, False, None)])
            assert take(1) == served.version
            client.cancel_safe()
            with pytest.raises(psycopg.errors.QueryCanceled):
                next(rows)
        left = sorted((row[0], row[1]) for row, times in kept.items() if times)
        assert left == ([("1", "ann"), ("3", "ann")] if name == "orders" else [("ann", "2")])
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_subscription_ends_when_its_view_is_dropped(served, connect):
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        opened = client.cursor().copy("COPY (SUBSCRIBE revenue) TO STDOUT")
        rows = opened.__enter__().rows()
        assert {next(rows)[2], next(rows)[2]} == {"ann", "bob"}
        served.sql("DROP MATERIALIZED VIEW revenue")
        with pytest.raises(psycopg.errors.UndefinedTable, match="dropped"):
            next(rows)


def test_a_subscriber_that_leaves_is_forgotten(served, connect):
    core = served._core
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        before = len(core.noting)
        opened = client.cursor().copy("COPY (SUBSCRIBE orders) TO STDOUT")
        opened.__enter__().read()
        assert len(core.noting) == before + 1
        client.close()
        ended = threading.Event()
        for _ in range(100):
            if len(core.noting) == before:
                break
            ended.wait(0.1)
        assert len(core.noting) == before


def test_lists_are_arrays_as_text_and_binary(uncompiled, connect):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE l (id BIGINT, words ARRAY<STRING>, numbers ARRAY<INT>)")
        words = ["", "a b", 'q"', "NULL", "x,y", "\\", None, "{}"]
        mill.insert("l", [(1, words, [1, None, -3]), (2, [], None)])
        with mill.serve(port=0) as server:
            client = connect(server)
            for form in (False, True):
                cursor = client.cursor(binary=form)
                cursor.execute("SELECT words, numbers FROM l ORDER BY id")
                assert cursor.fetchall() == [(words, [1, None, -3]), ([], None)]


@pytest.fixture
def certificate(tmp_path):
    names = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
               "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
               "subjectAltName=IP:127.0.0.1",
               "-out", str(names[0]), "-keyout", str(names[1])]  # fmt: skip
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl to make a certificate")
    return names


def test_a_server_with_a_certificate_takes_only_encrypted_connections(served, connect, certificate):
    cert, key = certificate
    with served.serve(port=0, cert=cert, key=key) as server:
        client = connect(server, sslmode="verify-full", sslrootcert=str(cert))
        assert client.pgconn.ssl_in_use
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (2,)
        with client.cursor().copy("COPY (SUBSCRIBE orders) TO STDOUT") as out:
            rows = out.rows()
            assert {next(rows)[3], next(rows)[3]} == {"ann", "bob"}
            client.cancel_safe()
            with pytest.raises(psycopg.errors.QueryCanceled):
                next(rows)
        with pytest.raises(psycopg.OperationalError, match="only encrypted"):
            connect(server, sslmode="disable")


def test_a_certificate_that_cannot_be_read_is_an_error(served, tmp_path):
    with pytest.raises(vm.InvalidArgument, match="certificate"):
        served.serve(port=0, cert=tmp_path / "none.pem")

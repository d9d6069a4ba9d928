"""Bytes that are no messages: the server ends that connection, and goes on."""

import logging
import random
import socket
import struct
from contextlib import suppress

import pytest

from viewmill.serve.limits import Limits
from viewmill.serve.server import serve

START = struct.pack("!ii", 8 + len(b"user\0ann\0\0"), 3 << 16) + b"user\0ann\0\0"


def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body


GOOD = [
    message(b"Q", b"SELECT id, customer FROM orders WHERE id = 1\0"),
    message(b"P", b"s\0SELECT id FROM orders WHERE id = $1\0" + struct.pack("!hi", 1, 20)),
    message(b"B", b"p\0s\0" + struct.pack("!hhhiqhh", 1, 1, 1, 8, 1, 1, 1)),
    message(b"D", b"Ss\0"),
    message(b"D", b"Pp\0"),
    message(b"E", b"p\0" + struct.pack("!i", 1)),
    message(b"C", b"Ss\0"),
    message(b"Q", b"SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r'\0"),
    message(b"S", b""),
    message(b"H", b""),
]


def sent(port, data):
    """Send, say that nothing follows, and read what comes until the server ends it."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        found = b""
        with suppress(OSError):  # it was ended while we were writing; its last words can be read
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while piece := client.recv(65536):
                found += piece
        return found


def spoiled(random_, data):
    """The same bytes with some changed, left out, doubled or added."""
    made = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 5))):
        at = random_.randrange(len(made) + 1)
        match random_.randrange(5):
            case 0:
                made[at : at + 1] = bytes([random_.randrange(256)])
            case 1:
                del made[at : at + random_.randrange(1, 9)]
            case 2:
                made[at:at] = random_.randbytes(random_.randrange(1, 9))
            case 3:
                made[at:at] = made[at : at + random_.randrange(1, 30)]
            case _:
                number = random_.choice((0, 1, -1, 2**31 - 1, -(2**31), 65535))
                made[at : at + 4] = struct.pack("!i", number)
    return bytes(made)


@pytest.mark.parametrize("seed", range(4))
def test_the_server_survives_spoiled_messages(served, connect, caplog, seed):
    random_ = random.Random(seed)
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        for _ in range(80):
            good = b"".join(random_.sample(GOOD, random_.randrange(1, len(GOOD))))
            is_started = random_.random() < 0.8
            data = START + spoiled(random_, good) if is_started else spoiled(random_, START + good)
            sent(server.port, data)
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (2,)
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\0" * 1000,
        b"\xff" * 1000,
        struct.pack("!i", 2**31 - 1),
        struct.pack("!ii", 8, 80877103) * 100,
        START + b"Q" + struct.pack("!i", 2**31 - 1),
        START + b"Q" + struct.pack("!i", -5),
        START + message(b"Q", b"no end"),
        START + message(b"B", b"\0\0" + struct.pack("!h", -1)),
        START + message(b"?", b""),
        struct.pack("!iiii", 16, 80877102, 1, 12345),
    ],
)
def test_what_is_no_protocol_is_ended(served, connect, caplog, data):
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        sent(server.port, data)
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (2,)
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT " + "(" * 100_000,
        "SELECT " + "-" * 3 + "1 " * 1000,
        "SELECT " + "NOT " * 50_000 + "true",
        "SELECT * FROM pg_class WHERE " + "(" * 100_000,
        ";" * 100_000,
        "SELECT '" + "x" * 1_000_000,
    ],
)
def test_a_query_too_deep_or_too_long_to_read_is_answered(served, connect, query):
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        answer = sent(
            server.port, START + message(b"Q", query.encode() + b"\0") + message(b"X", b"")
        )
        assert answer.count(b"Z\0\0\0\5I") == 2
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (2,)


def test_one_client_too_many_is_turned_away(served, connect):
    limits = Limits(connections=2)
    with serve(served._core, port=0, host="127.0.0.1", users=None, limits=limits) as server:
        connect(server)
        client = connect(server, autocommit=True)
        assert b"too many connections" in sent(server.port, START)
        assert client.execute("SELECT 1").fetchone() == (1,)

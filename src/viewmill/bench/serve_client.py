"""A client of `viewmill bench serve`, in a process of its own: prepared reads of one row each.

takes  a port, seconds, connections, a pause between two reads of a connection, the number of keys
gives  a line of JSON: reads, wrong answers, latencies

It speaks the protocol itself, so that what is measured is the server and not a driver.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
import threading
import time

_SQL = b"SELECT total FROM balances WHERE owner = $1"


def message(kind: bytes, body: bytes) -> bytes:
    """One message of a client."""
    return kind + struct.pack("!i", len(body) + 4) + body


class Client:
    """A connection with one prepared statement."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = self._socket.makefile("rb")
        body = struct.pack("!i", 3 << 16) + b"user\0bench\0database\0mill\0\0"
        self._socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self._until_ready()
        prepare = message(b"P", b"s\0" + _SQL + b"\0" + struct.pack("!h", 0))
        self._socket.sendall(prepare + message(b"S", b""))
        self._until_ready()

    def _until_ready(self) -> bytes:
        """The last row that comes."""
        row = b""
        while True:
            kind, length = struct.unpack("!ci", self._read.read(5))
            body = self._read.read(length - 4)
            if kind == b"Z":
                return row
            if kind == b"E":
                raise RuntimeError(body.decode("utf-8", "replace"))
            if kind == b"D":
                row = body

    def read(self, owner: str) -> bytes:
        """The one value of a row, as text."""
        given = owner.encode()
        bind = b"\0s\0" + struct.pack("!hhi", 0, 1, len(given)) + given + struct.pack("!h", 0)
        sent = message(b"B", bind) + message(b"E", b"\0" + struct.pack("!i", 0))
        self._socket.sendall(sent + message(b"S", b""))
        return self._until_ready()[6:]


def read_for(client: Client, seconds: float, pause: float, keys: int, seed: int) -> list[float]:
    """Latencies of reads, one after the other; -1 for a wrong answer."""
    draw, found = random.Random(seed), []
    end = time.perf_counter() + seconds
    time.sleep(pause * draw.random())
    while (start := time.perf_counter()) < end:
        answer = client.read(f"o{draw.randrange(keys)}")
        found.append(time.perf_counter() - start if answer == b"100" else -1.0)
        if pause:
            time.sleep(pause)
    return found


def main() -> None:
    """Read with as many connections as asked."""
    port, connections, keys = (int(sys.argv[i]) for i in (1, 3, 5))
    seconds, pause = float(sys.argv[2]), float(sys.argv[4])
    clients = [Client(port) for _ in range(connections)]
    for client in clients[:1]:
        for i in range(100):  # the statement is planned, its rows are listed by key
            client.read(f"o{i % keys}")
    _say("ready")
    sys.stdin.readline()
    found: list[float] = []
    threads = [
        threading.Thread(
            target=lambda c=each, s=i: found.extend(read_for(c, seconds, pause, keys, s))
        )
        for i, each in enumerate(clients)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    right = sorted(each for each in found if each >= 0)
    p50, p99 = (right[int(len(right) * share)] * 1e3 if right else 0.0 for share in (0.5, 0.99))
    wrong = len(found) - len(right)
    _say(json.dumps({"reads": len(right), "wrong": wrong, "p50_ms": p50, "p99_ms": p99}))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

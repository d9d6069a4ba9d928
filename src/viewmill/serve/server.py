"""The server: listens, and gives each client a thread.

takes  a mill's core, an address, users and limits
gives  a Server that runs until it or the mill is closed
"""

from __future__ import annotations

import ipaddress
import logging
import os
import pkgutil
import secrets
import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from viewmill.errors import InvalidArgument
from viewmill.mill.core import Core
from viewmill.program.threads import one_of_ours
from viewmill.serve.catalog_queries import CatalogReader
from viewmill.serve.connection import Connection, Host
from viewmill.serve.failures import Refused, report_fields
from viewmill.serve.grants import Grants, read_grants
from viewmill.serve.limits import Limits
from viewmill.serve.messages import report
from viewmill.serve.mill_queries import MillReader
from viewmill.serve.running import Running
from viewmill.serve.scram import Secret
from viewmill.serve.session import Session
from viewmill.serve.users import read_users
from viewmill.serve.wire import Gone, Wire

_LOG = logging.getLogger("viewmill.serve")
_TICK_S = 0.05
_PATIENCE_S = 5.0  # for threads to end


def serve(
    core: Core,
    *,
    port: int,
    host: str,
    users: str | os.PathLike[str] | None,
    limits: Limits,
    cert: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    grants: str | os.PathLike[str] | None = None,
) -> Server:
    """Start a server. Away from loopback it needs users."""
    tls = None if cert is None else _tls(cert, key)
    known, granted = _known(host, users, grants)
    listening = _listen(host, port)
    try:
        return Server(core, listening, known, limits, tls, granted)
    except BaseException:
        listening.close()
        raise


def _known(
    host: str, users: str | os.PathLike[str] | None, grants: str | os.PathLike[str] | None
) -> tuple[dict[str, Secret] | None, Grants | None]:
    """The users and grants of two files. Away from loopback there must be users."""
    known = None if users is None else read_users(users)
    if known is None and not is_loopback(host):
        raise InvalidArgument(
            f"{host} can be reached from other machines, and anybody could read the mill",
            hint="Give users: viewmill serve --add-user NAME --users FILE, then --users FILE.",
        )
    granted = None if grants is None else read_grants(grants)
    if granted is not None and known is None:
        raise InvalidArgument(
            "grants need users: without passwords, anybody could say to be anybody",
            hint="Give users: viewmill serve --add-user NAME --users FILE, then --users FILE.",
        )
    return known, granted


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _tls(cert: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as why:
        raise InvalidArgument(
            f"the certificate {cert} cannot be used",
            detail=str(why),
            hint="cert= names a file in PEM format with the chain, key= one with the private key.",
        ) from why
    return context


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise InvalidArgument(f"there is no port {port}", hint="Ports go from 0 to 65535.")
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128
        )
    except OSError as why:
        raise InvalidArgument(
            f"port {port} of {host} cannot be listened on", detail=str(why)
        ) from why


class Server:
    """Answers clients of Postgres until it is closed. A context manager."""

    def __init__(
        self,
        core: Core,
        listening: socket.socket,
        users: Any,
        limits: Limits,
        tls: ssl.SSLContext | None = None,
        grants: Grants | None = None,
    ) -> None:
        self._grants = grants
        self._core, self._listening, self._limits = core, listening, limits
        self._address, self._port = listening.getsockname()[:2]
        self._mill = MillReader(core, limits.rows, limits.bytes)
        self._catalog = CatalogReader(core)
        self._host = Host(users, limits, self._open_session, self._cancel, tls)
        self._lock = threading.Lock()
        self._connections: dict[int, tuple[Connection, threading.Thread]] = {}
        self._next = 1
        self._closed = threading.Event()
        self._threads = [
            _started(each, name)
            for each, name in ((self._accept, "viewmill-serve"), (self._watch, "viewmill-watch"))
        ]

    @property
    def address(self) -> str:
        """Where it listens."""
        return str(self._address)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._port)

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        with self._lock:
            return len(self._connections)

    def wait(self) -> None:
        """Wait until it is closed."""
        while not self._closed.wait(0.5):
            pass

    def close(self) -> None:
        """Close all connections and stop listening."""
        if self._closed.is_set():
            return
        self._closed.set()
        with suppress(OSError):  # some systems refuse it for a socket that listens
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            open_now = list(self._connections.values())
        for connection, _ in open_now:
            connection.running.cancel()
            connection.wire.close()
        own = threading.current_thread()
        until = time.monotonic() + _PATIENCE_S
        for thread in [*self._threads, *(each for _, each in open_now)]:
            if thread is not own:
                thread.join(max(0.0, until - time.monotonic()))
        self._mill.close()
        self._catalog.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Threads.

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connected, peer = self._listening.accept()
            except OSError:
                if self._closed.is_set():
                    return
                time.sleep(_TICK_S)  # too many open files: others go on
                continue
            try:
                self._take(connected, f"{peer[0]}:{peer[1]}")
            except (OSError, RuntimeError) as why:  # no thread for it
                _LOG.warning("a connection could not be taken: %s", why)
                connected.close()

    def _take(self, connected: socket.socket, peer: str) -> None:
        wire = Wire(connected, self._limits.send_seconds)
        with self._lock:
            if len(self._connections) >= self._limits.connections:
                _turn_away(wire, peer)
                return
            number, self._next = self._next, self._next % 0x7FFFFFFF + 1
            connection = Connection(wire, self._host, number, secrets.randbits(32), peer)
            thread = threading.Thread(
                target=self._serve, args=(connection,), name="viewmill-client", daemon=True
            )
            self._connections[number] = connection, thread
        thread.start()

    def _serve(self, connection: Connection) -> None:
        with one_of_ours():
            try:
                connection.run()
            finally:
                connection.wire.release()
                with self._lock:
                    self._connections.pop(connection.number, None)

    def _watch(self) -> None:
        """Stop queries that take too long, logins that do, and all if the mill is closed."""
        while not self._closed.wait(_TICK_S):
            if self._core.closed:
                self.close()
                return
            now = time.monotonic()
            with self._lock:
                found = [each for each, _ in self._connections.values()]
            for each in found:
                each.running.tick(now)
                if not each.is_let_in and now - each.since > self._limits.login_seconds:
                    each.wire.close()

    def _open_session(self, running: Running, user: str) -> Session:
        access = None if self._grants is None else self._grants.access(user)
        return Session(self._mill, self._catalog, self._limits, running, user, access)

    def _cancel(self, number: int, secret: int) -> None:
        with self._lock:
            found = self._connections.get(number)
        if found is not None and secrets.compare_digest(
            found[0].secret.to_bytes(4), secret.to_bytes(4)
        ):
            found[0].running.cancel()


def _started(target: Any, name: str) -> threading.Thread:
    def run() -> None:
        with one_of_ours():
            target()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def _turn_away(wire: Wire, peer: str) -> None:
    _LOG.warning("%s was turned away: too many connections", peer)
    try:
        refused = Refused("53300", "too many connections")
        wire.put(report(b"E", report_fields(refused, severity="FATAL")))
        wire.flush()
    except Gone:
        pass  # it left first
    wire.release()


def serve_flight(
    core: Core,
    *,
    port: int,
    host: str,
    users: str | os.PathLike[str] | None,
    grants: str | os.PathLike[str] | None,
    max_rows: int,
    cert: str | os.PathLike[str] | None,
    key: str | os.PathLike[str] | None,
) -> Any:
    """Start a server of Arrow Flight."""
    known, granted = _known(host, users, grants)
    tls = None
    if cert is not None:
        _tls(cert, key)  # says what is wrong with it
        tls = [(Path(cert).read_bytes(), Path(key or cert).read_bytes())]
    made = pkgutil.resolve_name("viewmill.serve.flight:FlightServer")
    location = f"grpc{'+tls' if tls else ''}://{host}:{port}"
    return made(core, location, known, granted, max_rows, tls)

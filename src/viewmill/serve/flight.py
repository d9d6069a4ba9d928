"""Whole views and change streams by Arrow Flight, for clients that take columns, not rows.

takes  a ticket: the name of a table or view; {"sql": "SELECT ..."}; {"subscribe": "v"}
gives  record batches of one version; or of every change from now on, with the columns
       `version` and `multiplicity` in front

Users and grants are those of `mill.serve`: a client logs in by `authenticate_basic_token`.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from viewmill.errors import ViewmillError
from viewmill.mill.core import Core
from viewmill.serve.client_sql import ClientQuery, parse_query, split
from viewmill.serve.copy_out import with_version
from viewmill.serve.failures import Refused
from viewmill.serve.grants import Access, Grants
from viewmill.serve.mill_queries import MillReader
from viewmill.serve.running import Running
from viewmill.serve.scram import Secret
from viewmill.serve.users import secret_of

_MAX_TOKENS = 1_000
_TICK_S = 0.2
_SECONDS = 600.0
_MAX_BYTES = 4 << 30  # of one result


class FlightServer:
    """Answers until it or the mill is closed. A context manager."""

    def __init__(
        self,
        core: Core,
        location: str,
        users: Mapping[str, Secret] | None,
        grants: Grants | None,
        max_rows: int,
        tls: list[tuple[bytes, bytes]] | None,
    ) -> None:
        self._reader = MillReader(core, max_rows, _MAX_BYTES)
        self._closes = threading.Event()
        self._service = _Service(core, self._reader, grants, self._closes, location, users, tls)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._service.port)

    def close(self) -> None:
        """End the streams and stop listening."""
        if not self._closes.is_set():
            self._closes.set()
            self._service.shutdown()
            self._reader.close()

    def __enter__(self) -> FlightServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Service(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(
        self,
        core: Core,
        reader: MillReader,
        grants: Grants | None,
        closes: threading.Event,
        location: str,
        users: Mapping[str, Secret] | None,
        tls: list[tuple[bytes, bytes]] | None,
    ) -> None:
        asking = {} if users is None else {"auth_handler": _NoHandshake()}
        logins = {} if users is None else {"middleware": {"login": _Logins(users)}}
        super().__init__(location, tls_certificates=tls, **asking, **logins)
        self._core, self._reader, self._grants, self._closes = core, reader, grants, closes

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Rows of a query, or changes as they come."""
        with _as_flight_errors():
            access, asked = self._access(context), _asked(ticket.ticket)
            if "subscribe" in asked:
                return self._changes(context, str(asked["subscribe"]), access)
            table = self._rows(_query(asked), access)
            return flight.RecordBatchStream(table)

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        """The tables and views that may be read."""
        access = self._access(context)
        for name in self._core.catalog.names():
            if access is None or name.lower() in access.rows:
                with _as_flight_errors():
                    yield self._info(name, access)

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """The columns of a table or view; its ticket is its name."""
        with _as_flight_errors():
            path = descriptor.path or [descriptor.command or b""]
            return self._info(path[0].decode(), self._access(context))

    def _access(self, context: Any) -> Access | None:
        if self._grants is None:
            return None
        return self._grants.access(context.get_middleware("login").user)

    def _info(self, name: str, access: Access | None) -> Any:
        _, schema = self._reader.describe(_query({"table": name}), [], access)
        ends = [flight.FlightEndpoint(name.encode(), [])]
        return flight.FlightInfo(schema, flight.FlightDescriptor.for_path(name), ends, -1, -1)

    def _rows(self, query: ClientQuery, access: Access | None) -> Any:
        running = Running()
        with running.query(_SECONDS):
            return self._reader.run(query, [], None, running, access)

    def _changes(self, context: Any, name: str, access: Access | None) -> Any:
        stream = self._reader.subscribe(name, access, with_rows=True)
        first = stream.next(_TICK_S)
        assert first is not None  # the rows of now
        start = with_version(*first)

        def batches() -> Iterator[Any]:
            with closing(stream), _as_flight_errors():
                yield from _pieces(start)
                while not (context.is_cancelled() or self._closes.is_set()):
                    found = stream.next(_TICK_S)
                    if found is not None:
                        yield from _pieces(with_version(*found).cast(start.schema))

        return flight.GeneratorStream(start.schema, batches())


def _pieces(table: Any) -> list[Any]:
    return [each for each in table.combine_chunks().to_batches() if each.num_rows]


def _asked(ticket: bytes) -> dict[str, Any]:
    text = ticket.decode()
    if not text.startswith("{"):
        return {"table": text}
    found = json.loads(text)
    if not isinstance(found, dict) or len(found) != 1 or set(found) - {"sql", "table", "subscribe"}:
        raise ValueError('a ticket is a name, {"sql": ...} or {"subscribe": ...}')
    return found


def _query(asked: Mapping[str, Any]) -> ClientQuery:
    text = str(asked.get("sql", ""))
    if "table" in asked:
        name = str(asked["table"]).replace('"', '""')
        text = f'SELECT * FROM "{name}"'
    statements = split(text)
    if len(statements) != 1 or not statements[0].is_query:
        raise Refused("42601", "a ticket is one SELECT")
    return parse_query(statements[0])


@contextmanager
def _as_flight_errors() -> Iterator[None]:
    try:
        yield
    except Refused as why:
        kind = flight.FlightUnauthorizedError if why.code == "42501" else pa.ArrowInvalid
        raise kind(why.message) from None
    except ViewmillError as why:
        raise pa.ArrowInvalid(" ".join(filter(None, [why.message, why.detail, why.hint]))) from None
    except ValueError as why:
        raise pa.ArrowInvalid(f"the ticket cannot be read: {why}") from None


# Logging in.


class _NoHandshake(flight.ServerAuthHandler):  # type: ignore[misc]
    """Who a client is comes from the headers of each call."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Nothing: `authenticate_basic_token` only needs the call to succeed."""

    def is_valid(self, token: bytes) -> bytes:
        """The middleware has checked."""
        return b""


class _Login(flight.ServerMiddleware):  # type: ignore[misc]
    def __init__(self, user: str, token: str) -> None:
        self.user, self._token = user, token

    def sending_headers(self) -> dict[str, str]:
        """The token that the client shows from now on."""
        return {"authorization": f"Bearer {self._token}"}


class _Logins(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Checks the password of a first call and the token of later ones."""

    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._users, self._lock = users, threading.Lock()
        self._tokens: OrderedDict[str, str] = OrderedDict()

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> _Login:
        """Let a call in, or refuse it."""
        given = next((v[0] for k, v in headers.items() if k.lower() == "authorization" and v), "")
        kind, _, rest = given.partition(" ")
        if kind == "Basic":
            return self._by_password(rest)
        with self._lock:
            user = self._tokens.get(rest) if kind == "Bearer" else None
        if user is None:
            raise flight.FlightUnauthenticatedError("log in by authenticate_basic_token")
        return _Login(user, rest)

    def _by_password(self, encoded: str) -> _Login:
        try:
            user, _, password = base64.b64decode(encoded).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            user, password = "", ""
        kept = secret_of(self._users, user)
        if not Secret.of(password, kept.salt) == kept or user not in self._users:
            raise flight.FlightUnauthenticatedError("wrong user or password")
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._tokens[token] = user
            while len(self._tokens) > _MAX_TOKENS:
                self._tokens.popitem(last=False)
        return _Login(user, token)

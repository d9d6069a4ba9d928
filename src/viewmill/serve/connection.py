"""One connection: the messages of Postgres' protocol, version 3, from start to end.

takes  messages of a client
does   login, simple and extended queries by its Session, answers and errors
"""

from __future__ import annotations

import logging
import ssl
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from viewmill.errors import ViewmillError
from viewmill.mill.change_stream import ChangeStream
from viewmill.serve import messages as m
from viewmill.serve.client_sql import split
from viewmill.serve.copy_out import CopyFormat, with_version
from viewmill.serve.failures import Refused, report_fields
from viewmill.serve.limits import LOGIN_BYTES, Limits
from viewmill.serve.running import Running
from viewmill.serve.scram import MECHANISM, Exchange, Secret, WrongPassword
from viewmill.serve.session import Answer, Prepared, Session
from viewmill.serve.users import secret_of
from viewmill.serve.values import cells, encoder, field_of, parameter
from viewmill.serve.wire import Gone, Wire

_LOG = logging.getLogger("viewmill.serve")
_ROWS_AT_ONCE = 2_000
_STREAM_TICK_S = 0.2
_WRONG_PASSWORD_S = 0.5


@dataclass
class Portal:
    """A statement with its parameters, and how far its rows were sent."""

    prepared: Prepared
    given: list[Any]
    formats: list[int]
    answer: Answer | None = None
    sent: int = 0


@dataclass(frozen=True)
class Host:
    """What a connection needs of its server."""

    users: Mapping[str, Secret] | None  # None: everybody is let in
    limits: Limits
    open_session: Callable[[Running, str], Session]
    cancel: Callable[[int, int], None]
    tls: ssl.SSLContext | None = None


class Connection:
    """Serves one client in the thread that calls `run`."""

    def __init__(self, wire: Wire, host: Host, number: int, secret: int, peer: str) -> None:
        self.wire, self._host, self.number, self.secret = wire, host, number, secret
        self._peer, self._limits = peer, host.limits
        self.running = Running()
        self.since = time.monotonic()
        self.is_let_in = False
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._sql = ""
        self._skips = False  # after an error, until Sync
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The session; there is one after login."""
        assert self._session is not None
        return self._session

    def run(self) -> None:
        """Serve until the client leaves or breaks the protocol."""
        try:
            if self._start():
                self._loop()
        except Gone:
            _LOG.debug("%s left", self._peer)
        except m.Malformed as why:
            _LOG.warning("%s was refused: %s", self._peer, why)
            self._farewell(Refused("08P01", str(why)))
        except WrongPassword:
            _LOG.warning("%s gave a wrong password", self._peer)
            time.sleep(_WRONG_PASSWORD_S)
            self._farewell(Refused("28P01", "wrong user or password"))
        except ViewmillError as why:
            _LOG.warning("%s was refused: %s", self._peer, why.message)
            self._farewell(why)
        except Exception:  # noqa: BLE001 (one connection ends, the others go on)
            _LOG.exception("the connection of %s failed", self._peer)
        finally:
            if self._session is not None:
                self._session.close()

    def _farewell(self, why: ViewmillError) -> None:
        try:
            self.wire.put(m.report(b"E", report_fields(why, severity="FATAL")))
            self.wire.flush()
        except Gone:
            pass  # it left first

    # Start and login.

    def _start(self) -> bool:
        """Read the first messages; False if there is nothing to serve."""
        for _ in range(4):
            cursor = m.Cursor(self.wire.startup(LOGIN_BYTES))
            code = cursor.number()
            if code in (m.SSL_REQUEST, m.GSS_REQUEST):
                if code == m.SSL_REQUEST and self._host.tls is not None:
                    self.wire.start_tls(self._host.tls)
                    continue
                self.wire.put(b"N")
                self.wire.flush()
            elif code == m.CANCEL_REQUEST:
                self._host.cancel(cursor.number(), cursor.number() & 0xFFFFFFFF)
                return False
            elif code >> 16 == 3:
                self._greet(code & 0xFFFF, _options(cursor))
                return True
            else:
                raise Refused("0A000", "only version 3 of the protocol is spoken here")
        raise m.Malformed("too many requests before a start")

    def _greet(self, minor: int, options: dict[str, str]) -> None:
        user = options.get("user", "")
        if not user:
            raise Refused("28000", "the client names no user")
        if self._host.tls is not None and not self.wire.is_encrypted:
            raise Refused("28000", "only encrypted connections are taken", hint="sslmode=require")
        unknown = [name for name in options if name.startswith("_pq_.")]
        if minor or unknown:
            body = struct.pack("!ii", 0, len(unknown)) + b"".join(map(m.text, unknown))
            self.wire.put(m.message(b"v", body))
        if self._host.users is not None:
            self._login(self._host.users, user)
        self.is_let_in = True
        self._session = self._host.open_session(self.running, user)
        self._session.on_deallocate = self._deallocate
        self.wire.put(m.AUTHENTICATION_OK)
        for name in ("application_name", "client_encoding", "statement_timeout"):
            if name in options:
                self.session.settings.assign(name, options[name])
        for name, value in self.session.settings.reported().items():
            self.wire.put(m.parameter_status(name, value))
        self.wire.put(m.backend_key(self.number, self.secret))
        self._ready()

    def _login(self, users: Mapping[str, Secret], user: str) -> None:
        exchange = Exchange(secret_of(users, user))
        self.wire.put(m.authentication(10, m.text(MECHANISM) + b"\0"))
        first = self._password()
        if first.string() != MECHANISM:
            raise Refused("28000", f"only {MECHANISM} is taken")
        self.wire.put(m.authentication(11, exchange.challenge(first.value() or b"")))
        self.wire.put(m.authentication(12, exchange.finish(self._password().rest())))

    def _password(self) -> m.Cursor:
        self.wire.flush()
        kind, body = self.wire.message(LOGIN_BYTES)
        if kind != b"p":
            raise m.Malformed("expected a password")
        return m.Cursor(body)

    def _ready(self) -> None:
        self.wire.put(m.ready(self.session.state))
        self.wire.flush()

    # Messages.

    def _loop(self) -> None:
        while True:
            kind, body = self.wire.message(self._limits.message_bytes)
            if kind == b"X":
                return
            if kind == b"S":
                self._sync()
                continue
            handle = _HANDLERS.get(kind)
            if handle is None:
                raise m.Malformed(f"there is no message {kind!r}")
            if self._skips and kind != b"Q":
                continue
            try:
                handle(self, m.Cursor(body))
            except (Gone, m.Malformed):
                raise
            except Exception as why:  # noqa: BLE001 (the client is told, the log has the rest)
                self._fail(why, is_simple=kind == b"Q")

    def _fail(self, why: Exception, *, is_simple: bool) -> None:
        if not isinstance(why, ViewmillError):
            _LOG.error("a query of %s failed", self._peer, exc_info=why)
        self.session.fail()
        self.wire.put(m.report(b"E", report_fields(why, self._sql)))
        if is_simple:
            self._ready()
        else:
            self._skips = True

    def _sync(self) -> None:
        self._skips = False
        if self.session.state == b"I":
            self._portals.clear()
        self._ready()

    def _flush(self, body: m.Cursor) -> None:
        self.wire.flush()

    def _ignore(self, body: m.Cursor) -> None:
        """Data of a COPY that failed."""

    # Simple queries.

    def _query(self, body: m.Cursor) -> None:
        self._sql = body.string()
        statements = split(self._sql)
        if not statements:
            self.wire.put(m.EMPTY_QUERY)
        for statement in statements:
            answer = self.session.run(self.session.prepare(statement))
            if answer.copied is not None:
                self._send_copy(answer, answer.copied)
            elif answer.table is not None:
                formats = [0] * answer.table.num_columns
                self._describe_rows(answer.table.schema, formats)
                self._send_rows(answer.table, formats)
            self.wire.put(m.command_complete(answer.tag))
        self._ready()

    def _describe_rows(self, schema: Any, formats: list[int]) -> None:
        fields = [field_of(each.name, each.type) for each in schema]
        self.wire.put(m.row_description(fields, formats))

    def _send_rows(self, table: Any, formats: list[int]) -> None:
        encoders = [
            encoder(field_of(each.name, each.type).oid, form)
            for each, form in zip(table.schema, formats, strict=True)
        ]
        for start in range(0, table.num_rows, _ROWS_AT_ONCE):
            piece = table.slice(start, _ROWS_AT_ONCE)
            pairs = zip(piece.columns, encoders, strict=True)
            columns = [cells(column, encode) for column, encode in pairs]
            self.wire.put(m.data_rows(columns, piece.num_rows))

    def _send_copy(self, answer: Answer, form: CopyFormat) -> None:
        if answer.stream is not None:
            with closing(answer.stream) as stream:
                self._send_stream(stream, form)
        schema = answer.table.schema
        self.wire.put(m.copy_out(len(schema), is_binary=form.is_binary))
        for body in form.whole(answer.table):
            self.wire.put(m.copy_data(body))
        self.wire.put(m.COPY_DONE)

    def _send_stream(self, stream: ChangeStream, form: CopyFormat) -> NoReturn:
        """Send changes until the client cancels or leaves."""
        schema, before = None, b""
        while True:
            found = stream.next(_STREAM_TICK_S)
            self.running.check(0.0)
            if self.wire.is_left():
                raise Gone
            if found is None:
                continue
            table = with_version(*found)
            if schema is None:
                schema = table.schema
                self.wire.put(m.copy_out(len(schema), is_binary=form.is_binary))
                before = form.start(schema)
            for body in form.rows(table):
                self.wire.put(m.copy_data(before + body))
                before = b""
            self.wire.flush()

    # Extended queries.

    def _parse(self, body: m.Cursor) -> None:
        name, self._sql = body.string(), body.string()
        types = [body.number() & 0xFFFFFFFF for _ in range(body.count())]
        if name and name in self._prepared:
            raise Refused("42P05", f'the statement "{name}" exists already')
        if len(self._prepared) >= self._limits.statements:
            raise Refused("54000", f"{self._limits.statements} statements are prepared already")
        statements = split(self._sql)
        if len(statements) > 1:
            raise Refused("42601", "a prepared statement is one statement")
        self._prepared[name] = self.session.prepare(statements[0] if statements else None, types)
        self.wire.put(m.PARSE_COMPLETE)

    def _bind(self, body: m.Cursor) -> None:
        name, prepared = body.string(), self._statement(body.string())
        forms = [body.short() for _ in range(body.count())]
        raw = [body.value() for _ in range(body.count())]
        results = [body.short() for _ in range(body.count())]
        if len(raw) != prepared.parameters or len(forms) not in (0, 1, len(raw)):
            raise Refused(
                "08P01", f"the statement has {prepared.parameters} parameters, {len(raw)} came"
            )
        given = [
            None if each is None else parameter(each, _nth(forms, i), _nth_type(prepared, i))
            for i, each in enumerate(raw)
        ]
        if name and name in self._portals:
            raise Refused("42P03", f'the portal "{name}" exists already')
        if len(self._portals) >= self._limits.statements:
            raise Refused("54000", "too many portals are open")
        self._portals[name] = Portal(prepared, given, results)
        self.wire.put(m.BIND_COMPLETE)

    def _describe(self, body: m.Cursor) -> None:
        kind, name = body.byte(), body.string()
        if kind == b"S":
            prepared = self._statement(name)
            types, schema = self.session.describe(prepared)
            self._prepared[name] = replace(prepared, types=tuple(types))  # what will be bound
            self.wire.put(m.parameter_description(types))
            self._describe_or_not(schema, [])
            return
        if name not in self._portals and name in self.session.cursors:
            self._describe_or_not(self.session.cursors[name].table.schema, [])
            return
        portal = self._portal(name)
        if portal.prepared.statement is None:
            self.wire.put(m.NO_DATA)
            return
        if not portal.prepared.gives_rows:
            self._describe_or_not(self.session.describe(portal.prepared)[1], portal.formats)
            return
        self._describe_or_not(self._answered(portal).table.schema, portal.formats)

    def _describe_or_not(self, schema: Any, formats: list[int]) -> None:
        if schema is None:
            self.wire.put(m.NO_DATA)
        else:
            self._describe_rows(schema, _per_column(formats, len(schema)))

    def _answered(self, portal: Portal) -> Answer:
        if portal.answer is None:
            portal.answer = self.session.run(portal.prepared, portal.given)
        return portal.answer

    def _execute(self, body: m.Cursor) -> None:
        portal, most = self._portal(body.string()), body.number()
        if portal.prepared.statement is None:
            self.wire.put(m.EMPTY_QUERY)
            return
        answer = self._answered(portal)
        if answer.copied is not None:
            self._send_copy(answer, answer.copied)
        if answer.table is None or answer.copied is not None:
            self.wire.put(m.command_complete(answer.tag))
            portal.answer = None
            return
        left = answer.table.num_rows - portal.sent
        count = min(left, most) if most > 0 else left
        formats = _per_column(portal.formats, answer.table.num_columns)
        self._send_rows(answer.table.slice(portal.sent, count), formats)
        portal.sent += count
        if count < left:
            self.wire.put(m.PORTAL_SUSPENDED)
        else:
            tag = f"SELECT {count}" if answer.tag.startswith("SELECT") else answer.tag
            self.wire.put(m.command_complete(tag))

    def _close(self, body: m.Cursor) -> None:
        kind, name = body.byte(), body.string()
        if kind == b"S":
            self._prepared.pop(name, None)
        else:
            self._portals.pop(name, None)
        self.wire.put(m.CLOSE_COMPLETE)

    def _call(self, body: m.Cursor) -> None:
        raise Refused("0A000", "functions are called in a SELECT")

    def _statement(self, name: str) -> Prepared:
        found = self._prepared.get(name)
        if found is None:
            raise Refused("26000", f'there is no prepared statement "{name}"')
        return found

    def _portal(self, name: str) -> Portal:
        found = self._portals.get(name)
        if found is None:
            raise Refused("34000", f'there is no portal "{name}"')
        return found

    def _deallocate(self, name: str | None) -> None:
        if name is None:
            self._prepared.clear()
        elif self._prepared.pop(name, None) is None:
            raise Refused("26000", f'there is no prepared statement "{name}"')


def _options(cursor: m.Cursor) -> dict[str, str]:
    """The pairs of a start message."""
    found: dict[str, str] = {}
    while name := cursor.string():
        found[name] = cursor.string()
    return found


def _nth(forms: list[int], i: int) -> int:
    """The format of a parameter: one for all, one for each, or text."""
    if not forms:
        return 0
    return forms[0] if len(forms) == 1 else forms[i]


def _nth_type(prepared: Prepared, i: int) -> int:
    return prepared.types[i] if i < len(prepared.types) else 0


def _per_column(formats: list[int], columns: int) -> list[int]:
    if len(formats) <= 1:
        return (formats or [0]) * columns
    if len(formats) != columns:
        raise Refused("08P01", f"{len(formats)} formats came for {columns} columns")
    return formats


_HANDLERS: dict[bytes, Callable[[Connection, m.Cursor], None]] = {
    b"Q": Connection._query,
    b"P": Connection._parse,
    b"B": Connection._bind,
    b"D": Connection._describe,
    b"E": Connection._execute,
    b"C": Connection._close,
    b"H": Connection._flush,
    b"F": Connection._call,
    b"d": Connection._ignore,
    b"c": Connection._ignore,
    b"f": Connection._ignore,
}

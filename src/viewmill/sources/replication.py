"""A connection to PostgreSQL that may replicate, through libpq as psycopg has it.

takes  a connection string; SQL; the name of a slot and of a publication
gives  rows as text, COPY as bytes, and what logical decoding sends

Psycopg's own connections do not speak this protocol, but the functions below them do.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from viewmill.errors import SourceBroken

_SETTINGS = (
    "-c wal_sender_timeout=600000 -c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres "
    "-c extra_float_digits=3 -c bytea_output=hex -c standard_conforming_strings=on "
    "-c row_security=off"
)
_EPOCH = 946_684_800  # 2000-01-01 in Unix time
_HEAD, _ALIVE = struct.Struct("!QQq"), struct.Struct("!QqB")
_TOLD = struct.Struct("!cQQQqB")
_GOOD = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


class ServerRefused(SourceBroken):
    """PostgreSQL answered with an error; `code` is its SQLSTATE."""

    def __init__(self, message: str, code: str = "", hint: str = "") -> None:
        super().__init__(message, detail=f"SQLSTATE {code}" if code else "", hint=hint)
        self.code = code


@dataclass(frozen=True)
class Data:
    """A message of logical decoding."""

    payload: bytes


@dataclass(frozen=True)
class Alive:
    """The server lives; everything before `position` was sent."""

    position: int
    wants_answer: bool


class Connection:
    """One connection."""

    def __init__(self, dsn: str, *, replicates: bool) -> None:
        given = conninfo_to_dict(dsn)
        options = f"{given.pop('options', '') or ''} {_SETTINGS}".strip()
        given = {"connect_timeout": 10, "application_name": "viewmill", **given}
        given |= {"options": options, "client_encoding": "UTF8"}
        given |= {"replication": "database"} if replicates else {}
        self._libpq = pq.PGconn.connect(make_conninfo("", **given).encode())
        if self._libpq.status != pq.ConnStatus.OK:
            why = self._error()
            self._libpq.finish()
            raise ServerRefused(f"cannot connect to PostgreSQL: {why}")
        self.is_streaming = False

    def close(self) -> None:
        """End it; a temporary slot goes with it."""
        self._libpq.finish()

    def rows(self, sql: str) -> list[tuple[str | None, ...]]:
        """What a statement gives, as text."""
        result = self._libpq.exec_(sql.encode())
        self._require(result, *_GOOD)
        found = [
            tuple(
                None if (value := result.get_value(i, j)) is None else value.decode()
                for j in range(result.nfields)
            )
            for i in range(result.ntuples)
        ]
        result.clear()
        return found

    def copy_out(self, sql: str) -> Iterator[bytes]:
        """The lines of COPY ... TO STDOUT."""
        self._require(self._libpq.exec_(sql.encode()), pq.ExecStatus.COPY_OUT)
        while True:
            size, line = self._libpq.get_copy_data(0)
            if size == -1:
                break
            if size < 0:
                raise ServerRefused(self._error())
            yield bytes(line)
        while (result := self._libpq.get_result()) is not None:
            self._require(result, *_GOOD)

    def start(self, slot: str, publication: str, position: int) -> None:
        """Have the slot send what was committed after a position."""
        names = literal(identifier(publication))
        self._require(
            self._libpq.exec_(
                f"START_REPLICATION SLOT {identifier(slot)} LOGICAL {lsn_text(position)} "
                f"(proto_version '1', publication_names {names})".encode()
            ),
            pq.ExecStatus.COPY_BOTH,
        )
        self.is_streaming = True

    def receive(self) -> Data | Alive | None:
        """The next message, None if there is none yet."""
        size, data = self._libpq.get_copy_data(1)
        if size == 0:
            self._libpq.consume_input()
            size, data = self._libpq.get_copy_data(1)
        if size == 0:
            return None
        if size < 0:
            while (result := self._libpq.get_result()) is not None:
                self._require(result, *_GOOD)
            raise ServerRefused(self._error() or "the server ended the replication")
        message = bytes(data)
        if message[:1] == b"w":
            return Data(message[1 + _HEAD.size :])
        position, _, wants_answer = _ALIVE.unpack_from(message, 1)
        return Alive(position, bool(wants_answer))

    def wait(self, seconds: float) -> bool:
        """Whether something came within some time."""
        return bool(select.select([self._libpq.socket], [], [], seconds)[0])

    def tell(self, position: int, *, ask: bool = False) -> None:
        """Say that everything before a position is stored; `ask` for a sign of life."""
        now = int((time.time() - _EPOCH) * 1e6)
        message = _TOLD.pack(b"r", position, position, position, now, ask)
        self._libpq.put_copy_data(message)
        self._libpq.flush()

    def _require(self, result: pq.abc.PGresult, *wanted: int) -> None:
        if result.status in wanted:
            return
        code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        said = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
        hint = (result.error_field(pq.DiagnosticField.MESSAGE_HINT) or b"").decode()
        raise ServerRefused(said.decode(errors="replace").strip() or self._error(), code, hint)

    def _error(self) -> str:
        said: str = self._libpq.error_message.decode(errors="replace").strip()
        return said


def lsn_text(position: int) -> str:
    """A position as PostgreSQL writes it: 0/16B3748."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """A position that PostgreSQL wrote."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def identifier(name: str) -> str:
    """A name in quotes."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in quotes; the servers that we follow have standard_conforming_strings on."""
    return "'" + text.replace("'", "''") + "'"

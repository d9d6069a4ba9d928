"""A client's socket: whole messages come in, bytes are gathered and go out together."""

from __future__ import annotations

import io
import select
import socket
import ssl
import struct
from contextlib import suppress
from typing import cast

from viewmill.serve.messages import Malformed

_FLUSH_BYTES = 64 << 10
_HEAD = struct.Struct("!ci")


class Gone(Exception):
    """The client has closed the connection, or takes nothing any more."""


class Wire:
    """Reads and writes; a message that is too long is refused before it is read."""

    def __init__(self, connected: socket.socket, send_seconds: float) -> None:
        self._socket = connected
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        wait = struct.pack("ll", int(send_seconds), int(send_seconds % 1 * 1e6))
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
        self._reader = cast("io.BufferedReader", connected.makefile("rb", 64 << 10))
        self._out = bytearray()

    @property
    def is_encrypted(self) -> bool:
        """Whether it is TLS."""
        return isinstance(self._socket, ssl.SSLSocket)

    def start_tls(self, context: ssl.SSLContext) -> None:
        """Tell the client that TLS begins, and go on encrypted."""
        if self._has_more():  # they would be read as if they had come encrypted
            raise Malformed("bytes came before the encryption that was asked for")
        self.put(b"S")
        self.flush()
        try:
            self._socket = context.wrap_socket(self._socket, server_side=True)
        except (OSError, ValueError):
            raise Gone from None
        self._reader = cast("io.BufferedReader", self._socket.makefile("rb", 64 << 10))

    def _has_more(self) -> bool:
        """Whether bytes have come that nobody has taken yet."""
        self._socket.settimeout(0)
        try:
            return bool(self._reader.peek(1))
        except OSError:
            return False  # there is nothing
        finally:
            self._socket.settimeout(None)

    def is_left(self) -> bool:
        """Whether the client has closed the connection or said that it goes; nothing is taken."""
        try:
            if not select.select([self._socket], [], [], 0)[0]:
                return False
            self._socket.settimeout(0)
            return self._reader.peek(1)[:1] in (b"", b"X")
        except ssl.SSLWantReadError:
            return False
        except (OSError, ValueError):
            return True
        finally:
            with suppress(OSError):
                self._socket.settimeout(None)

    def take(self, count: int) -> bytes:
        """So many bytes."""
        try:
            found: bytes | None = self._reader.read(count)
        except (OSError, ValueError):
            raise Gone from None
        if found is None or len(found) < count:
            raise Gone
        return found

    def startup(self, most: int) -> bytes:
        """The body of a message without a kind, as at the start."""
        (length,) = struct.unpack("!i", self.take(4))
        if not 8 <= length <= most:
            raise Malformed("a first message of this length is not Postgres'")
        return self.take(length - 4)

    def message(self, most: int) -> tuple[bytes, bytes]:
        """The kind and the body of the next message."""
        kind, length = _HEAD.unpack(self.take(5))
        if not 4 <= length <= most:
            raise Malformed(f"a message of {length} bytes is not taken, {most} is the limit")
        return kind, self.take(length - 4)

    def put(self, data: bytes) -> None:
        """Send later, with what follows."""
        self._out += data
        if len(self._out) > _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what is gathered."""
        data, self._out = self._out, bytearray()
        try:
            self._socket.sendall(data)
        except OSError:
            raise Gone from None

    def close(self) -> None:
        """Close; who reads or writes in another thread stops."""
        with suppress(OSError):  # it is closed already
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # not TLS's, which may wait

    def release(self) -> None:
        """Close, with TLS's farewell if it is encrypted, and give the socket back to the system."""
        if isinstance(self._socket, ssl.SSLSocket):
            with suppress(OSError, ValueError):  # the client need not answer
                self._socket.settimeout(0)
                self._socket.unwrap()
        self.close()
        self._reader.close()
        self._socket.close()

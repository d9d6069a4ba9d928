"""What clients may use: rows and time per query, connections, bytes per message."""

from __future__ import annotations

from dataclasses import dataclass, fields

from viewmill.errors import InvalidArgument


@dataclass(frozen=True)
class Limits:
    """A query that goes beyond is refused or stopped; a connection that does is closed."""

    rows: int = 1_000_000  # of one result
    bytes: int = 256 << 20  # of one result, as columns
    seconds: float = 30.0  # of one query
    connections: int = 100
    message_bytes: int = 4 << 20
    login_seconds: float = 10.0
    send_seconds: float = 30.0  # without the client taking a byte
    statements: int = 1_000  # prepared in one connection

    def __post_init__(self) -> None:
        for each in fields(self):
            if not getattr(self, each.name) > 0:
                raise InvalidArgument(f"the limit of {each.name} must be above zero")


LOGIN_BYTES = 10_000  # of a message before the client has proved who it is

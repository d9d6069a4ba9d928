"""The settings of a session: what clients set and ask, none of which reaches an engine."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from viewmill.serve.client_sql import ClientStatement
from viewmill.serve.failures import Refused

VERSION = "15.0"

# What the protocol tells a client at its start and after each change.
REPORTED = (
    "server_version", "server_encoding", "client_encoding", "application_name", "DateStyle",
    "IntervalStyle", "TimeZone", "integer_datetimes", "standard_conforming_strings",
    "is_superuser", "session_authorization", "default_transaction_read_only", "in_hot_standby",
)  # fmt: skip
_FIXED = {
    "server_version": VERSION,
    "server_version_num": "150000",
    "server_encoding": "UTF8",
    "integer_datetimes": "on",
    "is_superuser": "off",
    "in_hot_standby": "off",
    "transaction_isolation": "repeatable read",
    "transaction_read_only": "on",
    "max_identifier_length": "63",
    "default_table_access_method": "heap",
    "default_transaction_isolation": "repeatable read",
    "max_index_keys": "32",
    "block_size": "8192",
    "lc_collate": "C",
    "lc_ctype": "C",
}
_MEANT = {  # the only values that are true here
    "client_encoding": ("UTF8", ("utf8", "utf-8", "unicode")),
    "timezone": ("UTC", ("utc", "etc/utc", "gmt", "default")),
    "standard_conforming_strings": ("on", ("on", "true", "1")),
    "default_transaction_read_only": ("on", ("on", "true", "1")),
    "intervalstyle": ("postgres", ("postgres",)),
}
_ALIASES = {"time zone": "timezone", "names": "client_encoding"}
_UNITS = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


class Settings:
    """Names and values; a name that means nothing here is kept and has no effect."""

    def __init__(self, user: str, seconds: float) -> None:
        self._most = seconds
        self.seconds = seconds  # that a query may take
        self._values = {
            "client_encoding": "UTF8",
            "application_name": "",
            "datestyle": "ISO, MDY",
            "intervalstyle": "postgres",
            "timezone": "UTC",
            "standard_conforming_strings": "on",
            "session_authorization": user,
            "default_transaction_read_only": "on",
            "search_path": "public",
            "statement_timeout": "0",
        }

    def get(self, name: str) -> str:
        """The value of a setting."""
        key = name.lower()
        found = _FIXED.get(key, self._values.get(key))
        if found is None:
            raise Refused("42704", f'there is no setting "{name}"')
        return found

    def reported(self) -> dict[str, str]:
        """What a client is told."""
        return {name: self.get(name) for name in REPORTED}

    def show(self, statement: ClientStatement) -> Any:
        """SHOW name, as a table."""
        words = [each.text for each in statement.tokens[1:]]
        joined = " ".join(words).lower()
        name = {"transaction isolation level": "transaction_isolation"}.get(
            joined, _ALIASES.get(joined, "".join(words).lower())
        )
        return pa.table({name: [self.get(name)]})

    def set(self, statement: ClientStatement) -> None:
        """SET [SESSION | LOCAL] name = value, or RESET name; values that change nothing here."""
        words = [each.text for each in statement.tokens]
        rest = words[1:]
        if rest and rest[0].lower() in ("session", "local"):
            rest = rest[1:]
        if not rest or rest[0].lower() in ("transaction", "characteristics", "constraints", "role"):
            return
        if words[0].lower() == "reset":
            return
        name, value = _cut(rest)
        self.assign(name, value)

    def assign(self, name: str, value: str) -> None:
        """Give a setting a value; one that would not be true is refused."""
        key = name.lower()
        if key in _FIXED or len(self._values) > 100 or len(name) + len(value) > 1000:
            raise Refused("55P02", f'the setting "{name}" cannot be changed')
        if key in _MEANT:
            kept, allowed = _MEANT[key]
            if value.lower() not in allowed:
                raise Refused("22023", f"{name} is {kept} here", hint="Convert it in the client.")
            value = kept
        if key == "statement_timeout":
            self._limit(value)
        self._values[key] = value

    def _limit(self, value: str) -> None:
        digits = value.rstrip("abcdefghijklmnopqrstuvwxyz ")
        unit = value[len(digits) :].strip()
        if not digits.isdecimal() or unit not in _UNITS or len(digits) > 12:
            raise Refused("22023", f'"{value}" is no time')
        seconds = int(digits) * _UNITS[unit]
        self.seconds = min(seconds, self._most) if seconds else self._most


def _cut(words: list[str]) -> tuple[str, str]:
    """A name and its value: `name = value`, `name TO value`, `TIME ZONE value`, `NAMES value`."""
    for i, word in enumerate(words):
        if word.lower() in ("=", "to"):
            return "".join(words[:i]), " ".join(words[i + 1 :])
    joined = " ".join(words[:2]).lower()
    if joined == "time zone":
        return "timezone", " ".join(words[2:])
    if words[0].lower() == "names":
        return "client_encoding", " ".join(words[1:])
    raise Refused("42601", "SET needs a name and a value", hint="Write SET name = value.")

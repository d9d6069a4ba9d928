"""SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side.

takes  what a client says, and what is kept of a user's password
gives  what the server says; WrongPassword if the client does not know the password

What is kept (salt, StoredKey, ServerKey) proves a password and is no password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import unicodedata
from dataclasses import dataclass

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096
_KEPT = re.compile(
    r"SCRAM-SHA-256\$(\d{1,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)"
)
_FIRST = re.compile(r"([ny],,)(n=([^,]*),r=([\x21-\x2b\x2d-\x7e]+))")
_FINAL = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)),p=([A-Za-z0-9+/=]+)")


class WrongPassword(Exception):
    """The client does not know the password, or does not speak SCRAM."""


@dataclass(frozen=True)
class Secret:
    """What is kept of a password, written as Postgres writes it in pg_authid."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @staticmethod
    def of(password: str, salt: bytes | None = None) -> Secret:
        """The secret of a password."""
        salt = os.urandom(16) if salt is None else salt
        plain = unicodedata.normalize("NFKC", password).encode()
        salted = hashlib.pbkdf2_hmac("sha256", plain, salt, ITERATIONS)
        stored = hashlib.sha256(_mac(salted, b"Client Key")).digest()
        return Secret(ITERATIONS, salt, stored, _mac(salted, b"Server Key"))

    @staticmethod
    def read(text: str) -> Secret:
        """The secret that a line of a file holds; ValueError if it holds none."""
        found = _KEPT.fullmatch(text)
        if found is None:
            raise ValueError("no SCRAM-SHA-256 secret")
        salt, stored, server = (
            base64.b64decode(each, validate=True) for each in found.groups()[1:]
        )
        if len(stored) != 32 or len(server) != 32 or int(found[1]) < 1:
            raise ValueError("no SCRAM-SHA-256 secret")
        return Secret(int(found[1]), salt, stored, server)

    def __str__(self) -> str:
        salt, stored, server = map(_base64, (self.salt, self.stored_key, self.server_key))
        return f"{MECHANISM}${self.iterations}:{salt}${stored}:{server}"


class Exchange:
    """One login: first message, challenge, proof."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret
        self._client_first = self._server_first = self._nonce = self._header = ""

    def challenge(self, message: bytes) -> bytes:
        """The server's answer to the client's first message."""
        found = _FIRST.fullmatch(_text(message))
        if found is None:
            raise WrongPassword
        self._header, self._client_first = found[1], found[2]
        self._nonce = found[4] + _base64(os.urandom(18))
        salt, count = _base64(self._secret.salt), self._secret.iterations
        self._server_first = f"r={self._nonce},s={salt},i={count}"
        return self._server_first.encode()

    def finish(self, message: bytes) -> bytes:
        """The server's last word, if the client's proof is right."""
        found = _FINAL.fullmatch(_text(message))
        if found is None or found[2] != _base64(self._header.encode()) or found[3] != self._nonce:
            raise WrongPassword
        signed = f"{self._client_first},{self._server_first},{found[1]}".encode()
        try:
            proof = base64.b64decode(found[4], validate=True)
        except binascii.Error:
            raise WrongPassword from None
        signature = _mac(self._secret.stored_key, signed)
        if len(proof) != len(signature):
            raise WrongPassword
        key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._secret.stored_key):
            raise WrongPassword
        return b"v=" + _base64(_mac(self._secret.server_key, signed)).encode()


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise WrongPassword from None

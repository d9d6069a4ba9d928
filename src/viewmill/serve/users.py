"""The users that may connect: a file with a name and a secret per line.

    ann:SCRAM-SHA-256$4096:salt$StoredKey:ServerKey

`viewmill serve --add-user ann --users FILE` writes such a line.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from viewmill.errors import InvalidArgument
from viewmill.serve.scram import Secret

_NOBODY = secrets.token_bytes(32)  # makes the salts of those who do not exist


def read_users(path: str | os.PathLike[str]) -> dict[str, Secret]:
    """The users of a file; empty lines and lines that start with # say nothing."""
    found: dict[str, Secret] = {}
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as why:
        raise InvalidArgument(f"the users in {path} cannot be read", detail=str(why)) from why
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, secret = line.partition(":")
        try:
            found[name] = Secret.read(secret.strip())
        except ValueError:
            raise InvalidArgument(
                f"line {number} of {path} is no user",
                hint="viewmill serve --add-user NAME --users FILE writes one.",
            ) from None
    return found


def add_user(path: str | os.PathLike[str], name: str, password: str) -> None:
    """Add a user to a file, or give one a new password. Only its owner may read the file."""
    if not name or ":" in name or not name.isprintable() or name.startswith("#"):
        raise InvalidArgument(f"{name!r} cannot be the name of a user")
    if not password:
        raise InvalidArgument("the password is empty")
    users = read_users(path) if Path(path).exists() else {}
    users[name] = Secret.of(password)
    text = "".join(f"{each}:{secret}\n" for each, secret in users.items())
    written = Path(f"{path}.new")
    written.unlink(missing_ok=True)
    with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    written.replace(path)


def secret_of(users: Mapping[str, Secret], name: str) -> Secret:
    """The secret of a user. Who does not exist has one too, which no password opens."""
    found = users.get(name)
    if found is not None:
        return found
    salt = hmac.digest(_NOBODY, name.encode(), "sha256")
    return Secret(4096, salt[:16], secrets.token_bytes(32), secrets.token_bytes(32))

"""A PostgreSQL server on loopback, made with initdb in a temporary directory.

It runs as an unprivileged user, because it refuses to run as root.
"""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SETTINGS = {
    "wal_level": "logical", "fsync": "off", "max_wal_senders": "20", "max_replication_slots": "20",
    "listen_addresses": "127.0.0.1", "logical_decoding_work_mem": "64kB", "autovacuum": "off",
    "shared_buffers": "16MB", "timezone": "America/New_York",
}  # fmt: skip


def programs() -> str | None:
    """The folder with initdb and postgres; None where PostgreSQL is not installed."""
    if found := shutil.which("initdb"):
        return str(Path(found).resolve().parent)
    installed = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    return str(Path(installed[-1]).parent) if installed else None


class Server:
    """A server that can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        found = programs()
        assert found is not None
        self._programs, self._folder = found, folder
        self._user = "postgres" if os.geteuid() == 0 else None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.dsn = f"postgresql://viewmill:secret@127.0.0.1:{self.port}/postgres"

    def create(self, **settings: str) -> None:
        """Make its files."""
        self._folder.mkdir(exist_ok=True)
        password = self._folder / "password"
        password.write_text("secret")
        if self._user is not None:
            entry = pwd.getpwnam(self._user)
            for each in (self._folder, password):
                os.chown(each, entry.pw_uid, entry.pw_gid)
        self._run(
            "initdb", "-D", self._data, "-U", "viewmill", "-A", "scram-sha-256", "--no-sync",
            f"--pwfile={password}", "-E", "UTF8", "--locale=C",
        )  # fmt: skip
        lines = [f"{name} = '{value}'" for name, value in (_SETTINGS | settings).items()]
        lines += [f"port = {self.port}", f"unix_socket_directories = '{self._folder}'"]
        with open(f"{self._data}/postgresql.conf", "a") as file:
            file.write("\n".join(lines) + "\n")

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._run("pg_ctl", "-D", self._data, "-w", "-t", "60", "-l", f"{self._data}/log", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it; "immediate" is a crash."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [f"{self._programs}/{program}", *arguments], user=self._user, cwd=self._folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@contextmanager
def running(folder: Path, **settings: str) -> Iterator[Server]:
    """A server for a block."""
    server = Server(folder)
    server.create(**settings)
    server.start()
    try:
        yield server
    finally:
        server.stop("immediate")

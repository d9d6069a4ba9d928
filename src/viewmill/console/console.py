"""Start and stop a console.

takes  what it shows, a port, whether it may change the mill
gives  a server in a thread of its own, on loopback only, and its link
"""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from viewmill.console.app import make_app
from viewmill.console.guard import Access, Guard
from viewmill.console.live import Live
from viewmill.console.subjects import FollowedMill, OwnMill, OwnPipeline, Pipe, Subject
from viewmill.errors import InvalidArgument, StorageFailed
from viewmill.mill.mill import Mill
from viewmill.program.threads import one_of_ours

LOOPBACK = "127.0.0.1"
_STARTING_S = 30.0
_PATIENCE_S = 2  # for requests under way when it is stopped
_MOST_CONNECTIONS = 200


class _Unlogged(H11Protocol):
    """HTTP without a log of requests: the link's token would be in it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.access_log = False


class Console:
    """A console that runs until it is stopped, or until its mill is closed."""

    def __init__(self, subject: Subject, *, port: int = 0, write: bool = False) -> None:
        self._socket = _listen(port)
        self._access = Access(self._socket.getsockname()[1])
        self._live = Live(subject, self._ask_to_stop)
        app = Guard(make_app(self._live, write), self._access)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app, http=_Unlogged, log_config=None, server_header=False, ws="none",
                lifespan="on", limit_concurrency=_MOST_CONNECTIONS,
                timeout_graceful_shutdown=_PATIENCE_S,
            )
        )  # fmt: skip
        self._thread = threading.Thread(target=self._serve, name="viewmill-console", daemon=True)
        self._thread.start()
        self._wait_until_started()

    def _serve(self) -> None:
        try:
            with one_of_ours():
                self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()
            self._live.close()

    def _wait_until_started(self) -> None:
        end = time.monotonic() + _STARTING_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                self.stop()
                raise StorageFailed("the console did not start", hint="The log of Python says why.")
            time.sleep(0.005)

    @property
    def url(self) -> str:
        """The link to open. Whoever has it can read the mill: keep it to yourself."""
        return self._access.link

    @property
    def is_running(self) -> bool:
        """Whether it still answers."""
        return self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it is stopped."""
        self._thread.join(timeout)

    def _ask_to_stop(self) -> None:
        self._server.should_exit = True

    def stop(self) -> None:
        """Close every connection and stop listening."""
        self._ask_to_stop()
        self._live.end()
        self._thread.join()

    def __enter__(self) -> Console:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"console at {self.url}" if self.is_running else "console (stopped)"


def _listen(port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise InvalidArgument(f"{port} is no port", hint="0 takes any that is free.")
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((LOOPBACK, port))
    except OSError as why:
        made.close()
        raise InvalidArgument(
            f"port {port} cannot be used: {why.strerror}", hint="Port 0 takes any that is free."
        ) from why
    return made


def open_console(mill: Mill, *, port: int = 0, write: bool = False) -> Console:
    """A console of a mill of this process."""
    return Console(OwnMill(mill), port=port, write=write)


def pipeline_console(pipeline: Pipe, *, port: int = 0) -> Console:
    """A console of a pipeline of this process. It only reads: rows come from sources."""
    return Console(OwnPipeline(pipeline), port=port)


def follow_console(path: Path, *, port: int = 0) -> Console:
    """A console of a directory that another process may be writing. It only reads."""
    return Console(FollowedMill(path), port=port)

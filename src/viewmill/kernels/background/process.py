"""The helper process: programs come on its standard input, an answer goes out for each.

Both sides are the same installation run by the same user, connected by pipes that nobody else can
reach, so programs travel as pickles. An answer is one line: empty, or why it failed.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
import time
from typing import IO

from viewmill.program.program import Program

_SIZE = struct.Struct("<Q")
_MAX_REASON = 500  # characters
_LOOK_S = 0.2


class ProcessDied(Exception):
    """The helper process ended before it answered."""


class CompileProcess:
    """A helper process, seen from the process that started it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "viewmill.kernels.background.process", str(os.getpid())]
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        environment = {**os.environ, "VIEWMILL_COMPILER": "now"}
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=none, env=environment, start_new_session=True
        )

    def warm(self, packed: bytes) -> str:
        """Let the helper warm a pickled program; gives why it failed, or an empty text."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(_SIZE.pack(len(packed)) + packed)
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except OSError:
            answer = b""
        if not answer.endswith(b"\n"):
            self.stop()
            raise ProcessDied(f"exit code {self._process.returncode}")
        return answer.decode(errors="replace").strip()

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.communicate()


def main() -> None:
    """Answer until the other side is gone."""
    threading.Thread(target=_follow, args=(int(sys.argv[1]),), daemon=True).start()
    source, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not look like an answer
    os.nice(5)
    while (program := _next_program(source)) is not None:
        answers.write(_answer(program).encode() + b"\n")
        answers.flush()


def _follow(parent: int) -> None:
    """End with the process that asked, also in the middle of a program: it may have been killed."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)


def _next_program(source: IO[bytes]) -> bytes | None:
    head = source.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    return source.read(_SIZE.unpack(head)[0])


def _answer(packed: bytes) -> str:
    from viewmill.kernels.background.warm import warm  # noqa: PLC0415 (loads Numba)

    try:
        what: Program | str = pickle.loads(packed)
        warm(what)
    except Exception as why:  # noqa: BLE001 (the other side reports it, whatever it is)
        return f"{type(why).__name__}: {why}".replace("\n", " ")[:_MAX_REASON]
    return ""


if __name__ == "__main__":
    main()

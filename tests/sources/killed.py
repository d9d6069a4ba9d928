"""Processes that are killed: each says that it is ready, and then goes on until `kill -9`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import viewmill as vm


@contextmanager
def killed_after(program: ModuleType, *arguments: str | Path) -> Iterator[None]:
    """Run a module as a process of its own, and kill it when the block is done."""
    roots = [str(Path(vm.__file__).parents[1]), str(Path(__file__).parents[2])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(roots),
        "VIEWMILL_COMPILER": "off",
    }
    command = [sys.executable, str(program.__file__), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            yield
            assert child.poll() is None, "it ended by itself"
        finally:
            child.kill()

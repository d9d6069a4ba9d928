"""A line of JSON for each commit.

takes  a file, or a function for lines
gives  lines like {"time": "...", "version": 7, "ms": 0.4, "tables": {"orders": 3}, "views": ...}
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from viewmill.errors import InvalidArgument
from viewmill.mill.core import Core
from viewmill.serve.commits import Commit, Taker


def commit_log(core: Core, to: str | os.PathLike[str] | Callable[[str], object]) -> Taker:
    """Begin to write."""
    if callable(to):
        return Taker(core, lambda commit: to(line_of(commit)), "log")
    return Taker(core, lines_to(to, line_of), "log")


def lines_to(path: str | os.PathLike[str], line: Callable[[Any], str]) -> Callable[[Any], object]:
    """What appends a line to a file, which may be moved away meanwhile."""
    where = Path(path)

    def write(each: Any) -> None:
        with where.open("a", encoding="utf-8") as file:
            file.write(line(each) + "\n")

    try:
        where.open("a", encoding="utf-8").close()
    except OSError as why:
        raise InvalidArgument(f"{where} cannot be written", detail=str(why)) from why
    return write


def moment(ns: int) -> str:
    """A moment of UTC as text."""
    found = dt.datetime.fromtimestamp(ns // 1_000 / 1e6, dt.UTC)
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")


def line_of(commit: Commit) -> str:
    """A commit as JSON."""
    views = {
        name: {"rows": rows, "kind": commit.kinds[name]} for name, rows in commit.views.items()
    }
    facts: dict[str, Any] = {
        "time": moment(commit.start_ns), "version": commit.version,
        "ms": round(commit.seconds * 1e3, 3), "tables": commit.tables, "views": views,
    }  # fmt: skip
    if commit.error:
        facts["error"] = commit.error
    return json.dumps(facts, ensure_ascii=False)

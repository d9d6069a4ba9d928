"""Run the blocks of a page one after another, and compare what they print with what stands below.

takes  a page with blocks of `python` and `sql`, each maybe followed by a block of `text`
gives  the page as it should be: with the output that each block really has
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import viewmill as vm

BLOCK = re.compile(
    r"^```(?P<kind>python|sql)\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.M | re.S,
)


def written_anew(page: Path) -> str:
    """The page with the output of today."""
    names: dict[str, Any] = {"__name__": str(page)}
    with vm.connect() as mill:
        names["_sql"] = mill
        return BLOCK.sub(lambda found: _block(found, names), page.read_text())


def _block(found: re.Match[str], names: dict[str, Any]) -> str:
    kind, code = found["kind"], found["code"]
    output = _run_sql(names["_sql"], code) if kind == "sql" else _run_python(code, names)
    shown = f"```{kind}\n{code}```\n"
    if found["output"] is None:
        return shown
    lines = "\n".join(line.rstrip() for line in output.rstrip().splitlines())
    return f"{shown}\n```text\n{lines}\n```\n"


def _run_python(code: str, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, names["__name__"], "exec"), names)
    return printed.getvalue()


def _run_sql(mill: vm.Mill, code: str) -> str:
    result = mill.sql(code)
    return "" if result is None else repr(result)

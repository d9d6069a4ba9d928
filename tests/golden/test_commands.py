"""Golden scripts of the command line: each command's output over a small project."""

from __future__ import annotations

import io
import re
import shlex
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from viewmill.cli.main import COMMANDS, main
from viewmill.testing.golden import check_script

HERE = Path(__file__).parent
SCRIPTS = sorted(HERE.glob("commands/*.golden"))
# They serve until they are stopped, or print what machine and time they met.
ELSEWHERE = {"console", "serve", "doctor", "warm", "demo", "bench"}

# What differs between two runs: times, sizes of files, versions.
_VARIABLE = (
    (re.compile(r"\b\d+(\.\d+)? ?(ns|µs|ms|s|min)\b"), "<time>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"), "<moment>"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "<fingerprint>"),
    (re.compile(r"\b\d+(\.\d+)? (KB|MB|GB|B)\b"), "<size>"),
    (re.compile(r"\b\d+(\.\d+)?x"), "<ratio>"),
    (re.compile(r"computed again from [\d,]+ changed"), "computed again from <count> changed"),
    (re.compile(r"\b0\.\d{3}\b"), "<lag>"),
)
SHOP = {
    "viewmill.yml": """\
name: shop
sources:
  orders: {path: data/*.csv, schema: "customer STRING, amount BIGINT", change: op}
libraries:
  - glob: {include: "views/*.sql"}
sinks:
  revenue: {path: out/revenue.csv}
""",
    "views/revenue.sql": """\
CREATE MATERIALIZED VIEW revenue AS
SELECT customer, SUM(amount) AS revenue FROM orders GROUP BY customer
""",
    "data/1.csv": "op,customer,amount\ninsert,ann,10\ninsert,bob,7\ninsert,ann,5\n",
}


def _call(command: str, folder: Path) -> str:
    """What `viewmill ...` prints in a folder, complaints after `stderr`, and its code if not 0."""
    words = shlex.split(command)
    if words[0] == "cat":
        return "".join((folder / each).read_text() for each in words[1:]).strip()
    if words[0] == "write":
        path = folder / words[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(words[2].replace("\\n", "\n"))
        return ""
    out, err, code = io.StringIO(), io.StringIO(), 0
    given = patch.object(sys, "argv", words)
    with chdir(folder), redirect_stdout(out), redirect_stderr(err), given:
        try:
            main()
        except SystemExit as done:
            code = int(done.code or 0)
    parts = [out.getvalue().rstrip()]
    if code:
        parts += [f"exit {code}", err.getvalue().rstrip()]
    return _stable("\n".join(filter(None, parts)), folder)


def _stable(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "<folder>")
    for pattern, word in _VARIABLE:
        text = pattern.sub(word, text)
    lines = (re.sub(r"(?<=\S)  +", "  ", line.rstrip()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_commands_print_what_the_script_says(path, tmp_path, update_golden, uncompiled):
    for name, text in SHOP.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    check_script(path, lambda command: _call(command, tmp_path), update=update_golden)


def test_every_command_has_a_script():
    told = "".join(path.read_text() for path in SCRIPTS)
    names = {command.__name__.replace("_", "-") for command in COMMANDS} - ELSEWHERE
    assert [name for name in sorted(names) if f"viewmill {name}" not in told] == []

"""Run commands as a user does, in a folder of their own."""

import io
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest

from viewmill.cli.main import main

Command = subprocess.CompletedProcess[str]


@dataclass
class Project:
    """A folder in which commands are run."""

    folder: Path

    def run(self, *arguments: str) -> str:
        """Run `viewmill ...`, which must work, and give its result."""
        done = self.call(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def fail(self, *arguments: str, code: int = 1) -> str:
        """Run `viewmill ...`, which must fail with this code, and give what it complained."""
        done = self.call(*arguments)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr

    def call(self, *arguments: str) -> Command:
        """Run `viewmill ...` in this process, which saves a second of imports."""
        out, err = io.StringIO(), io.StringIO()
        argv = ["viewmill", *arguments]
        code = 0
        patched = patch.object(sys, "argv", argv)
        with chdir(self.folder), redirect_stdout(out), redirect_stderr(err), patched:
            try:
                main()
            except SystemExit as done:
                code = int(done.code or 0)
        return Command(argv, code, out.getvalue(), err.getvalue())

    def spawn(self, *arguments: str) -> Command:
        """Run `viewmill ...` in a process of its own."""
        command = [sys.executable, "-m", "viewmill.cli.main", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def query(self, sql: str) -> list[Any]:
        """Ask DuckDB about the files of the project."""
        with chdir(self.folder), duckdb.connect() as connection:
            return connection.execute(sql).fetchall()


@pytest.fixture
def project(tmp_path, uncompiled):
    return Project(tmp_path)


SPEC = """\
name: shop
sources:
  orders: {path: data/*.csv, schema: "customer STRING, amount BIGINT", change: op}
libraries:
  - glob: {include: "views/*.sql"}
sinks:
  revenue: {path: out/revenue.csv}
"""
REVENUE = """\
CREATE MATERIALIZED VIEW revenue AS
SELECT customer, SUM(amount) AS revenue FROM orders GROUP BY customer
"""


@pytest.fixture
def shop(project):
    """Three orders, one view, one sink."""
    project.write("viewmill.yml", SPEC)
    project.write("views/revenue.sql", REVENUE)
    project.write("data/1.csv", "op,customer,amount\ninsert,ann,10\ninsert,bob,7\ninsert,ann,5\n")
    return project

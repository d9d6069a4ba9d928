"""Run commands as a user does, in a folder of their own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Project:
    """A folder in which commands are run."""

    folder: Path

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run `viewmill ...`, check the exit code, and give what it printed as result."""
        done = self.call(*arguments)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    def fail(self, *arguments: str, code: int = 1) -> str:
        """Run `viewmill ...`, which must fail with this code, and give what it complained."""
        done = self.call(*arguments)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "viewmill.cli.main", *arguments]
        environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "160"}
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=120, env=environment
        )

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file


@pytest.fixture
def project(tmp_path):
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

"""The example of PostgreSQL runs."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "services" / "postgres.py"


def test_the_example_runs(postgres):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "VIEWMILL_POSTGRES": postgres.dsn, "VIEWMILL_COMPILER": "off"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "bob" in done.stdout

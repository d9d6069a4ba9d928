"""The example of Kafka runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "services" / "kafka.py"

pytestmark = pytest.mark.lake


def test_the_example_runs(broker):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "VIEWMILL_KAFKA": broker, "VIEWMILL_COMPILER": "off"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ann" in done.stdout

"""Every Python block of the docs, and every example, is a program that runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def python_blocks(page: Path) -> str:
    """The Python blocks of a page, one after another: later ones may use what earlier ones made."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S))


PROGRAMS = {str(page.relative_to(ROOT)): python_blocks(page) for page in PAGES} | {
    str(example.relative_to(ROOT)): example.read_text() for example in EXAMPLES
}


def program(name: str):
    """A program starts a JVM of its own if it asks for a session; it waits for its turn, then."""
    needs_spark = "vm.spark.session" in PROGRAMS[name]
    return pytest.param(name, marks=[pytest.mark.spark] if needs_spark else [])


@pytest.mark.parametrize("name", [program(name) for name, text in PROGRAMS.items() if text])
def test_the_program_runs(name, tmp_path):
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", PROGRAMS[name]]
    # The README as a user runs it; what the others compile is compiled by other tests.
    compiler = "background" if name == "README.md" else "off"
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=240,
        env={**os.environ, "VIEWMILL_COMPILER": compiler},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_readme_has_an_example_and_there_are_examples():
    assert PROGRAMS["README.md"].count("\n") >= 15
    assert EXAMPLES

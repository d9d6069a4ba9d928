"""`import viewmill` is quick and loads nothing heavy."""

import subprocess
import sys

HEAVY = ("numba", "pandas", "polars", "pyspark", "llvmlite")
# Our goal is 0.3 s of CPU; the margin is for machines that are slower or busy.
GENEROUS_S = 0.9


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_viewmill_loads_nothing_heavy():
    assert run(f"import sys, viewmill; print(*({set(HEAVY)} & set(sys.modules)))").split() == []


def test_importing_viewmill_is_quick():
    program = """
import time
start = time.process_time()
import viewmill
print(time.process_time() - start)
"""
    assert min(float(run(program)) for _ in range(3)) < GENEROUS_S


def test_asking_the_command_for_help_loads_nothing_heavy():
    program = (
        "import sys, viewmill.cli.main; print(*({'numba', 'pandas', 'pyspark'} & set(sys.modules)))"
    )
    assert run(program).split() == []

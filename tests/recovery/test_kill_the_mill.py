"""kill -9 at any moment loses nothing that was acknowledged and doubles nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.recovery import writer

import viewmill as vm

WRITER = Path(writer.__file__)


def kill_once(path: Path, chance: random.Random) -> int:
    """Let a process write, kill it at a random moment; the last batch that it acknowledged."""
    source = str(Path(vm.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "VIEWMILL_COMPILER": "off"}
    child = subprocess.Popen(
        [sys.executable, str(WRITER), str(path)], stdout=subprocess.PIPE, env=environment
    )
    assert child.stdout is not None
    if chance.random() < 0.15:
        time.sleep(chance.uniform(0.0, 1.0))  # while it starts, opens, recovers or creates
    else:
        assert child.stdout.readline() in (b"ready\n", b"")
        time.sleep(chance.uniform(0.0, 0.25))
    child.send_signal(signal.SIGKILL)
    said = child.stdout.read().decode().split("\n")[:-1]  # a half line was not acknowledged
    child.wait()
    child.stdout.close()
    return max((int(each) for each in said if each.isdigit()), default=0)


def written(mill: vm.Mill) -> int:
    """How many batches the mill holds, and that it holds each of them once and whole."""
    if "lines" not in mill or "orders" not in mill:
        return 0
    orders, lines = ([*mill.sql(f"SELECT * FROM {name}").rows()] for name in ("orders", "lines"))
    n = sum(1 for row in lines if row[1] == "batch")
    expected_orders, expected_lines = writer.state(n)
    assert Counter(orders) == Counter(expected_orders)
    assert Counter(lines) == Counter(expected_lines)
    for name in mill.views():
        assert mill[name].verify() == []
    if "last" in mill:
        assert mill["last"].rows() == [(n,)]
    return n


def kill_many(path: Path, kills: int, seed: int) -> int:
    chance = random.Random(seed)
    acknowledged = total = 0
    for kill in range(kills):
        acknowledged = max(acknowledged, kill_once(path, chance))
        with vm.connect(path) as mill:
            total = written(mill)
        in_flight = 1
        assert acknowledged <= total <= acknowledged + in_flight, f"kill {kill}, seed {seed}"
        acknowledged = total
        if total > 3000:  # reopening costs what the tables hold
            path = path.with_name(f"{path.name}.{kill}")
            acknowledged = total = 0
    return total


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_ten_kills_lose_and_double_nothing(seed, tmp_path, uncompiled):
    assert kill_many(tmp_path / "m.mill", 10, seed) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_thousand_kills_lose_and_double_nothing(seed, tmp_path, uncompiled):
    assert kill_many(tmp_path / "m.mill", 50, seed) > 0


def test_the_model_of_the_writer_is_right(uncompiled):
    with vm.connect() as mill:
        writer.create(mill)
        for i in range(1, 61):
            writer.write(mill, i)
            assert written(mill) == i

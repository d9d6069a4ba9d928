"""kill -9 of a process that follows a Delta table, and of the one that writes it."""

from __future__ import annotations

import random
import time

import pytest
from deltalake import DeltaTable
from tests.sources import delta_follower, delta_writer
from tests.sources.killed import killed_after

import viewmill as vm


@pytest.mark.parametrize(
    ("kills", "feed"),
    [
        (2, True),
        pytest.param(30, True, marks=pytest.mark.slow),
        pytest.param(30, False, marks=pytest.mark.slow),
    ],
)
def test_killing_both_sides_loses_nothing_and_doubles_nothing(tmp_path, uncompiled, kills, feed):
    seed = random.randrange(1 << 30)
    print("seed", seed)  # noqa: T201
    chance, lake = random.Random(seed), tmp_path / "lake"
    delta_writer.Writer(lake, chance, feed=feed)
    for _ in range(kills):
        with killed_after(delta_writer, lake), killed_after(delta_follower, tmp_path):
            time.sleep(chance.uniform(0.0, 0.5))
    assert DeltaTable(lake).version() > kills  # they did write
    with vm.connect(tmp_path / "m.mill") as mill:
        delta_follower.follow(mill, lake)
        delta_follower.assert_same(mill, lake)

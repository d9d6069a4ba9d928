"""kill -9 of a process that follows files loses no row and doubles none."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from tests.sources import file_follower
from tests.sources.killed import killed_after


def write_file(folder: Path, number: int, values: list[int]) -> None:
    """A file that is there as a whole or not at all."""
    text = "x\n" + "".join(f"{each}\n" for each in values)
    part = folder / f"{number:05}.part"
    part.write_text(text)
    part.rename(folder / f"{number:05}.csv")


def kill_follower(folder: Path, chance: random.Random, next_file: int) -> int:
    """Write files for a process that follows them, and kill it at a random moment."""
    with killed_after(file_follower, folder):
        for number in range(next_file, next_file + 20):
            write_file(folder, number, [number * 100 + i for i in range(20)])
        time.sleep(chance.uniform(0.0, 0.15))
    return next_file + 20


@pytest.mark.parametrize("kills", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_a_killed_follower_loses_nothing_and_doubles_nothing(tmp_path, uncompiled, kills):
    seed = random.randrange(1 << 30)
    print("seed", seed)  # noqa: T201
    chance, files = random.Random(seed), 0
    for _ in range(kills):
        files = kill_follower(tmp_path, chance, files)
    expected = [number * 100 + i for number in range(files) for i in range(20)]
    with file_follower.follow(str(tmp_path)) as mill:
        assert mill.catch_up()
        assert sorted(x for (x,) in mill.sql("SELECT x FROM t").rows()) == expected
        assert mill["v"].rows() == [(len(expected), sum(expected))]

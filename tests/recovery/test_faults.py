"""A disk that fails, power that goes, clocks that jump, Ctrl-C: nothing acknowledged is lost.

`play` prints the seed of what fails; `play(seed, folder)` does the same again.
"""

from __future__ import annotations

import logging
import os
import random
from pathlib import Path

import pytest

from viewmill.testing.faults.machine import Machine
from viewmill.testing.faults.play import play

pytestmark = pytest.mark.usefixtures("uncompiled")

FIRST = int(os.environ.get("VIEWMILL_FAULT_SEED", "1"))


def play_many(seeds: range, folder: Path) -> tuple[int, int]:
    """How many schedules had an error, how many lost their power."""
    logging.getLogger("viewmill").setLevel(logging.CRITICAL)  # it tells of each failed clean-up
    struck = lost = 0
    try:
        for seed in seeds:
            place = folder / str(seed)
            place.mkdir()
            played = play(seed, place)
            struck, lost = struck + (played.struck > 0), lost + played.lost_power
    finally:
        logging.getLogger("viewmill").setLevel(logging.NOTSET)
    return struck, lost


@pytest.mark.parametrize("part", range(4))
def test_two_hundred_schedules_of_faults(part: int, tmp_path: Path) -> None:
    struck, lost = play_many(range(FIRST + 50 * part, FIRST + 50 * part + 50), tmp_path)
    assert struck > 10
    assert lost > 10


@pytest.mark.parametrize("seed", [1734, 1813, 2048, 2527, 2583])
def test_schedules_that_failed_once(seed: int, tmp_path: Path) -> None:
    """A part that could not be read was taken for damaged; Ctrl-C hid an unknown outcome, of a
    checkpoint too; both halves of HEAD were lost that a disk took in pieces."""
    play_many(range(seed, seed + 1), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_two_thousand_schedules_of_faults(part: int, tmp_path: Path) -> None:
    first = FIRST + 1000 + 100 * part
    struck, lost = play_many(range(first, first + 100), tmp_path)
    assert struck > 20
    assert lost > 20


def test_a_power_loss_keeps_what_was_synced_and_may_lose_the_rest(tmp_path: Path) -> None:
    """The model of the disk itself: otherwise nothing above says anything."""
    seen = set()
    for seed in range(200):
        machine = Machine(tmp_path)
        one = machine.file(tmp_path / "one")
        one.write(0, b"a" * 1024)
        one.sync()
        machine.folder(tmp_path).sync()
        one.write(512, b"b" * 1024)
        machine.file(tmp_path / "two").write(0, b"c")
        left = tmp_path.with_name(f"{tmp_path.name}-{seed}")
        machine.lose_power(random.Random(seed), left)
        content = (left / "one").read_bytes()
        assert content[:512] == b"a" * 512
        assert len(content) in (1024, 1536)
        seen.add((content[512:], (left / "two").exists()))
    assert len(seen) == 6  # old, torn or new, each with and without the other name

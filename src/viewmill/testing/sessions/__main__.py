"""Play random sessions for as long as asked; what differs from the oracle is shrunk and printed.

python -m viewmill.testing.sessions --minutes 5 [--seed 7] [--lane durable]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from viewmill.testing.sessions.run import LANES, play_seed, play_steps, smallest
from viewmill.testing.sessions.steps import read_steps, write_steps


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 if nothing was found."""
    parser = argparse.ArgumentParser(prog="viewmill.testing.sessions", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to go on")
    parser.add_argument("--seed", type=int, default=None, help="where to begin")
    parser.add_argument("--lane", choices=list(LANES), default="memory")
    parser.add_argument("--keep-going", action="store_true", help="report, then go on")
    parser.add_argument("--play", metavar="FILE", help="play a stored session instead")
    given = parser.parse_args(arguments)
    lane = LANES[given.lane]
    os.environ["VIEWMILL_COMPILER"] = "on" if lane.name == "compiled" else "off"
    if given.play:
        with open(given.play, encoding="utf-8") as file:
            why = play_steps(read_steps(file.read()), lane)
        sys.stdout.write(f"{why.text if why else 'nothing differs'}\n")
        return 1 if why else 0
    seed = given.seed if given.seed is not None else int(time.time()) % 1_000_000 * 100
    first, steps, found = seed, 0, 0
    until = time.monotonic() + 60 * given.minutes
    while time.monotonic() < until:
        played, why = play_seed(seed, lane)
        steps += len(played)
        if why is not None:
            found += 1
            _report(seed, why.text, write_steps(smallest(played, lane, why)))
            if not given.keep_going:
                return 1
        seed += 1
    sys.stdout.write(f"seeds {first} to {seed - 1}: {steps} steps, {found} differences\n")
    return 1 if found else 0


def _report(seed: int, why: str, steps: str) -> None:
    sys.stdout.write(f"# seed {seed}: {why}\n{steps}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())

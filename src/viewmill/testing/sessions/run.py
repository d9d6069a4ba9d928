"""Run sessions from seeds: draw, play, and make small what fails."""

from __future__ import annotations

import random
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal as OneOf

from viewmill.testing.sessions.check import Different
from viewmill.testing.sessions.draw import draw_step
from viewmill.testing.sessions.draw_shards import draw_shard_step
from viewmill.testing.sessions.play import Player
from viewmill.testing.sessions.play_shards import PartTooLarge, ShardPlayer
from viewmill.testing.sessions.shrink import shrunk
from viewmill.testing.sessions.steps import Step
from viewmill.testing.sessions.world import World


@dataclass(frozen=True)
class Lane:
    """How sessions are played: `views` is how many there are at most at a time."""

    name: str
    is_durable: bool = False
    is_wide: bool = False  # with the columns and kinds of views that came later
    steps: int = 150
    views: int = 7
    where: OneOf["mill", "slots", "spark"] = "mill"  # a mill; shards in memory; shards on Spark


LANES = {
    lane.name: lane
    for lane in (
        Lane("memory"),
        Lane("durable", is_durable=True),
        Lane("wide", is_wide=True),
        Lane("durable_wide", is_durable=True, is_wide=True),
        # Creating a view costs seconds of compilation: few views, many changes.
        Lane("compiled", steps=300, views=2),
        Lane("slots", where="slots", views=6, steps=40),
        Lane("shards", where="spark", views=6, steps=22),
    )
}


@dataclass(frozen=True)
class Failure:
    """What went wrong: `kind` stays the same while a session is made small."""

    kind: str
    text: str


def play_seed(seed: int, lane: Lane) -> tuple[list[Step], Failure | None]:
    """The steps drawn from a seed, and what went wrong at the last of them, if anything."""
    rng = random.Random(seed)
    player = _player(lane)
    played: list[Step] = []
    try:
        for _ in range(lane.steps):
            step = _draw(rng, player.world, lane)
            played.append(step)
            player.play(step)
    except PartTooLarge:
        return played, None
    except Exception as error:  # noqa: BLE001 - whatever it is, it should not have been raised
        return played, _said(error)
    finally:
        player.close()
    return played, None


def _player(lane: Lane, verify_every: int = 10) -> Player | ShardPlayer:
    if lane.where != "mill":
        return ShardPlayer(on_spark=lane.where == "spark")
    return Player(is_durable=lane.is_durable, is_wide=lane.is_wide, verify_every=verify_every)


def _draw(rng: random.Random, world: World, lane: Lane) -> Step:
    if lane.where != "mill":
        return draw_shard_step(rng, world, lane.views)
    return draw_step(rng, world, is_durable=lane.is_durable, views=lane.views)


def _said(error: Exception) -> Failure:
    """What went wrong; of an error that is no difference also where it was raised."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, Different):
        return Failure(error.kind, text)
    places = [
        f"{each.filename}:{each.lineno}" for each in traceback.extract_tb(error.__traceback__)
    ]
    return Failure(type(error).__name__, text + "".join(f"\n#   {each}" for each in places[-3:]))


def play_steps(steps: Sequence[Step], lane: Lane) -> Failure | None:
    """Play given steps; what went wrong, None if nothing did."""
    player = _player(lane, verify_every=1)
    try:
        for step in steps:
            player.play(step)
    except PartTooLarge:
        return None
    except Exception as error:  # noqa: BLE001 - as above
        return _said(error)
    finally:
        player.close()
    return None


def smallest(steps: Sequence[Step], lane: Lane, why: Failure) -> list[Step]:
    """The failing session made small; the kind of the failure stays the same."""

    def fails(fewer: Sequence[Step]) -> bool:
        found = play_steps(fewer, lane)
        return found is not None and found.kind == why.kind

    return shrunk(steps, fails) if fails(steps) else list(steps)

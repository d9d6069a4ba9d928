"""Random sessions: everything a user can do, in any order, equals an oracle of plain rows."""

from pathlib import Path

import pytest

from viewmill.testing.sessions.run import LANES, Lane, play_seed, play_steps, smallest
from viewmill.testing.sessions.steps import read_steps, write_steps

FOUND = sorted(Path(__file__).parent.glob("found/*.session"))


def require_agreement(seed, lane):
    played, failure = play_seed(seed, lane)
    if failure is not None:
        small = write_steps(smallest(played, lane, failure))
        pytest.fail(f"seed {seed} in lane {lane.name}: {failure.text}\n{small}")


@pytest.mark.parametrize("seed", range(14))
def test_a_session_in_memory_agrees_with_plain_rows(seed, uncompiled):
    require_agreement(seed, LANES["memory"])


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_a_session_with_restarts_and_kills_agrees_with_plain_rows(seed, uncompiled):
    require_agreement(seed, LANES["durable"])


@pytest.mark.parametrize("seed", [5000])
def test_a_session_of_newer_kinds_of_views_agrees_with_plain_rows(seed, uncompiled):
    require_agreement(seed, LANES["wide"])


@pytest.mark.parametrize("seed", [2000])
def test_a_compiled_session_agrees_with_plain_rows(seed, monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    require_agreement(seed, Lane("compiled", steps=200, views=2))


@pytest.mark.parametrize("seed", range(3000, 3003))
def test_a_session_in_shards_agrees_with_plain_rows(seed, uncompiled):
    require_agreement(seed, LANES["slots"])


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("seed", range(4000, 4004))
def test_a_session_in_shards_on_spark_agrees_with_plain_rows(seed, uncompiled):
    require_agreement(seed, LANES["shards"])


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_session_that_once_failed_agrees(path, uncompiled):
    parts = path.stem.split("_")
    kinds = [each for each in ("durable", "wide") if each in parts]
    lane = LANES["_".join(kinds) or "memory"]
    failure = play_steps(read_steps(path.read_text(encoding="utf-8")), lane)
    assert failure is None, failure.text


def test_a_planted_mistake_is_found_and_made_small(uncompiled, monkeypatch):
    """An oracle that forgets a group must differ; the rest of the session is cut away."""
    monkeypatch.setattr(
        "viewmill.testing.sessions.definitions._finished", lambda found, finish: found[1][:-1]
    )
    played, failure = play_seed(0, LANES["memory"])
    assert failure is not None
    assert len(smallest(played, LANES["memory"], failure)) <= len(played)

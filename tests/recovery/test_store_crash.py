"""Kill the store at random moments and at every named step; damage every file of it.

Run as a script, this file is the process that forks the children to be killed: starting one
interpreter per kill would take most of the time, and the process of the tests may have threads.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewmill.errors
from viewmill.errors import ViewmillError
from viewmill.mill import store as store_module
from viewmill.mill.storage import crash_points
from viewmill.mill.store import Store

SOURCES = Path(viewmill.errors.__file__).parents[1]
LARGE_BYTES = 3000  # in these tests, so that large deltas are quick


# What the child writes is a function of the version, so that the test knows it too.


def delta(version: int) -> pa.Table:
    rows = 400 if version % 5 == 0 else version % 4
    return pa.table(
        {
            "order": pa.array([f"{version}/{i}" for i in range(rows)], pa.string()),
            "_multiplicity": pa.array([version] * rows, pa.int64()),
        }
    )


def snapshot(version: int) -> pa.Table:
    return pa.table({"sum": [version * (version + 1) // 2], "text": ["x" * (version % 3000)]})


def catalog_change(version: int) -> dict[str, str | None]:
    if version % 3:
        return {}
    return {f"view {version % 12}": None if version % 7 == 0 else f"body of {version}"}


def catalog(version: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in range(1, version + 1):
        for name, body in catalog_change(each).items():
            if body is None:
                found.pop(name, None)
            else:
                found[name] = body
    return found


def statements(version: int) -> tuple[str, ...]:
    return (f"CREATE {version}",) if version % 3 == 0 else ()


def work(store: Store, versions: int) -> Iterator[int]:
    """Append and checkpoint; yields what is acknowledged."""
    first = store.last_version() + 1
    for version in range(first, first + versions):
        deltas = {"orders": delta(version), "lines": delta(version + 1)}
        store.append(version, deltas, catalog_change(version), statements(version))
        yield version
        if version % 4 == 0:
            at = version - version % 8 // 4  # the last version, or the one before
            tables, states = {"orders": snapshot(at)}, {"revenue": snapshot(at + 1).to_batches()}
            store.checkpoint(at, tables, states, {"at": str(at)})


def assert_holds(store: Store, acknowledged: int) -> None:
    """All that was acknowledged, at most one version more, nothing doubled, nothing else."""
    last, checkpoint = store.last_version(), store.checkpoint_version()
    assert last - acknowledged in (0, 1)
    assert list(store.catalog().items()) == list(catalog(last).items())
    if checkpoint:
        assert store.load_table("orders") == snapshot(checkpoint)
        assert store.load_state("revenue") == snapshot(checkpoint + 1)
        assert store.notes() == {"at": str(checkpoint)}
    entries = list(store.replay())
    assert [entry.version for entry in entries] == list(range(checkpoint + 1, last + 1))
    for entry in entries:
        version = entry.version
        assert entry.deltas == {"orders": delta(version), "lines": delta(version + 1)}
        assert entry.catalog == catalog_change(version)
        assert entry.statements == statements(version)


def assert_tidy(path: Path, store: Store) -> None:
    """No file is left of what was not committed."""
    large = sum(table.num_rows > 100 for entry in store.replay() for table in entry.deltas.values())
    assert len(list(path.glob("delta-*"))) == large
    assert len(list(path.glob("snapshot-*"))) == (store.checkpoint_version() > 0)
    assert not list(path.glob("*.new*"))


# Killing.


def child(path: str, versions: int, die_at: int | None, acknowledgements: int) -> None:
    """Work until killed, or until the step `die_at`. Says what is acknowledged."""
    store_module.LARGE_BYTES = LARGE_BYTES
    steps = 0

    def visit(point: str) -> None:
        nonlocal steps
        steps += 1
        if steps == die_at:
            os.write(acknowledgements, f"died {point}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    crash_points.visit = visit
    store = Store.open(path)
    for version in work(store, versions):
        os.write(acknowledgements, f"{version}\n".encode())
    store.close()
    os.write(acknowledgements, b"finished\n")


def serve() -> None:
    """Fork a child per line of input, kill it if asked to, answer with what it said."""
    delta(3)  # Arrow loads half of itself at the first table, too late for a child of 20 ms
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            try:
                child(order["path"], order["versions"], order["die_at"], writer)
            except BaseException as error:  # noqa: BLE001  the test shows it
                os.write(writer, f"failed {error!r}\n".encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as said:
            words = list(islice(said, order["kill_after"]))
            if order["seconds"] is not None:
                time.sleep(order["seconds"])
                os.kill(process, signal.SIGKILL)
            words += said
        os.waitpid(process, 0)
        print(json.dumps([word.strip() for word in words]), flush=True)  # noqa: T201


class Killer:
    """The process that forks and kills."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        path: Path,
        versions: int,
        *,
        die_at: int | None = None,
        kill_after: int = 0,
        seconds: float | None = None,
    ) -> list[str]:
        """Run a child; what it said. It dies at a step, or `seconds` after so many versions."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"path": str(path), "versions": versions, "die_at": die_at}
        order |= {"kill_after": kill_after, "seconds": seconds}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        said: list[str] = json.loads(self._process.stdout.readline())
        assert not [word for word in said if word.startswith("failed")]
        return said

    def close(self) -> None:
        """End it."""
        self._process.communicate()


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    killer = Killer()
    yield killer
    killer.close()


def last_acknowledged(said: list[str], before: int) -> int:
    numbers = [int(word) for word in said if word.isdigit()]
    assert numbers == list(range(before + 1, before + 1 + len(numbers)))
    return before + len(numbers)


def check_and_continue(path: Path, acknowledged: int) -> int:
    """What was acknowledged is there, and the store works on; the last version."""
    with Store.open(path) as store:
        assert_holds(store, acknowledged)
        assert_tidy(path, store)
        _ = [*work(store, 2)]
        last = store.last_version()
    with Store.open(path) as store:
        assert_holds(store, last)
    return last


@pytest.fixture(autouse=True)
def _large_deltas_are_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "LARGE_BYTES", LARGE_BYTES)


def kill_at_random(killer: Killer, folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    path, last = folder / "0.mill", 0
    for kill in range(kills):
        if kill % 10 == 0:  # again from the creation on
            path, last = folder / f"{kill}.mill", 0
        after = chance.choice((0, 0, 1, 2, 3, 4, 5, 30))
        seconds = chance.random() * (0.003 if after else 0.02)
        said = killer.run(path, 100_000, kill_after=after, seconds=seconds)
        acknowledged = last_acknowledged(said, last)
        if chance.random() < 0.5:
            last = check_and_continue(path, acknowledged)
        else:  # the next child opens what this one left
            last = check_copy(path, folder / "copy.mill", acknowledged)


def check_copy(path: Path, copy: Path, acknowledged: int) -> int:
    """What was acknowledged is there, seen in a copy; the last version."""
    if path.exists():  # not if it died before it made it
        shutil.copytree(path, copy)
    with Store.open(copy) as store:
        assert_holds(store, acknowledged)
        last = store.last_version()
    shutil.rmtree(copy)
    return last


def test_killed_at_random_nothing_acknowledged_is_lost(killer: Killer, tmp_path: Path) -> None:
    kill_at_random(killer, tmp_path, kills=30, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_killed_a_hundred_times(killer: Killer, tmp_path: Path, seed: int) -> None:
    kill_at_random(killer, tmp_path, kills=100, seed=seed)


def test_killed_at_every_step_nothing_acknowledged_is_lost(killer: Killer, tmp_path: Path) -> None:
    """Creation, eight versions with two checkpoints, closing: die at step 1, 2, 3, ..."""
    points = []
    for die_at in range(1, 1000):
        path = tmp_path / f"{die_at}.mill"
        said = killer.run(path, 8, die_at=die_at)
        check_and_continue(path, last_acknowledged(said, 0))
        if said[-1] == "finished":
            break
        points.append(said[-1].removeprefix("died "))
    assert len(points) > 50
    assert {"draft renamed", "HEAD renamed", "file in place", "transaction written"} <= {*points}
    assert {"transaction committed", "file removed", "database closed"} <= {*points}


@pytest.mark.slow
def test_killed_at_every_step_of_a_second_run(killer: Killer, tmp_path: Path) -> None:
    """The first run is killed too, so that the second begins with what it left."""
    for first in range(20, 70, 3):
        for die_at in range(1, 40):
            path = tmp_path / f"{first} {die_at}.mill"
            acknowledged = last_acknowledged(killer.run(path, 8, die_at=first), 0)
            left = check_copy(path, tmp_path / "copy.mill", acknowledged)
            acknowledged = last_acknowledged(killer.run(path, 4, die_at=die_at), left)
            with Store.open(path) as store:
                assert_holds(store, acknowledged)
                assert_tidy(path, store)
            shutil.rmtree(path)


# Damage.


def crashed_mill(path: Path) -> int:
    """A mill with everything in it, as a killed process leaves it; the last version."""
    with Store.open(path) as store:
        _ = [*work(store, 11)]
        with_log = path.with_name("killed")
        shutil.copytree(path, with_log)
    shutil.rmtree(path)
    with_log.rename(path)
    return 11


def closed_mill(path: Path) -> int:
    """The same after closing: all is in mill.db."""
    with Store.open(path) as store:
        _ = [*work(store, 11)]
    return 11


MILLS = [crashed_mill, closed_mill]


def damages(content: bytes, positions: int, chance: random.Random) -> Iterator[bytes | None]:
    """The content with one byte changed, or cut, or zeros in a sector; None: no file."""
    yield None
    yield b""
    yield content + b"\0"
    yield content + content
    for at in chance.sample(range(len(content)), min(positions, len(content))):
        flipped = bytes([content[at] ^ 1 << chance.randrange(8)])
        yield content[:at] + flipped + content[at + 1 :]
        yield content[:at] + bytes([255 - content[at]]) + content[at + 1 :]
        yield content[:at]
        yield content[:at] + bytes(len(content[at : at + 512])) + content[at + 512 :]


def read(path: Path, last: int, names: list[str]) -> str:
    """Whether it is right, or the error, which has one of `names`. All else fails the test."""
    before = contents(path)
    failure: ViewmillError | None = None
    try:
        with Store.open(path) as store:
            before = {}
            assert_holds(store, last)
            assert store.last_version() == last
    except ViewmillError as error:
        failure = error
    if failure is None:
        return "right"
    assert any(name in str(failure) for name in names)
    assert before in ({}, contents(path))  # refusing to open changes nothing
    return type(failure).__name__


def contents(path: Path) -> dict[str, bytes]:
    found = {each.name: each.read_bytes() for each in path.iterdir() if each.name != "LOCK"}
    if found.get("mill.db-wal") == b"":  # SQLite makes an empty one to look into it
        del found["mill.db-wal"]
    return found


def damage_each_file(folder: Path, original: Path, last: int, positions: int) -> dict[str, int]:
    """Damage every file in many ways, alone; how often which answer was given."""
    chance = random.Random(7)
    answers: dict[str, int] = {}
    names = [each.name for each in original.iterdir()]
    for damaged_file in sorted(original.iterdir()):
        for content in damages(damaged_file.read_bytes(), positions, chance):
            copy = folder / "copy.mill"
            shutil.copytree(original, copy)
            if content is None:
                (copy / damaged_file.name).unlink()
            else:
                (copy / damaged_file.name).write_bytes(content)
            answer = f"{damaged_file.name.split('-')[0]} {read(copy, last, names)}"
            answers[answer] = answers.get(answer, 0) + 1
            shutil.rmtree(copy)
    return answers


@pytest.mark.parametrize("make", MILLS)
def test_damage_is_noticed_or_harmless(tmp_path: Path, make: Any) -> None:
    last = make(tmp_path / "orders.mill")
    answers = damage_each_file(tmp_path, tmp_path / "orders.mill", last, positions=12)
    assert answers["mill.db DamagedFile"] > 10
    assert answers["delta DamagedFile"] > 10
    assert answers["snapshot DamagedFile"] > 10
    assert {answer.split()[1] for answer in answers} <= {"right", "DamagedFile", "StorageFailed"}


@pytest.mark.slow
@pytest.mark.parametrize("make", MILLS)
def test_damage_in_many_places(tmp_path: Path, make: Any) -> None:
    last = make(tmp_path / "orders.mill")
    answers = damage_each_file(tmp_path, tmp_path / "orders.mill", last, positions=800)
    assert sum(answers.values()) > 10_000
    assert {answer.split()[1] for answer in answers} <= {"right", "DamagedFile", "StorageFailed"}


if __name__ == "__main__":
    serve()

"""A crash between any two steps neither loses nor doubles a change.

Run as a script, this file is the process that is killed: a pipeline over a growing directory.
"""

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
from tests.pipeline.harness import (
    Row,
    net_of_changes,
    revenue_pipeline,
    shown_table,
    write_orders,
)

from viewmill.errors import ViewmillError
from viewmill.mill.storage import crash_points

pytestmark = pytest.mark.spark

CUSTOMERS = ("ann", "bob", "cy")


def orders(number: int) -> list[Row]:
    """The rows of a file: three orders come, one of an earlier file goes."""
    rows = [(3 * number + i, CUSTOMERS[i], number + i, "insert") for i in range(3)]
    if number:
        i = number % 3
        rows.append((3 * (number - 1) + i, CUSTOMERS[i], number - 1 + i, "delete"))
    return rows


def expected(files: int) -> Counter[Row]:
    """The revenue after so many files."""
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for number in range(files):
        for _, customer, amount, op in orders(number):
            sign = 1 if op == "insert" else -1
            sums[customer] += sign * amount
            counts[customer] += sign
    return Counter({(name, sums[name], n): 1 for name, n in counts.items() if n})


class Crashed(Exception):
    """Stands for the end of the process."""


def crash_at(point: int):
    """A visitor that lets so many points pass; everything after it fails, too."""
    passed = []

    def visit(name: str) -> None:
        passed.append(name)
        if len(passed) > point:
            raise Crashed(name)

    return visit, passed


def test_every_step_can_be_the_last(spark, tmp_path, monkeypatch):
    seen = []
    for point in range(100):
        files = point + 1
        write_orders(tmp_path / "orders", f"{point:06d}", orders(point))
        pipe = revenue_pipeline(spark, tmp_path)
        visit, passed = crash_at(point)
        monkeypatch.setattr(crash_points, "visit", visit)
        try:
            pipe.run_once()
            crashed = False
        except (Crashed, ViewmillError):
            crashed = True
        finally:
            monkeypatch.setattr(crash_points, "visit", None)
            pipe.close()
        if not crashed:
            break
        seen.append(passed[point])
        with revenue_pipeline(spark, tmp_path) as again:
            again.run_once()
            assert again["revenue"].verify() == []
        where = f"after a crash at {passed[point]!r}"
        assert Counter(shown_table(tmp_path / "table")) == expected(files), where
        assert net_of_changes(tmp_path / "changes") == expected(files), where
    assert {"batch read", "change prepared", "record synced", "batch taken"} <= set(seen)
    assert {"table written", "change to deliver", "sink published"} <= set(seen)


KILLS = int(os.environ.get("VIEWMILL_KILLS", "5"))  # each starts a JVM; `make crash` asks for more
STARTING = 5  # one in so many is killed while it starts, which is where recovery happens
# A JVM that lives for seconds is started in half the time when it compiles little.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"


@pytest.mark.parametrize(
    "placement",
    [
        "driver",
        pytest.param("shards", marks=pytest.mark.slow),
        pytest.param("archive", marks=pytest.mark.slow),  # where views come and go at each start
    ],
)
def test_killed_at_random_moments_it_loses_and_doubles_nothing(tmp_path, placement):
    # There may be fewer versions than files: Spark's file source notes a file before the batch, so
    # that after a kill between the two the next batch holds that file and one more.
    chance = random.Random(4)
    started_in = 0.0
    kills = KILLS if placement == "driver" else max(2, KILLS // 4)
    with (tmp_path / "log").open("w") as log:
        for kill in range(kills):
            start = time.monotonic()
            child = start_child(tmp_path, log, placement)
            try:
                if kill % STARTING == STARTING - 1:
                    time.sleep(chance.random() * started_in)
                else:
                    wait_for_batches(child, tmp_path, 2)
                    started_in = time.monotonic() - start
                    time.sleep(chance.random() * 0.5)
            finally:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            tell(placement, kill + 1, kills, shown(tmp_path))
        files = len(list((tmp_path / "orders").glob("*.parquet")))
        finish(tmp_path, log, placement)
    assert Counter(shown_table(tmp_path / "table")) == expected(files)
    assert net_of_changes(tmp_path / "changes") == expected(files)


def tell(placement: str, kill: int, kills: int, versions: int) -> None:
    """How far it is, for who waits for a hundred kills."""
    if KILLS > 5:
        said = f"crash: {placement}, kill {kill} of {kills}, {versions} versions shown\n"
        sys.__stderr__.write(said)
        sys.__stderr__.flush()


def start_child(root: Path, log, placement: str) -> subprocess.Popen[bytes]:
    """A process group of its own, so that the JVM dies with it."""
    return subprocess.Popen(
        [sys.executable, __file__, str(root), placement],
        start_new_session=True, stdout=log, stderr=log,
        env=environment(),
    )  # fmt: skip


def environment() -> dict[str, str]:
    """Of the process that is killed."""
    paths = os.pathsep.join(sys.path)
    own = {"PYTHONPATH": paths, "VIEWMILL_COMPILER": "off", "JAVA_TOOL_OPTIONS": SHORT_LIVED}
    return {**os.environ, **own}


def shown(root: Path) -> int:
    """How many versions the sink has."""
    return len(list((root / "changes").glob("changes-*.parquet")))


def wait_for_batches(child: subprocess.Popen[bytes], root: Path, count: int) -> None:
    """Until the child has shown so many more versions."""
    wanted, deadline = shown(root) + count, time.monotonic() + 300
    while shown(root) < wanted:
        assert child.poll() is None, (root / "log").read_text()[-3000:]
        assert time.monotonic() < deadline, (root / "log").read_text()[-3000:]
        time.sleep(0.01)


def finish(root: Path, log, placement: str) -> None:
    """Take all that is left."""
    done = subprocess.run(
        [sys.executable, __file__, str(root), placement, "once"],
        stdout=log, stderr=log, timeout=300,
        env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, (root / "log").read_text()[-3000:]


def main(root: Path, placement: str, *, once: bool) -> None:
    import viewmill as vm  # noqa: PLC0415

    spark = vm.spark.session(master="local[2,4]")
    pipe = revenue_pipeline(spark, root, placement)
    if placement == "archive":
        total = "count(*)" if once or random.random() < 0.5 else "max(id)"
        pipe.view("total", f"SELECT {total} AS n FROM orders")
        if once or random.random() < 0.5:
            pipe.view("largest", "SELECT customer, max(amount) AS m FROM orders GROUP BY customer")
    if once:
        pipe.run_once()
        assert pipe["revenue"].verify() == []
        if placement == "archive":
            assert [pipe.verify(name) for name in ("revenue", "total", "largest")] == [[], [], []]
            assert pipe["total"].rows() == [(sum(n for _, _, n in pipe["revenue"].rows()),)]
        pipe.close()
        return
    query = pipe.start()
    number = len(list((root / "orders").glob("*.parquet")))
    while query.is_active:
        if number < shown(root) + 4:  # a little ahead, or the last run would have too much to do
            write_orders(root / "orders", f"{number:06d}", orders(number))
            number += 1
        time.sleep(0.02)
    query.await_termination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], once=len(sys.argv) > 3)

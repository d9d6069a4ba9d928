"""Start the servers that a demo needs, on loopback, until Ctrl-C: `make services`.

does   starts PostgreSQL and Kafka where they are installed, and prints their addresses
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.lake import kafka_broker
from tests.sources import postgres_server


def start(folder: Path, stack: ExitStack) -> dict[str, str]:
    """The addresses of what could be started, by the variables that examples read."""
    found = {}
    if postgres_server.programs() is None:
        print("PostgreSQL is not installed: make postgres")
    else:
        server = stack.enter_context(postgres_server.running(folder / "postgres"))
        found["VIEWMILL_POSTGRES"] = server.dsn
    if why := kafka_broker.why_not():
        print(f"no Kafka: {why}")
    else:
        (folder / "kafka").mkdir()
        broker = kafka_broker.running(folder / "kafka")
        found["VIEWMILL_KAFKA"] = stack.enter_context(broker)
    return found


def main() -> None:
    """Start, print, wait."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="viewmill-services-") as folder, ExitStack() as stack:
        Path(folder).chmod(0o755)  # PostgreSQL is another user where we are root
        found = start(Path(folder), stack)
        for name, address in found.items():
            print(f"export {name}={address}")
        if not found:
            sys.exit(1)
        print("# they run until Ctrl-C; then all they have is gone", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            print("stopping")


if __name__ == "__main__":
    main()

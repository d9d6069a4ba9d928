"""A process that writes minutes of a stream under views in parts, and says which were acknowledged.

Run as `python parts_writer.py DIRECTORY`.
"""

from __future__ import annotations

import datetime
import sys
from typing import Any

import viewmill as vm

START = datetime.datetime(2024, 1, 1)
VIEWS = ("h", "p", "w", "c")


def create(mill: vm.Mill) -> None:
    mill.sql(
        "CREATE TABLE m (ts TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60 "
        "RETENTION INTERVAL '40' MINUTES LATENESS INTERVAL '5' MINUTES "
        "ROLL UP LENGTH 300 AFTER INTERVAL '12' MINUTES"
    )
    mill.sql(
        "CREATE VIEW h AS INITIALIZE h[i] AS SELECT k, sum(x) AS t FROM m[i] GROUP BY k "
        "UPDATE h[j] AS SELECT k, sum(t) FROM (SELECT k, x AS t FROM m[j] "
        "UNION ALL SELECT k, t FROM h[j-1]) GROUP BY k PARTITION LENGTH 60"
    )
    mill.sql(
        "CREATE VIEW p AS SELECT k, count(*) AS n, sum(x) AS t FROM m PATTERN [a, b+] "
        "WHERE b.x > PREV(b.x) GROUP BY k"
    )
    for name, what in (("w", "max(x) AS x"), ("c", "sum(x) AS x")):
        mill.sql(
            f"CREATE MATERIALIZED VIEW {name} STRATEGY temporal_view AS SELECT k, {what} "
            "FROM m [WINDOW 4 MINUTES] GROUP BY k"
        )


def rows(i: int) -> list[tuple[Any, ...]]:
    """Minute i: three rows, and sometimes one that is late."""
    at = START + datetime.timedelta(minutes=i)
    late = [(at - datetime.timedelta(minutes=3), "a", i % 11)] if i % 4 == 3 else []
    return [
        (at + datetime.timedelta(seconds=20 * j), "abc"[j], i * (j + 3) % 7) for j in range(3)
    ] + late


def written(mill: vm.Mill) -> int:
    """How many minutes there are."""
    if "m" not in mill:
        return 0
    ((newest,),) = mill.sql("SELECT max(ts) FROM m").rows()
    return 0 if newest is None else int((newest - START).total_seconds()) // 60 + 1


if __name__ == "__main__":
    with vm.connect(sys.argv[1]) as mill:
        if "c" not in mill:
            create(mill)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for i in range(written(mill), 10_000):
            mill.insert("m", rows(i))
            sys.stdout.write(f"{i + 1}\n")
            sys.stdout.flush()
            if i % 17 == 16:
                mill.checkpoint()

"""Insert, delete and expire unique strings and 38-digit decimals for as long as asked.

python tools/soak.py --minutes 60 [--path m.mill] [--every 5]

All kinds of views read them. Every few minutes a line says how much memory the process has and how
much the dictionary holds; at the end every view is verified, and the exit code is 1 if memory or
the dictionary grew after the first quarter.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import itertools
import os
import resource
import sys
import time
from collections.abc import Sequence

import viewmill as vm

START = datetime.datetime(2026, 1, 1)
BATCH, LIVE = 200, 10  # rows of a batch, batches that are not deleted yet
COMPACTED = 20_000  # dictionary entries at which the dead are counted, so that minutes show much
SLACK = 100 << 20  # bytes that may come and go

TABLES = """
CREATE TABLE t (id BIGINT, s STRING, d DECIMAL(38,2), PRIMARY KEY (id));
CREATE TABLE u (s STRING, d DECIMAL(38,2));
CREATE TABLE e (ts TIMESTAMP, g STRING, s STRING, x BIGINT, d DECIMAL(38,2))
  TIMESTAMP BY ts PARTITION LENGTH 10 LATENESS INTERVAL 10 SECONDS RETENTION INTERVAL 60 SECONDS;
CREATE TABLE f (ts TIMESTAMP, s STRING, d DECIMAL(38,2)) TIMESTAMP BY ts;
"""
E = "FROM e [WINDOW 20 SECONDS SLIDE 10 SECONDS]"
VIEWS = f"""
CREATE MATERIALIZED VIEW by_s AS SELECT s, COUNT(*) AS n, MAX(d) AS most FROM t GROUP BY s;
CREATE MATERIALIZED VIEW upper_s AS SELECT upper(s) AS u, n FROM by_s WHERE n > 0;
CREATE MATERIALIZED VIEW joined AS SELECT t.id, u.s, t.d + u.d AS d FROM t JOIN u ON t.s = u.s;
CREATE MATERIALIZED VIEW later REFRESH WITHIN INTERVAL 5 SECONDS AS
  SELECT s, SUM(d) AS d FROM t GROUP BY s;
CREATE MATERIALIZED VIEW again REFRESH POLICY FULL AS SELECT s, d FROM u;
CREATE MATERIALIZED VIEW kept AS SELECT s, d FROM e WHERE x > 0;
CREATE MATERIALIZED VIEW w AS SELECT s, COUNT(*) AS n
  FROM f [WINDOW 10 SECONDS SLIDE 5 SECONDS] GROUP BY s;
CREATE MATERIALIZED VIEW w_later REFRESH WITHIN INTERVAL 5 SECONDS AS SELECT s, MAX(d) AS d
  FROM f [WINDOW 10 SECONDS SLIDE 5 SECONDS] GROUP BY s;
CREATE MATERIALIZED VIEW every_window AS SELECT s, window.start, COUNT(*) AS n
  FROM f GROUP BY s, window(ts, '10 seconds');
CREATE MATERIALIZED VIEW window_parts STRATEGY temporal_view AS
  SELECT s, SUM(x) AS x {E} GROUP BY s;
CREATE MATERIALIZED VIEW pattern AS SELECT g, COUNT(*) AS n, FIRST(s) AS f, LAST(d) AS d
  FROM e PATTERN [a, b+] WHERE a.x > 0 AND b.x > 0 GROUP BY g;
CREATE MATERIALIZED VIEW matches AS SELECT * FROM e MATCH_RECOGNIZE (
  PARTITION BY g ORDER BY ts MEASURES COUNT(*) AS n, FIRST(a.s) AS s, LAST(b.d) AS d
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN (a b) DEFINE a AS a.x > 0, b AS b.x < -1);
CREATE VIEW parts AS INITIALIZE parts[i] AS SELECT g, MAX(s) AS s, MAX(d) AS d FROM e[i] GROUP BY g
  UPDATE parts[j] AS SELECT n.g, MAX(n.s) AS s, MAX(n.d) AS d FROM e[j] AS n GROUP BY n.g
  PARTITION LENGTH 10;
"""


class Stream:
    """Rows that nobody has seen before, and their deletes."""

    def __init__(self, mill: vm.Mill) -> None:
        self._mill = mill
        self._numbers = itertools.count()
        self._live: dict[str, collections.deque[list[object]]] = {}

    def step(self) -> None:
        """A batch into each table, and the oldest batch out of it."""
        first = next(self._numbers) * BATCH
        ids = range(first, first + BATCH)
        moment = START + datetime.timedelta(seconds=first // BATCH)
        texts = [f"text {os.getpid()} {i}" for i in ids]
        wide = [decimal.Decimal(10**35 + i) for i in ids]
        self._change("t", list(zip(ids, texts, wide, strict=True)))
        self._change("u", list(zip(texts[::2], wide[::2], strict=True)))
        self._change("f", [(moment, s, d) for s, d in zip(texts, wide, strict=True)])
        is_match = first < 100 * BATCH  # a reported match stays, so there are not many
        rows = [
            (moment, f"group {i % 7}", s, -2 if is_match and i % 20 > 12 else i % 5 - 1, d)
            for i, s, d in zip(ids, texts, wide, strict=True)
        ]
        self._mill.insert("e", rows)  # its rows expire

    def _change(self, table: str, rows: list[object]) -> None:
        live = self._live.setdefault(table, collections.deque())
        self._mill.insert(table, rows)
        live.append(rows)
        if len(live) > LIVE:
            self._mill.delete(table, live.popleft())


def resident_bytes() -> int:
    """The memory of this process."""
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def soak(mill: vm.Mill, minutes: float, every: float) -> bool:
    """Run for some minutes; whether memory and dictionary are flat from the first quarter on."""
    stream, begun = Stream(mill), time.monotonic()
    dictionaries, steps, sample, peak = 0, 0, 0.0, 0
    sizes: list[tuple[float, int, int]] = []  # minutes, bytes, the largest dictionary since
    while (passed := (time.monotonic() - begun) / 60) < minutes:
        before = mill.core.dictionary
        stream.step()
        steps += 1
        dictionaries += mill.core.dictionary is not before
        peak = max(peak, mill.core.dictionary.held)
        if passed >= sample:
            sizes.append((passed, resident_bytes(), peak))
            text = f"{passed:5.1f} min {steps:6d} steps {sizes[-1][1] >> 20:5d} MB RSS"
            said = f"{text} {peak:7d} dictionary {dictionaries:5d} compactions"
            sys.stdout.write(f"{said} {mill.core.trouble or ''}\n")
            sys.stdout.flush()
            sample, peak = sample + every, 0
    wrong = {name: found for name in mill.views() if (found := mill[name].verify())}
    sys.stdout.write(f"{len(mill.views())} views verified, wrong: {wrong}\n")
    settled = [each for each in sizes if each[0] >= minutes / 4] or sizes
    grew = settled[-1][1] > settled[0][1] + SLACK or settled[-1][2] > 2 * settled[0][2]
    return not (wrong or grew)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 if all is flat."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--every", type=float, default=5.0, help="minutes between two lines")
    parser.add_argument("--path", help="a directory for a durable mill")
    given = parser.parse_args(arguments)
    with vm.connect(given.path) if given.path else vm.connect() as mill:
        mill.sql(TABLES)
        mill.sql(VIEWS)
        mill.core.compact_at = mill.core.compact_at_least = COMPACTED
        return 0 if soak(mill, given.minutes, given.every) else 1


if __name__ == "__main__":
    raise SystemExit(main())

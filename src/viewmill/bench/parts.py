"""Parts of a minute through a pattern view and through sliding windows, Figures 6 to 12 of ViewDF.

Three ways each: `viewmill`, which keeps runs or helper parts; `naive`, DuckDB computing the newest
part again from the last `scope` (or `window`) parts of the stream; `hard_coded`, the same upkeep
written by hand in NumPy for this one query. The stream is that of the paper: one row per pair and
minute for the pattern, ten for the windows; a tenth of the rows has a loss above ten.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import viewmill as vm
from viewmill.bench.report import Report, Say

START = 1_420_106_400  # 2015-01-01 10:00
PAIRS_PER_SOURCE = 1000
TABLE = (
    "CREATE TABLE m (ts TIMESTAMP NOT NULL, src BIGINT NOT NULL, dest BIGINT NOT NULL, "
    "loss BIGINT NOT NULL) APPEND ONLY TIMESTAMP BY ts PARTITION LENGTH 60 "
    "RETENTION INTERVAL '110' MINUTES LATENESS INTERVAL '2' MINUTES"
)
PATTERN = (
    "CREATE VIEW v AS SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss "
    "FROM m PATTERN [a, b, c, d+] "
    "WHERE a.loss > 10 AND b.loss > 10 AND c.loss > 10 AND d.loss > 10 GROUP BY src, dest"
)
NAIVE_PATTERN = """
SELECT src, dest, count(*) AS ct, CAST(sum(loss) AS BIGINT) AS sum_loss
FROM m SEMI JOIN (SELECT src, dest FROM m WHERE ts = {now}) AS present USING (src, dest)
LEFT JOIN (SELECT src, dest, max(ts) AS low FROM m WHERE loss <= 10 GROUP BY src, dest) AS last
USING (src, dest) WHERE ts > coalesce(low, -1) GROUP BY src, dest HAVING count(*) >= 4
"""
MAX = (
    "CREATE VIEW h AS INITIALIZE h[i] AS SELECT src, dest, max(loss) AS a FROM m[i] "
    "GROUP BY src, dest UPDATE h[j] AS SELECT src, dest, max(loss) FROM m[j] GROUP BY src, dest "
    "PARTITION LENGTH 60; "
    "CREATE VIEW v AS INITIALIZE v[i] AS SELECT src, dest, max(a) AS a FROM h[i-{w}+1..i] "
    "GROUP BY src, dest UPDATE v[j] AS SELECT src, dest, max(a) FROM h[j-{w}+1..j] "
    "GROUP BY src, dest PARTITION LENGTH 60"
)
SUM = (
    "CREATE VIEW h AS INITIALIZE h[i] AS SELECT src, dest, sum(loss) AS a, count(*) AS n FROM m[i] "
    "GROUP BY src, dest UPDATE h[j] AS SELECT src, dest, sum(a), sum(n) FROM ("
    "SELECT src, dest, sum(loss) AS a, count(*) AS n FROM m[j] GROUP BY src, dest "
    "UNION ALL SELECT src, dest, a, n FROM h[j-1]) AS t GROUP BY src, dest PARTITION LENGTH 60; "
    "CREATE VIEW v AS INITIALIZE v[i] AS SELECT src, dest, a FROM h[i] UPDATE v[j] AS "
    "SELECT now.src, now.dest, now.a - coalesce(old.a, 0) FROM h[j] AS now "
    "LEFT JOIN h[j-{w}] AS old ON now.src = old.src AND now.dest = old.dest "
    "WHERE now.n - coalesce(old.n, 0) > 0 "
    "PARTITION LENGTH 60"
)
HELPED_SUM = MAX.replace("max(", "sum(")
NAIVE_WINDOW = "SELECT src, dest, CAST({f}(loss) AS BIGINT) AS a FROM m GROUP BY src, dest"

# Rows per part, by figure; and the share of rows above ten.
FULL = {"rows": (10_000, 100_000, 1_000_000), "scope": (5, 20, 100), "window": (5, 10, 100)}
QUICK = {"rows": (10_000,), "scope": (20,), "window": (10,)}
SHARES = (0.1, 0.5, 1.0)
TIMED = 5

Batch = dict[str, Any]  # columns by name


def parts(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("parts", seed, plotted="p50_ms", across="rows")
    sizes = QUICK if quick else FULL
    verified = [_pattern(report, seed, rows, 20, 0.1, say) for rows in sizes["rows"]]
    base = 10_000 if quick else 100_000
    if not quick:
        verified += [_pattern(report, seed, base, scope, 0.1, say) for scope in sizes["scope"]]
        verified += [_pattern(report, seed, base, 4, share, say) for share in SHARES]
    for window, function in itertools.product(sizes["window"], ("max", "sum")):
        verified.append(_window(report, seed, base, window, function, say))
    if not quick:
        for function in ("max", "sum"):
            verified.append(_window(report, seed, 1_000_000, 10, function, say))
    report.verified = all(verified)
    return report


# The stream.


def _batches(seed: int, rows: int, per_pair: int, share: float) -> Iterator[Batch]:
    random = np.random.default_rng(seed)
    pair = np.arange(rows) // per_pair
    for minute in itertools.count():
        is_high = random.random(rows) < share
        loss = np.where(is_high, random.integers(11, 50, rows), random.integers(0, 11, rows))
        moment = np.full(rows, (START + 60 * minute) * 1_000_000)
        yield {
            "ts": moment,
            "src": pair // PAIRS_PER_SOURCE,
            "dest": pair % PAIRS_PER_SOURCE,
            "loss": loss,
        }


def _arrow(batch: Batch) -> Any:
    return pa.table({**batch, "ts": pa.array(batch["ts"], pa.int64()).cast(pa.timestamp("us"))})


def _timed(work: Callable[[], object]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return (time.perf_counter() - start) * 1000, result


# The pattern.


def _pattern(report: Report, seed: int, rows: int, scope: int, share: float, say: Say) -> bool:
    say(f"pattern, {rows:,} rows per part, scope {scope}, {share:.0%} above ten")
    workload = {"view": "pattern", "rows": rows, "scope": scope, "share": share, "engine": "duckdb"}
    parts_before = max(scope, 6) - 1
    stream = _batches(seed, rows, 1, share)
    naive: deque[Batch] = deque(maxlen=scope)
    by_hand = HardCodedPattern()
    times: dict[str, list[float]] = {"viewmill": [], "naive": [], "hard_coded": []}
    with vm.connect() as mill:
        mill.sql(TABLE)
        mill.sql(PATTERN)
        same = True
        for i, batch in enumerate(itertools.islice(stream, parts_before + TIMED)):
            table = _arrow(batch)
            ours, _ = _timed(lambda table=table: mill.insert("m", table))  # type: ignore[misc]
            hand, _ = _timed(lambda batch=batch: by_hand.advance(batch))  # type: ignore[misc]
            naive.append(batch)
            if i >= parts_before:
                theirs, found = _timed(lambda: _naive(naive, NAIVE_PATTERN))
                times["naive"].append(theirs)
                times["viewmill"].append(ours)
                times["hard_coded"].append(hand)
                is_whole = scope >= i + 1  # else runs longer than the scope are cut off
                same &= not is_whole or _bag(mill["v"].to_arrow()) == _bag(found)
        same &= _bag(mill["v"].to_arrow()) == _bag(by_hand.shown())
        held = mill["v"].status()["state_bytes"]
    _note(report, workload, rows, times, held)
    return same


class HardCodedPattern:
    """Run length and sum per pair, merged with the new part by sorted pairs."""

    def __init__(self) -> None:
        self.pairs = self.counts = self.sums = np.empty(0, np.int64)
        self.now = self.pairs

    def advance(self, batch: Batch) -> None:
        """The next part."""
        pairs = batch["src"] * PAIRS_PER_SOURCE + batch["dest"]
        order = np.argsort(pairs, kind="stable")
        pairs, loss = pairs[order], batch["loss"][order]
        high = loss > 10
        pairs, loss = pairs[high], loss[high]
        at = np.searchsorted(self.pairs, pairs)
        at[at == len(self.pairs)] = 0
        known = self.pairs[at] == pairs if len(self.pairs) else np.zeros(len(at), np.bool_)
        counts = np.where(known, self.counts[at] if len(self.pairs) else 0, 0) + 1
        sums = np.where(known, self.sums[at] if len(self.pairs) else 0, 0) + loss
        self.pairs, self.counts, self.sums = pairs, counts, sums

    def shown(self) -> Any:
        """The pairs in their fourth minute or later."""
        long = self.counts >= 4
        pairs = self.pairs[long]
        columns = [pairs // PAIRS_PER_SOURCE, pairs % PAIRS_PER_SOURCE, self.counts[long]]
        return pa.table([*columns, self.sums[long]], names=["src", "dest", "ct", "sum_loss"])


def _naive(held: deque[Batch], query: str) -> Any:
    """The query over the parts in scope, which DuckDB holds as Arrow."""
    whole = pa.concat_tables([pa.table(batch) for batch in held])
    cursor = _connection().cursor()
    cursor.register("m", whole)
    return cursor.sql(query.format(now=int(held[-1]["ts"][0]))).to_arrow_table()


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    return connection


# Windows.


def _window(report: Report, seed: int, rows: int, window: int, function: str, say: Say) -> bool:
    say(f"sliding {function}, {rows:,} rows per part, window {window}")
    definitions = {"viewmill": MAX if function == "max" else SUM}
    if function == "sum":
        definitions["viewmill_helper_parts"] = HELPED_SUM
    workload = {
        "view": "window", "aggregate": function, "rows": rows, "window": window, "engine": "duckdb",
    }  # fmt: skip
    times: dict[str, list[float]] = {name: [] for name in definitions}
    times["naive"] = []
    held: deque[Batch] = deque(maxlen=window)
    mills = {name: vm.connect() for name in definitions}
    for name, definition in definitions.items():
        mills[name].sql(TABLE)
        mills[name].sql(definition.format(w=window))
    found = None
    for i, batch in enumerate(itertools.islice(_batches(seed, rows, 10, 0.1), window + TIMED)):
        table = _arrow(batch)
        held.append(batch)
        for name, mill in mills.items():
            spent, _ = _timed(lambda m=mill, t=table: m.insert("m", t))  # type: ignore[misc]
            times[name] += [spent] if i >= window else []
        if i >= window:
            spent, found = _timed(lambda: _naive(held, NAIVE_WINDOW.format(f=function)))
            times["naive"].append(spent)
    same = all(_bag(mill["v"].to_arrow()) == _bag(found) for mill in mills.values())
    for mill in mills.values():
        mill.close()
    _note(report, workload, rows, times, None)
    return same


def _note(
    report: Report, workload: Batch, rows: int, times: dict[str, list[float]], held: int | None
) -> None:
    medians = {name: float(np.median(spent)) for name, spent in times.items()}
    for name, median in medians.items():
        metrics = {"p50_ms": median, "rows_per_s": rows / median * 1000}
        if name != "naive":
            metrics["speedup"] = medians["naive"] / median
        report.add(name, workload, **metrics)
    if held is not None:
        report.add("viewmill", workload, state_bytes=held)


def _bag(table: Any) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))

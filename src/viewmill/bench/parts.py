"""Parts of a minute through a pattern view and through sliding windows, Figures 6 to 12 of ViewDF.

Three ways each: `viewmill`, which keeps runs or helper parts; `naive`, DuckDB computing the newest
part again from the last `scope` (or `window`) parts of the stream; `hard_coded`, the same upkeep
written by hand in NumPy for this one query. `initialize_update` is the window written by hand as
INITIALIZE and UPDATE, which the engine runs; SUM also from helper parts instead of cumulative sums.
The stream is that of the paper: one row per pair and minute for the pattern, ten for the windows; a
tenth of the rows has a loss above ten. On Spark the engine is Spark SQL.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
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
    "RETENTION INTERVAL '{minutes}' MINUTES"
)
WINDOW = (
    "CREATE MATERIALIZED VIEW v STRATEGY temporal_view AS SELECT src, dest, {f}(loss) AS a "
    "FROM m [WINDOW {w} MINUTES SLIDE 1 MINUTE] GROUP BY src, dest"
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
LARGEST = 10_000_000  # rows of a part, at window 10
SHARES = (0.1, 0.5, 1.0)
TIMED = 5
LATE_PARTS = 1000

Batch = dict[str, Any]  # columns by name


def parts(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("parts", seed, plotted="p50_ms", across="rows")
    bench = _Bench(report, seed, say)
    sizes = QUICK if quick else FULL
    base = 10_000 if quick else 100_000
    verified = [bench.pattern(rows, 20, 0.1) for rows in sizes["rows"]]  # Figure 6
    if not quick:
        verified += [bench.pattern(base, scope, 0.1) for scope in sizes["scope"]]  # Figure 7
        verified += [bench.pattern(base, 4, share) for share in SHARES]  # Figure 8
    for window, function in itertools.product(sizes["window"], ("max", "sum")):
        verified.append(bench.window(base, window, function))  # Figures 10 and 12
    verified.append(bench.late_row(100 if quick else LATE_PARTS))
    if not quick:
        for rows, function in itertools.product((1_000_000, LARGEST), ("max", "sum")):
            verified.append(bench.window(rows, 10, function))  # Figures 9 and 11
        verified += [bench.window(base, 100, f, is_shuffled=True) for f in ("max", "sum")]
        verified += _on_spark(report, seed, say)
    report.verified = all(verified)
    return report


def _on_spark(report: Report, seed: int, say: Say) -> list[bool]:
    """The pattern and the windows with Spark SQL as the engine."""
    session = vm.spark.session("viewmill bench")
    try:
        bench = _Bench(report, seed, say, session)
        found = [bench.pattern(rows, 20, 0.1) for rows in (10_000, 1_000_000)]
        return [*found, *(bench.window(100_000, 10, f) for f in ("max", "sum"))]
    finally:
        session.stop()


# The stream.


def _batches(
    seed: int, rows: int, per_pair: int, share: float, *, is_shuffled: bool = False
) -> Iterator[Batch]:
    random = np.random.default_rng(seed)
    pair = np.arange(rows) // per_pair
    for minute in itertools.count():
        is_high = random.random(rows) < share
        loss = np.where(is_high, random.integers(11, 50, rows), random.integers(0, 11, rows))
        moment = np.full(rows, (START + 60 * minute) * 1_000_000)
        if is_shuffled:
            pair = random.permutation(pair)
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


class _Bench:
    """Workloads on one engine."""

    def __init__(self, report: Report, seed: int, say: Say, spark: Any = None) -> None:
        self._report, self._seed, self._say, self._spark = report, seed, say, spark
        self._engine = "duckdb" if spark is None else "spark"

    # The pattern.

    def pattern(self, rows: int, scope: int, share: float) -> bool:
        """A part of so many rows through the pattern view."""
        self._say(f"pattern, {rows:,} rows per part, scope {scope}, {share:.0%}, {self._engine}")
        workload = {
            "view": "pattern", "rows": rows, "scope": scope, "share": share, "engine": self._engine,
        }  # fmt: skip
        parts_before = max(scope, 6) - 1
        stream = _batches(self._seed, rows, 1, share)
        naive: deque[Batch] = deque(maxlen=scope)
        by_hand = HardCodedPattern()
        times: dict[str, list[float]] = {"viewmill": [], "naive": [], "hard_coded": []}
        with vm.connect(spark=self._spark) as mill:
            mill.sql(TABLE.format(minutes=10))
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
        _note(self._report, workload, rows, times, held)
        return same

    # Windows.

    def window(self, rows: int, window: int, function: str, *, is_shuffled: bool = False) -> bool:
        """A part of so many rows through a sliding window."""
        order = ", shuffled" if is_shuffled else ""
        self._say(f"{function}, {rows:,} rows per part{order}, window {window}, {self._engine}")
        workload = {
            "view": "window", "aggregate": function, "rows": rows, "window": window,
            "engine": self._engine, **({"order": "shuffled"} if is_shuffled else {}),
        }  # fmt: skip
        mills = self._windows(rows, window, function)
        times: dict[str, list[float]] = {name: [] for name in mills}
        times |= {"naive": [], "hard_coded": []}
        by_hand = HardCodedWindow(window, function)
        held: deque[Batch] = deque(maxlen=window + 1)
        found = None
        stream = _batches(self._seed, rows, 10, 0.1, is_shuffled=is_shuffled)
        for i, batch in enumerate(itertools.islice(stream, window + TIMED + 1)):
            table = _arrow(batch)
            held.append(batch)
            for name, mill in mills.items():
                spent, _ = _timed(lambda m=mill, t=table: m.insert("m", t))  # type: ignore[misc]
                times[name] += [spent] if i > window else []
            spent, _ = _timed(lambda batch=batch: by_hand.advance(batch))  # type: ignore[misc]
            if i > window:
                times["hard_coded"].append(spent)
                # A window is answered when time has reached its end: with the next part.
                ended = list(held)[:-1]
                spent, found = _timed(lambda: _naive(ended, NAIVE_WINDOW.format(f=function)))  # noqa: B023
                times["naive"].append(spent)
        bags = [_bag(mills["viewmill"]["v"].to_arrow()), _bag(by_hand.before)]
        same = all(each == _bag(found) for each in bags) and self._engine_agrees(
            mills, held, function
        )
        for mill in mills.values():
            mill.close()
        _note(self._report, workload, rows, times, None)
        return same

    def _windows(self, rows: int, window: int, function: str) -> dict[str, Any]:
        definitions = {"viewmill": WINDOW}
        if rows <= 1_000_000:
            definitions["initialize_update"] = MAX if function == "max" else SUM
            if function == "sum":
                definitions["initialize_update_helper_parts"] = HELPED_SUM
        mills = {}
        for name, definition in definitions.items():
            mills[name] = vm.connect(spark=self._spark)
            mills[name].sql(TABLE.format(minutes=window + 2))
            mills[name].sql(definition.format(w=window, f=function))
        return mills

    def _engine_agrees(self, mills: dict[str, Any], held: deque[Batch], function: str) -> bool:
        """INITIALIZE and UPDATE show the part under way."""
        names = [name for name in mills if name != "viewmill"]
        if not names:
            return True
        found = _bag(_naive(list(held)[1:], NAIVE_WINDOW.format(f=function)))
        return all(_bag(mills[name]["v"].to_arrow()) == found for name in names)

    # Late rows.

    def late_row(self, back: int) -> bool:
        """One row into a part `back` parts ago, under a pattern and a window of ten parts."""
        self._say(f"a row {back} parts late")
        with vm.connect(spark=self._spark) as mill:
            mill.sql(TABLE.format(minutes=back + 200))
            mill.sql(PATTERN)
            mill.sql(WINDOW.replace("VIEW v", "VIEW w").format(w=10, f="sum"))
            stream = itertools.islice(_batches(self._seed, 1000, 1, 0.1), back + 50)
            whole = pa.concat_tables([_arrow(batch) for batch in stream])
            mill.insert("m", whole)
            spent, touched = [], []
            for i in range(TIMED):
                moment = (START + 60 * (40 + i) + 30) * 1_000_000
                row = {"ts": [moment], "src": [0], "dest": [i], "loss": [20]}
                late = _arrow({name: np.array(values) for name, values in row.items()})
                version = mill.version
                spent.append(_timed(lambda late=late: mill.insert("m", late))[0])  # type: ignore[misc]
                touched.append(len(mill.parts("w", changed_since=version)))
            same = touched == [10] * TIMED and not mill["v"].verify() and not mill["w"].verify()
        workload = {"view": "late", "parts": back, "rows": 1000, "engine": self._engine}
        self._report.add("viewmill", workload, p50_ms=float(np.median(spent)))
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


def _naive(held: Sequence[Batch], query: str) -> Any:
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


class HardCodedWindow:
    """Aggregates per pair of each part of the window, as arrays by pair."""

    def __init__(self, window: int, function: str) -> None:
        self._function, self._parts = function, deque[Any](maxlen=window)
        self._total: Any = 0
        self.before = self._shown = pa.table({"src": [], "dest": [], "a": []})

    def advance(self, batch: Batch) -> None:
        """The next part."""
        pairs = batch["src"] * PAIRS_PER_SOURCE + batch["dest"]
        count = int(pairs.max()) + 1
        if self._function == "sum":
            part = np.bincount(pairs, batch["loss"], count).astype(np.int64)
            oldest = self._parts[0] if len(self._parts) == self._parts.maxlen else 0
            self._total = answer = self._total + part - oldest
            self._parts.append(part)
        else:
            part = np.full(count, np.iinfo(np.int64).min)
            np.maximum.at(part, pairs, batch["loss"])
            self._parts.append(part)
            answer = np.maximum.reduce(list(self._parts))
        known = np.arange(count)
        self.before = self._shown
        columns = [known // PAIRS_PER_SOURCE, known % PAIRS_PER_SOURCE, answer]
        self._shown = pa.table(columns, names=["src", "dest", "a"])


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

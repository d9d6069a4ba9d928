"""Nested aggregates, an answer after every row: the paper's Table 1 and Figures 7 and 8.

Each query runs through `mill.replay` over order books of 1k to 1M live rows; half of the rows are
orders that leave. Plans: `aggregate_index`, and `general` (section 4.2), which takes what no index
takes and is forced by a condition that says the same with OR FALSE. Beside them, for VWAP: the
paper's own triggers (`paper_triggers`, `relative_trigger`), and for all DuckDB computing the query
again, as long as that ends in time. The growth is the exponent of a power of n that fits the times.
TPC-H Q17 and Q18 are in `nested_tpch`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import viewmill as vm
from viewmill.bench.nested_tpch import SCALES, nested_tpch
from viewmill.bench.order_book import cents_to_decimals
from viewmill.bench.paper_triggers import TRIGGERS, PaperTrigger
from viewmill.bench.relative_trigger import RelativeTrigger
from viewmill.bench.report import Report, Say

COLUMNS = "broker INT NOT NULL, volume BIGINT NOT NULL, price DECIMAL(12,2) NOT NULL"
_S = "(SELECT sum({0}1.volume) FROM {1} {0}1)"
_ABOVE = "coalesce((SELECT sum({0}2.volume) FROM {1} {0}2 WHERE {0}2.price > {0}.price), 0)"
_MST = (
    "sum(a.price * a.volume - b.price * b.volume) AS missed FROM bids b, asks a WHERE "
    f"0.25 * {_S.format('a', 'asks')} > {_ABOVE.format('a', 'asks')} AND "
    f"0.25 * {_S.format('b', 'bids')} > {_ABOVE.format('b', 'bids')}"
)
_NQ = (
    "SELECT sum(b.price * b.volume) AS {name} FROM bids b WHERE 0.75 * "
    "(SELECT sum(b1.volume) FROM bids b1) < (SELECT sum(b2.volume) FROM bids b2 "
    "WHERE b2.price <= b.price AND 0.75 * (SELECT sum(b3.volume) FROM bids b3) < "
    "(SELECT sum(b4.volume) FROM bids b4 WHERE b4.price <= b2.price{deep}))"
)
QUERIES = {
    "vwap": "SELECT sum(b.price * b.volume) AS vwap FROM bids b WHERE "
    f"0.75 * {_S.format('b', 'bids')} < "
    "(SELECT sum(b2.volume) FROM bids b2 WHERE b2.price <= b.price)",
    "psp": "SELECT sum(a.price - b.price) AS spread FROM bids b, asks a WHERE "
    f"b.volume > 0.0001 * {_S.format('b', 'bids')} "
    f"AND a.volume > 0.0001 * {_S.format('a', 'asks')}",
    "mst": f"SELECT {_MST}",
    "mst_by_broker": f"SELECT b.broker, {_MST} GROUP BY b.broker",
    "sq2": "SELECT sum(b.price * b.volume) AS sq2 FROM bids b WHERE "
    f"0.75 * {_S.format('b', 'bids')} < "
    "(SELECT sum(b2.volume) FROM bids b2 WHERE b2.price + b2.volume <= 2 * b.price)",
    "example_2_1": "SELECT sum(b.price * b.volume) AS half FROM bids b WHERE "
    f"0.5 * {_S.format('b', 'bids')} = "
    "(SELECT sum(b2.volume) FROM bids b2 WHERE b2.price = b.price)",
    "sq1": "SELECT sum(b.price * b.volume) AS sq1 FROM bids b WHERE "
    "0.75 * (SELECT sum(b1.volume) FROM bids b1 WHERE b1.volume <= b.volume) < "
    "(SELECT sum(b2.volume) FROM bids b2 WHERE b2.price <= b.price)",
    "nq1": _NQ.format(name="nq1", deep=""),
    "nq2": _NQ.format(name="nq2", deep=" AND b4.volume <= b.volume"),
}
GENERAL = {"sq1", "nq1", "nq2"}  # what no index takes as a whole
FORCED = ("vwap", "sq2", "example_2_1")
# The largest book for what costs more than O(n) for a row.
VERIFIED = {"mst": 1_000, "mst_by_broker": 1_000, "nq2": 1_000}  # DuckDB takes minutes for more
LINEAR = {"nq1": 10_000, "nq2": 1_000}
FULL = (1_000, 10_000, 100_000, 1_000_000)
QUICK = (1_000, 10_000)
BUDGET_S = 5.0  # per figure of a baseline

Words = npt.NDArray[np.int64]


class Book:
    """Random orders, and a stream in which one leaves and another comes."""

    def __init__(self, live: int, updates: int, seed: int) -> None:
        random = np.random.default_rng([seed, live])
        highest = max(4 * live, 100)
        most = (11, 100, highest)  # broker, volume, price
        now = [random.integers(1, each, live) for each in most]
        self.broker, self.volume, self.price = (each.copy() for each in now)
        streams: list[list[Words]] = [[], [], []]
        for done in range(0, updates // 2, live):  # in each round every order leaves at most once
            n = min(live, updates // 2 - done)
            leaving = random.choice(live, n, replace=False)
            for column, each, stream in zip(now, most, streams, strict=True):
                new = random.integers(1, each, n)
                stream.append(np.stack([column[leaving], new], axis=1).ravel())
                column[leaving] = new
        self.stream = [np.concatenate(parts) for parts in streams]
        self.signs = np.tile(np.array([-1, 1]), updates // 2)

    def rows(self) -> pa.Table:
        """The orders at the start."""
        return to_arrow(self.broker, self.volume, self.price)

    def updates(self) -> pa.Table:
        """The stream, with the multiplicity in the column `m`."""
        return to_arrow(*self.stream).append_column("m", pa.array(self.signs))


def to_arrow(broker: Words, volume: Words, price: Words) -> pa.Table:
    """Orders as an Arrow table."""
    return pa.table(
        {
            "broker": pa.array(broker.astype(np.int32)),
            "volume": pa.array(volume),
            "price": cents_to_decimals(price),
        }
    )


def nested(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("nested", seed)
    report.plotted, report.across = "us_per_update", "live"
    sizes, verified = QUICK if quick else FULL, []
    for name in QUERIES:
        for live in sizes:
            say(f"{name}, {live:,} live rows")
            if name not in GENERAL:
                verified.append(_viewmill(report, name, live, seed, "aggregate_index"))
            if name in GENERAL or name in FORCED:
                verified.append(_viewmill(report, name, live, seed, "general"))
            _recompute(report, name, live, seed)
        for plan in ("aggregate_index", "general"):
            _growth(report, "viewmill", name, sizes, plan)
    for live in sizes:
        say(f"vwap, {live:,} live rows, relative keys")
        verified.append(_relative_index(report, live, seed))
    _growth(report, "kernel", "vwap", sizes, "relative_index")
    for system in TRIGGERS:
        for live in sizes:
            say(f"vwap, {live:,} live rows, {system}")
            verified.append(_paper_trigger(report, system, live, seed))
        _growth(report, system, "vwap", sizes, system)
    for scale in SCALES[:1] if quick else SCALES:
        for data in ("uniform", "skewed"):
            verified.append(nested_tpch(report, scale / 10 if quick else scale, data, seed, say))
    report.verified = all(verified)
    return report


def _viewmill(report: Report, name: str, live: int, seed: int, plan: str) -> bool:
    count = 600_000  # a call of `replay` takes a millisecond of its own
    if plan == "general":
        if live > LINEAR.get(name, 100_000):
            return True  # minutes for a few rows
        count = min(max(4_000_000 // live, 40), 4_000) if name in FORCED or name == "sq1" else 40
    book, asks = Book(live, count, seed), Book(live, 2, seed + 1)
    sql = QUERIES[name].replace(" WHERE ", " WHERE FALSE OR ", 1) if (
        plan == "general" and name in FORCED) else QUERIES[name]  # fmt: skip
    with vm.connect() as mill:
        for table in ("bids", "asks"):
            mill.sql(f"CREATE TABLE {table} ({COLUMNS}) UNCHECKED")
        mill.insert("bids", book.rows())
        mill.insert("asks", asks.rows())
        mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS {sql}")
        updates = book.updates()
        warm = updates.num_rows // 6 & ~1
        mill.replay("bids", updates.slice(0, warm), view="v", multiplicity="m")  # compiled now
        row_s = steady(
            updates.num_rows - warm,
            lambda i, n: mill.replay(
                "bids", updates.slice(warm + i, n), view="v", multiplicity="m"
            ),
        )
        workload = {"query": name, "live": live, "plan": plan}
        _add(report, "viewmill", workload, row_s, 1)
        report.add("viewmill", workload, state_bytes=mill["v"].status()["state_bytes"])
        return live > VERIFIED.get(name, 10_000) or not mill["v"].verify()


def _add(report: Report, system: str, workload: dict[str, object], s: float, rows: int) -> None:
    report.add(system, workload, us_per_update=s / rows * 1e6, rows_per_cpu_s=rows / s)


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds of a piece of work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def steady(rows: int, replay: Callable[[int, int], object]) -> float:
    """CPU seconds of a row: the middle one of five parts, so that a disturbance does not count."""
    size = max(2, rows // 5 & ~1)
    parts = [(i, min(size, rows - i)) for i in range(0, rows, size)]
    return median(cpu_of(partial(replay, i, n)) / n for i, n in parts)


def _relative_index(report: Report, live: int, seed: int) -> bool:
    """The paper's plan over relative keys; the last answer is computed once more."""
    book = Book(live, 600_000, seed)
    _, volume, price = book.stream
    trigger, warm = RelativeTrigger(), len(volume) // 6
    trigger.load(book.volume, book.price)
    trigger.replay(book.signs[:warm], volume[:warm], price[:warm])
    answers = np.zeros(0, np.int64)

    def replay(i: int, n: int) -> None:
        nonlocal answers
        part = slice(warm + i, warm + i + n)
        answers = trigger.replay(book.signs[part], volume[part], price[part])

    row_s = steady(len(volume) - warm, replay)
    workload = {"query": "vwap", "live": live, "plan": "relative_index"}
    _add(report, "kernel", workload, row_s, 1)
    report.add("kernel", workload, state_bytes=trigger.nbytes)
    return int(answers[-1]) == _vwap(book, len(volume))


def _paper_trigger(report: Report, system: str, live: int, seed: int) -> bool:
    """As many rows as the budget allows; the last answer is computed once more."""
    book = Book(live, 2_000, seed)
    trigger = PaperTrigger(system, 2 * live + 16)
    trigger.load(book.volume, book.price)
    broker, volume, price = book.stream
    assert len(broker) == len(volume)
    done, seconds, answers = 0, 0.0, np.zeros(0, np.int64)
    step = 1 if system == "dbtoaster_trigger" and live > 10_000 else 10
    if system == "dbtoaster_trigger" and live > 100_000:
        return True  # minutes for one row
    while done < len(volume) and seconds < BUDGET_S:
        part = slice(done, done + step)
        start = time.process_time()
        answers = trigger.replay(book.signs[part], volume[part], price[part])
        seconds += time.process_time() - start
        done += len(answers)
    workload = {"query": "vwap", "live": live, "plan": system}
    _add(report, system, workload, seconds, done)
    return int(answers[-1]) == _vwap(book, done)


def _vwap(book: Book, done: int) -> int:
    """VWAP after so many rows of the stream, by sorting."""
    _, volume, price = book.stream
    volumes = np.concatenate([book.volume, (book.signs * volume)[:done]])
    prices = np.concatenate([book.price, price[:done]])
    levels, where = np.unique(prices, return_inverse=True)
    sums = np.zeros(len(levels), np.int64)
    np.add.at(sums, where, volumes)
    upto = np.cumsum(sums)
    return int((levels * sums)[4 * upto > 3 * upto[-1]].sum())


def _recompute(report: Report, name: str, live: int, seed: int) -> None:
    if live > VERIFIED.get(name, 10_000) and name != "psp":
        return  # minutes to hours
    book, asks = Book(live, 2, seed), Book(live, 2, seed + 1)
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("bids_now", book.rows())
        connection.register("asks_now", asks.rows())
        for table in ("bids", "asks"):
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM {table}_now")
        seconds = cpu_of(lambda: connection.execute(QUERIES[name]).fetchall())
    workload = {"query": name, "live": live, "plan": "recompute"}
    _add(report, "duckdb", workload, seconds, 1)


def _growth(report: Report, system: str, name: str, sizes: tuple[int, ...], plan: str) -> None:
    """The exponent of n that fits the times best."""
    found = [
        (live, each.value)
        for live in sizes
        for each in report.results
        if each.system == system and each.metric == "us_per_update"
        and each.workload == {"query": name, "live": live, "plan": plan}
    ]  # fmt: skip
    if len(found) > 1:
        x, y = (np.log([pair[i] for pair in found]) for i in (0, 1))
        slope = float(np.polyfit(x, y, 1)[0])
        report.add(system, {"query": name, "plan": plan}, growth=slope)

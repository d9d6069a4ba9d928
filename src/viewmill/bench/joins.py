"""Streams into a view over several tables: round-robin batches, against recompute and baselines.

takes  `JoinWorkload`: tables with their rows, the view's query, the same query factorized
gives  figures of viewmill through the API, of its kernel alone, of the paper's baselines and of
       DuckDB, all in one run

The tables are UNCHECKED and all rows are inserts, shuffled. A small batch size is timed on the last
rows of the stream only, when the states are full; so are the baselines. DuckDB appends and computes
the query again as it is written, on the first batches until its time is up, when the tables are
still small. With updates to the largest table only, viewmill knows the others as STATIC.
"""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import viewmill as vm
from viewmill.bench.baselines.systems import BASELINES, Kernels, Reevaluate, System
from viewmill.bench.clock import time_calls
from viewmill.bench.report import Report, Say
from viewmill.deltas.delta import Delta
from viewmill.deltas.rows import to_delta
from viewmill.mill.mill import Mill

Batch = tuple[str, pa.Table]
Rows = list[tuple[Any, ...]]

# How many calls are timed at most, by batch size.
CALLS = {1: 10_000, 100: 3_000, 1_000: 10_000, 10_000: 1_000}
_DUCKDB_SECONDS = 10.0
_BASELINE_SECONDS = 5.0
_BASELINE_CALLS = {"reevaluate": 6}
_SCALAR_CALLS = 30
_CHUNK = 100_000  # rows that a baseline is filled with at once


@dataclass(frozen=True)
class Scalar:
    """One number of a result that has many: its query, its place in the result, and how many
    numbers cost about the same."""

    query: str
    place: int
    times: int


@dataclass(frozen=True)
class JoinWorkload:
    """A view over several tables and the rows that stream into them.

    `forms` are ways to write the view that the report tells apart; the first one is the usual.
    With `ids` first_order keeps rows with a number each: whole rows are not alike.
    """

    name: str
    columns: Mapping[str, str]
    rows: Mapping[str, pa.Table]
    query: str
    factorized: str
    forms: Mapping[str, tuple[Mapping[str, Any], str]] = field(default_factory=dict)
    ids: bool = False
    duckdb: str = ""  # the query as DuckDB reads it, if it cannot read it as it is
    is_same: Callable[[Rows, Rows], bool] = operator.eq
    baselines: tuple[str, ...] = tuple(BASELINES)
    scalars: tuple[Scalar, ...] = ()  # for baselines that keep each number by itself

    def batches(self, size: int) -> list[Batch]:
        """Batches of `size` rows, one table after the other, until all rows are used."""
        return [self._batch(*place, size) for place in self._places(size)]

    def ending(self, size: int, calls: int) -> tuple[list[Batch], list[Batch]]:
        """The last batches, and what comes before them in one piece for each table.

        A million batches of one row would take more memory than all the rest.
        """
        places = self._places(size)
        ends = {name: start + size for name, start in places[:-calls]}
        return (
            [self._batch(name, 0, end) for name, end in ends.items()],
            [self._batch(*place, size) for place in places[-calls:]],
        )

    def _places(self, size: int) -> list[tuple[str, int]]:
        """The table and the first row of each batch."""
        longest = max(table.num_rows for table in self.rows.values())
        return [
            (name, start)
            for start in range(0, longest, size)
            for name, table in self.rows.items()
            if start < table.num_rows
        ]

    def _batch(self, name: str, start: int, size: int) -> Batch:
        return name, pa.table(self.rows[name].slice(start, size))

    def views(self) -> list[tuple[Mapping[str, Any], str]]:
        """The forms of the view."""
        return list(self.forms.values()) or [({}, self.query)]

    @property
    def largest(self) -> str:
        """The table with most rows."""
        return max(self.rows, key=lambda name: self.rows[name].num_rows)

    def with_ids(self) -> JoinWorkload:
        """Add a row number column `id` to every table."""
        columns = {name: f"{each}, id BIGINT NOT NULL" for name, each in self.columns.items()}
        rows = {
            name: each.append_column("id", pa.array(np.arange(each.num_rows)))
            for name, each in self.rows.items()
        }
        return replace(self, columns=columns, rows=rows)


def run(workload: JoinWorkload, report: Report, sizes: Sequence[int], say: Say) -> None:
    """All figures of a workload; the report is verified if every final result is right."""
    expected = _expected(workload)
    verified = []
    for more, query in workload.views():
        for size in sizes:
            say(f"viewmill, batches of {size}, updates to all tables {_said(more)}")
            verified.append(_viewmill(workload, query, more, report, size, expected))
        say(f"viewmill, batches of 1000, updates to {workload.largest} only {_said(more)}")
        verified.append(_largest_only(workload, query, more, report, expected))
        say(f"the kernel alone, batches of 1000 {_said(more)}")
        verified.append(_kernel(workload, query, more, report, expected))
    for name in workload.baselines:
        for updates in ("all", "largest"):
            say(f"{name}, batches of 1000, updates to {updates}")
            verified.append(_baseline(name, workload, report, updates, expected))
    for name in ("first_order", "recursive") if workload.scalars else ():
        for updates in ("all", "largest"):
            say(f"{name}, number by number, batches of 1000, updates to {updates}")
            verified.append(_by_number(name, workload, report, updates, expected))
    say("duckdb, appending and computing again")
    _duckdb(workload, report)
    report.verified = all(verified)


def _said(more: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in more.items())


def _expected(workload: JoinWorkload) -> Rows:
    with duckdb.connect() as connection:
        for name, rows in workload.rows.items():
            connection.register(name, rows)
        return connection.sql(workload.factorized).fetchall()


# Viewmill.


def create(mill: Mill, workload: JoinWorkload, options: Mapping[str, str] | None = None) -> None:
    """The tables of a workload."""
    for name, columns in workload.columns.items():
        mill.sql(f"CREATE TABLE {name} ({columns}) {(options or {}).get(name, 'UNCHECKED')}")


def _viewmill(
    workload: JoinWorkload, query: str, more: Mapping[str, Any], report: Report, size: int,
    expected: Rows,
) -> bool:  # fmt: skip
    filling, timed = workload.ending(size, CALLS[size])
    with vm.connect() as mill:
        create(mill, workload)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        for name, rows in filling:
            mill.insert(name, rows)
        timing = time_calls(_inserter(mill), timed, row_count(timed))
        key = {"batch": size, "updates": "all", **more}
        report.add("viewmill", key, **timing.metrics(), **_sizes(mill))
        return workload.is_same(mill["v"].rows(), expected)


def _inserter(mill: Mill) -> Callable[[Batch], None]:
    return lambda batch: mill.insert(batch[0], batch[1])


def _largest_only(
    workload: JoinWorkload, query: str, more: Mapping[str, Any], report: Report, expected: Rows
) -> bool:
    largest = workload.largest
    options = {name: "STATIC" for name in workload.columns if name != largest}
    batches = [batch for batch in workload.batches(1000) if batch[0] == largest]
    with vm.connect() as mill:
        create(mill, workload, options)
        for name in options:
            mill.insert(name, workload.rows[name])
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        timing = time_calls(_inserter(mill), batches, row_count(batches))
        key = {"batch": 1000, "updates": "largest", **more}
        report.add("viewmill", key, **timing.metrics(), **_sizes(mill))
        return workload.is_same(mill["v"].rows(), expected)


def _sizes(mill: Mill) -> dict[str, float]:
    """The size of the states, and how much of it is keys and payloads."""
    entry = mill._core.catalog.view("v")
    net = 0
    for block in entry.blocks:
        for state in block.program.states:
            kind: Any = state.kind
            entries = sum(batch.num_rows for batch in block.maintainer.snapshot(state.name))
            net += 8 * (kind.key_words + kind.payload_words) * entries
    held = float(mill["v"].status()["state_bytes"])
    return {"state_bytes": held, "content_bytes": float(net)}


def _kernel(
    workload: JoinWorkload, query: str, more: Mapping[str, Any], report: Report, expected: Rows
) -> bool:
    """Time the view's kernels without the mill around them."""
    with vm.connect() as mill:
        create(mill, workload)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        system = Kernels([mill._core.catalog.view("v").plan.program], mill)
        deltas = _deltas(mill, workload.batches(1000))
        timing = time_calls(lambda each: system.apply(*each), deltas, _delta_rows(deltas))
        key = {"batch": 1000, "updates": "all", **more}
        report.add("kernel", key, **timing.metrics())
        return workload.is_same(system.rows(), expected)


def _deltas(mill: Mill, batches: Sequence[Batch]) -> list[tuple[str, Delta]]:
    schemas = {name: mill._core.catalog.table(name).table.schema for name in dict(batches)}
    made = [(n, to_delta(rows, schemas[n], mill._core.dictionary)) for n, rows in batches]
    for _, delta in made:
        list(delta.columns)  # Arrow columns become words here, not while the clock runs
    return made


def _delta_rows(deltas: Sequence[tuple[str, Delta]]) -> int:
    return sum(delta.size for _, delta in deltas)


# Baselines.


def _baseline(
    name: str, workload: JoinWorkload, report: Report, updates: str, expected: Rows
) -> bool:
    """Time a baseline on the last batches of the stream, when its states are full."""
    own = workload.with_ids() if workload.ids and name == "first_order" else workload
    batches = _ordered(own, updates)
    with vm.connect() as mill:
        create(mill, own)
        system = BASELINES[name](mill, own.query)
        timed = batches[-_BASELINE_CALLS.get(name, 300) :]
        _fill_system(system, mill, own, batches[: -len(timed)])
        deltas = _deltas(mill, timed)
        done = _time_until(system, deltas, name, {"batch": 1000, "updates": updates}, report)
        for table, delta in deltas[done:]:
            system.apply(table, delta)
        return workload.is_same(system.rows(), expected)


def _ordered(workload: JoinWorkload, updates: str) -> list[Batch]:
    """The batches; with updates to the largest table only, those of all others come first."""
    batches = workload.batches(1000)
    if updates == "all":
        return batches
    others = [batch for batch in batches if batch[0] != workload.largest]
    return others + [batch for batch in batches if batch[0] == workload.largest]


def _by_number(
    name: str, workload: JoinWorkload, report: Report, updates: str, expected: Rows
) -> bool:
    """Time a baseline with a program for each number of the result.

    There are hundreds, so one of each kind is run, within a time limit, and stands for its kind.
    """
    own = workload.with_ids() if name == "first_order" else workload
    batches = _ordered(own, updates)
    per_row, held, is_right = 0.0, 0.0, True
    for each in workload.scalars:
        with vm.connect() as mill:
            create(mill, own)
            system = BASELINES[name](mill, each.query)
            timed = batches[-_SCALAR_CALLS:]
            _fill_system(system, mill, own, batches[: -len(timed)])
            deltas = _deltas(mill, timed)
            done: list[int] = []
            taken = _until(deltas, _BASELINE_SECONDS, done)
            timing = time_calls(_applier(system), taken, 1)
            per_row += each.times * timing.cpu_s / _delta_rows(deltas[: len(done)])
            held += each.times * system.state_bytes()
            for table, delta in deltas[len(done) :]:
                system.apply(table, delta)
            ((value,),) = system.rows()
            is_right &= math.isclose(value, expected[0][each.place], rel_tol=1e-9)
    numbers = {"numbers": len(expected[0]), "timed": len(workload.scalars)}
    key = {"batch": 1000, "updates": updates, **numbers}
    report.add(name, key, rows_per_cpu_s=1 / per_row, state_bytes=held)
    return is_right


def _applier(system: System) -> Callable[[tuple[str, Delta]], None]:
    return lambda given: system.apply(*given)


def _fill_system(
    system: System, mill: Mill, workload: JoinWorkload, batches: Sequence[Batch]
) -> None:
    for name in workload.rows:
        pieces = [rows for table, rows in batches if table == name]
        if not pieces:
            continue
        whole = pa.concat_tables(pieces)
        for start in range(0, whole.num_rows, _CHUNK):
            ((_, delta),) = _deltas(mill, [(name, whole.slice(start, _CHUNK))])
            (system.keep if isinstance(system, Reevaluate) else system.apply)(name, delta)


def _time_until(
    system: System, deltas: Sequence[tuple[str, Delta]], name: str, key: Mapping[str, Any],
    report: Report,
) -> int:  # fmt: skip
    """Time batches until the seconds are over; how many that were."""
    done: list[int] = []
    timing = time_calls(
        lambda each: system.apply(*each), _until(deltas, _BASELINE_SECONDS, done), 1
    )
    rows = _delta_rows(deltas[: len(done)])
    metrics = timing.metrics()
    metrics |= {"rows_per_cpu_s": rows / timing.cpu_s, "rows_per_s": rows / timing.wall_s}
    report.add(name, key, **metrics, state_bytes=float(system.state_bytes()))
    return len(done)


def _until(items: Sequence[Any], seconds: float, done: list[int]) -> Iterator[Any]:
    """Items as long as there is time, noted in `done`."""
    stop = time.perf_counter() + seconds
    for item in items:
        if time.perf_counter() > stop:
            return
        done.append(1)
        yield item


# DuckDB.


def _duckdb(workload: JoinWorkload, report: Report) -> None:
    """Append a batch and compute the query as it is written, until the seconds are over."""
    batches = workload.batches(1000)
    done: list[int] = []
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for name, rows in workload.rows.items():
            connection.register("empty", rows.slice(0, 0))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM empty")
        append = _appender(connection, workload.duckdb or workload.query)
        timing = time_calls(append, _until(batches, _DUCKDB_SECONDS, done), 1)
    rows_done = row_count(batches[: len(done)])
    metrics = timing.metrics()
    metrics |= {"rows_per_cpu_s": rows_done / timing.cpu_s, "rows_per_s": rows_done / timing.wall_s}
    report.add("duckdb", {"batch": 1000, "updates": "all"}, **metrics)


def _appender(connection: Any, query: str) -> Callable[[Batch], None]:
    def append(batch: Batch) -> None:
        connection.register("batch", batch[1])
        connection.execute(f"INSERT INTO {batch[0]} SELECT * FROM batch")
        connection.execute(f"CREATE OR REPLACE TABLE v AS {query}")

    return append


def row_count(batches: Sequence[Batch]) -> int:
    """Rows of all batches."""
    return sum(rows.num_rows for _, rows in batches)

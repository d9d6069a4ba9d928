"""The natural join of the housing tables, kept listed and factorized (section 8.6, Figure 13).

takes  scales 1 to 20 (houses per postcode), 100 postcodes
gives  for each form of the result the time to keep it under inserts to all tables, its bytes, and
       how much larger and slower the listed ones are

    listed_keys       RESULT LISTED: every row of the join is a key with its multiplicity
    listed_payloads   every row of the join in the payload of its postcode (Figure 2e): the
                      relational ring, as arrays that only grow
    factorized        RESULT FACTORIZED
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import viewmill as vm
from viewmill.bench.clock import Timing, time_calls
from viewmill.bench.housing import TABLES, housing
from viewmill.bench.report import Report, Say
from viewmill.mill.mill import Mill

POSTCODES = 100
_BATCH = 1000
_FORMS = ("listed_keys", "listed_payloads", "factorized")
# A run of two milliseconds says little, so that the middle one of several counts.
_RUNS = {"listed_keys": 1, "factorized": 5}
_JOINED = " ".join(f"JOIN {name} ON House.postcode = {name}.postcode" for name in list(TABLES)[1:])

Batch = tuple[str, pa.Table]
Rows = npt.NDArray[np.int64]


def factorized(
    *, seed: int, quick: bool, say: Say, sizes: tuple[int, ...] = (), scale: float | None = None
) -> Report:
    """Run the whole workload; `sizes` are the scales, `scale` is a single one."""
    report = Report("factorized", seed, plotted="state_bytes", across="scale")
    postcodes = 10 if quick else POSTCODES
    verified = []
    sizes = sizes or (() if scale is None else (max(1, round(scale)),))
    for size in sizes or ((1, 2, 4) if quick else (1, 2, 4, 8, 12, 16, 20)):
        rows = housing(seed, postcodes, scale=size)
        expected = _expected(rows)
        for form in _FORMS:
            say(f"scale {size}, {form}")
            keep = _payloads if form == "listed_payloads" else _view
            verified.append(keep(report, form, size, rows) == expected)
        _compare(report, size)
    report.verified = all(verified)
    return report


def _batches(rows: dict[str, pa.Table]) -> list[Batch]:
    longest = max(table.num_rows for table in rows.values())
    return [
        (name, table.slice(start, _BATCH))
        for start in range(0, longest, _BATCH)
        for name, table in rows.items()
        if start < table.num_rows
    ]


def _shown() -> list[str]:
    """All 27 attributes."""
    own = [f"{name.lower()}_{i + 1}" for name, (_, n) in TABLES.items() for i in range(n)]
    return ["House.postcode", *own]


def _expected(rows: dict[str, pa.Table]) -> tuple[int, int]:
    """The number of rows, and a sum over all of them that no two columns can be mixed up in."""
    with duckdb.connect() as connection:
        for name, table in rows.items():
            connection.register(name, table)
        query = f"SELECT COUNT(*), SUM(house_1 * shop_1 + House.postcode) FROM House {_JOINED}"
        count, total = connection.sql(query).fetchall()[0]
    return int(count), int(total)


def _view(report: Report, form: str, scale: int, rows: dict[str, pa.Table]) -> tuple[int, int]:
    timings = []
    for _ in range(_RUNS[form] - 1):
        with _empty_mill(form, rows) as mill:
            timings.append(_timed(mill, rows))
    with _empty_mill(form, rows) as mill:
        timings.append(_timed(mill, rows))
        timing = sorted(timings, key=lambda each: each.cpu_s)[len(timings) // 2]
        held = float(mill["v"].status()["state_bytes"])
        _note(report, form, scale, timing.cpu_s, timing.wall_s, held, _count(rows))
        start = time.thread_time()
        count = mill["v"].count()
        report.add("viewmill", {"result": form, "scale": scale}, count_s=time.thread_time() - start)
        return count, sum(_sums(mill["v"].batches()))


def _empty_mill(form: str, rows: dict[str, pa.Table]) -> Mill:
    """A mill with the view; what is compiled is compiled before the clock runs."""
    result = "FACTORIZED" if form == "factorized" else "LISTED"
    mill = vm.connect()
    for name, (_, width) in TABLES.items():
        columns = ["postcode", *(f"{name.lower()}_{i + 1}" for i in range(width))]
        declared = ", ".join(f"{each} BIGINT NOT NULL" for each in columns)
        mill.sql(f"CREATE TABLE {name} ({declared}) UNCHECKED")
    query = f"SELECT {', '.join(_shown())} FROM House {_JOINED}"
    mill.sql(f"CREATE MATERIALIZED VIEW v RESULT {result} AS {query}")
    for name, table in rows.items():
        mill.insert(name, table.slice(0, 1))
        mill.delete(name, table.slice(0, 1))
    return mill


def _timed(mill: Mill, rows: dict[str, pa.Table]) -> Timing:
    return time_calls(lambda each: mill.insert(*each), _batches(rows), _count(rows))


def _sums(batches: Iterable[Any]) -> Iterator[int]:
    for batch in batches:
        house, shop, postcode = (
            batch.column(batch.schema.get_field_index(name)).to_numpy()
            for name in ("house_1", "shop_1", "postcode")
        )
        yield int((house * shop + postcode).sum())


def _count(rows: dict[str, pa.Table]) -> int:
    return sum(table.num_rows for table in rows.values())


def _note(
    report: Report, form: str, scale: int, cpu_s: float, wall_s: float, held: float, rows: int
) -> None:
    key = {"result": form, "scale": scale}
    system = "viewmill" if form != "listed_payloads" else "listed_payloads"
    rates = {"rows_per_cpu_s": rows / cpu_s, "rows_per_s": rows / wall_s}
    report.add(system, key, total_s=cpu_s, state_bytes=held, **rates)


def _payloads(report: Report, form: str, scale: int, rows: dict[str, pa.Table]) -> tuple[int, int]:
    """The relational ring: a postcode's payload is the relation of its rows of the join."""
    names = list(TABLES)
    parts: dict[tuple[str, int], list[Rows]] = {}
    joined: dict[int, list[Rows]] = {}

    def insert(batch: Batch) -> None:
        name, table = batch
        words = np.column_stack([column.to_numpy() for column in table.columns])
        for postcode in np.unique(words[:, 0]).tolist():
            mine = words[words[:, 0] == postcode, 1:]
            others = [
                mine if each == name else np.concatenate(parts[each, postcode])
                for each in names
                if each == name or (each, postcode) in parts
            ]
            parts.setdefault((name, postcode), []).append(mine)
            if len(others) == len(names):
                joined.setdefault(postcode, []).append(_product(others))

    batches = _batches(rows)
    timing = time_calls(insert, batches, _count(rows))
    held = sum(each.nbytes for kept in (parts, joined) for many in kept.values() for each in many)
    _note(report, form, scale, timing.cpu_s, timing.wall_s, float(held), _count(rows))
    shop = TABLES["House"][1]
    count = total = 0
    for postcode, pieces in joined.items():
        for piece in pieces:
            count += len(piece)
            total += int((piece[:, 0] * piece[:, shop] + postcode).sum())
    return count, total


def _product(factors: list[Rows]) -> Rows:
    """Every combination of one row of each."""
    size = int(np.prod([len(each) for each in factors]))
    columns, inner = [], size
    for each in factors:
        inner //= len(each)
        at = np.tile(np.repeat(np.arange(len(each)), inner), size // (inner * len(each)))
        columns.append(each[at])
    return np.concatenate(columns, axis=1)


def _compare(report: Report, scale: int) -> None:
    """How much larger and slower the listed forms are."""
    for form in _FORMS[:2]:
        system = "viewmill" if form == "listed_keys" else form
        for metric, name in (("total_s", "speedup"), ("state_bytes", "smaller")):
            listed = report.value(system, metric, result=form, scale=scale)
            own = report.value("viewmill", metric, result="factorized", scale=scale)
            key = {"result": "factorized", "scale": scale, "against": form}
            report.add("viewmill", key, **{name: listed / own})

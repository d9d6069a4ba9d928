"""F-IVM's retailer workload: the cofactor of 43 columns over a snowflake of five tables.

Inventory(locn, dateid, ksn, units) joins Item on ksn, Weather on locn and dateid, Location on locn,
and Census through Location's zip. The data is synthetic, with as many attributes and similar
proportions of keys.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewmill.bench.joins import JoinWorkload, run
from viewmill.bench.moments import by_number, is_same, listed
from viewmill.bench.report import Report, Say

ROWS, LOCATIONS, DATES, ITEMS, ZIPS = 400_000, 200, 120, 2_000, 150
# Attributes besides the keys.
WIDTHS = {"Item": 4, "Weather": 6, "Location": 13, "Census": 15}
KEYS = {
    "Inventory": ("locn", "dateid", "ksn"), "Item": ("ksn",), "Weather": ("locn", "dateid"),
    "Location": ("locn", "zip"), "Census": ("zip",),
}  # fmt: skip
JOINED = (
    "Inventory JOIN Item ON Inventory.ksn = Item.ksn "
    "JOIN Weather ON Inventory.locn = Weather.locn AND Inventory.dateid = Weather.dateid "
    "JOIN Location ON Inventory.locn = Location.locn JOIN Census ON Location.zip = Census.zip"
)


def attributes(table: str) -> list[str]:
    """The columns of a table that are no keys."""
    if table == "Inventory":
        return ["units"]
    return [f"{table.lower()}_{i + 1}" for i in range(WIDTHS[table])]


COLUMNS = (
    "Inventory.locn", "Inventory.dateid", "Inventory.ksn", "Location.zip",
    *(f"{table}.{name}" for table in KEYS for name in attributes(table)),
)  # fmt: skip
# The order of the paper: what it costs to update depends on it, and empty tables say nothing.
ORDER = "/*+ VARIABLE_ORDER(locn(dateid(ksn), zip)) */"
QUERY = f"SELECT {ORDER} cofactor({', '.join(COLUMNS)}) AS c FROM {JOINED}"


def snowflake(seed: int, rows: int) -> dict[str, pa.Table]:
    """The tables, each shuffled."""
    random = np.random.default_rng(seed)
    locations, dates = np.arange(LOCATIONS), np.arange(DATES)
    keys = {
        "Inventory": {
            "locn": random.integers(0, LOCATIONS, rows),
            "dateid": random.integers(0, DATES, rows),
            "ksn": random.integers(0, ITEMS, rows),
        },
        "Item": {"ksn": np.arange(ITEMS)},
        "Weather": {
            "locn": np.repeat(locations, DATES), "dateid": np.tile(dates, LOCATIONS)
        },
        "Location": {"locn": locations, "zip": random.integers(0, ZIPS, LOCATIONS)},
        "Census": {"zip": np.arange(ZIPS)},
    }  # fmt: skip
    tables = {}
    for name, columns in keys.items():
        size = len(next(iter(columns.values())))
        columns |= {each: random.integers(0, 1000, size) for each in attributes(name)}
        order = random.permutation(size)
        tables[name] = pa.table({each: values[order] for each, values in columns.items()})
    return tables


def retailer(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("retailer", seed)
    say("making the retailer data")
    rows = snowflake(seed, ROWS // 20 if quick else ROWS)
    columns = {
        name: ", ".join(f"{each} BIGINT NOT NULL" for each in (*keys, *attributes(name)))
        for name, keys in KEYS.items()
    }
    query = listed(COLUMNS, JOINED)
    workload = JoinWorkload(
        "retailer", columns, rows, QUERY, query, duckdb=query, is_same=is_same,
        baselines=("recursive_ring", "reevaluate"), scalars=by_number(COLUMNS, JOINED),
    )  # fmt: skip
    run(workload, report, (1_000,) if quick else (10_000, 1_000, 100), say)
    return report

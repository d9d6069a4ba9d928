"""F-IVM's housing workload with all its attributes: the cofactor of 27 columns over six tables."""

from __future__ import annotations

from viewmill.bench.housing import POSTCODES, TABLES, housing
from viewmill.bench.joins import JoinWorkload, run
from viewmill.bench.moments import Part, by_number, factorized, is_same, listed
from viewmill.bench.report import Report, Say
from viewmill.bench.star import JOINED

PARTS = tuple(
    Part(name, ("postcode",), tuple(f"{name.lower()}_{i + 1}" for i in range(width)))
    for name, (_, width) in TABLES.items()
)
COLUMNS = ("House.postcode", *(f"{p.table}.{each}" for p in PARTS for each in p.columns))
QUERY = f"SELECT cofactor({', '.join(COLUMNS)}) AS c FROM House {JOINED}"


def cofactor(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("cofactor", seed)
    say("making the housing data")
    rows = housing(seed, POSTCODES // 25 if quick else POSTCODES)
    columns = {
        each.table: ", ".join(f"{name} BIGINT NOT NULL" for name in ("postcode", *each.columns))
        for each in PARTS
    }
    workload = JoinWorkload(
        "cofactor", columns, rows, QUERY, factorized(PARTS, "postcode"),
        duckdb=listed(COLUMNS, f"House {JOINED}"), is_same=is_same,
        baselines=("recursive_ring", "reevaluate"),
        scalars=by_number(COLUMNS, f"House {JOINED}"),
    )  # fmt: skip
    run(workload, report, (1_000,) if quick else (10_000, 1_000, 100, 1), say)
    return report

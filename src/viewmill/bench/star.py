"""F-IVM's housing workload: six tables on one key, a sum over the key."""

from __future__ import annotations

from viewmill.bench.housing import POSTCODES, TABLES, housing
from viewmill.bench.joins import JoinWorkload, run
from viewmill.bench.report import Report, Say

NAMES = tuple(TABLES)
JOINED = " ".join(f"JOIN {name} ON House.postcode = {name}.postcode" for name in NAMES[1:])
QUERY = f"SELECT SUM(House.postcode * House.postcode) AS total FROM House {JOINED}"


def star(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("star", seed)
    say("making the housing data")
    rows = housing(seed, POSTCODES // 25 if quick else POSTCODES, attributes=False)
    columns = dict.fromkeys(NAMES, "postcode BIGINT NOT NULL")
    workload = JoinWorkload("star", columns, rows, QUERY, _factorized(), ids=True)
    run(workload, report, (1_000,) if quick else (10_000, 1_000, 100, 1), say)
    return report


def _factorized() -> str:
    """An independent query for the sum: from the row counts of each table by postcode."""
    counted = [
        f"(SELECT postcode, COUNT(*) AS n FROM {name} GROUP BY postcode) {name}" for name in NAMES
    ]
    joined = counted[0] + "".join(f" JOIN {each} USING (postcode)" for each in counted[1:])
    product = " * ".join(f"{name}.n::HUGEINT" for name in NAMES)
    return f"SELECT SUM(postcode * postcode * {product})::BIGINT AS total FROM {joined}"

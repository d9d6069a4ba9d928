"""Synthetic data in the schema of F-IVM's housing data: six tables that join on postcode."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

POSTCODES = 25_000
# Rows for each postcode, and attributes besides it.
TABLES = {
    "House": (20, 10),
    "Shop": (20, 5),
    "Institution": (10, 2),
    "Restaurant": (10, 2),
    "Demographics": (1, 4),
    "Transport": (1, 3),
}


def housing(
    seed: int, postcodes: int = POSTCODES, *, attributes: bool = True, scale: int = 20
) -> dict[str, pa.Table]:
    """The tables, each shuffled; without attributes they have the postcode alone.

    The paper's scale is the number of houses per postcode; the join grows with its fourth power.
    """
    random = np.random.default_rng(seed)
    tables = {}
    for name, (most, width) in TABLES.items():
        rows = max(1, most * scale // 20)
        postcode = np.repeat(np.arange(postcodes), rows)
        random.shuffle(postcode)
        columns = {"postcode": postcode}
        for i in range(width if attributes else 0):
            columns[f"{name.lower()}_{i + 1}"] = random.integers(0, 1000, len(postcode))
        tables[name] = pa.table(columns)
    return tables

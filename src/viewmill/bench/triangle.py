"""F-IVM's triangle query on a graph whose degrees follow a power law, with and without indicators.

The edges are split into three tables R(A,B), S(B,C), T(C,A), as the paper splits its Twitter graph.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewmill.bench.joins import JoinWorkload, run
from viewmill.bench.report import Report, Say

EDGES, NODES = 100_000, 50_000  # edges of each table
_POWER = 2.5  # node n * u^2.5 for uniform u: the first node has a thousand edges
COLUMNS = {
    "R": "A BIGINT NOT NULL, B BIGINT NOT NULL",
    "S": "B BIGINT NOT NULL, C BIGINT NOT NULL",
    "T": "C BIGINT NOT NULL, A BIGINT NOT NULL",
}
JOINED = "FROM R JOIN S ON R.B = S.B JOIN T ON S.C = T.C AND T.A = R.A"
QUERY = f"SELECT COUNT(*) AS triangles {JOINED}"
ORDER = "VARIABLE_ORDER(A(B(C)))"  # that of the paper


def triangle(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("triangle", seed)
    edges, nodes = (EDGES // 25, NODES // 25) if quick else (EDGES, NODES)
    random = np.random.default_rng(seed)
    rows = {
        name: pa.table(
            {
                each.split()[0]: (nodes * random.random(edges) ** _POWER).astype(np.int64)
                for each in columns.split(", ")
            }
        )
        for name, columns in COLUMNS.items()
    }
    hinted = QUERY.replace("SELECT", f"SELECT /*+ {ORDER} */", 1)
    without = QUERY.replace("SELECT", f"SELECT /*+ {ORDER}, NO_INDICATORS */", 1)
    forms = {"with": ({"indicator": True}, hinted), "without": ({"indicator": False}, without)}
    workload = JoinWorkload("triangle", COLUMNS, rows, QUERY, QUERY, forms)
    run(workload, report, (1_000,) if quick else (10_000, 1_000, 100, 1), say)
    return report

"""F-IVM's running example at size: R(A,B), S(A,C,E), T(C,D), a sum of products over their join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewmill.bench.joins import JoinWorkload, run
from viewmill.bench.report import Report, Say

ROWS, KEYS = 1_000_000, 100_000
COLUMNS = {
    "R": "a BIGINT NOT NULL, b BIGINT NOT NULL",
    "S": "a BIGINT NOT NULL, c BIGINT NOT NULL, e BIGINT NOT NULL",
    "T": "c BIGINT NOT NULL, d BIGINT NOT NULL",
}
QUERY = "SELECT SUM(R.b * T.d * S.e) AS total FROM R JOIN S ON R.a = S.a JOIN T ON S.c = T.c"
FACTORIZED = """
SELECT SUM(r.b * st.v)::BIGINT AS total
FROM (SELECT a, SUM(b) AS b FROM R GROUP BY a) r
JOIN (
  SELECT s.a, SUM(s.e * t.d) AS v
  FROM (SELECT a, c, SUM(e) AS e FROM S GROUP BY a, c) s
  JOIN (SELECT c, SUM(d) AS d FROM T GROUP BY c) t USING (c)
  GROUP BY s.a
) st USING (a)
"""


def tree(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("tree", seed)
    scale = 20 if quick else 1
    random = np.random.default_rng(seed)
    keyed = {"a", "c"}  # the others are small numbers, so that the sum fits 64 bits
    rows = {
        name: pa.table(
            {
                column: random.integers(0, KEYS // scale if column in keyed else 100, ROWS // scale)
                for column in (each.split()[0] for each in columns.split(", "))
            }
        )
        for name, columns in COLUMNS.items()
    }
    workload = JoinWorkload("tree", COLUMNS, rows, QUERY, FACTORIZED)
    run(workload, report, (1_000,) if quick else (10_000, 1_000, 100, 1), say)
    return report

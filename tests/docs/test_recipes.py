"""The recipes of CONTRIBUTING.md, followed in a copy of the project."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import viewmill

AGGREGATE = """
from viewmill.algebra.aggregates.declaration import AggregateFunction, Linear
from viewmill.algebra.aggregates.parts import compared, count_where
from viewmill.algebra.expressions import Literal
from viewmill.algebra.types import BIGINT


def _linear(call):
    value = call.arguments[0]
    positive = compared(">", value, Literal(0, value.type))
    return Linear((count_where(call, positive),), lambda counts: counts[0])


AGGREGATES = (
    AggregateFunction(
        "count_positive", ("whole",), BIGINT, nullable=False, linear=_linear,
        duckdb="count({distinct}CASE WHEN {0} > 0 THEN 1 END){suffix}",
    ),
)
"""

USE = """
import viewmill as vm

with vm.connect() as mill:
    mill.sql("CREATE TABLE t (g INT, x INT)")
    mill.sql("CREATE TABLE u (g INT, w INT)")
    mill.sql("CREATE TABLE a (x INT) APPEND ONLY")
    queries = {
        "groups": "SELECT g, count_positive(x) AS n FROM t GROUP BY g",
        "joined": "SELECT w, count_positive(x) AS n FROM t JOIN u ON t.g = u.g GROUP BY w",
        "sliding": "SELECT count_positive(x) AS n FROM a [WINDOW 2 ROWS SLIDE 1 ROWS]",
    }
    for name, query in queries.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} REFRESH POLICY INCREMENTAL STRICT AS {query}")
    mill.insert("u", [(1, 7), (1, 7)])
    mill.insert("t", [(1, 5), (1, -5), (1, 6), (2, None)])
    mill.insert("a", [(1,), (-1,), (3,)])
    mill.delete("t", [(1, 6)])
    assert sorted(mill["groups"]) == [(1, 1), (2, 0)]
    assert sorted(mill["joined"]) == [(7, 2)]
    assert not any(mill[name].verify() for name in queries)
    print(*(mill[name].status()["strategy"] for name in queries))
"""


def test_a_new_aggregate_is_one_file(tmp_path):
    copy = tmp_path / "viewmill"
    source = Path(viewmill.__file__).parent
    shutil.copytree(source, copy)
    (copy / "algebra" / "aggregates" / "count_positive.py").write_text(AGGREGATE)
    environment = {"PYTHONPATH": str(tmp_path), "VIEWMILL_COMPILER": "off"}
    command = [sys.executable, "-c", USE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "dataflow view_tree shared_window\n", done.stderr

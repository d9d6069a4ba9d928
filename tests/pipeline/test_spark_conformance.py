"""Every strategy on Spark shows what it shows in process: the shapes of all, in both placements.

Three tables of every type grow by files, with NULLs, duplicates and deletes; between two runs the
pipeline is opened again from its storage.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.equivalence.shapes import ALL, SHAPES
from tests.pipeline.test_shards_agree import ODD_VIEWS

import viewmill as vm
from viewmill.deltas.arrow import arrow_schema
from viewmill.pipeline.pipeline import Pipeline
from viewmill.testing.oracle import differences

pytestmark = pytest.mark.spark

Row = tuple[Any, ...]

COLUMNS = {
    "t": ", ".join(f"{c.name} {c.type}" for c in ALL.columns),
    "u": "k INT, w BIGINT, name STRING",
    "bids": "t TIMESTAMP, id BIGINT, broker INT, volume BIGINT, price BIGINT",
    "readings": "t TIMESTAMP, k INT, x BIGINT",
}
JOINS = {
    "join": "SELECT t.k, u.name, sum(u.w) AS s, count(*) AS c FROM t JOIN u ON t.k = u.k"
    " GROUP BY t.k, u.name",
    "rows_of_join": "SELECT t.i, u.w FROM t JOIN u ON t.k = u.k WHERE t.i > 0",
    "left_join": "SELECT u.k, u.w, t.i FROM u LEFT JOIN t ON t.k = u.k AND t.i > 2",
    "self_join": "SELECT a.w AS one, b.w AS other FROM u a JOIN u b ON a.k = b.k AND a.w < b.w",
    "triangle": "SELECT count(*) AS n FROM u a, u b, u c WHERE a.k = b.k AND b.w = c.w"
    " AND c.name = a.name",
    "anti": "SELECT k, w FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = u.k)",
    "extremes": "SELECT k, min(w) AS lo, max(name) AS hi, count(DISTINCT w) AS d FROM u GROUP BY k",
    "union_all": "SELECT k FROM t UNION ALL SELECT k FROM u",
    "except": "SELECT k FROM u EXCEPT SELECT k FROM t",
    "top": "SELECT k, sum(w) AS s FROM u GROUP BY k ORDER BY s DESC NULLS LAST, k LIMIT 2",
    "spread": "SELECT stddev_pop(w) AS d FROM u",
    "views_view": "SELECT sum(c) AS total FROM join_",
}
BIDS = {name.replace(" ", "_"): sql for name, (sql, _) in ODD_VIEWS.items()}
WINDOWS = {
    "window_total": "SELECT sum(x) AS s, max(x) AS m FROM readings"
    " [WINDOW 1 MINUTE SLIDE 10 SECONDS]",
    "window_by_key": "SELECT k, avg(x) AS a, count(*) AS n FROM readings"
    " [WINDOW 40 SECONDS SLIDE 15 SECONDS] WHERE x <> 3 GROUP BY k HAVING count(*) > 1",
    "window_in_driver": "SELECT k, stddev(x) AS d, last(x) AS l FROM readings"
    " [WINDOW 1 MINUTE SLIDE 10 SECONDS] GROUP BY k",
}
VIEWS = {
    **WINDOWS,
    **{f"{name}_": each.spark for name, each in SHAPES.items()},
    **{f"{name}_": sql for name, sql in JOINS.items()},
    **{f"bids_{name}": sql for name, sql in BIDS.items()},
}
# What runs in `make test`: each strategy and each way to spread, not each shape of each.
SHORT = (
    "copy_", "sum_decimal_", "avg_", "total_", "having_", "distinct_", "float_key_", "join_",
    "left_join_", "triangle_", "anti_", "extremes_", "top_", "views_view_",
    *(f"bids_{name}" for name in BIDS), *WINDOWS,
)  # fmt: skip


class Data:
    """Rows come and go by chance."""

    def __init__(self) -> None:
        self._chance = random.Random(11)
        self._there: dict[str, list[Row]] = {"t": [], "u": []}
        self._bids = self._seconds = 0

    def batch(self) -> dict[str, list[tuple[Row, int]]]:
        """For each table rows and what is added of each."""
        chance = self._chance
        made: dict[str, list[tuple[Row, int]]] = {}
        for name, row in (("t", self._t), ("u", self._u)):
            there = self._there[name]
            gone = [there.pop(chance.randrange(len(there))) for _ in range(min(5, len(there)))]
            new = [row() for _ in range(20)]
            there += new
            made[name] = [(each, 1) for each in new] + [(each, -1) for each in gone]
        made["bids"] = [(self._bid(), 1) for _ in range(15)]
        made["readings"] = [(self._reading(), 1) for _ in range(15)]
        return made

    def _reading(self) -> Row:
        self._seconds += self._chance.randrange(4)
        late = self._chance.choice([0, 0, 0, 4, 30])
        at = dt.datetime(2024, 1, 1) + dt.timedelta(seconds=max(0, self._seconds - late))
        return (at, self._maybe(self._chance.randrange(3)), self._maybe(self._chance.randrange(9)))

    def _maybe(self, value: Any) -> Any:
        return None if self._chance.random() < 0.2 else value

    def _t(self) -> Row:
        chance = self._chance
        return (
            self._maybe(chance.randrange(4)),
            self._maybe(chance.random() < 0.5),
            chance.randrange(-5, 6),
            self._maybe(chance.randrange(-3, 4) * 10**12),
            self._maybe(chance.choice([0.5, -2.0, 1.25])),
            self._maybe(chance.choice([0.5, -0.0, 0.0, 1e9, float("nan")])),
            self._maybe(Decimal(chance.randrange(-999, 999)).scaleb(-2)),
            Decimal(chance.randrange(-999, 999)).scaleb(-2),
            self._maybe(chance.choice(["a", "", "ß", "zebra"])),
            self._maybe(dt.date(2024, 2, chance.randrange(1, 4))),
            self._maybe(dt.datetime(2024, 2, chance.randrange(1, 4), 23, 59, 59, 999999)),
        )

    def _u(self) -> Row:
        chance = self._chance
        return (
            self._maybe(chance.randrange(5)),
            self._maybe(chance.randrange(4)),
            chance.choice(["x", "y"]),
        )

    def _bid(self) -> Row:
        number, self._bids = self._bids, self._bids + 1
        at = dt.datetime(2024, 1, 1) + dt.timedelta(seconds=7 * number)
        return (at, number, number * 5 % 4, 1 + number * 7 % 9, 1 + number % 13)


class Both:
    """The same tables and views in one mill and in a pipeline over files."""

    def __init__(self, spark: Any, root: Path, placement: str, views: Sequence[str]) -> None:
        self._spark, self._root, self._placement = spark, root, placement
        self._views = views
        self._data, self._files = Data(), 0
        self.mill = vm.connect()
        for name, columns in COLUMNS.items():
            self.mill.sql(f"CREATE TABLE {name} ({columns}) {self._options(name)}")
        for name in views:
            self.mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")

    def _options(self, name: str) -> str:
        if name == "bids":
            return "APPEND ONLY TIMESTAMP BY t PARTITION LENGTH 60"
        if name == "readings":
            return "UNCHECKED TIMESTAMP BY t LATENESS INTERVAL '5' SECONDS"
        return "UNCHECKED"

    def add(self) -> None:
        """One file for each table."""
        for name, rows in self._data.batch().items():
            schema = arrow_schema(self.mill.core.catalog.table(name).table.schema)
            values = zip(*(row for row, _ in rows), strict=True)
            arrays = [pa.array(list(v), f.type) for v, f in zip(values, schema, strict=True)]
            table = pa.Table.from_arrays(arrays, names=schema.names)
            table = table.append_column("m", pa.array([m for _, m in rows], pa.int64()))
            folder = self._root / name
            folder.mkdir(exist_ok=True)
            pq.write_table(table, folder / f"{self._files:03d}.parquet")
            self.mill.apply(name, table, multiplicity="m")
        self._files += 1

    def run(self) -> None:
        """Open the pipeline, take what is new, compare."""
        with self._pipeline() as pipe:
            pipe.run_once()
            for name in self._views:
                found = differences(self.mill[name].rows(), pipe[name].rows())
                assert found == [], f"{name}: {found[:3]}\n{pipe[name].explain()}"
            if self._placement == "shards":
                assert "partials of 5 seconds by key k" in str(pipe["window_by_key"].explain())
                assert "one shard, the driver" in str(pipe["window_in_driver"].explain())

    def _pipeline(self) -> Pipeline:
        pipe: Pipeline = vm.Pipeline(self._spark, self._root / "storage", placement=self._placement)
        for name, columns in COLUMNS.items():
            reader = self._spark.readStream.schema(f"{columns}, m BIGINT")
            frame = reader.option("maxFilesPerTrigger", 1).parquet(str(self._root / name))
            more: dict[str, Any] = {}
            if name == "bids":
                more = {"timestamp": "t", "checked": True,
                        "options": "APPEND ONLY PARTITION LENGTH 60"}  # fmt: skip
            if name == "readings":
                more = {"timestamp": "t", "options": "LATENESS INTERVAL '5' SECONDS"}
            pipe.source(name, frame, multiplicity="m", **more)
        for name in self._views:
            pipe.view(name, VIEWS[name])
        return pipe


@pytest.mark.parametrize("placement", ["driver", "shards"])
def test_every_strategy_shows_what_it_shows_in_process(spark, tmp_path, placement):
    both = Both(spark, tmp_path, placement, SHORT)
    for files in (2, 1):
        for _ in range(files):
            both.add()
        both.run()


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["driver", "shards"])
def test_every_shape_shows_what_it_shows_in_process(spark, tmp_path, placement):
    both = Both(spark, tmp_path, placement, [*VIEWS])
    for files in (3, 1, 4, 2):
        for _ in range(files):
            both.add()
        both.run()

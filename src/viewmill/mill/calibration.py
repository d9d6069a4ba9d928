"""Measure the speed of the engine on this machine, once; it takes a few milliseconds.

takes  the engine of a mill
gives  `EngineSpeed`: the fixed cost of a query and its cost per row; cached beside the kernels

The speed of triggers is not measured here: refreshes measure it.
"""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import Aggregate, Relation, Scan
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT
from viewmill.deltas.arrow import encode_columns
from viewmill.deltas.dictionary import Dictionary
from viewmill.engines.engine import Engine

_SMALL_SAMPLE, _LARGE_SAMPLE = 1_000, 100_000  # rows
_REPEATS = 3


@dataclass(frozen=True)
class EngineSpeed:
    """The cost of a bulk query, including encoding its result."""

    start_us: float
    row_us: float

    def query_us(self, rows: int) -> float:
        """The time of one query that reads so many rows."""
        return self.start_us + self.row_us * rows


def engine_speed(engine: Engine) -> EngineSpeed:
    """The cached speed of the engine on this machine, or a new measurement."""
    name = type(engine).__name__
    path = _path()
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return EngineSpeed(**known[f"{name} on {platform.node()}"])
    except (OSError, ValueError, KeyError, TypeError):
        speed = measure(engine)
        _keep(path, f"{name} on {platform.node()}", speed)
        return speed


def measure(engine: Engine) -> EngineSpeed:
    """Time a group-by over a small and a large sample, with two rows per key."""
    few, many = (
        min(_time(engine, size) for _ in range(_REPEATS)) for size in (_SMALL_SAMPLE, _LARGE_SAMPLE)
    )
    row_us = max(many - few, 1.0) / (_LARGE_SAMPLE - _SMALL_SAMPLE)
    return EngineSpeed(round(max(few - row_us * _SMALL_SAMPLE, 1.0), 1), round(row_us, 5))


def _time(engine: Engine, size: int) -> float:
    table = pa.table({"k": np.arange(size) % (size // 2), "n": np.arange(size)})
    query = _query()
    start = time.perf_counter()
    encode_columns(query.schema, engine.run(query, {"measured": table}), Dictionary())
    return (time.perf_counter() - start) * 1e6


def _query() -> Relation:
    schema = Schema((Field("k", BIGINT), Field("n", BIGINT)))
    k, n = (Column(each.name, each.type, True) for each in schema)
    total = AggregateCall("sum", (n,), BIGINT, True)
    return Aggregate(Scan("measured", "measured", schema), (("k", k),), (("total", total),))


def _path() -> Path:
    given = os.environ.get("VIEWMILL_CACHE")
    user = os.environ.get("XDG_CACHE_HOME")
    base = Path(given) if given else (Path(user) if user else Path.home() / ".cache") / "viewmill"
    return base / "calibration.json"


def _keep(path: Path, name: str, speed: EngineSpeed) -> None:
    """Cache a measurement; if the cache cannot be written, the next run measures again."""
    try:
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({**known, name: asdict(speed)}), encoding="utf-8")
        temporary.replace(path)
    except (OSError, ValueError):
        return

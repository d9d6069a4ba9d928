"""How fast this machine's engine is: measured once, kept beside the kernels, a few milliseconds.

takes  the engine of a mill
gives  `EngineSpeed`: what a query costs at once, and what a row that it reads costs

The speed of triggers need not be measured apart: every refresh of a view tells it.
"""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import Aggregate, Relation, Scan
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT
from viewmill.deltas.arrow import encode_columns
from viewmill.deltas.dictionary import Dictionary

_SMALL_SAMPLE, _LARGE_SAMPLE = 1_000, 100_000  # rows
_REPEATS = 3


@dataclass(frozen=True)
class EngineSpeed:
    """What a bulk query costs, its rows made words."""

    start_us: float
    row_us: float

    def query_us(self, rows: int) -> float:
        """The time of one query that reads so many rows."""
        return self.start_us + self.row_us * rows


def engine_speed(engine: Any) -> EngineSpeed:
    """The speed as it was measured on this machine before, or as it is measured now."""
    name = type(engine).__name__
    path = _path()
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return EngineSpeed(**known[f"{name} on {platform.node()}"])
    except (OSError, ValueError, KeyError, TypeError):
        speed = measure(engine)
        _keep(path, f"{name} on {platform.node()}", speed)
        return speed


def measure(engine: Any) -> EngineSpeed:
    """Group few and many rows by a key that half of them share."""
    few, many = (
        min(_time(engine, size) for _ in range(_REPEATS)) for size in (_SMALL_SAMPLE, _LARGE_SAMPLE)
    )
    row_us = max(many - few, 1.0) / (_LARGE_SAMPLE - _SMALL_SAMPLE)
    return EngineSpeed(round(max(few - row_us * _SMALL_SAMPLE, 1.0), 1), round(row_us, 5))


def _time(engine: Any, size: int) -> float:
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
    """Note what was measured; where nothing can be written it is measured again next time."""
    try:
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({**known, name: asdict(speed)}), encoding="utf-8")
        temporary.replace(path)
    except (OSError, ValueError):
        return

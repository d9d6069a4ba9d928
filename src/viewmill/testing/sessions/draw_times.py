"""Draw views that group and join by time: sessions, buckets, windows over anything, ASOF joins.

Each reads a query with the columns k_, x_ and t_, which DuckDB answers; Python does the rest
(`by_time.py`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from viewmill.testing.sessions.templates import Drawn, written
from viewmill.testing.sessions.world import Table

_AGGREGATES = "COUNT(*) AS n, SUM(k_) AS t, MIN(x_) AS l, MAX(x_) AS h"
_COLUMNS = "{a.k} AS k_, {%s.x} AS x_, {a.%s} AS t_"


def draw_timed(rng: random.Random, plain: Sequence[Table], streams: Sequence[Table]) -> Drawn:
    """A view over streams, or over tables with a column of moments."""
    source, definition, is_stream = _source(rng, plain, streams)
    kinds = [_sessions, _calls, _groups, _gaps]
    if is_stream:
        kinds += [_last, _last]
    kind = rng.choice([*kinds, None, None])
    if kind is None:
        return _asof(rng, plain, streams, source, definition)
    query, then = kind(rng, source)
    if is_stream and kind in (_sessions, _groups) and rng.random() < 0.4:
        query, then = query + " EMIT FINAL", then | {"final": True}
    return query, {"reads": definition["reads"], "rows": [definition["duckdb"]], "then": then}


def _source(
    rng: random.Random, plain: Sequence[Table], streams: Sequence[Table]
) -> tuple[str, dict[str, Any], bool]:
    table = rng.choice([*plain, *streams, *streams])
    time = "at" if table.stream is None else "t"
    other = rng.choice(plain)
    texts = [
        "SELECT " + _COLUMNS % ("a", time) + " FROM {a} a",
        "SELECT " + _COLUMNS % ("a", time) + " FROM {a} a WHERE {a.k} > 0 OR {a.s} = 'a'",
        "SELECT " + _COLUMNS % ("b", time) + " FROM {a} a JOIN {b} b ON {a.k} = {b.k}",
    ]
    text = rng.choice(texts)
    over = {"a": table} | ({"b": other} if "{b" in text else {})
    query, definition = written(rng, text, over)
    return f"({query})", definition, table.stream is not None


def _sessions(rng: random.Random, source: str) -> Drawn:
    gap = rng.choice([1, 2, 5])
    then = {"what": "sessions", "gap": gap}
    shown = f"session_window.start AS w, session_window.end AS z, {_AGGREGATES}"
    call = f"session_window(t_, '{gap} seconds')"
    return f"SELECT k_, {shown} FROM {source} q GROUP BY k_, {call}", then


def _calls(rng: random.Random, source: str) -> Drawn:
    size, slide = rng.choice([(6, 2), (6, 3), (10, 5)])
    at, gap = "DESCRIPTOR(t_)", rng.choice([1, 3])
    call, then = rng.choice([
        (f"TUMBLE({source}, {at}, '{size} seconds')",
         {"what": "windows", "range": size, "slide": size}),
        (f"HOP({source}, {at}, '{slide} seconds', '{size} seconds')",
         {"what": "windows", "range": size, "slide": slide}),
        (f"CUMULATE({source}, {at}, '{slide} seconds', '{size} seconds')",
         {"what": "cumulate", "range": size, "slide": slide}),
        (f"SESSION({source} PARTITION BY k_, {at}, '{gap} seconds')",
         {"what": "sessions", "gap": gap}),
    ])  # fmt: skip
    shown = f"SELECT k_, window_start AS w, window_end AS z, {_AGGREGATES}"
    return f"{shown} FROM TABLE({call}) GROUP BY k_, window_start, window_end", then


def _groups(rng: random.Random, source: str) -> Drawn:
    size, slide = rng.choice([(7, 3), (4, 4), (10, 5)])
    then = {"what": "windows", "range": size, "slide": slide}
    shown = f"SELECT k_, window.start AS w, window.end AS z, {_AGGREGATES}"
    return (
        f"{shown} FROM {source} q GROUP BY k_, window(t_, '{size} seconds', '{slide} seconds')",
        (then),
    )


def _gaps(rng: random.Random, source: str) -> Drawn:
    size = rng.choice([3, 5])
    query = (
        f"SELECT k_, time_bucket_gapfill(INTERVAL {size} SECONDS, t_) AS w, COUNT(*) AS n,"
        f" locf(COUNT(*)) AS l, MIN(x_) AS m, interpolate(AVG(k_)) AS i"
        f" FROM {source} q GROUP BY 1, 2"
    )
    return query, {"what": "gaps", "size": size}


def _last(rng: random.Random, source: str) -> Drawn:
    size, slide = rng.choice([(7, 3), (10, 5), (4, 4), (60, 7)])
    then = {"what": "last", "range": size, "slide": slide}
    window = f"FROM {source} q [WINDOW {size} SECONDS SLIDE {slide} SECONDS ON t_]"
    if rng.random() < 0.5:
        return f"SELECT k_, x_, t_ {window}", then | {"by_key": False}
    return f"SELECT k_, {_AGGREGATES} {window} GROUP BY k_", then | {"by_key": True}


def _asof(
    rng: random.Random,
    plain: Sequence[Table],
    streams: Sequence[Table],
    source: str,
    definition: dict[str, Any],
) -> Drawn:
    table = rng.choice([*plain, *streams])
    time = "at" if table.stream is None else "t"
    sign, word = rng.choice([">=", ">", "<=", "<"]), rng.choice(["", "LEFT "])
    grouped = f"SELECT {{b.k}} AS j, {{b.{time}}} AS at, MAX({{b.x}}) AS y FROM {{b}} b"
    if rng.random() < 0.3:  # many rows of one moment that look alike
        grouped = f"SELECT {{b.k}} AS j, {{b.{time}}} AS at, 1 AS y FROM {{b}} b"
    else:
        grouped += f" GROUP BY {{b.k}}, {{b.{time}}}"
    right, other = written(rng, grouped, {"b": table})
    query = (
        f"SELECT p.k_, p.x_, p.t_, r.at, r.y FROM {source} p {word}ASOF JOIN ({right}) r"
        f" MATCH_CONDITION (p.t_ {sign} r.at) ON p.k_ = r.j"
    )
    return query, {
        "reads": sorted({*definition["reads"], *other["reads"]}),
        "rows": [definition["duckdb"], other["duckdb"]],
        "then": {"what": "asof", "sign": sign, "is_left": bool(word)},
    }

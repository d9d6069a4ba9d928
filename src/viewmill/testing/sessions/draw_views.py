"""Draw definitions of views: for every strategy a few shapes, written for Spark and for DuckDB.

What a shape is stands in `templates.py`; shapes that came later, in `draw_wide.py` and
`draw_times.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from viewmill.testing.sessions.draw_streams import draw_parts, draw_pattern
from viewmill.testing.sessions.draw_times import draw_timed
from viewmill.testing.sessions.draw_wide import draw_wide
from viewmill.testing.sessions.names import quoted, respelt
from viewmill.testing.sessions.templates import Drawn, written
from viewmill.testing.sessions.world import Table, World


def draw_view(rng: random.Random, world: World, *, over_windows: bool = True) -> Drawn | None:
    """A query over tables and views of the world, None if the world has not what it needs."""
    with suppress(ValueError):  # a table has not all columns
        return _draw_view(rng, world, over_windows=over_windows)
    return None


def _draw_view(rng: random.Random, world: World, *, over_windows: bool) -> Drawn | None:
    plain = [table for table in world.tables.values() if table.stream is None]
    streams = [table for table in world.tables.values() if table.stream is not None]
    choices: list[Callable[[], Drawn]] = []
    if plain:
        choices += [lambda: _one_table(rng, plain), lambda: _two_tables(rng, plain)] * 3
        choices += [lambda: _three_tables(rng, plain), lambda: _nested(rng, plain)]
    if streams:
        choices += [lambda: _window(rng, streams), lambda: _one_table(rng, streams)]
        choices += [lambda: _window_groups(rng, streams)]
    parted = [table for table in streams if table.stream is not None and table.stream.part]
    if parted:
        choices += [lambda: draw_parts(rng, parted, plain), lambda: draw_pattern(rng, parted)] * 2
    lower = _readable_views(world)
    if lower:
        choices += [lambda: _over_view(rng, lower)]
    computed = [view for view in world.views.values() if _is_computed(view)]
    if computed and over_windows:
        choices += [lambda: _above(rng, computed)]
    if world.is_wide and plain and rng.random() < 0.8:
        choices = [lambda: draw_wide(rng, plain), lambda: draw_timed(rng, plain, streams)]
    return rng.choice(choices)() if choices else None


# Shapes over tables without time.

_GROUP_KEYS = ("k", "s", "b", "w", "d")
_AGGREGATES = (
    "COUNT(*) AS n", "SUM({a.x}) AS sx", "MIN({a.x}) AS lx", "MAX({a.x}) AS hx",
    "AVG({a.x}) AS ax", "SUM({a.c}) AS sc", "MAX({a.c}) AS hc", "{sum:a.d} AS sd",
    "{avg:a.d} AS ad", "MIN({a.d}) AS ld", "MAX({a.d}) AS hd", "MIN({a.s}) AS ls",
    "MAX({a.s}) AS hs", "COUNT({a.x}) AS cx", "COUNT(DISTINCT {a.x}) AS dx",
    "SUM({a.x}) FILTER (WHERE {a.k} > 0) AS fx", "COUNT(DISTINCT {a.s}) AS ds",
    "{decimals:a.w} AS sw", "MIN({a.w}) AS lw", "MAX({a.w}) AS hw", "COUNT(DISTINCT {a.w}) AS dw",
)  # fmt: skip
_CONDITIONS = (
    "{a.x} > 0", "{a.k} IS NOT NULL", "{a.k} IN (0, 2)", "{a.x} <> 1 OR {a.x} IS NULL",
    "{a.s} <> 'a'", "{a.c} < 2", "NOT ({a.k} = 1)", "{a.k} BETWEEN 0 AND 1", "{a.d} >= 0",
    "{a.b} IS NOT TRUE", "{a.w} > 1",
)  # fmt: skip


def _one_table(rng: random.Random, tables: Sequence[Table]) -> Drawn:
    over = {"a": rng.choice(tables)}
    shapes = [_group, _group, _group, _distinct, _top, _ranked, _listed, _sets]
    return written(rng, rng.choice(shapes)(rng), over)


def _where(rng: random.Random, chance: float = 0.5) -> str:
    return f" WHERE {rng.choice(_CONDITIONS)}" if rng.random() < chance else ""


def _group(rng: random.Random) -> str:
    keys = rng.sample(_GROUP_KEYS, rng.choice([0, 1, 1, 2]))
    shown = rng.sample(_AGGREGATES, rng.randint(1, 4))
    having = rng.choice(["", "", " HAVING COUNT(*) > 1", " HAVING MAX({a.x}) > 0"])
    by = ", ".join(f"{{a.{key}}}" for key in keys)
    named = [f"{{a.{key}}} AS {key}_" for key in keys]
    text = f"SELECT {', '.join([*named, *shown])} FROM {{a}} a{_where(rng)}"
    return text + (f" GROUP BY {by}{having}" if keys else "")


def _distinct(rng: random.Random) -> str:
    return f"SELECT DISTINCT {{a.k}} AS k_, {{a.s}} AS s_ FROM {{a}} a{_where(rng)}"


_ALL = "{a.k} AS k_, {a.x} AS x_, {a.c} AS c_, {a.s} AS s_"
_ALL_ORDER = "{a.k}, {a.c}, {a.s}"


def _top(rng: random.Random) -> str:
    order = rng.choice(["{a.x} DESC", "{a.x}", "{a.c} DESC, {a.x}"])
    rest = "{a.k}, {a.x}, {a.c}, {a.s}"
    cut = f"ORDER BY {order}, {rest} LIMIT {rng.randint(1, 4)}"
    return f"SELECT {_ALL} FROM {{a}} a{_where(rng)} {cut}"


def _ranked(rng: random.Random) -> str:
    call = rng.choice([
        "ROW_NUMBER() OVER (PARTITION BY {a.k} ORDER BY {a.x}, {a.c}, {a.s})",
        "RANK() OVER (PARTITION BY {a.k} ORDER BY {a.x})",
        "SUM({a.k}) OVER (PARTITION BY {a.s})",
        "COUNT(*) OVER (PARTITION BY {a.k} ORDER BY {a.x})",
    ])  # fmt: skip
    return f"SELECT {_ALL}, {call} AS r FROM {{a}} a{_where(rng)}"


def _listed(rng: random.Random) -> str:
    shown = rng.choice([
        "{a.k} + 1 AS k_, {a.s} AS s_",
        "CASE WHEN {a.x} > 0 THEN {a.k} ELSE -1 END AS e",
        "COALESCE({a.x}, 7) AS e, {a.c} * 2 AS c_, {a.d} AS d_",
        "{a.b} AS b_, {a.k} AS k_, {a.x} AS x_",
        "{a.w} AS w_, {a.d} AS d_",
    ])  # fmt: skip
    return f"SELECT {shown} FROM {{a}} a{_where(rng, 0.8)}"


def _sets(rng: random.Random) -> str:
    word = rng.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL"])
    one, two = rng.sample(_CONDITIONS, 2)
    shown = "SELECT {a.k} AS k_, {a.s} AS s_ FROM {a} a WHERE "
    return f"{shown}{one} {word} {shown}{two}"


_PAIRS = (
    "SELECT {a.k} AS k_, COUNT(*) AS n, SUM(CAST({a.k} AS BIGINT) * {b.k}) AS p"
    " FROM @join @where GROUP BY {a.k}",
    "SELECT COUNT(*) AS n, MIN({a.x}) AS l, MAX({b.x}) AS h FROM @join",
    "SELECT {b.s} AS s_, {sum:a.d} AS sd FROM @join GROUP BY {b.s}",
    "SELECT {a.k} AS k_, {a.x} AS x_, {b.s} AS s_ FROM @join @where",
    "SELECT {a.k} AS k_, {a.x} AS x_, {b.x} AS y_ FROM {a} a LEFT JOIN {b} b ON @on",
    "SELECT {a.s} AS s_, {b.s} AS z_ FROM {a} a FULL JOIN {b} b ON @on",
    "SELECT {a.k} AS k_, {a.s} AS s_ FROM {a} a WHERE EXISTS (SELECT 1 FROM {b} b WHERE @on)",
    "SELECT {a.k} AS k_, {a.s} AS s_ FROM {a} a WHERE NOT EXISTS"
    " (SELECT 1 FROM {b} b WHERE {a.k} = {b.k})",
    "SELECT {a.k} AS k_, {a.x} AS x_ FROM {a} a WHERE {a.x} IN (SELECT {b.x} FROM {b} b)",
    "SELECT {a.k} AS k_ FROM {a} a WHERE {a.x} > (SELECT AVG({b.x}) FROM {b} b)",
    "SELECT {a.k} AS k_, SUM({b.c}) AS c_ FROM @join GROUP BY {a.k} HAVING COUNT(*) > 1",
)


def _two_tables(rng: random.Random, tables: Sequence[Table]) -> Drawn:
    over = {"a": rng.choice(tables), "b": rng.choice(tables)}
    on = "{a.k} = {b.k}" + rng.choice(["", "", " AND {a.s} = {b.s}", " AND {a.k} > {b.x}"])
    shape = rng.choice(_PAIRS).replace("@join", "{a} a JOIN {b} b ON @on")
    return written(rng, shape.replace("@on", on).replace("@where", _where(rng)), over)


def _three_tables(rng: random.Random, tables: Sequence[Table]) -> Drawn:
    over = {"a": rng.choice(tables), "b": rng.choice(tables), "c": rng.choice(tables)}
    shapes = [
        "SELECT {a.s} AS s_, COUNT(*) AS n, SUM({b.k}) AS t FROM {a} a JOIN {b} b ON {a.k} = {b.k}"
        " JOIN {c} c ON {b.s} = {c.s} GROUP BY {a.s}",
        "SELECT COUNT(*) AS n, SUM(CAST({a.k} AS BIGINT) * {c.k}) AS t FROM {a} a, {b} b, {c} c"
        " WHERE {a.k} = {b.k} AND {b.k} = {c.k}",
        "SELECT {a.k} AS k_, {b.s} AS s_, {c.k} AS j_ FROM {a} a JOIN {b} b ON {a.k} = {b.k}"
        " LEFT JOIN {c} c ON {a.s} = {c.s}",
        "SELECT COUNT(*) AS n, MAX({c.c}) AS h FROM {a} a JOIN {b} b ON {a.k} = {b.k}"
        " JOIN {c} c ON {a.k} = {c.k} AND {b.s} = {c.s}",
    ]
    return written(rng, rng.choice(shapes), over)


def _nested(rng: random.Random, tables: Sequence[Table]) -> Drawn:
    over = {"a": rng.choice(tables), "b": rng.choice(tables)}
    over["q"] = rng.choice([over["b"], over["a"]])
    compared = rng.choice(["<=", "<", ">=", ">"])
    inner = rng.choice(["COUNT(*)", "SUM({q.k})"])
    value = rng.choice(["COUNT(*) AS n", "SUM({a.k}) AS t", "COUNT(*) AS n, SUM({a.k}) AS t"])
    total = inner.replace("{q.", "{b.")
    shapes = [
        f"SELECT {value} FROM {{a}} a WHERE 2 * (SELECT {total} FROM {{b}} b) >"
        f" 3 * (SELECT {inner} FROM {{q}} q WHERE {{q.x}} {compared} {{a.x}})",
        f"SELECT {{a.k}} AS k_, {value} FROM {{a}} a WHERE"
        f" (SELECT {inner} FROM {{q}} q WHERE {{q.k}} = {{a.k}}) > 1 GROUP BY {{a.k}}",
        f"SELECT {value} FROM {{a}} a WHERE {{a.k}} > (SELECT 0.5 * {inner} FROM {{q}} q"
        " WHERE {q.s} = {a.s})",
    ]
    return written(rng, rng.choice(shapes), over)


# Windows, and views over views.

_RANGES = ((7, 3), (10, 5), (4, 4), (3, 5), (6, 1), (60, 7))


def _window(rng: random.Random, streams: Sequence[Table]) -> Drawn:
    table = rng.choice(streams)
    size, slide = rng.choice(_RANGES)
    by_key = rng.random() < 0.6
    k, x = (quoted(respelt(rng, table.column(role).name)) for role in ("k", "x"))
    shown = f"COUNT(*) AS n, SUM({x}) AS t, MIN({x}) AS l, MAX({x}) AS h"
    query = (
        f"SELECT {k + ' AS k_, ' if by_key else ''}{shown} FROM {quoted(respelt(rng, table.name))}"
        f" [WINDOW {size} SECONDS SLIDE {slide} SECONDS]" + (f" GROUP BY {k}" if by_key else "")
    )
    window = {"range": size, "slide": slide, "by_key": by_key}
    return query, {"reads": [table.name], "window": window}


def _window_groups(rng: random.Random, streams: Sequence[Table]) -> Drawn:
    table = rng.choice(streams)
    size, slide = rng.choice([each for each in _RANGES if each[0] >= each[1]])
    t, x = (quoted(respelt(rng, table.column(role).name)) for role in ("t", "x"))
    query = (
        f"SELECT window.start AS w, COUNT(*) AS n, SUM({x}) AS t, MIN({x}) AS l, MAX({x}) AS h"
        f" FROM {quoted(respelt(rng, table.name))}"
        f" GROUP BY window({t}, '{size} seconds', '{slide} seconds')"
    )
    window = {"range": size, "slide": slide, "is_group": True}
    return query, {"reads": [table.name], "window": window}


def _readable_views(world: World) -> list[Any]:
    return [
        view
        for view in world.views.values()
        if not view.is_deferred
        and "duckdb" in view.definition
        and "finish" not in view.definition
        and "LIMIT" not in view.definition["duckdb"]
        and all(name in world.tables for name in view.reads)
    ]


def _is_computed(view: Any) -> bool:
    """Whether Python computes a view, and it is never behind."""
    kinds = ("window", "parts", "pattern", "then")
    return not view.is_deferred and any(kind in view.definition for kind in kinds)


def _above(rng: random.Random, views: Sequence[Any]) -> Drawn:
    view = rng.choice(views)
    what, shown = rng.choice([("count", "COUNT(*) AS n"), ("all", "*")])
    query = f"SELECT {shown} FROM {quoted(respelt(rng, view.name))} v"
    return query, {"reads": [view.name], "above": what}


def _over_view(rng: random.Random, views: Sequence[Any]) -> Drawn:
    view = rng.choice(views)
    name, alias = quoted(respelt(rng, view.name)), view.definition["alias"]
    text = rng.choice([
        "SELECT COUNT(*) AS n FROM {v} v",
        "SELECT * FROM {v} v",
        "SELECT DISTINCT * FROM {v} v",
        "SELECT COUNT(*) AS n FROM {v} v JOIN {v} w ON 1 = 1",
    ])  # fmt: skip
    definition = {"reads": [view.name], "duckdb": text.replace("{v}", alias)}
    return text.replace("{v}", name), definition

"""Draw views that follow links, take lists apart, watch the clock, or keep moments over joins.

The shapes need the columns of a wide world: nodes u and v, a list l, a struct o, a map m and
a moment `at`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from viewmill.testing.sessions.moments import MOMENTS
from viewmill.testing.sessions.templates import Drawn, written
from viewmill.testing.sessions.world import Table

_SOME = ("", " WHERE {a.k} > 0", " WHERE {a.s} <> 'a'", " WHERE {a.u} < 3", " WHERE {a.x} IS NULL")


def draw_wide(rng: random.Random, tables: Sequence[Table]) -> Drawn:
    """A view of one of these kinds over tables without time."""
    over = {name: rng.choice(tables) for name in "abc"}
    draws: list[Callable[[random.Random], str]] = [_listed, _nested, _passing, _called]
    draw = rng.choice([*draws, _recursive, _recursive, _recursive, None])
    if draw is None:
        return _moments(rng, over)
    return _written(rng, draw(rng), over)


def _written(rng: random.Random, text: str, over: dict[str, Table]) -> Drawn:
    used = {name: table for name, table in over.items() if "{" + name in text}
    return written(rng, text, used)


def _either(rng: random.Random, *texts: str) -> str:
    return rng.choice(texts)


# WITH RECURSIVE.

_STARTS = ("SELECT {a.u}, {a.v} FROM {a} a", "SELECT {a.u} AS i, {a.u} AS j FROM {a} a")
_SHOWN = (
    "SELECT * FROM q",
    "SELECT q.i, COUNT(*) AS n FROM q GROUP BY q.i",
    "SELECT DISTINCT q.j FROM q",
    "SELECT {c.k} AS k_, q.i, q.j FROM {c} c JOIN q ON {c.u} = q.j AND {c.v} = q.i",
    "SELECT {c.u} AS u_, {c.k} AS k_ FROM {c} c WHERE NOT EXISTS"
    " (SELECT 1 FROM q WHERE q.j = {c.v})",
    "SELECT {c.u} AS u_, q.j FROM {c} c LEFT JOIN q ON {c.v} = q.i AND {c.k} > 0",
    "SELECT x.i, y.j FROM q x JOIN q y ON x.j = y.i AND x.i < 3",
    "SELECT MIN(q.i) AS l, MAX(q.j) AS h, COUNT(*) AS n FROM q",
)  # fmt: skip
_STEPS = (
    "SELECT q.i, {b.v} FROM q JOIN {b} b ON q.j = {b.u}",
    "SELECT q.i, {b.v} FROM q JOIN {b} b ON q.j = {b.u} AND {b.k} > 0",
    "SELECT q.j, {b.v} FROM q, {b} b WHERE q.j = {b.u} AND q.i <> {b.v}",
    "SELECT {b.u}, q.j FROM {b} b JOIN q ON {b.v} = q.i",
    "SELECT {b.v}, {c.v} FROM q JOIN {b} b ON q.i = {b.u} JOIN {c} c ON q.j = {c.u}",
    "SELECT q.i, {b.v} FROM q JOIN {b} b ON q.j = {b.u}"
    " <<LEFT ANTI||ANTI>> JOIN {c} c ON q.j = {c.v}",
    "SELECT q.i, {b.v} FROM q JOIN {b} b ON q.j = {b.u} <<LEFT SEMI||SEMI>> JOIN {c} c"
    " ON q.j = {c.v}",
    "SELECT q.i, {b.v} FROM q LEFT JOIN {b} b ON q.j = {b.u}",
    "SELECT (q.i + 5) % 12, {b.v} FROM q JOIN {b} b ON q.j = {b.u}",
)  # fmt: skip


def _recursive(rng: random.Random) -> str:
    start, shown = rng.choice(_STARTS) + rng.choice(_SOME), rng.choice(_SHOWN)
    step = rng.choice(_STEPS)
    if rng.random() < 0.7:
        made = f"q(i, j) AS ({start} UNION {step})"
        if rng.random() < 0.15:
            made = f"q(i, j) AS (({start}) UNION ({step}))"
        return f"WITH RECURSIVE {made} {shown}"
    start = start.replace(" FROM {a}", ", 1 AS d FROM {a}", 1)
    step = step.replace(" FROM ", ", q.d + 1 FROM ", 1)
    word, most = rng.choice([("UNION ALL", 2), ("UNION ALL", 3), ("UNION", 5)])
    if " WHERE " in step:
        step += f" AND q.d < {most}"
    else:
        step += f" WHERE q.d < {most}"
    return f"WITH RECURSIVE q(i, j, d) AS ({start} {word} {step}) {shown}"


# Lists, structs and maps.

_LIST = "<<LATERAL VIEW explode({a.l}) y AS e||, LATERAL (SELECT unnest({a.l}) AS e) y>>"
_OUTER = (
    "<<LATERAL VIEW OUTER explode({a.l}) y AS e||"
    " LEFT JOIN LATERAL (SELECT unnest({a.l}) AS e) y ON true>>"
)
_PLACES = (
    "<<LATERAL VIEW posexplode({a.l}) y AS p, e||, LATERAL"
    " (SELECT CAST(generate_subscripts({a.l}, 1) - 1 AS INT) AS p, unnest({a.l}) AS e) y>>"
)
_MAP = (
    "<<LATERAL VIEW explode({a.m}) y AS p, e||, LATERAL"
    " (SELECT unnest(map_keys({a.m})) AS p, unnest(map_values({a.m})) AS e) y>>"
)
_PAIR = (
    "<<LATERAL VIEW explode(array({a.u}, {a.v})) y AS e||,"
    " LATERAL (SELECT unnest([{a.u}, {a.v}]) AS e) y>>"
)


def _listed(rng: random.Random) -> str:
    source = rng.choice([_LIST, _OUTER, _PLACES, _MAP, _PAIR])
    has_place = " p," in source or " AS p" in source
    shown = rng.choice([
        "SELECT {a.k} AS k_, y.e FROM {a} a @y",
        "SELECT y.e, COUNT(*) AS n, SUM({a.k}) AS t, MAX({a.x}) AS h FROM {a} a @y GROUP BY y.e",
        "SELECT DISTINCT y.e FROM {a} a @y WHERE y.e > 0",
        "SELECT z.e, {b.s} AS s_ FROM (SELECT y.e, {a.k} AS k_ FROM {a} a @y) z"
        " JOIN {b} b ON z.e = {b.k}",
        "SELECT z.e, {b.s} AS s_ FROM (SELECT y.e, {a.k} AS k_ FROM {a} a @y) z"
        " LEFT JOIN {b} b ON z.e = {b.u} AND z.k_ = {b.k}",
        "SELECT {b.u} AS u_, {b.k} AS k_ FROM {b} b WHERE {b.u} IN"
        " (SELECT y.e FROM {a} a @y WHERE y.e IS NOT NULL)",
        "SELECT y.e, {a.s} AS s_ FROM {a} a @y UNION ALL SELECT {b.u}, {b.s} FROM {b} b",
        "SELECT y.e, ROW_NUMBER() OVER (PARTITION BY y.e ORDER BY {a.k}, {a.x}) AS r"
        " FROM {a} a @y",
    ])  # fmt: skip
    if has_place and rng.random() < 0.5:
        shown = shown.replace("SELECT {a.k} AS k_, y.e", "SELECT y.p, {a.k} AS k_, y.e")
    return shown.replace("@y", source)


def _nested(rng: random.Random) -> str:
    pair = "<<named_struct('p', {#.k}, 'q', {#.s})||struct_pack(p := {#.k}, q := {#.s})>>"
    odd = "<<named_struct('p', {#.d}, 'q', {#.c})||struct_pack(p := {#.d}, q := {#.c})>>"
    key = rng.choice([pair, odd, "{#.o}"])
    one, other = key.replace("#", "a"), key.replace("#", "b")
    return _either(
        rng,
        f"SELECT {one} AS g, COUNT(*) AS n, SUM({{a.k}}) AS t FROM {{a}} a GROUP BY {one}",
        f"SELECT DISTINCT {one} AS g, {{a.k}} AS k_ FROM {{a}} a",
        "SELECT {a.o}.p AS p, MAX({a.o}.q) AS h, COUNT(*) AS n FROM {a} a GROUP BY {a.o}.p",
        "SELECT {a.l} AS g, COUNT(*) AS n, MIN({a.x}) AS t FROM {a} a GROUP BY {a.l}",
        "SELECT {a.l} AS l_, {a.o} AS o_, {a.m} AS m_, {a.k} AS k_ FROM {a} a WHERE {a.u} < 9",
        "SELECT {a.k} AS k_, {a.m}['a'] AS e, COUNT(*) AS n FROM {a} a GROUP BY {a.k}, {a.m}['a']",
        f"SELECT {{a.k}} AS k_, {{b.x}} AS x_ FROM {{a}} a JOIN {{b}} b ON {one} = {other}",
        "SELECT {a.k} AS k_, {b.o} AS o_ FROM {a} a LEFT JOIN {b} b ON {a.u} = {b.v}",
        "SELECT {a.l} AS l_, {a.s} AS s_ FROM {a} a UNION SELECT {b.l}, {b.s} FROM {b} b",
        "SELECT {a.l} AS l_, {a.k} AS k_ FROM {a} a EXCEPT SELECT {b.l}, {b.k} FROM {b} b",
        "SELECT {a.k} AS k_, COUNT(DISTINCT {a.o}) AS n FROM {a} a GROUP BY {a.k}",
    )


# The clock.

_NOW = "<<now()||@now>>"


def _passing(rng: random.Random) -> str:
    length = rng.choice([1, 3, 10])
    test = rng.choice([
        f"{{#.at}} > {_NOW} - INTERVAL {length} SECOND",
        f"{{#.at}} <= {_NOW}",
        f"{{#.at}} BETWEEN {_NOW} - INTERVAL {length} SECOND AND {_NOW} + INTERVAL 2 SECOND",
        f"{{#.at}} + INTERVAL {length} SECOND >= {_NOW}",
        f"{_NOW} > {{#.at}} + INTERVAL {length} SECOND",
    ])  # fmt: skip
    one, other = test.replace("#", "a"), test.replace("#", "b")
    return _either(
        rng,
        f"SELECT {{a.k}} AS k_, {{a.at}} AS t_ FROM {{a}} a WHERE {one}",
        f"SELECT {{a.k}} AS k_, COUNT(*) AS n, MIN({{a.x}}) AS l, MAX({{a.at}}) AS h FROM {{a}} a"
        f" WHERE {one} GROUP BY {{a.k}}",
        f"SELECT COUNT(*) AS n, SUM({{a.k}}) AS t, COUNT(DISTINCT {{a.s}}) AS d FROM {{a}} a"
        f" WHERE {one}",
        f"SELECT {{a.k}} AS k_, {{b.s}} AS s_ FROM {{a}} a JOIN {{b}} b ON {{a.k}} = {{b.k}}"
        f" AND {other} WHERE {one}",
        f"SELECT {{a.k}} AS k_, {{b.s}} AS s_ FROM {{a}} a LEFT JOIN {{b}} b"
        f" ON {{a.k}} = {{b.k}} AND {other}",
        f"SELECT {{a.k}} AS k_, {{a.s}} AS s_ FROM {{a}} a WHERE NOT EXISTS"
        f" (SELECT 1 FROM {{b}} b WHERE {{b.k}} = {{a.k}} AND {other})",
        f"SELECT {{a.k}} AS k_, MAX({{a.at}}) AS h FROM {{a}} a GROUP BY {{a.k}}"
        f" HAVING MAX({{a.at}}) > {_NOW} - INTERVAL {length} SECOND",
        f"SELECT {{a.k}} AS k_ FROM {{a}} a WHERE {one} UNION SELECT {{b.u}} FROM {{b}} b"
        f" WHERE {other}",
        f"WITH RECURSIVE q(i, j) AS (SELECT {{a.u}}, {{a.v}} FROM {{a}} a WHERE {one}"
        f" UNION SELECT q.i, {{b.v}} FROM q JOIN {{b}} b ON q.j = {{b.u}}) SELECT * FROM q",
        f"SELECT y.e, COUNT(*) AS n FROM {{a}} a {_PAIR} WHERE {one} GROUP BY y.e",
        "SELECT k_, x_, ROW_NUMBER() OVER (PARTITION BY k_ ORDER BY x_) AS r FROM"
        f" (SELECT {{a.k}} AS k_, {{a.x}} AS x_ FROM {{a}} a WHERE {one}) q",
    )


# Functions of the user.


def _called(rng: random.Random) -> str:
    bump = "<<bump({#.k})||CASE WHEN {#.k} IS NULL THEN -7 ELSE {#.k}::BIGINT * 2 + 1 END>>"
    join = "<<glue({#.s}, {#.u})||{#.s} ¦¦ '-' ¦¦ CAST({#.u} AS VARCHAR)>>".replace("¦", "|")
    one, two = bump.replace("#", "a"), join.replace("#", "a")
    return _either(
        rng,
        f"SELECT {one} AS e, COUNT(*) AS n FROM {{a}} a GROUP BY {one}",
        f"SELECT {two} AS e, {{a.k}} AS k_ FROM {{a}} a WHERE {one} > 1",
        f"SELECT {{b.s}} AS s_, SUM({one}) AS t FROM {{a}} a JOIN {{b}} b ON {{a.u}} = {{b.u}}"
        " GROUP BY {b.s}",
        f"SELECT {{a.s}} AS s_, MAX({two}) AS h FROM {{a}} a GROUP BY {{a.s}}",
        f"SELECT {{a.k}} AS k_, {{b.x}} AS x_ FROM {{a}} a LEFT JOIN {{b}} b"
        f" ON {one} = {bump.replace('#', 'b')}",
    )


# Moments.

_OF_ONE = 4
_JOINS = (
    "{a} a JOIN {b} b ON {a.k} = {b.k}",
    "{a} a JOIN {b} b ON {a.u} = {b.v} AND {a.k} < {b.k}",
    "{a} a JOIN {b} b ON {a.u} = {b.u} JOIN {c} c ON {b.v} = {c.v}",
    "{a} a LEFT JOIN {b} b ON {a.u} = {b.u}",
    "{a} a JOIN {b} b ON {a.s} = {b.s} WHERE {b.k} > 0",
)


def _moments(rng: random.Random, over: dict[str, Table]) -> Drawn:
    join, key = rng.choice(_JOINS), rng.choice(["{a.k}", "{b.s}", ""])
    shown, finish = [f"{key} AS g"] if key else [], {}
    is_far = rng.random() < 0.5  # values far apart, of which an engine loses digits
    far = ("{a.c}", "{b.k}", "{b.c}") if is_far else ("{b.v}", "{a.u}")
    for i in range(rng.randint(1, 3)):
        at = rng.randrange(len(MOMENTS))
        name, alias = MOMENTS[at], f"m{i}"
        if is_far and name == "REGR_INTERCEPT":  # solved in floats, so it has fewer digits
            continue
        y, x = rng.choice(["{a.u}", "{b.u}", far[0]]), rng.choice(["{a.v}", "{b.v}", *far])
        if at < _OF_ONE:
            shown.append(f"<<{name}({y})||list([{y}])>> AS {alias}")
        else:
            shown.append(f"<<{name}({y}, {x})||list([{y}::DOUBLE, {x}::DOUBLE])>> AS {alias}")
        finish[alias] = name
    shown += rng.sample(
        ["COUNT({b.k}) AS n", "MAX({b.x}) AS h", "SUM({a.k}) AS t"], rng.randint(0, 2)
    )
    shown.append("COUNT(*) AS rows_")
    text = f"SELECT {', '.join(shown)} FROM {join}" + (f" GROUP BY {key}" if key else "")
    query, definition = _written(rng, text, over)
    return query, definition | {"finish": finish, "is_far": is_far}


def functions() -> dict[str, tuple[Callable[..., object], str]]:
    """The functions that views call, with the types of what they give."""
    return {
        "bump": (lambda k: -7 if k is None else k * 2 + 1, "BIGINT"),
        "glue": (lambda s, u: None if s is None or u is None else f"{s}-{u}", "STRING"),
    }

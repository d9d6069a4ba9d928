"""Draw the next step of a session from a seed and from what the world has so far."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from typing import Any

from viewmill.testing.oracle import Row
from viewmill.testing.sessions.draw_views import draw_view
from viewmill.testing.sessions.names import (
    NESTED,
    START,
    draw_name,
    draw_names,
    draw_nested,
    draw_time,
    draw_value,
)
from viewmill.testing.sessions.steps import Step
from viewmill.testing.sessions.world import Table, World, seconds_of

_MAX_TABLES = 4
_MAX_ROWS = 40  # of a table: more are deleted again
_COLUMNS = (
    ("k", "INT"), ("x", "BIGINT"), ("d", "DOUBLE"), ("c", "DECIMAL(12,2)"), ("s", "STRING"),
    ("b", "BOOLEAN"), ("w", "DECIMAL(38,4)"),
)  # fmt: skip
_WIDE = (
    ("u", "INT"), ("v", "INT"), ("at", "TIMESTAMP"), ("l", "ARRAY<INT>"),
    ("o", "STRUCT<p: INT, q: STRING>"), ("m", "MAP<STRING, INT>"),
)  # fmt: skip
_FORMS = ("tuples", "dicts", "arrow", "pandas")
_POLICIES = (
    "IMMEDIATE", "IMMEDIATE", "ON DEMAND", "EVERY 3 ROWS", "EVERY 10 ROWS",
    "EVERY INTERVAL '1' HOUR",
)  # fmt: skip
_POLICY_CHANCE = 0.3


def draw_step(rng: random.Random, world: World, *, is_durable: bool, views: int) -> Step:
    """One step that makes sense now, most often a change of rows."""
    while True:
        draw = _weighted(rng, world, is_durable)
        if draw is _create_view and len(world.views) >= views:
            continue
        step = draw(rng, world)
        if step is not None:
            return step


Draw = Callable[[random.Random, World], Step | None]


def _weighted(rng: random.Random, world: World, is_durable: bool) -> Draw:
    if not world.tables:
        return _connect if world.made == 0 and rng.random() < 0.3 else _create_table
    if not world.views:
        return _create_view
    weights: list[tuple[Draw, float]] = [
        (_insert, 30), (_delete, 16), (_upsert, 6), (_apply, 6), (_batch, 8), (_mistake, 5),
        (_tick, 5), (_set_policy, 4), (_refresh, 5), (_full_refresh, 1.5), (_create_view, 5),
        (_drop_view, 3), (_replace_view, 2), (_create_table, 1), (_drop_table, 0.7),
        (_subscribe, 2), (_expect, 0.5), (_empty, 1), (_nonsense, 1), (_product, 4),
        (_insert_missing, 4), (_ask, 1),
    ]  # fmt: skip
    if world.is_wide:
        weights += [(_let_pass, 7)]
    if is_durable:
        weights += [(_restart, 1), (_kill, 2), (_checkpoint, 1), (_connect, 1)]
    draws = [draw for draw, _ in weights]
    return rng.choices(draws, [chance for _, chance in weights])[0]


# Tables and rows.


def _create_table(rng: random.Random, world: World) -> Step | None:
    if len(world.tables) >= _MAX_TABLES:
        return None
    roles = [*_COLUMNS, *(_WIDE if world.is_wide else ())]
    is_stream = rng.random() < 0.3
    options: dict[str, Any] = {}
    if is_stream:
        roles.append(("t", "TIMESTAMP"))
        options["stream"] = _stream(rng)
        options["append_only"] = rng.random() < 0.2
    elif rng.random() < 0.35:
        roles.append(("id", "BIGINT"))
        options["key"] = ["id"]
    elif rng.random() < 0.3:
        options["unchecked"] = True
    rng.shuffle(roles)
    names = draw_names(rng, len(roles))
    columns = [[role, type_, name] for (role, type_), name in zip(roles, names, strict=True)]
    return "create_table", draw_name(rng, world.made), f"t{world.made}", columns, options


def _stream(rng: random.Random) -> dict[str, Any]:
    stream: dict[str, Any] = {"role": "t", "lateness": rng.choice([0, 0, 2, 5])}
    if rng.random() < 0.6:
        stream["part"] = rng.choice([5, 10])
        stream["retention"] = rng.choice([None, None, 20, 60])
    return stream


def _row(rng: random.Random, world: World, table: Table, wild: float) -> Row:
    values: list[Any] = []
    for column in table.columns:
        if column.role == "t":
            values.append(_time(rng, world, table))
        elif column.role == "id":
            values.append(rng.randrange(12))
        elif column.role == "at":
            values.append(None if rng.random() < 0.1 else draw_time(rng, world.now - START))
        elif column.role in ("u", "v"):
            values.append(None if rng.random() < 0.03 else rng.randrange(12))
        elif column.type in NESTED:
            values.append(draw_nested(rng, column.type))
        else:
            values.append(draw_value(rng, column.type, wild=wild))
    return tuple(values)


def _time(rng: random.Random, world: World, table: Table) -> dt.datetime:
    """A moment near the latest; in parts one that no row has, for patterns go by the order."""
    moment = draw_time(rng, 0 if table.newest is None else table.newest // 0.25 * 0.25 - START)
    if table.stream is not None and table.stream.part is not None:
        world.serial += 1
        moment += dt.timedelta(microseconds=world.serial % 250_000)
    return moment


def _rows(rng: random.Random, world: World, table: Table) -> list[Row]:
    wild = rng.choice([0.0, 0.0, 0.05, 0.3])
    count = rng.choice([1, 1, 1, 2, 3, 6, 12])
    return [_row(rng, world, table, wild) for _ in range(count)]


def _table(rng: random.Random, world: World) -> Table:
    return rng.choice(list(world.tables.values()))


def _insert(rng: random.Random, world: World) -> Step | None:
    table = _table(rng, world)
    rows = _rows(rng, world, table)
    if table.key:
        taken = {row[table.roles.index("id")] for row in table.rows()}
        rows = [row for row in rows if row[table.roles.index("id")] not in taken]
        rows = list({row[table.roles.index("id")]: row for row in rows}.values())
    if not rows or len(table.rows()) > _MAX_ROWS:
        return None
    return "insert", table.name, rows, rng.choice(_FORMS)


def _present(rng: random.Random, table: Table) -> list[Row]:
    rows = table.rows()
    most = len(rows) if rng.random() < 0.1 else 3
    return rng.sample(rows, min(len(rows), rng.randint(1, max(most, 1))))


def _delete(rng: random.Random, world: World) -> Step | None:
    table = _table(rng, world)
    if table.is_append_only:
        return None
    if table.is_unchecked and rng.random() < 0.3:
        return "delete", table.name, _rows(rng, world, table), "tuples"
    rows = _present(rng, table)
    return ("delete", table.name, rows, rng.choice(_FORMS)) if rows else None


def _upsert(rng: random.Random, world: World) -> Step | None:
    table = _table(rng, world)
    return (
        ("upsert", table.name, _rows(rng, world, table), rng.choice(_FORMS)) if table.key else None
    )


def _apply(rng: random.Random, world: World) -> Step | None:
    table = _table(rng, world)
    if table.key or table.is_append_only:
        return None
    changes = [(row, -1) for row in _present(rng, table)]
    changes += [(row, rng.choice([1, 1, 2, 3])) for row in _rows(rng, world, table)]
    rng.shuffle(changes)
    return "apply", table.name, [[list(row), times] for row, times in changes]


def _product(rng: random.Random, world: World) -> Step | None:
    """Rows as combinations of a few values of some columns with a few of the others."""
    table = _table(rng, world)
    if (
        table.key
        or table.is_append_only
        or table.stream is not None
        or len(table.rows()) > _MAX_ROWS
    ):
        return None
    roles = rng.sample(table.roles, len(table.roles))
    cut = rng.randint(1, len(roles) - 1)
    factors = []
    for own in (roles[:cut], roles[cut:]):
        places = [table.roles.index(role) for role in own]
        rows = [_row(rng, world, table, 0.1) for _ in range(rng.randint(1, 3))]
        factors.append([own, [[row[i] for i in places] for row in rows]])
    is_delete = table.is_unchecked and rng.random() < 0.2
    return "product", table.name, factors, -1 if is_delete else rng.choice([1, 1, 2])


def _insert_missing(rng: random.Random, world: World) -> Step | None:
    """Insert the rows of a table that were deleted before they were inserted."""
    for table in world.tables.values():
        if not table.is_settled:
            missing = [(row, -n) for row, n in table.counted.values() if n < 0]
            return "apply", table.name, [[list(row), n] for row, n in missing]
    return None


def _batch(rng: random.Random, world: World) -> Step | None:
    parts = [draw(rng, world) for draw in rng.choices([_insert, _delete, _apply], k=3)]
    touched: set[str] = set()
    chosen = []
    for part in parts:
        if part is not None and part[1] not in touched:
            touched.add(part[1])
            chosen.append(part)
    return ("batch", chosen, rng.random() < 0.15) if chosen else None


def _mistake(rng: random.Random, world: World) -> Step | None:
    """A batch of which the second half must be refused, and so all of it."""
    table = _table(rng, world)
    if table.key and table.rows():
        return "insert", table.name, [*_rows(rng, world, table), rng.choice(table.rows())], "tuples"
    if table.is_unchecked or table.is_append_only:
        return None
    row = _row(rng, world, table, 0.5)
    return "delete", table.name, [*_present(rng, table), row, row, row], "tuples"


def _empty(rng: random.Random, world: World) -> Step:
    return "insert", _table(rng, world).name, [], rng.choice(_FORMS)


def _tick(rng: random.Random, world: World) -> Step | None:
    streams = [table for table in world.tables.values() if table.stream is not None]
    if not streams:
        return None
    table = rng.choice(streams)
    reached = table.watermark
    now = START if reached is None else reached
    return "advance", table.name, now + rng.choice([0.0, 0.5, 1.0, 5.0, 30.0])


def _let_pass(rng: random.Random, world: World) -> Step:
    """The clock goes on, at times up to a moment that a row has."""
    moments = [
        seconds_of(row[table.roles.index("at")])
        for table in world.tables.values()
        for row in table.rows()
        if row[table.roles.index("at")] is not None
    ]
    later = [each for each in moments if world.now < each < world.now + 60]
    if later and rng.random() < 0.5:
        return "let_pass", rng.choice(later) + rng.choice([0, 1, 3, 10])
    return "let_pass", world.now + rng.choice([0.0, 0.000001, 0.5, 1.0, 3.0, 30.0])


# Views.


def _create_view(rng: random.Random, world: World) -> Step | None:
    drawn = draw_view(rng, world)
    if drawn is None:
        return None
    query, definition = drawn
    policy = rng.choice(_POLICIES) if rng.random() < _POLICY_CHANCE else "IMMEDIATE"
    definition = definition | {"alias": f"v{world.made}"}
    memory = rng.choice(["", "", "", "", " MEMORY '0'", " MEMORY '2 KB'"])
    # Views in parts, and those that follow the clock, take none.
    has_none = "parts" in definition or "pattern" in definition
    has_none = has_none or "@now" in definition.get("duckdb", "")
    has_none = has_none or query.endswith("EMIT FINAL") or "[WINDOW" in query
    lower = [world.views[name] for name in definition["reads"] if name in world.views]
    has_none = has_none or any(view.follows_clock for view in lower)
    clauses = f"REFRESH {policy}{'' if has_none else memory}"
    return "create_view", draw_name(rng, world.made), clauses, query, definition


def _view(rng: random.Random, world: World) -> str:
    return rng.choice(list(world.views))


def _replace_view(rng: random.Random, world: World) -> Step | None:
    name = _view(rng, world)
    if world.readers(name) or rng.random() < 0.5:
        return None
    drawn = draw_view(rng, world)
    if drawn is None or name in drawn[1]["reads"]:
        return None
    query, definition = drawn
    definition = definition | {"alias": f"v{world.made}"}
    return "replace_view", name, "REFRESH IMMEDIATE", query, definition


def _drop_view(rng: random.Random, world: World) -> Step | None:
    name = _view(rng, world)
    return None if world.readers(name) else ("drop_view", name)


def _drop_table(rng: random.Random, world: World) -> Step | None:
    name = _table(rng, world).name
    return None if world.readers(name) else ("drop_table", name)


def _set_policy(rng: random.Random, world: World) -> Step | None:
    name = _view(rng, world)
    if world.readers(name):
        return None
    return "set_policy", name, rng.choice(_POLICIES)


def _refresh(rng: random.Random, world: World) -> Step:
    return "refresh", _view(rng, world)


def _full_refresh(rng: random.Random, world: World) -> Step | None:
    name = _view(rng, world)
    kinds = world.views[name].definition
    return None if "parts" in kinds or "pattern" in kinds else ("full_refresh", name)


def _ask(rng: random.Random, world: World) -> Step:
    return "ask", _view(rng, world)


def _subscribe(rng: random.Random, world: World) -> Step:
    return "subscribe", _view(rng, world)


def _expect(rng: random.Random, world: World) -> Step:
    return "expect", _table(rng, world).name, rng.choice([5, 5000])


def _nonsense(rng: random.Random, world: World) -> Step:
    """Statements that must be refused and change nothing."""
    table, view = _table(rng, world).name, _view(rng, world)
    quoted = "`" + table.replace("`", "``") + "`"
    return "nonsense", rng.choice([
        f"CREATE TABLE {quoted} (z INT)",
        f"SELECT nothing FROM {quoted}",
        f"CREATE MATERIALIZED VIEW {quoted} AS SELECT 1 AS one",
        "CREATE MATERIALIZED VIEW w AS SELECT * FROM nowhere",
        f"DROP TABLE `{view.replace('`', '``')}`",
        "DROP TABLE nowhere",
        f"INSERT INTO {quoted} VALUES ('too', 'few')",
    ])  # fmt: skip


# A durable mill.


def _connect(rng: random.Random, world: World) -> Step:
    return "connect", rng.choice([None, "0 MB", "2 KB", "50 KB", "1 MB"])


def _restart(rng: random.Random, world: World) -> Step:
    return ("restart",)


def _kill(rng: random.Random, world: World) -> Step:
    return ("kill",)


def _checkpoint(rng: random.Random, world: World) -> Step:
    return ("checkpoint",)

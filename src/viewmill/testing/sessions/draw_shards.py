"""Draw a session of a pipeline in shards: sources and views first, then batches and restarts.

What shards keep is fixed when a pipeline first starts, so tables and views come before rows.
"""

from __future__ import annotations

import random
from typing import Any

from viewmill.testing.oracle import Row
from viewmill.testing.sessions.draw_views import draw_view
from viewmill.testing.sessions.names import START, draw_names, draw_time, draw_value
from viewmill.testing.sessions.steps import Step
from viewmill.testing.sessions.world import Table, World

_COLUMNS = (
    ("k", "INT"), ("x", "BIGINT"), ("d", "DOUBLE"), ("c", "DECIMAL(12,2)"), ("s", "STRING"),
    ("b", "BOOLEAN"),
)  # fmt: skip
_SOURCES = ("bids", "Orders", "select", "käse", "T1", "lambda")  # identifiers, odd ones too
_MAX_ROWS = 60


def draw_shard_step(rng: random.Random, world: World, views: int) -> Step:
    """One step that makes sense now."""
    while True:
        step = _draw(rng, world, views)
        if step is not None:
            return step


def _draw(rng: random.Random, world: World, views: int) -> Step | None:
    if not world.tables or (not world.views and len(world.tables) < 3 and rng.random() < 0.5):
        return _create_table(rng, world)
    if not world.views or (not world.has_begun and len(world.views) < views):
        return _create_view(rng, world)
    if rng.random() < 0.12:
        restart = ("restart", rng.choice([1, 2, 3]))
        return rng.choice([restart, ("lose",), ("rerun",), ("move",), ("move",)])
    return _batch(rng, world)


def _create_table(rng: random.Random, world: World) -> Step:
    roles = [*_COLUMNS]
    options: dict[str, Any] = {"unchecked": True}
    if rng.random() < 0.3:
        roles.append(("t", "TIMESTAMP"))
        options["stream"] = {"role": "t", "lateness": rng.choice([0, 0, 2, 5])}
    rng.shuffle(roles)
    names = draw_names(rng, len(roles))
    columns = [[role, type_, name] for (role, type_), name in zip(roles, names, strict=True)]
    name = f"{rng.choice(_SOURCES)}{world.made}"
    return "create_table", name, f"t{world.made}", columns, options


def _create_view(rng: random.Random, world: World) -> Step | None:
    drawn = draw_view(rng, world, over_windows=False)
    if drawn is None:
        return None
    query, definition = drawn
    return "create_view", f"v{world.made}", query, definition | {"alias": f"v{world.made}"}


def _row(rng: random.Random, table: Table, wild: float) -> Row:
    return tuple(
        draw_time(rng, 0 if table.newest is None else table.newest - START)
        if column.role == "t"
        else draw_value(rng, column.type, wild=wild)
        for column in table.columns
    )


def _batch(rng: random.Random, world: World) -> Step:
    """Rows that come and go, of some of the sources."""
    parts: list[Any] = []
    for table in world.tables.values():
        if parts and rng.random() < 0.5:
            continue
        wild = rng.choice([0.0, 0.0, 0.1, 0.3])
        there = table.rows()
        count = 0 if len(there) > _MAX_ROWS else rng.choice([0, 1, 2, 4, 9])
        changes = [[_row(rng, table, wild), rng.choice([1, 1, 1, 2])] for _ in range(count)]
        most = len(there) if rng.random() < 0.1 else min(len(there), 4)
        changes += [[row, -1] for row in rng.sample(there, rng.randint(0, most))]
        rng.shuffle(changes)
        parts.append([table.name, changes])
    return "rows", parts

"""Draw views over the parts of a stream: INITIALIZE and UPDATE, PATTERN, MATCH_RECOGNIZE."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from viewmill.testing.sessions.names import quoted, respelt
from viewmill.testing.sessions.world import Table

Drawn = tuple[str, dict[str, Any]]
_MEASURES = "COUNT(*) AS n, MIN({x}) AS l, MAX({x}) AS h, FIRST({x}) AS f, LAST({x}) AS e"


def _named(rng: random.Random, table: Table, *roles: str) -> list[str]:
    names = [table.name, *(table.column(role).name for role in roles)]
    return [quoted(respelt(rng, name)) for name in names]


def draw_parts(rng: random.Random, streams: Sequence[Table], plain: Sequence[Table]) -> Drawn:
    """A view in parts; `@self` is its own name."""
    table = rng.choice(streams)
    assert table.stream is not None
    assert table.stream.part is not None
    length, retention = table.stream.part, table.stream.retention
    kinds = ["single", "running", *(["joined"] if plain else [])]
    kinds += ["coarse"] if retention is None or retention >= 5 * length else []
    kind = rng.choice(kinds)
    definition: dict[str, Any] = {"reads": [table.name], "stream": table.name, "parts": kind}
    source, k = _named(rng, table, "k")
    if kind == "running":
        update = (
            f"SELECT COUNT(c.one) + MAX(p.n) AS n FROM @self[j-1] p"
            f" LEFT JOIN (SELECT 1 AS one FROM {source}[j]) c ON true"
        )
        first = f"SELECT COUNT(*) AS n FROM {source}[i]"
        return _initialize(first, update, "j", length), definition
    if kind == "joined":
        other = rng.choice(plain)
        whole, key = _named(rng, other, "k")
        definition |= {"reads": sorted({table.name, other.name}), "other": other.name}
        query = f"SELECT COUNT(*) AS n FROM {source}[i] a JOIN {whole} b ON a.{k} = b.{key}"
    elif kind == "coarse":
        length, query = 3 * length, f"SELECT COUNT(*) AS n FROM {source}[i*3..i*3+2]"
    else:
        query = f"SELECT {k} AS k_, COUNT(*) AS n FROM {source}[i] GROUP BY {k}"
    return _initialize(query, query, "i", length), definition


def _initialize(first: str, update: str, letter: str, length: int) -> str:
    return (
        f"INITIALIZE @self[i] AS {first} UPDATE @self[{letter}] AS {update}"
        f" PARTITION LENGTH {length}"
    )


def draw_pattern(rng: random.Random, streams: Sequence[Table]) -> Drawn:
    """A pattern of one to three variables, some with a plus."""
    table = rng.choice(streams)
    source, k, x, t = _named(rng, table, "k", "x", "t")
    variables, names, conditions = [], [], []
    for name in "abc"[: rng.randint(1, 3)]:
        test: list[Any] = rng.choice([["any"], [">", 0], [">", 1], ["rises"]])
        plus = rng.random() < 0.4
        variables.append([test, plus])
        names.append(name + "+" * plus)
        if test[0] == ">":
            conditions.append((name, f"{name}.{x} > {test[1]}"))
        elif test[0] == "rises":
            conditions.append((name, f"{name}.{x} > PREV({name}.{x})"))
    by_key, is_match = rng.random() < 0.7, rng.random() < 0.5
    pattern = {"variables": variables, "by_key": by_key, "is_match": is_match}
    definition = {"reads": [table.name], "pattern": pattern}
    measures = _MEASURES.format(x=x)
    if is_match:
        define = ", ".join(f"{name} AS {text}" for name, text in conditions)
        by = f"PARTITION BY {k} " if by_key else ""
        return (
            f"SELECT * FROM {source} MATCH_RECOGNIZE ({by}ORDER BY {t} MEASURES {measures}"
            f" PATTERN ({' '.join(names)}){' DEFINE ' + define if define else ''})"
        ), definition
    where = " AND ".join(text for _, text in conditions)
    return (
        f"SELECT {k + ' AS k_, ' if by_key else ''}{measures} FROM {source}"
        f" PATTERN [{', '.join(names)}]{' WHERE ' + where if where else ''}"
        + (f" GROUP BY {k}" if by_key else "")
    ), definition

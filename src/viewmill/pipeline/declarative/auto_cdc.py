"""AUTO CDC as SQL: the target is a view of all events.

takes  the events' SQL, with their sequence and whether they delete, and the columns of the target
gives  SQL for SCD type 1 (the newest row of a key) and type 2 (the history of a key)

Of two events of a key with one sequence the one that deletes wins, then the greater row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewmill.algebra.names import quoted

SEQUENCE, DELETES = "__sequence", "__deletes"


@dataclass(frozen=True)
class Columns:
    """What a target has: all columns, those of the key, those whose change opens a record."""

    columns: Sequence[str]
    keys: Sequence[str]
    tracked: Sequence[str]


def newest(events: str, target: Columns) -> str:
    """SCD type 1."""
    shown = _list(target.columns)
    numbered = _numbered(events, target, _list(target.keys))
    return f"SELECT {shown} FROM ({numbered}) AS n WHERE n.__n = 1 AND NOT n.{DELETES}"


def history(events: str, target: Columns) -> str:
    """SCD type 2: a record for each run of events that agree in the tracked columns."""
    shown, window = _list(target.columns), _window(target)
    single = _numbered(events, target, f"{_list(target.keys)}, {SEQUENCE}")
    before = ", ".join(
        f"LAG({quoted(name)}) OVER ({window}) AS __was_{i}" for i, name in enumerate(target.tracked)
    )
    before = f", {before}" if before else ""
    lagged = (
        f"SELECT {shown}, {SEQUENCE}, {DELETES}, LAG({DELETES}) OVER ({window}) AS __was_deleted"
        f"{before} FROM ({single}) AS s WHERE s.__n = 1"
    )
    differs = "".join(
        f" OR NOT ({quoted(name)} <=> __was_{i})" for i, name in enumerate(target.tracked)
    )
    opens = f"({DELETES} OR __was_deleted IS NULL OR __was_deleted{differs})"
    marked = f"SELECT {shown}, {SEQUENCE}, {DELETES}, {opens} AS __opens FROM ({lagged}) AS l"
    running = f"{window} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    begun = f"MAX(CASE WHEN __opens THEN {SEQUENCE} END) OVER ({running})"
    run = (
        f"SELECT {shown}, {DELETES}, {begun} AS __START_AT, LEAD({SEQUENCE}) OVER ({window}) AS"
        f" __END_AT, LEAD(__opens) OVER ({window}) AS __next FROM ({marked}) AS m"
    )
    return (
        f"SELECT {shown}, __START_AT, __END_AT FROM ({run}) AS r"
        f" WHERE NOT {DELETES} AND COALESCE(__next, TRUE)"
    )


def _numbered(events: str, target: Columns, group: str) -> str:
    """The events, each numbered in its group from the newest."""
    shown = _list(target.columns)
    order = ", ".join(f"{quoted(each)} DESC" for each in target.columns)
    return (
        f"SELECT {shown}, {SEQUENCE}, {DELETES}, ROW_NUMBER() OVER (PARTITION BY {group}"
        f" ORDER BY {SEQUENCE} DESC, {DELETES} DESC, {order}) AS __n FROM ({events}) AS e"
    )


def _window(target: Columns) -> str:
    return f"PARTITION BY {_list(target.keys)} ORDER BY {SEQUENCE}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))

"""Windows by brute force: the last window that time has reached, or all windows as groups."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from viewmill.testing.oracle import Row
from viewmill.testing.sessions.world import EPOCH, Table, seconds_of


def window_rows(window: Mapping[str, Any], table: Table) -> list[Row]:
    """COUNT, SUM, MIN and MAX of x: in the last window, or in all windows if `is_group`."""
    if window.get("is_group"):
        return _window_groups(window, table)
    seen = _last_window(window, table)
    roles = table.roles
    k, x = roles.index("k"), roles.index("x")
    if not window["by_key"]:
        return [_aggregates([row[x] for row in seen])]
    groups: dict[Any, list[Any]] = {}
    for row in seen:
        groups.setdefault(row[k], []).append(row[x])
    return [(key, *_aggregates(values)) for key, values in groups.items()]


def _window_groups(window: Mapping[str, Any], table: Table) -> list[Row]:
    """A row is in every window [start, start + range) whose start is a multiple of the slide."""
    assert table.stream is not None
    time, x = table.roles.index(table.stream.role), table.roles.index("x")
    size, slide = window["range"], window["slide"]
    groups: dict[float, list[Any]] = {}
    for row in table.rows():
        moment = seconds_of(row[time])
        start = moment // slide * slide
        while start + size > moment:
            groups.setdefault(start, []).append(row[x])
            start -= slide
    return [
        (EPOCH + dt.timedelta(seconds=start), *_aggregates(values))
        for start, values in groups.items()
    ]


def _last_window(window: Mapping[str, Any], table: Table) -> list[Row]:
    stream = table.stream
    assert stream is not None
    reached = table.watermark
    if reached is None:
        return []
    time = table.roles.index(stream.role)
    end = reached // window["slide"] * window["slide"]
    start = end - window["range"]
    return [row for row in table.rows() if start <= seconds_of(row[time]) < end]


def _aggregates(values: Sequence[int | None]) -> tuple[Any, ...]:
    given = [value for value in values if value is not None]
    if not given:
        return len(values), None, None, None
    return len(values), sum(given), min(given), max(given)

"""MATCH_RECOGNIZE and PATTERN by brute force: every start, every way to deal rows to variables.

A pattern is a list of variables `[test, plus]`; a test says what x of a row must be: `["any"]`,
`[">", 1]` or, compared with the row before, `["rises"]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from viewmill.testing.oracle import Row, canonical
from viewmill.testing.sessions.world import Table, View, seconds_of

Variables = Sequence[Any]


def pattern_rows(view: View, tables: Mapping[str, Table]) -> list[Row]:
    """The matches, or what a PATTERN view shows of the newest part.

    The view sees all rows that were admitted since the oldest part that was kept at its creation.
    """
    pattern, table = view.definition["pattern"], tables[view.reads[0]]
    if view.reads[0] not in view.since:
        view.since[view.reads[0]] = table.first_kept
    since = view.since[view.reads[0]]
    k, x = table.roles.index("k"), table.roles.index("x")
    groups: dict[Any, list[Row]] = {}
    for row in _in_order(table, since):
        group = canonical(row[k]) if pattern["by_key"] else None
        groups.setdefault(group, []).append(row)
    make = _matches if pattern["is_match"] else _newest_match
    found = []
    for rows in groups.values():
        xs = [row[x] for row in rows]
        for match in make(table, rows, xs, pattern["variables"]):
            found.append((rows[0][k], *_measures(match)) if pattern["by_key"] else _measures(match))
    return found


def _in_order(table: Table, since: int | None) -> list[Row]:
    assert table.stream is not None
    time = table.roles.index(table.stream.role)
    seen = [row for row in table.held() if since is None or table.part_of(row) >= since]
    return sorted(seen, key=lambda row: seconds_of(row[time]))


def _measures(xs: Sequence[int | None]) -> Row:
    there = [x for x in xs if x is not None]
    return len(xs), min(there, default=None), max(there, default=None), xs[0], xs[-1]


def _fits(test: Sequence[Any], xs: Sequence[int | None], at: int) -> bool:
    value = xs[at]
    if test[0] == "any":
        return True
    if value is None:
        return False
    if test[0] == ">":
        return bool(value > test[1])
    before = xs[at - 1] if at else None
    return before is not None and value > before


def _matches(
    table: Table, rows: Sequence[Row], xs: Sequence[int | None], variables: Variables
) -> list[Sequence[int | None]]:
    """Leftmost, greedy, past the last row."""
    found, start = [], 0
    while start < len(xs):
        end = _greedy(xs, start, 0, variables)
        if end is None:
            start += 1
            continue
        found.append(xs[start:end])
        start = end
    return found


def _greedy(xs: Sequence[int | None], at: int, i: int, variables: Variables) -> int | None:
    """Where a match ends that gives row `at` to variable i; None if there is none."""
    test, plus = variables[i]
    if at == len(xs) or not _fits(test, xs, at):
        return None
    end = _greedy(xs, at + 1, i, variables) if plus else None
    if end is None and i + 1 < len(variables):
        end = _greedy(xs, at + 1, i + 1, variables)
    if end is None and i + 1 == len(variables):
        end = at + 1
    return end


def _newest_match(
    table: Table, rows: Sequence[Row], xs: Sequence[int | None], variables: Variables
) -> list[Sequence[int | None]]:
    """The longest match that ends with the group's last row, if that is in the newest part."""
    if table.part_of(rows[-1]) != table.newest_part:
        return []
    last = len(xs) - 1
    start = next((s for s in range(len(xs)) if _ends(xs, s, 0, last, variables)), None)
    return [] if start is None else [xs[start:]]


def _ends(xs: Sequence[int | None], at: int, i: int, last: int, variables: Variables) -> bool:
    """Whether rows from `at` to `last` can be dealt to the variables from i on."""
    test, plus = variables[i]
    if not _fits(test, xs, at):
        return False
    if at == last:
        return i == len(variables) - 1
    if plus and _ends(xs, at + 1, i, last, variables):
        return True
    return i + 1 < len(variables) and _ends(xs, at + 1, i + 1, last, variables)

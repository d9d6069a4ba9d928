"""Sessions, windows, gaps and ASOF joins by brute force, over rows of (k, x, t)."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from viewmill.testing.oracle import Row, canonical
from viewmill.testing.sessions.world import EPOCH, seconds_of

Then = Mapping[str, Any]
_SIGNS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


def timed_rows(then: Then, sources: Sequence[Sequence[Row]], reached: float | None) -> list[Row]:
    """What a view shows of the rows it reads when time has come so far."""
    rows = [row for row in sources[0] if row[2] is not None]
    match then["what"]:
        case "asof":
            return _nearest(then, sources[0], sources[1])
        case "gaps":
            return [each for own in _by_key(rows) for each in _filled(own, then["size"])]
        case "last":
            return _last_window(then, rows, reached)
    shown = []
    for own in _by_key(rows):
        for start, end, members in _windows(then, own):
            if not then.get("final") or (reached is not None and end <= reached):
                shown.append((own[0][0], _moment(start), _moment(end), *_aggregates(members)))
    return shown


def _moment(seconds: float) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=round(seconds * 1_000_000))


def _by_key(rows: Sequence[Row]) -> list[list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(canonical(row[0]), []).append(row)
    return list(groups.values())


def _aggregates(rows: Sequence[Row]) -> Row:
    ks = [row[0] for row in rows if row[0] is not None]
    xs = [row[1] for row in rows if row[1] is not None]
    return len(rows), sum(ks) if ks else None, min(xs, default=None), max(xs, default=None)


def _windows(then: Then, rows: Sequence[Row]) -> list[tuple[float, float, list[Row]]]:
    if then["what"] == "sessions":
        return _sessions(rows, then["gap"])
    size, slide = then["range"], then["slide"]
    found: dict[tuple[float, float], list[Row]] = {}
    for row in rows:
        moment = seconds_of(row[2])
        if then["what"] == "cumulate":
            start = moment // size * size
            ends = [start + step for step in range(slide, size + 1, slide)]
            spans = [(start, end) for end in ends if moment < end]
        else:
            first = moment // slide * slide
            starts = [first - slide * i for i in range(size // slide + 2)]
            spans = [(start, start + size) for start in starts if start <= moment < start + size]
        for span in spans:
            found.setdefault(span, []).append(row)
    return [(start, end, members) for (start, end), members in found.items()]


def _sessions(rows: Sequence[Row], gap: int) -> list[tuple[float, float, list[Row]]]:
    """Rows no more than a gap apart are in one session."""
    runs: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: seconds_of(row[2])):
        if runs and seconds_of(row[2]) <= seconds_of(runs[-1][-1][2]) + gap:
            runs[-1].append(row)
        else:
            runs.append([row])
    return [(seconds_of(run[0][2]), seconds_of(run[-1][2]) + gap, run) for run in runs]


def _filled(rows: Sequence[Row], size: int) -> list[Row]:
    """Buckets of one key from its first to its last."""
    buckets: dict[int, list[Row]] = {}
    for row in rows:
        buckets.setdefault(int(seconds_of(row[2]) // size), []).append(row)
    shown: list[Row] = []
    for at in range(min(buckets), max(buckets) + 1):
        own = buckets.get(at)
        before = max(each for each in buckets if each <= at)
        n, _, least, _ = _aggregates(own) if own else (None, None, None, None)
        key = rows[0][0]
        line = None if key is None else float(key)  # all rows of a key have the same k
        shown.append((key, _moment(at * size), n, len(buckets[before]), least, line))
    return shown


def _last_window(then: Then, rows: Sequence[Row], reached: float | None) -> list[Row]:
    if reached is None:
        return []
    end = reached // then["slide"] * then["slide"]
    seen = [row for row in rows if end - then["range"] <= seconds_of(row[2]) < end]
    if not then["by_key"]:
        return seen
    return [(own[0][0], *_aggregates(own)) for own in _by_key(seen)]


def _nearest(then: Then, left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
    """Each row with the nearest on its side of time; right rows are (k, t, y)."""
    is_right, choose = _SIGNS[then["sign"]], max if then["sign"][0] == ">" else min
    shown: list[Row] = []
    for k, x, t in left:
        near = [
            each for each in right
            if None not in (k, t, each[0], each[1]) and each[0] == k and is_right(t, each[1])
        ]  # fmt: skip
        if near:
            shown.append((k, x, t, *choose(near, key=lambda each: each[1])[1:]))
        elif then["is_left"]:
            shown.append((k, x, t, None, None))
    return shown

"""GROUP BY session_window(ts, gap): sessions grow, join and part with late and deleted rows."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest

import viewmill as vm

START = dt.datetime(2026, 1, 1)
GAP = dt.timedelta(minutes=5)
Row = tuple[Any, ...]


def sessions(rows: list[Row]) -> list[Row]:
    """By definition: a row more than a gap after the one before begins a session."""
    found: list[list[Row]] = []
    for key in {row[1] for row in rows}:
        own: list[Row] = []
        for row in sorted(each for each in rows if each[1] == key):
            if own and row[0] > own[-1][0] + GAP:
                found.append(own)
                own = []
            own.append(row)
        found.append(own)
    return sorted(
        (own[0][1], own[0][0], own[-1][0] + GAP, len(own), sum(r[2] for r in own)) for own in found
    )


def test_sessions_join_and_part_with_late_and_deleted_rows(uncompiled):
    draw, rows = random.Random(2), list[Row]()
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (ts TIMESTAMP, g STRING, x BIGINT)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS "
            "SELECT g, session_window.start, session_window.end, count(*) AS n, sum(x) AS x "
            "FROM s GROUP BY g, session_window(ts, '5 minutes')"
        )
        mill.sql(
            "CREATE MATERIALIZED VIEW w AS "
            "SELECT session_window(ts, '5 minutes') AS w, count(*) AS n "
            "FROM s WHERE x > 1 GROUP BY w HAVING count(*) > 1"
        )
        has_shown = False
        calls = mill["v"].status()["engine_calls"]
        for step in range(45):
            if draw.random() < 0.35 and rows:
                mill.delete("s", [rows.pop(draw.randrange(len(rows)))])
            else:
                minute = dt.timedelta(minutes=draw.randrange(90))
                rows.append((START + minute, draw.choice("gh"), draw.randrange(5)))
                mill.insert("s", rows[-1:])
            assert sorted(mill["v"].rows()) == sessions(rows), step
            large = sessions([(ts, "", x) for ts, _, x in rows if x > 1])
            pairs = [({"start": s, "end": e}, n) for _, s, e, n, _ in large if n > 1]
            assert sorted(mill["w"].rows(), key=repr) == sorted(pairs, key=repr), step
            has_shown = has_shown or bool(pairs)
        assert mill["v"].status()["engine_calls"] == calls
        assert mill["v"].verify() == mill["w"].verify() == []
        assert has_shown


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT count(*) AS n FROM s GROUP BY session_window(ts)", "a time and a gap"),
        ("SELECT count(*) AS n FROM s GROUP BY session_window(ts, '0 minutes')", "longer than"),
        ("SELECT session_window(ts, '1 minute') AS w FROM s", "stands in GROUP BY"),
        (
            "SELECT session_window(ts, '1 minute') AS w FROM s GROUP BY "
            "session_window(ts, '2 minutes')",
            "one session_window",
        ),
    ],
)
def test_what_is_no_session_is_refused(query, message, uncompiled):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (ts TIMESTAMP, x BIGINT)")
        with pytest.raises(vm.ViewmillError, match=message) as refused:
            mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert refused.value.span is not None

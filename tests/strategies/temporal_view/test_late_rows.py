"""A row that comes many parts late touches the parts that depend on it, and no others."""

import datetime as dt
from typing import Any

import pytest

import viewmill as vm

START = dt.datetime(2015, 1, 1, 10)
LENGTH = "PARTITION LENGTH 60"
VIEWS = {
    "each": "SELECT k, sum(x) AS t FROM m[{i}] GROUP BY k",
    "ten": "SELECT k, sum(x) AS t FROM m[{i}-9..{i}] GROUP BY k",
    "above": "SELECT k, max(t) AS t FROM ten[{i}-1..{i}] GROUP BY k",
    "hour": "SELECT k, sum(t) AS t FROM each[{i}*5..{i}*5+4] GROUP BY k",
}
LARGEST = (
    "CREATE VIEW largest AS INITIALIZE largest[i] AS SELECT k, max(x) AS t FROM m[i] GROUP BY k "
    "UPDATE largest[j] AS SELECT k, max(t) FROM (SELECT k, x AS t FROM m[j] UNION ALL "
    f"SELECT k, t FROM largest[j-1]) GROUP BY k {LENGTH}"
)


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def minute(i, second=0):
    return START + dt.timedelta(minutes=i, seconds=second)


def touched(mill, row):
    """How many parts of each view a row changed, and how many queries that took."""
    calls = {name: mill[name].status()["engine_calls"] for name in mill.views()}
    version = mill.version
    mill.insert("m", [row])
    return {
        name: (
            len(mill.parts(name, changed_since=version)),
            mill[name].status()["engine_calls"] - calls[name],
        )
        for name in mill.views()
    }


@pytest.mark.parametrize(
    "back",
    [pytest.param(60, id="60"), pytest.param(1000, id="1000", marks=pytest.mark.slow)],
)
def test_a_late_row_computes_the_parts_that_read_it(back):
    mill = vm.connect()
    mill.sql(f"CREATE TABLE m (ts TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY ts {LENGTH}")
    mill.insert("m", [(minute(0), "a", 5)])
    for name, query in VIEWS.items():
        length = "PARTITION LENGTH 300" if name == "hour" else LENGTH
        first, following = query.format(i="i"), query.format(i="j")
        mill.sql(
            f"CREATE VIEW {name} AS INITIALIZE {name}[i] AS {first} "
            f"UPDATE {name}[j] AS {following} {length}"
        )
    mill.sql(LARGEST)
    rows: list[Any] = [(minute(i), "a", 9 if i == back // 2 else 5) for i in range(1, back + 20)]
    mill.insert("m", rows)
    found = touched(mill, (minute(12, 30), "a", 1))
    assert {name: parts for name, (parts, _) in found.items()} == {
        "each": 1, "ten": 10, "above": 11, "hour": 1, "largest": 0,
    }  # fmt: skip
    assert all(calls <= max(1, parts) for parts, calls in found.values())
    # A larger value changes later parts until one has a larger one itself.
    found = touched(mill, (minute(12, 40), "a", 7))
    assert found["largest"] == (back // 2 - 12, back // 2 - 12 + 1)
    for name in mill.views():
        assert mill[name].verify() == []

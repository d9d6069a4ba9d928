"""A sliding GROUP BY window is kept without the engine, and equals the query over all rows."""

import datetime as dt
import random

import pytest

import viewmill as vm


@pytest.mark.parametrize(
    ("window", "strategy"),
    [
        ("window(ts, '10 minutes')", "dataflow"),
        ("window(ts, '10 minutes', '2 minutes', '1 minute')", "shared_window"),
        ("window(ts, '10 minutes', '4 minutes', '1 minute')", "shared_window"),
        ("window(ts, '70 minutes', '1 minute', '10 seconds')", "shared_window"),
        ("window(ts, '70 minutes', '1 minute')", "shared_window"),
    ],
)
def test_group_by_window(window, strategy, monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    chance, rows = random.Random(3), []
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (ts TIMESTAMP, k BIGINT, x BIGINT)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k, window.start AS a, window.end AS b,"
            f" count(*) AS n, sum(x) AS t FROM s GROUP BY k, {window}"
        )
        assert mill["v"].status()["strategy"] == strategy
        for _ in range(4):
            new = [
                (at(chance.randrange(-2000, 2000)), chance.randrange(3), chance.randrange(9))
                for _ in range(15)
            ]
            rows += new
            mill.insert("s", new)
            gone = chance.sample(rows, 4)
            for each in gone:
                rows.remove(each)
            mill.delete("s", gone)
            assert mill["v"].verify() == []
        assert mill["v"].rows()


def at(seconds):
    return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)

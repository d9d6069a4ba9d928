"""Views in parts that are refreshed later, replaced, and told when to refresh."""

import datetime as dt
import random

import pytest

import viewmill as vm
from viewmill.errors import NameInUse, Overflow

START = dt.datetime(2024, 1, 1)
HELPER = (
    "INITIALIZE h[i] AS SELECT k, sum(x) AS t FROM m[i] GROUP BY k UPDATE h[j] AS SELECT k, "
    "sum(t) FROM (SELECT k, x AS t FROM m[j] UNION ALL SELECT k, t FROM h[j-1]) GROUP BY k "
    "PARTITION LENGTH 60"
)
ABOVE = (
    "CREATE VIEW v AS INITIALIZE v[i] AS SELECT k, t FROM h[i] WHERE t > 5 "
    "UPDATE v[j] AS SELECT k, t FROM h[j] WHERE t > 5 PARTITION LENGTH 60"
)
PATTERN = (
    "SELECT k, count(*) AS n, sum(x) AS t, avg(x) AS a, first(x) AS f FROM m "
    "PATTERN [a, b+, c+] WHERE b.x > a.x AND c.x < 6 GROUP BY k"
)
MATCH = (
    "SELECT * FROM m MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES count(b.x) AS n, "
    "last(b.x) AS x PATTERN (a b+) DEFINE b AS b.x > PREV(b.x)) AS r"
)


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def minute(i, second=0):
    return START + dt.timedelta(minutes=i, seconds=second)


def create(mill, helper="", others=""):
    mill.sql(
        "CREATE TABLE m (ts TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60"
    )
    mill.sql(f"CREATE MATERIALIZED VIEW h {helper} AS {HELPER}")
    mill.sql(ABOVE)
    mill.sql(f"CREATE MATERIALIZED VIEW p {others} AS {PATTERN}")
    mill.sql(f"CREATE MATERIALIZED VIEW r {others} AS {MATCH}")


def step(chance, i):
    rows = [(minute(i, s), chance.choice("ab"), chance.randrange(9)) for s in range(0, 60, 15)]
    return rows + [(minute(max(0, i - 4), 59), "a", chance.randrange(9))] * (i % 3 == 2)


def history(mill):
    names = ("h", "v", "p")
    found = {
        n: sorted(map(repr, mill.sql(f"SELECT *, PART_TIMESTAMP FROM {n}").rows())) for n in names
    }
    return {**found, "r": sorted(mill["r"].rows())}


def test_deferred_views_in_parts_catch_up_with_late_rows_and_deletes(tmp_path):
    chance = random.Random(5)
    with vm.connect() as now, vm.connect(tmp_path / "later.mill") as later:
        create(now)
        create(later, "REFRESH ON DEMAND", "REFRESH EVERY 30 ROWS")
        gone = None
        for i in range(14):
            rows = step(chance, i)
            for mill in (now, later):
                mill.insert("m", rows)
                if gone is not None and i % 4 == 1:
                    mill.delete("m", [gone])
            gone = rows[0]
            if i % 5 == 4:
                assert later["h"].status()["freshness"] == "stale"
                for name in ("h", "p", "r"):
                    assert later[name].verify() == []
                for name in ("h", "p", "r"):
                    later[name].refresh()
                assert history(now) == history(later)
                assert [p["subscript"] for p in now.parts("v")] == [
                    p["subscript"] for p in later.parts("v")
                ]
    with vm.connect(tmp_path / "later.mill") as mill:
        assert mill["h"].status()["policies"] == ["REFRESH ON DEMAND"]
        mill.insert("m", step(chance, 14))
        assert mill["h"].status()["freshness"] == "stale"
        mill["h"].refresh()
        assert mill["h"].verify() == [] == mill["v"].verify()


def test_alter_says_when_a_view_in_parts_is_refreshed(tmp_path):
    with vm.connect(tmp_path / "altered.mill") as mill:
        create(mill)
        mill.insert("m", [(minute(0), "a", 9)])
        mill.sql("ALTER MATERIALIZED VIEW h REFRESH ON DEMAND")
        mill.insert("m", [(minute(1), "a", 1)])
        assert mill["h"].rows() == [("a", 9)] == mill["v"].rows()
        mill["h"].refresh()
        assert mill["h"].rows() == [("a", 10)] == mill["v"].rows()
    with vm.connect(tmp_path / "altered.mill") as mill:
        mill.insert("m", [(minute(2), "a", 1)])
        assert mill["h"].rows() == [("a", 10)]
        mill.sql("ALTER MATERIALIZED VIEW h REFRESH IMMEDIATE")
        mill["h"].refresh()
        assert mill["v"].rows() == [("a", 11)]
        assert mill["v"].verify() == []


def test_a_temporal_view_is_replaced_unless_its_parts_are_read(tmp_path):
    with vm.connect(tmp_path / "replaced.mill") as mill:
        create(mill)
        mill.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(t) AS t FROM v")
        for i in range(3):
            mill.insert("m", [(minute(i), "a", 9)])
        assert mill["total"].rows() == [(27,)]
        with pytest.raises(NameInUse, match="read by v"):
            mill.sql(f"CREATE OR REPLACE VIEW h AS {HELPER}")
        mill.sql(ABOVE.replace("CREATE VIEW", "CREATE OR REPLACE VIEW").replace("5", "100"))
        assert mill["v"].rows() == []
        assert mill["total"].rows() == [(None,)]
        mill.sql(ABOVE.replace("CREATE VIEW", "CREATE OR REPLACE VIEW").replace("5", "1"))
        mill.insert("m", [(minute(3), "a", 9)])
        assert mill["total"].rows() == [(36,)]
        with pytest.raises(vm.ViewmillError):
            mill.sql("CREATE OR REPLACE VIEW v AS INITIALIZE v[i] AS SELECT nothing FROM h[i] "
                     "UPDATE v[j] AS SELECT k FROM h[j] PARTITION LENGTH 60")  # fmt: skip
        mill.sql(f"CREATE OR REPLACE MATERIALIZED VIEW p AS {PATTERN.replace('< 6', '< 7')}")
        assert mill["p"].verify() == []
    with vm.connect(tmp_path / "replaced.mill") as mill:
        mill.insert("m", [(minute(4), "a", 9)])
        assert mill["total"].rows() == [(45,)]
        assert mill["v"].verify() == []


def test_patterns_go_together_with_those_that_are_there_now():
    """One that reads no column, one that was replaced, one that is dropped, one that waits."""
    mill = vm.connect()
    mill.sql(
        "CREATE TABLE t (ts TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60"
    )
    start = dt.datetime(2024, 1, 1)
    select = "SELECT k, count(*) AS n, sum(x) AS s FROM t PATTERN [a, b+] WHERE b.x > PREV(b.x)"
    for name in ("p", "gone", "other"):
        mill.sql(f"CREATE VIEW {name} AS {select} GROUP BY k")
    mill.sql(f"CREATE MATERIALIZED VIEW later REFRESH ON DEMAND AS {select} GROUP BY k")
    mill.insert("t", [(start, "u", 2**62)])
    mill.sql("CREATE OR REPLACE VIEW p AS SELECT k, count(*) AS n FROM t PATTERN [a, b] GROUP BY k")
    mill.sql("DROP VIEW gone")
    mill.sql("DROP VIEW other")
    # A sum of what is not there any more does not fail the batch.
    mill.insert("t", [(start + dt.timedelta(minutes=1), "u", 2**62 + 1)])
    assert mill["p"].rows() == [("u", 2)]
    with pytest.raises(Overflow):
        mill["later"].refresh()
    assert mill["p"].verify() == []

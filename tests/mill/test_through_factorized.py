"""Queries and views over factorized views, against nested loops over the rows."""

import random
from collections import defaultdict
from typing import Any

import pytest

import viewmill as vm

TABLES = ("house", "shop", "school")
JOIN = """SELECT house.p, house.id AS h, house.x AS hx, shop.id AS s, school.id AS c, school.x AS cx
    FROM house JOIN shop ON house.p = shop.p JOIN school ON house.p = school.p"""


def make_mill(**unchecked: Any) -> vm.Mill:
    mill = vm.connect()
    for name in TABLES:
        mill.sql(f"CREATE TABLE {name} (p INT, id BIGINT, x DOUBLE)")
    mill.sql(f"CREATE MATERIALIZED VIEW near RESULT FACTORIZED AS {JOIN}")
    return mill


def make_rows(pick, n):
    return [
        (pick.choice([0, 1, 2, None]), pick.randrange(5), pick.choice([None, 0.5, 2.25]))
        for _ in range(n)
    ]


def joined(rows):
    return [
        (a[0], a[1], a[2], b[1], c[1], c[2])
        for a in rows["house"] for b in rows["shop"] for c in rows["school"]
        if a[0] is not None and a[0] == b[0] == c[0]
    ]  # fmt: skip


def summed(values):
    kept = [each for each in values if each is not None]
    return sum(kept) if kept else None


def by_place(rows):
    """What the group-bys below show, by loops."""
    groups = defaultdict(list)
    for row in rows:
        groups[row[0]].append(row)
    found = []
    for p, own in groups.items():
        hx, cx = [r[2] for r in own], [r[5] for r in own]
        there = [each for each in cx if each is not None]
        mean = sum(there) / len(there) if there else None
        odd = [r for r in own if r[4] % 2 == 1]
        found.append((
            p, len(own), sum(r[3] for r in own), summed(hx), len(there), mean,
            min(r[1] for r in own), max(there, default=None), len(odd),
        ))  # fmt: skip
    return sorted(found)


GROUPED = """SELECT p, count(*), sum(s), sum(hx), count(cx), avg(cx), min(h), max(cx),
    count(*) FILTER (WHERE c % 2 = 1) FROM near GROUP BY p"""


def test_aggregates_of_a_factorized_view_equal_loops(uncompiled):
    pick, mill = random.Random(1), make_mill()
    rows: dict[str, list[Any]] = {name: [] for name in TABLES}
    for _ in range(4):
        for name in TABLES:
            more = make_rows(pick, 6)
            mill.insert(name, more)
            rows[name] += more
        for name in TABLES:
            mill.delete(name, rows[name][:2])
            del rows[name][:2]
        every = joined(rows)
        assert sorted(mill.sql(GROUPED).rows()) == [
            pytest.approx(each, nan_ok=True) for each in by_place(every)
        ]
        few = [r for r in every if r[3] > 2 and r[1] < 4]
        assert mill.sql("SELECT count(*), sum(c) FROM near WHERE s > 2 AND h < 4").rows() == [
            (len(few), summed([r[4] for r in few]))
        ]
        assert sorted(mill.sql("SELECT * FROM near WHERE s = 3").rows(), key=repr) == sorted(
            (r for r in every if r[3] == 3), key=repr
        )
        keys = {(r[1] % 2, r[4]) for r in every}
        found = mill.sql("SELECT h % 2, c, count(*) FROM near GROUP BY h % 2, c").rows()
        assert sorted(found) == sorted(
            (a, b, sum(r[1] % 2 == a and r[4] == b for r in every)) for a, b in keys
        )
        both = mill.sql("SELECT sum(h * c), sum(DISTINCT s) FROM near").rows()
        assert both == [(summed([r[1] * r[4] for r in every]), summed({r[3] for r in every}))]
        pairs = mill.sql("SELECT count(*) FROM near AS a JOIN near AS b ON a.h = b.c").rows()
        assert pairs == [(sum(a[1] == b[4] for a in every for b in every),)]


def test_a_group_by_over_many_rows_lists_none(uncompiled):
    mill = make_mill()
    for name in TABLES:
        mill.insert(name, [(p, i, 1.0) for p in range(3) for i in range(2000)])
    assert mill["near"].count() == 3 * 2000**3
    found = mill.sql("SELECT p, count(*), sum(s) FROM near WHERE h < 5 GROUP BY p").rows()
    assert sorted(found) == [(p, 5 * 2000**2, 5 * 2000 * 1999 * 1000) for p in range(3)]


def test_a_view_over_a_factorized_view_follows_it(uncompiled):
    pick, mill = random.Random(2), make_mill()
    mill.sql("CREATE MATERIALIZED VIEW n AS SELECT p, count(*) AS n FROM near GROUP BY p")
    mill.sql("CREATE MATERIALIZED VIEW few AS SELECT h, c FROM near WHERE s = 1")
    rows: dict[str, list[Any]] = {name: [] for name in TABLES}
    calls = mill["n"].status()["engine_calls"]
    for _ in range(3):
        for name in TABLES:
            more = make_rows(pick, 4)
            mill.insert(name, more)
            rows[name] += more
        every = joined(rows)
        assert sorted(mill["n"].rows()) == sorted(
            (p, sum(r[0] == p for r in every)) for p in {r[0] for r in every}
        )
        assert sorted(mill["few"].rows()) == sorted((r[1], r[4]) for r in every if r[3] == 1)
    assert mill["n"].status()["engine_calls"] == calls
    assert mill["n"].verify() == mill["few"].verify() == []


def test_a_view_over_it_is_there_again_after_a_restart(uncompiled, tmp_path):
    with vm.connect(str(tmp_path / "m")) as mill:
        for name in TABLES:
            mill.sql(f"CREATE TABLE {name} (p INT, id BIGINT, x DOUBLE)")
        mill.sql(f"CREATE MATERIALIZED VIEW near RESULT FACTORIZED AS {JOIN}")
        mill.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM near")
        for name in TABLES:
            mill.insert(name, [(1, i, None) for i in range(3)])
    with vm.connect(str(tmp_path / "m")) as mill:
        mill.insert("shop", [(1, 9, None)])
        assert mill["n"].rows() == [(36,)]


def test_a_view_that_waits_shows_its_own_rows(uncompiled):
    mill = make_mill()
    mill.sql(f"CREATE MATERIALIZED VIEW later RESULT FACTORIZED REFRESH ON DEMAND AS {JOIN}")
    for name in TABLES:
        mill.insert(name, [(1, 1, 1.0)])
    assert mill.sql("SELECT p, count(*) FROM later GROUP BY p").rows() == []
    mill["later"].refresh()
    assert mill.sql("SELECT p, count(*) FROM later GROUP BY p").rows() == [(1, 1)]
    with pytest.raises(vm.ViewmillError, match="no view can be kept over it"):
        mill.sql("CREATE MATERIALIZED VIEW n AS SELECT p FROM later")

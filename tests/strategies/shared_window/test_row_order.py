"""Windows of rows count rows by TIMESTAMP BY, then by arrival, also those that come late."""

import datetime as dt
import random
from collections import Counter, defaultdict

import pytest

import viewmill as vm

START = dt.datetime(2024, 1, 1)


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def expected(held, size, slide):
    ordered = sorted(held, key=lambda row: (row[0] is not None, row[0] or START))
    end = len(held) // slide * slide
    groups = defaultdict(list)
    for _, k, x in ordered[max(0, end - size) : end]:
        if x > -20:
            groups[k].append(x)
    return {(k, sum(xs), xs[0], xs[-1], max(xs)) for k, xs in groups.items()}


@pytest.mark.parametrize(("size", "slide"), [(10, 4), (3, 7), (5, 5), (20, 1)])
def test_late_rows_take_their_place_among_the_rows(size, slide):
    chance = random.Random(size)
    with vm.connect() as mill:
        mill.sql(
            "CREATE TABLE s (ts TIMESTAMP, k BIGINT, x BIGINT) APPEND ONLY TIMESTAMP BY TS;"
            "CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS t, first(x) AS f, last(x) AS l,"
            f" max(x) AS h FROM s [WINDOW {size} ROWS SLIDE {slide} ROWS] WHERE x > -20 GROUP BY k;"
            "CREATE MATERIALIZED VIEW other AS SELECT count(10 / (x - 1000)) AS t FROM s"
        )
        heard: Counter[tuple[object, ...]] = Counter()
        mill["v"].subscribe(lambda change: hear(change, heard))
        held, number = [], 0
        for step in range(24):
            rows = []
            for _ in range(chance.randint(1, 6)):
                number += 1
                late = chance.randint(0, 30) if step % 4 == 3 else 200 * (step == 17)
                moment = START + dt.timedelta(seconds=number - late)
                rows.append((moment if chance.random() > 0.02 else None, number % 3, number % 71))
            if step % 6 == 5:
                with pytest.raises(vm.ViewmillError, match="zero"):
                    mill.insert("s", [*rows, (START, 1, 1000)])
            mill.insert("s", rows)
            held += rows
            found = mill["v"].rows()
            assert set(found) == expected(held, size, slide)
            assert +heard == Counter(found)
            assert not -heard
            assert mill["v"].verify() == []
        assert mill["v"].status()["late_rows"] > 0
        assert mill["v"].status()["engine_calls"] <= 24


def hear(change, heard):
    for row in change.to_arrow().to_pylist():
        times = row.pop("_multiplicity")
        heard[tuple(row.values())] += times

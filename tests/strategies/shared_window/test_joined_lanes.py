"""Views whose WHERE or GROUP BY differ share partials: fragments of rows, finished by each view."""

import datetime as dt
import random
from collections import Counter
from typing import Any

import pytest

import viewmill as vm
from viewmill.mill.readers import rows_of

EPOCH = dt.datetime(2024, 1, 1)
TABLE = "CREATE TABLE s (t TIMESTAMP, k STRING, j BIGINT, x BIGINT, d DOUBLE) TIMESTAMP BY t"
SHOWN = {
    "inverse": "sum(x) AS a, count(*) AS n, avg(x) AS m",
    "selective": "max(x) AS a, min(d) AS b, max_by(j, x) AS c, count(*) AS n",
    "any": "stddev_pop(d) AS a, sum(d) AS b, max(x) AS c, count(x) AS n",
}
WHERE = ["", "WHERE x > 1", "WHERE k <> 'a'", "WHERE x > 1 AND j = 0", "WHERE d IS NULL OR x > 2"]
KEYS = ["", "k", "j", "k, j"]


@pytest.fixture
def mill(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as mill:
        mill.sql(TABLE)
        yield mill


def view(mill, name, shown, where="", keys="", window="10 SECONDS SLIDE 2 SECONDS"):
    by = f"GROUP BY {keys}" if keys else ""
    columns = f"{keys}, {shown}" if keys else shown
    mill.sql(
        f"CREATE MATERIALIZED VIEW {name} AS SELECT {columns} FROM s [WINDOW {window}] {where} {by}"
    )


def rows(chance, now, count):
    made = []
    for _ in range(count):
        x = chance.choice([None, 1, 2, 3, -4])
        time = EPOCH + dt.timedelta(seconds=max(0, now - chance.choice([0, 0, 1, 8])))
        d = chance.choice([None, 0.5, 2.25])
        made.append((time, chance.choice(["a", "b", None]), chance.randint(0, 2), x, d))
    return made


@pytest.mark.parametrize("kind", SHOWN)
@pytest.mark.parametrize("seed", [1, 2])
def test_views_with_other_predicates_and_keys_are_right(mill, kind, seed):
    chance = random.Random(seed)
    live: list[tuple[object, ...]] = []
    names: list[str] = []
    now = count = 0
    told: dict[str, list[Any]] = {}
    before: dict[str, list[Any]] = {}
    for step in range(12):
        if step < 6 or chance.random() < 0.2:
            count += 1
            size, slide = chance.choice([(10, 2), (7, 3), (4, 4)])
            window = f"{size} SECONDS SLIDE {slide} SECONDS"
            name = f"v{count}"
            view(mill, name, SHOWN[kind], chance.choice(WHERE), chance.choice(KEYS), window)
            names.append(name)
            if chance.random() < 0.4:
                before[name], told[name] = mill[name].rows(), []
                mill[name].subscribe(told[name].append)
        elif len(names) > 2 and chance.random() < 0.2:
            gone = names.pop(chance.randrange(len(names)))
            told.pop(gone, None)
            mill.sql(f"DROP MATERIALIZED VIEW {gone}")
        now += chance.randint(0, 5)
        if live and chance.random() < 0.3:
            out = chance.sample(live, min(3, len(live)))
            mill.delete("s", out)
            for each in out:
                live.remove(each)
        new = rows(chance, now, chance.randint(1, 6))
        mill.insert("s", new)
        live += new
        if step % 3 == 2:
            wrong = {name: found for name in names if (found := mill[name].verify())}
            assert wrong == {}
    for name, changes in told.items():
        bag = Counter(repr(row) for row in before[name])
        for change in changes:
            for *row, m in rows_of(change.to_arrow()):
                bag[repr(tuple(row))] += m
        now_shown = Counter(repr(row) for row in mill[name].rows())
        assert {row: m for row, m in bag.items() if m} == now_shown


def test_explain_says_what_is_shared(mill):
    view(mill, "a", "sum(x) AS t")
    view(mill, "b", "sum(x) AS t", "WHERE x > 1")
    view(mill, "c", "sum(x) AS t", "WHERE j = 0", "k")
    mill.insert("s", rows(random.Random(1), 20, 40))
    assert mill["a"].status()["shares_with"] == ["b", "c"]
    facts = mill["c"].explain()["windows"][0]
    assert facts["lane"]["kinds"] == 3
    assert facts["lane"]["predicates"] == 2
    assert facts["lane"]["keys"] == 1
    text = mill["a"].explain()
    assert "rows are cut once for 3 kinds of views" in text
    assert "C = λ + Σ (F - G) / pause" in text
    assert [mill[name].verify() for name in "abc"] == [[], [], []]
    mill.sql("DROP MATERIALIZED VIEW b")
    mill.sql("DROP MATERIALIZED VIEW c")
    assert mill["a"].status()["shares_with"] == []
    assert mill["a"].verify() == []


def test_too_many_fragments_end_the_sharing(mill):
    """A view without keys does not pay for each of a million users, nor for their predicates."""
    mill.sql("CREATE TABLE u (t TIMESTAMP, who BIGINT, x BIGINT) TIMESTAMP BY t APPEND ONLY")
    window = "[WINDOW 1000 SECONDS SLIDE 1 SECOND]"
    mill.sql(f"CREATE MATERIALIZED VIEW everyone AS SELECT sum(x) AS t FROM u {window}")
    mill.sql(
        f"CREATE MATERIALIZED VIEW each AS SELECT who, sum(x) AS t FROM u {window} GROUP BY who"
    )
    mill["everyone"].subscribe(lambda _: None)
    mill.insert("u", [(EPOCH, 1, 1)])
    assert mill["everyone"].status()["shares_with"] == ["each"]
    for i in range(4):
        at = EPOCH + dt.timedelta(seconds=i)
        mill.insert("u", [(at, 1000 * i + j, 1) for j in range(1000)])
    assert mill["everyone"].status()["shares_with"] == []
    assert mill["everyone"].verify() == mill["each"].verify() == []
    assert mill["everyone"].explain()["windows"][0]["lane"] is None


def test_what_may_fail_is_computed_for_the_rows_of_its_view_only(mill):
    view(mill, "all_rows", "sum(x) AS t")
    view(mill, "some", "sum(12 DIV x) AS t", "WHERE x <> 0")
    mill.insert("s", [(EPOCH, "a", 0, 0, None), (EPOCH, "a", 0, 3, None)])
    mill.insert("s", [(EPOCH + dt.timedelta(seconds=30), "a", 0, 0, None)])
    assert mill["some"].verify() == mill["all_rows"].verify() == []
    assert mill["some"].status()["shares_with"] == []


def test_more_predicates_than_a_word_has_bits(mill):
    for i in range(70):
        view(mill, f"v{i}", "sum(x) AS t", f"WHERE x > {i}")
    mill.insert("s", [(EPOCH + dt.timedelta(seconds=i), "a", 0, i, None) for i in range(100)])
    for i in (0, 61, 62, 69):
        assert mill[f"v{i}"].verify() == []
        assert mill[f"v{i}"].status()["shares_with"]

"""Equal blocks of different views are one block, and no view suffers from another's end."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import viewmill as vm
from viewmill.mill.mill import Mill

TOTALS = "SELECT o.who, SUM(l.price) AS total FROM o JOIN l ON o.id = l.id GROUP BY o.who"
VIEWS = {
    "best": f"SELECT who, total FROM ({TOTALS}) AS t ORDER BY total DESC LIMIT 2",
    "large": f"SELECT t.who, t.total, n FROM ({TOTALS}) AS t "
    "JOIN (SELECT who, COUNT(*) AS n FROM o GROUP BY who) AS c ON t.who = c.who",
    "best_again": f"SELECT who, total FROM ({TOTALS}) AS t ORDER BY total DESC LIMIT 2",
}


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


@pytest.fixture
def mill() -> Iterator[Mill]:
    with vm.connect() as made:
        prepare(made)
        yield made


def prepare(mill: Mill) -> None:
    mill.sql("CREATE TABLE o (id BIGINT, who STRING); CREATE TABLE l (id BIGINT, price BIGINT)")
    mill.insert("o", [(i, "abcde"[i % 5]) for i in range(40)])
    mill.insert("l", [(i % 40, i % 9) for i in range(90)])


def change(mill: Mill, seed: int) -> None:
    chance = random.Random(seed)
    with mill.batch():
        mill.insert("l", [(chance.randrange(40), chance.randrange(30)) for _ in range(4)])
        mill.delete("l", [(i % 40, i % 9) for i in (seed * 7 % 90,)])
        mill.insert("o", [(100 + seed, "abc"[seed % 3])])


def check(mill: Mill) -> None:
    for name in mill.views():
        view = mill[name]
        assert view.verify() == [], name
        assert view.status()["rows"] == len(view.rows())


def create(mill: Mill, *names: str) -> None:
    for name in names:
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")


def blocks(mill: Mill) -> int:
    return len({id(b) for name in mill.views() for b in mill.core.catalog.view(name).blocks})


def test_equal_blocks_are_one_and_explain_says_so(mill: Mill) -> None:
    create(mill, "best")
    alone = blocks(mill)
    create(mill, "large")
    assert blocks(mill) == alone + 2
    assert mill["best"].status()["shares_with"] == ["large"]
    assert "shared   with best" in str(mill["large"].explain())
    held = mill["large"].explain("json")["blocks"]
    assert [each["shared_with"] for each in held] == [["best"], [], []]
    for seed in range(3):
        change(mill, seed)
        check(mill)


def test_an_equal_view_costs_nothing_more(mill: Mill) -> None:
    create(mill, "best")
    alone = blocks(mill)
    create(mill, "best_again")
    assert blocks(mill) == alone
    assert mill["best_again"].status()["engine_calls"] == 0
    heard: list[object] = []
    mill["best_again"].subscribe(heard.append)
    for seed in range(4):
        change(mill, seed)
        check(mill)
        assert mill["best"].rows() == mill["best_again"].rows()
    assert mill["best_again"].status()["refreshes"] == mill["best"].status()["refreshes"] == 4


@pytest.mark.parametrize("gone", VIEWS)
def test_any_view_may_go_first_and_its_name_come_again(mill: Mill, gone: str) -> None:
    create(mill, *VIEWS)
    change(mill, 1)
    mill.sql(f"DROP MATERIALIZED VIEW {gone}")
    for seed in (2, 3):
        change(mill, seed)
        check(mill)
    assert gone not in {v for n in mill.views() for v in mill[n].status()["shares_with"]}
    mill.sql(f"CREATE MATERIALIZED VIEW {gone} AS SELECT who, COUNT(*) AS n FROM o GROUP BY who")
    mill.sql(f"CREATE MATERIALIZED VIEW reader AS SELECT COUNT(*) AS k, SUM(n) AS s FROM {gone}")
    change(mill, 4)
    check(mill)
    mill.sql("DROP MATERIALIZED VIEW reader")
    for name in list(mill.views()):
        mill.sql(f"DROP MATERIALIZED VIEW {name}")
        change(mill, 5 + len(mill.views()))
        check(mill)
    assert blocks(mill) == 0


def test_views_over_equal_views_follow_both(mill: Mill) -> None:
    create(mill, "best", "best_again")
    mill.sql("CREATE MATERIALIZED VIEW a AS SELECT SUM(total) AS s FROM best")
    mill.sql("CREATE MATERIALIZED VIEW b AS SELECT SUM(total) AS s FROM best_again")
    for seed in range(3):
        change(mill, seed)
        check(mill)
        assert mill["a"].rows() == mill["b"].rows()


def test_a_view_that_goes_its_own_way_takes_blocks_of_its_own(mill: Mill) -> None:
    create(mill, *VIEWS)
    mill.sql("ALTER MATERIALIZED VIEW large REFRESH ON DEMAND")
    assert mill["large"].status()["shares_with"] == []
    change(mill, 1)
    assert mill["large"].status()["freshness"] == "stale"
    mill["best"].refresh(full=True)
    assert mill["best"].status()["shares_with"] == []
    change(mill, 2)
    mill["large"].refresh()
    check(mill)


def test_a_replaced_view_leaves_the_shared_block_to_the_other(mill: Mill) -> None:
    create(mill, "best", "large")
    mill.sql("CREATE OR REPLACE MATERIALIZED VIEW best AS SELECT who, id AS total FROM o")
    assert mill["large"].status()["shares_with"] == []
    change(mill, 1)
    check(mill)
    mill.sql(f"CREATE OR REPLACE MATERIALIZED VIEW best AS {VIEWS['best']}")
    assert mill["large"].status()["shares_with"] == ["best"]
    change(mill, 2)
    check(mill)


def test_a_refused_batch_changes_no_view_that_shares(mill: Mill) -> None:
    create(mill, *VIEWS)
    before = {name: mill[name].rows() for name in mill.views()}
    with pytest.raises(vm.errors.MissingRow):
        mill.delete("l", [(0, 0), (77, 77)])
    assert before == {name: mill[name].rows() for name in mill.views()}
    change(mill, 1)
    check(mill)


def test_sharing_comes_back_when_a_mill_is_opened_again(tmp_path) -> None:
    with vm.connect(tmp_path / "m") as mill:
        prepare(mill)
        create(mill, *VIEWS)
        change(mill, 1)
        mill.sql("DROP MATERIALIZED VIEW best")
    with vm.connect(tmp_path / "m") as mill:
        assert mill["large"].status()["shares_with"] == ["best_again"]
        change(mill, 2)
        check(mill)


def test_equal_subqueries_of_one_view_are_one_block(mill: Mill) -> None:
    counts = "SELECT who, COUNT(*) AS n FROM o GROUP BY who"
    mill.sql(
        f"CREATE MATERIALIZED VIEW most AS SELECT a.who FROM ({counts}) AS a "
        f"JOIN (SELECT MAX(n) AS top FROM ({counts}) AS c) AS b ON a.n = b.top"
    )
    for seed in range(4):
        change(mill, seed)
        check(mill)

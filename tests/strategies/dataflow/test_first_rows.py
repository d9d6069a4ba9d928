"""The first rows of an order, among many: rows come and go before, behind and at the border."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pytest

import viewmill as vm

Row = tuple[object, ...]

COLUMNS = "k BIGINT, x DOUBLE, s STRING, d DECIMAL(12,2)"
VIEWS = {
    "best": "SELECT s, k, x FROM t ORDER BY x DESC NULLS LAST, s LIMIT 7 OFFSET 3",
    "named": "SELECT s, d FROM t WHERE k > 2 ORDER BY s DESC NULLS FIRST, d LIMIT 40",
    "sums": "SELECT s, sum(d) AS v FROM t GROUP BY s ORDER BY v DESC LIMIT 5",
    "none": "SELECT k FROM t ORDER BY k LIMIT 0",
}


def rows(source: random.Random, count: int) -> list[Row]:
    """Rows with equal ones, NULLs, and floats of all kinds among them."""

    def maybe(value: object) -> object:
        return None if source.random() < 0.05 else value

    floats = [source.gauss(0, 100) for _ in range(9)] + [0.0, -0.0, float("nan"), float("inf")]
    return [
        (
            maybe(source.randrange(9)), maybe(source.choice(floats)),
            maybe("name " + str(source.randrange(400))),
            maybe(Decimal(source.randrange(-500, 500)) / 100),
        )
        for _ in range(count)
    ]  # fmt: skip


class Many:
    """A table, the views over it, and the rows that it holds."""

    def __init__(self, path: Path | None = None) -> None:
        self.source = random.Random(4)
        self.mill = vm.connect() if path is None else vm.connect(path)
        self.live: list[Row] = []

    def create(self) -> None:
        """Make the views over an empty table."""
        self.mill.sql(f"CREATE TABLE t ({COLUMNS}) UNCHECKED")
        for name, query in VIEWS.items():
            policy = "REFRESH POLICY INCREMENTAL STRICT"
            self.mill.sql(f"CREATE MATERIALIZED VIEW {name} {policy} AS {query}")

    def insert(self, count: int) -> None:
        """New rows, some of them twice."""
        new = rows(self.source, count)
        new += new[: count // 4]
        self.mill.insert("t", new)
        self.live += new

    def delete(self, count: int) -> None:
        """Any rows."""
        self.source.shuffle(self.live)
        self.mill.delete("t", self.live[:count])
        del self.live[:count]

    def delete_shown(self) -> None:
        """The very rows that are shown."""
        shown = {row[:3] for row in self.mill["best"].rows()}
        gone = [row for row in self.live if (row[2], row[0], row[1]) in shown]
        self.mill.delete("t", gone)
        for row in gone:
            self.live.remove(row)

    def verify(self) -> None:
        """All views equal recompute."""
        for name in VIEWS:
            assert self.mill[name].verify() == [], name


def test_many_rows_come_and_go() -> None:
    many = Many()
    many.create()
    for size in (3, 5, 400, 900):
        many.insert(size)
        many.verify()
    for size in (1, 700, 30):
        many.delete(size)
        many.delete_shown()
        many.verify()
        many.insert(50)
        many.verify()
    many.delete(len(many.live))
    many.verify()
    assert [len(many.mill[name]) for name in VIEWS] == [0, 0, 0, 0]
    many.insert(20)
    many.verify()


def test_a_mill_goes_on_where_it_stopped(tmp_path: Path) -> None:
    many = Many(tmp_path / "m.mill")
    many.create()
    many.insert(500)
    many.delete(100)
    many.mill.close()
    many.mill = vm.connect(tmp_path / "m.mill")
    many.verify()
    many.insert(30)
    many.delete_shown()
    many.verify()
    many.mill.close()


def test_a_refused_batch_leaves_the_order_as_it_was() -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE t (k INT, v INT) UNCHECKED")
    query = "SELECT k, 10 / v AS q FROM t ORDER BY q DESC, k LIMIT 2"
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {query}")
    mill.insert("t", [(1, 1), (2, 2), (3, 5), (4, 4)])
    before = sorted(mill["v"].rows())
    with pytest.raises(vm.ViewmillError):
        mill.insert("t", [(5, 1), (0, 1), (6, 0)])
    assert sorted(mill["v"].rows()) == before
    mill.delete("t", [(1, 1)])
    assert mill["v"].verify() == []

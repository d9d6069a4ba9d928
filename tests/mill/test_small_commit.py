"""A few rows of one table take a short way, which must lead to the same place as the long one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.errors import ViewmillError
from viewmill.runtime.in_process.runtime import InProcessRuntime

_TABLE = "CREATE TABLE t (k BIGINT, g STRING, x BIGINT) UNCHECKED"
# Two blocks: the first one's changes are lent to the second.
_TOP = """CREATE MATERIALIZED VIEW top AS
SELECT g, s, 1000 DIV (s - 7) AS d FROM (SELECT g, SUM(x) AS s FROM t GROUP BY g)
ORDER BY s DESC, g LIMIT 3"""


def _rows(*rows: tuple[int | None, str | None, int | None]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    types = pa.int64(), pa.string(), pa.int64()
    arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
    return pa.table(arrays, names=["k", "g", "x"])


@pytest.fixture(params=["off", "on"], ids=["plain", "compiled"])
def mill(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> vm.Mill:
    monkeypatch.setenv("VIEWMILL_COMPILER", request.param)
    mill = vm.connect()
    mill.sql(_TABLE)
    mill.sql(_TOP)
    return mill


_BATCHES = [
    _rows((1, "a", 1), (2, "b", 20), (3, "c", 3)),
    _rows((4, "a", 30), (5, None, 5), (6, "d", None)),
    _rows((7, None, None), (8, "b", -19), (9, "e", 2), (10, "f", 40)),
    _rows((11, "f", -39), (12, "c", 100)),
]


def test_short_and_long_way_agree(mill: vm.Mill) -> None:
    with vm.connect() as other:
        other.sql(_TABLE)
        other.sql(_TOP)
        for rows in _BATCHES:
            mill.insert("t", rows)
            with other.batch():
                other.insert("t", rows)
            assert list(mill.view("top")) == list(other.view("top"))
            assert mill.view("top").verify() == []
        kept = "version", "refresh_kind", "rows", "engine_calls"
        one, two = mill.view("top").status(), other.view("top").status()
        assert [one[each] for each in kept] == [two[each] for each in kept]


def test_a_failure_in_a_later_block_undoes_the_earlier_one(mill: vm.Mill) -> None:
    mill.insert("t", _BATCHES[0])
    before = list(mill.view("top"))
    with pytest.raises(ViewmillError):
        mill.insert("t", _rows((20, "g", 50), (21, "h", 7)))  # s - 7 is 0
    assert list(mill.view("top")) == before
    assert mill.sql("SELECT COUNT(*) AS n FROM t").rows() == [(3,)]
    for rows in _BATCHES[1:]:
        mill.insert("t", rows)
    assert mill.view("top").verify() == []


def test_listeners_keep_what_they_got(mill: vm.Mill) -> None:
    got: list[Any] = []
    mill.view("top").subscribe(lambda change: got.append(change))
    for rows in _BATCHES:
        mill.insert("t", rows)
    total: dict[tuple[Any, ...], int] = {}
    for change in got:
        for row, times in change:
            total[tuple(row)] = total.get(tuple(row), 0) + times
    assert {row for row, n in total.items() if n} == set(mill.view("top"))


@pytest.mark.usefixtures("uncompiled")
def test_the_way_of_rows_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether there is a short way, or none because a block reads the table twice."""
    looked: list[str] = []
    look = InProcessRuntime._single_input_route

    def counted(self: InProcessRuntime, table: str) -> Any:
        looked.append(table)
        return look(self, table)

    monkeypatch.setattr(InProcessRuntime, "_single_input_route", counted)
    with vm.connect() as made:
        made.sql(_TABLE)
        made.sql("CREATE TABLE u (k BIGINT, x BIGINT) UNCHECKED")
        made.sql("CREATE MATERIALIZED VIEW v AS SELECT a.x FROM u a JOIN u b ON a.k = b.x")
        made.sql("CREATE MATERIALIZED VIEW w AS SELECT g, sum(x) AS s FROM t GROUP BY g")
        for _ in range(3):
            made.insert("u", [(1, 2), (2, 1)])
            made.insert("t", [(1, "a", 2)])
        assert made["v"].verify() == made["w"].verify() == []
    assert sorted(looked) == ["t", "u"]


_CHANGES: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("insert", [(1, "a", 1.5)]),
    ("insert", [(2, "b", -0.0), (3, None, 2.5)]),
    ("insert", [(1, "c", 1.0)]),  # a key that is there
    ("delete", [(2, "b", 0.0)]),
    ("delete", [(9, "b", 0.0)]),  # a row that is not
    ("upsert", [(3, "d", None), (4, "a", 8.0)]),
    ("insert", [(5, "a", 0.5), (6, "a", -10.0)]),  # 1 DIV 0
    ("insert", [(7, "e", 0.25)]),
]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("option", ["PRIMARY KEY (k)", "", "UNCHECKED", "APPEND ONLY"])
def test_short_and_long_way_agree_in_a_durable_mill(option: str, tmp_path: Path) -> None:
    comma = ", " if option.startswith("PRIMARY") else ") "
    end = ")" if option.startswith("PRIMARY") else ""
    table = f"CREATE TABLE t (k BIGINT NOT NULL, g STRING, x DOUBLE{comma}{option}{end}"
    view = """CREATE MATERIALIZED VIEW v AS
        SELECT g, COUNT(*) AS n, 1 DIV CAST(SUM(x) AS BIGINT) AS d FROM t GROUP BY g"""

    def play(path: Path, is_short: bool) -> list[Any]:
        seen: list[Any] = []
        with vm.connect(path) as mill:
            mill.sql(table)
            mill.sql(view)
            for method, rows in _CHANGES:
                try:
                    if is_short:
                        getattr(mill, method)("t", rows)
                    else:
                        with mill.batch():
                            getattr(mill, method)("t", rows)
                except ViewmillError as why:
                    seen.append((type(why), str(why)))
                seen.append((mill.version, sorted(map(repr, mill["v"].rows()))))
            assert mill["v"].verify() == []
        with vm.connect(path) as mill:
            rows = mill.sql("SELECT * FROM t").rows()
            seen.append(
                (mill.version, sorted(map(repr, rows)), sorted(map(repr, mill["v"].rows())))
            )
        return seen

    short = play(tmp_path / "short", True)
    assert short == play(tmp_path / "long", False)
    assert any(isinstance(each[0], type) for each in short)

"""Views that start interpreted and go over to compiled kernels."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewmill as vm
from viewmill.kernels.background.queue import CompileQueue
from viewmill.program.program import Triggers

TABLES = """
CREATE TABLE r (k INT, g STRING, x BIGINT, f DOUBLE, d DECIMAL(30,4)) UNCHECKED;
CREATE TABLE s (k INT, h STRING, y BIGINT, PRIMARY KEY (k, h));
"""
# One view for each kind of state and strategy.
VIEWS = {
    "groups": "SELECT g, SUM(x) AS a, COUNT(*) AS n, AVG(f) AS m, MAX(x) AS b FROM r GROUP BY g",
    "wide": "SELECT g, SUM(d * x) AS a FROM r GROUP BY g",
    "tree": "SELECT s.h, SUM(r.x * s.y) AS a, SUM(r.f) AS b FROM r JOIN s ON r.k = s.k"
    " GROUP BY s.h",
    "padded": "SELECT r.g, s.h, COUNT(*) AS n FROM r LEFT JOIN s ON r.k = s.k GROUP BY r.g, s.h",
    "nested": "SELECT SUM(x) AS a FROM r WHERE"
    " (SELECT SUM(b.x) FROM r b WHERE b.x <= r.x) > (SELECT 0.4 * SUM(c.x) FROM r c)",
    "ranked": "SELECT * FROM (SELECT k, g, x, row_number() OVER"
    " (PARTITION BY g ORDER BY x DESC, k) AS p FROM r) WHERE p <= 2",
    "texts": "SELECT upper(g) AS u, COUNT(DISTINCT k) AS n FROM r WHERE g > 'b' GROUP BY upper(g)",
    "first3": "SELECT k, x FROM r ORDER BY x DESC, k LIMIT 3",
}


def row(source: random.Random) -> tuple[Any, ...]:
    word = source.choice(["a", "b", "ß", "cc", None])
    number = source.choice([0.1, 1e15, -1e15, 3.5, None])
    return (
        source.randint(0, 4),
        word,
        source.randint(-9, 9),
        number,
        Decimal(source.randint(0, 10**20)) / 4,
    )


def change(mill: vm.Mill, source: random.Random, held: list[tuple[Any, ...]]) -> None:
    rows = [row(source) for _ in range(source.randint(1, 6))]
    mill.insert("r", rows)
    held += rows
    gone = [held.pop(source.randrange(len(held))) for _ in range(source.randint(0, 3)) if held]
    mill.delete("r", gone)
    mill.upsert("s", [(source.randint(0, 4), source.choice("pq"), source.randint(0, 9))])


def check(mill: vm.Mill) -> None:
    for name in VIEWS:
        assert mill[name].verify() == [], name


def switch_to_compiled(mill: vm.Mill) -> None:
    core = mill.core
    for name in VIEWS:
        for block in core.catalog.view(name).blocks:
            if isinstance(block.program.body, Triggers) and not block.maintainer.compiled:
                core.tiers.switch_to_compiled(core, block.maintainer)


@pytest.mark.xdist_group("tiers")  # one process compiles for all of them
@pytest.mark.parametrize("seed", range(4))
def test_a_view_goes_over_to_compiled_kernels_between_any_two_batches(seed: int) -> None:
    source, held = random.Random(seed), list[tuple[Any, ...]]()
    with vm.connect(compile="off") as mill:
        mill.sql(TABLES)
        for name, query in VIEWS.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert {mill[name].status()["tier"] for name in VIEWS} == {"interpreted"}
        for _ in range(source.randint(1, 5)):
            change(mill, source, held)
        check(mill)
        before = {name: sorted(map(repr, mill[name].rows())) for name in VIEWS}
        switch_to_compiled(mill)
        assert {mill[name].status()["tier"] for name in VIEWS} == {"compiled"}
        assert before == {name: sorted(map(repr, mill[name].rows())) for name in VIEWS}
        for _ in range(5):
            change(mill, source, held)
            check(mill)
        mill.delete("r", held)
        assert mill["groups"].rows() == mill["wide"].rows() == []


def test_a_float_sum_keeps_every_digit_when_its_view_goes_over() -> None:
    with vm.connect(compile="off") as mill:
        mill.sql("CREATE TABLE t (x DOUBLE)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s FROM t")
        mill.insert("t", [(0.1,), (1e300,), (1e-300,), (1.0,), (1e16,)])
        (block,) = mill.core.catalog.view("v").blocks
        mill.core.tiers.switch_to_compiled(mill.core, block.maintainer)
        mill.delete("t", [(1e300,), (1e16,), (1.0,), (0.1,)])
        assert mill["v"].rows() == [(1e-300,)]


def test_levels_of_floats_keep_every_digit_when_their_view_goes_over() -> None:
    """The levels of a nested aggregate went over as one rounded float each: 0.0 for 0.1."""
    query = (
        "SELECT SUM(x) AS s FROM t a WHERE "
        "(SELECT SUM(b.w) FROM t b WHERE b.p <= a.p) > (SELECT 0.5 * SUM(c.w) FROM t c)"
    )
    with vm.connect(compile="off") as mill:
        mill.sql("CREATE TABLE t (p BIGINT, w DOUBLE, x DOUBLE)")
        mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY aggregate_index AS {query}")
        mill.insert("t", [(1, 1.0, 0.1), (2, 3.0, 0.7), (2, 1.0, 1e10), (2, 1.0, 3e10)])
        for block in mill.core.catalog.view("v").blocks:
            mill.core.tiers.switch_to_compiled(mill.core, block.maintainer)
        assert mill["v"].status()["tier"] == "compiled"
        mill.delete("t", [(2, 1.0, 1e10), (2, 1.0, 3e10)])
        assert mill["v"].rows() == [(0.7,)]


COLD = """
import sys, time
import viewmill as vm
mill = vm.connect(sys.argv[1] if len(sys.argv) > 1 else None)
mill.sql("CREATE TABLE t (g STRING, x BIGINT, PRIMARY KEY (x))")
mill.sql("CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS s FROM t GROUP BY g")
mill.insert("t", [("a", 1), ("b", 2)])
print(mill["v"].status()["tier"], sorted(mill["v"].rows()), flush=True)
x = 2
while mill["v"].status()["tier"] == "compiling":
    x += 1
    mill.insert("t", [("a", x)])
print(mill["v"].status()["tier"], mill["v"].rows() and mill["v"].verify(), flush=True)
mill.insert("t", [("b", x + 1)])
print(mill["v"].verify(), flush=True)
"""


def run(cache: Path, *arguments: str, **environment: str) -> list[str]:
    known = {**os.environ, "VIEWMILL_CACHE": str(cache), "VIEWMILL_COMPILER": "background"}
    done = subprocess.run(
        [sys.executable, "-c", COLD, *arguments],
        env=known | environment, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_an_empty_cache_does_not_keep_a_view_waiting(tmp_path: Path) -> None:
    assert run(tmp_path / "cache") == [
        "compiling [('a', 1), ('b', 2)]",
        "compiled []",
        "[]",
    ]
    # The next process finds the kernels.
    assert run(tmp_path / "cache")[0] == "compiled [('a', 1), ('b', 2)]"


def test_the_compiler_can_be_waited_for_and_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for mode, tier in (("now", "compiled"), ("off", "interpreted")):
        with vm.connect(compile=mode) as mill:
            mill.sql("CREATE TABLE t (x BIGINT)")
            mill.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s FROM t")
            assert mill["v"].status()["tier"] == tier
            assert mill.wait_until_compiled(timeout=0)
    with pytest.raises(vm.ViewmillError, match="compile=never is not known"):
        vm.connect(compile="never")
    monkeypatch.setenv("VIEWMILL_COMPILER", "maybe")
    with pytest.raises(vm.ViewmillError, match="VIEWMILL_COMPILER=maybe is not known"):
        vm.connect()


def test_a_helper_that_dies_leaves_the_view_interpreted_and_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr("viewmill.kernels.background.queue._QUEUES", [CompileQueue()])
    with vm.connect(compile="background") as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        monkeypatch.setattr("viewmill.kernels.background.warm.cache_directory", lambda: tmp_path)
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT x, COUNT(*) AS n FROM t GROUP BY x")
        mill.insert("t", [(1,)])
        assert mill.wait_until_compiled(timeout=60)
        mill.insert("t", [(1,)])
        assert mill["v"].status()["tier"] == "interpreted"
        assert mill["v"].rows() == [(1, 2)]
        assert "the compiling process died" in mill["v"].explain()
    assert "stays interpreted" in caplog.text


def test_a_large_batch_waits_for_the_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("viewmill.kernels.background.warm.cache_directory", lambda: tmp_path)
    with vm.connect(compile="background") as mill:
        mill.sql("CREATE TABLE t (x BIGINT) UNCHECKED")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s FROM t")
        assert mill["v"].status()["tier"] == "compiling"
        mill.insert("t", [(1,)])
        mill.insert("t", [(i,) for i in range(60_000)])
        assert mill["v"].status()["tier"] == "compiled"
        assert mill["v"].rows() == [(1 + sum(range(60_000)),)]


def test_a_kill_while_compiling_loses_nothing(tmp_path: Path) -> None:
    code = COLD.replace(
        'mill.insert("t", [("a", x)])', "mill.insert('t', [('a', x)]); print(x, flush=True)"
    )
    environment = {**os.environ, "VIEWMILL_CACHE": str(tmp_path), "VIEWMILL_COMPILER": "background"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "m")],
        env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    end, seen = time.monotonic() + 2, 2
    while time.monotonic() < end:
        line = process.stdout.readline()
        seen = int(line) if line.strip().isdigit() else seen
    process.kill()
    process.communicate()
    with vm.connect(str(tmp_path / "m")) as mill:
        (largest,) = mill.sql("SELECT MAX(x) FROM t").rows()[0]
        assert largest >= seen
        assert mill["v"].verify() == []


def test_a_helper_ends_with_the_process_that_started_it() -> None:
    """One that was killed left its helper compiling; here the parent is another process already."""
    command = [sys.executable, "-m", "viewmill.kernels.background.process", "-1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as helper:  # which it can still read
        assert helper.wait(60) == 1

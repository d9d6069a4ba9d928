"""Uses what the recipes added to a copy of the project; prints what came out by kind, as JSON."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import viewmill as vm
from viewmill.algebra.relations import Values
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT
from viewmill.cli import main
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.kernels import build, structures
from viewmill.kernels.new_stores import new_store
from viewmill.program import states
from viewmill.program.program import Input, Program, Trigger, Triggers
from viewmill.testing.golden import Script

VIEW = "CREATE MATERIALIZED VIEW"
STRICT = "REFRESH POLICY INCREMENTAL STRICT"

COUNTED = """
def on_t(start, size, multiplicity, s, texts, errors):
    for i in range(start, size):
        tally_add(s, multiplicity[i])
    return size


def flush(start, s, out, texts, errors):
    if tally_old(s) != tally_now(s):
        emit_word(out, 0, tally_old(s))
        emit(out, -1)
        emit_word(out, 0, tally_now(s))
        emit(out, 1)
    return -1


def contents(start, s, out, texts, errors):
    return -1
"""


def aggregate(mill: vm.Mill) -> Any:
    mill.sql(
        "CREATE TABLE r (g INT, x INT); CREATE TABLE u (g INT, w INT);"
        "CREATE TABLE a (x INT) APPEND ONLY"
    )
    queries = {
        "groups": "SELECT g, count_positive(x) AS n FROM r GROUP BY g",
        "joined": "SELECT w, count_positive(x) AS n FROM r JOIN u ON r.g = u.g GROUP BY w",
        "sliding": "SELECT count_positive(x) AS n FROM a [WINDOW 2 ROWS SLIDE 1 ROWS]",
    }
    for name, query in queries.items():
        mill.sql(f"{VIEW} {name} {STRICT} AS {query}")
    mill.insert("u", [(1, 7), (1, 7)])
    mill.insert("r", [(1, 5), (1, -5), (1, 6), (2, None)])
    mill.insert("a", [(1,), (-1,), (3,)])
    mill.delete("r", [(1, 6)])
    assert not any(mill[name].verify() for name in queries)
    used = [mill[name].status()["strategy"] for name in queries]
    return [sorted(mill["groups"]), sorted(mill["joined"]), used]


def ring(mill: vm.Mill) -> Any:
    times = vm.Ring(0, 1, lambda a, b: a + b, lambda a: -a, lambda a, b: a * b, lambda x: x)
    mill.register("sum_of_products", times)
    mill.sql(f"{VIEW} v {STRICT} AS SELECT sum_of_products(a, b) AS p FROM t")
    mill.insert("t", [(2, 3), (4, 5)])
    return next(iter(mill["v"]))[0]


def kind_of_state(mill: vm.Mill) -> Any:
    kind: Any = states.Tally()  # type: ignore[attr-defined]
    query = Values((), Schema(()))
    program = Program(
        "by hand",
        query,
        (Input("t", "t", Schema((Field("k", BIGINT),))),),
        Schema((Field("n", BIGINT, nullable=False),)),
        (states.State("s", kind, query),),
        Triggers(COUNTED, (Trigger("t", "on_t", ()),)),
    )
    maintainer = build(program, Dictionary(), compiled=False)
    shown = []
    for times in (3, -1):
        columns, masks = (np.zeros(1, np.int64),), (None,)
        change = Delta(program.inputs[0].schema, columns, masks, np.array([times]), 1)
        maintainer.apply("t", change)
        shown.append(maintainer.flush().columns[0].tolist())
        maintainer.commit()
    assert new_store(kind, True).nbytes == 16
    assert structures.tally_add is not None  # type: ignore[attr-defined]
    return shown


def scalar_function(mill: vm.Mill) -> Any:
    mill.sql(f"{VIEW} v {STRICT} AS SELECT bitmap_bit_position(a) AS d FROM t")
    mill.insert("t", [(32770, 3)])
    asked = mill.sql("SELECT bitmap_bit_position(b) AS d FROM t")
    return [sorted(mill["v"]), asked.rows()]


def window_function(mill: vm.Mill) -> Any:
    mill.sql(f"{VIEW} v {STRICT} AS SELECT a, place() OVER (ORDER BY a) AS p FROM t")
    mill.insert("t", [(9, 0), (4, 0)])
    mill.insert("t", [(6, 0)])
    return [sorted(mill["v"]), mill["v"].verify()]


def sink(mill: vm.Mill) -> Any:
    rows: list[Any] = []
    mill.sql(f"{VIEW} v AS SELECT a FROM t")
    mill.sink("v", vm.sinks.collected(rows))
    mill.insert("t", [(1, 0)])
    deadline = time.monotonic() + 10
    while not rows and time.monotonic() < deadline:
        time.sleep(0.01)
    return [each["a"] for each in rows]


def source(mill: vm.Mill) -> Any:
    mill.sql("CREATE TABLE n (n BIGINT)")
    mill.follow("n", vm.sources.numbers(3))
    mill.catch_up()
    return sorted(mill.sql("SELECT n FROM n").rows())


def policy(mill: vm.Mill) -> Any:
    mill.sql(f"{VIEW} v REFRESH HASTILY AS SELECT a FROM t")
    shown = []
    for i in range(3):
        mill.insert("t", [(i, 0)])
        shown.append(len([*mill["v"]]))
    return shown


def command(mill: vm.Mill) -> Any:
    return "hello" in {each.name for each in main.app.registered_commands}


def rewrite_rule(mill: vm.Mill) -> Any:
    return Script(mill).run("rewrite drop_double_not: SELECT a FROM t WHERE NOT NOT (a > 1)")


KINDS: tuple[Callable[[vm.Mill], Any], ...] = (
    aggregate,
    ring,
    kind_of_state,
    scalar_function,
    window_function,
    sink,
    source,
    policy,
    command,
    rewrite_rule,
)

if __name__ == "__main__":
    found = {}
    for use in KINDS:
        with vm.connect() as mill:
            mill.sql("CREATE TABLE t (a BIGINT, b BIGINT)")
            try:
                found[use.__name__.replace("_", " ")] = use(mill)
            except Exception:  # noqa: BLE001 (the test shows it)
                found[use.__name__.replace("_", " ")] = traceback.format_exc()
    json.dump(found, sys.stdout)

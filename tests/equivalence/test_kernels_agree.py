"""Compiled kernels, plain structures and the oracle agree on every shape of program.

Random queries run on plain structures elsewhere; here a fixed set of queries is compiled, so that
the run is bounded by a few dozen compilations, and the data is random.
"""

from __future__ import annotations

import pkgutil
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled
from tests.equivalence.harness import REFUSALS
from tests.equivalence.shapes import ALL, SHAPES

import viewmill as vm
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.rows import to_delta
from viewmill.program.program import Maintainer, Program, Triggers
from viewmill.testing.conformance import Conformance, Feed
from viewmill.testing.generate import Batch, batches, declare, feed, feed_oracle, rows_of
from viewmill.testing.oracle import Oracle, Refused, differences
from viewmill.testing.sessions.definitions import exact_sum

BUILD = pkgutil.resolve_name("viewmill.kernels.build:build")

# A row that no shape with a sum of n, and one that no shape with i * i, can take.
TOO_LARGE = (1, True, 2**31 - 1, 2**63 - 1, 0.5, 0.5, None, 0, "a", None, None)


@cache
def program_of(shape: str) -> Program:
    with vm.connect() as mill:
        mill.sql(ALL.sql)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {SHAPES[shape].spark}")
        program: Program = mill._core.catalog.view("v").plan.program
    assert isinstance(program.body, Triggers), "shapes are incremental"
    return program


def conformance(shape: str, compiled: bool) -> Conformance:
    program, dictionary = program_of(shape), Dictionary()

    def make() -> Maintainer:
        made: Maintainer = BUILD(program, dictionary, compiled=compiled)
        made.flush()
        made.commit()
        return made

    return Conformance(program, dictionary, make)


def to_feed(program: Program, batch: Batch, dictionary: Dictionary) -> Feed:
    (source,) = program.inputs
    deltas: list[Delta] = []
    for change in batch:
        sign = -1 if change.kind == "delete" else 1
        times = change.times or (sign,) * len(change.rows)
        rows = [(*row, m) for row, m in zip(change.rows, times, strict=True)]
        deltas.append(to_delta(rows, source.schema, dictionary, multiplicity="m"))
    return [(source.name, concat(source.schema, deltas))]


def summed(bag):
    """A float sum is kept in parts, compiled in other parts than plain: what they add up to."""
    return [tuple(exact_sum(v) if isinstance(v, list) else v for v in row) for row in bag]


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=scaled(0.08))
@given(data=st.data())
def test_compiled_kernels_agree_with_plain_ones_and_the_oracle(shape, data):
    one, other = conformance(shape, compiled=True), conformance(shape, compiled=False)
    compiled, plain, oracle = one.make(), other.make(), Oracle()
    declare(oracle, [ALL])
    is_total = not shape.startswith("total")
    for batch in data.draw(batches([ALL])):
        feed_oracle(oracle, batch)
        refused = [
            refuses(maintainer, to_feed(each.program, batch, each.dictionary))
            for maintainer, each in ((compiled, one), (plain, other))
        ]
        assert refused[0] == refused[1]
        if refused[0]:
            return
        try:
            expected = oracle.ask(SHAPES[shape].duckdb)
        except Refused as why:
            raise AssertionError("the oracle refuses what the kernels took") from why
        bags = [one.bags(compiled), other.bags(plain)]
        for name in bags[0]:
            assert differences(summed(bags[0][name]), summed(bags[1][name])) == [], name
        if is_total:  # the row of an empty total comes from the backfill
            shown = [row[:-1] for row in bags[0]["output"] for _ in range(row[-1])]
            assert differences(expected, shown) == []


def refuses(maintainer: Maintainer, batch: Feed) -> bool:
    try:
        for name, delta in batch:
            maintainer.apply(name, delta)
        maintainer.flush()
    except REFUSALS:
        maintainer.rollback()
        return True
    maintainer.commit()
    return False


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=scaled(0.05))
@given(data=st.data())
def test_a_maintainer_conforms(shape, compiled, data):
    suite = conformance(shape, compiled)
    drawn = data.draw(batches([ALL], tame=True, most=3))
    feeds = [to_feed(suite.program, batch, suite.dictionary) for batch in drawn]
    assert suite.check_rollback(feeds) == 3 * len(feeds)
    suite.check_borders(feeds)
    suite.check_output(feeds)
    suite.check_snapshot(feeds[:-1], feeds[-1])


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("shape", ["sum_bigint", "arithmetic"])
@settings(max_examples=scaled(0.1))
@given(data=st.data())
def test_a_failing_batch_leaves_states_as_they_were(shape, compiled, data):
    suite = conformance(shape, compiled)
    drawn = data.draw(batches([ALL], tame=True, most=3))
    feeds = [to_feed(suite.program, batch, suite.dictionary) for batch in drawn]
    (source,) = suite.program.inputs
    good = data.draw(st.lists(rows_of(ALL, tame=True), max_size=3))
    rows = [*good, TOO_LARGE, TOO_LARGE, *good]
    poison = [(source.name, to_delta(rows, source.schema, suite.dictionary))]
    suite.check_rollback(feeds, poison)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=scaled(0.08))
@given(drawn=batches([ALL], tame=True))
def test_states_loaded_from_their_definitions_equal_what_triggers_built(shape, drawn, uncompiled):
    with vm.connect() as mill:
        mill.sql(ALL.sql)
        mill.sql(f"CREATE MATERIALIZED VIEW built AS {SHAPES[shape].spark}")
        for batch in drawn:
            feed(mill, batch)
        mill.sql(f"CREATE MATERIALIZED VIEW loaded AS {SHAPES[shape].spark}")
        built, loaded = (mill._core.catalog.view(name).block for name in ("built", "loaded"))
        suite = Conformance(built.program, mill._core.dictionary, lambda: built.maintainer)
        suite.check_load([], loaded.maintainer)

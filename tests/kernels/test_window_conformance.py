"""A family of windows does what every maintainer must: rollback at every step, borders, restarts.

The compiled kernels and the uncompiled ones say the same.
"""

import datetime as dt
import random

import pytest

import viewmill as vm
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.rows import to_delta
from viewmill.kernels.window_family import WindowFamily
from viewmill.program.program import Program
from viewmill.strategies.shared_window.joint import plan_windows
from viewmill.testing.conformance import Conformance, Feed

SHOWN = "k, count(*) AS n, sum(x) AS t, max(x) AS h, min(d) AS l, avg(d) AS a, var_pop(d) AS v"
SECOND = 1_000_000


def program_of(size: int, slide: int) -> Program:
    with vm.connect() as mill:
        mill.sql(
            "CREATE TABLE s (ts TIMESTAMP, k BIGINT, x BIGINT, d DOUBLE) TIMESTAMP BY ts;"
            f"CREATE MATERIALIZED VIEW v AS SELECT {SHOWN} FROM s"
            f" [WINDOW {size} SECONDS SLIDE {slide} SECONDS] GROUP BY k"
        )
        return mill._core.catalog.view("v").block.program


def suite(program: Program, compiled: bool) -> Conformance:
    dictionary = Dictionary()

    def make():
        (source,) = program.inputs
        family = WindowFamily(
            "s",
            dictionary,
            plan_windows,
            lambda: Delta.empty(source.schema),
            lambda *, seen: None,
            compiled=compiled,
        )
        view = family.add("v", "v", program)
        family.follow(view, True)
        return view

    return Conformance(program, dictionary, make)


def batches(checked: Conformance, seed: int) -> list[Feed]:
    chance = random.Random(seed)
    (source,) = checked.program.inputs
    held: list[tuple[object, ...]] = []
    made: list[Feed] = []
    now = 0
    for _ in range(8):
        rows = []
        for _ in range(chance.randint(1, 9)):
            now += chance.randint(0, 3 * SECOND)
            late = dt.timedelta(microseconds=now - chance.randint(0, 4 * SECOND))
            moment = dt.datetime(2024, 1, 1) + late
            d = chance.choice([None, 0.25, 1.5, -2.0, 1e9])
            rows.append((moment, chance.randrange(3), chance.randrange(-9, 9), d, 1))
        gone = chance.sample(held, min(2, len(held)))
        held = [*(row for row in held if row not in gone), *rows]
        signed = [*rows, *((*row[:4], -1) for row in gone)]
        delta = to_delta(signed, source.schema, checked.dictionary, multiplicity="m")
        made.append([(source.name, delta)])
    return made


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize(("size", "slide"), [(10, 4), (6, 2), (3, 5)])
def test_a_window_rolls_back_at_every_step(size, slide, compiled):
    checked = suite(program_of(size, slide), compiled)
    fed = batches(checked, size)
    assert checked.check_rollback(fed) == 3 * len(fed)


@pytest.mark.parametrize(("size", "slide"), [(10, 4), (6, 2), (3, 5)])
def test_borders_of_batches_do_not_matter(size, slide):
    checked = suite(program_of(size, slide), False)
    checked.check_borders(batches(checked, size)[:5])


@pytest.mark.parametrize(("size", "slide"), [(10, 4), (3, 5)])
def test_compiled_and_plain_windows_say_the_same(size, slide):
    program = program_of(size, slide)
    plain, compiled = suite(program, False), suite(program, True)
    one, other = plain.make(), compiled.make()
    for batch in batches(plain, 3):
        assert plain._commit(one, batch) == compiled._commit(other, batch)
        assert plain.bags(one) == compiled.bags(other)

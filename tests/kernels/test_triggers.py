"""What a maintainer does around triggers: several inputs and states, literals, failing rows."""

from __future__ import annotations

import pytest
from tests.kernels.kernel_programs import NOTHING, delta, rows_of

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, STRING
from viewmill.deltas.dictionary import Dictionary
from viewmill.errors import EvaluationFailed, InvalidArgument
from viewmill.kernels import build
from viewmill.kernels.build import TriggerMaintainer
from viewmill.program.program import Input, Message, Program, Trigger, Triggers
from viewmill.program.states import Keyed, Slot, State

# SELECT count(*), sum(100 / l.v) FROM l JOIN r ON l.k = r.k WHERE r.name = 'ann'
SOURCE = """
def on_l(start, size, multiplicity, k, v, left, right, total, texts, errors):
    for i in range(start, size):
        if keyed_full(left) or keyed_full(right) or keyed_full(total):
            return i
        m = multiplicity[i]
        quotient = div_int(errors, 0, i, 100, v[i])
        e = keyed_touch(left, (k[i],))
        keyed_add(left, e, 0, m)
        keyed_add_wide(left, e, 1, quotient, m)
        other = int_at(right, keyed_touch(right, (k[i],)), 0)
        e = keyed_touch(total, ())
        keyed_add(total, e, 0, m * other)
        keyed_add_wide(total, e, 1, quotient, m * other)
    return size


def on_r(start, size, multiplicity, k, name, left, right, total, texts, errors):
    for i in range(start, size):
        if keyed_full(left) or keyed_full(right) or keyed_full(total):
            return i
        if name[i] == text(texts, 1):
            m = multiplicity[i]
            keyed_add(right, keyed_touch(right, (k[i],)), 0, m)
            e = keyed_touch(left, (k[i],))
            t = keyed_touch(total, ())
            keyed_add(total, t, 0, m * int_at(left, e, 0))
            keyed_add_wide(total, t, 1, wide_int(left, e, 1), m)
    return size


def emit_total(total, e, m, out):
    emit_word(out, 0, int_at(total, e, 0))
    if int_at(total, e, 0) == 0:
        emit_null(out, 1)
    else:
        emit_word(out, 1, wide_int(total, e, 1))
    emit(out, m)


def flush(start, left, right, total, out, texts, errors):
    if keyed_touched(total) > 0:
        emit_total(total, keyed_before(total, 0), -1, out)
        emit_total(total, keyed_now(total, 0), 1, out)
        emit_cancel(out)
    return -1


def contents(start, left, right, total, out, texts, errors):
    found = False
    for i in range(keyed_capacity(total)):
        e = keyed_at(total, i)
        if e != -1:
            emit_total(total, e, 1, out)
            found = True
    if not found:
        emit_word(out, 0, 0)
        emit_null(out, 1)
        emit(out, 1)
    return -1
"""

LEFT = Schema((Field("k", BIGINT, False), Field("v", BIGINT, False)))
RIGHT = Schema((Field("k", BIGINT, False), Field("name", STRING, False)))
SUMS = (Slot("rows", "int"), Slot("sum", "wide"))
PROGRAM = Program(
    "join",
    NOTHING,
    (Input("l", "l", LEFT), Input("r", "r", RIGHT), Input("quiet", "l", LEFT, static=True)),
    Schema((Field("rows", BIGINT, False), Field("sum", BIGINT))),
    (
        State("left", Keyed((Field("k", BIGINT, False),), SUMS), NOTHING),
        State("right", Keyed((Field("k", BIGINT, False),), SUMS[:1]), NOTHING),
        State("total", Keyed((), SUMS), NOTHING),
    ),
    Triggers(
        SOURCE,
        (Trigger("l", "on_l", ("k", "v")), Trigger("r", "on_r", ("k", "name"))),
        ("bob", "ann"),
        (Message("EvaluationFailed", "division by zero"),),
    ),
)
DICTIONARY = Dictionary()
ANN, BOB = DICTIONARY.intern("ann"), DICTIONARY.intern("bob")


@pytest.fixture(params=[True, False], ids=["compiled", "plain"])
def maintainer(request: pytest.FixtureRequest) -> TriggerMaintainer:
    return build(PROGRAM, DICTIONARY, compiled=request.param)


def test_a_join_over_three_states(maintainer: TriggerMaintainer) -> None:
    assert rows_of(maintainer.contents()) == [(0, None, 1)]
    maintainer.apply("l", delta(LEFT, [(k, 10) for k in range(1000)]))
    maintainer.apply("r", delta(RIGHT, [(k, ANN if k % 2 else BOB) for k in range(1000)]))
    assert sorted(rows_of(maintainer.flush())) == [(0, None, -1), (500, 5000, 1)]
    maintainer.commit()
    maintainer.apply("r", delta(RIGHT, [(1, ANN), (3, ANN)], [1, -1]))
    assert maintainer.flush().size == 0
    maintainer.commit()
    assert rows_of(maintainer.contents()) == [(500, 5000, 1)]
    assert set(maintainer.state_bytes()) == {"left", "right", "total"}


def test_a_failing_row_is_named_and_the_batch_undone(maintainer: TriggerMaintainer) -> None:
    maintainer.apply("l", delta(LEFT, [(1, 10)]))
    maintainer.commit()
    bad = delta(LEFT, [(1, 5), (2, 0), (3, 0)])
    with pytest.raises(EvaluationFailed, match="division by zero") as caught:
        maintainer.apply("l", bad)
    assert caught.value.detail == "row 1 of the batch: k = 2, v = 0"
    maintainer.rollback()
    rows = [row for batch in maintainer.snapshot("left") for row in batch.to_pylist()]
    assert [(row["k"], row["rows"], int(row["sum"])) for row in rows] == [(1, 1, 10)]
    maintainer.apply("l", delta(LEFT, [(1, 5)]))
    assert maintainer.flush().size == 0


def test_inputs_without_triggers_are_quiet_and_unknown_ones_are_not(
    maintainer: TriggerMaintainer,
) -> None:
    maintainer.apply("quiet", delta(LEFT, [(1, 10)]))
    assert maintainer.flush().size == 0
    with pytest.raises(InvalidArgument, match="no input x"):
        maintainer.apply("x", delta(LEFT, [(1, 10)]))


def test_a_flushed_delta_is_not_changed_by_the_next_batch(maintainer: TriggerMaintainer) -> None:
    maintainer.apply("r", delta(RIGHT, [(1, ANN)]))
    maintainer.apply("l", delta(LEFT, [(1, 10)]))
    first = maintainer.flush()
    shown = rows_of(first)
    maintainer.commit()
    maintainer.apply("l", delta(LEFT, [(1, 20)]))
    maintainer.flush()
    assert rows_of(first) == shown

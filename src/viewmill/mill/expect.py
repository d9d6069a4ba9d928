"""Hints and models about the arrival of rows, as users give them to `mill.expect`.

takes  the arguments of `mill.expect`
does   checks them, stores a hint or a model, selects the states of budgeted views anew
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

from viewmill.algebra.units import parse_bytes, parse_duration
from viewmill.errors import InvalidArgument, nearest
from viewmill.mill.catalog import TableEntry
from viewmill.mill.core import Core
from viewmill.mill.create import save, table_record
from viewmill.mill.memory import release_states
from viewmill.planner.allot import SELECTORS, Selector
from viewmill.policies.arrivals import Expectation, Late, Model, Periodic

_WORDS = ("rows", "complete", "deletes", "at", "every", "total", "late", "deltas", "lasting")
_EPOCH = datetime.datetime(1970, 1, 1)


def expect(core: Core, table: str, said: Mapping[str, Any]) -> None:
    """Set a hint or model for a table; without arguments, remove both."""
    for word in said:
        if word not in _WORDS:
            raise InvalidArgument(f"expect takes no {word}=", hint=nearest(word, _WORDS))
    entry = core.catalog.table(table)
    given = {word: value for word, value in said.items() if value is not None}
    arrivals = core.arrivals_of(entry)
    before = arrivals.model
    if not given:
        arrivals.say(None)
        arrivals.declare(None)
    elif "every" in given or "late" in given:
        if "lasting" in given:
            raise InvalidArgument("lasting= is for hints, every= and late= are models")
        arrivals.declare(_model(given))
        arrivals.say(None)
    else:
        until = core.now() + _duration(given["lasting"]) if "lasting" in given else None
        if until is not None and "deltas" in given:
            raise InvalidArgument("a hint is for some deltas= or lasting= a time, not both")
        arrivals.say(_hint(given), deltas=_deltas(given), until=until)
    if arrivals.model != before:  # a hint is about the next deltas only and is not kept on disk
        _save(core, entry, before)
    release_states(core)


def _save(core: Core, entry: TableEntry, before: Model | None) -> None:
    try:
        save(core, {entry.name: table_record(core, entry)})
    except BaseException:
        core.arrivals_of(entry).declare(before)
        raise


def _hint(given: Mapping[str, Any]) -> Expectation:
    if "total" in given:
        raise InvalidArgument("total= goes with every= or late=")
    if _flag(given, "complete"):
        if given.get("rows"):
            raise InvalidArgument("a complete table expects no rows", hint="Leave rows= out.")
        return Expectation(0.0, None, True, 0.0, basis="hint")
    usual = Expectation()
    return Expectation(
        _number(given, "rows", usual.rows),
        _moment(given["at"]) if "at" in given else None,
        False,
        _number(given, "deltas", usual.deltas),
        _share(given, "deletes", 0.0),
        "hint",
    )


def _deltas(given: Mapping[str, Any]) -> int:
    """The number of deltas that a hint covers: `deltas=`, or only the next one."""
    return max(1, math.ceil(_number(given, "deltas", 1.0)))


def _model(given: Mapping[str, Any]) -> Model:
    if "every" not in given:
        raise InvalidArgument("late= needs every=", hint='every="60 seconds" is the period.')
    period = _duration(given["every"])
    if "late" in given:
        if "total" not in given:
            raise InvalidArgument("late= needs total=, the rows of the complete table")
        share = _share(given, "late", 0.0)
        if share == 0:
            raise InvalidArgument("late= is the share that comes in a period, above 0")
        return Late(_number(given, "total", 0.0), share, period)
    total = _number(given, "total", 0.0) if "total" in given else None
    return Periodic(_number(given, "rows", Expectation().rows), period, total)


def _flag(given: Mapping[str, Any], word: str) -> bool:
    value = given.get(word, False)
    if not isinstance(value, bool):
        raise InvalidArgument(f"{word}= is True or False, not {value!r}")
    return value


def _number(given: Mapping[str, Any], word: str, usual: float) -> float:
    value = given.get(word, usual)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
        raise InvalidArgument(f"{word}= is a number of at least 0, not {value!r}")
    return float(value)


def _share(given: Mapping[str, Any], word: str, usual: float) -> float:
    value = _number(given, word, usual)
    if value > 1:
        raise InvalidArgument(f"{word}= is a share between 0 and 1, not {value!r}")
    return value


def _duration(value: Any) -> int:
    if isinstance(value, datetime.timedelta):
        length = value // datetime.timedelta(microseconds=1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        length = int(value * 1e6)
    elif isinstance(value, str):
        length = parse_duration(value)
    else:
        raise InvalidArgument(f"a period is seconds, text or a timedelta, not {value!r}")
    if length <= 0:
        raise InvalidArgument("a period is longer than zero")
    return length


def _moment(value: Any) -> int:
    if not isinstance(value, datetime.datetime):
        raise InvalidArgument(f"at= is a datetime, not {value!r}")
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    moment: datetime.datetime = value
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)


def described_expectation(core: Core, entry: TableEntry) -> dict[str, Any]:
    """The expected next delta of a table and the accuracy of predictions, as plain data."""
    arrivals = core.arrivals_of(entry)
    now = core.now()
    expected = arrivals.expect(entry.table.rows, now)
    accuracy = arrivals.accuracy
    return {
        "rows": expected.rows,
        "in_s": None if expected.at is None else max(0.0, (expected.at - now) / 1e6),
        "complete": expected.complete,
        "deltas": expected.deltas,
        "deletes": expected.deletes,
        "basis": expected.basis,
        "accuracy": accuracy.of_rows,
        "deltas_seen": accuracy.deltas,
        "surprises": accuracy.surprises,
    }


def is_complete(core: Core, name: str) -> bool:
    """Whether no more rows are expected for a table or view."""
    return core.expectation(name, core.now()).complete


def memory_bytes(memory: str | int) -> int:
    """A budget as bytes."""
    if isinstance(memory, str):
        return parse_bytes(memory)
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < 0:
        raise InvalidArgument(
            f"memory= is a size like '512 MB' or a number of bytes, not {memory!r}"
        )
    return memory


def check_selector(name: str) -> Selector:
    """Check the name of an algorithm that selects states."""
    if name not in SELECTORS:
        raise InvalidArgument(f'no selection "{name}"', hint=nearest(str(name), SELECTORS))
    return name

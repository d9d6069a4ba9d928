"""Expectations: conditions that the rows of a dataset should fulfil.

takes  `@dp.expect("name", "condition")`, `expect_or_drop`, `expect_or_fail`, `expect_all` and so on
gives  the query without rows that are dropped, and a query that counts the rows that fail

PySpark's own decorators have no expectations yet; these stand in its module while files are loaded,
unless it has its own. A condition that is NULL is not fulfilled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from unittest.mock import patch

from pyspark import pipelines

from viewmill.errors import ForbiddenChange, InvalidArgument
from viewmill.mill.changes import Change
from viewmill.mill.mill import Mill

Action = Literal["keep", "drop", "fail"]
_ON = "_viewmill_expected"
_ACTIONS: Mapping[str, Action] = {"": "keep", "_or_drop": "drop", "_or_fail": "fail"}


@dataclass(frozen=True)
class Expectation:
    """One condition, in SQL."""

    name: str
    condition: str
    action: Action


@dataclass(frozen=True)
class Check:
    """A view of the mill that counts what fails, a column for each expectation."""

    own: str
    sql: str
    expected: Sequence[Expectation]

    def refuse(self, changes: Mapping[str, Change]) -> None:
        """Raise if a change breaks an expectation that says so; the batch is undone then."""
        for row, times in changes.get(self.own, ()):
            for each, count in zip(self.expected, row, strict=True):
                if each.action == "fail" and times > 0 and count:
                    raise ForbiddenChange(
                        f'{count} rows do not fulfil the expectation "{each.name}"',
                        detail=f"It is: {each.condition}",
                        hint="Nothing of this batch was taken. Mend the rows or the expectation.",
                    )


def expected_of(query: Any) -> tuple[Expectation, ...]:
    """What a decorated function promises."""
    return tuple(getattr(query, _ON, ()))


def kept_rows(sql: str, expected: Sequence[Expectation]) -> str:
    """The rows of a query that are not dropped."""
    wanted = [f"({each.condition})" for each in expected if each.action == "drop"]
    return f"SELECT * FROM ({sql}) AS e WHERE {' AND '.join(wanted)}" if wanted else sql


def failures(sql: str, expected: Sequence[Expectation]) -> str:
    """How many rows of a query fail each expectation."""
    counts = ", ".join(
        f"COALESCE(SUM(CASE WHEN ({each.condition}) THEN 0 ELSE 1 END), 0) AS failed_{i}"
        for i, each in enumerate(expected)
    )
    return f"SELECT {counts} FROM ({sql}) AS e"


def refuse_broken(mill: Mill, checks: Sequence[Check]) -> None:
    """Undo every batch that breaks an expectation which says so."""

    def refuse(_: int, changes: Mapping[str, Change]) -> None:
        for check in checks:
            check.refuse(changes)

    if checks:
        mill.before_commit(refuse)


@contextmanager
def decorators() -> Iterator[None]:
    """The decorators stand in PySpark's module, where it has none of its own."""
    with ExitStack() as until:
        for ending, action in _ACTIONS.items():
            made = {f"expect{ending}": _one(action), f"expect_all{ending}": _all(action)}
            for name, decorator in made.items():
                if not hasattr(pipelines, name):
                    until.enter_context(patch.object(pipelines, name, decorator, create=True))
        yield


def _one(action: Action) -> Callable[[str, str], Callable[[Any], Any]]:
    return lambda name, condition: _noting([Expectation(name, condition, action)])


def _all(action: Action) -> Callable[[Mapping[str, str]], Callable[[Any], Any]]:
    return lambda all_: _noting([Expectation(name, each, action) for name, each in all_.items()])


def _noting(expected: list[Expectation]) -> Callable[[Any], Any]:
    def note(query: Any) -> Any:
        if not callable(query):
            raise InvalidArgument("an expectation stands below the decorator of its dataset")
        setattr(query, _ON, (*getattr(query, _ON, ()), *expected))
        return query

    return note

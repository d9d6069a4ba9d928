"""An operation as an SQL aggregate over a column of a known kind.

To an engine it is what a ring is: the rows of each group are gathered, and we compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from viewmill.algebra.operations import Operation
from viewmill.algebra.rings import Kind, RingCall
from viewmill.errors import InvalidArgument

_SAMPLES: dict[Kind, tuple[Any, ...]] = {"int": (1, 2, 5), "float": (0.5, 1.5, 2.25)}


@dataclass(frozen=True)
class OperationCall(RingCall):
    """An operation with the kinds of its values."""

    operation: Operation | None = None

    @property
    def is_whole(self) -> bool:
        """Whether values are whole numbers."""
        return "float" not in self.kinds

    def words(self, rows: Sequence[Sequence[Any]]) -> list[float]:
        """The words that are shown for rows in this order."""
        assert self.operation is not None
        convert = int if self.arguments[0] == "int" else float
        shown = self.operation.total([None if row[0] is None else convert(row[0]) for row in rows])
        return [int(shown) if self.results == ("int",) else float(shown)]


def operation_call(name: str, operation: Operation, kinds: Sequence[Kind]) -> OperationCall:
    """The kinds of an operation's values, found by trying it."""
    if len(kinds) != 1:
        raise InvalidArgument(f"{name} takes one argument, got {len(kinds)}")
    (kind,) = kinds
    values = [operation.lifted(each) for each in _SAMPLES[kind]]
    values += [operation.combined(a, b) for a in values for b in values]
    numbers = [x for v in values for x in (v if isinstance(v, tuple) else (v,))]
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in numbers)
    kept: Kind = "int" if whole else "float"
    shown: Kind = "int" if all(isinstance(operation.lowered(e), int) for e in values) else "float"
    return OperationCall(
        name,
        None,  # type: ignore[arg-type]  # there is no ring
        (kind,),
        (kept,) * operation.width,
        (shown if whole else "float",),
        is_single=True,
        commutes=operation.commutative,
        operation=operation,
    )

"""What maintainers that hold no state share: a change comes in, what is made of it goes out."""

from __future__ import annotations

from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.product import Product
from viewmill.program.program import Maintainer, Program


class StatelessMaintainer(Maintainer):
    """A block whose rows are made of single rows; `made` says how."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._waiting: list[Delta] = []

    def made(self, change: Delta) -> Delta:
        """The rows that come of a change."""
        raise NotImplementedError

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Make the rows of a change."""
        change = delta.delta() if isinstance(delta, Product) else delta
        if change.size:
            self._waiting.append(self.made(change))

    def flush(self) -> Delta:
        """What was made since the last commit."""
        if not self._waiting:
            return Delta.empty(self.program.output)
        return concat(self.program.output, self._waiting)

    def commit(self) -> None:
        """The rows have arrived."""
        self._waiting = []

    def rollback(self) -> None:
        """The rows never set out."""
        self._waiting = []

    def contents(self) -> Delta:
        """Nothing: rows are kept by the next block."""
        return Delta.empty(self.program.output)

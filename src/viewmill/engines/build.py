"""Maintain a program by recomputation: run its query and diff the results.

takes  `Program` with a `Queries` body, and a function that runs a relation over the present sources
gives  `Maintainer`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from viewmill.algebra.relations import Relation
from viewmill.deltas.arrow import encode_columns
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Product
from viewmill.program.program import Maintainer, Program, Queries

Run = Callable[[Relation], Any]  # a relation in, an Arrow table out


def build(program: Program, run: Run, dictionary: Dictionary) -> QueryMaintainer:
    """The maintainer of a recomputed block."""
    assert isinstance(program.body, Queries)
    return QueryMaintainer(program, program.body.query, run, dictionary)


class QueryMaintainer(Maintainer):
    """Keeps the last result; a refresh computes the next one and the difference."""

    def __init__(self, program: Program, query: Relation, run: Run, dictionary: Dictionary) -> None:
        self._program, self._query, self._run, self._dictionary = program, query, run, dictionary
        self._committed = Delta.empty(program.output)
        self._next: Delta | None = None

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Nothing to do: the query reads its sources when it runs."""

    def flush(self) -> Delta:
        """Run the query; the new result minus the old."""
        table = self._run(self._query)
        self._next = encode_columns(self._program.output, table, self._dictionary)
        old = self._committed.negated()
        return consolidate(concat(self._program.output, [self._next, old]))

    def hold(self, contents: Delta) -> None:
        """Take over the rows of a view from another maintainer."""
        self._committed, self._next = contents, None

    def commit(self) -> None:
        """The next result becomes the last."""
        if self._next is not None:
            self._committed, self._next = self._next, None

    def rollback(self) -> None:
        """Forget the next result."""
        self._next = None

    def contents(self) -> Delta:
        """The last committed result, in the engine's order."""
        return self._committed

    def count_rows(self) -> int:
        """The number of rows of the last committed result."""
        return self._committed.net_rows

    def state_bytes(self) -> Mapping[str, int]:
        """The size of the last result, the only thing kept."""
        kept = self._committed
        masks = sum(mask.nbytes for mask in kept.nulls if mask is not None)
        return {"result": sum(column.nbytes for column in kept.columns) + masks}

"""The interface of a runtime: it refreshes blocks together and commits or rolls back together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Changed, Product
from viewmill.program.program import Maintainer, Program


@dataclass
class Block:
    """A program with its maintainer, and the views that use it.

    It produces the rows of the views in `shows`: initially of the view that has its name. `renamed`
    maps source names in the program to blocks that have another name by now.
    """

    name: str
    program: Program
    maintainer: Maintainer
    views: set[str] = field(default_factory=set)
    shows: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name in self.views:
            self.shows.add(self.name)


def join(blocks: Sequence[Block], view: str) -> None:
    """Register a view as a user of these blocks; the last one produces its rows."""
    for block in blocks:
        block.views.add(view)
    blocks[-1].shows.add(view)


class Family(Protocol):
    """Window views over one table that share one maintainer."""

    source: str

    @property
    def names(self) -> Set[str]:
        """The views."""

    def join(self, member: Any) -> None:
        """Add the maintainer of a view."""

    def leave(self, member: Any) -> None:
        """Remove the maintainer of a view."""

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Apply a delta of the table."""

    def settle(self) -> None:
        """Fill the windows of new views from the rows of the table as they are."""

    def flush(self) -> dict[str, Delta]:
        """The output deltas of the views whose changes are listed."""

    def commit(self) -> None:
        """Keep what was applied."""

    def rollback(self) -> None:
        """Forget what was applied."""


class Runtime(Protocol):
    """Blocks in dependency order."""

    def add(self, block: Block) -> None:
        """Add a block whose sources are tables or blocks added before."""

    def remove(self, view: str) -> None:
        """Remove a view, and the blocks that no other view uses."""

    def applied_last(self) -> set[str]:
        """The views of the block that the current refresh touched last."""

    def find_families(self) -> None:
        """Find the families again after windows got new maintainers."""

    @property
    def has_families(self) -> bool:
        """Whether there are families of windows."""

    def families(self, source: str) -> Iterable[Family]:
        """The families of windows over a table."""

    def arrange(self, views: Iterable[str]) -> None:
        """Sort the blocks by this order of their views; blocks of one view keep their order."""

    def pending(self, name: str) -> Delta | None:
        """The uncommitted output delta of a block, if it was refreshed."""

    def refresh(
        self,
        deltas: Mapping[str, Changed],
        among: set[str],
        rebuilds: Mapping[str, Callable[[], list[Maintainer]]] | None = None,
    ) -> dict[str, Delta]:
        """Apply deltas of sources to the blocks of the views in `among`, without committing.

        A view in `rebuilds` gets new maintainers instead, which a commit swaps in. Gives the output
        delta of every view that was refreshed.
        """

    def reads_rows_only(self, table: str) -> bool:
        """Whether all blocks above a table are triggers, so that none runs a query."""

    def refresh_rows(self, table: str, delta: Delta, among: set[str]) -> dict[str, Delta]:
        """`refresh` with the delta of one table and without rebuilds."""

    def pace(self, view: str) -> float | None:
        """The recent cost of a changed row in the blocks of a view, in microseconds, if known."""

    def watch(self, view: str) -> None:
        """Measure the CPU time of a view at every refresh, for `spent`."""

    def spent(self, view: str) -> float:
        """CPU microseconds in the blocks of a watched view since the last call."""

    def rebuilt(self) -> Iterable[str]:
        """The views with new maintainers since the last commit."""

    def commit(self) -> None:
        """Keep what was applied since the last commit."""

    def rollback(self) -> None:
        """Forget what was applied since the last commit."""

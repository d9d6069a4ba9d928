"""What a runtime does: bring blocks up to date together, and commit or roll back together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Changed, Product
from viewmill.program.program import Maintainer, Program


@dataclass
class Block:
    """A program with its maintainer, and the views that it works for.

    It makes the rows of the views in `shows`: at first of the one that has its name. Blocks that
    its program reads under another name than theirs stand in `renamed`.
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
    """Let blocks work for a view, the last of them make its rows."""
    for block in blocks:
        block.views.add(view)
    blocks[-1].shows.add(view)


class Family(Protocol):
    """Views that take the rows of one table together: one maintainer for all of them."""

    source: str

    @property
    def names(self) -> Set[str]:
        """The views."""

    def join(self, member: Any) -> None:
        """A view's maintainer comes, or comes back."""

    def leave(self, member: Any) -> None:
        """A view's maintainer goes."""

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Feed the change of the table."""

    def settle(self) -> None:
        """Fill what new views need, from the rows of the table as they are."""

    def flush(self) -> dict[str, Delta]:
        """The change of those views whose changes are listed."""

    def commit(self) -> None:
        """Keep what was applied."""

    def rollback(self) -> None:
        """Forget what was applied."""


class Runtime(Protocol):
    """Blocks in dependency order."""

    def add(self, block: Block) -> None:
        """A block whose sources are tables or blocks added before."""

    def remove(self, view: str) -> None:
        """Forget the blocks that work for no other view than this one."""

    def applied_last(self) -> set[str]:
        """The views of the block to which a change was applied last and is not committed."""

    @property
    def has_families(self) -> bool:
        """Whether there are families of windows."""

    def families(self, source: str) -> Iterable[Family]:
        """The families of windows over a table."""

    def arrange(self, views: Iterable[str]) -> None:
        """Put the blocks in this order of their views; those of one view keep theirs."""

    def pending(self, name: str) -> Delta | None:
        """The output change of a block that was refreshed but not committed."""

    def refresh(
        self,
        deltas: Mapping[str, Changed],
        among: set[str],
        rebuilds: Mapping[str, Callable[[], list[Maintainer]]] | None = None,
    ) -> dict[str, Delta]:
        """Apply the change of sources to the blocks of the views in `among`; not committed.

        A view of `rebuilds` gets new maintainers in its turn, which it keeps if all is committed.
        Gives the output change of every view that was applied to.
        """

    def reads_rows_only(self, table: str) -> bool:
        """Whether what is made of rows of a table asks for nothing else, as a query would."""

    def refresh_rows(self, table: str, delta: Delta, among: set[str]) -> dict[str, Delta]:
        """The same for rows of one table, where no view is built anew."""

    def pace(self, view: str) -> float | None:
        """Microseconds that a changed row took lately in the blocks of a view, if any came."""

    def watch(self, view: str) -> None:
        """From now on `spent` is measured for a view, whatever the size of a change."""

    def spent(self, view: str) -> float:
        """CPU microseconds that the blocks of a watched view have taken since the last call."""

    def rebuilt(self) -> Iterable[str]:
        """The views that have got new maintainers since the last commit."""

    def commit(self) -> None:
        """Keep what was applied since the last commit."""

    def rollback(self) -> None:
        """Forget what was applied since the last commit."""

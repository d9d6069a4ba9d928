"""What a runtime does: bring blocks up to date together, and commit or roll back together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from viewmill.deltas.delta import Delta
from viewmill.program.program import Maintainer, Program


@dataclass
class Block:
    """A program with its maintainer, named by the view whose rows it makes."""

    name: str
    program: Program
    maintainer: Maintainer


class Runtime(Protocol):
    """Blocks in dependency order."""

    def add(self, block: Block) -> None:
        """A block whose sources are tables or blocks added before."""

    def remove(self, name: str) -> None:
        """Forget a block that no other block reads."""

    def arrange(self, names: Iterable[str]) -> None:
        """Put the blocks in this order."""

    def pending(self, name: str) -> Delta | None:
        """The output change of a block that was refreshed but not committed."""

    def refresh(self, deltas: Mapping[str, Delta], among: set[str]) -> dict[str, Delta]:
        """Apply the change of sources to the blocks in `among`, theirs to others; not committed.

        Gives the output change of every block that was applied to.
        """

    def commit(self) -> None:
        """Keep what was applied since the last commit."""

    def rollback(self) -> None:
        """Forget what was applied since the last commit."""

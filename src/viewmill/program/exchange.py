"""How the rows of a program's sources are spread over shards, and why. Data only.

Every way is a grid: each dimension has a share, and a row goes to the cells that agree with the
hash of its columns in each dimension; where it has no columns it goes to all. A grid without
dimensions is one shard.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SEPARATORS = re.compile(r"[%@+,*]")  # in the names of streams


@dataclass(frozen=True)
class Single:
    """Runs on one shard."""

    why: str = ""

    def __str__(self) -> str:
        return f"one shard: {self.why}" if self.why else "one shard"


@dataclass(frozen=True)
class ByKey:
    """All rows that meet have these columns in common, so results are disjoint."""

    columns: tuple[str, ...]
    finish: bool = False  # whether groups are then compared with what all of them make up

    def __str__(self) -> str:
        second = "; in a second step, groups are compared with all" if self.finish else ""
        return f"by key {', '.join(self.columns)}{second}"


@dataclass(frozen=True)
class HyperCube:
    """A share for each join variable; every join result appears on exactly one shard."""

    shares: tuple[tuple[str, int], ...]
    finish: bool  # whether shards hold parts of aggregates that are added up

    def __str__(self) -> str:
        shares = ", ".join(f"{name} × {share}" for name, share in self.shares)
        return f"hypercube {shares}" + ("; the parts of groups are merged" if self.finish else "")


@dataclass(frozen=True)
class Partials:
    """Rows are spread evenly; each shard aggregates its own, and the parts are merged."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"partial aggregates of rows spread by {', '.join(self.columns)}"


@dataclass(frozen=True)
class Panes:
    """Each shard aggregates its rows by pane; the driver puts windows together from panes."""

    columns: tuple[str, ...]
    pane: str  # how long
    by_key: bool  # whether a group has all its rows on one shard

    def __str__(self) -> str:
        spread = "by key" if self.by_key else "of rows spread by"
        return f"partials of {self.pane} {spread} {', '.join(self.columns)}"


Exchange = Single | ByKey | HyperCube | Partials | Panes

ONE_SHARD = Single()


@dataclass(frozen=True)
class Route:
    """How the rows of one occurrence of a source go to the cells of a grid.

    `columns` has an entry for each dimension: the source's columns to hash, or None for all cells.
    """

    source: str
    shares: tuple[int, ...]
    columns: tuple[tuple[str, ...] | None, ...]

    @property
    def stream(self) -> str:
        """Names what a shard receives; occurrences with equal routes receive the same."""
        dimensions = zip(self.columns, self.shares, strict=True)
        words = [f"{_stream_word(each)}/{share}" for each, share in dimensions]
        return f"{self.source}@{','.join(words) or 'one'}"

    @property
    def copies(self) -> int:
        """How many cells a row goes to."""
        found = 1
        for each, share in zip(self.columns, self.shares, strict=True):
            found *= share if each is None else 1
        return found


def _stream_word(columns: tuple[str, ...] | None) -> str:
    """One word for what is hashed: the column `a+b` is not the columns a and b."""
    if columns is None:
        return "*"
    return "+".join(
        _SEPARATORS.sub(lambda found: f"%{ord(found[0]):02x}", name) for name in columns
    )

"""When a view is refreshed: one frozen object per policy a user can write.

A view may carry several; whichever comes first refreshes it. `str(policy)` is its SQL clause. What
the policies do is decided in `viewmill.policies`; they are declared here because SQL reads them.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.units import interval_sql


@dataclass(frozen=True)
class Immediate:
    """With every committed batch."""

    def __str__(self) -> str:
        return "REFRESH IMMEDIATE"


@dataclass(frozen=True)
class OnDemand:
    """Only when someone says REFRESH."""

    def __str__(self) -> str:
        return "REFRESH ON DEMAND"


@dataclass(frozen=True)
class EveryInterval:
    """Once per period."""

    microseconds: int

    def __str__(self) -> str:
        return f"REFRESH EVERY {interval_sql(self.microseconds)}"


@dataclass(frozen=True)
class EveryRows:
    """When this many changed rows wait."""

    rows: int

    def __str__(self) -> str:
        return f"REFRESH EVERY {self.rows} ROWS"


@dataclass(frozen=True)
class Within:
    """At a time of the planner's choice, but no change waits longer than this."""

    microseconds: int

    def __str__(self) -> str:
        return f"REFRESH WITHIN {interval_sql(self.microseconds)}"


@dataclass(frozen=True)
class OnReadAfter:
    """When someone reads and the view is older than this."""

    microseconds: int

    def __str__(self) -> str:
        return f"REFRESH ON READ AFTER {interval_sql(self.microseconds)}"


Policy = Immediate | OnDemand | EveryInterval | EveryRows | Within | OnReadAfter

"""The lifecycle part of a view's status: active, inactive or complete; which states are kept."""

from __future__ import annotations

from typing import Any

from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.memory import kept_and_why
from viewmill.policies.arrivals import Expectation


def lifecycle_of(core: Core, entry: ViewEntry) -> dict[str, Any]:
    """The lifecycle of a view as plain data, for its status.

    complete  no more rows are expected for any table that it reads
    inactive  it has a budget: between deltas only the selected states are in memory
    active    it has no budget: all its states are in memory
    """
    now = core.now()
    expected = {name: core.expectation(name, now) for name in sorted(entry.reads)}
    is_complete = bool(expected) and all(each.complete for each in expected.values())
    budgeted = entry.budgeted
    budget = None
    if budgeted is not None:
        budget = entry.budget if budgeted.selection is None else budgeted.selection.budget
    life = "active" if budgeted is None else "inactive"
    facts = list(kept_and_why(entry))
    return {
        "life": "complete" if is_complete and not entry.waiting_rows else life,
        "complete": is_complete,
        "inactive": budgeted is not None,
        "next_expected_s": _next(expected, now),
        "expects": {name: _shown(each) for name, each in expected.items()},
        "forecast_accuracy": {name: _accuracy(core, name) for name in expected},
        "budget_bytes": budget,
        "kept": {name: why for name, there, why in facts if there},
        "released": {name: why for name, there, why in facts if not there},
        "next_refresh": None if budgeted is None else _planned(entry),
    }


def _next(expected: dict[str, Expectation], now: int) -> float | None:
    moments = [each.at for each in expected.values() if each.at is not None and not each.is_quiet]
    return max(0.0, (min(moments) - now) / 1e6) if moments else None


def _accuracy(core: Core, name: str) -> float | None:
    """1 if all predictions for a table were exact, 0 if all were wrong; None before the first."""
    entry = core.catalog.get(name)
    if not isinstance(entry, TableEntry) or entry.arrivals is None:
        return None
    return entry.arrivals.accuracy.of_rows


def _shown(expectation: Expectation) -> str:
    if expectation.complete:
        return f"complete ({expectation.basis})"
    if expectation.is_quiet:
        return f"quiet ({expectation.basis})"
    return f"{expectation.rows:.0f} rows ({expectation.basis})"


def _planned(entry: ViewEntry) -> str:
    budgeted = entry.budgeted
    assert budgeted is not None
    if budgeted.mode == "full":
        return "full: the view is computed again"
    return "incremental: states that are away and needed are built first"

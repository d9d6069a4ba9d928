"""What a view would cost with less memory, and with more.

takes  a mill and the name of a view
gives  for budgets from nothing to all that it could keep: the estimated time of its next refresh
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from viewmill.mill.mill import Mill

_ALL = 1 << 60  # bytes: more than any view could keep
_STEPS = 12


def curve(mill: Mill, name: str) -> dict[str, Any]:
    """The points of the curve, and the budget that the view has."""
    entry = mill.core.catalog.view(name)
    most = mill.memory_curve(entry.name, [_ALL], selections=["dynamic"])[0].state_bytes
    budgets = [most * step // _STEPS for step in range(_STEPS + 1)]
    points = mill.memory_curve(entry.name, budgets, selections=["dynamic"])
    return {"points": [asdict(each) for each in points], "budget": entry.budget}

"""`viewmill status`: how fresh each view is, and what it costs to keep."""

from __future__ import annotations

from typing import Any

from viewmill.cli.arguments import SPEC, JsonOption, MillOption, SpecOption
from viewmill.cli.open_mill import open_mill
from viewmill.cli.terminal import grid, print_json, print_text, results, show_bytes

COLUMNS = ("freshness", "version", "rows", "strategy", "refresh_kind", "engine_calls", "lag_s")


def status(spec: SpecOption = SPEC, mill: MillOption = None, json: JsonOption = False) -> None:
    """Show how fresh each view is, its rows, its strategy and its memory."""
    with open_mill(spec, mill) as opened:
        found = {view: opened[view].status() for view in sorted(opened.views())}
        broken = opened.broken()
    if json:
        lost = {name: {"freshness": "broken", "error": why} for name, why in broken.items()}
        print_json({**found, **lost})
        return
    if found:
        results().print(status_grid(found))
    elif not broken:
        print_text("there are no views")
    for name, why in broken.items():
        print_text(f"{name} is broken: {why}")


def status_grid(found: dict[str, dict[str, Any]]) -> Any:
    """One line per view."""
    rows = [
        [view, *(facts[name] for name in COLUMNS), show_bytes(facts["state_bytes"])]
        for view, facts in found.items()
    ]
    return grid(["view", *(name.replace("_", " ") for name in COLUMNS), "state"], rows)

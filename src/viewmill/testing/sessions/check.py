"""Compare a mill with the world: rows, changes, freshness, engine calls, verify."""

from __future__ import annotations

from collections import Counter
from typing import Any

from viewmill.testing.oracle import Refused, canonical, differences
from viewmill.testing.sessions.definitions import Evaluator
from viewmill.testing.sessions.world import Table, View, World


class Different(AssertionError):
    """The mill differs from the oracle; `kind` says in what, for making a session small."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


def check_all(
    mill: Any, world: World, evaluator: Evaluator, *, verify: bool, is_data: bool
) -> None:
    """Every view equals the oracle at its own version; what it says about itself is true."""
    if set(mill.views()) != set(world.views):
        raise Different("views", f"{sorted(mill.views())}, expected {sorted(world.views)}")
    for view in world.views.values():
        status = mill[view.name].status()
        _check_view(mill, world, evaluator, view, verify=verify)
        _check_engine_calls(view, status, is_data=is_data)


def _check_view(mill: Any, world: World, evaluator: Evaluator, view: View, *, verify: bool) -> None:
    handle = mill[view.name]
    rows = handle.rows()
    status = handle.status()
    if not view.is_deferred and status["freshness"] != "fresh":
        raise Different("freshness", f"{view.name} is immediate and {status['freshness']}")
    is_stale_window = "window" in view.definition and status["freshness"] == "stale"
    tables = world.at(status["version"])
    if not is_stale_window and _is_settled(view, world, tables):
        try:
            expected = evaluator.rows(view, tables)
        except Refused:
            expected = None  # a deferred view that cannot be refreshed shows what it had
        found = [] if expected is None else differences(expected, rows)
        if found:
            raise Different(
                "rows", f"{view.name}: {found[:4]}\n#   {view.sql}\n#   {_essence(status)}"
            )
        if verify and expected is not None:
            _check_verify(handle, view)
    if status["rows"] != len(rows):
        raise Different("status", f"{view.name} says {status['rows']} rows, there are {len(rows)}")
    _check_followed(view, rows)


def _is_settled(view: View, world: World, tables: dict[str, Table]) -> bool:
    for name in view.reads:
        if name in tables:
            if not tables[name].is_settled:
                return False
        elif name not in world.views or not _is_settled(world.views[name], world, tables):
            return False
    return True


def _check_verify(handle: Any, view: View) -> None:
    found = handle.verify()
    if found:
        raise Different("verify", f"{view.name}: {found[:4]}\n#   {view.sql}")


def _check_followed(view: View, rows: list[Any]) -> None:
    if view.followed is None:
        return
    shown = Counter(tuple(map(canonical, row)) for row in rows)
    added = Counter({row: times for row, times in view.followed.items() if times})
    if shown != added:
        raise Different(
            "changes", f"{view.name}: they add up to {dict(added)}, it shows {dict(shown)}"
        )


def _check_engine_calls(view: View, status: dict[str, Any], *, is_data: bool) -> None:
    calls = status["engine_calls"]
    is_incremental = "recompute" not in status["strategy"] and "MEMORY" not in view.sql
    quiet = is_data and is_incremental and status["refresh_kind"] == "incremental"
    quiet = quiet and status["error"] is None  # a refresh that failed may fill states again
    if quiet and 0 <= view.engine_calls < calls and status["budget_bytes"] is None:
        raise Different("engine calls", f"{view.name}: {_essence(status)}")
    view.engine_calls = calls


def _essence(status: dict[str, Any]) -> dict[str, Any]:
    shown = ("version", "freshness", "strategy", "refresh_kind", "engine_calls", "policies")
    return {name: status[name] for name in shown}

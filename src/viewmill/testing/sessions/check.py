"""Compare a mill with the world: rows, changes, freshness, engine calls, verify."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from viewmill.testing.oracle import Refused, Row, canonical, differences
from viewmill.testing.sessions.definitions import Evaluator
from viewmill.testing.sessions.parts import note_start
from viewmill.testing.sessions.world import View, World


class Different(AssertionError):
    """The mill differs from the oracle; `kind` says in what, for making a session small."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


def check_names(mill: Any, world: World) -> None:
    """The mill has the views of the world."""
    if set(mill.views()) != set(world.views):
        raise Different("views", f"{sorted(mill.views())}, expected {sorted(world.views)}")


def check_views(mill: Any, world: World, evaluator: Evaluator, names: Iterable[str]) -> None:
    """These views equal the oracle, now or when they were last fresh."""
    for name in names:
        view = world.views[name]
        is_stale = False
        if view.is_deferred:
            status = mill[name].status()
            is_stale = status["freshness"] == "stale"
            view.has_failed |= status["error"] is not None
        _check_view(mill[name], world, evaluator, view, is_stale=is_stale)


def _check_view(
    handle: Any, world: World, evaluator: Evaluator, view: View, *, is_stale: bool
) -> None:
    rows = handle.rows()
    expected = view.last if is_stale else _expected(world, evaluator, view, rows)
    if view.definition.get("is_far") and handle.status()["budget_bytes"] is not None:
        expected = None  # computed again by an engine, which rounds on the way
    if expected is not None:
        found = _differences(expected, rows)
        if found:
            essence = _essence(handle.status())
            raise Different("rows", f"{view.name}: {found[:4]}\n#   {view.sql}\n#   {essence}")
    if not is_stale:
        view.last, view.was_settled = rows, expected is not None
    _check_followed(view, rows)


def check_statuses(mill: Any, world: World, *, is_quiet: bool) -> None:
    """What all views say about themselves is true; `is_quiet` if only rows changed since."""
    for view in world.views.values():
        status = mill[view.name].status()
        if status["freshness"] == "stale" and not view.is_deferred:
            raise Different("freshness", f"{view.name} is immediate and stale")
        shown = len(view.last or ())
        if status["rows"] != shown:
            raise Different("status", f"{view.name} says {status['rows']} rows, there are {shown}")
        _check_engine_calls(view, status, is_data=is_quiet)


def _expected(world: World, evaluator: Evaluator, view: View, rows: list[Row]) -> list[Row] | None:
    """What a fresh view shows; None if that is its own affair: rows were deleted too often."""
    if not world.is_settled(view):
        if "parts" in view.definition:
            note_start(view, world.tables)
        return None
    try:
        return evaluator.rows(view, world.tables)
    except Refused as why:
        raise Different("accepted", f"{view.name}: {why}, it shows {rows[:4]}") from None


def _differences(expected: list[Row], rows: list[Row]) -> list[str]:
    """What differs; most often nothing does, which is quickly seen."""
    counted = Counter(tuple(map(canonical, row)) for row in expected)
    if counted == Counter(tuple(map(canonical, row)) for row in rows):
        return []
    return differences(expected, rows)


def check_verify(mill: Any, world: World, name: str) -> None:
    """`verify` of a view finds nothing."""
    view = world.views[name]
    if not (view.was_settled and world.is_settled(view)):
        return
    found = mill[name].verify()
    if found:
        raise Different("verify", f"{name}: {found[:4]}\n#   {view.sql}")


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
    has_failed = status["error"] is not None or view.has_failed
    quiet = quiet and not has_failed  # the refresh after one that failed may fill states again
    # Numbers that outgrow a plan replan the view once, and that fills it again.
    quiet = quiet and view.strategy == status["strategy"]
    view.strategy = status["strategy"]
    if quiet and 0 <= view.engine_calls < calls and status["budget_bytes"] is None:
        raise Different("engine calls", f"{view.name}: {_essence(status)}")
    view.engine_calls, view.has_failed = calls, status["error"] is not None


def _essence(status: dict[str, Any]) -> dict[str, Any]:
    shown = ("version", "freshness", "strategy", "refresh_kind", "engine_calls", "policies")
    return {name: status[name] for name in shown}

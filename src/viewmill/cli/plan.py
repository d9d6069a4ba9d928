"""`viewmill plan`: what a refresh would cost for different budgets, before a view exists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewmill.algebra.units import parse_bytes
from viewmill.bench.plot import Series, bar_chart
from viewmill.cli.arguments import SPEC, JsonOption, MillOption, SpecOption
from viewmill.cli.definitions import Definition, read_definitions, sql_of
from viewmill.cli.open_mill import open_mill
from viewmill.cli.project import scratch_mill
from viewmill.cli.spec import read_spec
from viewmill.cli.subject import open_subject
from viewmill.cli.terminal import grid, print_json, remark, results, show_bytes
from viewmill.errors import InvalidArgument, UnknownName, UnsupportedQuery, ViewmillError

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill

_BUDGETS = "0,1MB,4MB,16MB,64MB,256MB,1GB"


def plan(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|FILE.sql]",
            help="A view, or a file that creates one; all views of the project if left out.",
        ),
    ] = None,
    memory: Annotated[
        str, typer.Option(help="Budgets to compare, separated by commas: 64MB,256MB,1GB.")
    ] = _BUDGETS,
    expect: Annotated[
        list[str] | None,
        typer.Option(help="Rows of the next delta of a table: orders=5000 or orders=1%."),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(help="Rows of a table, where none are loaded yet: orders=1500000."),
    ] = None,
    spec: SpecOption = SPEC,
    mill: MillOption = None,
    json: JsonOption = False,
    plot: Annotated[Path | None, typer.Option(help="Write a picture to this SVG file.")] = None,
) -> None:
    """Show the curve of refresh cost against memory, before a view is created."""
    budgets = [parse_bytes(each) for each in memory.split(",") if each.strip()]
    if not budgets:
        raise InvalidArgument("--memory names no budget", hint="--memory 64MB,256MB,1GB")
    said: dict[str, Any] = {"expect": _pairs(expect, "--expect"), "rows": _pairs(rows, "--rows")}
    curves: dict[str, list[Any]] = {}
    if subject is None:
        if plot is not None:
            raise InvalidArgument("a picture is of one view", hint="Name the view.")
        curves = _all_curves(spec, mill, budgets, said)
    else:
        with _open(subject, spec, mill) as (opened, what):
            curves[""] = opened.memory_curve(what, budgets, **said)
    if json:
        print_json([_as_json(name, each) for name, points in curves.items() for each in points])
    else:
        for name, points in curves.items():
            _print(name, points)
    if plot is not None:
        plot.write_text(_picture(curves[""]))
        remark(f"{plot} was written")


def _all_curves(
    spec: Path, mill: Path | None, budgets: list[int], said: dict[str, Any]
) -> dict[str, list[Any]]:
    """The curve of every view of the mill, and of those that the project would create in it."""
    curves, problems = {}, list[ViewmillError]()
    with _mill_or_scratch(spec, mill) as (opened, definitions):
        views = {name: name for name in opened.views()}
        known = {name.lower() for name in views}
        for each in definitions:
            if each.kind == "MATERIALIZED VIEW" and each.key not in known:
                views[each.name] = each.sql
        for name, what in views.items():
            try:
                curves[name] = opened.memory_curve(what, budgets, **said)
            except (UnknownName, UnsupportedQuery) as why:  # it keeps nothing, or does not read it
                problems.append(why)
                remark(f"{name}: {why.message}")
    if not curves and problems:
        raise problems[0]
    if not curves:
        raise InvalidArgument("the project has no view", hint="viewmill plan FILE.sql")
    return curves


@contextmanager
def _mill_or_scratch(spec: Path, mill: Path | None) -> Iterator[tuple[Mill, Sequence[Definition]]]:
    """The mill that is there and what its project defines, or else all of that in memory."""
    if mill is not None:
        with open_mill(spec, mill) as opened:
            yield opened, ()
        return
    project = read_spec(spec)
    definitions = read_definitions(project)
    if project.mill_path.exists():
        with open_mill(spec, None) as opened:
            yield opened, definitions
        return
    with scratch_mill(project, definitions) as opened:
        yield opened, ()


@contextmanager
def _open(subject: str, spec: Path, mill: Path | None) -> Iterator[tuple[Mill, str]]:
    """The mill to plan in, and a view's name or the statement that would create one.

    A file is planned over the tables of the mill that is there, without creating anything.
    """
    is_file = subject.endswith(".sql") or Path(subject).is_file()
    there = mill is not None or (spec.is_file() and read_spec(spec).mill_path.exists())
    if not (is_file and there):
        with open_subject(subject, spec, mill) as found:
            yield found
        return
    file = Path(subject)
    if not file.is_file():
        raise InvalidArgument(f"there is no file {file}")
    with open_mill(spec, mill) as opened:
        yield opened, sql_of(file)


def _pairs(given: list[str] | None, option: str) -> dict[str, str]:
    """`orders=1%` or `orders=1%,items=500`, given once or often."""
    found = {}
    for each in ",".join(given or []).split(","):
        if each.strip():
            name, equals, value = each.partition("=")
            if not equals or not name.strip() or not value.strip():
                raise InvalidArgument(f"{option} {each!r} is not table=rows", hint="orders=1%")
            found[name.strip()] = value.strip()
    return found


def _as_json(name: str, point: Any) -> dict[str, Any]:
    return {
        **({"view": name} if name else {}),
        "memory": point.budget,
        "selection": point.selection,
        "refresh_ms": point.refresh_us / 1000,
        "mode": point.mode,
        "state_bytes": point.state_bytes,
        "kept": list(point.kept),
    }


def _print(name: str, points: list[Any]) -> None:
    if name:
        results().print(f"view {name}")
    again = {each.budget: each.refresh_us for each in points if each.selection == "rebatch"}
    lines = []
    for each in points:
        if each.selection != "dynamic":
            continue
        faster = again[each.budget] / max(each.refresh_us, 1e-9)
        kept = ", ".join(each.kept) or "nothing: the view is computed again"
        lines.append(
            [
                show_bytes(each.budget),
                f"{each.refresh_us / 1000:.2f} ms",
                f"{faster:.1f}x",
                show_bytes(each.state_bytes),
                kept,
            ]
        )
    heads = ("memory", "refresh", "against recompute", "used", "kept")
    results().print(grid(heads, lines))


def _picture(points: list[Any]) -> str:
    names = {"dynamic": "selected states", "rebatch": "recompute"}
    series = [
        Series(
            shown,
            {show_bytes(p.budget): p.refresh_us / 1000 for p in points if p.selection == name},
        )
        for name, shown in names.items()
    ]
    return bar_chart("estimated ms per refresh, by memory", series)

"""`viewmill bench`: timed workloads, compared with DuckDB in the same run."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import Annotated

import typer

from viewmill.bench.report import Bench
from viewmill.cli.arguments import JsonOption
from viewmill.cli.terminal import print_json, print_text, remark
from viewmill.errors import UnknownName, nearest

# Loaded when asked for. Each is a `Bench`.
BENCHES = {
    "groupby": "viewmill.bench.groupby:groupby",
    "parts": "viewmill.bench.parts:parts",
    "spark": "viewmill.bench.spark:spark",
    "star": "viewmill.bench.star:star",
    "tree": "viewmill.bench.tree:tree",
    "weave": "viewmill.bench.weave:weave",
    "windows": "viewmill.bench.windows:windows",
    "nested": "viewmill.bench.nested:nested",
}


def bench(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(BENCHES)}.")],
    json: JsonOption = False,
    plot: Annotated[Path | None, typer.Option(help="Write a picture to this SVG file.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of the data.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rows, for a first look.")] = False,
) -> None:
    """Run a timed workload and compare it with recompute."""
    if name not in BENCHES:
        raise UnknownName(f"there is no bench {name!r}", hint=nearest(name, BENCHES))
    workload: Bench = pkgutil.resolve_name(BENCHES[name])
    report = workload(seed=seed, quick=quick, say=remark)
    if json:
        print_json(report.to_json())
    else:
        print_text(report.to_text())
    if plot is not None:
        plot.write_text(report.to_svg())
        remark(f"{plot} was written")
    if not report.verified:
        raise typer.Exit(3)

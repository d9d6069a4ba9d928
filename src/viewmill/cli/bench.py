"""`viewmill bench`: timed workloads, compared with DuckDB in the same run."""

from __future__ import annotations

import inspect
import os
import pkgutil
from pathlib import Path
from typing import Annotated, Any

import typer

from viewmill.bench.report import Bench
from viewmill.cli.arguments import JsonOption
from viewmill.cli.terminal import print_json, print_text, remark
from viewmill.errors import InvalidArgument, UnknownName, nearest

# Loaded when asked for. Each is a `Bench`.
BENCHES = {
    "categories": "viewmill.bench.categories:categories",
    "cofactor": "viewmill.bench.cofactor:cofactor",
    "durable": "viewmill.bench.durable:durable",
    "factorized": "viewmill.bench.factorized:factorized",
    "groupby": "viewmill.bench.groupby:groupby",
    "intermittent": "viewmill.bench.intermittent.bench:intermittent",
    "matrix": "viewmill.bench.matrix:matrix",
    "nexmark": "viewmill.bench.nexmark.bench:nexmark",
    "parts": "viewmill.bench.parts:parts",
    "retailer": "viewmill.bench.retailer:retailer",
    "serve": "viewmill.bench.serve:serve",
    "sinks": "viewmill.bench.sinks:sinks",
    "spark": "viewmill.bench.spark:spark",
    "star": "viewmill.bench.star:star",
    "start": "viewmill.bench.start:start",
    "tpch": "viewmill.bench.tpch.bench:tpch",
    "tree": "viewmill.bench.tree:tree",
    "triangle": "viewmill.bench.triangle:triangle",
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
    scale: Annotated[float | None, typer.Option(help="How much data, as in tpch: 0.1.")] = None,
    query: Annotated[int | None, typer.Option(help="One query only, as in tpch: 3.")] = None,
    sizes: Annotated[str, typer.Option(help="Which sizes, as in matrix: 256,512.")] = "",
) -> None:
    """Run a timed workload and compare it with recompute."""
    if name not in BENCHES:
        raise UnknownName(f"there is no bench {name!r}", hint=nearest(name, BENCHES))
    # What is timed is compiled, unless someone asks for something else.
    os.environ.setdefault("VIEWMILL_COMPILER", "now")
    workload: Bench = pkgutil.resolve_name(BENCHES[name])
    more = {"scale": scale, "query": query, "sizes": _sizes(sizes)}
    given = {option: value for option, value in more.items() if value is not None}
    _check_options(name, workload, given)
    report = workload(seed=seed, quick=quick, say=remark, **given)
    if json:
        print_json(report.to_json())
    else:
        print_text(report.to_text())
    if plot is not None:
        plot.write_text(report.to_svg())
        remark(f"{plot} was written")
    if not report.verified:
        raise typer.Exit(3)


def _sizes(text: str) -> tuple[int, ...] | None:
    """Whole numbers between commas."""
    if not text:
        return None
    words = [each.strip() for each in text.split(",")]
    if not all(each.isdigit() and int(each) > 0 for each in words):
        raise InvalidArgument(f"--sizes must be whole numbers like 256,512, got {text!r}")
    return tuple(map(int, words))


def _check_options(name: str, workload: Bench, given: dict[str, Any]) -> None:
    """Raise for an option that a bench does not know."""
    known = inspect.signature(workload).parameters
    for option, value in given.items():
        if option not in known:
            raise InvalidArgument(f"bench {name} has no option --{option}")
        if option != "sizes" and (value < 0 or (option == "scale" and value == 0)):
            raise InvalidArgument(f"--{option} must be positive, got {value}")

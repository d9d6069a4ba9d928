"""`viewmill doctor`: what this machine and a mill are like, what is wrong, and what to do."""

from __future__ import annotations

import os
import pkgutil
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

import viewmill as vm
from viewmill.algebra.names import quoted
from viewmill.cli.arguments import JsonOption
from viewmill.cli.terminal import print_json, print_text, show_bytes
from viewmill.errors import MissingDependency, ViewmillError

PACKAGES = ("viewmill", "pyarrow", "numpy", "numba", "duckdb", "sqlglot", "pandas", "polars",
            "pyspark", "deltalake")  # fmt: skip
LEAST_FREE_BYTES = 1 << 30


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; with something to do if it is not well."""

    what: str
    found: str
    to_do: str = ""


def doctor(
    mill: Annotated[Path | None, typer.Argument(help="The directory of a mill.")] = None,
    json: JsonOption = False,
) -> None:
    """Look at the environment and at a mill. Exit code 1 if something is to be done.

    A mill is only read, so it may be open in another process.
    """
    found = [*_environment(), *_cache(), *([] if mill is None else _mill(mill))]
    if json:
        print_json([vars(each) for each in found])
    else:
        for each in found:
            print_text(f"{each.what}: {each.found}" + (f"\n  → {each.to_do}" if each.to_do else ""))
    if any(each.to_do for each in found):
        raise typer.Exit(1)


def _environment() -> Iterator[Finding]:
    yield Finding("Python", f"{platform.python_version()} ({sys.executable})")
    yield Finding("machine", f"{platform.platform()}, {os.cpu_count()} cores")
    yield Finding("packages", ", ".join(_versions()))
    try:
        home = pkgutil.resolve_name("viewmill.pipeline.java:find_java")(os.environ)
    except MissingDependency as why:
        yield Finding("Java", f"none, so no Spark: {why.detail} {why.hint}")
    else:
        yield Finding("Java", "the one in PATH" if home is None else home)


def _versions() -> Iterator[str]:
    for name in PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"no {name}"


def _cache() -> Iterator[Finding]:
    folder: Path = pkgutil.resolve_name("viewmill.kernels.source:cache_directory")()
    wanted = os.environ.get("VIEWMILL_CACHE")
    is_own = folder.parent == (Path(wanted) if wanted else folder.parent)
    lost = folder.name != "kernels" or not is_own
    to_do = (
        "It cannot be written, or is not yours alone, so every process compiles its kernels again. "
        "Let VIEWMILL_CACHE name a directory of yours."
        if lost
        else ""
    )
    files = [each for each in folder.rglob("*") if each.is_file()]
    size = show_bytes(sum(each.stat().st_size for each in files))
    yield Finding("kernel cache", f"{folder}, {len(files)} files, {size}", to_do)


def _mill(path: Path) -> Iterator[Finding]:
    try:
        with vm.connect(path, read_only=True) as mill:
            facts = mill.status()
    except ViewmillError as why:
        yield Finding(
            "mill", f"{path}: {why.message}", why.hint or why.detail or "See the message."
        )
        return
    yield Finding("mill", f"{path}, version {facts['version']}, {_size(path)}")
    yield _disk(path)
    yield Finding("tables", _listed(facts["tables"]))
    yield Finding("views", _listed(facts["views"]))
    yield from _troubles(facts)


def _size(path: Path) -> str:
    files = [each for each in path.rglob("*") if each.is_file()]
    return f"{len(files)} files, {show_bytes(sum(each.stat().st_size for each in files))}"


def _disk(path: Path) -> Finding:
    free = shutil.disk_usage(path).free
    to_do = (
        "Free some space: a change that finds none is refused." if free < LEAST_FREE_BYTES else ""
    )
    return Finding("disk", f"{show_bytes(free)} free", to_do)


def _listed(facts: dict[str, dict[str, Any]]) -> str:
    shown = [f"{name} ({each['rows']} rows)" for name, each in facts.items()]
    return ", ".join(shown) or "none"


def _troubles(facts: dict[str, Any]) -> Iterator[Finding]:
    for name, why in facts["broken"].items():
        yield Finding(
            f"view {name}",
            f"broken: {why}",
            f"Mend its rows and REFRESH MATERIALIZED VIEW {quoted(name)}, replace it with "
            "CREATE OR REPLACE, or DROP it; `viewmill export` saves everything else.",
        )
    for name, each in facts["tables"].items():
        if each["negative_rows"]:
            yield Finding(
                f"table {name}",
                f"{each['negative_rows']} rows were deleted that never came",
                "Insert them, or no view shows the rows that they take away.",
            )
    for name, each in facts["views"].items():
        if each["error"]:
            yield Finding(
                f"view {name}", f"the last refresh failed: {each['error']}", "REFRESH it."
            )

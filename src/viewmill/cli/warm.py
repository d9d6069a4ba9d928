"""`viewmill warm`: compile kernels before they are needed, and carry them to other machines."""

from __future__ import annotations

import pkgutil
import time
from pathlib import Path
from typing import Annotated

import typer

import viewmill as vm
from viewmill.bench.start import TABLES, VIEWS
from viewmill.bench.start_process import insert_rows
from viewmill.cli.arguments import MillOption
from viewmill.cli.definitions import read_definitions
from viewmill.cli.project import scratch_mill
from viewmill.cli.spec import DEFAULT_SPEC, read_spec
from viewmill.cli.terminal import print_text
from viewmill.errors import InvalidArgument


def warm(
    spec: Annotated[
        Path | None,
        typer.Option("--spec", help=f"A project to warm, too; {DEFAULT_SPEC} if it is there."),
    ] = None,
    mill: MillOption = None,
    only: Annotated[
        bool, typer.Option("--only", help="Only the project or the mill, not what views share.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option("--export", help="Then pack all kernels into this file.")
    ] = None,
    add: Annotated[
        Path | None, typer.Option("--import", help="First add the kernels of such a file.")
    ] = None,
) -> None:
    """Compile what views share, and the views of a project or a mill, into the kernel cache.

    `vm.connect(kernels="kernels.zip")` uses a packed file on other machines of this kind. It is
    code that is run: keep it where only you can write.
    """
    if add is not None:
        count = pkgutil.resolve_name("viewmill.kernels.packed:unpack")(add)
        print_text(f"{add}: {count} files that the cache did not have")
    if not only:
        _warm_shared()
    if mill is not None:
        _warm_mill(mill)
    elif spec is not None or Path(DEFAULT_SPEC).is_file():
        _warm_project(spec or Path(DEFAULT_SPEC))
    elif only:
        raise InvalidArgument("there is nothing to warm", hint="Name a --mill or a --spec.")
    if export is not None:
        count = pkgutil.resolve_name("viewmill.kernels.packed:pack")(export)
        print_text(f"{export}: {count} files, {export.stat().st_size / 1e6:.1f} MB")


def _warm_shared() -> None:
    """Compile a view of every kind, which compiles the functions that all views share."""
    with vm.connect(compile="now") as opened:
        opened.sql(TABLES)
        for i, (kind, query) in enumerate(VIEWS.items(), 1):
            start = time.perf_counter()
            opened.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
            insert_rows(opened, i)
            print_text(f"[{i}/{len(VIEWS)}] {kind}: {time.perf_counter() - start:.1f} s")


def _warm_mill(path: Path) -> None:
    if not path.is_dir():
        raise InvalidArgument(f"there is no mill at {path}")
    start = time.perf_counter()
    with vm.connect(path, read_only=True, compile="now") as opened:
        count = len(opened.views())
    print_text(f"{path}: {count} views, {time.perf_counter() - start:.1f} s")


def _warm_project(spec: Path) -> None:
    start, project = time.perf_counter(), read_spec(spec)
    with scratch_mill(project, read_definitions(project), compile="now") as opened:
        count = len(opened.views())
    print_text(f"{project.name}: {count} views, {time.perf_counter() - start:.1f} s")

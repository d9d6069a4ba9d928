"""`viewmill run`: take what is new, refresh the views, write the sinks."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from viewmill.algebra.names import quoted
from viewmill.cli.arguments import SPEC, JsonOption, SpecFile, SpecOption
from viewmill.cli.definitions import Definition
from viewmill.cli.project import check, define, durable_mill, set_policies
from viewmill.cli.run_on_spark import run_on_spark
from viewmill.cli.spec import Sink, Spec, read_spec
from viewmill.cli.status import status_grid
from viewmill.cli.take_files import Taken, new_files, read_notes, take_files
from viewmill.cli.terminal import print_json, print_text, progress, remark, results
from viewmill.cli.write_sinks import catch_up, claim, follow, write_table
from viewmill.errors import InvalidArgument, UnknownName, nearest

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill


def run(
    file: SpecFile = None,
    spec: SpecOption = SPEC,
    refresh: Annotated[
        str | None, typer.Option(metavar="A,B", help="Refresh and write only these views.")
    ] = None,
    full_refresh: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Compute these views anew; of sources, forget the rows and take all files again.",
        ),
    ] = None,
    full_refresh_all: Annotated[
        bool, typer.Option("--full-refresh-all", help="Do so for every source and view.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on: take new files as they come, until Ctrl-C.")
    ] = False,
    every: Annotated[float, typer.Option(help="Seconds between two looks, with --watch.")] = 1.0,
    batch_rows: Annotated[
        int, typer.Option(min=1, help="The most rows in one atomic refresh.")
    ] = 100_000,
    json: JsonOption = False,
) -> None:
    """Take new files, refresh the views, write the sinks. Running again takes only what is new."""
    start = time.perf_counter()
    project = read_spec(file or spec)
    definitions = check(project)
    anew = _named(full_refresh, definitions, every=full_refresh_all)
    wanted = _named(refresh, definitions, every=refresh is None)
    if watch and (project.spark is not None or json or not every > 0):
        raise InvalidArgument(
            "--watch goes without Spark and --json, and --every is above zero",
            hint="On Spark, vm.Pipeline(...).start() goes on; log_commits gives lines of JSON.",
        )
    if project.spark is not None:
        run_on_spark(project, definitions, anew, wanted, json=json)
        return
    views = [each for each in definitions if each.kind == "MATERIALIZED VIEW"]
    shown = [each.name for each in views if each.key in wanted]
    sinks = [sink for sink in project.sinks if sink.view.lower() in wanted]
    with durable_mill(project, must_exist=False) as mill:
        for line in define(mill, definitions, start_over=_tables(anew, definitions)):
            remark(line)
        set_policies(project, mill)
        claim(project.sinks, project.storage)
        _follow(mill, sinks)
        rows = _take(mill, project, batch_rows)
        for each in views:
            if each.key in anew:
                mill.sql(f"REFRESH MATERIALIZED VIEW {quoted(each.name)} FULL")
            elif each.key in wanted:
                mill[each.name].refresh()
        written = {sink.view: str(_write(mill, sink)) for sink in sinks}
        if watch:
            remark(f"{rows:,} new rows. waiting for more; Ctrl-C ends it")
            _watch(mill, project, sinks, shown, batch_rows=batch_rows, every=every)
        found = {view: mill[view].status() for view in shown}
    seconds = time.perf_counter() - start
    if json:
        print_json({"rows": rows, "seconds": seconds, "views": found, "written": written})
        return
    results().print(status_grid(found))
    for view, path in written.items():
        print_text(f"{view} -> {path}")
    remark(f"{rows:,} new rows, {seconds:.1f} s. next: viewmill verify")


def _watch(
    mill: Mill,
    project: Spec,
    sinks: list[Sink],
    views: list[str],
    *,
    batch_rows: int,
    every: float,
) -> None:
    """Take new files as they come, a line for each time that there are some, until Ctrl-C."""
    before: dict[str, tuple[int, int]] = {}
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(every)
            found = new_files(project, read_notes(mill))
            seen = {each.path: (each.size, each.modified) for each in found}
            if not seen or seen != before:  # somebody may still be writing them
                before = seen
                continue
            start = time.perf_counter()
            rows = _take(mill, project, batch_rows)
            for view in views:
                mill[view].refresh()
            for sink in sinks:
                _write(mill, sink)
            version, seconds = mill.version, time.perf_counter() - start
            print_text(f"version {version}: {rows:,} rows in {seconds:.2f} s")
            sys.stdout.flush()


def _named(text: str | None, definitions: Iterable[Definition], *, every: bool) -> set[str]:
    """The names a user listed, in lower case."""
    known = {each.key: each.name for each in definitions}
    if every:
        return set(known)
    listed = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in listed:
        if name.lower() not in known:
            hint = nearest(name, known.values())
            raise UnknownName(f"the project defines no {name!r}", hint=hint)
    return {name.lower() for name in listed}


def _tables(names: Collection[str], definitions: Iterable[Definition]) -> set[str]:
    return {each.key for each in definitions if each.key in names and each.kind == "TABLE"}


def _follow(mill: Mill, sinks: Iterable[Sink]) -> None:
    """Let changes sinks follow batch by batch."""
    for sink in sinks:
        if sink.mode == "changes":
            _write(mill, sink)
            follow(mill, sink)


def _take(mill: Mill, project: Spec, batch_rows: int) -> int:
    """Take the new files."""
    files = new_files(project, read_notes(mill))
    with progress("files") as bar:
        task = bar.add_task("taking", total=len(files), note="")
        count = 0

        def report(taken: Taken) -> None:
            nonlocal count
            count += taken.rows
            bar.update(task, advance=int(taken.complete), note=f"{count:,} rows")

        return take_files(mill, files, batch_rows=batch_rows, report=report)


def _write(mill: Mill, sink: Sink) -> object:
    view = mill[sink.view]
    if sink.mode == "table":
        return write_table(sink, view.to_arrow())
    catch_up(sink, view.to_arrow(), int(view.status()["version"]))
    return sink.path

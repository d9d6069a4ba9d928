"""`viewmill run` with `runtime: spark`: one run of the Spark pipeline."""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Collection, Sequence
from typing import Any

from viewmill.cli.definitions import Definition
from viewmill.cli.spec import Spec
from viewmill.cli.status import status_grid
from viewmill.cli.terminal import print_json, print_text, remark, results
from viewmill.errors import InvalidArgument

_PIPELINE = "viewmill.pipeline.spec"  # loaded when a project asks for it


def run_on_spark(
    spec: Spec,
    definitions: Sequence[Definition],
    anew: Collection[str],
    wanted: Collection[str],
    *,
    json: bool,
) -> None:
    """Take new files through Spark, refresh the views, write the sinks.

    A batch is one commit for all views, so all follow it; `wanted` are shown, those of `anew` are
    computed again from the tables that the driver keeps.
    """
    full = _in_full(spec, definitions, anew)
    start = time.perf_counter()
    pipeline = pkgutil.resolve_name(_PIPELINE)
    project = project_of(spec, definitions, full)
    remark("starting Spark")
    status = pipeline.run(project)
    rows, seconds = sum(status["rows_in"].values()), time.perf_counter() - start
    written = {sink.view: str(sink.path) for sink in spec.sinks if sink.view.lower() in wanted}
    views = {name: each for name, each in status["views"].items() if name.lower() in wanted}
    if json:
        print_json({"rows": rows, "seconds": seconds, "views": views, "written": written,
                    "dead_letters": status["dead_letters"]})  # fmt: skip
        return
    results().print(status_grid(views))
    for view, path in written.items():
        print_text(f"{view} -> {path}")
    if status["dead_letters"]:
        remark(f"{status['dead_letters']:,} rows were refused: they are in the dead letters")
    remark(f"{rows:,} new rows, {seconds:.1f} s. next: viewmill verify")


def project_of(spec: Spec, definitions: Sequence[Definition], full: tuple[str, ...] = ()) -> Any:
    """What the pipeline needs to know of a project."""
    assert spec.spark is not None
    return pkgutil.resolve_name(_PIPELINE).SparkProject(
        name=spec.name,
        folder=spec.folder.absolute(),
        storage=spec.storage,
        sources=spec.sources,
        statements=[each.sql for each in definitions],
        sinks=spec.sinks,
        master=spec.spark.master,
        conf=spec.spark.conf,
        placement=spec.spark.placement,
        shards=spec.spark.shards,
        archive=spec.spark.archive,
        memory=spec.memory,
        refresh=spec.refresh,
        full=full,
    )


def _in_full(
    spec: Spec, definitions: Sequence[Definition], anew: Collection[str]
) -> tuple[str, ...]:
    """The views to compute again; sources and shards' views cannot be."""
    assert spec.spark is not None
    sources = {each.name.lower() for each in spec.sources}
    if anew and (spec.spark.placement == "shards" or sources & set(anew)):
        raise InvalidArgument(
            "on Spark a source is not taken again, and shards keep no rows to compute views from",
            hint="Remove the storage directory to take everything anew.",
        )
    kinds = {each.key: each.kind for each in definitions}
    return tuple(sorted(name for name in anew if kinds[name] == "MATERIALIZED VIEW"))

"""`viewmill run` with `runtime: spark`: one run of the Spark pipeline."""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Iterable

from viewmill.cli.definitions import Definition
from viewmill.cli.spec import Spec
from viewmill.cli.status import status_grid
from viewmill.cli.terminal import print_json, print_text, remark, results

_PIPELINE = "viewmill.pipeline.spec"  # loaded when a project asks for it


def run_on_spark(spec: Spec, definitions: Iterable[Definition], *, json: bool) -> None:
    """Take new files through Spark, refresh the views, write the sinks."""
    assert spec.spark is not None
    start = time.perf_counter()
    pipeline = pkgutil.resolve_name(_PIPELINE)
    project = pipeline.SparkProject(
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
        memory=spec.memory,
        refresh=spec.refresh,
    )
    remark("starting Spark")
    status = pipeline.run(project)
    rows, seconds = sum(status["rows_in"].values()), time.perf_counter() - start
    written = {sink.view: str(sink.path) for sink in spec.sinks}
    if json:
        views = status["views"]
        print_json({"rows": rows, "seconds": seconds, "views": views, "written": written,
                    "dead_letters": status["dead_letters"]})  # fmt: skip
        return
    results().print(status_grid(status["views"]))
    for view, path in written.items():
        print_text(f"{view} -> {path}")
    if status["dead_letters"]:
        remark(f"{status['dead_letters']:,} rows were refused: they are in the dead letters")
    remark(f"{rows:,} new rows, {seconds:.1f} s. next: viewmill verify")

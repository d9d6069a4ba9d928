"""`viewmill dry-run`: check everything, change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewmill.cli.arguments import SPEC, JsonOption, SpecFile, SpecOption
from viewmill.cli.definitions import read_definitions
from viewmill.cli.project import scratch_mill
from viewmill.cli.spec import Spec, read_spec
from viewmill.cli.take_files import file_schema
from viewmill.cli.terminal import grid, print_json, print_text, results
from viewmill.sources.read_files import read_file

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill


def dry_run(file: SpecFile = None, spec: SpecOption = SPEC, json: JsonOption = False) -> None:
    """Check the spec, plan the views and look into the files. Nothing is changed."""
    project = read_spec(file or spec)
    definitions = read_definitions(project)
    with scratch_mill(project, definitions) as mill:
        found = {
            "name": project.name,
            "sources": _check_files(project, mill),
            "views": [
                {"view": each.name, "strategy": _strategy(mill, each.name), "file": each.where}
                for each in definitions
                if each.kind == "MATERIALIZED VIEW"
            ],
            "sinks": [
                {"view": sink.view, "path": sink.path, "mode": sink.mode} for sink in project.sinks
            ],
        }
    if json:
        print_json(found)
        return
    for title in ("sources", "views", "sinks"):
        rows = found[title]
        if isinstance(rows, list) and rows:
            results().print(grid(list(rows[0]), [list(row.values()) for row in rows]))
            print_text("")
    print_text("everything is in order; nothing was changed. next: viewmill run")


def _check_files(spec: Spec, mill: Mill) -> list[dict[str, object]]:
    """Read the first rows of every file, so that a wrong column or type shows now."""
    found: list[dict[str, object]] = []
    for source in spec.sources:
        files = [file for pattern in source.paths for file in spec.files(pattern)]
        schema = file_schema(mill, source)
        for file in files:
            next(read_file(file, source.format, schema, skip=0, batch_rows=1_000), None)
        format = source.format if source.stream is None else source.stream["format"]
        found.append({"source": source.name, "files": len(files), "format": format})
    return found


def _strategy(mill: Mill, view: str) -> str:
    return str(mill[view].status()["strategy"])

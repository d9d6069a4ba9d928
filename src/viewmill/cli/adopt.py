"""`viewmill adopt`: keep the models of a dbt project, or the datasets of a Spark pipeline, fresh.

It says what share is incremental, what falls back and why, and what was not understood.
"""

from __future__ import annotations

import json as jsons
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import pyarrow.csv
import typer

import viewmill as vm
from viewmill.algebra.names import quoted
from viewmill.cli.adopt_pipeline import adopt_pipeline
from viewmill.cli.arguments import JsonOption
from viewmill.cli.dbt_manifest import DbtProject, DbtQuery, DbtTable, read_manifest
from viewmill.cli.terminal import grid, print_json, print_text, results
from viewmill.errors import InvalidArgument, ViewmillError
from viewmill.mill.import_table import create_statement

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill

Found = dict[str, Any]


def adopt(
    manifest: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="target/manifest.json of a dbt project, or a spark-pipeline.yml.",
        ),
    ],
    mill: Annotated[
        Path | None, typer.Option("--mill", help="A new mill to keep; else nothing is written.")
    ] = None,
    storage: Annotated[
        Path | None,
        typer.Option("--storage", help="Where a Spark pipeline is kept; else as its spec says."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say how a Spark pipeline would be kept; write nothing."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Make views of a dbt project's models; or run a project of Spark Declarative Pipelines."""
    if manifest.suffix.lower() in (".yml", ".yaml"):
        if mill is not None:
            raise InvalidArgument("a Spark pipeline is kept in --storage, not in a --mill")
        adopt_pipeline(manifest, storage, run=not dry_run, json=json)
        return
    if storage is not None or dry_run:
        raise InvalidArgument("--storage and --dry-run belong to a Spark pipeline")
    project = read_manifest(manifest)
    if mill is not None and mill.exists():
        raise InvalidArgument(f"{mill} is there already", hint="Give another --mill.")
    with ExitStack() as open_now:
        made = open_now.enter_context(vm.connect() if mill is None else vm.connect(mill))
        found = _adopted(made, project)
    if json:
        print_json(found)
        return
    for title in ("tables", "models", "tests"):
        rows = found[title]
        if rows:
            results().print(grid(list(rows[0]), [list(row.values()) for row in rows]))
            print_text("")
    print_text(found["summary"])


def _adopted(mill: Mill, project: DbtProject) -> Found:
    tables = [_table(mill, each) for each in project.tables]
    models = [_model(mill, each) for each in project.models]
    tests = [_test(mill, each) for each in project.tests]
    kept = sum(each["kept"] == "incrementally" for each in models)
    lost = sum(each["kept"] == "not understood" for each in models)
    summary = (
        f"{kept} of {len(models)} models are kept incrementally, "
        f"{len(models) - kept - lost} are computed again, {lost} were not understood"
    )
    return {"project": project.name, "tables": tables, "models": models, "tests": tests,
            "incremental": kept / len(models) if models else 1.0, "summary": summary}  # fmt: skip


def _table(mill: Mill, table: DbtTable) -> Found:
    rows, why = 0, ""
    try:
        found = None if table.seed is None else _read_seed(table.seed)
        if table.columns:
            columns = ", ".join(f"{quoted(name)} {type_}" for name, type_ in table.columns)
            mill.sql(f"CREATE TABLE {quoted(table.name)} ({columns}) UNCHECKED")
        elif found is not None:
            mill.sql(create_statement(table.name, found, (), "UNCHECKED"))
        else:
            why = "its columns are not known: `dbt docs generate` writes catalog.json"
        if found is not None:
            mill.insert(table.name, found)
            rows = found.num_rows
    except ViewmillError as error:
        why = _line(error)
    return {"table": table.name, "rows": rows, "not understood": why}


def _read_seed(file: Path) -> pa.Table:
    try:
        return pyarrow.csv.read_csv(
            file, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True)
        )
    except (pa.ArrowInvalid, OSError) as why:
        raise InvalidArgument(f"the seed cannot be read: {why}") from why


def _model(mill: Mill, model: DbtQuery) -> Found:
    found = {"model": model.name, "as": model.kind, "kept": "not understood", "how": "",
             "why": model.why_not}  # fmt: skip
    if model.why_not:
        return found
    try:
        mill.sql(f"CREATE MATERIALIZED VIEW {quoted(model.name)} AS {model.sql}")
    except ViewmillError as error:
        return {**found, "why": _line(error)}
    told = jsons.loads(str(mill[model.name].explain("json")))
    found |= {"how": told["strategy"], "kept": "incrementally" if told["incremental"] else "again"}
    if not told["incremental"]:
        found["why"] = "; ".join(
            each["reason"] for each in told["rejected"] if each["strategy"] == "dataflow"
        )
    return found


def _test(mill: Mill, test: DbtQuery) -> Found:
    found = {"test": test.name, "failures": 0, "not understood": test.why_not}
    if test.why_not:
        return found
    try:
        found["failures"] = len(mill.sql(test.sql).rows())
    except ViewmillError as error:
        found["not understood"] = _line(error)
    return found


def _line(error: ViewmillError) -> str:
    return f"{error.message}{f' ({error.hint})' if error.hint else ''}"

"""Run a project of `viewmill.yml` with `runtime: spark`.

takes  sources, CREATE statements and sinks, as the command line read them
does   one run of a pipeline over all files that are there; running again takes only what is new
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from viewmill.algebra.names import quoted
from viewmill.errors import InvalidArgument
from viewmill.pipeline.files import read_files
from viewmill.pipeline.pipeline import Pipeline
from viewmill.pipeline.replay_letters import Replayed
from viewmill.pipeline.session import session
from viewmill.pipeline.streams import read_stream
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateMaterializedView, CreateTable, CreateView

_WILD = frozenset("*?[{")


@dataclass(frozen=True)
class SparkProject:
    """What a run needs. `statements` are in an order in which they can be carried out.

    `sources` and `sinks` have the fields of `cli.spec.Source` and `cli.spec.Sink`.
    """

    name: str
    folder: Path
    storage: Path
    sources: Iterable[Any]
    statements: Iterable[str]
    sinks: Iterable[Any]
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    placement: str = "driver"
    shards: int | None = None
    archive: bool | None = None  # whether shards keep the rows of streams
    memory: int | None = None  # bytes, for all states together
    refresh: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # policies, by view
    full: tuple[str, ...] = ()  # views to compute again from the tables


def run(project: SparkProject) -> dict[str, Any]:
    """Take what is new, refresh, write the sinks; gives the pipeline's status."""
    spark = session(project.name, master=project.master, conf=project.conf)
    try:
        with build(spark, project) as pipe:
            query = pipe.run_once()
            for view in project.full:
                pipe.recompute(view)
            return query.status()
    finally:
        spark.stop()


def replay(project: SparkProject, letters: Iterable[tuple[str, Any]]) -> Replayed:
    """Take dead letters again: (id, row) of each."""
    spark = session(project.name, master=project.master, conf=project.conf)
    try:
        with build(spark, project) as pipe:
            return pipe.replay_letters(rows=letters)
    finally:
        spark.stop()


def build(spark: Any, project: SparkProject) -> Pipeline:
    """The project's pipeline."""
    if project.refresh and project.placement == "shards":
        raise InvalidArgument(
            "the key refresh goes with placement: driver",
            hint="A view whose SQL says when it is refreshed is kept by the driver, beside shards.",
        )
    pipe = Pipeline(
        spark,
        project.storage,
        placement=project.placement,
        shards=project.shards,
        archive=project.archive,
        memory=project.memory,
    )
    try:
        tables = {}
        parsed = [(text, parse(text)[-1]) for text in project.statements]
        for _, statement in parsed:
            if isinstance(statement, CreateTable):
                tables[statement.name.lower()] = statement
        for source in project.sources:
            _add_source(pipe, spark, project, source, tables.get(source.name.lower()))
        for text, statement in parsed:
            if isinstance(statement, CreateView | CreateMaterializedView):
                pipe.view(statement.name, text)
        for view, policies in project.refresh.items():
            pipe.mill[view].set_policies(*policies)
        for sink in project.sinks:
            pipe.sink(sink.view, path=sink.path, format=sink.format, mode=sink.mode)
    except BaseException:
        pipe.close()
        raise
    return pipe


def _add_source(
    pipe: Pipeline,
    spark: Any,
    project: SparkProject,
    source: Any,
    declared: CreateTable | None,
) -> None:
    schema, timestamp, checked = source.schema, source.timestamp, source.checked
    key: tuple[str, ...] = ()
    if schema is None:
        if declared is None:
            raise InvalidArgument(
                f"source {source.name} has no schema and no library creates it",
                hint=f'Add schema: "id BIGINT, ..." to sources.{source.name}.',
            )
        schema = ", ".join(f"{quoted(each.name)} {each.type}" for each in declared.columns)
        key, timestamp = declared.primary_key, declared.timestamp_by
        checked = checked or not declared.unchecked
    columns = schema
    if source.change:
        columns += f", {quoted(source.change)} STRING"
    elif source.multiplicity:
        columns += f", {quoted(source.multiplicity)} BIGINT"
    pipe.source(
        source.name,
        _rows(spark, project.folder, source, columns),
        change=source.change,
        multiplicity=source.multiplicity,
        timestamp=timestamp,
        key=key,
        checked=checked,
        options=source.options,
    )


def _rows(spark: Any, folder: Path, source: Any, columns: str) -> Any:
    """What a source reads: a connector's stream, or files that come."""
    if source.stream is None:
        path, options = _place(folder, source.paths)
        return read_files(spark, str(source.format), columns, path, options=options)
    options = dict(source.stream)
    format, table = options.pop("format"), options.pop("table", None)
    return read_stream(spark, format, columns, table=table, options=options)


def _place(folder: Path, patterns: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """A path for Spark: the directory of a pattern, which may be empty, and the names in it."""
    paths = [(folder / each).absolute() for each in patterns]
    if len(paths) == 1 and not _WILD & set(str(paths[0].parent)):
        paths[0].parent.mkdir(parents=True, exist_ok=True)
        return str(paths[0].parent), {"pathGlobFilter": paths[0].name}
    return (str(paths[0]) if len(paths) == 1 else f"{{{','.join(map(str, paths))}}}"), {}

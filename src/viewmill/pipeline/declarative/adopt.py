"""Run a project of Spark Declarative Pipelines with a pipeline of ours.

takes  what its spec file says, and where to keep what is remembered between runs
does   one run: takes what is new, refreshes the views, writes the tables
gives  how each dataset is kept, what fell back and why, and what was not understood

A dataset that Spark computes from others of the project is made after them, by a pipeline of its
own: a later stage.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from viewmill.algebra.names import folder_name, quoted
from viewmill.mill.changes import Change
from viewmill.pipeline.declarative.expectations import refuse_broken
from viewmill.pipeline.declarative.names import Names
from viewmill.pipeline.declarative.planning import STAND_IN, Dataset, Planner
from viewmill.pipeline.declarative.reading import quiet
from viewmill.pipeline.declarative.recorder import Definitions, Recorder, load
from viewmill.pipeline.declarative.sql_file import reader
from viewmill.pipeline.pipeline import Pipeline
from viewmill.pipeline.session import session


@dataclass(frozen=True)
class DeclarativeProject:
    """What a spec file says; `files` are Python and SQL, in the order of their names."""

    name: str
    root: Path
    storage: Path
    files: tuple[Path, ...]
    catalog: str | None = None
    database: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)


def adopt(project: DeclarativeProject, *, run: bool = True, spark: Any = None) -> dict[str, Any]:
    """Plan a project and, if `run`, run it; without `spark` in a session of its own."""
    if spark is not None:
        with _as_it_was(spark):
            return _Adopted(project, spark).report(run=run)
    spark = session(project.name, conf=project.configuration)
    try:
        return _Adopted(project, spark).report(run=run)
    finally:
        spark.stop()


@contextmanager
def _as_it_was(spark: Any) -> Iterator[None]:
    """The session has its catalog, its database and no views of ours afterwards."""
    catalog, database = spark.catalog.currentCatalog(), spark.catalog.currentDatabase()
    try:
        yield
    finally:
        spark.catalog.setCurrentCatalog(catalog)
        spark.catalog.setCurrentDatabase(database)
        for table in spark.catalog.listTables():
            if table.isTemporary and table.name.startswith(STAND_IN):
                spark.catalog.dropTempView(table.name)


class _Adopted:
    """One run."""

    def __init__(self, project: DeclarativeProject, spark: Any) -> None:
        self._project, self._spark = project, spark
        if project.catalog:
            spark.catalog.setCurrentCatalog(project.catalog)
        if project.database and spark.catalog.databaseExists(project.database):
            spark.catalog.setCurrentDatabase(project.database)
        database = project.database or spark.catalog.currentDatabase()
        names = Names(spark.catalog.currentCatalog(), database)
        recorder = Recorder(project.root, reader(spark))
        with quiet(), chdir(project.root):  # as `spark-pipelines` does
            self._found: Definitions = load(spark, list(project.files), recorder, project.root)
            self._planner = Planner(spark, self._found, names)
            self._order = self._planner.plan()
        self._written: dict[str, str] = {}
        self._failed: list[dict[str, str]] = []
        self._pipes: list[Pipeline] = []

    def report(self, *, run: bool) -> dict[str, Any]:
        """Run, and say how everything is kept."""
        start, rows = time.perf_counter(), 0
        if run:
            rows = self._run()
        told = [_told(each) for each in self._order]
        stored = [each for each in told if each["as"] in ("materialized view", "streaming table")]
        kept = sum(each["kept"] == "incrementally" for each in stored)
        outputs = [each for each in self._found.outputs if each.kind not in _NOT_STORED]
        lost = len(outputs) - len(stored)
        summary = (
            f"{kept} of {len(outputs)} datasets are kept incrementally, "
            f"{len(stored) - kept} are computed again, {lost} were not understood"
        )
        return {"project": self._project.name, "datasets": told,
                "expectations": self._failed, "not understood": self._found.lost,
                "summary": summary,
                "incremental": kept / len(outputs) if outputs else 1.0,
                "rows": rows, "seconds": time.perf_counter() - start,
                "tables": self._written}  # fmt: skip

    # Running.

    def _run(self) -> int:
        last = max((each.stage for each in self._order), default=-1)
        with ExitStack() as open_now:
            return sum(self._run_stage(stage, open_now) for stage in range(last + 1))

    def _run_stage(self, stage: int, open_now: ExitStack) -> int:
        pipe = Pipeline(self._spark, self._project.storage / f"stage-{stage}")
        open_now.enter_context(pipe)
        self._pipes.append(pipe)
        mine = [each for each in self._order if each.stage == stage]
        for own in sorted(set().union(*(each.uses for each in mine))):
            pipe.source(own, self._planner.sources[own].frame)
        self._bring_in(pipe, mine, stage)
        for dataset in mine:
            for bulk in dataset.bulk:
                with chdir(self._project.root):
                    frame = bulk.query()
                pipe.source(bulk.own, frame)
            self._define(pipe, dataset)
        refuse_broken(pipe.mill, [check for each in mine for check in each.checks])
        status = pipe.run_once().status()
        for dataset in mine:
            self._after(pipe, dataset)
        return int(sum(status["rows_in"].values()))

    def _bring_in(self, pipe: Pipeline, mine: list[Dataset], stage: int) -> None:
        """Datasets of earlier stages are tables here."""
        read = set().union(*(each.reads for each in mine))
        for dataset in self._order:
            if dataset.key in read and dataset.stage < stage:
                pipe.source(dataset.own, self._pipes[dataset.stage][dataset.own].to_spark())

    def _define(self, pipe: Pipeline, dataset: Dataset) -> None:
        is_name = dataset.is_temporary and not self._is_read_later(dataset)
        word = "VIEW" if is_name else "MATERIALIZED VIEW"
        pipe.view(dataset.own, f"CREATE {word} {quoted(dataset.own)} AS {dataset.sql}")
        for check in dataset.checks:
            pipe.view(check.own, f"CREATE MATERIALIZED VIEW {quoted(check.own)} AS {check.sql}")
        if dataset.output.kind == "sink":
            self._send(pipe, dataset)
        elif not dataset.is_temporary:
            self._store(pipe, dataset)

    def _is_read_later(self, dataset: Dataset) -> bool:
        return any(dataset.key in each.reads and each.stage > dataset.stage for each in self._order)

    def _store(self, pipe: Pipeline, dataset: Dataset) -> None:
        """A table of a catalog that lasts, or a directory of Parquet files."""
        name = ".".join(dataset.key)
        if self._lasts(dataset.key[0]):
            default: Any = self._spark.conf.get("spark.sql.sources.default")
            pipe.sink(dataset.own, table=name, format=cast(Any, dataset.output.format or default))
            self._written[dataset.output.name] = name
            return
        path = self._project.storage / "tables" / folder_name(dataset.own.lower())
        pipe.sink(dataset.own, path=path)
        self._written[dataset.output.name] = str(path)

    def _lasts(self, catalog: str) -> bool:
        if catalog != "spark_catalog":
            return True
        return str(self._spark.conf.get("spark.sql.catalogImplementation")) == "hive"

    def _send(self, pipe: Pipeline, dataset: Dataset) -> None:
        """New rows go to what `create_sink` names, as one batch of Spark for each change."""
        sink, spark = dataset.output, self._spark

        def send(change: Change) -> None:
            rows = _added(change)
            if rows.num_rows:
                spark.createDataFrame(rows).write.format(sink.format).options(
                    **sink.properties
                ).mode("append").save()

        pipe.sink(dataset.own, send)
        self._written[sink.name] = f"{sink.format} {sink.properties.get('path', '')}".strip()

    def _after(self, pipe: Pipeline, dataset: Dataset) -> None:
        """What later stages read, how many rows failed, and what a catalog tells of a table."""
        for check in dataset.checks:
            (counts,) = pipe[check.own].rows()
            self._failed += [
                {"dataset": dataset.output.name.replace("`", ""), "expectation": each.name,
                 "rows that fail": str(count), "action": each.action}
                for each, count in zip(check.expected, counts, strict=True)
            ]  # fmt: skip
        if self._is_read_later(dataset):
            self._planner.show(dataset, pipe[dataset.own].to_spark())
        if dataset.output.kind in _NOT_STORED or not self._lasts(dataset.key[0]):
            return
        name = ".".join(quoted(each) for each in dataset.key)
        texts = {key: _text(each) for key, each in dataset.output.properties.items()}
        if texts:
            listed = ", ".join(f"{_text(key)} = {each}" for key, each in texts.items())
            self._spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({listed})")
        if dataset.output.comment:
            self._spark.sql(f"COMMENT ON TABLE {name} IS {_text(dataset.output.comment)}")


_NOT_STORED = ("temporary view", "sink")


def _added(change: Change) -> pa.Table:
    """The rows that came, each as often as it came; what is gone stays in the sink."""
    found = change.to_arrow()
    times = np.maximum(found.column("_multiplicity").to_numpy(), 0)
    rows = found.drop_columns("_multiplicity")
    return rows.take(pa.array(np.repeat(np.arange(rows.num_rows), times)))


def _text(value: str) -> str:
    """A text as Spark's SQL says it."""
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _told(dataset: Dataset) -> dict[str, str]:
    why = dataset.why
    if dataset.output.unused:
        said = f"{', '.join(dataset.output.unused)} changes nothing here"
        why = f"{why}; {said}" if why else said
    return {"dataset": dataset.output.name.replace("`", ""), "as": dataset.output.kind,
            "kept": dataset.kept, "how": dataset.how, "why": why}  # fmt: skip

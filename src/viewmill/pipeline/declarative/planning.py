"""How each dataset of a project is kept: as a view that follows its tables, or by Spark.

takes  what the files define, and a session that has nothing but tables of others
gives  `Plan`: datasets in an order in which they can be made, with the SQL of their views

Queries are looked at with empty stand-ins in the place of the project's datasets. Whether a view is
kept incrementally is tried in a mill without rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, functions

from viewmill.algebra.names import quoted
from viewmill.errors import ViewmillError
from viewmill.mill.mill import Mill
from viewmill.pipeline.declarative.auto_cdc import DELETES, SEQUENCE, Columns, history, newest
from viewmill.pipeline.declarative.expectations import (
    Check,
    Expectation,
    expected_of,
    failures,
    kept_rows,
)
from viewmill.pipeline.declarative.names import Key, Names, rewrite
from viewmill.pipeline.declarative.plan_to_sql import Translator, Untranslatable, kind
from viewmill.pipeline.declarative.reading import reading
from viewmill.pipeline.declarative.recorder import CdcFlow, Definitions, Flow, Output
from viewmill.pipeline.declarative.sql_file import seq
from viewmill.pipeline.source import Source

STAND_IN = "viewmill_stand_in_"  # temporary views, numbered
_TRIAL = "viewmill_trial"
_STATEFUL = {"Aggregate", "Distinct", "Deduplicate", "DeduplicateWithinWatermark", "Join",
             "GlobalLimit", "FlatMapGroupsWithState", "TransformWithState"}  # fmt: skip


class NotUnderstood(Exception):
    """Why a dataset cannot be made."""


@dataclass
class Bulk:
    """A flow that Spark computes; its rows are a source of the mill called `own`."""

    own: str
    query: Callable[[], Any]
    is_stream: bool


@dataclass
class Dataset:
    """An output of the project, and how it is kept."""

    output: Output
    key: Key
    own: str  # its name in the mill
    flows: list[Flow | CdcFlow] = field(default_factory=list)
    sql: str = ""
    schema: Any = None
    kept: str = ""  # incrementally, again, by Spark; "" when it was not understood
    how: str = ""
    why: str = ""
    reads: set[Key] = field(default_factory=set)
    uses: set[str] = field(default_factory=set)  # sources
    bulk: list[Bulk] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    stage: int = 0

    @property
    def is_temporary(self) -> bool:
        """Whether it is only a name for its query."""
        return self.output.kind == "temporary view"


@dataclass
class _Table:
    """What stands for a name while queries are looked at."""

    view: str
    own: str
    key: Key | None  # of a dataset


class Planner:
    """Looks at every dataset, those first that others read."""

    def __init__(self, spark: Any, found: Definitions, names: Names) -> None:
        self._spark, self._found, self._names = spark, found, names
        self._mill = Mill()
        self.sources: dict[str, Source] = {}
        self.datasets: dict[Key, Dataset] = {}
        self.order: list[Dataset] = []
        self._tables: dict[tuple[Key, bool], _Table] = {}
        self._views: dict[str, _Table] = {}  # the same by their views
        self._leaves: list[tuple[Any, str]] = []
        self._now: list[Dataset] = []
        self._collect()

    def plan(self) -> list[Dataset]:
        """All datasets that can be made, in order."""
        try:
            for dataset in self.datasets.values():
                self._resolve(dataset)
        finally:
            self._mill.close()
        return self.order

    def evaluate(self, flow: Flow) -> Any:
        """The DataFrame of a flow's query, over what stands for its tables now."""
        with reading(self._spark, self._called, self._of_project) as run:
            frame = run(flow.query) if isinstance(flow.query, str) else flow.query()
        if not isinstance(frame, DataFrame):
            raise NotUnderstood(f"{flow.name} gives {type(frame).__name__}, not a DataFrame")
        return frame

    def show(self, dataset: Dataset, frame: Any) -> None:
        """Let the rows of a frame stand for a dataset."""
        for (key, _), table in self._tables.items():
            if key == dataset.key:
                frame.createOrReplaceTempView(table.view)

    # Collecting.

    def _collect(self) -> None:
        for output in self._found.outputs:
            key = self._names.key(output.name)
            if key in self.datasets:
                self._found.lose(output.name, output.where, "there is a dataset of this name")
                continue
            self.datasets[key] = Dataset(output, key, self._names.own(output.name))
        for flow in self._found.flows:
            target = self.datasets.get(self._names.key(flow.target))
            if target is None:
                self._found.lose(flow.name, flow.where, f"it fills {flow.target}, which is nowhere")
            else:
                target.flows.append(flow)

    # Resolving.

    def _resolve(self, dataset: Dataset) -> None:
        if dataset in self._now:
            raise NotUnderstood(f"{dataset.output.name} reads itself")
        if dataset.kept or dataset.why:
            return
        self._now.append(dataset)
        try:
            self._keep(dataset)
            self.order.append(dataset)
        except Exception as why:  # noqa: BLE001 (the user's code and Spark raise anything)
            said = str(why).strip().splitlines() or [""]
            name = "" if isinstance(why, NotUnderstood | Untranslatable) else type(why).__name__
            dataset.kept, dataset.why = "", f"{name}: {said[0]}".removeprefix(": ") or name
            self._found.lose(dataset.output.name, dataset.output.where, dataset.why)
        finally:
            self._now.pop()

    def _keep(self, dataset: Dataset) -> None:
        flows = dataset.flows
        if not flows and (dataset.output.kind == "sink" or not dataset.output.schema):
            raise NotUnderstood("no flow fills it")
        if any(isinstance(each, CdcFlow) for each in flows) and len(flows) > 1:
            raise NotUnderstood("AUTO CDC beside another flow")
        tried = [self._flow(dataset, each) for each in flows]
        dataset.schema = self._schema(dataset, [each.schema for each in tried])
        dataset.sql = self._united(dataset, tried)
        self._name_view(dataset)
        worst = max(tried, key=lambda each: _WORST.index(each.kept), default=_Tried("", None))
        dataset.kept, dataset.how, dataset.why = worst.kept, worst.how, worst.why
        dataset.stage = max((self.datasets[each].stage for each in dataset.reads), default=0) + any(
            not each.is_stream and dataset.reads for each in dataset.bulk
        )

    def _name_view(self, dataset: Dataset) -> None:
        """Others read it by its name, in the trial mill, too."""
        kind_ = "VIEW" if dataset.is_temporary else "MATERIALIZED VIEW"
        self._mill.sql(f"CREATE {kind_} {quoted(dataset.own)} AS {dataset.sql}")

    def _schema(self, dataset: Dataset, found: list[Any]) -> Any:
        declared = dataset.output.schema
        if declared is None:
            return found[0]
        if isinstance(declared, str):
            return self._spark.createDataFrame([], declared).schema
        return declared

    def _united(self, dataset: Dataset, tried: list[_Tried]) -> str:
        """One query for all flows, columns by name, with the types that are declared."""
        wanted = dataset.schema
        if not tried:
            raise NotUnderstood("no flow fills it")
        queries = []
        for each in tried:
            types = {field.name.lower(): field.dataType for field in each.schema}
            if [f.name for f in wanted] == [f.name for f in each.schema] and all(
                types[f.name.lower()] == f.dataType for f in wanted
            ):
                queries.append(each.sql)
                continue
            shown = ", ".join(_column(field, types) for field in wanted)
            queries.append(f"SELECT {shown} FROM ({each.sql}) AS f")
        return " UNION ALL ".join(queries)

    # One flow.

    def _flow(self, dataset: Dataset, flow: Flow | CdcFlow) -> _Tried:
        if isinstance(flow, CdcFlow):
            return self._cdc(dataset, flow)
        frame = self.evaluate(flow)
        text = flow.query if isinstance(flow.query, str) else getattr(frame, "_viewmill_sql", None)
        tries: list[Callable[[], str | None]] = [lambda: self._from_plan(frame)]
        if text is not None:
            tries.insert(0, lambda: rewrite(text, self._own))
        best = self._best(tries, frame)
        if not best.sql:
            query = lambda: self.evaluate(flow)  # noqa: E731
            best = self._bulk(dataset, flow.name, query, frame, best.why)
        expected = expected_of(flow.query)
        return self._checked(dataset, best, expected) if expected else best

    def _checked(
        self, dataset: Dataset, tried: _Tried, expected: tuple[Expectation, ...]
    ) -> _Tried:
        """A flow without the rows that are dropped, and a view that counts those that fail."""
        count = failures(tried.sql, expected)
        self._mill.sql(f"CREATE MATERIALIZED VIEW {_TRIAL} AS {count}")
        self._mill.sql(f"DROP MATERIALIZED VIEW {_TRIAL}")
        dataset.checks.append(Check(self._names.own(f"{dataset.own}_failed"), count, expected))
        return replace(tried, sql=kept_rows(tried.sql, expected))

    def _best(self, tries: list[Callable[[], str | None]], frame: Any) -> _Tried:
        """The first query that is kept incrementally, or else one that works."""
        found = _Tried("", frame.schema)
        for make in tries:
            try:
                sql = make()
            except (Untranslatable, ViewmillError) as why:
                found.why = found.why or _line(why)
                continue
            if sql is None:
                continue
            tried = self._try(sql, frame.schema)
            if tried.kept == "incrementally":
                return tried
            if tried.sql or not found.sql:
                found = tried if tried.sql or not found.why else found
        return found

    def _try(self, sql: str, schema: Any) -> _Tried:
        tried = _Tried("", schema)
        try:
            self._mill.sql(f"CREATE MATERIALIZED VIEW {_TRIAL} AS {sql}")
        except ViewmillError as why:
            tried.why = _line(why)
            return tried
        try:
            view = self._mill[_TRIAL]
            names = view.to_arrow().schema.names
            if [each.lower() for each in names] != [each.lower() for each in schema.names]:
                tried.why = "its columns would be called otherwise than in Spark"
                return tried
            told = json.loads(str(view.explain("json")))
        finally:
            self._mill.sql(f"DROP MATERIALIZED VIEW {_TRIAL}")
        tried.sql, tried.how = sql, told["strategy"]
        tried.kept = "incrementally" if told["incremental"] else "again"
        if not told["incremental"]:
            reasons = {each["strategy"]: each["reason"] for each in told["rejected"]}
            tried.why = reasons.get("dataflow") or "; ".join(reasons.values())
        return tried

    def _bulk(
        self, dataset: Dataset, name: str, query: Callable[[], Any], frame: Any, why: str
    ) -> _Tried:
        """Spark computes the rows; what of them is new is taken into the mill."""
        if frame.isStreaming and _is_stateful(frame._jdf.queryExecution().analyzed()):
            raise NotUnderstood(f"a stream that keeps state, and {why}")
        own = self._names.own(f"{dataset.own}_rows")
        source = Source(own, frame)
        self._mill.sql(source.create_statement())
        dataset.bulk.append(Bulk(own, query, bool(frame.isStreaming)))
        how = "a stream of Spark" if frame.isStreaming else "all rows by Spark, each time"
        kept = "incrementally" if frame.isStreaming else "by Spark"
        columns = ", ".join(map(quoted, source.columns))
        return _Tried(f"SELECT {columns} FROM {quoted(own)}", frame.schema, kept, how, why)

    def _from_plan(self, frame: Any) -> str:
        plan = frame._jdf.queryExecution().analyzed()
        return Translator(self._spark, self._leaf).sql(plan)

    # AUTO CDC.

    def _cdc(self, dataset: Dataset, flow: CdcFlow) -> _Tried:
        def events() -> Any:
            with reading(self._spark, self._called, self._of_project):
                source = self._spark.table(flow.source)
                return source.select("*", flow.sequence.alias(SEQUENCE), _sure(flow.deletes))

        frame = events()
        below = self._best([lambda: self._from_plan(frame)], frame)
        if not below.sql:
            below = self._bulk(dataset, flow.name, events, frame, below.why)
        source = frame.drop(SEQUENCE, DELETES)
        target = _target(source, flow)
        make = newest if flow.history == 1 else history
        sql = make(below.sql, target)
        schema = source.select(*map(quoted, target.columns)).schema
        if flow.history == 2:
            for name in ("__START_AT", "__END_AT"):
                schema = schema.add(name, frame.schema[SEQUENCE].dataType)
        tried = self._try(sql, schema)
        if not tried.sql:
            raise NotUnderstood(tried.why)
        if below.kept == "by Spark":
            return replace(below, sql=sql, schema=schema)
        return tried

    # Names.

    def _called(self, name: str, is_stream: bool) -> str:
        """The temporary view that stands for a name; the name itself, if it is no table."""
        table = self._table(name, is_stream=is_stream)
        return name if table is None else quoted(table.view)

    def _of_project(self, name: str) -> str | None:
        """The temporary view that stands for a dataset of the project."""
        if self._names.key(name) not in self.datasets:
            return None
        return self._called(name, False)

    def _own(self, name: str, is_stream: bool) -> str:
        table = self._table(name, is_stream=is_stream)
        if table is None:
            raise Untranslatable(f"{name} is no table")
        return quoted(self._noted(table))

    def _table(self, name: str, *, is_stream: bool) -> _Table | None:
        key = self._names.key(name)
        dataset = self.datasets.get(key)
        is_stream = is_stream and dataset is None
        found = self._tables.get((key, is_stream))
        if dataset is not None:
            self._read(dataset)
        if found is not None:
            return found
        view = f"{STAND_IN}{len(self._tables)}"
        if dataset is None:
            frame = self._external(name, is_stream=is_stream)
            if frame is None:
                return None
            found = _Table(view, self._names.own(name), None)
        else:
            frame = self._spark.createDataFrame([], dataset.schema)
            found = _Table(view, dataset.own, key)
        frame.createOrReplaceTempView(view)
        self._tables[key, is_stream] = self._views[view] = found
        return found

    def _read(self, dataset: Dataset) -> None:
        """A dataset is made before those that read it."""
        self._resolve(dataset)
        if dataset.schema is None or not dataset.kept:
            raise NotUnderstood(f"it reads {dataset.output.name}, which was not understood")
        if self._now:
            self._now[-1].reads.add(dataset.key)

    def _external(self, name: str, *, is_stream: bool) -> Any:
        """A table of others, by the method that nothing stands in for."""
        try:
            plain = self._spark._jsparkSession
            reader = plain.readStream() if is_stream else plain.read()
            return DataFrame(reader.table(name), self._spark)
        except Exception:  # noqa: BLE001 (Spark says why when the query itself is run)
            return self._external(name, is_stream=False) if is_stream else None

    def _leaf(self, node: Any, called: str) -> str | None:
        """The table of the mill that a plan's node stands for."""
        stand_in = self._views.get(called)
        if stand_in is not None:
            return self._noted(stand_in)
        if node.children().size() or kind(node) == "OneRowRelation":
            return None
        for other, own in self._leaves:
            if other.sameResult(node):
                self._now[-1].uses.add(own)
                return own
        own = self._names.own(called or f"{self._now[-1].own}_source")
        classic = self._spark._jvm.org.apache.spark.sql.classic.Dataset
        frame = DataFrame(classic.ofRows(self._spark._jsparkSession, node), self._spark)
        self._add_source(own, frame)
        self._leaves.append((node, own))
        return own

    def _noted(self, table: _Table) -> str:
        """The mill's name of a table, which is brought in when it is first used."""
        if table.key is None and table.own not in self.sources:
            frame = self._spark._jsparkSession.table(table.view)
            self._add_source(table.own, DataFrame(frame, self._spark))
        if table.key is None:
            self._now[-1].uses.add(table.own)
        return table.own

    def _add_source(self, own: str, frame: Any) -> None:
        source = Source(own, frame)
        self._mill.sql(source.create_statement())
        self.sources[own] = source
        self._now[-1].uses.add(own)


@dataclass
class _Tried:
    """A query for a flow, and how it would be kept."""

    sql: str
    schema: Any
    kept: str = ""
    how: str = ""
    why: str = ""


_WORST = ("", "incrementally", "again", "by Spark")


def _line(why: Exception) -> str:
    if isinstance(why, ViewmillError):
        return f"{why.message}{f' ({why.hint})' if why.hint else ''}"
    return str(why)


def _column(field: Any, types: dict[str, Any]) -> str:
    """A column of a flow as its table declares it."""
    name, found = quoted(field.name), types.get(field.name.lower())
    if found == field.dataType:
        return f"{name} AS {name}"
    value = "NULL" if found is None else name
    return f"CAST({value} AS {field.dataType.simpleString().upper()}) AS {name}"


def _is_stateful(plan: Any) -> bool:
    return kind(plan) in _STATEFUL or any(_is_stateful(each) for each in seq(plan.children()))


def _sure(deletes: Any) -> Any:
    """A condition that is NULL does not delete, nor does one that is not there."""
    condition = functions.lit(False) if deletes is None else deletes
    return functions.coalesce(condition, functions.lit(False)).alias(DELETES)


def _target(source: Any, flow: CdcFlow) -> Columns:
    def names(columns: Any) -> list[str]:
        return list(source.select(*columns).columns)

    left_out = {each.lower() for each in names(flow.not_columns)} if flow.not_columns else set()
    columns = names(flow.columns) if flow.columns else source.columns
    columns = [each for each in columns if each.lower() not in left_out]
    keys = names(flow.keys)
    free = [each for each in columns if each.lower() not in {key.lower() for key in keys}]
    untracked = {each.lower() for each in names(flow.not_tracked)} if flow.not_tracked else set()
    tracked = names(flow.tracked) if flow.tracked else free
    missing = [key for key in keys if key.lower() not in {each.lower() for each in columns}]
    if missing:
        raise NotUnderstood(f"the key {missing[0]} is not among the columns of the target")
    return Columns(columns, keys, [each for each in tracked if each.lower() not in untracked])

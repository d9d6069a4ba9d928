"""What the files of a project define, registered through PySpark's own interface.

takes  the files of a project: Python programs, which are run, and SQL, which Spark's parser reads
gives  `Definitions`: outputs, the flows that fill them, and what was not understood
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark.pipelines import graph_element_registry as elements
from pyspark.pipelines.output import MaterializedView, Sink, StreamingTable, TemporaryView
from pyspark.sql import functions

from viewmill.errors import InvalidArgument
from viewmill.pipeline.declarative.expectations import decorators

_CONNECT = "pyspark.sql.connect.functions.builtin"  # PySpark takes `col` and `expr` from there


@dataclass(frozen=True)
class Output:
    """A dataset, by the name that the project gives it."""

    name: str
    kind: str  # materialized view, streaming table, temporary view, sink
    where: str
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    schema: Any = None  # a StructType, or columns as in CREATE TABLE
    format: str | None = None
    unused: tuple[str, ...] = ()  # clauses that change nothing here


@dataclass(frozen=True)
class Flow:
    """A query whose rows go to `target`: SQL, or a function that gives a DataFrame."""

    name: str
    target: str
    query: str | Callable[[], Any]
    where: str


@dataclass(frozen=True)
class CdcFlow:
    """AUTO CDC: events of `source` applied to `target` by key, in the order of `sequence`."""

    name: str
    target: str
    source: str
    keys: tuple[Any, ...]
    sequence: Any
    deletes: Any
    columns: tuple[Any, ...]
    not_columns: tuple[Any, ...]
    history: int
    tracked: tuple[Any, ...]
    not_tracked: tuple[Any, ...]
    where: str


@dataclass
class Definitions:
    """Everything that a project defines."""

    outputs: list[Output] = field(default_factory=list)
    flows: list[Flow | CdcFlow] = field(default_factory=list)
    lost: list[dict[str, str]] = field(default_factory=list)

    def lose(self, what: str, where: str, why: object) -> None:
        """Note what was not understood."""
        said = str(why).strip().splitlines() or [type(why).__name__]
        self.lost.append({"what": what.replace("`", ""), "where": where, "why": said[0]})


class Recorder(elements.GraphElementRegistry):  # type: ignore[misc]
    """What PySpark's decorators call."""

    def __init__(self, root: Path, read_sql: Callable[[str, str, Definitions], None]) -> None:
        self.found = Definitions()
        self._root, self._read_sql = root, read_sql

    def register_output(self, output: Any) -> None:
        """A decorated function, `create_streaming_table` or `create_sink`."""
        kinds = {MaterializedView: "materialized view", StreamingTable: "streaming table",
                 TemporaryView: "temporary view", Sink: "sink"}  # fmt: skip
        kind = next((word for type_, word in kinds.items() if isinstance(output, type_)), None)
        where = self._where(output)
        if kind is None:
            self.found.lose(output.name, where, f"no {type(output).__name__} is known")
            return
        asked = ("partition_cols", "cluster_by")
        properties = getattr(output, "options" if kind == "sink" else "table_properties", {})
        self.found.outputs.append(
            Output(
                output.name, kind, where, output.comment, dict(properties or {}),
                getattr(output, "schema", None), getattr(output, "format", None),
                tuple(each for each in asked if getattr(output, each, None)),
            )
        )  # fmt: skip

    def register_flow(self, flow: Any) -> None:
        """The query of a decorated function."""
        self.found.flows.append(Flow(flow.name, flow.target, flow.func, self._where(flow)))

    def register_auto_cdc_flow(self, flow: Any) -> None:
        """`create_auto_cdc_flow`."""
        tracked = flow.track_history_column_list, flow.track_history_except_column_list
        self.found.flows.append(
            CdcFlow(
                flow.name or flow.target, flow.target, flow.source, tuple(flow.keys),
                flow.sequence_by, flow.apply_as_deletes, tuple(flow.column_list or ()),
                tuple(flow.except_column_list or ()), int(flow.stored_as_scd_type or 1),
                tuple(tracked[0] or ()), tuple(tracked[1] or ()), self._where(flow),
            )
        )  # fmt: skip

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """The statements of a file."""
        self._read_sql(sql_text, str(file_path), self.found)

    def _where(self, element: Any) -> str:
        place = element.source_code_location
        file = Path(place.filename)
        inside = file.relative_to(self._root) if file.is_relative_to(self._root) else file
        return f"{inside}:{place.line_number}"


def load(spark: Any, files: list[Path], recorder: Recorder, root: Path) -> Definitions:
    """Run the Python files and read the SQL files of a project, as PySpark does."""
    context = elements.graph_element_registration_context(recorder)
    with context, _plain_columns(), decorators():
        for file in files:
            if file.suffix == ".py":
                _run(spark, file)
            elif file.suffix == ".sql":
                recorder.register_sql(_text(file), file.relative_to(root))
            else:
                raise InvalidArgument(f"{file} is neither .py nor .sql")
    return recorder.found


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as why:
        raise InvalidArgument(f"{file} is not UTF-8", detail=str(why)) from why


def _run(spark: Any, file: Path) -> None:
    """A definition file is the user's program; it finds the session under the name `spark`."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["spark"] = spark
    try:
        spec.loader.exec_module(module)
    except Exception as why:
        said = (str(why).strip().splitlines() or [""])[0]
        raise InvalidArgument(f"{file} failed: {type(why).__name__}: {said}") from why


@contextmanager
def _plain_columns() -> Iterator[None]:
    """AUTO CDC's functions make columns of Spark Connect, which needs gRPC; ours are classic."""
    before = sys.modules.get(_CONNECT)
    made: Any = ModuleType(_CONNECT)
    made.col, made.expr = functions.col, functions.expr
    sys.modules[_CONNECT] = made
    try:
        yield
    finally:
        del sys.modules[_CONNECT]
        if before is not None:
            sys.modules[_CONNECT] = before

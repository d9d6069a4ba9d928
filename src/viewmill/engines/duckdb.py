"""DuckDB in this process.

takes  algebra.Relation or Spark SQL, Arrow tables
gives  Arrow tables in exactly the algebra's types; DuckDB's errors as ours
"""

from __future__ import annotations

import datetime as dt
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from duckdb.func import FunctionNullHandling, PythonUDFType

from viewmill.algebra.expressions import UserCall
from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.walk import user_calls
from viewmill.deltas.arrow import arrow_schema, arrow_type, engine_schema, from_arrow_type
from viewmill.engines.exact_floats import OF_PAIRS, OF_VALUES
from viewmill.errors import (
    EvaluationFailed,
    OutOfMemory,
    Overflow,
    ResultTooLarge,
    UnsupportedQuery,
    ViewmillError,
)
from viewmill.program.python_functions import PYTHON_FUNCTIONS, PythonFunction, Unfit
from viewmill.program.signals import Hearing
from viewmill.program.user_calls import answers
from viewmill.sql.bounded_macros import BOUNDED_MACROS
from viewmill.sql.duckdb_macros import MACROS
from viewmill.sql.render import render
from viewmill.sql.render_names import duckdb_type, python_name, user_name
from viewmill.sql.transpile import transpile

_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET default_null_order = 'nulls_first_on_asc_last_on_desc'",
    "SET threads = 2",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
)

# For SQL that others write.
# Patterns that Python's `re` matches: some take years, and everybody waits for them.
_SLOW = ("java_like", "java_extract", "java_replace", "regexp_count", "regexp_substr",
         "regexp_instr")  # fmt: skip


def _refused(name: str, count: int) -> str:
    said = "patterns of this kind are not allowed here: rlike and regexp_extract take plain ones"
    return (
        f"{python_name(name, count)}({', '.join(f'p{i}' for i in range(count))}) AS error('{said}')"
    )


_SAFE = (
    *(f"CREATE OR REPLACE MACRO {macro}" for macro in BOUNDED_MACROS),
    *(
        f"CREATE OR REPLACE MACRO {_refused(name, count)}"
        for name in _SLOW
        for count in range(PYTHON_FUNCTIONS[name].least, len(PYTHON_FUNCTIONS[name].parameters) + 1)
    ),
    "SET lock_configuration = true",
)
_ROWS_AT_ONCE = 8_192

_WIDE_SUM = "Overflow in HUGEINT addition"  # DuckDB's word for a sum beyond 128 bits


def connect() -> Any:
    """A new DuckDB in memory that knows what rendered queries call."""
    connection = duckdb.connect(":memory:")
    for setting in _SETTINGS:
        connection.execute(setting)
    for name, python in PYTHON_FUNCTIONS.items():
        for count in range(python.least, len(python.parameters) + 1):
            _define(connection, name, python, count)
    for macro in MACROS:
        connection.execute(f"CREATE MACRO {macro}")
    return connection


def _define(connection: Any, name: str, python: PythonFunction, count: int) -> None:
    """A function in Python that takes so many parameters, over columns: these keep NaN."""

    def compute(*columns: pa.ChunkedArray) -> pa.Array:
        rows = zip(*(each.to_pylist() for each in columns), strict=True)
        return pa.array([_value(python, each) for each in rows], arrow_type(python.result))

    # DuckDB reads the number of parameters from the signature.
    names = (Parameter(f"p{i}", Parameter.POSITIONAL_ONLY) for i in range(count))
    vars(compute)["__signature__"] = Signature(list(names))
    connection.create_function(
        python_name(name, count), compute,
        [duckdb_type(each) for each in python.parameters[:count]], duckdb_type(python.result),
        type=PythonUDFType.ARROW, null_handling=FunctionNullHandling.SPECIAL,
    )  # fmt: skip


def _define_user_function(connection: Any, name: str, call: UserCall) -> None:
    user, types = call.user, tuple(each.type for each in call.arguments)

    def compute(*columns: pa.ChunkedArray) -> pa.Array:
        rows = list(zip(*(each.to_pylist() for each in columns), strict=True))
        try:
            values = answers(user, types, rows if types else [()] * len(rows))
        except Unfit as why:
            raise EvaluationFailed(str(why)) from None
        return pa.array(values, arrow_type(user.result))

    taken = [duckdb_type(each) for each in types] or ["INTEGER"]
    names = (Parameter(f"p{i}", Parameter.POSITIONAL_ONLY) for i in range(len(taken)))
    vars(compute)["__signature__"] = Signature(list(names))
    connection.create_function(
        name, compute, taken, duckdb_type(user.result),
        type=PythonUDFType.ARROW, null_handling=FunctionNullHandling.SPECIAL,
        side_effects=not user.deterministic,
    )  # fmt: skip


@dataclass(frozen=True)
class QueryLimits:
    """At most so many rows and bytes; `watch` is told how to interrupt the query while it runs."""

    rows: int
    bytes: int
    watch: Callable[[Callable[[], None]], AbstractContextManager[object]]


class DuckdbEngine:
    """One in-memory DuckDB. Each call has its own cursor, so several threads may run queries."""

    def __init__(self, settings: Sequence[str] = (), *, is_safe: bool = False) -> None:
        """Safe means for SQL that others write: large values and options are refused."""
        with Hearing():
            self._connection = connect()
            for setting in [*settings, *(_SAFE if is_safe else ())]:
                self._connection.execute(setting)
        self._has_exact_floats = False
        self._user_functions: set[str] = set()
        self._lock = threading.Lock()

    def run_limited(
        self, relation: Relation, tables: Mapping[str, pa.Table], limits: QueryLimits
    ) -> pa.Table:
        """The rows of `relation`, one more than allowed at most."""
        self._define_user_functions(relation)
        text = render(relation, "duckdb", _internal)
        return _typed(self._execute(text, tables, limits), relation)

    def run(self, relation: Relation, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of `relation`, in exactly the types of its schema."""
        self._define_user_functions(relation)
        try:
            result = self._execute(render(relation, "duckdb", _internal), tables)
        except Overflow as why:
            if _WIDE_SUM not in (why.detail or ""):
                raise
            # Only the total counts: 9e37 + 9e37 - 9e37 is a DECIMAL(38), though not on the way.
            return self.run_exactly(relation, tables)
        return _typed(result, relation)

    def run_exactly(self, relation: Relation, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The same, with aggregates of floats that are rounded once; it takes much longer."""
        if not self._has_exact_floats:
            _define_exact_floats(self._connection)
            self._has_exact_floats = True
        self._define_user_functions(relation)
        return _typed(
            self._execute(render(relation, "duckdb", _internal, exact=True), tables), relation
        )

    def run_sql(self, text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of a query in Spark SQL, in whatever types DuckDB gives them."""
        return self._execute(transpile(text, "duckdb", _internal), tables)

    def describe(self, text: str, tables: Mapping[str, Schema]) -> Schema:
        """The columns of a query in Spark SQL, by running it over empty tables."""
        empty = {name: arrow_schema(schema).empty_table() for name, schema in tables.items()}
        result = self.run_sql(text, empty)
        return Schema(
            tuple(Field(each.name, from_arrow_type(each.type), True) for each in result.schema)
        )

    def knows(self, name: str) -> bool:
        """It has only what it is given."""
        return False

    def catalog_table(self, name: str) -> pa.Table:
        """None: this DuckDB has only what it is given."""
        raise UnsupportedQuery(f'there is no catalog with a table "{name}"')

    def _define_user_functions(self, relation: Relation) -> None:
        """Have DuckDB know the user's functions in a relation, for these types of arguments."""
        for call in user_calls(relation):
            name = user_name(call)
            with self._lock:
                if name not in self._user_functions:
                    _define_user_function(self._connection, name, call)
                    self._user_functions.add(name)

    def close(self) -> None:
        """Close the database; what runs is interrupted."""
        self._connection.close()

    def _execute(
        self, sql: str, tables: Mapping[str, pa.Table], limits: QueryLimits | None = None
    ) -> pa.Table:
        cursor = self._connection.cursor()
        watching = nullcontext() if limits is None else limits.watch(cursor.interrupt)
        try:
            with Hearing(cursor.interrupt) as heard, _translated_errors(), watching:
                for name, table in tables.items():
                    cursor.register(_internal(name), table)
                bound = cursor.sql(sql)
                heard.check()  # before it runs there is nothing to interrupt
                found = bound.to_arrow_table() if limits is None else _within(bound, limits)
                return _within_the_calendar(found)
        finally:
            cursor.close()


def _within(bound: Any, limits: QueryLimits) -> pa.Table:
    """The rows of a query, one more than allowed at most; an error before memory is full."""
    reader = bound.limit(limits.rows + 1).to_arrow_reader(_ROWS_AT_ONCE)
    pieces, size = [], 0
    for piece in reader:
        size += piece.nbytes
        if size > limits.bytes:
            raise ResultTooLarge(
                f"the result has more than {limits.bytes:,} bytes",
                hint="Ask for fewer rows or columns.",
            )
        pieces.append(piece)
    return pa.Table.from_batches(pieces, reader.schema)


def _define_exact_floats(connection: Any) -> None:
    """The functions of `exact_floats` over the list of a group's values, or of pairs of them."""
    of_lists: tuple[tuple[str, Mapping[str, Callable[[Any], float | None]]], ...]
    of_lists = ("DOUBLE[]", OF_VALUES), ("STRUCT(a DOUBLE, b DOUBLE)[]", OF_PAIRS)
    for type_, functions in of_lists:
        for name, each in functions.items():
            connection.create_function(
                f"exact_{name}", _over_lists(each), [type_], "DOUBLE", type=PythonUDFType.ARROW,
                null_handling=FunctionNullHandling.SPECIAL,  # of equal values CORR is NULL
            )  # fmt: skip


def _over_lists(function: Callable[[Any], float | None]) -> Callable[[Any], pa.Array]:
    def compute(lists: pa.ChunkedArray) -> pa.Array:
        made = (None if each is None else function(each) for each in lists.to_pylist())
        return pa.array(list(made), pa.float64())

    return compute


def _typed(result: pa.Table, relation: Relation) -> pa.Table:
    """The rows in exactly the types of a relation."""
    wanted = engine_schema(relation.schema)
    return _as_schema(result, wanted) if len(wanted) else result


def _value(python: PythonFunction, values: tuple[Any, ...]) -> Any:
    if any(each is None for each in values):
        return None
    try:
        return python.function(*values)
    except Unfit as why:
        raise (Overflow if why.kind == "Overflow" else EvaluationFailed)(str(why)) from None


def _internal(name: str) -> str:
    """A registered table's name; names of DuckDB's own tables and functions are out of its way."""
    return f"source {name.lower()}"


def _within_the_calendar(table: pa.Table) -> pa.Table:
    """The rows, unless Python has no name for one of their days."""
    for i, field in enumerate(table.schema):
        if pa.types.is_date32(field.type):
            ends = [pa.scalar(each, pa.date32()) for each in (dt.date.min, dt.date.max)]
        elif pa.types.is_timestamp(field.type) and field.type.unit == "us":
            moments = (dt.datetime.min, dt.datetime.max)
            ends = [pa.scalar(each, field.type) for each in moments]
        else:
            continue
        found = pc.min_max(table.column(i))
        low, high = found["min"], found["max"]
        if low.is_valid and not (ends[0].value <= low.value and high.value <= ends[1].value):
            raise EvaluationFailed("a date is outside of the years 1 to 9999")
    return table


def _as_schema(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    if table.schema.equals(wanted):
        return table
    names = table.rename_columns(wanted.names)
    try:
        return names.cast(wanted)
    except pa.ArrowInvalid as error:
        raise Overflow("a number does not fit its type", detail=str(error)) from error


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise translate(error) from error


# An error of a function in Python: its class and what it says.
_RAISED = re.compile(r"Python exception .*? UDF: (?:\w+\.)*(\w+): (.*)")


def translate(error: duckdb.Error) -> ViewmillError:
    """DuckDB's error as ours, in DuckDB's words."""
    said = _sentence(error)
    if (raised := _RAISED.fullmatch(said)) is not None:
        kind = Overflow if raised[1] == "Overflow" else EvaluationFailed
        return kind(raised[2])
    low = said.lower()
    if isinstance(error, duckdb.OutOfMemoryException):
        return OutOfMemory(
            "there is no memory for this query",
            detail=f"{said}. Nothing was changed.",
            hint="Smaller batches need less at once; read fewer rows, or give the process more.",
        )
    if isinstance(error, duckdb.ConversionException | duckdb.OutOfRangeException):
        is_time = any(word in low for word in ("date", "timestamp", "interval"))
        too_large = any(
            word in low for word in ("overflow", "out of range", "could not cast value")
        )
        if too_large and not is_time:
            return Overflow("a number does not fit its type", detail=said)
        return EvaluationFailed("a value cannot be converted", detail=said)
    if "division by zero" in low:
        return EvaluationFailed("division by zero", detail=said)
    if isinstance(error, duckdb.InvalidInputException):
        return EvaluationFailed(said)
    return UnsupportedQuery("DuckDB cannot run the query", detail=said)


def _sentence(error: duckdb.Error) -> str:
    """The first line of what DuckDB said, without the kind of error and its advice to its users."""
    first = str(error).split("\n", 1)[0]
    _, colon, rest = first.partition("Error: ")
    return (rest if colon else first).split(" Use TRY(", 1)[0].strip()

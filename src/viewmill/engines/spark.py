"""Spark SQL on a SparkSession.

takes  algebra.Relation or Spark SQL, Arrow tables
gives  Arrow tables in exactly the algebra's types; Spark's errors as ours
"""

from __future__ import annotations

import itertools
import logging
import re
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Field, Schema
from viewmill.deltas.arrow import arrow_schema, engine_schema, from_arrow_type
from viewmill.errors import EvaluationFailed, Overflow, UnsupportedQuery, ViewmillError
from viewmill.sql.render import render
from viewmill.sql.transpile import transpile

# The semantics of docs/meaning.md, whatever the user's session sets.
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.crossJoin.enabled": "true",
}
_MOMENTS = pa.timestamp("us", "UTC")


class SparkEngine:
    """Spark behind a session of its own, so that settings and names do not meet the user's.

    Several threads may run queries. An Arrow table that is given again is not sent again.
    """

    def __init__(self, spark: Any) -> None:
        # Spark Connect has no sessions beside a session: there the settings are the user's, too.
        self._users = spark  # which knows temporary views
        self._spark = spark.newSession() if hasattr(spark, "newSession") else spark
        for key, value in _SETTINGS.items():
            self._spark.conf.set(key, value)
        self._sent: dict[int, tuple[weakref.ref[pa.Table], str]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def run(self, relation: Relation, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of `relation`, in exactly the types of its schema."""
        names = self._register(tables)
        result = self._execute(render(relation, "spark", lambda name: names[name.lower()]))
        wanted = engine_schema(relation.schema)
        if not len(wanted):
            return result
        return _as_schema(result, wanted)

    def run_sql(self, text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of a query in Spark SQL, in Spark's types."""
        names = self._register(tables)
        return self._execute(transpile(text, "spark", lambda name: names.get(name.lower(), name)))

    def describe(self, text: str, tables: Mapping[str, Schema]) -> Schema:
        """The columns of a query in Spark SQL; Spark only analyses it."""
        names = self._register(
            {name: arrow_schema(schema).empty_table() for name, schema in tables.items()}
        )
        sql = transpile(text, "spark", lambda name: names.get(name.lower(), name))
        with _translated_errors():
            found = self._spark.sql(sql).limit(0).toArrow().schema
        return Schema(tuple(Field(each.name, from_arrow_type(each.type), True) for each in found))

    def catalog_table(self, name: str) -> pa.Table:
        """The rows of a table or view that the user's session knows."""
        with _translated_errors():
            return self._users.table(name).toArrow()

    def knows(self, name: str) -> bool:
        """Whether the user's session has a table or view of that name."""
        try:
            return bool(self._users.catalog.tableExists(name))
        except PySparkException:  # a name that no catalog could have
            return False

    def close(self) -> None:
        """Forget the tables; the session is the user's."""
        with self._lock:
            names, self._sent = [name for _, name in self._sent.values()], {}
        for name in names:
            self._drop(name)

    def _execute(self, sql: str) -> pa.Table:
        with _translated_errors():
            return self._spark.sql(sql).toArrow()

    # Tables.

    def _register(self, tables: Mapping[str, pa.Table]) -> dict[str, str]:
        """The names under which Spark has the tables, by their own names in lower case."""
        return {name.lower(): self._name_of(table) for name, table in tables.items()}

    def _name_of(self, table: pa.Table) -> str:
        with self._lock:
            sent = self._sent.get(id(table))
            if sent is not None and sent[0]() is table:
                return sent[1]
            name = f"viewmill_source_{next(self._numbers)}"
        with _translated_errors():
            self._spark.createDataFrame(_for_spark(table)).createOrReplaceTempView(name)
        with self._lock:
            self._sent[id(table)] = (weakref.ref(table, self._forget(id(table), name)), name)
        return name

    def _forget(self, key: int, name: str) -> Any:
        """What happens when nobody holds a table any more: Spark drops its copy."""
        engine = weakref.ref(self)

        def forget(_: object) -> None:
            alive = engine()
            if alive is not None and alive._sent.get(key, (None, ""))[1] == name:
                del alive._sent[key]
                alive._drop(name)

        return forget

    def _drop(self, name: str) -> None:
        with suppress(Exception):  # the session may be gone, and with it the table
            self._spark.catalog.dropTempView(name)


def _for_spark(table: pa.Table) -> pa.Table:
    """The table with moments in UTC: Spark would take those without a zone for TIMESTAMP_NTZ."""
    if not table.num_columns:
        return pa.table({"_": pa.nulls(table.num_rows, pa.int32())})
    fields = [
        pa.field(each.name, _MOMENTS if pa.types.is_timestamp(each.type) else each.type)
        for each in table.schema
    ]
    return table.cast(pa.schema(fields))


def _as_schema(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    if table.schema.equals(wanted):
        return table
    try:
        return table.rename_columns(wanted.names).cast(wanted)
    except pa.ArrowInvalid as error:
        raise Overflow("a number does not fit its type", detail=str(error)) from error


# Errors.


@contextmanager
def _translated_errors() -> Iterator[None]:
    # PySpark writes every error to stderr, with the JVM's stack, before it raises it.
    log = logging.getLogger("SQLQueryContextLogger")
    before, log.disabled = log.disabled, True
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise translate(error) from error
    finally:
        log.disabled = before


_TOO_LARGE = ("OVERFLOW", "OUT_OF_RANGE")
_FAILED = ("INVALID_INPUT", "CANNOT_PARSE", "CANNOT_DECODE", "INVALID_ARRAY_INDEX", "DATETIME",
           "USER_RAISED", "INVALID_PARAMETER_VALUE", "INVALID_REGEXP")  # fmt: skip


def translate(error: PySparkException | Py4JJavaError) -> ViewmillError:
    """Spark's error as ours, in Spark's words."""
    condition, said = _condition(error), _sentence(error)
    if condition.startswith(("DIVIDE_BY_ZERO", "REMAINDER_BY_ZERO", "INTERVAL_DIVIDED_BY_ZERO")):
        return EvaluationFailed("division by zero", detail=said)
    if any(word in condition for word in _TOO_LARGE):
        return Overflow("a number does not fit its type", detail=said)
    if any(word in condition for word in _FAILED):
        return EvaluationFailed("a value cannot be converted", detail=said)
    if condition.startswith("SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        return EvaluationFailed(said)
    return UnsupportedQuery("Spark cannot run the query", detail=said)


def _condition(error: PySparkException | Py4JJavaError) -> str:
    """The name of the error, DIVIDE_BY_ZERO; of a failed task, that of its cause."""
    named = error.getCondition() or "" if isinstance(error, PySparkException) else ""
    found = re.search(r"\[([A-Z_]+(?:\.[A-Z_]+)?)\]", str(error))
    return named if named and "TASK" not in named else (found.group(1) if found else named)


def _sentence(error: PySparkException | Py4JJavaError) -> str:
    """What Spark said, in one line, without its name and its advice about settings."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    first = next((line for line in lines if re.search(r"\[[A-Z_.]+\]", line)), "".join(lines[:1]))
    first = re.sub(r"^.*?\[[A-Z_.]+\]\s*", "", first)
    return first.split(" If necessary set", 1)[0].split(" SQLSTATE", 1)[0].strip()

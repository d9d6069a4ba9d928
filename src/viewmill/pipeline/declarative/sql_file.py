"""The SQL files of a project, read by Spark's own parser.

takes  the text of a file
does   notes its outputs and flows; what defines nothing is noted as not understood
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import sqlglot
from pyspark.sql import functions
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from viewmill.algebra.names import quoted
from viewmill.pipeline.declarative.recorder import CdcFlow, Definitions, Flow, Output

_FLOW_QUERY = re.compile(r"\bAS\s+INSERT\s+INTO\s+(?:TABLE\s+)?", re.IGNORECASE)


def reader(spark: Any) -> Callable[[str, str, Definitions], None]:
    """A function that reads a file's text with a session's parser."""
    parser = spark._jsparkSession.sessionState().sqlParser()

    def read(text: str, file: str, found: Definitions) -> None:
        for line, statement in statements(text):
            where = f"{file}:{line}"
            try:
                _define(parser.parsePlan(statement), statement, where, found)
            except Exception as why:  # noqa: BLE001 (Spark's own, another class in every version)
                found.lose(" ".join(statement.split()[:5]), where, why)

    return read


def statements(text: str) -> Iterator[tuple[int, str]]:
    """The statements of a text, each with the line where it begins."""
    try:
        tokens = sqlglot.tokenize(text, dialect="databricks")
    except SqlglotError:
        yield 1, text
        return
    first = None
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            if first is not None:
                yield first.line, text[first.start : token.start]
            first = None
        elif first is None:
            first = token
    if first is not None:
        yield first.line, text[first.start :]


def seq(found: Any) -> list[Any]:
    """The members of a Scala sequence."""
    return [found.apply(i) for i in range(found.size())]


def option(found: Any) -> Any:
    """What a Scala option holds, or None."""
    return found.get() if found.isDefined() else None


def _name(identifier: Any) -> str:
    return _quoted(seq(identifier.nameParts()))


def _quoted(parts: list[str]) -> str:
    return ".".join(quoted(each) for each in parts)


def _define(plan: Any, text: str, where: str, found: Definitions) -> None:
    match plan.getClass().getSimpleName():
        case "CreateMaterializedViewAsSelect":
            found.outputs.append(_table(plan, "materialized view", where))
            name = _name(plan.name())
            found.flows.append(Flow(name, name, plan.originalText(), where))
        case "CreateStreamingTableAsSelect":
            found.outputs.append(_table(plan, "streaming table", where))
            name = _name(plan.name())
            found.flows.append(Flow(name, name, plan.originalText(), where))
        case "CreateStreamingTable":
            found.outputs.append(_table(plan, "streaming table", where))
        case "CreateStreamingTableAutoCdc":
            found.outputs.append(_table(plan, "streaming table", where))
            name = _name(plan.name())
            found.flows.append(_cdc(plan, name, name, where))
        case "CreateViewCommand" if "TempView" in str(plan.viewType()):
            name = quoted(plan.name().table())
            comment = option(plan.comment())
            found.outputs.append(Output(name, "temporary view", where, comment))
            found.flows.append(Flow(name, name, option(plan.originalText()), where))
        case "CreateFlowCommand":
            _flow(plan, text, where, found)
        case other:
            found.lose(" ".join(text.split()[:5]), where, f"it defines no dataset ({other})")


def _table(plan: Any, kind: str, where: str) -> Output:
    spec = plan.tableSpec()
    columns = [each.name() for each in seq(plan.columns())]
    types = [each.dataType().sql() for each in seq(plan.columns())]
    schema = ", ".join(f"`{name}` {type_}" for name, type_ in zip(columns, types, strict=True))
    properties = {}
    keys = spec.properties().keys().iterator()
    while keys.hasNext():
        key = keys.next()
        properties[key] = option(spec.properties().get(key))
    unused = ("PARTITIONED BY",) if seq(plan.partitioning()) else ()
    return Output(
        _name(plan.name()), kind, where, option(spec.comment()), properties, schema or None,
        option(spec.provider()), unused,
    )  # fmt: skip


def _flow(plan: Any, text: str, where: str, found: Definitions) -> None:
    operation = plan.flowOperation()
    name = _name(plan.name())
    if operation.getClass().getSimpleName() != "InsertIntoStatement":
        found.flows.append(_cdc(operation, name, _name(operation.targetTable()), where))
        return
    target = _quoted(seq(operation.table().multipartIdentifier()))
    insert = _FLOW_QUERY.search(text)
    assert insert is not None
    rest = text[insert.end() :]
    begins = re.search(r"\b(SELECT|WITH|VALUES|FROM)\b", rest, re.IGNORECASE)
    assert begins is not None
    found.flows.append(Flow(name, target, rest[begins.start() :], where))


def _cdc(plan: Any, name: str, target: str, where: str) -> CdcFlow:
    """The parameters of AUTO CDC, which Spark's parser keeps as expressions."""

    def column(expression: Any) -> Any:
        return functions.expr(expression.sql())

    def columns(found: Any) -> tuple[Any, ...]:
        said = option(found)
        return () if said is None else tuple(column(each) for each in seq(said))

    deletes = option(plan.deleteCondition())
    source = plan.source()
    while source.getClass().getSimpleName() != "UnresolvedRelation":
        source = source.children().apply(0)
    return CdcFlow(
        name, target, _quoted(seq(source.multipartIdentifier())),
        tuple(column(each) for each in seq(plan.keys())), column(plan.sequenceByExpr()),
        None if deletes is None else column(deletes),
        columns(plan.includeColumns()), columns(plan.excludeColumns()), plan.storedAsScdType(),
        columns(plan.trackHistoryColumns()), columns(plan.trackHistoryExceptColumns()), where,
    )  # fmt: skip

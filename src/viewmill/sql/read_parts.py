"""PART_TIMESTAMP and subscripts in a query that reads tables and views as they are.

takes  a SELECT as `sql.parse` gives it
gives  the SELECT over named histories, and which parts each of them must hold
next   sql.lower over a PartCatalog, mill.execute

    SELECT * FROM v WHERE PART_TIMESTAMP = '2015-01-01 10:04'      one part of v
    SELECT PART_TIMESTAMP, * FROM v                                every part of v
    SELECT * FROM v[23668444]                                      the same part by its number

A view that is read without either shows its newest part, a table all its rows.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import TIMESTAMP
from viewmill.program.parts import PART_TIMESTAMP
from viewmill.sql.catalog import Catalog, spelled
from viewmill.sql.dialect import PartRangeSuffix, PartSuffix, suffixes_of
from viewmill.sql.lower_parts import PartCatalog, rename_table, suffix_text
from viewmill.sql.subscripts import read_subscript

LengthOf = Callable[[str], "int | None"]  # seconds, None for what has no parts


@dataclass(frozen=True)
class History:
    """Parts `low` to `high` of a source, with their PART_TIMESTAMP; None has no end."""

    name: str
    source: str
    low: int | None
    high: int | None


def read_parts(
    query: exp.Expr, sql: str, catalog: Catalog, length_of: LengthOf
) -> tuple[exp.Expr, Catalog, list[History]]:
    """The query over histories, the catalog that knows them, and what they are."""
    if not _is_concerned(query):
        return query, catalog, []
    tree = query.copy()
    found: dict[str, History] = {}
    schemas: dict[str, Schema] = {}
    for select in list(tree.find_all(exp.Select)):
        bounds = list(_bounds(select))
        for table in _tables(select):
            length = length_of(table.name)
            if length is None or not (bounds or suffixes_of(table)):
                continue
            history = _history(table, bounds, length, sql, spelled(catalog, table.name))
            schema = catalog.find(table.name)
            assert isinstance(schema, Schema)
            found[history.name.lower()] = history
            stamp = Field(PART_TIMESTAMP, TIMESTAMP, False)
            schemas[history.name.lower()] = replace(schema, fields=(*schema.fields, stamp))
            rename_table(table, history.name)
            _hide(select)
    return tree, PartCatalog(catalog, schemas), list(found.values())


def _is_concerned(query: exp.Expr) -> bool:
    named = any(each.name.upper() == PART_TIMESTAMP for each in query.find_all(exp.Column))
    return named or any(True for _ in query.find_all(PartSuffix, PartRangeSuffix))


def _tables(select: exp.Select) -> Iterator[exp.Table]:
    for table in list(select.find_all(exp.Table)):
        if table.find_ancestor(exp.Select) is select:
            yield table


def _history(
    table: exp.Table, bounds: list[tuple[str, int | None]], length: int, sql: str, source: str
) -> History:
    suffixes = suffixes_of(table)
    if suffixes and isinstance(suffixes[0], PartSuffix | PartRangeSuffix):
        suffix = suffixes[0]
        low = read_subscript(suffix.this, "", sql).at(0)
        last = suffix.expression if isinstance(suffix, PartRangeSuffix) else suffix.this
        return History(
            source + suffix_text(suffix), source, low, read_subscript(last, "", sql).at(0)
        )
    low_bound: int | None = None
    high_bound: int | None = None
    for operator, seconds in bounds:
        if seconds is None:
            continue
        at = seconds // length
        if operator in ("=", ">", ">="):
            low_bound = at if low_bound is None else max(low_bound, at)
        if operator in ("=", "<", "<="):
            high_bound = at if high_bound is None else min(high_bound, at)
    return History(f"{source}[{low_bound}..{high_bound}]", source, low_bound, high_bound)


_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=",
}  # fmt: skip


def _bounds(select: exp.Select) -> Iterator[tuple[str, int | None]]:
    """What WHERE says about PART_TIMESTAMP, in Unix seconds; ("", None) for any other mention."""
    where = select.args.get("where")
    conjuncts = [] if where is None else list(where.this.flatten()) if isinstance(
        where.this, exp.And) else [where.this]  # fmt: skip
    for column in list(select.find_all(exp.Column)):
        if column.name.upper() != PART_TIMESTAMP or column.find_ancestor(exp.Select) is not select:
            continue
        parent = column.parent
        other = parent.expression if parent is not None and parent.this is column else None
        operator = _OPERATORS.get(type(parent)) if parent is not None else None
        if operator is None or not isinstance(other, exp.Literal) or not other.is_string:
            yield "", None
            continue
        moment = _moment(other.name)
        if moment is None:
            yield "", None
            continue
        other.set("this", moment.strftime("%Y-%m-%d %H:%M:%S.%f"))
        seconds = int(moment.replace(tzinfo=datetime.UTC).timestamp() // 1)
        yield (operator, seconds) if parent in conjuncts else ("", None)


def _moment(text: str) -> datetime.datetime | None:
    """A time as the paper writes it, 2015/01/01 0:00, or as SQL does."""
    numbers = [int(each) for each in re.findall(r"\d+", text)]
    is_plain = re.fullmatch(r"\s*\d+[-/]\d+[-/]\d+([ T]\d+:\d+(:\d+)?)?\s*", text)
    if is_plain is None:
        return None
    try:
        return datetime.datetime(*numbers)  # type: ignore[arg-type]
    except ValueError:
        return None


def _hide(select: exp.Select) -> None:
    """A star shows the columns of the table; PART_TIMESTAMP only when it is named."""
    for node in select.expressions:
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star) and not star.args.get("except_"):
            star.set("except_", [exp.to_identifier(PART_TIMESTAMP)])

"""Lower the query of a temporal view's part.

takes  the query of INITIALIZE or UPDATE, the length of parts of every source that has them
gives  program.parts.PartQuery: m[i - 1] is a source of that name in the algebra
next   engines.parts, which puts the rows of the parts in its place
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import Project, Relation
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Null, String, Type, shown_type
from viewmill.algebra.walk import sources
from viewmill.errors import MalformedSQL, Span, TypeMismatch, UnsupportedQuery
from viewmill.program.parts import PartQuery, PartsRead
from viewmill.sql.catalog import Catalog, PlainView, spelled
from viewmill.sql.coercion import cast, common_type
from viewmill.sql.dialect import PartRangeSuffix, PartSuffix, Suffix, suffixes_of
from viewmill.sql.lower import Describe, lower
from viewmill.sql.spans import span_of
from viewmill.sql.statements import CreateTemporalView
from viewmill.sql.statements import PartQuery as WrittenQuery
from viewmill.sql.subscripts import read_subscript

IsParted = Callable[[str], bool]
_EVER = 10**12  # no part is older


@dataclass(frozen=True)
class PartCatalog:
    """The catalog, with m[i - 1] as the name of a table like m."""

    catalog: Catalog
    named: Mapping[str, Schema]

    def find(self, name: str) -> Schema | PlainView | None:
        """What a name stands for."""
        return self.named.get(name.lower()) or self.catalog.find(name)

    def names(self) -> Iterable[str]:
        """Every name."""
        return [*self.catalog.names(), *self.named]


def lower_parts(
    written: WrittenQuery,
    sql: str,
    view: str,
    catalog: Catalog,
    is_parted: IsParted,
    describe: Describe | None,
    own: Schema | None = None,
) -> PartQuery:
    """The query over named parts. `own` are the columns of the view itself, once they are known."""
    tree = written.query.copy()
    references: dict[str, PartsRead] = {}  # in lower case, as their scans are
    named: dict[str, Schema] = {}
    for table in list(tree.find_all(exp.Table)):
        reference = _reference(table, written.subscript, sql, is_parted, catalog, view)
        if reference is None:
            continue
        references[reference.name.lower()] = reference
        named[reference.name.lower()] = _schema(table, reference, catalog, view, own, sql)
        rename_table(table, reference.name)
    query = lower(tree, sql, PartCatalog(catalog, named), describe)
    whole = tuple(name for name in sources(query) if name.lower() not in references)
    used = {name.lower() for name in sources(query)}
    kept = tuple(each for name, each in references.items() if name in used)
    return PartQuery(query, kept, whole)


def lower_definition(
    statement: CreateTemporalView,
    sql: str,
    catalog: Catalog,
    length_of: Callable[[str], int | None],
    describe: Describe | None,
    own: Schema,
) -> PartQuery:
    """DEFINED BY: m alone means the parts of m up to the end of part i."""
    assert statement.defined_by is not None
    tree = statement.defined_by.copy()
    length = statement.partition_length
    names = [statement.initialize.subscript, statement.update.subscript]
    mentioned = {each.name.lower() for each in tree.find_all(exp.Column) if not each.table}
    subscript = next((each for each in names[::-1] if each.lower() in mentioned), names[1])
    for table in tree.find_all(exp.Table):
        theirs = length_of(table.name)
        if theirs is not None and not suffixes_of(table):
            last = f"({subscript} * {length} + {length - theirs}) DIV {theirs}"
            low: exp.Expr = exp.maybe_parse(f"-{_EVER}", dialect="spark")
            high: exp.Expr = exp.maybe_parse(last, dialect="spark")
            table.set("suffixes", [PartRangeSuffix(this=low, expression=high)])
    written = WrittenQuery(subscript, tree, sql)
    return lower_parts(
        written, sql, statement.name, catalog, lambda n: length_of(n) is not None, describe, own
    )


def _reference(
    table: exp.Table,
    subscript: str,
    sql: str,
    is_parted: IsParted,
    catalog: Catalog,
    view: str,
) -> PartsRead | None:
    suffixes = suffixes_of(table)
    span = span_of(table, sql)
    is_own = table.name.lower() == view.lower()
    if not suffixes:
        if is_own or is_parted(table.name):
            hint = f"Write {table.name}[{subscript}], or the parts that are meant."
            raise MalformedSQL(f'"{table.name}" is in parts', hint=hint, span=span)
        return None
    suffix = suffixes[0]
    if len(suffixes) > 1 or not isinstance(suffix, PartSuffix | PartRangeSuffix):
        raise UnsupportedQuery("a part query reads parts only: m[i], m[i-1..i]", span=span)
    if not is_own and not is_parted(table.name):
        hint = "A table has parts by TIMESTAMP BY column PARTITION LENGTH seconds."
        raise UnsupportedQuery(f'"{table.name}" has no parts', hint=hint, span=span)
    low = read_subscript(suffix.this, subscript, sql)
    high = (
        low if isinstance(suffix, PartSuffix) else read_subscript(suffix.expression, subscript, sql)
    )
    if (is_own and (high.multiplier, high.divisor) != (1, 1)) or (is_own and high.offset >= 0):
        hint = f"Write {table.name}[{subscript} - 1]."
        raise MalformedSQL(
            "a part is computed from earlier parts of its view", hint=hint, span=span
        )
    source = view if is_own else spelled(catalog, table.name)
    return PartsRead((source + suffix_text(suffix)).lower(), source, low, high)


def suffix_text(suffix: Suffix) -> str:
    """[i - 1] or [a .. b], as it was written."""
    if isinstance(suffix, PartSuffix):
        return f"[{suffix.this.sql()}]"
    return f"[{suffix.this.sql()} .. {suffix.expression.sql()}]"


def _schema(
    table: exp.Table,
    reference: PartsRead,
    catalog: Catalog,
    view: str,
    own: Schema | None,
    sql: str,
) -> Schema:
    if reference.source == view:
        if own is None:
            raise MalformedSQL(
                "INITIALIZE cannot read the view itself: it computes its first part",
                span=span_of(table, sql),
            )
        return own
    found = catalog.find(reference.source)
    assert isinstance(found, Schema)
    return found


def rename_table(table: exp.Table, name: str) -> None:
    """Let a table in FROM go by another name, its alias as before."""
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("suffixes", None)
    identifier = exp.to_identifier(name, quoted=True)
    identifier.meta.update(table.this.meta)
    table.set("this", identifier)
    table.set("db", None)
    table.set("catalog", None)


def under_schema(query: Relation, schema: Schema, span: Span | None) -> Relation:
    """The query with the names and types of `schema`, which INITIALIZE gives."""
    if len(query.schema) != len(schema):
        raise TypeMismatch(
            f"INITIALIZE gives {len(schema)} columns, UPDATE gives {len(query.schema)}",
            detail=f"{', '.join(schema.names)} and {', '.join(query.schema.names)}",
            span=span,
        )
    outputs: list[tuple[str, Expression]] = []
    for given, wanted in zip(query.schema, schema, strict=True):
        type_ = shown_type(wanted.type)
        if not _is_alike(given.type, type_):
            raise TypeMismatch(
                f'column "{wanted.name}" is {type_} by INITIALIZE, {given.type} by UPDATE',
                hint="Convert one of them with CAST.",
                span=span,
            )
        column = Column(given.name, given.type, given.nullable)
        outputs.append((wanted.name, cast(column, type_)))
    if all(isinstance(value, Column) and value.name == name for name, value in outputs):
        return query
    return Project(query, tuple(outputs))


def _is_alike(given: Type, wanted: Type) -> bool:
    return common_type(given, wanted) is not None and (
        isinstance(given, String | Null) == isinstance(wanted, String | Null)
        or isinstance(given, Null)
    )


def initial_schema(query: Relation) -> Schema:
    """The columns of a view that INITIALIZE defines; any may be NULL in later parts."""
    return Schema(tuple(replace(each, nullable=True) for each in query.schema))

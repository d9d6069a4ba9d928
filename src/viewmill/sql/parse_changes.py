"""Read INSERT, DELETE and UPDATE.

takes  a Cursor at the statement's first word
gives  Insert, Delete, Update; conditions and values stay sqlglot trees
next   mill
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from viewmill.errors import MalformedSQL, Span, UnsupportedQuery
from viewmill.sql.cursor import Cursor
from viewmill.sql.dialect import parse_tokens
from viewmill.sql.spans import span_of
from viewmill.sql.statements import Delete, Insert, Update


def parse_insert(cursor: Cursor) -> Insert:
    """INSERT INTO [TABLE] name [(columns)] VALUES ... or a query."""
    cursor.expect("INSERT", "INTO", hint="Write INSERT INTO table VALUES ... or SELECT ...")
    if cursor.word(1) not in ("", "(", "VALUES", "SELECT", "WITH", "FROM"):
        cursor.accept("TABLE")
    table = cursor.name("the table")
    columns = _column_list(cursor)
    source, source_sql = cursor.query()
    return Insert(table, columns, source, source_sql, cursor.whole())


def _column_list(cursor: Cursor) -> tuple[str, ...]:
    is_query = cursor.word(1) in ("SELECT", "WITH", "VALUES", "FROM", "(")
    if is_query or not cursor.accept("("):
        return ()
    names: list[str] = []
    while True:
        span = cursor.span()
        names.append(cursor.name("a column"))
        _reject_repeated(names, span)
        if not cursor.accept(","):
            cursor.expect(")")
            return tuple(names)


def parse_delete(cursor: Cursor) -> Delete:
    """DELETE FROM name [alias] [WHERE condition]."""
    if not cursor.at("DELETE", "FROM"):
        cursor.expect("DELETE", "FROM")
    tree = _parse(cursor, exp.Delete)
    _reject_others(tree, ("this", "where"), cursor)
    table, alias = _target(tree, cursor)
    return Delete(table, _where(tree), alias, cursor.whole())


def parse_update(cursor: Cursor) -> Update:
    """UPDATE name [alias] SET column = value, ... [WHERE condition]."""
    tree = _parse(cursor, exp.Update)
    _reject_others(tree, ("this", "expressions", "where"), cursor)
    table, alias = _target(tree, cursor)
    assignments = [_assignment(each, (table, alias), cursor) for each in tree.expressions]
    if not assignments:
        raise cursor.failure("UPDATE without SET", hint="Write UPDATE table SET column = value.")
    for i, each in enumerate(tree.expressions):
        names = [name for name, _ in assignments[: i + 1]]
        _reject_repeated(names, span_of(each.this, cursor.sql))
    return Update(table, tuple(assignments), _where(tree), alias, cursor.whole())


def _parse(cursor: Cursor, kind: type[exp.Delete] | type[exp.Update]) -> exp.Delete | exp.Update:
    tree = parse_tokens(cursor.tokens, cursor.sql)
    if not isinstance(tree, kind):
        raise cursor.failure(f"cannot read this {cursor.word()}")
    return tree


def _reject_others(tree: exp.Expr, known: Iterable[str], cursor: Cursor) -> None:
    """USING, RETURNING, LIMIT and their like would otherwise be dropped silently."""
    for argument, value in tree.args.items():
        if argument not in known and value:
            node = value[0] if isinstance(value, list) else value
            span = span_of(node, cursor.sql) if isinstance(node, exp.Expr) else cursor.span()
            word = argument.rstrip("_").upper()
            raise UnsupportedQuery(f"{cursor.word()} does not take {word}", span=span)


def _target(tree: exp.Expr, cursor: Cursor) -> tuple[str, str | None]:
    table = tree.this
    plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
    extra = {key for key, value in table.args.items() if value} - {"this", "alias"} if plain else {}
    if not plain or extra:
        raise MalformedSQL(
            f"{cursor.word()} changes one table, given by a name of one part",
            span=span_of(table, cursor.sql) if isinstance(table, exp.Expr) else cursor.span(),
        )
    return table.name, table.alias or None


def _where(tree: exp.Expr) -> exp.Expr | None:
    where = tree.args.get("where")
    return where.this if where else None


def _assignment(
    node: exp.Expr, owners: tuple[str, str | None], cursor: Cursor
) -> tuple[str, exp.Expr]:
    column = node.this if isinstance(node, exp.EQ) else None
    if not isinstance(column, exp.Column) or len(column.parts) > 2:
        hint = "Write SET column = value."
        raise MalformedSQL("not an assignment", hint=hint, span=span_of(node, cursor.sql))
    known = [each.lower() for each in owners if each]
    if column.table and column.table.lower() not in known:
        span = span_of(column, cursor.sql)
        raise MalformedSQL("SET changes columns of the updated table only", span=span)
    return column.name, node.expression


def _reject_repeated(names: list[str], span: Span | None) -> None:
    if names[-1].lower() in [each.lower() for each in names[:-1]]:
        raise MalformedSQL(f'the column "{names[-1]}" is given twice', span=span)

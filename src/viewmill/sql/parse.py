"""Parse SQL text into statements.

takes  SQL text, statements separated by ;
gives  Statement objects; heads are cut on tokens, queries are sqlglot trees with true offsets
next   mill, which hands queries to sql.lower
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot.tokenizer_core import Token, TokenType

from viewmill.algebra.refresh import Policy
from viewmill.errors import MalformedSQL, UnsupportedQuery
from viewmill.sql.cursor import Cursor
from viewmill.sql.dialect import tokenize
from viewmill.sql.parse_changes import parse_delete, parse_insert, parse_update
from viewmill.sql.parse_clauses import parse_refresh
from viewmill.sql.parse_table import parse_create_table
from viewmill.sql.parse_view import parse_create_materialized_view, parse_create_view
from viewmill.sql.spans import alternatives
from viewmill.sql.statements import (
    AlterRefresh,
    CreateTemporalView,
    DropTable,
    DropView,
    Explain,
    Query,
    RefreshPolicy,
    RefreshView,
    Statement,
    Verify,
)

# Statements of Spark that Viewmill has no use for: known, so not taken for misspellings.
FOREIGN = (
    "ADD", "ANALYZE", "BEGIN", "CACHE", "CALL", "CLEAR", "COMMENT", "COMMIT", "COPY", "DECLARE",
    "DESC", "DESCRIBE", "EXECUTE", "GRANT", "KILL", "LIST", "LOAD", "MERGE", "MSCK", "OPTIMIZE",
    "PREPARE", "RESET", "REVOKE", "ROLLBACK", "SET", "SHOW", "TABLE", "TRUNCATE", "UNCACHE", "USE",
    "VACUUM",
)  # fmt: skip


def parse(sql: str) -> tuple[Statement, ...]:
    """The statements of `sql` in order; empty ones are left out.

    >>> parse("VERIFY revenue;")
    (Verify(name='revenue'),)
    """
    return tuple(_parse_statement(Cursor(tokens, sql)) for tokens in _split(tokenize(sql)))


def _split(tokens: list[Token]) -> Iterator[list[Token]]:
    """The tokens of each statement that has any."""
    statement: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            statement.append(token)
        elif statement:
            yield statement
            statement = []
    if statement:
        yield statement


def _parse_statement(cursor: Cursor) -> Statement:
    read = _READ.get(cursor.word())
    if read is None:
        raise _not_a_statement(cursor)
    return read(cursor)


def _not_a_statement(cursor: Cursor) -> MalformedSQL | UnsupportedQuery:
    options = [word for word in _READ if word.isalpha()]
    if cursor.word() in FOREIGN:
        hint = f"The statements are {', '.join(options)}."
        message = f"{cursor.word()} is not a statement of Viewmill"
        return UnsupportedQuery(message, hint=hint, span=cursor.span())
    text = cursor.span().text
    hint = alternatives(text, options)
    return MalformedSQL(f'no statement starts with "{text}"', hint=hint, span=cursor.span())


def _create(cursor: Cursor) -> Statement:
    cursor.expect("CREATE")
    or_replace = cursor.accept("OR", "REPLACE")
    kind = cursor.choose(("TABLE", "VIEW", "MATERIALIZED VIEW"), "thing to CREATE")
    if kind == "VIEW":
        return parse_create_view(cursor, or_replace=or_replace)
    if kind == "MATERIALIZED VIEW":
        return parse_create_materialized_view(cursor, or_replace=or_replace)
    if or_replace:
        cursor.index -= 1
        raise cursor.failure("a table cannot be replaced", hint="DROP TABLE it first.")
    return parse_create_table(cursor)


def _alter(cursor: Cursor) -> AlterRefresh:
    cursor.expect("ALTER", "MATERIALIZED", "VIEW")
    name = cursor.name("the view")
    policies: list[Policy] = []
    refresh_policy: RefreshPolicy | None = None
    cursor.expect("REFRESH", hint="Only REFRESH can be altered: REFRESH EVERY 1000 ROWS.")
    while True:
        start = cursor.span()
        refresh = parse_refresh(cursor)
        if not isinstance(refresh, str):
            policies.append(refresh)
        elif refresh_policy is not None:
            raise MalformedSQL("REFRESH POLICY is given twice", span=start)
        else:
            refresh_policy = refresh
        if not cursor.accept("REFRESH"):
            break
    cursor.finish()
    return AlterRefresh(name, tuple(policies), refresh_policy, cursor.whole())


def _refresh(cursor: Cursor) -> RefreshView:
    cursor.expect("REFRESH")
    cursor.accept("MATERIALIZED")
    cursor.expect("VIEW", hint="Write REFRESH MATERIALIZED VIEW name.")
    name = cursor.name("the view")
    full = cursor.accept("FULL")
    if not cursor.is_done:
        raise cursor.unknown(("FULL",), "part of REFRESH MATERIALIZED VIEW")
    return RefreshView(name, full, cursor.whole())


def _drop(cursor: Cursor) -> DropView | DropTable:
    cursor.expect("DROP")
    kind = cursor.choose(("TABLE", "VIEW", "MATERIALIZED VIEW"), "thing to DROP")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("the table" if kind == "TABLE" else "the view")
    cursor.finish()
    if kind == "TABLE":
        return DropTable(name, if_exists, cursor.whole())
    return DropView(name, if_exists, kind == "MATERIALIZED VIEW", cursor.whole())


def _verify(cursor: Cursor) -> Verify:
    cursor.expect("VERIFY")
    name = cursor.name("the view")
    cursor.finish()
    return Verify(name, cursor.whole())


def _explain(cursor: Cursor) -> Explain:
    cursor.expect("EXPLAIN")
    if cursor.word() in ("SELECT", "WITH", "VALUES", "FROM", "("):
        hint = "Write EXPLAIN view, or EXPLAIN CREATE MATERIALIZED VIEW name AS SELECT ..."
        raise UnsupportedQuery("only views are explained", hint=hint, span=cursor.span())
    if not cursor.at("CREATE"):
        name = cursor.name("the view")
        cursor.finish()
        return Explain(name, cursor.whole())
    cursor.expect("CREATE")
    or_replace = cursor.accept("OR", "REPLACE")
    cursor.expect("MATERIALIZED", "VIEW", hint="Only materialized views are explained.")
    made = parse_create_materialized_view(cursor, or_replace=or_replace)
    if isinstance(made, CreateTemporalView):
        raise UnsupportedQuery(
            "INITIALIZE and UPDATE say themselves how the view is kept", span=cursor.whole()
        )
    return Explain(made, cursor.whole())


def _query(cursor: Cursor) -> Query:
    query, query_sql = cursor.query()
    return Query(query, query_sql, cursor.whole())


_READ: dict[str, Callable[[Cursor], Statement]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "REFRESH": _refresh,
    "DROP": _drop,
    "VERIFY": _verify,
    "EXPLAIN": _explain,
    "INSERT": parse_insert,
    "DELETE": parse_delete,
    "UPDATE": parse_update,
    "SELECT": _query,
    "WITH": _query,
    "VALUES": _query,
    "FROM": _query,
    "(": _query,
}

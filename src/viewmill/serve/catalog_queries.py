"""Queries of clients over pg_catalog and information_schema.

takes  a SELECT in Postgres' dialect
gives  an Arrow table, by a DuckDB in memory that holds these tables and nothing else

Only tables of `catalog_tables` can be read, and only functions listed here can be called.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, cast

import duckdb
from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewmill.mill.core import Core
from viewmill.serve.catalog_tables import SHOWN, TABLES, Relation, relations_of
from viewmill.serve.client_sql import ClientQuery, ClientStatement, parameter_number
from viewmill.serve.failures import Refused
from viewmill.serve.grants import Access
from viewmill.serve.parameters import with_unknown, with_values
from viewmill.serve.running import Running
from viewmill.serve.settings import VERSION, Settings
from viewmill.serve.values import TEXT

_SETTINGS = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET memory_limit = '256MB'",
    "SET temp_directory = ''",
    "SET threads = 1",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_MAX_ROWS = 100_000
_MAX_DATABASES = 16

_WORDS = frozenset({
    "information_schema", "current_schema", "current_schemas", "current_database", "version",
    "current_setting", "current_catalog", "current_user", "session_user", "set_config",
    "has_table_privilege", "has_schema_privilege", "has_database_privilege", "obj_description",
    "col_description", "shobj_description", "format_type", "inet_server_addr",
})  # fmt: skip

_FORMAT = " ".join(f"WHEN {oid} THEN '{name}'" for oid, name in SHOWN.items())
_INDEX = (
    "(SELECT 'CREATE UNIQUE INDEX ' || relname || ' ON ' || indexed || ' USING btree ' || columns "
    'FROM "catalog definitions" d JOIN "catalog pg_class" c ON c.oid = d.oid WHERE d.oid = x)'
)
_MACROS = {
    "pg_table_is_visible(x)": "true",
    "pg_type_is_visible(x)": "true",
    "pg_function_is_visible(x)": "true",
    "pg_collation_is_visible(x)": "true",
    "array_upper(x, y)": "len(x)",
    "pg_get_userbyid(x)": "'viewmill'",
    "pg_get_expr(x, y)": "NULL::VARCHAR",
    "pg_get_expr(x, y, z)": "NULL::VARCHAR",
    "pg_get_statisticsobjdef_columns(x)": "NULL::VARCHAR",
    "pg_get_partkeydef(x)": "NULL::VARCHAR",
    "pg_relation_is_publishable(x)": "false",
    "pg_is_in_recovery()": "false",
    "pg_backend_pid()": "1",
    "pg_get_indexdef(x)": _INDEX,
    "pg_get_indexdef(x, y, z)": _INDEX,
    "pg_get_serial_sequence(x, y)": "NULL::VARCHAR",
    "pg_encoding_to_char(x)": "'UTF8'",
    "pg_relation_size(x)": "0::BIGINT",
    "pg_table_size(x)": "0::BIGINT",
    "pg_total_relation_size(x)": "0::BIGINT",
    "pg_size_pretty(x)": "x::VARCHAR || ' bytes'",
    "pg_my_temp_schema()": "0::BIGINT",
    "pg_is_other_temp_schema(x)": "false",
    "obj_description(x)": "NULL::VARCHAR",
    "obj_description(x, y)": "NULL::VARCHAR",
    "shobj_description(x, y)": "NULL::VARCHAR",
    "col_description(x, y)": "NULL::VARCHAR",
    "has_table_privilege(x, y)": "lower(y) LIKE 'select%'",
    "has_table_privilege(x, y, z)": "lower(z) LIKE 'select%'",
    "has_schema_privilege(x, y)": "lower(y) = 'usage'",
    "has_schema_privilege(x, y, z)": "lower(z) = 'usage'",
    "has_database_privilege(x, y)": "lower(y) = 'connect'",
    "has_table_privilege(x)": "true",
    "has_column_privilege(x, y, z)": "lower(z) = 'select'",
    "has_any_column_privilege(x, y)": "lower(y) LIKE 'select%'",
    "has_sequence_privilege(x, y)": "false",
    "has_function_privilege(x, y)": "false",
    "array_remove(x, y)": "list_filter(x, lambda each: each IS DISTINCT FROM y)",
    "pg_get_function_result(x)": "NULL::VARCHAR",
    "pg_get_function_arguments(x)": "NULL::VARCHAR",
    "pg_get_function_identity_arguments(x)": "NULL::VARCHAR",
    "pg_get_functiondef(x)": "NULL::VARCHAR",
    "pg_get_ruledef(x)": "NULL::VARCHAR",
    "pg_get_ruledef(x, y)": "NULL::VARCHAR",
    "pg_get_triggerdef(x)": "NULL::VARCHAR",
    "pg_get_triggerdef(x, y)": "NULL::VARCHAR",
    "_pg_expandarray(x)": "unnest(list_transform(x, lambda each, i: {'x': each, 'n': i}))",
    "pg_tablespace_location(x)": "NULL::VARCHAR",
    "pg_tablespace_size(x)": "0::BIGINT",
    "pg_database_size(x)": "0::BIGINT",
    "pg_operator_is_visible(x)": "true",
    "pg_opclass_is_visible(x)": "true",
    "pg_postmaster_start_time()": "NULL::TIMESTAMP",
    "pg_index_column_has_property(x, y, z)": "NULL::BOOLEAN",
    "pg_jit_available()": "false",
    "pg_is_wal_replay_paused()": "false",
    "txid_current()": "0::BIGINT",
    "age(x)": "0",
    "quote_ident(x)": "'\"' || replace(x, '\"', '\"\"') || '\"'",
    "format_type(x, y)": (
        "CASE WHEN x = 1700 AND y >= 4 THEN 'numeric(' || ((y - 4) >> 16)::VARCHAR || ',' || "
        f"((y - 4) & 65535)::VARCHAR || ')' ELSE CASE x {_FORMAT} END END"
    ),
    "pg_get_constraintdef(x)": '(SELECT definition FROM "catalog definitions" WHERE oid = x)',
    "pg_get_constraintdef(x, y)": '(SELECT definition FROM "catalog definitions" WHERE oid = x)',
    "pg_get_viewdef(x)": '(SELECT definition FROM "catalog definitions" WHERE oid = x)',
    "pg_get_viewdef(x, y)": '(SELECT definition FROM "catalog definitions" WHERE oid = x)',
    "to_regtype(x)": '(SELECT oid FROM "catalog pg_type" WHERE typname = x)',
    "to_regclass(x)": '(SELECT oid FROM "catalog pg_class" WHERE relname = x)',
    "viewmill_class_oid(x)": (
        '(SELECT oid FROM "catalog pg_class" WHERE relname = regexp_replace('
        "replace(x, '\"', ''), '^(public|pg_catalog)\\.', ''))"
    ),
    "viewmill_class_name(x)": '(SELECT relname FROM "catalog pg_class" WHERE oid = x)',
}
_BUILT_IN = frozenset({
    "array_to_string", "generate_subscripts", "unnest", "generate_series", "array_length",
    "array_position", "cardinality", "string_to_array", "substring", "strpos", "btrim", "format",
    "json_build_object", "any_value", "bool_or", "bool_and", "array_agg",
})  # fmt: skip
_IN_FROM = ("generateseries", "explodinggenerateseries", "unnest", "explode")
_CALLABLE = _BUILT_IN | {each.split("(")[0] for each in _MACROS}


class CatalogReader:
    """Answers for all connections of a server; its tables are made anew when names change."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._connections: OrderedDict[frozenset[str] | None, Any] = OrderedDict()
        self._generation = -1

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        for each in self._connections.values():
            each.close()
        self._connections.clear()

    def concerns(self, statement: ClientStatement) -> bool:
        """Whether a query asks for names and types, not for rows of the mill."""
        known = self._core.catalog
        return any(
            (word in _WORDS or word.startswith("pg_")) and known.get(word) is None
            for word in statement.words()
        )

    def parse(self, statement: ClientStatement) -> ClientQuery:
        """The tree of a query in Postgres' dialect, refused if it reads anything else."""
        try:
            tree: Any = exp.maybe_parse(statement.text, dialect="postgres")
        except (SqlglotError, RecursionError) as why:
            raise Refused("42601", "the query cannot be read", detail=_first_line(why)) from None
        if not isinstance(tree, exp.Query):
            raise Refused("42601", "only SELECT reads the catalog")
        highest = max((parameter_number(each) or 0 for each in tree.walk()), default=0)
        return ClientQuery(_checked(tree), statement.sql, highest)

    def describe(
        self, query: ClientQuery, said: Sequence[int], access: Access | None
    ) -> tuple[list[int], Any]:
        """The types of the parameters, and the columns as an Arrow schema."""
        types = [each or TEXT for each in [*said, *[0] * query.parameters][: query.parameters]]
        table = self._execute(with_unknown(query.tree, types), Settings("", 1.0), Running(), access)
        return types, table.schema

    def run(
        self,
        query: ClientQuery,
        given: Sequence[Any],
        settings: Settings,
        running: Running,
        access: Access | None,
    ) -> Any:
        """The rows of a query."""
        return self._execute(with_values(query.tree, given), settings, running, access)

    def _execute(
        self, tree: exp.Expr, settings: Settings, running: Running, access: Access | None
    ) -> Any:
        text = _adapted(tree, settings).sql("duckdb")
        cursor = self._cursor(None if access is None else access.names)
        try:
            with running.watch(cursor.interrupt):
                return cursor.sql(text).limit(_MAX_ROWS).to_arrow_table()
        except duckdb.Error as why:
            raise Refused(
                "0A000", "the catalog does not answer this query", detail=_first_line(why)
            ) from None
        finally:
            cursor.close()

    def _cursor(self, names: frozenset[str] | None) -> Any:
        """A cursor on the catalog of these names; None are all."""
        with self._lock:
            generation = self._core.catalog.generation
            if generation != self._generation:
                self._forget()
            if names not in self._connections:
                with self._core.lock:
                    generation = self._core.catalog.generation
                    found = relations_of(self._core.catalog)
                seen = [each for each in found if names is None or each.name.lower() in names]
                self._connections[names] = _made(seen)
                self._generation = generation
                if len(self._connections) > _MAX_DATABASES:
                    self._connections.popitem(last=False)  # who reads it still, keeps it
            self._connections.move_to_end(names)
            return self._connections[names].cursor()


def _made(relations: list[Relation]) -> Any:
    """A database with the catalog of these relations."""
    connection = duckdb.connect(":memory:")
    for name, table in TABLES.items():
        connection.execute(f'CREATE TABLE "filled {name}" ({table.filled})')
        rows = list(table.rows(relations))
        if rows:
            places = ", ".join("?" * len(rows[0]))
            connection.executemany(f'INSERT INTO "filled {name}" VALUES ({places})', rows)
        same = f", {table.same}" if table.same else ""
        connection.execute(f'CREATE VIEW "catalog {name}" AS SELECT *{same} FROM "filled {name}"')
    connection.execute(
        'CREATE TABLE "catalog definitions" '
        "(oid BIGINT, definition VARCHAR, indexed VARCHAR, columns VARCHAR)"
    )
    texts: list[tuple[Any, ...]] = [(each.oid, each.query, None, None) for each in relations]
    texts += [_key_texts(each) for each in relations if each.key]
    if texts:
        connection.executemany('INSERT INTO "catalog definitions" VALUES (?, ?, ?, ?)', texts)
    _define_macros(connection)
    for setting in _SETTINGS:
        connection.execute(setting)
    return connection


def _define_macros(connection: Any) -> None:
    overloads: dict[str, list[str]] = {}
    for head, body in _MACROS.items():
        name, _, parameters = head.partition("(")
        overloads.setdefault(name, []).append(f"({parameters} AS {body}")
    for name, each in overloads.items():
        connection.execute(f"CREATE MACRO {name}{', '.join(each)}")


def _key_texts(relation: Relation) -> tuple[int, str, str, str]:
    """The primary key of a table as a constraint, and its index: the table and the columns."""
    names = ", ".join(_quoted(relation.fields[each - 1][0].name) for each in relation.key)
    return relation.oid + 1, f"PRIMARY KEY ({names})", _quoted(relation.name), f"({names})"


def _quoted(name: str) -> str:
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'


def _first_line(why: BaseException) -> str:
    return str(why).split("\n", 1)[0][:300]


# What may be asked, and how Postgres' words become DuckDB's.


def _checked(tree: exp.Query) -> exp.Query:
    common = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            _check_function(table.this)
            continue
        name = _table_name(table)
        if not table.db and table.name.lower() in common:
            continue
        if name not in TABLES:
            raise Refused("42P01", f'there is no table "{name}" in the catalog')
    for call in tree.find_all(exp.Anonymous, exp.Command, exp.Into):
        _check_function(call)
    return tree


def _check_function(node: exp.Expr) -> None:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
    allowed = _CALLABLE if isinstance(node, exp.Anonymous) else _IN_FROM
    special = ("version", "current_setting", "set_config", "current_schemas", "current_database")
    if name not in allowed and name not in special:
        raise Refused("42883", f"there is no function {name}")


def _table_name(table: exp.Table) -> str:
    schema = table.db.lower()
    return (
        f"{schema}.{table.name.lower()}" if schema == "information_schema" else (table.name.lower())
    )


def _adapted(tree: exp.Expr, settings: Settings) -> exp.Expr:
    made = tree.copy()
    common = {each.alias.lower() for each in made.find_all(exp.CTE)}
    for table in list(made.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier):
            table.set("db", None)  # pg_catalog.unnest(x) as unnest(x)
        elif table.db or table.name.lower() not in common:
            _name_table(table)
    for kind, change in _CHANGES:
        for node in reversed(list(made.find_all(kind))):  # what stands inside first
            changed = change(node, settings)
            if changed is not node and node.parent is not None:
                node.replace(changed)
    return made


def _name_table(table: exp.Table) -> None:
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
    table.set("this", exp.to_identifier(f"catalog {_table_name(table)}", quoted=True))
    table.set("db", None)
    table.set("catalog", None)


def _unqualified(node: exp.Expr, settings: Settings) -> exp.Expr:
    """pg_catalog.f(x) as f(x)."""
    schemas = ("pg_catalog", "information_schema")
    is_ours = isinstance(node.this, exp.Identifier) and node.this.name.lower() in schemas
    return cast("exp.Expr", node.expression) if is_ours else node


def _column(node: exp.Expr, settings: Settings) -> exp.Expr:
    """pg_catalog.pg_class.oid as pg_class.oid."""
    node.set("db", None)
    node.set("catalog", None)
    return node


def _operator(node: exp.Expr, settings: Settings) -> exp.Expr:
    sign = str(node.args["operator"]).rpartition(".")[2]
    kinds: dict[str, Callable[[exp.Expr, exp.Expr], exp.Expr]] = {
        "~": lambda a, b: exp.RegexpLike(this=a, expression=b),
        "!~": lambda a, b: exp.Not(this=exp.RegexpLike(this=a, expression=b)),
        "~*": lambda a, b: exp.RegexpILike(this=a, expression=b),
        "=": lambda a, b: exp.EQ(this=a, expression=b),
        "<>": lambda a, b: exp.NEQ(this=a, expression=b),
        "~~": lambda a, b: exp.Like(this=a, expression=b),
    }
    if sign not in kinds:
        raise Refused("42883", f"there is no operator {sign}")
    return kinds[sign](node.this, node.expression)


def _cast(node: exp.Expr, settings: Settings) -> exp.Expr:
    to = node.args["to"]
    word = to.sql("postgres").lower().rpartition(".")[2].strip('"')
    if word == "regclass":
        is_text = isinstance(node.this, exp.Literal) and node.this.is_string
        if is_text and not node.this.name.isdecimal():
            return exp.Anonymous(this="viewmill_class_oid", expressions=[node.this])
        if is_text:
            return exp.Literal.number(node.this.name)
        if isinstance(node.parent, exp.Cast):
            return exp.Anonymous(this="viewmill_class_name", expressions=[node.this])
        return cast("exp.Expr", node.this)
    if word in ("regproc", "regprocedure"):  # functions are known by their names
        return _function_name(node.this)
    if word in ("oid", "xid"):
        return exp.cast(node.this, exp.DType.BIGINT)
    if word in ("regtype", "regrole", "regnamespace", "name", "char", "cstring"):
        return exp.cast(node.this, exp.DType.TEXT)
    return node


def _function_name(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Literal):
        return exp.Literal.string(node.name.removeprefix("pg_catalog."))
    return exp.cast(node, exp.DType.TEXT)


def _call(node: exp.Expr, settings: Settings) -> exp.Expr:
    name = node.name.lower()
    if name == "version":
        return exp.Literal.string(f"PostgreSQL {VERSION} (Viewmill)")
    if name == "current_database":
        return exp.Literal.string("viewmill")
    if name == "current_schemas":
        return exp.Array(expressions=[exp.Literal.string("public")])
    if name == "json_build_object":
        node.set("this", "json_object")
    if name in ("current_setting", "set_config") and node.expressions:
        return exp.Literal.string(settings.get(node.expressions[0].name))
    return node


def _text(value: str) -> Callable[[exp.Expr, Settings], exp.Expr]:
    return lambda node, settings: exp.Literal.string(value)


_CHANGES: tuple[tuple[type[exp.Expr], Callable[[exp.Expr, Settings], exp.Expr]], ...] = (
    (exp.Dot, _unqualified),
    (exp.Column, _column),
    (exp.Collate, lambda node, settings: node.this),
    (exp.Operator, _operator),
    (exp.Cast, _cast),
    (exp.Anonymous, _call),
    (exp.CurrentSchema, _text("public")),
    (exp.CurrentDatabase, _text("viewmill")),
    (exp.CurrentCatalog, _text("viewmill")),
    (exp.CurrentVersion, _text(f"PostgreSQL {VERSION} (Viewmill)")),
    (exp.CurrentUser, lambda node, s: exp.Literal.string(s.get("session_authorization"))),
    (exp.SessionUser, lambda node, s: exp.Literal.string(s.get("session_authorization"))),
)

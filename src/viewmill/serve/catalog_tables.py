"""The tables of pg_catalog and information_schema, as clients of Postgres read them.

takes  the catalog of a mill
gives  rows per table: names, columns, types and keys of what is there; tables for what a mill
       does not have (triggers, policies, ...) are empty
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot.tokenizer_core import TokenType

from viewmill.algebra.packed import shown_schema
from viewmill.algebra.schema import Schema
from viewmill.deltas.arrow import arrow_schema
from viewmill.errors import OWN
from viewmill.mill.catalog import BrokenEntry, Catalog, PlainEntry, TableEntry, ViewEntry
from viewmill.serve.messages import Field
from viewmill.serve.values import field_of
from viewmill.sql.dialect import Viewmill, tokenize

PUBLIC, PG_CATALOG, INFORMATION_SCHEMA, OWNER = 2200, 11, 13000, 10
_FIRST_OID = 16384
_KINDS = {"r": "BASE TABLE", "v": "VIEW", "m": "MATERIALIZED VIEW"}


@dataclass(frozen=True)
class TypeName:
    """A type: its number, its short name, its name in SQL, its size, its category, its array."""

    oid: int
    name: str
    shown: str
    size: int
    category: str
    array: int


TYPES = (
    TypeName(16, "bool", "boolean", 1, "B", 1000),
    TypeName(17, "bytea", "bytea", -1, "U", 1001),
    TypeName(18, "char", '"char"', 1, "Z", 1002),
    TypeName(19, "name", "name", 64, "S", 1003),
    TypeName(20, "int8", "bigint", 8, "N", 1016),
    TypeName(21, "int2", "smallint", 2, "N", 1005),
    TypeName(23, "int4", "integer", 4, "N", 1007),
    TypeName(25, "text", "text", -1, "S", 1009),
    TypeName(26, "oid", "oid", 4, "N", 1028),
    TypeName(114, "json", "json", -1, "U", 199),
    TypeName(700, "float4", "real", 4, "N", 1021),
    TypeName(701, "float8", "double precision", 8, "N", 1022),
    TypeName(1042, "bpchar", "character", -1, "S", 1014),
    TypeName(1043, "varchar", "character varying", -1, "S", 1015),
    TypeName(1082, "date", "date", 4, "D", 1182),
    TypeName(1083, "time", "time without time zone", 8, "D", 1183),
    TypeName(1114, "timestamp", "timestamp without time zone", 8, "D", 1115),
    TypeName(1184, "timestamptz", "timestamp with time zone", 8, "D", 1185),
    TypeName(1186, "interval", "interval", 16, "T", 1187),
    TypeName(1700, "numeric", "numeric", -1, "N", 1231),
    TypeName(2950, "uuid", "uuid", 16, "U", 2951),
)
SHOWN = {each.oid: each.shown for each in TYPES}
SHOWN |= {each.array: f"{each.shown}[]" for each in TYPES}
_SHORT = {each.oid: each.name for each in TYPES} | {each.array: f"_{each.name}" for each in TYPES}


@dataclass(frozen=True)
class Relation:
    """A table or view as the catalog shows it."""

    oid: int
    name: str
    kind: str  # r, v or m
    fields: tuple[tuple[Field, bool], ...]  # with whether NULL is possible
    rows: int
    text: str
    key: tuple[int, ...] = ()  # the positions of the primary key, from one

    @property
    def query(self) -> str:
        """The SELECT of a view: what follows the first AS of its statement."""
        if self.kind == "r":
            return self.text
        words = tokenize(self.text, Viewmill)
        first = next((each for each in words if each.token_type == TokenType.ALIAS), None)
        return self.text if first is None else self.text[first.end + 1 :].strip()


def relations_of(catalog: Catalog) -> list[Relation]:
    """The tables and views that can be read, with numbers of their own."""
    found: list[Relation] = []
    for entry in catalog.by_reading():
        if isinstance(entry, BrokenEntry) or entry.name.startswith(OWN):
            continue
        oid = _FIRST_OID + 2 * len(found)  # the next one is its primary key's
        found.append(_relation(entry, oid))
    return found


def _relation(entry: TableEntry | PlainEntry | ViewEntry, oid: int) -> Relation:
    match entry:
        case TableEntry():
            table = entry.table
            names = [each.lower() for each in table.schema.names]
            key = tuple(names.index(each.lower()) + 1 for each in table.options.primary_key)
            fields = _fields(table.schema)
            return Relation(oid, entry.name, "r", fields, max(table.rows, 0), entry.sql, key)
        case PlainEntry():
            return Relation(oid, entry.name, "v", _fields(entry.schema), -1, entry.sql)
        case ViewEntry():
            fields = _fields(shown_schema(entry.schema))
            return Relation(oid, entry.name, "m", fields, max(entry.kept_rows, 0), entry.sql)


def _fields(schema: Schema) -> tuple[tuple[Field, bool], ...]:
    shown = shown_schema(schema)
    types = arrow_schema(shown)
    return tuple(
        (field_of(each.name, types.field(i).type), each.nullable) for i, each in enumerate(shown)
    )


Rows = Iterator[tuple[Any, ...]]


def _classes(found: list[Relation]) -> Rows:
    for each in found:
        yield (each.oid, each.name, each.kind, len(each.fields), float(each.rows), bool(each.key))
        if each.key:
            yield (each.oid + 1, f"{each.name}_pkey", "i", len(each.key), 0.0, False)


def _attributes(found: list[Relation]) -> Rows:
    for each in found:
        for number, (field, nullable) in enumerate(each.fields, 1):
            yield (each.oid, field.name, field.oid, field.size, number, field.modifier,
                   not nullable)  # fmt: skip
        for number, position in enumerate(each.key, 1):
            field = each.fields[position - 1][0]
            yield (each.oid + 1, field.name, field.oid, field.size, number, field.modifier, True)


def _types(found: list[Relation]) -> Rows:
    for each in TYPES:
        yield each.oid, each.name, each.size, each.category, 0, each.array
        yield each.array, f"_{each.name}", -1, "A", each.oid, 0


def _keys(found: list[Relation]) -> Rows:
    return ((each.oid + 1, each.oid, len(each.key), list(each.key)) for each in found if each.key)


def _constraints(found: list[Relation]) -> Rows:
    for each in found:
        if each.key:
            yield (each.oid + 1, f"{each.name}_pkey", each.oid, each.oid + 1, list(each.key))


def _tables(kinds: str) -> Callable[[list[Relation]], Rows]:
    return lambda found: ((each.name, each.query) for each in found if each.kind in kinds)


def _named_tables(found: list[Relation]) -> Rows:
    return ((each.name, _KINDS[each.kind]) for each in found)


def _named_columns(found: list[Relation]) -> Rows:
    for each in found:
        for number, (field, nullable) in enumerate(each.fields, 1):
            precision, scale = _digits(field)
            short = _SHORT[field.oid]
            type_ = "ARRAY" if short.startswith("_") else SHOWN[field.oid]
            yield (each.name, field.name, number, "YES" if nullable else "NO", type_,
                   precision, scale, short)  # fmt: skip


def _digits(field: Field) -> tuple[int | None, int | None]:
    if field.oid != 1700 or field.modifier < 0:
        return None, None
    return (field.modifier - 4) >> 16, (field.modifier - 4) & 0xFFFF


def _key_columns(found: list[Relation]) -> Rows:
    for each in found:
        for number, position in enumerate(each.key, 1):
            yield f"{each.name}_pkey", each.name, each.fields[position - 1][0].name, number


_DATABASE = "'viewmill'"


@dataclass(frozen=True)
class CatalogTable:
    """A table: columns that are filled from rows, and columns that are the same in each row."""

    filled: str
    rows: Callable[[list[Relation]], Rows]
    same: str = ""


def _no_rows(found: list[Relation]) -> Rows:
    return iter(())


def _one_row(found: list[Relation]) -> Rows:
    return iter([(0,)])


def _methods(found: list[Relation]) -> Rows:
    return iter([(2, "heap", "t"), (403, "btree", "i")])


def _namespaces(found: list[Relation]) -> Rows:
    return iter([(11, "pg_catalog"), (PUBLIC, "public"), (13000, "information_schema")])


TABLES: dict[str, CatalogTable] = {
    "pg_namespace": CatalogTable(
        "oid BIGINT, nspname VARCHAR", _namespaces, "10 AS nspowner, NULL::VARCHAR AS nspacl"
    ),
    "pg_am": CatalogTable("oid BIGINT, amname VARCHAR, amtype VARCHAR", _methods),
    "pg_class": CatalogTable(
        "oid BIGINT, relname VARCHAR, relkind VARCHAR, relnatts INTEGER, reltuples FLOAT, "
        "relhasindex BOOLEAN",
        _classes,
        "2200::BIGINT AS relnamespace, 0::BIGINT AS reltype, 0::BIGINT AS reloftype, "
        "10::BIGINT AS relowner, "
        "CASE relkind WHEN 'i' THEN 403 WHEN 'v' THEN 0 ELSE 2 END::BIGINT AS relam, "
        "0::BIGINT AS relfilenode, "
        "0::BIGINT AS reltablespace, 1 AS relpages, 0 AS relallvisible, "
        "0::BIGINT AS reltoastrelid, false AS relisshared, 'p' AS relpersistence, 0 AS relchecks, "
        "false AS relhasrules, false AS relhastriggers, false AS relhassubclass, "
        "false AS relrowsecurity, false AS relforcerowsecurity, true AS relispopulated, "
        "'d' AS relreplident, false AS relispartition, 0::BIGINT AS relrewrite, "
        "NULL::VARCHAR AS relacl, NULL::VARCHAR[] AS reloptions, NULL::VARCHAR AS relpartbound",
    ),
    "pg_attribute": CatalogTable(
        "attrelid BIGINT, attname VARCHAR, atttypid BIGINT, attlen INTEGER, attnum INTEGER, "
        "atttypmod INTEGER, attnotnull BOOLEAN",
        _attributes,
        "-1 AS attstattarget, 0 AS attndims, -1 AS attcacheoff, false AS attbyval, "
        "'i' AS attalign, 'p' AS attstorage, '' AS attcompression, false AS atthasdef, "
        "false AS atthasmissing, '' AS attidentity, '' AS attgenerated, false AS attisdropped, "
        "true AS attislocal, 0 AS attinhcount, 0::BIGINT AS attcollation, "
        "NULL::VARCHAR AS attacl, NULL::VARCHAR[] AS attoptions, "
        "NULL::VARCHAR[] AS attfdwoptions",
    ),
    "pg_type": CatalogTable(
        "oid BIGINT, typname VARCHAR, typlen INTEGER, typcategory VARCHAR, typelem BIGINT, "
        "typarray BIGINT",
        _types,
        "11::BIGINT AS typnamespace, 10::BIGINT AS typowner, false AS typbyval, 'b' AS typtype, "
        "false AS typispreferred, true AS typisdefined, ',' AS typdelim, 0::BIGINT AS typrelid, "
        "CASE typcategory WHEN 'A' THEN 'array_in' ELSE typname || 'in' END AS typinput, "
        "CASE typcategory WHEN 'A' THEN 'array_out' ELSE typname || 'out' END AS typoutput, "
        "CASE typcategory WHEN 'A' THEN 'array_recv' ELSE typname || 'recv' END AS typreceive, "
        "CASE typcategory WHEN 'A' THEN 'array_send' ELSE typname || 'send' END AS typsend, "
        "0::BIGINT AS typsubscript, 'i' AS typalign, 'p' AS typstorage, false AS typnotnull, "
        "0::BIGINT AS typbasetype, -1 AS typtypmod, 0 AS typndims, 0::BIGINT AS typcollation, "
        "NULL::VARCHAR AS typdefault, NULL::VARCHAR AS typacl",
    ),
    "pg_index": CatalogTable(
        "indexrelid BIGINT, indrelid BIGINT, indnatts INTEGER, indkey INTEGER[]",
        _keys,
        "indnatts AS indnkeyatts, true AS indisunique, true AS indisprimary, "
        "false AS indnullsnotdistinct, false AS indisexclusion, true AS indimmediate, "
        "false AS indisclustered, true AS indisvalid, false AS indcheckxmin, true AS indisready, "
        "true AS indislive, false AS indisreplident, NULL::BIGINT[] AS indcollation, "
        "NULL::BIGINT[] AS indclass, NULL::INTEGER[] AS indoption, NULL::VARCHAR AS indexprs, "
        "NULL::VARCHAR AS indpred",
    ),
    "pg_constraint": CatalogTable(
        "oid BIGINT, conname VARCHAR, conrelid BIGINT, conindid BIGINT, conkey INTEGER[]",
        _constraints,
        "2200::BIGINT AS connamespace, 'p' AS contype, false AS condeferrable, "
        "false AS condeferred, true AS convalidated, 0::BIGINT AS contypid, "
        "0::BIGINT AS conparentid, 0::BIGINT AS confrelid, ' ' AS confupdtype, "
        "' ' AS confdeltype, ' ' AS confmatchtype, true AS conislocal, 0 AS coninhcount, "
        "true AS connoinherit, NULL::INTEGER[] AS confkey, NULL::VARCHAR AS conbin",
    ),
    "pg_database": CatalogTable(
        "none INTEGER",
        _one_row,
        "1::BIGINT AS oid, 'viewmill' AS datname, 10::BIGINT AS datdba, 6 AS encoding, "
        "'C' AS datcollate, 'C' AS datctype, false AS datistemplate, true AS datallowconn, "
        "-1 AS datconnlimit, NULL::VARCHAR AS datacl, 'c' AS datlocprovider, "
        "NULL::VARCHAR AS daticulocale, 0::BIGINT AS dattablespace",
    ),
    "pg_roles": CatalogTable(
        "none INTEGER",
        _one_row,
        "10::BIGINT AS oid, 'viewmill' AS rolname, false AS rolsuper, true AS rolinherit, "
        "false AS rolcreaterole, false AS rolcreatedb, true AS rolcanlogin, "
        "-1 AS rolconnlimit, NULL::TIMESTAMP AS rolvaliduntil, false AS rolreplication, "
        "false AS rolbypassrls",
    ),
    "pg_tables": CatalogTable(
        "tablename VARCHAR, definition VARCHAR", _tables("r"),
        "'public' AS schemaname, 'viewmill' AS tableowner, NULL::VARCHAR AS tablespace",
    ),
    "pg_views": CatalogTable(
        "viewname VARCHAR, definition VARCHAR", _tables("v"),
        "'public' AS schemaname, 'viewmill' AS viewowner",
    ),
    "pg_matviews": CatalogTable(
        "matviewname VARCHAR, definition VARCHAR", _tables("m"),
        "'public' AS schemaname, 'viewmill' AS matviewowner, true AS ispopulated",
    ),
    "information_schema.schemata": CatalogTable(
        "oid BIGINT, schema_name VARCHAR", _namespaces,
        f"{_DATABASE} AS catalog_name, 'viewmill' AS schema_owner",
    ),
    "information_schema.tables": CatalogTable(
        "table_name VARCHAR, table_type VARCHAR", _named_tables,
        f"{_DATABASE} AS table_catalog, 'public' AS table_schema, 'NO' AS is_insertable_into",
    ),
    "information_schema.views": CatalogTable(
        "table_name VARCHAR, view_definition VARCHAR", _tables("vm"),
        f"{_DATABASE} AS table_catalog, 'public' AS table_schema, 'NO' AS is_updatable",
    ),
    "information_schema.columns": CatalogTable(
        "table_name VARCHAR, column_name VARCHAR, ordinal_position INTEGER, is_nullable VARCHAR, "
        "data_type VARCHAR, numeric_precision INTEGER, numeric_scale INTEGER, udt_name VARCHAR",
        _named_columns,
        f"{_DATABASE} AS table_catalog, 'public' AS table_schema, "
        "NULL::VARCHAR AS column_default, NULL::INTEGER AS character_maximum_length, "
        "NULL::INTEGER AS datetime_precision, 'pg_catalog' AS udt_schema, "
        "'NO' AS is_identity, 'NEVER' AS is_generated, 'NO' AS is_updatable",
    ),
    "information_schema.table_constraints": CatalogTable(
        "constraint_name VARCHAR, table_name VARCHAR, column_name VARCHAR, position INTEGER",
        lambda found: (each for each in _key_columns(found) if each[3] == 1),
        f"{_DATABASE} AS table_catalog, 'public' AS table_schema, "
        "'public' AS constraint_schema, 'PRIMARY KEY' AS constraint_type",
    ),
    "information_schema.key_column_usage": CatalogTable(
        "constraint_name VARCHAR, table_name VARCHAR, column_name VARCHAR, "
        "ordinal_position INTEGER",
        _key_columns,
        f"{_DATABASE} AS table_catalog, 'public' AS table_schema, 'public' AS constraint_schema",
    ),
}  # fmt: skip

# What a mill has none of: the columns that clients ask for.
_EMPTY = {
    "pg_attrdef": "oid BIGINT, adrelid BIGINT, adnum INTEGER, adbin VARCHAR",
    "pg_auth_members": "roleid BIGINT, member BIGINT, grantor BIGINT, admin_option BOOLEAN",
    "pg_aggregate": "aggfnoid BIGINT, aggkind VARCHAR",
    "pg_cast": "oid BIGINT, castsource BIGINT, casttarget BIGINT, castfunc BIGINT, "
    "castcontext VARCHAR, castmethod VARCHAR",
    "pg_collation": "oid BIGINT, collname VARCHAR, collnamespace BIGINT, "
    "collisdeterministic BOOLEAN, collprovider VARCHAR",
    "pg_depend": "classid BIGINT, objid BIGINT, objsubid INTEGER, refclassid BIGINT, "
    "refobjid BIGINT, refobjsubid INTEGER, deptype VARCHAR",
    "pg_description": "objoid BIGINT, classoid BIGINT, objsubid INTEGER, description VARCHAR",
    "pg_enum": "oid BIGINT, enumtypid BIGINT, enumsortorder FLOAT, enumlabel VARCHAR",
    "pg_event_trigger": "oid BIGINT, evtname VARCHAR, evtevent VARCHAR, evtowner BIGINT, "
    "evtfoid BIGINT, evtenabled VARCHAR, evttags VARCHAR[]",
    "pg_extension": "oid BIGINT, extname VARCHAR, extnamespace BIGINT, extversion VARCHAR",
    "pg_foreign_data_wrapper": "oid BIGINT, fdwname VARCHAR, fdwowner BIGINT, "
    "fdwhandler BIGINT, fdwvalidator BIGINT, fdwacl VARCHAR[], fdwoptions VARCHAR[]",
    "pg_foreign_server": "oid BIGINT, srvname VARCHAR, srvowner BIGINT, srvfdw BIGINT, "
    "srvtype VARCHAR, srvversion VARCHAR, srvacl VARCHAR[], srvoptions VARCHAR[]",
    "pg_foreign_table": "ftrelid BIGINT, ftserver BIGINT, ftoptions VARCHAR[]",
    "pg_inherits": "inhrelid BIGINT, inhparent BIGINT, inhseqno INTEGER, inhdetachpending BOOLEAN",
    "pg_language": "oid BIGINT, lanname VARCHAR",
    "pg_opclass": "oid BIGINT, opcname VARCHAR, opcmethod BIGINT, opcdefault BOOLEAN",
    "pg_partitioned_table": "partrelid BIGINT, partstrat VARCHAR, partnatts INTEGER",
    "pg_policy": "oid BIGINT, polname VARCHAR, polrelid BIGINT, polcmd VARCHAR, "
    "polpermissive BOOLEAN, polroles BIGINT[], polqual VARCHAR, polwithcheck VARCHAR",
    "pg_operator": "oid BIGINT, oprname VARCHAR, oprnamespace BIGINT, oprkind VARCHAR, "
    "oprleft BIGINT, oprright BIGINT, oprresult BIGINT, oprcode BIGINT",
    "pg_proc": "oid BIGINT, proname VARCHAR, pronamespace BIGINT, prokind VARCHAR, "
    "prorettype BIGINT, proowner BIGINT, prolang BIGINT, pronargs INTEGER, "
    "proargtypes BIGINT[], proargnames VARCHAR[], proargmodes VARCHAR[], "
    "proallargtypes BIGINT[], proretset BOOLEAN, prosrc VARCHAR, proisstrict BOOLEAN, "
    "provolatile VARCHAR, proacl VARCHAR[]",
    "pg_publication": "oid BIGINT, pubname VARCHAR, pubowner BIGINT, puballtables BOOLEAN, "
    "pubinsert BOOLEAN, pubupdate BOOLEAN, pubdelete BOOLEAN, pubtruncate BOOLEAN, "
    "pubviaroot BOOLEAN",
    "pg_publication_namespace": "oid BIGINT, pnpubid BIGINT, pnnspid BIGINT",
    "pg_publication_rel": "oid BIGINT, prpubid BIGINT, prrelid BIGINT, prqual VARCHAR, "
    "prattrs INTEGER[]",
    "pg_range": "rngtypid BIGINT, rngsubtype BIGINT, rngmultitypid BIGINT",
    "pg_rewrite": "oid BIGINT, rulename VARCHAR, ev_class BIGINT, ev_type VARCHAR, "
    "ev_enabled VARCHAR",
    "pg_sequence": "seqrelid BIGINT, seqtypid BIGINT, seqstart BIGINT, seqincrement BIGINT, "
    "seqmax BIGINT, seqmin BIGINT, seqcache BIGINT, seqcycle BOOLEAN",
    "pg_stat_activity": "pid INTEGER, datname VARCHAR, usename VARCHAR, state VARCHAR, "
    "query VARCHAR, application_name VARCHAR, client_addr VARCHAR, backend_start TIMESTAMP",
    "pg_stat_user_tables": "relid BIGINT, schemaname VARCHAR, relname VARCHAR, "
    "n_live_tup BIGINT, n_dead_tup BIGINT",
    "pg_shdescription": "objoid BIGINT, classoid BIGINT, description VARCHAR",
    "pg_seclabel": "objoid BIGINT, classoid BIGINT, objsubid INTEGER, label VARCHAR",
    "pg_settings": "name VARCHAR, setting VARCHAR, unit VARCHAR, category VARCHAR",
    "pg_statistic_ext": "oid BIGINT, stxrelid BIGINT, stxname VARCHAR, stxnamespace BIGINT, "
    "stxkeys INTEGER[], stxkind VARCHAR[], stxstattarget INTEGER",
    "pg_tablespace": "oid BIGINT, spcname VARCHAR, spcowner BIGINT, spcacl VARCHAR[], "
    "spcoptions VARCHAR[]",
    "pg_trigger": "oid BIGINT, tgrelid BIGINT, tgname VARCHAR, tgconstraint BIGINT, "
    "tgisinternal BOOLEAN, tgenabled VARCHAR, tgparentid BIGINT",
    "pg_user": "usename VARCHAR, usesysid BIGINT, usesuper BOOLEAN",
    "information_schema.referential_constraints": "constraint_name VARCHAR, "
    "constraint_schema VARCHAR, unique_constraint_name VARCHAR",
    "information_schema.constraint_column_usage": "constraint_name VARCHAR, "
    "table_name VARCHAR, table_schema VARCHAR, column_name VARCHAR",
    "information_schema.sequences": "sequence_name VARCHAR, sequence_schema VARCHAR",
    "information_schema.routines": "routine_name VARCHAR, routine_schema VARCHAR, "
    "routine_type VARCHAR, specific_name VARCHAR, data_type VARCHAR",
    "information_schema.table_privileges": "grantee VARCHAR, table_schema VARCHAR, "
    "table_name VARCHAR, privilege_type VARCHAR",
    "information_schema.triggers": "trigger_name VARCHAR, event_object_schema VARCHAR, "
    "event_object_table VARCHAR",
}
TABLES |= {name: CatalogTable(columns, _no_rows) for name, columns in _EMPTY.items()}

"""What PostgreSQL's catalog says of a table that is followed.

takes  a connection, the table as the user wrote it
gives  its columns with the types that they have in a mill, its key; a publication that has it
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from viewmill.errors import InvalidArgument, SourceBroken
from viewmill.sources.replication import Connection, ServerRefused, identifier, literal

_TYPES = {
    16: pa.bool_(), 17: pa.binary(), 20: pa.int64(), 21: pa.int16(), 23: pa.int32(),
    700: pa.float32(), 701: pa.float64(), 1082: pa.date32(), 1114: pa.timestamp("us"),
    1184: pa.timestamp("us"),
}  # fmt: skip
_NUMERIC, _ANY_NUMERIC = 1700, pa.decimal128(38, 18)  # NUMERIC without a precision, as in Spark
_DUPLICATE = "42710"


@dataclass(frozen=True)
class TableColumn:
    """A column; `type` and `modifier` are PostgreSQL's numbers, those of its domain's base if
    it has one are `base`. `position` is never used again for another column."""

    name: str
    type: int
    modifier: int
    base: tuple[int, int]
    has_default: bool
    position: int


@dataclass(frozen=True)
class TableFacts:
    """A table."""

    number: int
    schema: str
    name: str
    identity: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]  # of its replica identity, or its primary key if that is FULL

    @property
    def sql(self) -> str:
        """Its name in SQL."""
        return f"{identifier(self.schema)}.{identifier(self.name)}"

    @property
    def is_whole(self) -> bool:
        """Whether old rows are sent whole."""
        return self.identity == "f"

    def arrow_schema(self) -> pa.Schema:
        """Its columns with the types that a mill's table gets."""
        return pa.schema([(each.name, _arrow_type(*each.base)) for each in self.columns])


def _arrow_type(type_: int, modifier: int) -> pa.DataType:
    if type_ != _NUMERIC:
        return _TYPES.get(type_, pa.string())
    if modifier < 4:
        return _ANY_NUMERIC
    precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    return pa.decimal128(precision, scale) if scale <= precision <= 38 else pa.string()


def read_table(connection: Connection, title: str, table: str) -> TableFacts:
    """The table; refuses what cannot be followed."""
    found = connection.rows(
        "SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, c.relreplident, "
        "has_table_privilege(c.oid, 'SELECT') FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE c.oid = to_regclass({literal(table)})"
    )
    if not found:
        raise InvalidArgument(
            f"{title} does not exist", hint='As SQL names it: "orders", "shop.orders".'
        )
    number, schema, name, kind, persistence, identity, may_read = (str(each) for each in found[0])
    if kind not in ("r", "p") or persistence != "p":
        raise InvalidArgument(
            f"{title} is no table that PostgreSQL replicates",
            detail="Views, foreign, temporary and unlogged tables are not in the log.",
        )
    if may_read != "t":
        raise SourceBroken(f"{title}: permission denied", hint=f"GRANT SELECT ON {table} TO ...")
    key = _key(connection, number, identity)
    if identity != "f" and not key:
        raise InvalidArgument(
            f"{title} has no primary key, so PostgreSQL does not say which rows change",
            detail="A key that is DEFERRABLE does not count.",
            hint=f"ALTER TABLE {table} REPLICA IDENTITY FULL, or give it a primary key.",
        )
    columns = _columns(connection, number)
    return TableFacts(int(number), schema, name, identity, columns, key)


def _columns(connection: Connection, number: str) -> tuple[TableColumn, ...]:
    found = connection.rows(
        "SELECT a.attname, a.atttypid, a.atttypmod, "
        "CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE a.atttypid END, "
        "CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END, "
        "a.atthasdef OR a.atthasmissing, a.attnum "
        "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
        f"WHERE a.attrelid = {number} AND a.attnum > 0 AND NOT a.attisdropped "
        "AND a.attgenerated = '' ORDER BY a.attnum"
    )
    return tuple(
        TableColumn(
            str(name),
            int(t or 0),
            int(m or 0),
            (int(bt or 0), int(bm or 0)),
            d == "t",
            int(at or 0),
        )
        for name, t, m, bt, bm, d, at in found
    )


def _key(connection: Connection, number: str, identity: str) -> tuple[str, ...]:
    chosen = "indisreplident" if identity == "i" else "indisprimary"
    found = connection.rows(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a "
        "ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
        f"WHERE i.indrelid = {number} AND i.{chosen} AND i.indimmediate ORDER BY a.attnum"
    )
    return () if identity == "n" else tuple(str(name) for (name,) in found)


def ensure_publication(
    connection: Connection, title: str, facts: TableFacts, wanted: str | None
) -> str:
    """The name of a publication that has the table; one of ours is created."""
    name = wanted or f"viewmill_{facts.number}"
    if not _exists(connection, name):
        if wanted is not None:
            raise InvalidArgument(
                f'{title}: there is no publication "{wanted}"',
                hint=f"CREATE PUBLICATION {identifier(wanted)} FOR TABLE {facts.sql}",
            )
        _create(connection, title, facts, name)
    check_publication(connection, title, facts, name)
    return name


def _exists(connection: Connection, name: str) -> bool:
    query = f"SELECT 1 FROM pg_publication WHERE pubname = {literal(name)}"
    return bool(connection.rows(query))


def _create(connection: Connection, title: str, facts: TableFacts, name: str) -> None:
    root = " WITH (publish_via_partition_root = true)" if _version(connection) >= 130000 else ""
    try:
        connection.rows(f"CREATE PUBLICATION {identifier(name)} FOR TABLE {facts.sql}{root}")
    except ServerRefused as why:
        if why.code == _DUPLICATE:
            return
        raise ServerRefused(
            f"{title}: no publication can be created: {why.message}",
            why.code,
            f'Its owner says CREATE PUBLICATION p FOR TABLE {facts.sql}; then publication="p".',
        ) from why


def check_publication(connection: Connection, title: str, facts: TableFacts, name: str) -> None:
    """Refuse a publication that leaves changes out."""
    found = connection.rows(
        "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, p.* FROM pg_publication p "
        f"JOIN pg_publication_tables t USING (pubname) WHERE pubname = {literal(name)} "
        f"AND t.schemaname = {literal(facts.schema)} AND t.tablename = {literal(facts.name)}"
    )
    filtered: list[tuple[str | None, ...]] = []
    if _version(connection) >= 150000:
        filtered = connection.rows(
            "SELECT 1 FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid "
            f"WHERE pubname = {literal(name)} AND prrelid = {facts.number} "
            "AND (prqual IS NOT NULL OR prattrs IS NOT NULL)"
        )
    if not found or found[0][0] != "t" or filtered:
        raise SourceBroken(
            f'{title}: publication "{name}" does not have all changes of the table',
            detail="It lacks the table, kinds of changes, rows or columns.",
            hint="One for whole tables: CREATE PUBLICATION p FOR TABLE t. Changes that it left "
            "out do not come: unfollow, and follow again from a new snapshot.",
        )


def _version(connection: Connection) -> int:
    return int(connection.rows("SHOW server_version_num")[0][0] or 0)

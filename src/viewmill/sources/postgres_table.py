"""Follow a table of PostgreSQL: a snapshot, and from its moment on what a slot decodes of the log.

takes  a connection string and a table
gives  all rows as one step, then whole transactions, several in a step where many are waiting

The slot and the snapshot are made in one transaction, so that nothing is between them. The slot
is told that a position is stored only when the mill has committed it. The slot of a mill in memory
is temporary: if its connection ends, the next step has all rows again.
"""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg.conninfo import conninfo_to_dict

from viewmill.errors import InvalidArgument, SourceBroken, ViewmillError
from viewmill.sources.postgres_catalog import (
    TableFacts,
    check_publication,
    ensure_publication,
    read_table,
)
from viewmill.sources.replication import (
    Alive,
    Connection,
    Data,
    ServerRefused,
    identifier,
    literal,
    lsn_number,
)
from viewmill.sources.row_changes import typed
from viewmill.sources.source import Offsets, Step
from viewmill.sources.transactions import Transactions

_PART = "table"
_ROWS = 50_000  # after so many a step ends with the transaction
_BYTES = 16 << 20  # of log without rows of the table, after which the offset is noted
_ACTIVE_S, _SILENT_S, _CHECK_S = 5.0, 60.0, 1.0
_IN_USE = "55006"


@dataclass(frozen=True)
class Reached:
    """How far a mill is; `position` is None while there is no snapshot."""

    slot: str
    position: int | None = None
    system: str = ""
    number: int = 0
    columns: dict[str, list[int]] | None = None

    def offsets(self) -> Offsets:
        """As a mill notes it."""
        return {_PART: json.dumps(asdict(self))}


class PostgresTable:
    """A table of PostgreSQL that is followed."""

    has_more_columns = True

    def __init__(self, dsn: str, table: str, publication: str | None, slot: str | None) -> None:
        try:
            database = conninfo_to_dict(dsn).get("dbname")
        except psycopg.ProgrammingError as why:
            raise InvalidArgument(
                "the connection string of PostgreSQL cannot be read",
                hint='For example "postgresql://user@host/database" or "host=... dbname=...".',
            ) from why
        self.title = f"PostgreSQL table {table}" + (f" of {database}" if database else "")
        self.reads = "a snapshot"
        self._dsn, self._table, self._slot = dsn, table, slot
        self._publication, self._publishes = publication, ""
        self._is_durable = False
        self._facts: TableFacts | None = None
        self._queries: Connection | None = None
        self._stream: Connection | None = None
        self._at: Reached | None = None  # where the open stream is
        self._transactions: Transactions | None = None
        self._checked = 0.0

    # What a mill asks first.

    def schema(self) -> pa.Schema:
        """The columns; NUMERIC without a precision is DECIMAL(38, 18), unknown types are text."""
        return self._look().arrow_schema()

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the replica identity, or of the primary key."""
        return (self._facts or self._look()).key

    def begin(self, *, is_durable: bool) -> None:
        """A mill on disk needs a slot that stays."""
        self._is_durable = is_durable

    def _look(self) -> TableFacts:
        with self.named():
            self._facts = read_table(self._asking(), self.title, self._table)
        return self._facts

    def _asking(self) -> Connection:
        if self._queries is None:
            self._queries = Connection(self._dsn, replicates=False)
        return self._queries

    def named(self) -> _Named:
        """Gives errors the name of this source."""
        return _Named(self)

    def close(self) -> None:
        """End the connections; a slot that stays keeps what is not taken."""
        for each in (self._stream, self._queries):
            if each is not None:
                each.close()
        self._stream = self._queries = self._at = self._transactions = None

    def wait(self, seconds: float) -> None:
        """Until the server sends something."""
        stream = self._stream
        try:
            if stream is not None and stream.is_streaming:
                stream.wait(seconds)
                return
        except (OSError, ValueError, psycopg.Error):
            pass  # it was closed meanwhile: the next pass says what is wrong
        time.sleep(min(seconds, 0.05))

    def forget(self, offsets: Offsets) -> None:
        """Drop the slot, which would keep the server's log forever."""
        self.close()
        found = _reached(offsets)
        if found is None:
            return
        with self.named():
            self._drop_slot(found.slot)
        self.close()

    def _drop_slot(self, slot: str) -> None:
        name = literal(slot)
        self._asking().rows(
            f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            f"WHERE slot_name = {name}"
        )

    # Changes.

    def changes(
        self, offsets: Offsets, schema: pa.Schema, key: tuple[str, ...] = ()
    ) -> Iterator[Step]:
        """All rows at first, then the transactions that were committed since the offset."""
        reached = _reached(offsets)
        if reached is None or reached.position is None or self._is_lost(reached):
            yield from self._snapshot(reached, schema, key)
            return
        was_open = self._at == reached
        try:
            with self.named():
                position = self._open(reached, schema, key)
        except ViewmillError:
            if not was_open:
                raise
            self.close()  # the server was away meanwhile
            if not self._is_durable:
                yield from self._snapshot(reached, schema, key)
                return
            with self.named():
                position = self._open(reached, schema, key)
        yield from self._take(position)

    def _is_lost(self, reached: Reached) -> bool:
        """Whether a temporary slot went with its connection."""
        return not self._is_durable and (self._stream is None or self._at != reached)

    # The snapshot.

    def _snapshot(
        self, reached: Reached | None, schema: pa.Schema, key: tuple[str, ...]
    ) -> Iterator[Step]:
        self.close()
        begun = reached is not None and reached.position is None
        slot = self._slot or f"viewmill_{uuid.uuid4().hex[:16]}"
        if reached is not None and begun:
            slot = reached.slot
            with self.named():
                self._drop_slot(slot)
        elif self._is_durable:  # first its name, so that a crash does not leave an unknown one
            yield Step(None, Reached(slot).offsets())
        with self.named():
            rows, found = self._read(slot, schema, key)
        self.reads = "a snapshot"
        self._at = found
        yield Step(rows, found.offsets(), replaces=True)

    def _read(self, slot: str, schema: pa.Schema, key: tuple[str, ...]) -> tuple[pa.Table, Reached]:
        facts = self._checked_facts(key)
        self._publishes = ensure_publication(self._asking(), self.title, facts, self._publication)
        stream = self._stream = self._connect()
        system = stream.rows("IDENTIFY_SYSTEM")[0][0] or ""
        stream.rows("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
        kind = "" if self._is_durable else "TEMPORARY "
        made = stream.rows(
            f"CREATE_REPLICATION_SLOT {identifier(slot)} {kind}LOGICAL pgoutput USE_SNAPSHOT"
        )
        facts = self._facts = read_table(stream, self.title, self._table)
        rows = self._copy(stream, facts, schema)
        stream.rows("COMMIT")
        position = lsn_number(made[0][1] or "0/0")
        return rows, Reached(slot, position, system, facts.number, _columns(facts))

    def _connect(self) -> Connection:
        try:
            return Connection(self._dsn, replicates=True)
        except ServerRefused as why:
            why.hint = why.hint or "The role needs REPLICATION, the server wal_level = logical."
            raise

    def _checked_facts(self, key: tuple[str, ...]) -> TableFacts:
        facts = self._look()
        is_ours = {each.lower() for each in facts.key} == {each.lower() for each in key}
        if not facts.is_whole and not is_ours:
            keys = ", ".join(facts.key)
            raise InvalidArgument(
                f"{self.title} tells of old rows no more than {keys}",
                detail=f"The table that follows it has the primary key ({', '.join(key)}).",
                hint=f"Create it with PRIMARY KEY ({keys}), or ALTER TABLE {self._table} "
                "REPLICA IDENTITY FULL.",
            )
        return facts

    def _copy(self, stream: Connection, facts: TableFacts, schema: pa.Schema) -> pa.Table:
        wanted = {each.lower(): each for each in schema.names}
        columns = [each.name for each in facts.columns if each.name.lower() in wanted]
        names = [wanted[each.lower()] for each in columns]
        if not columns:
            raise InvalidArgument(f"{self.title} has none of the columns of the table")
        listed = ", ".join(map(identifier, columns))
        query = f"COPY (SELECT {listed} FROM {facts.sql}) TO STDOUT (FORMAT csv)"
        texts = _parse_csv(b"".join(stream.copy_out(query)), names)
        rows = typed(texts, schema, self.title)
        for field in schema:
            if field.name not in names:
                rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type))
        return rows

    # The stream.

    def _open(self, reached: Reached, schema: pa.Schema, key: tuple[str, ...]) -> int:
        """Be at the offset with an open stream; the position to be reached."""
        position = self._check(reached)
        if self._at != reached:
            if self._stream is not None:
                self._stream.close()
            self._stream, self._transactions = self._connect(), None
        stream = self._stream
        assert stream is not None
        assert reached.position is not None
        if not stream.is_streaming:
            self._start(stream, reached)
        if self._transactions is None:
            facts = self._checked_facts(key)
            by_key = {each.lower() for each in facts.key} == {each.lower() for each in key}
            self._transactions = Transactions(
                self.title, reached.number, reached.columns or {}, schema, key if by_key else (),
                self._require_no_default, self._positions,
            )  # fmt: skip
        self._at = reached
        stream.tell(reached.position)
        return position

    def _start(self, stream: Connection, reached: Reached) -> None:
        system = stream.rows("IDENTIFY_SYSTEM")[0][0]
        if system != reached.system:
            raise self._lost("it is on another server now")
        until = time.monotonic() + _ACTIVE_S
        while True:  # a process that was killed is noticed by the server after a moment
            try:
                stream.start(reached.slot, self._publishes, reached.position or 0)
                return
            except ServerRefused as why:
                if why.code != _IN_USE or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _check(self, reached: Reached) -> int:
        """The position that the server's log has now; refuse a feed that has a gap."""
        asking = self._asking()
        if self._at == reached and time.monotonic() < self._checked + _CHECK_S:
            return lsn_number(asking.rows("SELECT pg_current_wal_flush_lsn()")[0][0] or "0/0")
        facts = self._look()
        if facts.number != reached.number:
            raise self._lost("the table was created anew")
        name = self._publication or f"viewmill_{facts.number}"
        check_publication(asking, self.title, facts, name)
        self._publishes = name
        found = asking.rows(
            "SELECT confirmed_flush_lsn, wal_status FROM pg_replication_slots "
            f"WHERE slot_name = {literal(reached.slot)}"
        )
        if not found or found[0][1] == "lost":
            raise self._lost(f'the slot "{reached.slot}" was dropped or fell too far behind')
        if lsn_number(found[0][0] or "0/0") > (reached.position or 0):
            raise self._lost("the slot is ahead of the mill, which was perhaps restored")
        self._checked = time.monotonic()
        return lsn_number(asking.rows("SELECT pg_current_wal_flush_lsn()")[0][0] or "0/0")

    def _lost(self, why: str) -> SourceBroken:
        return SourceBroken(
            f"{self.title}: changes since the last ones taken are lost: {why}",
            hint="mill.unfollow(table), DELETE FROM the table, and follow again from a new"
            " snapshot.",
        )

    def _positions(self) -> dict[str, int]:
        """Where the table has its columns now, which tells those of one name apart."""
        return {each.name: each.position for each in self._look().columns}

    def _require_no_default(self, name: str) -> None:
        """Refuse a column that older rows got without being sent again."""
        column = next((each for each in self._look().columns if each.name == name), None)
        if column is not None and column.has_default:
            raise SourceBroken(
                f'{self.title}: column "{name}" came with a default for rows that were there',
                detail="PostgreSQL does not send those rows again.",
                hint="Unfollow, empty the table, and follow again from a new snapshot.",
            )

    def _take(self, target: int) -> Iterator[Step]:
        """Steps until a position is reached."""
        reader = _Reader(self, target)
        while (step := reader.next_step()) is not None:
            self.reads = "logical replication"
            yield step
            reader.tell()

    def step(self, position: int) -> Step:
        """The changes up to a position, and that it is reached."""
        _, transactions, at = self.opened()
        columns = {name: list(each) for name, each in transactions.columns.items()}
        self._at = replace(at, position=position, columns=columns)
        return transactions.step(self._at.offsets())

    def opened(self) -> tuple[Connection, Transactions, Reached]:
        """The open stream, what it has decoded, and where it is."""
        assert self._stream is not None
        assert self._transactions is not None
        assert self._at is not None
        return self._stream, self._transactions, self._at


class _Reader:
    """Reads a stream until a position is reached."""

    def __init__(self, source: PostgresTable, target: int) -> None:
        self._source, self._target = source, target
        self._stream, self._transactions, at = source.opened()
        self._noted = self._position = at.position or 0

    def tell(self) -> None:
        """The last step is committed."""
        with self._source.named():
            self._stream.tell(self._noted)

    def next_step(self) -> Step | None:
        """The next one, None if the target is reached and nothing is left."""
        with self._source.named():
            return self._next_step()

    def _next_step(self) -> Step | None:
        silent_since, pause = time.monotonic(), 0.001
        while True:
            message = self._stream.receive()
            if message is None:
                if not self._transactions.is_open:
                    if self._transactions.count:
                        return self._made()
                    if self._position >= self._target:
                        return self._made() if self._position - self._noted > _BYTES else None
                if time.monotonic() > silent_since + _SILENT_S:
                    raise ServerRefused("the server does not answer")
                self._stream.tell(self._noted, ask=True)
                self._stream.wait(pause)
                pause = min(2 * pause, 1.0)
                continue
            silent_since, pause = time.monotonic(), 0.001
            if self._take(message) and self._transactions.count >= _ROWS:
                return self._made()

    def _take(self, message: Data | Alive) -> bool:
        """Whether a transaction has ended with a message."""
        if isinstance(message, Alive):
            if not self._transactions.is_open:
                self._position = max(self._position, message.position)
            if message.wants_answer:
                self._stream.tell(self._noted)
            return False
        end = self._transactions.take(message.payload)
        if end is None:
            return False
        self._position = max(self._position, end)
        return True

    def _made(self) -> Step:
        self._noted = self._position
        return self._source.step(self._position)


class _Named:
    """Gives errors of PostgreSQL the name of the source."""

    def __init__(self, source: PostgresTable) -> None:
        self._source = source

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, why: BaseException | None, _: object) -> None:
        if isinstance(why, psycopg.Error):
            raise ServerRefused(f"{self._source.title}: {str(why).strip()}") from why
        if isinstance(why, ServerRefused) and not why.message.startswith(self._source.title):
            why.message = f"{self._source.title}: {why.message}"
            why.args = (why.message,)


def _reached(offsets: Offsets) -> Reached | None:
    return Reached(**json.loads(offsets[_PART])) if _PART in offsets else None


def _columns(facts: TableFacts) -> dict[str, list[int]]:
    return {each.name: [each.type, each.modifier, each.position] for each in facts.columns}


def _parse_csv(lines: bytes, names: list[str]) -> pa.Table:
    texts = pa.schema([(name, pa.string()) for name in names])
    if not lines:
        return texts.empty_table()
    return pyarrow.csv.read_csv(
        io.BytesIO(lines),
        read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=16 << 20),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=texts, null_values=[""], strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )  # fmt: skip

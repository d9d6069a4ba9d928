"""One client's session: what its statements mean.

takes  statements of Postgres' dialect, parameters
gives  Arrow tables and tags of commands; errors with their SQLSTATE

A transaction reads one version, that of its first query. Nothing can be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewmill.mill.change_stream import ChangeStream
from viewmill.mill.snapshots import Snapshot
from viewmill.serve.catalog_queries import CatalogReader
from viewmill.serve.client_sql import ClientQuery, ClientStatement, parse_query
from viewmill.serve.copy_out import CopyFormat, parse_copy, parse_subscribe
from viewmill.serve.cursors import Declared, OpenCursor, parse_declare, parse_fetch
from viewmill.serve.failures import Refused
from viewmill.serve.grants import Access
from viewmill.serve.limits import Limits
from viewmill.serve.mill_queries import MillReader
from viewmill.serve.running import Running
from viewmill.serve.settings import Settings

_MAX_CURSORS = 100
_WRITES = (
    "INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "DROP", "ALTER", "TRUNCATE", "REFRESH",
    "GRANT", "REVOKE", "VACUUM", "ANALYZE", "REINDEX", "CLUSTER", "LOCK", "COMMENT", "CALL", "DO",
    "LOAD", "IMPORT", "ATTACH", "INSTALL",
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """Rows, if there are any, and the tag of the command."""

    table: Any
    tag: str
    copied: CopyFormat | None = None  # what COPY writes, instead of rows
    stream: ChangeStream | None = None  # what SUBSCRIBE follows


@dataclass(frozen=True)
class Prepared:
    """A statement that can be run with parameters."""

    statement: ClientStatement | None  # None: an empty text
    query: ClientQuery | None  # over the mill
    types: tuple[int, ...]  # of parameters, as the client said
    is_catalog: bool = False  # whether the query asks for names and types
    declared: Declared | None = None  # the cursor that the query is for

    @property
    def parameters(self) -> int:
        """How many parameters it has."""
        return 0 if self.query is None else self.query.parameters

    @property
    def gives_rows(self) -> bool:
        """Whether it is a query whose rows the client gets now."""
        return self.query is not None and self.declared is None


class Session:
    """The state of one connection above the protocol."""

    def __init__(
        self,
        mill: MillReader,
        catalog: CatalogReader,
        limits: Limits,
        running: Running,
        user: str,
        access: Access | None = None,
    ) -> None:
        self._access = access  # None: everything may be read
        self._mill, self._catalog, self._limits, self._running = mill, catalog, limits, running
        self.settings = Settings(user, limits.seconds)
        self.state = b"I"  # I idle, T in a transaction, E in a failed one
        self._snapshot: Snapshot | None = None
        self.cursors: dict[str, OpenCursor] = {}
        self.on_deallocate: Callable[[str | None], None] = lambda name: None

    def close(self) -> None:
        """Give back the version that it reads."""
        self._end()
        self.cursors.clear()

    # Statements.

    def prepare(self, statement: ClientStatement | None, types: Sequence[int] = ()) -> Prepared:
        """Parse a statement."""
        if statement is not None and statement.word == "DECLARE":
            declared = parse_declare(statement)
            inner = self.prepare(declared.query, types)
            if inner.query is None:
                raise Refused("42601", "a cursor is declared for a SELECT")
            return replace(inner, statement=statement, declared=declared)
        if statement is None or not statement.is_query:
            return Prepared(statement, None, tuple(types))
        is_catalog = self._catalog.concerns(statement)
        query = self._catalog.parse(statement) if is_catalog else parse_query(statement)
        return Prepared(statement, query, tuple(types), is_catalog)

    def describe(self, prepared: Prepared) -> tuple[list[int], Any]:
        """The types of parameters, and the schema of the rows; None for a command."""
        if prepared.query is None:
            return [], self._schema_of_command(prepared.statement)
        reader = self._catalog if prepared.is_catalog else self._mill
        types, schema = reader.describe(prepared.query, prepared.types, self._access)
        return types, schema if prepared.gives_rows else None

    def _schema_of_command(self, statement: ClientStatement | None) -> Any:
        if statement is not None and statement.word == "SHOW":
            return self.settings.show(statement).schema
        if statement is not None and statement.word == "FETCH":
            return self._cursor(parse_fetch(statement).name).table.schema
        return None

    def run(self, prepared: Prepared, given: Sequence[Any] = ()) -> Answer:
        """Run a statement."""
        statement = prepared.statement
        assert statement is not None
        if self.state == b"E" and statement.word not in ("COMMIT", "END", "ROLLBACK", "ABORT"):
            raise Refused(
                "25P02", "the transaction has failed", hint="ROLLBACK ends it, also to a savepoint."
            )
        seconds = self.settings.seconds
        with self._running.query(seconds):
            if prepared.query is None:
                return self._command(statement)
            table = self._rows(prepared, given)
            self._running.check(seconds)
            if prepared.declared is not None:
                return self._declare(prepared.declared, table)
        return Answer(table, f"SELECT {table.num_rows}")

    def _declare(self, declared: Declared, table: Any) -> Answer:
        if self.state == b"I" and not declared.holds:
            raise Refused(
                "25P01", "a cursor needs a transaction", hint="BEGIN starts one, or WITH HOLD."
            )
        if declared.name in self.cursors:
            raise Refused("42P03", f'the cursor "{declared.name}" exists already')
        if len(self.cursors) >= _MAX_CURSORS:
            raise Refused("54000", f"{_MAX_CURSORS} cursors are open already")
        self.cursors[declared.name] = OpenCursor(table, declared.holds)
        return Answer(None, "DECLARE CURSOR")

    def _cursor(self, name: str) -> OpenCursor:
        found = self.cursors.get(name)
        if found is None:
            raise Refused("34000", f'there is no cursor "{name}"')
        return found

    def _rows(self, prepared: Prepared, given: Sequence[Any]) -> Any:
        query = prepared.query
        assert query is not None
        if prepared.is_catalog:
            return self._catalog.run(query, given, self.settings, self._running, self._access)
        if self.state == b"T" and self._snapshot is None:
            self._snapshot = self._mill.begin(query, given, self._access)
        return self._mill.run(query, given, self._snapshot, self._running, self._access)

    def fail(self) -> None:
        """A statement failed: so has the transaction around it."""
        if self.state == b"T":
            self.state = b"E"

    # Commands.

    def _command(self, statement: ClientStatement) -> Answer:
        word = statement.word
        command = _COMMANDS.get(word)
        if command is not None:
            return command(self, statement)
        span = statement.cursor().span()
        if word in _WRITES:
            raise Refused(
                "25006",
                f"{word} is not possible: this connection only reads",
                hint="Change the mill in the process that has it open.",
                span=span,
            )
        raise Refused("42601", f'no statement starts with "{span.text}"', span=span)

    def _begin(self, statement: ClientStatement) -> Answer:
        if self.state == b"I":
            self.state = b"T"
        return Answer(None, "BEGIN")

    def _commit(self, statement: ClientStatement) -> Answer:
        tag = "ROLLBACK" if self.state == b"E" else "COMMIT"
        self._end()
        return Answer(None, tag)

    def _rollback(self, statement: ClientStatement) -> Answer:
        words = list(statement.words())
        if "to" in words:  # nothing was changed: the savepoint is where we are
            if self.state == b"I":
                raise Refused("25P01", "there is no transaction")
            self.state = b"T"
            return Answer(None, "ROLLBACK")
        self._end()
        return Answer(None, "ROLLBACK")

    def _fetch(self, statement: ClientStatement) -> Answer:
        fetch = parse_fetch(statement)
        rows = fetch.go(self._cursor(fetch.name))
        is_fetch = statement.word == "FETCH"
        return Answer(rows if is_fetch else None, f"{statement.word} {rows.num_rows}")

    def _close_cursor(self, statement: ClientStatement) -> Answer:
        cursor = statement.cursor()
        cursor.expect("CLOSE")
        if cursor.accept("ALL"):
            self.cursors.clear()
            return Answer(None, "CLOSE CURSOR ALL")
        name = cursor.name("a cursor")
        self._cursor(name)
        del self.cursors[name]
        return Answer(None, "CLOSE CURSOR")

    def _copy(self, statement: ClientStatement) -> Answer:
        copy = parse_copy(statement)
        if copy.inner.tokens and copy.inner.word == "SUBSCRIBE":
            name, with_rows = parse_subscribe(copy.inner)
            stream = self._mill.subscribe(name, self._access, with_rows=with_rows)
            return Answer(None, "COPY", copy.format, stream)
        inner = self.prepare(copy.inner if copy.inner.tokens else None)
        if not inner.gives_rows or inner.parameters:
            raise Refused("42601", "COPY takes a SELECT without parameters, or SUBSCRIBE")
        table = self._rows(inner, ())
        return Answer(table, f"COPY {table.num_rows}", copy.format)

    def _subscribe(self, statement: ClientStatement) -> Answer:
        raise Refused(
            "0A000", "changes are streamed by COPY", hint="Write COPY (SUBSCRIBE v) TO STDOUT."
        )

    def _end(self) -> None:
        self.state = b"I"
        self.cursors = {name: each for name, each in self.cursors.items() if each.holds}
        if self._snapshot is not None:
            self._mill.end(self._snapshot)
            self._snapshot = None

    def _savepoint(self, statement: ClientStatement) -> Answer:
        if self.state == b"I":
            raise Refused("25P01", "a savepoint needs a transaction", hint="BEGIN starts one.")
        return Answer(None, statement.word)

    def _set(self, statement: ClientStatement) -> Answer:
        self.settings.set(statement)
        return Answer(None, statement.word)

    def _show(self, statement: ClientStatement) -> Answer:
        return Answer(self.settings.show(statement), "SHOW")

    def _discard(self, statement: ClientStatement) -> Answer:
        self._end()
        self.cursors.clear()
        self.on_deallocate(None)
        return Answer(None, "DISCARD ALL")

    def _deallocate(self, statement: ClientStatement) -> Answer:
        cursor = statement.cursor()
        cursor.expect("DEALLOCATE")
        cursor.accept("PREPARE")
        name = None if cursor.accept("ALL") else cursor.name("a statement")
        self.on_deallocate(name)
        return Answer(None, "DEALLOCATE" if name else "DEALLOCATE ALL")


_COMMANDS: dict[str, Callable[[Session, ClientStatement], Answer]] = {
    "BEGIN": Session._begin,
    "START": Session._begin,
    "COMMIT": Session._commit,
    "END": Session._commit,
    "ROLLBACK": Session._rollback,
    "ABORT": Session._rollback,
    "SAVEPOINT": Session._savepoint,
    "RELEASE": Session._savepoint,
    "SET": Session._set,
    "RESET": Session._set,
    "SHOW": Session._show,
    "DISCARD": Session._discard,
    "DEALLOCATE": Session._deallocate,
    "FETCH": Session._fetch,
    "MOVE": Session._fetch,
    "CLOSE": Session._close_cursor,
    "COPY": Session._copy,
    "SUBSCRIBE": Session._subscribe,
}

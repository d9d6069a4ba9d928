"""One table of an SQL database that is kept equal to a view, exactly once.

takes  an engine or URL of SQLAlchemy, the name of the table, the columns of its key
does   one transaction per change: rows that went and came, and our version in `_viewmill_versions`

Every row carries a fingerprint of its values, `_viewmill_row`, by which it is found again. Names
become SQL only through SQLAlchemy, which quotes them; parameters are numbered.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.sql import quoted_name

from viewmill.errors import (
    DuplicateKey,
    InvalidArgument,
    NullViolation,
    SinkBroken,
    UnknownName,
    WrongFormat,
)
from viewmill.sinks.row_fingerprints import Row, Values, rows_by_fingerprint
from viewmill.sinks.sink import Change, Origin, OutOfStep
from viewmill.sinks.sql_types import sql_type

VERSIONS = "_viewmill_versions"
ROW, COUNT = "_viewmill_row", "_viewmill_count"
_AT_ONCE = 500  # fingerprints in one IN list


class _Attempt(NamedTuple):
    """A change that is written, the token by which it is known, and the rows owed with it."""

    change: Change
    token: str
    owed: Mapping[str, int]


class SqlTable:
    """A table of a database, and its line in `_viewmill_versions`."""

    guarantee, takes_each_version, takes_whole = "exactly once", False, False

    def __init__(self, url: Any, table: str, key: tuple[str, ...], schema: str | None) -> None:
        self._is_ours = not isinstance(url, sa.Engine)
        self._engine: sa.Engine = _engine(url) if self._is_ours else url
        self._name, self._key, self._schema = table, key, schema
        self.title = f'table "{table}" in {self._engine.url.render_as_string(hide_password=True)}'
        self._versions = _versions_table(schema)
        self._line = self._versions.c.name == table
        self._token = ""  # of the last change that the table has taken
        self._owed: Mapping[str, int] = {}  # rows that were deleted more often than inserted
        self._tried: _Attempt | None = None

    # What is there.

    def open(self, origin: Origin) -> None:
        """Create the table, or check that it is ours; a new token stops who wrote it before."""
        self._origin, self._tried = origin, None
        self._keys = [_position(origin, each) for each in self._key]
        self._table = self._define(origin)
        with self._engine.begin() as connection:
            self._versions.create(connection, checkfirst=True)
            found = connection.execute(sa.select(self._versions).where(self._line)).first()
            if sa.inspect(connection).has_table(self._name, schema=self._schema):
                self._require_ours(connection, found)
            else:
                self._table.create(connection)
            token = uuid.uuid4().hex
            if found is None:
                line = {"name": self._name, "view": origin.view.lower(), "version": -1}
                connection.execute(sa.insert(self._versions), {**line, "token": token})
            else:
                connection.execute(sa.update(self._versions).where(self._line).values(token=token))
        self._token = token

    def _define(self, origin: Origin) -> sa.Table:
        columns = [
            sa.Column(
                _as_is(field.name), sql_type(origin.view, field), key=f"c{i}",
                primary_key=i in self._keys, nullable=i not in self._keys, autoincrement=False,
            )
            for i, field in enumerate(origin.schema)
        ]  # fmt: skip
        is_keyed = bool(self._keys)
        columns.append(
            sa.Column(
                ROW,
                sa.String(32),
                primary_key=not is_keyed,
                unique=is_keyed or None,
                nullable=False,
            )
        )
        if not is_keyed:
            columns.append(sa.Column(COUNT, sa.BigInteger, nullable=False))
        return sa.Table(_as_is(self._name), sa.MetaData(schema=self._schema), *columns)

    def _require_ours(self, connection: sa.Connection, found: Any) -> None:
        there = {each["name"] for each in sa.inspect(connection).get_columns(
            self._name, schema=self._schema)}  # fmt: skip
        lacking = [str(each.name) for each in self._table.columns if each.name not in there]
        if lacking:
            raise WrongFormat(
                f"{self.title} lacks columns: {', '.join(lacking)}",
                detail=f'The view "{self._origin.view}" has other columns now, or the table is of'
                " others.",
                hint="Give another name, or drop the table.",
            )
        if found is not None and found.view != self._origin.view.lower():
            raise WrongFormat(
                f'{self.title} is the sink of view "{found.view}"', hint="Give another name."
            )
        if found is None and connection.execute(sa.select(self._table).limit(1)).first():
            raise WrongFormat(
                f"{self.title} holds rows of others", hint="Give another name, or empty it."
            )

    # Writing.

    def replace(self, rows: Change) -> None:
        """Write the difference between what is there and these rows."""
        wanted = rows_by_fingerprint(rows.to_arrow())
        owed = {d: row.times for d, row in wanted.items() if row.times < 0}
        shown = {d: row.times for d, row in wanted.items() if row.times > 0}
        attempt = self._attempt(rows, owed)
        with self._engine.begin() as connection:
            if self._step(connection, attempt):
                there = dict(self._counts(connection, None))
                self._write(connection, there, dict.fromkeys(there, 0) | shown, wanted)
        self._took(attempt)

    def apply(self, change: Change) -> None:
        """Write the rows that went and came."""
        changed = rows_by_fingerprint(change.to_arrow())
        attempt = self._attempt(change, self._owed)
        with self._engine.begin() as connection:
            if self._step(connection, attempt):
                there = dict(self._counts(connection, list(changed)))
                self._write(connection, there, self._after(there, changed), changed)
        self._took(attempt)

    def _after(self, there: Mapping[str, int], changed: Mapping[str, Row]) -> dict[str, int]:
        """How often each changed row is there with the change."""
        if not self._owed.keys().isdisjoint(changed):
            raise OutOfStep(f"{self.title} is given rows that were deleted before")
        after = {d: there.get(d, 0) + row.times for d, row in changed.items()}
        if min(after.values(), default=0) < 0:
            raise OutOfStep(f"{self.title} lacks rows that it was given")
        return after

    def has_taken(self, change: Change) -> bool:
        """Whether the database has the token of this change: it committed before it was lost."""
        attempt = self._tried
        if attempt is None or attempt.change is not change:
            return False
        with self._engine.connect() as connection:
            if self._token_there(connection) != attempt.token:
                return False
        self._took(attempt)
        return True

    def _token_there(self, connection: sa.Connection) -> Any:
        return connection.execute(sa.select(self._versions.c.token).where(self._line)).scalar()

    def close(self) -> None:
        """Close the connections, if the engine is ours."""
        if self._is_ours:
            self._engine.dispose()

    def _attempt(self, change: Change, owed: Mapping[str, int]) -> _Attempt:
        if self._tried is None or self._tried.change is not change:
            self._tried = _Attempt(change, uuid.uuid4().hex, owed)
        return self._tried

    def _took(self, attempt: _Attempt) -> None:
        self._token, self._owed, self._tried = attempt.token, attempt.owed, None

    def _step(self, connection: sa.Connection, attempt: _Attempt) -> bool:
        """Set version and token, which nobody else may have changed; locks the line.

        False if an earlier attempt, which seemed to fail, has committed meanwhile.
        """
        mine = self._line & (self._versions.c.token == self._token)
        now = {"version": attempt.change.version, "token": attempt.token}
        if connection.execute(sa.update(self._versions).where(mine).values(now)).rowcount == 1:
            return True
        if self._token_there(connection) == attempt.token:
            return False
        raise SinkBroken(
            f"{self.title} was taken over by another process",
            hint="Let one mill write it; mill.unsink and mill.sink take it over again.",
        )

    def _counts(
        self, connection: sa.Connection, fingerprints: Sequence[str] | None
    ) -> Iterator[tuple[str, int]]:
        """How often each row is there; of all rows, or of those with these fingerprints."""
        table = self._table
        count: Any = sa.literal(1) if self._keys else table.c[COUNT]
        wanted = sa.select(table.c[ROW], count)
        queries = [wanted] if fingerprints is None else [
            wanted.where(table.c[ROW].in_(fingerprints[i : i + _AT_ONCE]))
            for i in range(0, len(fingerprints), _AT_ONCE)
        ]  # fmt: skip
        for query in queries:
            yield from ((fingerprint, times) for fingerprint, times in connection.execute(query))

    def _write(
        self,
        connection: sa.Connection,
        there: Mapping[str, int],
        after: Mapping[str, int],
        rows: Mapping[str, Row],
    ) -> None:
        gone = [
            fingerprint for fingerprint in after if fingerprint in there and not after[fingerprint]
        ]
        come = [
            fingerprint for fingerprint in after if fingerprint not in there and after[fingerprint]
        ]
        again = [d for d in after if d in there and after[d] and after[d] != there[d]]
        if not self._keys:
            self._delete(connection, gone)
            self._update(connection, [(d, {COUNT: after[d]}) for d in again])
            self._insert(connection, [{**_named(rows[d]), ROW: d, COUNT: after[d]} for d in come])
            return
        self._require_key(again, come, after, rows)
        by_key = {self._key_of(rows[d].values): d for d in gone if d in rows}
        pairs = [(by_key.get(self._key_of(rows[d].values)), d) for d in come]
        kept = {old for old, _ in pairs if old is not None}
        self._delete(connection, [fingerprint for fingerprint in gone if fingerprint not in kept])
        self._update(connection, [(o, {**_named(rows[d]), ROW: d}) for o, d in pairs if o])
        fresh = [{**_named(rows[d]), ROW: d} for old, d in pairs if old is None]
        try:
            self._insert(connection, fresh)
        except exc.IntegrityError as why:
            raise self._duplicate(str(why.orig).strip().splitlines()[-1]) from why

    def _key_of(self, values: Values) -> Values:
        return tuple(values[i] for i in self._keys)

    def _require_key(
        self, again: Sequence[str], come: Sequence[str], after: Mapping[str, int],
        rows: Mapping[str, Row],
    ) -> None:  # fmt: skip
        seen = set[Values]()
        for fingerprint in [*again, *come]:
            key = self._key_of(rows[fingerprint].values)
            if None in key:
                raise NullViolation(
                    f'view "{self._origin.view}" has a row with NULL in the key of {self.title}',
                    detail=f"the key {', '.join(self._key)} is {key}",
                    hint="COALESCE it in the view, or leave out key=.",
                )
            if after[fingerprint] > 1 or key in seen:
                raise self._duplicate(f"{', '.join(self._key)} = {key}")
            seen.add(key)

    def _duplicate(self, detail: str) -> DuplicateKey:
        return DuplicateKey(
            f'view "{self._origin.view}" has two rows with one key of {self.title}',
            detail=detail,
            hint="Give key= the columns that make a row unique, or leave it out.",
        )

    def _delete(self, connection: sa.Connection, fingerprints: Sequence[str]) -> None:
        if fingerprints:
            statement = sa.delete(self._table).where(self._table.c[ROW] == sa.bindparam("was"))
            connection.execute(statement, [{"was": each} for each in fingerprints])

    def _update(
        self, connection: sa.Connection, rows: Iterable[tuple[str, Mapping[str, Any]]]
    ) -> None:
        given = [{**values, "was": fingerprint} for fingerprint, values in rows]
        if given:
            statement = sa.update(self._table).where(self._table.c[ROW] == sa.bindparam("was"))
            connection.execute(statement, given)

    def _insert(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            connection.execute(sa.insert(self._table), [dict(each) for each in rows])


def _named(row: Row) -> dict[str, Any]:
    return {f"c{i}": value for i, value in enumerate(row.values)}


def _as_is(name: str) -> str:
    return quoted_name(name, quote=True)


def _position(origin: Origin, name: str) -> int:
    names = [each.lower() for each in origin.schema.names]
    if name.lower() not in names:
        raise UnknownName(
            f'view "{origin.view}" has no column "{name}" for the key',
            hint=f"One of {', '.join(origin.schema.names)}.",
        )
    return names.index(name.lower())


def _versions_table(schema: str | None) -> sa.Table:
    return sa.Table(
        VERSIONS, sa.MetaData(schema=schema),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("view", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("token", sa.String(32), nullable=False),
    )  # fmt: skip


def _engine(url: Any) -> sa.Engine:
    try:
        return sa.create_engine(url)
    except exc.NoSuchModuleError as why:
        raise InvalidArgument(
            "no such database or driver", detail=str(why), hint='"postgresql+psycopg://...".'
        ) from why
    except (exc.ArgumentError, ValueError, TypeError) as why:
        raise InvalidArgument(
            "the URL of a database cannot be read",
            hint='For example "postgresql+psycopg://user@host/database".',
        ) from why

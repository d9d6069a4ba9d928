"""Add up changes of single rows until they are committed together.

takes  rows that come, change and go, one after the other, as values of text
gives  a step with their net effect: whole rows, or, for tables with a primary key, rows by key

    put a=1, b=x       key 1 has the row (1, x)
    put a=1, b=UNCHANGED   it still has
    remove key 1       nothing is left
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from viewmill.errors import SourceBroken
from viewmill.sources.pgoutput import UNCHANGED, Value, Values
from viewmill.sources.read_files import convert
from viewmill.sources.source import Offsets, Patch, Step

_AT_ONCE = 20_000  # rows that are kept as Python's values


class _Put(NamedTuple):
    values: Values
    of: Values | None  # the key of the row that has the unchanged values


class RowChanges:
    """The changes of one table since the last step, by whole rows."""

    def __init__(self, title: str, schema: pa.Schema) -> None:
        self._title, self._schema = title, schema
        self._inserted = _Rows(title, schema, range(len(schema)))
        self._deleted = _Rows(title, schema, range(len(schema)))
        self._replaces = False
        self.count = 0

    def insert(self, values: Values) -> None:
        """A row comes."""
        self.count += 1
        self._inserted.add(values)

    def delete(self, values: Values) -> None:
        """A row goes."""
        self.count += 1
        self._deleted.add(values)

    def truncate(self) -> None:
        """All rows go."""
        self.count += 1
        self._inserted.clear()
        self._deleted.clear()
        self._replaces = True

    def step(self, offsets: Offsets) -> Step:
        """What has changed; begins anew."""
        made = Step(self._inserted.table(), offsets, self._deleted.table(), replaces=self._replaces)
        self.count, self._replaces = 0, False
        return made


class KeyedChanges:
    """The changes of one table since the last step, by key."""

    def __init__(self, title: str, schema: pa.Schema, key: Sequence[int]) -> None:
        self._title, self._schema, self._key = title, schema, tuple(key)
        self._pending: dict[Values, _Put | None] = {}  # None: the key's row goes
        self._replaces = False
        self.count = 0

    def key_of(self, values: Values) -> Values:
        """The key of a row."""
        return tuple(values[i] for i in self._key)

    def put(self, values: Values, old: Values | None = None) -> None:
        """The row of a key comes or changes; `old` is the key that it had."""
        self.count += 1
        key = self.key_of(values)
        base, of = key if old is None else old, None
        if UNCHANGED in values:
            values, of = self._filled(values, base)
        if base != key:
            self._pending.pop(base, None)
            self._pending[base] = None
        self._pending.pop(key, None)
        self._pending[key] = _Put(values, of)

    def _filled(self, values: Values, base: Values) -> tuple[Values, Values | None]:
        """The row with what a change before it has said; the key of the row that has the rest."""
        if base not in self._pending and not self._replaces:
            return values, base
        earlier = self._pending.get(base)
        if earlier is None:
            raise SourceBroken(f"{self._title}: a row was changed that is not there: {base}")
        pairs = zip(values, earlier.values, strict=True)
        return tuple(was if new is UNCHANGED else new for new, was in pairs), earlier.of

    def remove(self, key: Values) -> None:
        """The row of a key goes."""
        self.count += 1
        self._pending.pop(key, None)
        self._pending[key] = None

    def truncate(self) -> None:
        """All rows go."""
        self.count += 1
        self._pending.clear()
        self._replaces = True

    def step(self, offsets: Offsets) -> Step:
        """What has changed; begins anew."""
        every = range(len(self._schema))
        whole, gone = self._rows(every), self._rows(self._key)
        parts: dict[tuple[int, ...], tuple[_Rows, _Rows]] = {}
        for key, put in self._pending.items():
            if put is None:
                gone.add(key)
            elif UNCHANGED not in put.values:
                whole.add(put.values)
            else:
                at = tuple(i for i in every if put.values[i] is not UNCHANGED)
                rows, keys = parts.setdefault(at, (self._rows(at), self._rows(self._key)))
                rows.add(tuple(put.values[i] for i in at))
                keys.add(put.of or key)
        patches = tuple(Patch(_some(rows), _some(keys)) for rows, keys in parts.values())
        made = Step(
            None, offsets, replaces=self._replaces, upserted=whole.table(), removed=gone.table(),
            patches=patches,
        )  # fmt: skip
        self._pending.clear()
        self.count, self._replaces = 0, False
        return made

    def _rows(self, at: Sequence[int]) -> _Rows:
        return _Rows(self._title, self._schema, at)


class _Rows:
    """Rows of text that become Arrow of some columns of a schema."""

    def __init__(self, title: str, schema: pa.Schema, at: Sequence[int]) -> None:
        self._title = title
        self._schema = pa.schema([schema.field(i) for i in at])
        self._waiting: list[Sequence[Value]] = []
        self._tables: list[pa.Table] = []

    def add(self, values: Sequence[Value]) -> None:
        """Add a row."""
        self._waiting.append(values)
        if len(self._waiting) == _AT_ONCE:
            self._pack()

    def clear(self) -> None:
        """Forget the rows."""
        self._waiting, self._tables = [], []

    def table(self) -> pa.Table | None:
        """The rows, which are forgotten; None if there are none."""
        self._pack()
        tables, self._tables = self._tables, []
        return pa.concat_tables(tables) if tables else None

    def _pack(self) -> None:
        if not self._waiting:
            return
        columns = zip(*self._waiting, strict=True)
        texts = [pa.chunked_array([pa.array(each, pa.string())]) for each in columns]
        self._tables.append(typed(pa.table(texts, names=self._schema.names), self._schema,
                                  self._title))  # fmt: skip
        self._waiting = []


def _some(rows: _Rows) -> pa.Table:
    found = rows.table()
    assert found is not None
    return found


def typed(texts: pa.Table, schema: pa.Schema, title: str) -> pa.Table:
    """Columns of text as the types of a schema, as PostgreSQL writes values."""
    fields = [schema.field(name) for name in texts.column_names]
    columns = [_plain(texts[each.name], each.type) for each in fields]
    plain = pa.table(columns, names=texts.column_names)
    binary = {each.name for each in fields if pa.types.is_binary(each.type)}
    done = {
        name: _bytes(plain[name])
        if name in binary
        else convert(plain.select([name]), schema, title, first_row=1)[name]
        for name in texts.column_names
    }
    return pa.table(done)


def _plain(texts: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_boolean(type_):
        return texts
    words = {"t": "true", "f": "false"}
    return pa.chunked_array(
        [pa.array([words.get(each, each) for each in texts.to_pylist()], pa.string())]
    )


def _bytes(texts: pa.ChunkedArray) -> pa.Array:
    values = [None if each is None else bytes.fromhex(each[2:]) for each in texts.to_pylist()]
    return pa.array(values, pa.binary())

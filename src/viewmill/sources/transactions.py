"""Turn the messages of logical decoding into steps that hold whole transactions.

takes  messages, the table's columns at the server as they change, the mill's columns and key
gives  the changes since the last step, as soon as no transaction is open
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from viewmill.errors import SourceBroken
from viewmill.sources.pgoutput import (
    Begin,
    Commit,
    Deleted,
    Inserted,
    Other,
    Relation,
    Truncated,
    Updated,
    Values,
    read_message,
)
from viewmill.sources.row_changes import KeyedChanges, RowChanges
from viewmill.sources.source import Offsets, Step

Columns = Mapping[str, Sequence[int]]  # type, modifier and position by name
_TEXTS = {25, 1043}  # TEXT and VARCHAR
_INTEGERS = (21, 23, 20)
_NUMERIC = 1700


class Transactions:
    """What has changed in one table since the last step."""

    def __init__(
        self, title: str, number: int, columns: Columns, schema: pa.Schema, key: tuple[str, ...],
        require_no_default: Callable[[str], None], positions: Callable[[], Mapping[str, int]],
    ) -> None:  # fmt: skip
        self._title, self._number, self._schema = title, number, schema
        self.columns = dict(columns)  # at the server
        self._require_no_default, self._positions = require_no_default, positions
        self._at: list[int] | None = None  # where a relation has the mill's columns, -1 nowhere
        self._bag = RowChanges(title, schema)
        names = [each.lower() for each in schema.names]
        self._keyed = KeyedChanges(title, schema, [names.index(each.lower()) for each in key])
        self._is_keyed = bool(key)
        self.is_open = False  # whether a transaction is

    @property
    def count(self) -> int:
        """How many changes there are."""
        return (self._keyed if self._is_keyed else self._bag).count

    def step(self, offsets: Offsets) -> Step:
        """The changes; begins anew."""
        return (self._keyed if self._is_keyed else self._bag).step(offsets)

    def take(self, data: bytes) -> int | None:
        """Take a message; the position that a transaction has ended with."""
        message = read_message(data)
        match message:
            case Begin():
                self.is_open = True
            case Commit(end):
                self.is_open = False
                return end
            case Relation():
                if message.number == self._number:
                    self._look(message)
            case Truncated(relations):
                if self._number in relations:
                    (self._keyed if self._is_keyed else self._bag).truncate()
            case Other():
                pass
            case Inserted() | Updated() | Deleted():
                if message.relation == self._number:
                    self._change(message)
        return None

    def _change(self, message: Inserted | Updated | Deleted) -> None:
        if self._is_keyed:
            self._change_by_key(message)
            return
        if not isinstance(message, Inserted):
            if message.old is None or not message.is_whole:
                raise SourceBroken(
                    f"{self._title}: only keys of old rows are sent now",
                    hint="ALTER TABLE ... REPLICA IDENTITY FULL; then unfollow, and follow again.",
                )
            self._bag.delete(self._ours(message.old))
        if not isinstance(message, Deleted):
            old = message.old if isinstance(message, Updated) else None
            self._bag.insert(self._ours(_filled(message.new, old)))

    def _change_by_key(self, message: Inserted | Updated | Deleted) -> None:
        keyed = self._keyed
        if isinstance(message, Deleted):
            keyed.remove(keyed.key_of(self._ours(message.old)))
            return
        old, new = None, message.new
        if isinstance(message, Updated) and message.old is not None:
            old = keyed.key_of(self._ours(message.old))
            new = _filled(new, message.old) if message.is_whole else new
        keyed.put(self._ours(new), old)

    def _ours(self, values: Values) -> Values:
        """The values of the mill's columns."""
        if self._at is None:
            raise SourceBroken(f"{self._title}: a row came before its columns")
        return tuple(values[i] if i >= 0 else None for i in self._at)

    def _look(self, relation: Relation) -> None:
        """Note the columns that the table has from now on; refuse what no longer fits."""
        at = self._positions()
        now = {each.name: [each.type, each.modifier, at.get(each.name, 0)]
               for each in relation.columns}  # fmt: skip
        wanted = {each.lower() for each in self._schema.names}
        for name, noted in self.columns.items():
            if name.lower() in wanted:
                self._require_fit(name, noted, now.get(name))
        for name in now.keys() - self.columns.keys():
            if name.lower() in wanted:
                self._require_no_default(name)
        self.columns = {name: list(each) for name, each in now.items()}
        found = {each.name.lower(): i for i, each in enumerate(relation.columns)}
        self._at = [found.get(each.lower(), -1) for each in self._schema.names]

    def _require_fit(self, name: str, old: Sequence[int], new: Sequence[int] | None) -> None:
        what = "was dropped or renamed" if new is None else "has another type"
        if new is not None:
            type_, is_there = (new[0], new[1]), new[2] and len(old) > 2 and old[2]
            if is_there and old[2] != new[2]:
                what = "is another column now"
            elif type_ == (old[0], old[1]) or _is_wider((old[0], old[1]), type_):
                return
        raise SourceBroken(
            f'{self._title}: column "{name}" {what}',
            detail="The rows that the table had before are not sent again.",
            hint="Unfollow, and follow into a table that has the columns of today.",
        )


def _is_wider(old: tuple[int, int], new: tuple[int, int]) -> bool:
    """Whether all values of a type are the same in another one."""
    if old[0] in _TEXTS and new[0] in _TEXTS:
        return new[1] < 0 or 0 <= old[1] <= new[1]
    if old[0] in _INTEGERS and new[0] in _INTEGERS:
        return _INTEGERS.index(new[0]) >= _INTEGERS.index(old[0])
    if old[0] == new[0] == _NUMERIC and old[1] >= 4:
        same_scale = (old[1] - 4) & 0x7FF == (new[1] - 4) & 0x7FF
        return new[1] < 0 or (same_scale and new[1] >= old[1])
    return False


def _filled(new: Values, old: Values | None) -> Values:
    """The row with unchanged values from the whole old one."""
    if old is None:
        return new
    return tuple(
        was if not isinstance(each, str | None) else each
        for each, was in zip(new, old, strict=True)
    )

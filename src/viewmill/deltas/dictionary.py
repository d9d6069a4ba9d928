"""The dictionary of a mill: every string that is kept has one id, and equal strings equal ids.

Ids are local to a process; files and Arrow tables hold the strings themselves. An id is never given
to another string: the strings that no row holds any more go when a mill takes a new dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.deltas.lazy_columns import FilterTest, PushedFilter
from viewmill.deltas.wide_codes import OWN, WideCodes, Wides

Ids = npt.NDArray[np.int64]

_SAVED_AT_ONCE = 1 << 16  # strings in a batch


class Strings(Protocol):
    """Where strings are kept by id."""

    def __len__(self) -> int: ...
    def intern(self, value: str) -> int: ...
    def reserve(self) -> int: ...
    def value(self, id_: int) -> str: ...
    def encode(self, strings: Any) -> Ids: ...
    def decode(self, ids: Ids, mask: npt.NDArray[np.uint8] | None) -> Any: ...


class Reader(Protocol):
    """Makes words of all columns of Arrow tables at once; None if it cannot with these rows."""

    def read(self, table: Any) -> list[npt.NDArray[Any]] | None: ...


class QuickGate(Protocol):
    """Whether the values of an Arrow table can surely be read again, but for `rest`."""

    rest: list[int]

    def is_plain(self, table: Any) -> bool: ...


class Faster(Protocol):
    """How strings and columns are read by compiled code."""

    def strings(self) -> Strings: ...
    def wides(self) -> Wides: ...
    def reader(self, types: Sequence[Any], strings: Strings) -> Reader | None: ...
    def quick_gate(self, schema: Any) -> QuickGate: ...
    def pushed_filter(
        self, types: Sequence[Any], tests: Sequence[FilterTest], strings: Strings
    ) -> PushedFilter | None: ...


class PlainStrings:
    """Strings in a dict and a list."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._values: list[str] = []

    def __len__(self) -> int:
        return len(self._values)

    def intern(self, value: str) -> int:
        """The id of a string, new if need be."""
        found = self._ids.get(value)
        if found is None:
            found = self.reserve()
            self._values[found] = value
            self._ids[value] = found  # last: an interrupt before it loses an id and nothing else
        return found

    def reserve(self) -> int:
        """A new id, of no string."""
        self._values.append("")
        return len(self._values) - 1

    def value(self, id_: int) -> str:
        """What an id stands for."""
        return self._values[id_]

    def encode(self, strings: Any) -> Ids:
        """The ids of an Arrow array of strings; that of NULL is 0."""
        values = strings.to_pylist()
        return np.array([0 if each is None else self.intern(each) for each in values], np.int64)

    def decode(self, ids: Ids, mask: npt.NDArray[np.uint8] | None) -> Any:
        """The strings of ids, NULL where the mask is set."""
        values = self._values
        return string_array([values[i] if i < len(values) else "" for i in ids.tolist()], mask)


class Dictionary:
    """Strings to ids and back; nested values (arrays, structs) go by their printed form.

    Numbers wider than a word have codes of their own, `wide`.
    """

    def __init__(self) -> None:
        self._strings: Strings = PlainStrings()
        self._faster: Faster | None = None
        self._seen: dict[str, int] = {}  # of those that come one by one
        self._nested: dict[int, Any] = {}
        self._nested_ids: dict[str, int] = {}
        self._vacant: set[int] = (
            set()
        )  # ids of nested values in a snapshot, which does not say them
        self._wide: Wides = WideCodes()

    def __len__(self) -> int:
        return len(self._strings)

    @property
    def held(self) -> int:
        """How many strings and wide numbers are kept, whether or not a row still holds them."""
        return len(self._strings) + len(self._wide)

    def successor(self) -> Dictionary:
        """An empty dictionary that keeps strings as this one does."""
        made = Dictionary()
        made._faster = self._faster
        return made

    def speed_up(self, faster: Faster) -> None:
        """Keep strings in what `faster` makes, from when the first array of them comes."""
        self._faster = faster

    def reader(self, types: Sequence[Any]) -> Reader | None:
        """A reader that converts columns of these Arrow types in one call, if one exists."""
        return None if self._faster is None else self._faster.reader(types, self.strings)

    def quick_gate(self, schema: Any) -> QuickGate | None:
        """What looks at the values of tables with this schema, if something does so quickly."""
        return None if self._faster is None else self._faster.quick_gate(schema)

    def pushed_filter(
        self, types: Sequence[Any], tests: Sequence[FilterTest]
    ) -> PushedFilter | None:
        """A filter that converts these columns only for the rows that pass, if one exists."""
        faster = self._faster
        return None if faster is None else faster.pushed_filter(types, tests, self.strings)

    @property
    def strings(self) -> Strings:
        """Where the strings are."""
        if self._faster is not None and isinstance(self._strings, PlainStrings):
            plain, self._strings = self._strings, self._faster.strings()
            for id_ in range(len(plain)):
                if id_ in self._nested:
                    self._strings.reserve()
                else:
                    self._strings.intern(plain.value(id_))
        return self._strings

    @property
    def wide(self) -> Wides:
        """The codes of numbers that are wider than a word."""
        if self._faster is not None and isinstance(self._wide, WideCodes):
            plain, self._wide = self._wide, self._faster.wides()
            for i in range(len(plain)):
                self._wide.code(plain.number(OWN + i))
        return self._wide

    def intern(self, value: str) -> int:
        """The id of a string, new if need be."""
        found = self._seen.get(value)
        if found is None:
            value.encode()  # half a character (a lone surrogate) is no text: no file can hold it
            found = self._seen[value] = self._strings.intern(value)
        return found

    def value(self, id_: int) -> Any:
        """What an id stands for."""
        return self._nested[id_] if id_ in self._nested else self._strings.value(id_)

    def encode(self, strings: pa.Array) -> Ids:
        """The ids of an Arrow array of strings; NULL becomes 0 and must be masked by the caller."""
        if not pa.types.is_dictionary(strings.type):
            return self.strings.encode(strings)
        ids = self.strings.encode(strings.dictionary)
        codes = strings.indices.fill_null(0) if strings.null_count else strings.indices
        known = ids if len(ids) else np.zeros(1, np.int64)
        found: Ids = known.take(codes.to_numpy(zero_copy_only=False))
        return found

    def decode(self, ids: Ids, mask: npt.NDArray[np.uint8] | None = None) -> pa.Array:
        """The strings of ids, NULL where the mask is set."""
        return self._strings.decode(ids, mask)

    def encode_nested(self, values: Sequence[Any]) -> Ids:
        """The ids of nested values: equal when they print alike; a zero has no sign."""
        ids = np.zeros(len(values), np.int64)
        for i, value in enumerate(values):
            if value is None:
                continue
            printed = repr(value)
            found = self._nested_ids.get(printed)
            if found is None and "-0.0" in printed:
                value = _without_signs_of_zero(value)
                printed = repr(value)
                found = self._nested_ids.get(printed)
            if found is None:
                found = self._strings.reserve()
                self._nested[found] = value
                self._nested_ids[printed] = found
            ids[i] = found
        return ids

    def decode_nested(self, ids: Ids, mask: npt.NDArray[np.uint8] | None, type_: Any) -> pa.Array:
        """The nested values of ids as an Arrow array of `type_`."""
        nulls = [0] * len(ids) if mask is None else mask.tolist()
        pairs = zip(ids.tolist(), nulls, strict=True)
        return pa.array([None if null else self._nested[i] for i, null in pairs], type_)

    # In snapshots.

    def saved_strings(self) -> Iterator[Any]:
        """All strings in the order of their ids, as record batches; NULL for nested values."""
        for start in range(0, len(self), _SAVED_AT_ONCE):
            ids = np.arange(start, min(start + _SAVED_AT_ONCE, len(self)), dtype=np.int64)
            mask = None
            if self._nested or self._vacant:
                unsaid = np.fromiter((*self._nested, *self._vacant), np.int64)
                mask = np.isin(ids, unsaid).astype(np.uint8)
            yield pa.RecordBatch.from_arrays([self.decode(ids, mask)], names=["string"])

    def saved_wides(self) -> list[Any]:
        """All wide numbers in the order of their codes, as record batches."""
        wide = self._wide
        numbers = string_array([str(wide.number(OWN + i)) for i in range(len(wide))], None)
        return [pa.RecordBatch.from_arrays([numbers], names=["number"])]

    def restore(self, strings: Any, wides: Any) -> bool:
        """Give the strings and numbers of a snapshot the ids that they had.

        False if a string gets another one: this dictionary was not empty, or they repeat.
        """
        store, wide = self.strings, self.wide
        for values in strings.column(0).chunks:
            start = len(store)
            if values.null_count:
                for each in values.to_pylist():
                    if each is None:
                        self._vacant.add(store.reserve())
                    else:
                        store.intern(each)
            elif len(values):
                store.encode(values)
            if len(store) != start + len(values):
                return False
        for each in wides.column(0).to_pylist():
            wide.code(int(each))
        return len(wide) == int(wides.num_rows)


def _without_signs_of_zero(value: Any) -> Any:
    match value:
        case float():
            return value + 0.0
        case list() | tuple():
            return type(value)(map(_without_signs_of_zero, value))
        case dict():
            return {name: _without_signs_of_zero(each) for name, each in value.items()}
    return value


def string_array(values: Sequence[str], mask: npt.NDArray[np.uint8] | None) -> pa.Array:
    """An Arrow array of strings; `pa.array` would import pandas to look at its argument."""
    encoded = [value.encode() for value in values]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(each) for each in encoded], out=offsets[1:])
    validity = None if mask is None else pa.py_buffer(np.packbits(mask == 0, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers).cast(pa.string())

"""Functions of strings, computed once for each string that comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from viewmill.algebra.expressions import Column
from viewmill.algebra.types import String
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.program.program import Program
from viewmill.program.states import StateKind
from viewmill.program.text_functions import Lookup, evaluate

Ids = npt.NDArray[np.int64]


class Tables(Protocol):
    """Where the results stand that triggers look up."""

    def known(self, i: int, ids: Ids) -> npt.NDArray[np.bool_]: ...
    def learn(self, i: int, ids: Sequence[int], words: Sequence[int]) -> None: ...
    def learn_texts(self, i: int, ids: Sequence[int], texts: Sequence[str]) -> None: ...


class Lookups:
    """Keeps the tables of a program complete for the strings that its triggers can meet."""

    def __init__(
        self, program: Program, lookups: Sequence[Lookup], tables: Tables, dictionary: Dictionary
    ) -> None:
        self._lookups, self._tables, self._dictionary = lookups, tables, dictionary
        schemas = {each.name: each.schema for each in program.inputs}
        self._by_input: dict[str, list[tuple[int, int]]] = {}
        for i, lookup in enumerate(lookups):
            column = schemas[lookup.input].names.index(lookup.column)
            self._by_input.setdefault(lookup.input, []).append((i, column))

    def take_delta(self, input_: str, delta: Delta) -> None:
        """Compute what is new in a change."""
        for i, column in self._by_input.get(input_, ()):
            ids, mask = delta.columns[column], delta.nulls[column]
            self._learn(i, ids if mask is None else ids[mask == 0])

    def take_keys(self, kind: StateKind, keys: Ids) -> None:
        """Compute what is new among the keys of a state."""
        at = 0
        for part in kind.parts:
            bits = at + len(part)
            for j, field in enumerate(part):
                column = keys[:, at + j]
                if field.nullable:
                    column = column[(keys[:, bits] >> j) & 1 == 0]
                for i, lookup in enumerate(self._lookups):
                    if field.name in lookup.names and isinstance(field.type, String):
                        self._learn(i, column)
            at = bits + any(field.nullable for field in part)

    def _learn(self, i: int, ids: Ids) -> None:
        missing = ids[~self._tables.known(i, ids)]
        if not len(missing):
            return
        new = np.unique(missing).tolist()
        expression = self._lookups[i].expression
        if isinstance(expression, Column):  # the strings themselves, to be compared
            self._tables.learn_texts(i, new, [self._dictionary.value(each) for each in new])
            return
        values = [evaluate(expression, self._dictionary.value(each)) for each in new]
        self._tables.learn(i, new, [self._word(each) for each in values])

    def _word(self, value: Any) -> int:
        return self._dictionary.intern(value) if isinstance(value, str) else int(value)

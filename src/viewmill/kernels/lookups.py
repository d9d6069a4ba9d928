"""Lookup tables for functions of strings, computed once per distinct string."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.algebra.types import String
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary, string_array
from viewmill.program.program import Program, Triggers
from viewmill.program.states import StateKind
from viewmill.program.text_functions import EVERY_TEXT, Lookup, evaluate_all

Ids = npt.NDArray[np.int64]


class Tables(Protocol):
    """The result tables that triggers look up."""

    def known(self, i: int, ids: Ids) -> npt.NDArray[np.bool_]: ...
    def learn(self, i: int, ids: Ids, words: Ids) -> None: ...
    def learn_texts(self, i: int, ids: Ids, dictionary: Dictionary) -> None: ...
    @property
    def learns_at_once(self) -> bool: ...  # all strings there are and will be, whatever the ids


def text_table(lookups: Sequence[Lookup]) -> int:
    """The id of the table of all strings; 0 if no trigger uses it."""
    return lookups.index(EVERY_TEXT) if EVERY_TEXT in lookups else 0


class Lookups:
    """Keeps the tables of a program complete for the strings that its triggers can meet."""

    def __init__(
        self, program: Program, body: Triggers, tables: Tables, dictionary: Dictionary
    ) -> None:
        self._lookups, self._tables, self._dictionary = body.lookups, tables, dictionary
        schemas = {each.name: each.schema for each in program.inputs}
        self._by_input: dict[str, list[tuple[int, int]]] = {}
        for i, lookup in enumerate(body.lookups):
            if lookup.expression is not None:
                column = schemas[lookup.input].names.index(lookup.column)
                self._by_input.setdefault(lookup.input, []).append((i, column))
        self._every = text_table(body.lookups) if EVERY_TEXT in body.lookups else -1
        if self._every >= 0:
            self._learn_every(np.array([dictionary.intern(x) for x in body.texts], np.int64))
            if not tables.learns_at_once:
                self._ask_for_every(body, schemas)

    def _ask_for_every(self, body: Triggers, schemas: Mapping[str, Schema]) -> None:
        """Whatever string a trigger reads may be compared."""
        for trigger in body.triggers or body.replays:
            schema = schemas[trigger.input]
            for column in map(schema.names.index, trigger.columns):
                if isinstance(schema[column].type, String):
                    self._by_input.setdefault(trigger.input, []).append((self._every, column))

    def reads(self, input_: str) -> bool:
        """Whether columns of an input are looked at before its trigger is."""
        return input_ in self._by_input

    def take_delta(self, input_: str, delta: Delta) -> None:
        """Compute what is new in a change."""
        for i, column in self._by_input.get(input_, ()):
            ids, mask = delta.pair(column)
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
                if isinstance(field.type, String):
                    self._take_key(field.name, column)
            at = bits + any(field.nullable for field in part)

    def _take_key(self, name: str, ids: Ids) -> None:
        for i, lookup in enumerate(self._lookups):
            if name in lookup.names or lookup == EVERY_TEXT:
                self._learn(i, ids)

    def _learn(self, i: int, ids: Ids) -> None:
        if i == self._every:
            self._learn_every(ids)
            return
        missing = ids[~self._tables.known(i, ids)]
        if not len(missing):
            return
        new = np.unique(missing)
        expression = self._lookups[i].expression
        assert expression is not None
        values = evaluate_all(expression, self._dictionary.decode(new))
        if isinstance(expression.type, String):
            words = self._dictionary.encode(string_array(values, None))
        else:
            words = np.array(values, np.int64)
        self._tables.learn(i, new, words)
        if self._every >= 0 and isinstance(expression.type, String):
            self._learn_every(words)

    def _learn_every(self, ids: Ids) -> None:
        self._tables.learn_texts(self._every, ids, self._dictionary)

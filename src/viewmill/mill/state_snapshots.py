"""Snapshots of view states: what lets a mill open its views without computing them.

takes  the views of a mill at a checkpoint
gives  their states as raw words; and from those the views again, as they were at that version

Words are written as kernels export them, whatever structure or tier holds them. Ids of strings stay
valid because the dictionary is saved beside them. A snapshot is used only by the plan, the program
text and the layout that made it; otherwise the view is computed again, and its status says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from itertools import dropwhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.algebra.types import Nested
from viewmill.algebra.walk import user_calls
from viewmill.errors import StorageFailed
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.store import Store
from viewmill.planner.plan import PlannedBlock
from viewmill.program.program import Program, Triggers
from viewmill.program.states import Ordered
from viewmill.runtime.runtime import Block
from viewmill.strategies.strategy import Statistics

_SOURCES = Path(__file__).parents[1]
_STRINGS, _WIDES = "strings", "wide numbers"
# What decides how states are laid out as words.
_LAYOUT = (
    "kernels/payloads.py",
    "kernels/stores.py",
    "kernels/tree_stores.py",
    "kernels/ordered_stores.py",
    "kernels/sorted_stores.py",
    "program/states.py",
    "mill/state_snapshots.py",
)


class NoSnapshot(Exception):
    """Why a view cannot be opened from a snapshot."""


@cache
def layout() -> str:
    """Names the layout of snapshots: another one is not read."""
    content = blake2b(digest_size=8)
    for name in _LAYOUT:
        content.update((_SOURCES / name).read_bytes())
    return content.hexdigest()


def program_digest(program: Program) -> str:
    """Names a program by all that decides what its states hold.

    The head of its source and the spans of its messages are of the SQL text around the view.
    """
    body = program.body
    assert isinstance(body, Triggers)
    lines = body.source.splitlines()
    source = "\n".join(dropwhile(lambda line: line.startswith("#"), lines))
    messages = tuple(replace(each, span=None) for each in body.messages)
    bare = replace(body, source=source, messages=messages)
    text = repr((program.strategy, program.inputs, program.output, program.states, bare))
    return blake2b(text.encode(), digest_size=16).hexdigest()


# Writing.


def snapshot_states(core: Core) -> tuple[dict[str, Any], dict[str, str]]:
    """For a checkpoint: the words of views, and a note for each view that says where they are."""
    words: dict[str, Any] = {}
    notes: dict[str, str] = {}
    saved: dict[int, Any] = {}  # what the notes say of a block, which views may share
    kept: set[str] = set()  # views, in lower case
    for entry in core.catalog.in_order():
        why = why_not_saved(core, entry, kept)
        if why:
            notes[_note_name(entry)] = json.dumps({"why": why})
            continue
        kept.add(entry.name.lower())
        blocks = {}
        for planned, block in planned_blocks(entry):
            if id(block) not in saved:
                saved[id(block)] = _save_block(core, block, words)
            blocks[planned.name] = saved[id(block)]
        notes[_note_name(entry)] = json.dumps(
            {
                "layout": layout(),
                "version": entry.version if entry.waiting_rows else core.version,
                "rows": entry.kept_rows,
                "careful": entry.careful,
                "known": _pack_statistics(entry.plan.known),
                "blocks": blocks,
            }
        )
    if kept:
        words[_STRINGS] = list(core.dictionary.saved_strings())
        words[_WIDES] = core.dictionary.saved_wides()
    return words, notes


def planned_blocks(entry: ViewEntry) -> Iterator[tuple[PlannedBlock, Block]]:
    """The blocks of a view's plan and what runs them."""
    named = {block.name: block for block in entry.blocks}
    for planned in entry.plan.blocks:
        yield planned, entry.placed.get(planned.name) or named[planned.name]


def why_not_saved(core: Core, entry: ViewEntry, kept: set[str]) -> str:
    """Why the states of a view are not saved; empty if they can be."""
    if entry.plan.known is None or entry.budgeted is not None:
        return "its states are kept within a budget"
    for name in entry.reads:
        source = core.catalog.get(name)
        if isinstance(source, TableEntry):
            if not source.table.is_timeless:
                return f'table "{name}" is in time'
        elif name not in kept or not entry.is_immediate:
            return f'it reads view "{name}"'
        elif isinstance(source, ViewEntry) and not source.is_immediate:
            return f'it reads view "{name}", which is deferred'
    if not all(call.user.is_built_in for call in user_calls(entry.query)):
        return "it calls functions of users"
    return next(filter(None, map(_why_not_program, entry.blocks)), "")


def _why_not_program(block: Block) -> str:
    program = block.program
    if not isinstance(program.body, Triggers):
        return f"strategy {program.strategy} keeps no states of triggers here"
    if program.body.rings:
        return "it has aggregates of users"
    if block.maintainer.is_lost:
        return "its states were lost"
    fields = [each for schema in _schemas(program) for each in schema]
    if any(isinstance(each.type, Nested) for each in fields):
        return "it has nested values"
    for state in program.states:
        if isinstance(state.kind, Ordered) and any(s.kind == "sum" for s in state.kind.payload):
            return "an ordered state has sums of floats"
    return ""


def _schemas(program: Program) -> list[Any]:
    keys = [state.kind.key for state in program.states]
    return [program.output, *(each.schema for each in program.inputs), *keys]


def _save_block(core: Core, block: Block, words: dict[str, Any]) -> dict[str, Any]:
    maintainer: Any = block.maintainer
    states = {}
    for name, (keys, payload) in maintainer.export_all().items():
        piece = f"{core.version} {len(words)}"
        arrays = [keys, *payload]
        columns = {str(i): _column(each) for i, each in enumerate(arrays) if each.size}
        if columns:
            words[piece] = pa.table(columns)
        shapes = [[*each.shape, each.dtype.char] for each in arrays]
        states[name] = {"piece": piece, "shapes": shapes}
    return {"program": program_digest(block.program), "states": states}


def _column(array: Any) -> Any:
    array = np.ascontiguousarray(array)
    flat = pa.Array.from_buffers(
        pa.from_numpy_dtype(array.dtype), array.size, [None, pa.py_buffer(array)]
    )
    return flat if array.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, array.shape[1])


def _note_name(entry: ViewEntry) -> str:
    return note_name(f"{entry.name.lower()}@{entry.created}")


_STATES_OF = "states of "


def note_name(key: str) -> str:
    """The name of the note of a view."""
    return f"{_STATES_OF}{key}"


def is_states_note(name: str) -> bool:
    """Whether a note tells of the states of a view, which can be computed again, not of rows."""
    return name.startswith(_STATES_OF)


def _pack_statistics(known: Statistics | None) -> dict[str, Any]:
    assert known is not None
    distinct = [[*what, count] for what, count in known.distinct.items()]
    return {"rows": dict(known.rows), "static": sorted(known.static), "distinct": distinct}


# Reading.


def restore_dictionary(core: Core, store: Store) -> str:
    """Give the strings of the checkpoint their ids; gives why views cannot be opened otherwise."""
    if not any(name.startswith("states of ") for name in store.notes()):
        return "the mill has no snapshots of views"
    try:
        strings, wides = store.load_words(_STRINGS), store.load_words(_WIDES)
        if strings is None or wides is None:
            return "no view has a snapshot"
        restored = strings.num_columns == 0 or core.dictionary.restore(strings, wides)
    except StorageFailed as why:
        return why.message
    return "" if restored else "the strings of the snapshots repeat"


@dataclass
class SavedStates:
    """The snapshot of a view. Whatever does not fit raises NoSnapshot."""

    store: Store
    version: int
    rows: int
    careful: bool
    known: Statistics
    blocks: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, store: Store, key: str) -> SavedStates:
        """The snapshot of the view with this key."""
        note = store.notes().get(note_name(key))
        if note is None:
            raise NoSnapshot("it was created after the last checkpoint")
        saved = json.loads(note)
        if "why" in saved:
            raise NoSnapshot(saved["why"])
        if saved["layout"] != layout():
            raise NoSnapshot("its snapshot was written by another version of Viewmill")
        packed = saved["known"]
        known = Statistics(
            packed["rows"],
            frozenset(packed["static"]),
            {(source, column): count for source, column, count in packed["distinct"]},
            careful=saved["careful"],
        )
        return cls(store, saved["version"], saved["rows"], saved["careful"], known, saved["blocks"])

    @property
    def entries(self) -> int:
        """The number of entries of all states."""
        saved = (state for block in self.blocks.values() for state in block["states"].values())
        return sum(state["shapes"][0][0] for state in saved)

    def check(self, entry: ViewEntry) -> None:
        """Raise unless the plan of the view is the one whose states these are."""
        programs = {each.name: program_digest(each.program) for each in entry.plan.blocks}
        if programs != {name: block["program"] for name, block in self.blocks.items()}:
            raise NoSnapshot("it is planned in another way now")

    def load(self, entry: ViewEntry) -> None:
        """Fill the blocks that the view does not share with one that is filled."""
        for planned, block in planned_blocks(entry):
            if block.views <= {entry.name}:
                states = self.blocks[planned.name]["states"]
                maintainer: Any = block.maintainer
                maintainer.load_all({name: self._arrays(saved) for name, saved in states.items()})

    def _arrays(self, saved: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        try:
            table = self.store.load_words(saved["piece"])
        except StorageFailed as why:
            raise NoSnapshot(f"its snapshot cannot be read: {why.message}") from why
        arrays = [_array(table, str(i), *shape) for i, shape in enumerate(saved["shapes"])]
        return arrays[0], arrays[1:]


def _array(table: Any, name: str, *shape: Any) -> Any:
    *sizes, kind = shape
    if 0 in sizes:
        return np.zeros(sizes, kind)
    if table is None or name not in table.column_names:
        raise NoSnapshot("a part of its snapshot is missing")
    column = table.column(name).chunk(0)
    flat = column.flatten() if len(sizes) > 1 else column
    return flat.to_numpy().reshape(sizes)

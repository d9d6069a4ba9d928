"""The runs of pattern views in checkpoints, where no rows tell them any more.

A run may have begun in a part that retention has ended. So a checkpoint holds the runs that groups
bring into the first part that may still change; older parts of the view are files, and the later
ones are gone through again when the mill is opened.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.algebra.schema import Schema
from viewmill.algebra.types import String, Wide, is_float_word
from viewmill.deltas.arrow import decode_column, decode_delta, encode_array, encode_columns
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.translate import Translation
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.part_folders import Owner, open_parts, part_owners
from viewmill.mill.store import Store
from viewmill.program.parts import PartInfo
from viewmill.program.patterns import PatternQueries
from viewmill.program.program import Program
from viewmill.program.row_patterns import RowPatternQueries

# They import Numba, so only where there is a pattern.
CARRIED = "viewmill.kernels.pattern_runs:Carried"
RUNS = "viewmill.kernels.pattern_runs:Runs"
_PARTS = 3  # floats of a measure, as in `kernels.pattern_kernels`


def _patterns(core: Core) -> list[tuple[Owner, ViewEntry]]:
    views = {each.name: each for each in core.catalog.views()}
    found = [(owner, views[owner.name]) for owner in part_owners(core) if owner.name in views]
    return [
        (owner, entry)
        for owner, entry in found
        if isinstance(entry.plan.program.body, PatternQueries)
    ]


def pattern_checkpoint(core: Core) -> tuple[dict[str, Any], dict[str, str]]:
    """The states and the notes of all pattern views."""
    states: dict[str, Any] = {}
    notes: dict[str, str] = {}
    for owner, entry in _patterns(core):
        limit, carried = owner.parts.carried()
        if limit is None:
            continue
        layout = RunsLayout(core.dictionary, entry.plan.program)
        if carried:
            states[f"groups of {owner.key}"] = pa.concat_tables(map(layout.groups, carried))
            states[f"runs of {owner.key}"] = pa.concat_tables(map(layout.runs, carried))
        older = [each for each in owner.parts.catalog() if each.subscript < limit]
        saved = {"limit": limit, "reach": owner.parts.reach, "catalog": older}
        notes[f"runs of {owner.key}"] = json.dumps(saved)
    for entry in core.catalog.views():
        body, key = entry.plan.program.body, f"{entry.name.lower()}@{entry.created}"
        if isinstance(body, PatternQueries) and body.is_match_recognize:
            tables = match_tables(entry.block.maintainer, core.dictionary, entry.plan.program)
            if tables:
                names = [f"{what} of {key}" for what in MATCH_STATES]
                states |= dict(zip(names, tables, strict=True))
                end = entry.block.maintainer.needs_from  # type: ignore[attr-defined]
                notes[f"runs of {key}"] = json.dumps({"end": end})
    return states, notes


def restore_pattern(
    core: Core, store: Store, key: str, since: int | None
) -> Callable[[ViewEntry, Any], None]:
    """What brings a pattern view back to the checkpoint, or else to its creation."""
    note = store.notes().get(f"runs of {key}")

    def restore(entry: ViewEntry, maintainer: Any) -> None:
        entry.since = since
        maintainer.start_at(since)
        if note is None:
            return
        program, saved = entry.plan.program, json.loads(note)
        if not maintainer.has_parts:
            tables = [store.load_state(f"{what} of {key}") for what in MATCH_STATES]
            load_matches(maintainer, core.dictionary, program, tables, saved["end"])
            return
        infos = [PartInfo(*each) for each in saved["catalog"]]
        filed = open_parts(core, Owner(entry.name, key, maintainer), infos)
        parts = {info.subscript: rows for info, rows in filed.items()}
        maintainer.restore(*saved["reach"], parts, infos)
        groups, runs = (store.load_state(f"{what} of {key}") for what in ("groups", "runs"))
        layout = RunsLayout(core.dictionary, program)
        carried = [] if groups is None else layout.carried(groups, runs)
        maintainer.carry(saved["limit"], carried)

    return restore


def pass_on_runs(entry: ViewEntry, old: Any, new: Any, translate: Translation) -> None:
    """Fill a new maintainer of a pattern view as the old one is, with other ids of strings."""
    program = entry.plan.program
    new.start_at(entry.since)
    if old.has_parts:
        limit, carried = old.carried()
        if limit is not None:
            layout, other = (RunsLayout(each, program) for each in (translate.old, translate.new))
            new.carry(limit, [c for o in carried for c in other.carried(*layout.tables(o))])
    else:
        tables = match_tables(old, translate.old, program)
        if tables:
            load_matches(new, translate.new, program, tables, old.needs_from)
    new.fill()
    new.commit()
    new.take_over(old, translate)


MATCH_STATES = ("matches", "tail", "ends")
_TIMES = "_multiplicity"


def match_tables(maintainer: Any, dictionary: Dictionary, program: Program) -> list[Any]:
    """What MATCH_RECOGNIZE knows of rows that ended, as Arrow tables; none if none ended.

    Matches that stay, rows that may still match, and where each group goes on from.
    """
    tail = maintainer.tail
    groups = np.flatnonzero(tail.moment != np.iinfo(np.int64).min)
    if not len(groups) and not tail.rows.size:
        return []
    matches = decode_delta(maintainer.settled(), dictionary, multiplicity=_TIMES)
    rows = decode_delta(tail.rows, dictionary)
    keys = decode_delta(maintainer.keys_of(groups), dictionary)
    ends: list[Any] = [keys.column(i) for i in range(keys.num_columns)]
    ends.append(tail.moment[groups])
    for j, field in enumerate(_last_fields(program)):
        words = np.ascontiguousarray(tail.last[groups, j])
        words = words.view(np.float64) if is_float_word(field.type) else words
        mask = np.ascontiguousarray(tail.mask[groups, j])
        ends.append(decode_column(words, mask, field, dictionary))
    if isinstance(program.body, RowPatternQueries):
        ends += [tail.context[groups], tail.number[groups]]
    return [matches, rows, pa.table(ends, names=[f"_{i}" for i in range(len(ends))])]


def load_matches(
    maintainer: Any, dictionary: Dictionary, program: Program, tables: list[Any], end: int
) -> None:
    """The inverse of `match_tables`; rows of parts before `end` are there."""
    matches, rows, ends = tables
    times = matches.column(matches.num_columns - 1).to_numpy()
    shown = matches.select(range(matches.num_columns - 1))
    settled = encode_columns(program.output, shown, dictionary)
    settled.multiplicity = times.astype(np.int64)
    body = program.body
    assert isinstance(body, PatternQueries)
    schema = program.inputs[0].schema
    keys = Schema(tuple(schema[i] for i in body.keys))
    width = len(keys)
    named = ends.select(range(width)).rename_columns(keys.names)
    known = encode_columns(keys, named, dictionary) if width else ends.num_rows
    lasts = []
    for i, field in enumerate(_last_fields(program)):
        words, mask = encode_array(ends.column(width + 1 + i), field, dictionary)
        lasts.append((words, np.zeros(len(words), np.uint8) if mask is None else mask))
    moments = ends.column(width).to_numpy()
    more = [moments, np.zeros(len(moments), np.int64)]
    if isinstance(body, RowPatternQueries):
        more = [ends.column(ends.num_columns - i).to_numpy() for i in (2, 1)]
    maintainer.restore_matches(
        end, settled, encode_columns(schema, rows, dictionary), known, (moments, *more), lasts
    )


def _last_fields(program: Program) -> list[Any]:
    body, schema = program.body, program.inputs[0].schema
    assert isinstance(body, PatternQueries)
    return [replace(schema[i], nullable=True) for i in body.read_before]


class RunsLayout:
    """Runs as Arrow tables, and back."""

    def __init__(self, dictionary: Dictionary, program: Program) -> None:
        body = program.body
        assert isinstance(body, PatternQueries)
        schema = program.inputs[0].schema
        self._dictionary, self._measures = dictionary, body.measures
        self._keys = Schema(tuple(schema[i] for i in body.keys))
        self._lasts = _last_fields(program)

    def tables(self, carried: Any) -> tuple[pa.Table, pa.Table]:
        """The groups and the runs."""
        return self.groups(carried), self.runs(carried)

    def groups(self, carried: Any) -> pa.Table:
        """A row for each group: its part, how many runs it has, its key, its last row."""
        size = len(carried.runs.starts) - 1
        made = decode_delta(carried.keys, self._dictionary)
        arrays = [np.full(size, carried.part, np.int64), np.diff(carried.runs.starts)]
        arrays += [made.column(i) for i in range(made.num_columns)]
        for (words, mask), field in zip(carried.last, self._lasts, strict=True):
            arrays.append(decode_column(words, mask, field, self._dictionary))
        return pa.table(arrays, names=[f"_{i}" for i in range(len(arrays))])

    def runs(self, carried: Any) -> pa.Table:
        """A row for each run."""
        runs = carried.runs
        arrays = [runs.phase, runs.rows]
        for m, measure in enumerate(self._measures):
            field, counts = replace(measure.field, nullable=True), runs.counts[:, m]
            values: Any = np.ascontiguousarray(runs.integers[:, m])
            if is_float_word(field.type):
                parts = np.ascontiguousarray(runs.floats[:, m])
                values = pa.FixedSizeListArray.from_arrays(pa.array(parts.reshape(-1)), _PARTS)
            elif isinstance(field.type, String | Wide):
                is_null = (counts <= 0).astype(np.uint8)
                values = decode_column(values, is_null, field, self._dictionary)
            arrays += [values, np.ascontiguousarray(counts)]
        return pa.table(arrays, names=[f"_{i}" for i in range(len(arrays))])

    def carried(self, groups: pa.Table, runs: pa.Table) -> list[Any]:
        """The inverse of both."""
        width = len(self._keys)
        keys = encode_columns(
            self._keys, groups.select(range(2, 2 + width)).rename_columns(self._keys.names),
            self._dictionary,
        )  # fmt: skip
        lasts = []
        for i, field in enumerate(self._lasts):
            words, mask = encode_array(groups.column(2 + width + i), field, self._dictionary)
            lasts.append((words, np.zeros(len(words), np.uint8) if mask is None else mask))
        shape = (runs.num_rows, len(self._measures))
        integers, floats = np.zeros(shape, np.int64), np.zeros((*shape, _PARTS), np.float64)
        counts = np.zeros(shape, np.int64)
        for m, measure in enumerate(self._measures):
            column = runs.column(2 + 2 * m)
            counts[:, m] = runs.column(3 + 2 * m).to_numpy()
            if is_float_word(measure.field.type):
                if pa.types.is_floating(column.type):  # of an earlier version: one float
                    floats[:, m, 0] = column.to_numpy()
                else:
                    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
                    floats[:, m] = flat.reshape(-1, _PARTS)
            elif isinstance(measure.field.type, String | Wide):
                field = replace(measure.field, nullable=True)
                integers[:, m] = encode_array(column, field, self._dictionary)[0]
            else:
                integers[:, m] = column.to_numpy()
        starts = np.concatenate([[0], np.cumsum(groups.column(1).to_numpy())]).astype(np.int64)
        phase, rows = (runs.column(i).to_numpy().astype(np.int64) for i in range(2))
        whole = pkgutil.resolve_name(RUNS)(starts, phase, rows, integers, floats, counts)
        parts = groups.column(0).to_numpy()
        found, made = [], pkgutil.resolve_name(CARRIED)
        for part in np.unique(parts):
            at = np.flatnonzero(parts == part)
            last = tuple((words[at], mask[at]) for words, mask in lasts)
            found.append(made(int(part), keys.take(at), whole.take(at), last))
        return found

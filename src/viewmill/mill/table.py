"""A table: its declaration, its rows, and the checks that a change must pass."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import kept_type
from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.consolidate import consolidate, group_rows
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Changed, Pieces, Product, as_delta
from viewmill.deltas.row_bytes import RowBytes
from viewmill.deltas.translate import Translation
from viewmill.errors import DuplicateKey, ForbiddenChange, InvalidArgument, MissingRow
from viewmill.mill.arrow_rows import ArrowRows, expanded
from viewmill.mill.held_products import HeldProducts
from viewmill.mill.parted import Parted, PartOptions, Refused
from viewmill.mill.segments import Segments, has_deletes
from viewmill.mill.signed_zeros import (
    as_held,
    float_columns,
    has_minus_zeros,
    minus_zeros,
    signed_words,
    without_minus_zeros,
)
from viewmill.mill.unindexed_rows import UnindexedRows
from viewmill.sql.statements import CreateTable

_MIN_DEFERRED_ROWS = 4096  # batches from this size on enter the index only when it is read
_ROW_INDEX = "viewmill.kernels.row_index:RowIndex"  # imports Numba, so only when a table needs it


@dataclass(frozen=True)
class TableOptions:
    """What CREATE TABLE says besides the columns."""

    primary_key: tuple[str, ...] = ()
    append_only: bool = False
    unchecked: bool = False
    static: bool = False
    parts: PartOptions | None = None
    timestamp_by: str | None = None
    lateness: int | None = None
    idle_after: int | None = None  # microseconds without a change, on the mill's clock

    def __str__(self) -> str:
        words = [f"PRIMARY KEY ({', '.join(self.primary_key)})"] if self.primary_key else []
        words += ["APPEND ONLY"] if self.append_only else []
        words += ["UNCHECKED"] if self.unchecked else []
        words += ["STATIC"] if self.static else []
        words += [str(self.parts)] if self.parts else []
        if self.parts is None and self.timestamp_by:
            words += [f"TIMESTAMP BY {self.timestamp_by}"]
        return " ".join(words)


class Table:
    """The rows of a table with their multiplicities.

    A checked table has an index of its rows, so that deletes can be validated; UNCHECKED and APPEND
    ONLY tables are plain segments, unless a primary key needs the index. Without a key, bulk
    inserts stay plain segments as well, until a delete needs the index.
    """

    def __init__(
        self, name: str, schema: Schema, options: TableOptions, dictionary: Dictionary
    ) -> None:
        self.name, self.schema, self.options = name, schema, options
        self._dictionary = dictionary
        self.row_bytes = RowBytes(schema, dictionary)  # rows for the log
        self.rows = 0
        self._staged_rows = 0
        self._staged: Delta | None = None  # uncommitted changes in the index
        self.version = 0  # of the last change
        self._arrow = ArrowRows(dictionary)
        self._facts: dict[str, tuple[int, int]] = {}  # cached numbers, with their stamp
        self._stamp = 0
        self._newest: int | None = None
        self._coming_newest: int | None = None
        self._index: Any = None
        self._segments: Segments | None = None
        self._unindexed: UnindexedRows | None = None
        self._order: npt.NDArray[np.int64] | None = None  # of words in the index: the key first
        self._is_in_order = True  # whether that is the order of the columns
        self._held: HeldProducts | None = None  # changes that a checked table keeps as products
        self._floats: list[int] = []  # columns in which the index distinguishes -0.0 from 0.0
        self._float_keys: list[int] = []  # key columns, in which -0.0 becomes 0.0
        self._may_hold_minus_zeros = False  # in the index
        self.parts = None if options.parts is None else Parted(name, schema, options.parts)
        self._late: Delta | None = None  # rows of the current batch that are too late
        needs_index = bool(options.primary_key) or not (
            options.unchecked or options.append_only or options.parts
        )
        if needs_index:
            self._make_index()
        elif self.parts is None:
            self._segments = Segments(schema)
        # Whether no row can be too late, and whether every change is accepted unseen.
        self.is_timeless = options.parts is None and options.timestamp_by is None
        is_free = self.is_timeless and not (options.static or options.append_only)
        self.takes_all = is_free and self._segments is not None

    @classmethod
    def from_statement(cls, statement: CreateTable, dictionary: Dictionary) -> Table:
        """The table that a CREATE TABLE declares."""
        fields = tuple(Field(c.name, kept_type(c.type), c.nullable) for c in statement.columns)
        options = TableOptions(
            statement.primary_key,
            statement.append_only,
            statement.unchecked,
            statement.static,
            _part_options(statement),
            statement.timestamp_by,
            statement.lateness,
            statement.idle_after,
        )
        return cls(statement.name, Schema(fields), options, dictionary)

    def _make_index(self) -> None:
        row_index = pkgutil.resolve_name(_ROW_INDEX)
        width = len(self.schema) + (len(self.schema) + 62) // 63
        keys = [self.schema.names.index(name) for name in self.options.primary_key]
        self._held = HeldProducts(self.name, keys)
        if self.parts is None:
            floats = float_columns(self.schema)
            self._floats = [i for i in floats if i not in keys]
            self._float_keys = [i for i in floats if i in keys]
        if not keys:
            self._index = row_index(width, 0)
            self._unindexed = UnindexedRows(self.schema) if self.parts is None else None
            return
        # The index wants the words of the key first.
        others = [i for i in range(width) if i not in keys]
        self._order = np.array(keys + others, np.int64)
        self._is_in_order = keys + others == list(range(width))
        self._index = row_index(len(keys), len(others), unique=True)

    @property
    def _holder(self) -> Any:
        return self._index if self._segments is None else self._segments

    # Late rows and old parts.

    def as_held(self, change: Changed) -> Changed:
        """The change with its zeros as this table holds them.

        0.0 and -0.0 are equal, so a delete gets the zero of the row that is there; a primary key
        has no -0.0.
        """
        if self._float_keys:
            change = without_minus_zeros(as_delta(change), self._float_keys)
        elif type(change) is Delta and change.multiplicity is None:
            return change
        if not self._floats or (isinstance(change, Pieces) and not self._needs_rows(change)):
            return change
        delta = as_delta(change)
        if not has_deletes(delta):
            return delta
        self._fold(delta)
        if not self._may_hold_minus_zeros and not has_minus_zeros(delta, self._floats):
            return delta
        goes = delta.multiplicities() < 0
        comes_with = any((minus_zeros(delta, i) & ~goes).any() for i in self._floats)
        if not comes_with and not self._may_hold_minus_zeros:
            return without_minus_zeros(delta, self._floats, goes)
        if self._refused(delta) is None:
            return delta
        return as_held(delta, self._equal_rows(delta), self._floats)

    def _equal_rows(self, delta: Delta) -> Delta:
        """The held rows that equal one of these in SQL, or have its primary key."""
        if self.options.primary_key:
            found, rows = self.held(delta)
            first, _ = group_rows(self.keys(delta))
            return rows.take(first[found[first]])
        held = self._listed()
        return held.take(among(held.words(), delta.words()))

    def admit(self, change: Changed) -> Changed:
        """The change without late rows; those are refused, counted and listed."""
        if self.is_timeless:
            return change
        delta = as_delta(change)
        late = None if self.parts is None else self.parts.too_late(delta)
        if late is None:
            return delta
        self._late = delta.take(late)
        return delta.take(~late)

    def reach(self, moment: int) -> None:
        """Move time forward without a row; not committed yet."""
        if self.parts is not None:
            self.parts.reach(self.parts.part_of(moment))
            self._stamp += 1

    @property
    def may_lose_rows(self) -> bool:
        """Whether rows may disappear, by deletes or by RETENTION."""
        parts = self.options.parts
        return not self.options.append_only or (parts is not None and parts.retention is not None)

    def restore_newest(self, moment: int) -> None:
        """Restore the largest time from a checkpoint; its row may be gone by now."""
        self._newest = moment
        if self.parts is not None:
            self.parts.reach(self.parts.part_of(moment))
            self.parts.commit(self.version)

    def expire(self) -> Delta | None:
        """The deletes of rows that expire with the current batch, None if none do."""
        gone = None if self.parts is None else self.parts.expired()
        if gone is None:
            return None
        self._staged_rows += int(gone.multiplicities().sum())
        if self._index is not None:
            self._index.stage(self._words(gone), gone.multiplicities())
            self._staged = concat(self.schema, [*filter(None, [self._staged]), gone])
        return gone

    def _commit_parts(self, version: int) -> None:
        assert self.parts is not None
        if self._late is not None:
            self._note_refused(self._late, version)
            self._late = None
        self.parts.commit(version)
        self.parts.roll_up()
        self.parts.forget()

    def drop_expired_parts(self) -> None:
        """After recovery: remove the rows whose retention ended while the log was replayed."""
        if self.parts is None:
            return
        shown, held = self.parts.contents(), self.parts.kept()
        if self._index is not None and held.size > shown.size:
            gone = consolidate(concat(self.schema, [shown, held.negated()]))
            self._index.stage(self._words(gone), gone.multiplicities())
            self._index.commit()
        self.rows = int(shown.multiplicities().sum())
        self.parts.end_replay()
        self.parts.roll_up()
        self.parts.forget()

    def translated(self, translate: Translation) -> Table:
        """The table encoded with another dictionary."""
        made = Table(self.name, self.schema, self.options, translate.new)
        if self.parts is not None:
            made._take_parts(self.parts.translated(translate))
        else:
            for rows in (self.kept(), *(each.delta() for each in self.products)):
                if rows.size:
                    made.stage(translate(rows))
                    made.commit(self.version)
        made.rows, made._newest, made.version = self.rows, self._newest, self.version
        made._facts, made._stamp = self._facts, self._stamp + 1
        return made

    def _take_parts(self, parts: Parted) -> None:
        self.parts = parts
        shown = parts.contents()
        if self._index is not None and shown.size:
            self._index.stage(self._words(shown), shown.multiplicities())
            self._index.commit()

    def _note_refused(self, late: Delta, version: int) -> None:
        assert self.parts is not None
        self.parts.refused_count += late.size
        rows = decode_delta(late, self._dictionary).to_pylist()
        each = zip(self.parts.subscripts(late).tolist(), rows, late.multiplicities().tolist(),
                   strict=True)  # fmt: skip
        self.parts.refused.extend(Refused(version, *values) for values in each)

    # Changes.

    def check_allowed(self, change: Delta | Product) -> None:
        """Raise if the declaration (STATIC, APPEND ONLY) forbids the change."""
        if self.options.static and self.rows:
            raise ForbiddenChange(
                f'table "{self.name}" is STATIC and already loaded',
                hint="Drop and create it again, or declare it without STATIC.",
            )
        if (self.options.append_only or self.options.static) and has_deletes(change):
            word = "APPEND ONLY" if self.options.append_only else "STATIC"
            raise ForbiddenChange(f'table "{self.name}" is {word}: rows cannot be deleted')

    def _note_time(self, delta: Delta) -> None:
        """Stage the largest inserted time; deletes do not lower it."""
        name = self.options.timestamp_by
        at = None if name is None else self.schema.find(name)
        if at is None:
            return
        coming, mask = delta.multiplicities() > 0, delta.nulls[at]
        coming = coming if mask is None else coming & (mask == 0)
        if coming.any():
            newest = int(delta.columns[at][coming].max())
            self._coming_newest = max(newest, self._newest if self._newest is not None else newest)

    @property
    def staged_rows(self) -> int:
        """The number of rows that the staged changes add."""
        return self._staged_rows

    @property
    def newest(self) -> int | None:
        """The largest TIMESTAMP BY value so far, including the current batch."""
        return self._newest if self._coming_newest is None else self._coming_newest

    def stage(self, change: Changed) -> None:
        """Apply a change without committing it; only its net effect is validated."""
        if isinstance(change, Pieces):
            self._stage_pieces(change)
        elif self.takes_all:
            assert self._segments is not None
            self._stamp += 1
            self._arrow.add(self._stamp, change)
            self._staged_rows = change.net_rows
            self._segments.stage(change)
        else:
            self._stage_delta(change)

    def keep(self, delta: Delta, version: int) -> None:
        """Apply and commit a delta at once, in a table that accepts everything (`takes_all`)."""
        assert self._segments is not None
        self._stamp += 1
        if self._arrow.kept is not None:
            self._arrow.add(self._stamp, delta)
        self._segments.keep(delta)
        self.rows += delta.size if delta.multiplicity is None else delta.net_rows
        self.version = version

    def _stage_pieces(self, pieces: Pieces) -> None:
        """Stage pieces, keeping products factorized unless validation needs their rows."""
        deltas = [each for each in pieces.parts if isinstance(each, Delta)]
        products = [each for each in pieces.parts if isinstance(each, Product)]
        if self._segments is not None:
            for each in pieces.parts:
                self.check_allowed(each)
                self._segments.stage(each)
            self._stamp += 1
            self._staged_rows = sum(each.net_rows for each in pieces.parts)
            return
        assert self._held is not None
        if self._needs_rows(pieces):
            self._stage_delta(pieces.delta())
            return
        is_empty = not len(self._index) and not self._held.committed
        for each in products:
            self.check_allowed(each)
            self._held.stage(each, is_empty=is_empty)
        if deltas:
            self._stage_delta(concat(self.schema, deltas))
        self._stamp += 1
        self._staged_rows += sum(each.net_rows for each in products)

    def _needs_rows(self, pieces: Pieces) -> bool:
        """Whether pieces must be validated row by row."""
        deltas = [each for each in pieces.parts if isinstance(each, Delta)]
        products = [each for each in pieces.parts if isinstance(each, Product)]
        small = any(each.has_deletes and each.is_small for each in products)
        return small or any(map(has_deletes, deltas)) or bool(self.options.primary_key and deltas)

    def _fold(self, deletes: Delta | None = None) -> None:
        """Index the rows of held products, and those of large inserts that deletes may be about;
        without deletes all of them."""
        if self._held is None:
            return
        if self._unindexed is not None and not self._unindexed.is_empty:
            waiting = self._unindexed
            for rows in waiting.take() if deletes is None else waiting.take_for(deletes):
                self._index.stage(self._words(rows), rows.multiplicities())
                self._index.commit()
        if not self._held.committed:
            return
        for product in self._held.committed:
            rows = product.delta()
            product.forget_rows()
            self._index.stage(self._words(rows), rows.multiplicities())
        self._index.commit()
        self._held.committed = []

    def _stage_delta(self, delta: Delta) -> None:
        options = self.options
        if options.static or options.append_only:
            self.check_allowed(delta)
        if options.timestamp_by is not None:
            self._note_time(delta)
        self._stamp += 1
        if self.parts is None and self._arrow.kept is not None:
            self._arrow.add(self._stamp, delta)
        self._staged_rows = delta.net_rows
        if self._segments is not None:
            self._segments.stage(delta)
            return
        if options.primary_key or has_deletes(delta):
            self._fold(delta)
        if self.parts is not None:
            self.parts.stage(delta)
        if self._index is None:
            self._check_parts()
            return
        if self._unindexed is not None and self._may_wait(self._unindexed, delta):
            self._unindexed.stage(delta)
            return
        if self._order is not None and delta.multiplicity is not None:
            delta = self._net(delta)
        self._staged = delta
        self._index.stage(self._words(delta), delta.multiplicity)
        problem = self._index.check()
        if problem is not None:
            raise self._explain(problem)

    def _may_wait(self, waiting: Segments, delta: Delta) -> bool:
        """Whether rows may stay out of the index for now; rows after waiting ones wait too."""
        if delta.size < _MIN_DEFERRED_ROWS and waiting.is_empty:
            return False
        return not has_deletes(delta)

    def _check_parts(self) -> None:
        """Validate deletes in the staged parts, the only ones that can lack a row."""
        assert self.parts is not None
        missing = None if self.options.unchecked else self.parts.missing()
        if missing is not None:
            raise self._missing(self._show(missing))

    def _words(self, delta: Delta) -> npt.NDArray[np.int64]:
        words = delta.words()
        if self._floats and has_minus_zeros(delta, self._floats):
            words, self._may_hold_minus_zeros = signed_words(delta, self._floats), True
        return words if self._is_in_order else np.ascontiguousarray(words[:, self._order])

    def _net(self, delta: Delta) -> Delta:
        """The net effect of a change on the index."""
        return consolidate(delta, self._words(delta)) if self._floats else consolidate(delta)

    def _from_words(self, words: npt.NDArray[np.int64], times: Any) -> Delta:
        if not self._is_in_order:
            plain = np.empty_like(words)
            plain[:, self._order] = words
            words = plain
        return Delta.from_words(self.schema, words, times)

    def _explain(self, problem: Any) -> DuplicateKey | MissingRow:
        row = self._show(self._from_words(np.array([problem.words], np.int64), None))
        if problem.kind == "duplicate":
            key = {name: row[name] for name in self.options.primary_key}
            return DuplicateKey(
                f'table "{self.name}" has a row with the primary key {_pairs(key)} already',
                hint="mill.upsert replaces rows by their key.",
            )
        return self._missing(row)

    def _missing(self, row: dict[str, Any]) -> MissingRow:
        return MissingRow(
            f'table "{self.name}" has no row {_pairs(row)} to delete',
            hint="A table with a PRIMARY KEY is always checked."
            if self.options.unchecked
            else "Declare the table UNCHECKED if a delete may come before its insert.",
        )

    def _show(self, delta: Delta) -> dict[str, Any]:
        return dict(decode_delta(delta, self._dictionary).to_pylist()[0])

    def commit(self, version: int) -> None:
        """Commit the staged changes."""
        if self._segments is not None:
            self._segments.commit()
        else:
            self._commit_checked(version)
        self.rows += self._staged_rows
        if self._coming_newest is not None:
            self._newest, self._coming_newest = self._coming_newest, None
        self._staged_rows, self._staged = 0, None
        self.version = version

    def _commit_checked(self, version: int) -> None:
        if self.parts is not None:
            self._commit_parts(version)
        if self._index is not None:
            self._index.commit()
        if self._held is not None:
            self._held.commit()
        if self._unindexed is not None:
            self._unindexed.commit()

    def rollback(self) -> None:
        """Drop the staged changes."""
        if self.parts is not None:
            self.parts.rollback()
            self._late = None
        self._coming_newest = None
        if self._holder is not None:
            self._holder.rollback()
        if self._held is not None:
            self._held.rollback()
        if self._unindexed is not None:
            self._unindexed.rollback()
        self._staged_rows, self._staged = 0, None
        self._stamp += 1

    def replacement(self, delta: Delta, pending: Delta | None) -> Delta:
        """An upsert as a delta: deletes of the rows with its keys, inserts of its rows.

        `pending` has the earlier changes of the current batch. Of several rows with one key, the
        last one wins.
        """
        if not self.options.primary_key:
            raise InvalidArgument(
                f'table "{self.name}" has no PRIMARY KEY, so rows cannot be replaced',
                hint="Use insert and delete, or declare a PRIMARY KEY.",
            )
        if not delta.size:
            return delta
        self._fold()
        width = len(self.options.primary_key)
        keys = self._words(delta)[:, :width]
        last, _ = group_rows(keys[::-1])
        new = delta.take(np.sort(len(keys) - 1 - last))
        found, words = self._index.find(np.ascontiguousarray(self._words(new)[:, :width]))
        now = self._from_words(words[found], np.ones(int(found.sum()), np.int64))
        if pending is not None and pending.size:
            ours = among(self._words(pending)[:, :width], keys)
            now = consolidate(concat(self.schema, [now, pending.take(ours)]))
            now = now.take(now.multiplicities() > 0)
        return self._net(concat(self.schema, [new, now.negated()]))

    def held(self, delta: Delta) -> tuple[npt.NDArray[np.bool_], Delta]:
        """Which keys of `delta` exist, and the held row for each of these keys."""
        self._fold()
        found, words = self._index.find(self.keys(delta))
        return found, self._from_words(words, np.ones(len(words), np.int64))

    def keys(self, delta: Delta) -> npt.NDArray[np.int64]:
        """The words of the primary key of each row."""
        return np.ascontiguousarray(self._words(delta)[:, : len(self.options.primary_key)])

    def problem(self, delta: Delta) -> int | None:
        """The position of a row that makes the change invalid, None if it is valid."""
        if self._segments is not None:
            return None
        if self._index is None:
            return self._part_problem(delta)
        problem = self._refused(as_delta(self.as_held(delta)))
        if problem is None:
            return None
        sign = -1 if problem.kind == "missing" else 1
        row = self._from_words(np.array([problem.words], np.int64), None)
        same = (delta.words() == row.words()).all(axis=1)
        candidates = np.flatnonzero(same & (np.sign(delta.multiplicities()) == sign))
        return int(candidates[-1]) if len(candidates) else None

    def _refused(self, delta: Delta) -> Any:
        """The problem that the index has with a change, None if it is valid."""
        self._fold(delta)
        staged = delta if self._order is None else self._net(delta)
        self._index.stage(self._words(staged), staged.multiplicities())
        problem = self._index.check()
        self._index.rollback()
        return problem

    def _part_problem(self, delta: Delta) -> int | None:
        assert self.parts is not None
        if self.options.unchecked:
            return None
        self.parts.stage(delta)
        missing = self.parts.missing()
        self.parts.rollback()
        if missing is None:
            return None
        same = (delta.words() == missing.words()).all(axis=1) & (delta.multiplicities() < 0)
        return int(np.flatnonzero(same)[-1])

    # Reading.

    def contents(self) -> Delta:
        """All rows with their multiplicities, including staged changes."""
        if self.parts is not None:
            return self.parts.contents()
        if self._segments is not None:
            return self._segments.contents()
        assert self._held is not None
        products = self._held.changes()
        if self._staged is None and not products and self._held.committed:
            self._fold()
        products += [each.delta() for each in self._held.committed]
        committed = self._listed()
        if self._staged is None and not products:
            return committed
        staged = [] if self._staged is None else [self._staged]
        return self._net(concat(self.schema, [committed, *staged, *products]))

    def _listed(self) -> Delta:
        """The rows of the index and the unindexed segments."""
        waiting = self._unindexed
        if waiting is None or waiting.is_empty:
            return self._from_words(*self._index.export())
        if not len(self._index):
            return waiting.contents()
        indexed = self._from_words(*self._index.export())
        return concat(self.schema, [indexed, waiting.contents()])

    def kept(self) -> Delta:
        """The rows without `products`, plus expired parts that views still read."""
        if self.parts is not None:
            return self.parts.kept()
        if self._segments is not None and self._segments.products:
            return self._segments.listed()
        if self._held is not None and self._held.committed:
            return self._listed()
        return self.contents()

    @property
    def products(self) -> list[Product]:
        """The committed changes that are still products."""
        if self._segments is not None:
            return self._segments.products
        return [] if self._held is None else self._held.committed

    def arrow(self) -> Any:
        """The rows as an Arrow table, each repeated by its multiplicity; none if negative."""
        return self._arrow.table(self._stamp, self.contents)

    def remembered(self, what: str, find: Callable[[], int], changes: int = 1) -> int:
        """A number that is cached until the table has changed so many times."""
        known = self._facts.get(what)
        if known is None or self._stamp - known[0] >= changes:
            known = self._facts[what] = self._stamp, find()
        return known[1]

    @property
    def may_have_negative_rows(self) -> bool:
        """Whether a row may have a negative multiplicity."""
        if not self.options.unchecked:
            return False
        return self._segments is None or self._segments.may_have_negative_rows

    def arrow_before(self, delta: Delta) -> Any:
        """The rows before the last change, which is `delta`."""
        times = delta.multiplicity
        if times is None or (times > 0).all():
            rows = self.arrow()
            came = delta.size if times is None else int(times.sum())
            if came <= self._arrow.appended:  # they are the last ones
                return rows.slice(0, rows.num_rows - came)
        old = consolidate(concat(self.schema, [self.contents(), delta.negated()]))
        return expanded(old, self._dictionary)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        held = 0 if self.parts is None else self.parts.nbytes
        if self._index is not None:
            held += self._index.bytes
        if self._held is not None:
            held += self._held.nbytes
        if self._unindexed is not None:
            held += self._unindexed.nbytes
        return int(held if self._segments is None else self._segments.nbytes)


def _part_options(statement: CreateTable) -> PartOptions | None:
    if statement.partition_length is None:
        return None
    assert statement.timestamp_by is not None
    return PartOptions(
        statement.timestamp_by,
        statement.partition_length,
        statement.lateness,
        statement.retention,
        statement.roll_up,
        statement.archive,
    )


def among(keys: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of `keys` are also in `wanted`."""
    _, group = group_rows(np.concatenate([wanted, keys]))
    present = np.zeros(int(group.max()) + 1, np.bool_)
    present[group[: len(wanted)]] = True
    return present[group[len(wanted) :]]


def _pairs(row: dict[str, Any]) -> str:
    return "(" + ", ".join(f"{name} = {value!r}" for name, value in row.items()) + ")"

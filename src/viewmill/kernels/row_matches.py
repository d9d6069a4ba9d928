"""Maintain MATCH_RECOGNIZE with any row pattern.

takes  `Program` with a `RowPatternQueries` body, the source of the rows, a way to run a relation
gives  `Maintainer`

Arguments of leaves and tests are computed for all rows at once, then one loop matches all groups of
a batch (`kernels.row_match_kernel`). As in `kernels.matches`, a change in a group is matched again
from the last cut that was certain before the changed row; the rows before it that PREV reads come
along. A chain holds the rows that are shown, with the values of their leaves.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from viewmill.algebra.relations import Project
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, is_float_word
from viewmill.deltas.arrow import decode_column
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.errors import EvaluationFailed, Overflow, ViewmillError
from viewmill.kernels import row_match_kernel as kernel
from viewmill.kernels.matches import MatchMaintainer
from viewmill.kernels.pattern_kernels import compiled
from viewmill.kernels.pattern_runs import NEVER, Column, Ints
from viewmill.kernels.pattern_sweep import check_narrow
from viewmill.kernels.row_function import row_function
from viewmill.program.evaluate import RowFailed, compile_rows
from viewmill.program.patterns import NOTHING
from viewmill.program.row_patterns import Condition, Leaf, RowPattern, RowPatternQueries

_KINDS = {"row": kernel.ROW, "own": kernel.OWN, "count": kernel.COUNT, "sum": kernel.SUM,
          "min": kernel.MIN, "max": kernel.MAX, "classifier": kernel.CLASSIFIER,
          "number": kernel.NUMBER}  # fmt: skip
_SKIPS = {"past": kernel.PAST, "next": kernel.NEXT, "first": kernel.FIRST, "last": kernel.LAST}
_SHOWN = {"one": kernel.ONE, "all": kernel.ALL, "omit empty": kernel.OMIT_EMPTY,
          "unmatched": kernel.UNMATCHED}  # fmt: skip


class RowMatchMaintainer(MatchMaintainer):
    """The matches of every group, as rows that are shown."""

    def __init__(self, *arguments: Any) -> None:
        (program, _, run, dictionary), body = arguments[:4], arguments[0].body
        assert isinstance(body, RowPatternQueries)
        self._pattern: RowPattern = body.pattern
        super().__init__(*arguments)
        pattern = self._pattern
        self._fields = program.body.steps.schema.fields  # of the arguments
        self._compute_tests = None
        if pattern.tests is not None:
            self._compute_tests = row_function(
                pattern.test_programs, pattern.tests, dictionary, run
            )
        self._leaves = _leaf_table(pattern.leaves)
        self._shown_leaves = _leaf_table(pattern.measured)
        self._names = [dictionary.intern(each) for each in pattern.names]
        self._conditions = np.array(
            [(each.test, each.rest is not None) for each in pattern.conditions], np.int64
        ).reshape(-1, 2)
        self._steps = _step_table(pattern)
        depends = any(each.rest is not None for each in pattern.conditions)
        self._settings = np.array(
            [_SKIPS[pattern.skip], _mask(pattern.skip_to), _SHOWN[pattern.shown],
             -1 if pattern.within is None else pattern.within, not depends, pattern.loops,
             pattern.lookback, pattern.lookahead], np.int64,
        )  # fmt: skip
        self._failure: ViewmillError | None = None
        self._match_rows = self._in_python() if depends else compiled(kernel.match_rows)

    def _measured_width(self) -> int:
        return len(self._pattern.measured)

    def _settle_at(self, groups: Ints, cuts: Ints) -> None:
        kept = self._chains.cuts
        values = (kept[name][cuts] for name in ("moment", "context", "number"))
        self.tail.go_on(groups, *values)

    # Matching.

    def _match_again(self, groups: Ints, since: Ints) -> Delta:
        """Match groups from a moment each on; what that changes."""
        if not len(groups):
            return self._empty
        self.make_room()
        cuts, gone = self._chains.cut_back(groups, since)
        removed = self._rows_of(gone)
        after, contexts, numbers, known = self._restarts(groups, cuts)
        rows, owner = self._rows_since(groups, contexts)
        if not rows.size:
            return removed.negated()
        has_rows = np.unique(owner)
        begins = np.searchsorted(owner, [*has_rows, len(groups)]).astype(np.int64)
        starts = tuple(each[has_rows] for each in (after, contexts, numbers, known))
        came = self._rows_of(self._match_groups(groups[has_rows], rows, begins, *starts))
        if not removed.size:
            return came
        return consolidate(concat(self.schema, [came, removed.negated()]))

    def _restarts(self, groups: Ints, cuts: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Where groups go on: after which moment, what they read, matches before, what is known."""
        tail, kept = self.tail, self._chains.cuts
        after, contexts = tail.moment[groups], tail.context[groups]
        numbers, known = tail.number[groups], np.full(len(groups), NEVER, np.int64)
        is_cut = cuts >= 0
        at = cuts[is_cut]
        after[is_cut], contexts[is_cut] = kept["moment"][at], kept["context"][at]
        numbers[is_cut], known[is_cut] = kept["number"][at], kept["known"][at]
        return after, contexts, numbers, known

    def _match_groups(
        self, groups: Ints, rows: Delta, begins: Ints, after: Ints, contexts: Ints, numbers: Ints,
        known: Ints,
    ) -> Ints:  # fmt: skip
        """Match the rows of groups; the new rows that are shown."""
        chains = self._chains
        matches, cuts = chains.matches, chains.cuts
        cuts.reserve(rows.size)
        moments = rows.columns[self._body.time].astype(np.int64)
        given = self._given(rows)
        met = self._tests(given, begins)
        last_match, last_cut = chains.last_match[groups], chains.last_cut[groups]
        names = ("row", "known", "match", "before", "context", "number", "span")
        found = self._match_rows(
            begins, after, (after == NEVER).astype(np.uint8), numbers, known, contexts, last_match,
            last_cut, moments, self._steps, self._conditions, met, None, self._leaves,
            self._shown_leaves, given, self._settings, matches.size,
            *(cuts[name] for name in names), cuts.size,
        )  # fmt: skip
        problem, made, size, owners, befores, integers, floats, counts = found
        self._check(problem)
        chains.last_match[groups], chains.last_cut[groups] = last_match, last_cut
        cuts["moment"][cuts.size : size] = moments[cuts["row"][cuts.size : size]]
        cuts.size = size
        matches.reserve(made)
        new = np.arange(matches.size, matches.size + made)
        matches["group"][new] = groups[owners[:made]]
        matches["before"][new] = befores[:made]
        matches["integers"][new], matches["floats"][new] = integers[:made], floats[:made]
        matches["counts"][new] = counts[:made]
        matches.size += made
        chains.note_matches(made)
        return new

    def _check(self, problem: int) -> None:
        view = self._body.view
        if problem == kernel.ERROR:
            assert self._failure is not None
            raise self._failure
        if problem == kernel.SUM_OVERFLOW:
            raise Overflow(f'a sum of view "{view}" does not fit BIGINT')
        if problem == kernel.NO_SKIP:
            raise EvaluationFailed(
                f'AFTER MATCH SKIP TO of view "{view}" goes nowhere',
                detail="The match has no row of that variable, or that is its first row.",
                hint="Skip to a variable that every match has behind its first row.",
            )
        if problem == kernel.TOO_LONG:
            raise EvaluationFailed(
                f'the pattern of view "{view}" needs too many attempts at one row',
                detail="Its conditions depend on the match so far, so each way is tried anew.",
                hint="Say WITHIN, or compare with PREV instead of other variables.",
            )

    # What is read of rows.

    def _given(self, rows: Delta) -> tuple[Any, Any, Any]:
        """The arguments of leaves: as integers, as floats, whether they are NULL."""
        found = self.compute_steps(Delta(rows.schema, rows.columns, rows.nulls, None, rows.size))
        shape = (len(self._fields), rows.size)
        integers, floats = np.zeros(shape, np.int64), np.zeros(shape)
        nulls = np.zeros(shape, np.uint8)
        computed = {each.argument for each in (*self._pattern.leaves, *self._pattern.measured)
                    if each.kind in ("sum", "min", "max")}  # fmt: skip
        for i, field in enumerate(self._fields):
            words, mask = found.pair(i)
            if i in computed:
                check_narrow(words, mask, field.type, self._body.view)
            (floats if is_float_word(field.type) else integers)[i] = words
            if mask is not None:
                nulls[i] = mask
        return integers, floats, nulls

    def _tests(self, given: Any, begins: Ints) -> Any:
        """By test and row whether it is met; NULL outside of the group."""
        size = given[0].shape[1]
        if self._compute_tests is None or self._pattern.tests is None:
            return np.zeros((0, size), np.uint8)
        integers, floats, nulls = given
        fields: list[Field] = []
        columns: list[Column] = []
        group = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
        for i, leaf in enumerate(self._pattern.tested):
            words = (floats if is_float_word(leaf.field.type) else integers)[leaf.argument]
            mask = nulls[leaf.argument]
            if leaf.shift:
                at = np.arange(size) + leaf.shift
                inside = np.clip(at, 0, max(size - 1, 0))
                is_out = (at != inside) | (group[inside] != group)
                words, mask = words[inside], np.where(is_out, np.uint8(1), mask[inside])
            fields.append(Field(f"leaf {i}", leaf.field.type, True))
            columns.append((np.ascontiguousarray(words), np.ascontiguousarray(mask)))
        if not fields:
            fields = [Field(NOTHING, BIGINT, True)]
            columns = [(np.zeros(size, np.int64), np.ones(size, np.uint8))]
        found = self._compute_tests(
            Delta(Schema(tuple(fields)), tuple(words for words, _ in columns),
                  tuple(mask if mask.any() else None for _, mask in columns), None, size)
        )  # fmt: skip
        return np.stack([each.astype(np.uint8) for each in found.columns])

    # Conditions that depend on the match so far.

    def _in_python(self) -> Callable[..., Any]:
        """The loop in Python, where closures compute conditions."""
        tests = {each.variable: _Rest(self, each) for each in self._pattern.conditions
                 if each.rest is not None}  # fmt: skip

        def holds(condition: int, *where: Any) -> int:
            return tests[condition].holds(*where)

        attempt = _with_globals(kernel.attempt, holds=holds)
        made: Callable[..., Any] = np.errstate(over="ignore", invalid="ignore")(
            _with_globals(kernel.match_rows, attempt=attempt)
        )
        return made

    def _text(self, word: int, leaf: Leaf) -> Any:
        """A word that is not a number, as Python's value."""
        field = leaf.field
        made = decode_column(np.array([word]), None, Field("", field.type, False), self._dictionary)
        return made[0].as_py() if hasattr(made[0], "as_py") else made[0]

    # Showing.

    def _rows_of(self, at: Ints) -> Delta:
        if not len(at):
            return self._empty
        matches, body = self._chains.matches, self._body
        keys = self._groups.keys(matches["group"][at])
        columns, nulls = list(keys.columns), list(keys.nulls)
        for i, leaf in enumerate(self._pattern.measured):
            is_null = (matches["counts"][at, i] <= 0).astype(np.uint8)
            if leaf.kind == "count" or leaf.kind == "number":
                is_null, words = self._counted(leaf, i, at)
            else:
                kind = "floats" if is_float_word(leaf.field.type) else "integers"
                words = np.ascontiguousarray(matches[kind][at, i])
            if leaf.kind == "classifier":
                words = np.array(self._names, np.int64)[words]
            if leaf.kind == "sum":
                check_narrow(words, is_null, leaf.field.type, body.view)
            columns.append(np.where(is_null, words.dtype.type(0), words))
            nulls.append(is_null if is_null.any() else None)
        return self._shown(Delta(body.shown, tuple(columns), tuple(nulls), None, len(at)))

    def _counted(self, leaf: Leaf, i: int, at: Ints) -> tuple[Any, Any]:
        matches = self._chains.matches
        is_null = (matches["counts"][at, i] <= 0).astype(np.uint8)
        return is_null, np.ascontiguousarray(matches["integers"][at, i])


class _Rest:
    """The part of a condition that depends on the match so far, as a closure over its leaves."""

    def __init__(self, of: RowMatchMaintainer, condition: Condition) -> None:
        assert isinstance(condition.rest, Project)
        ((_, whole),) = condition.rest.outputs
        names = list(condition.rest.input.schema.names)
        self._of, self._leaves = of, of._pattern.leaves
        (self._whole,) = compile_rows([whole], names)

    def holds(
        self, leaves: Any, row: int, start: int, begin: int, end: int, labels: Any, number: int,
        given: Any, state: Any, machine: Any,
    ) -> int:  # fmt: skip
        """1 or 0; ERROR when it has no value."""
        values = []
        for i, leaf in enumerate(self._leaves):
            word, real, is_there = kernel.value_of(
                i, leaves, row, start, row, begin, end, labels, number, given, state
            )
            values.append(self._value(leaf, word, real) if is_there else None)
        try:
            return int(self._whole(tuple(values)) is True)
        except RowFailed as why:
            self._of._failure = EvaluationFailed(why.message, span=why.span)
            return kernel.ERROR

    def _value(self, leaf: Leaf, word: int, real: float) -> Any:
        if leaf.kind == "classifier":
            return self._of._pattern.names[word]
        if is_float_word(leaf.field.type):
            return float(real)
        if leaf.field.type == BIGINT:
            return int(word)
        return self._of._text(int(word), leaf)


def _leaf_table(leaves: tuple[Leaf, ...]) -> Any:
    """Kind, variables, argument, last, offset, shift, whether a float, whether final."""
    rows = [
        (_KINDS[each.kind], _mask(each.variables), each.argument, each.is_last, each.offset,
         each.shift, is_float_word(each.field.type), each.is_final)
        for each in leaves
    ]  # fmt: skip
    return np.array(rows, np.int64).reshape(-1, 8)


def _step_table(pattern: RowPattern) -> Any:
    """The steps; those that split are numbered."""
    rows, splits = [], 0
    for operation, a, b in pattern.steps:
        rows.append((operation, a, b, splits if operation == kernel.SPLIT else 0))
        splits += operation == kernel.SPLIT
    return np.array(rows, np.int64)


def _mask(variables: tuple[int, ...]) -> int:
    return sum(1 << each for each in variables) if variables else (1 << 62) - 1


def _with_globals(function: Any, **names: Any) -> Any:
    """The function with other functions in the place of those it calls."""
    return types.FunctionType(
        function.__code__, {**function.__globals__, **names}, function.__name__,
        function.__defaults__, function.__closure__,
    )  # fmt: skip

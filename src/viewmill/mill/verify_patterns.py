"""Compare a pattern view with a plain matcher over the rows that are still there.

takes  the view's SQL text, parsed again; the rows of its table
does   DuckDB tests each row against each condition and aggregates the rows of matches; plain loops
       over lists deal rows to variables
gives  the rows that the view should show

Nothing here is shared with what maintains patterns: neither their lowering, nor automata, chains or
generated source. What came before the rows that are left cannot be computed again and is taken as
the view has it: matches that stay, runs that began there, the last row of a group.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sqlglot import exp

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, Nested
from viewmill.deltas.arrow import encode_columns
from viewmill.deltas.delta import Delta, concat
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.pattern_snapshots import RunsLayout, match_tables
from viewmill.mill.verify import aggregates_floats
from viewmill.program.patterns import PatternQueries
from viewmill.sql.dialect import suffixes_of
from viewmill.sql.lower import lower
from viewmill.sql.lower_parts import PartCatalog
from viewmill.sql.parse import parse
from viewmill.sql.parse_match import PatternSuffix, Semantics, as_sequence
from viewmill.sql.statements import CreateMaterializedView, CreateView

_ROWS = "rows to verify"
_MATCHED = "matches to verify"


class Dealt(NamedTuple):
    """A match: where it starts and ends in its group, and the variable of each of its rows."""

    start: int  # -1: before the rows that are left
    end: int  # behind its last row
    variables: list[int]


@dataclass(frozen=True)
class Rule:
    """What a row must meet to be of a variable; `first`: only the first row of it."""

    variable: int
    condition: exp.Expr
    first: bool


class WrittenPattern:
    """A pattern query as its text says it."""

    def __init__(self, sql: str, schema: Schema, time: str) -> None:
        self.time = time
        (statement,) = parse(sql)
        assert isinstance(statement, CreateMaterializedView | CreateView)
        select = statement.query
        assert isinstance(select, exp.Select)
        self.sql, self.select, self.schema = sql, select, schema
        self.match: exp.MatchRecognize | None = select.args.get("match")
        pattern = self._pattern()
        self.names = [each.name.lower() for each in pattern.expressions]
        self.plus = [bool(each.args["plus"]) for each in pattern.expressions]
        self.rules = list(self._defined() if self.match is not None else self._demanded())
        if self.match is not None:
            groups = self.match.args.get("partition_by") or []
        else:
            groups = getattr(select.args.get("group"), "expressions", [])
        self.keys = [self._place(each.name) for each in groups]

    def _pattern(self) -> PatternSuffix:
        if self.match is not None:
            found = as_sequence(self.match.args["pattern"])
            assert found is not None
            return found
        (suffix,) = suffixes_of(self.select.args["from_"].this)
        assert isinstance(suffix, PatternSuffix)
        return suffix

    def _place(self, column: str) -> int:
        found = self.schema.find(column)
        assert found is not None
        return found

    # Conditions.

    def _defined(self) -> Iterator[Rule]:
        assert self.match is not None
        for each in self.match.args.get("define") or []:
            at = self.names.index(each.alias.lower())
            yield Rule(at, self._of_rows(each.this, at), first=False)

    def _demanded(self) -> Iterator[Rule]:
        where = self.select.args.get("where")
        for each in [] if where is None else _conjuncts(where.this):
            tables = {column.table.lower() for column in each.find_all(exp.Column)} - {""}
            about = sorted(self.names.index(table) for table in tables)
            for at in about[-1:] or range(len(self.names)):
                yield Rule(at, self._of_rows(each, at), first=len(about) == 2)

    def _of_rows(self, condition: exp.Expr, at: int) -> exp.Expr:
        """The condition over the columns of a row and of the row before it."""

        def changed(node: exp.Expr, is_before: bool) -> exp.Expr:
            if isinstance(node, exp.Anonymous) and str(node.this).upper() == "PREV":
                return exp.Paren(this=changed(node.expressions[0], True))
            if isinstance(node, exp.Column):
                other = bool(node.table) and node.table.lower() != self.names[at]
                return _column("p" if is_before or other else "c", self._place(node.name))
            made = node.copy()
            for key, value in node.args.items():
                if isinstance(value, exp.Expr):
                    made.set(key, changed(value, is_before))
                elif isinstance(value, list):
                    made.set(key, [changed(v, is_before) if isinstance(v, exp.Expr) else v
                                   for v in value])  # fmt: skip
            return made

        return changed(condition, False)

    # What is shown.

    def shown(self) -> exp.Select:
        """The query over the rows of matches, by match; of PATTERN its number comes last."""
        if self.match is None:
            outputs, having = self.select.expressions, self.select.args.get("having")
        else:
            outputs = [exp.column(self.schema[i].name, quoted=True) for i in self.keys]
            outputs += self.match.args.get("measures") or []
            having = None
        number = exp.column("match", quoted=True)
        shown = [self._named(each) for each in outputs]
        made = exp.select(*shown, *([number] if self.match is None else [])).from_(
            exp.Table(this=exp.to_identifier(_MATCHED, quoted=True))
        )
        made = made.group_by(number.copy(), *(_column("c", i) for i in self.keys))
        if having is not None:
            made = made.having(self._measured(having.this))
        if self.match is None:
            return made
        return self._outer(made)

    def _outer(self, inner: exp.Select) -> exp.Select:
        assert self.match is not None
        outer = self.select.copy()
        outer.set("match", None)
        alias = self.match.args.get("alias")
        name = self.select.args["from_"].this.name
        under = alias.copy() if alias is not None else exp.TableAlias(
            this=exp.to_identifier(name, quoted=True))  # fmt: skip
        outer.set("from_", exp.From(this=exp.Subquery(this=inner, alias=under)))
        return outer

    def _named(self, output: exp.Expr) -> exp.Expr:
        made = self._measured(output)
        if isinstance(made, exp.Alias):
            return made
        return exp.alias_(made, output.output_name or output.sql(), quoted=True)

    def _measured(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, Semantics):  # of one row for each match, both are of its last row
            return self._measured(node.this)
        if isinstance(node, exp.AggFunc):
            return self._aggregate(node)
        if isinstance(node, exp.Column):
            place = self._place(node.name)
            if place in self.keys and (not node.table or self.match is None):
                return _column("c", place)
            return self._picked(node, 0, from_end=True)  # a column of a variable: its last row
        made = node.copy()
        for key, value in node.args.items():
            if isinstance(value, exp.Expr):
                made.set(key, self._measured(value))
            elif isinstance(value, list):
                each = [self._measured(v) if isinstance(v, exp.Expr) else v for v in value]
                made.set(key, each)
        return made

    def _aggregate(self, call: exp.AggFunc) -> exp.Expr:
        argument = call.this
        if isinstance(call, exp.First | exp.Last | exp.FirstValue | exp.LastValue):
            offset = call.args.get("expression")
            back = isinstance(call, exp.Last | exp.LastValue)
            return self._picked(argument, 0 if offset is None else int(offset.name), from_end=back)
        own, value = self._scoped(argument)
        if isinstance(argument, exp.Star | exp.Literal) or isinstance(argument.this, exp.Star):
            value = exp.Literal.number(1)
        made = call.copy()
        made.set("this", value if own is None else _when(_is(own, "variable"), value))
        return made

    def _picked(self, argument: exp.Expr, offset: int, *, from_end: bool) -> exp.Expr:
        """The value of one row of a match: at most one is not NULL, so MAX is that one."""
        own, value = self._scoped(argument)
        place = ("end" if from_end else "start") + (" of all" if own is None else "")
        test = _is(offset, place)
        if own is not None:
            test = exp.and_(test, _is(own, "variable"))
        return exp.Max(this=_when(test, value))

    def _scoped(self, argument: exp.Expr) -> tuple[int | None, exp.Expr]:
        """The variable that an argument is of, and the argument over the columns of a row."""
        holder = exp.Paren(this=argument.copy())
        own: int | None = None
        for column in list(holder.find_all(exp.Column)):
            if column.table:
                own = self.names.index(column.table.lower())
            if not isinstance(column.this, exp.Star):
                column.replace(_column("c", self._place(column.name)))
        found: exp.Expr = holder.this
        return own, found


def _conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        return [*_conjuncts(condition.this), *_conjuncts(condition.expression)]
    return [condition]


def _column(kind: str, place: int) -> exp.Column:
    return exp.column(f"{kind}{place}", quoted=True)


def _is(value: int, name: str) -> exp.Expr:
    return exp.EQ(this=exp.column(name, quoted=True), expression=exp.Literal.number(value))


def _when(test: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=test, true=value)])


class Checker:
    """Finds what a pattern view should show of rows that are in order."""

    def __init__(self, core: Core, entry: ViewEntry) -> None:
        self._core = core
        (input_,) = entry.plan.program.inputs
        self._schema = input_.schema
        body = entry.plan.program.body
        assert isinstance(body, PatternQueries)
        at = body.time
        self.written = WrittenPattern(entry.sql, self._schema, self._schema[at].name)

    def tests(
        self, rows: pa.Table, starts: Sequence[int], before: Mapping[int, Sequence[Any]]
    ) -> tuple[list[list[bool]], list[list[bool]]]:
        """For each row and variable whether it may be its first row, and whether a later one.

        Groups begin at `starts`; `before` has the values of the rows before them, by column.
        """
        size = rows.num_rows
        previous = [i - 1 for i in range(size)]
        first = dict(zip(starts, range(len(starts)), strict=True))
        columns: dict[str, Any] = {f"c{i}": rows.column(i) for i in range(rows.num_columns)}
        for i in range(rows.num_columns):
            values = rows.column(i).to_pylist()
            known = before.get(i)
            moved = [
                (known[first[r]] if known is not None else None) if r in first else values[p]
                for r, p in enumerate(previous)
            ]
            columns[f"p{i}"] = pa.array(moved, rows.column(i).type)
        columns["row"] = pa.array(range(size), pa.int64())
        found = self._run(
            exp.select(
                exp.column("row", quoted=True),
                *(exp.alias_(_when(each.condition, exp.true()), f"r{i}", quoted=True)
                  for i, each in enumerate(self.written.rules)),
            ).from_(exp.Table(this=exp.to_identifier(_ROWS, quoted=True))),
            {_ROWS: (self._both(), pa.table(columns))},
        )  # fmt: skip
        order = found.column(0).to_pylist()
        met = [found.column(1 + i).to_pylist() for i in range(len(self.written.rules))]
        enter = [[True] * len(self.written.names) for _ in range(size)]
        stay = [list(self.written.plus) for _ in range(size)]
        for place, row in enumerate(order):
            for values, rule in zip(met, self.written.rules, strict=True):
                if values[place] is not True:
                    enter[row][rule.variable] = False
                    stay[row][rule.variable] = stay[row][rule.variable] and rule.first
        return enter, stay

    def _both(self) -> Schema:
        fields = [replace(f, name=f"c{i}", nullable=True) for i, f in enumerate(self._schema)]
        fields += [replace(f, name=f"p{i}", nullable=True) for i, f in enumerate(self._schema)]
        return Schema((*fields, Field("row", BIGINT, False)))

    def shown(self, rows: pa.Table, matches: Sequence[Dealt]) -> Any:
        """What the view says of matches, whose places are rows of the table."""
        at: list[int] = []
        more: dict[str, list[int]] = {
            name: [] for name in ("match", "variable", "start", "end", "start of all", "end of all")
        }
        for number, match in enumerate(matches):
            size = len(match.variables)
            for i, variable in enumerate(match.variables):
                at.append(match.start + i)
                own = [j for j, each in enumerate(match.variables) if each == variable]
                values = (number, variable, own.index(i), len(own) - 1 - own.index(i), i,
                          size - 1 - i)  # fmt: skip
                for name, value in zip(more, values, strict=True):
                    more[name].append(value)
        taken = rows.take(pa.array(at, pa.int64()))
        columns: dict[str, Any] = {f"c{i}": taken.column(i) for i in range(taken.num_columns)}
        columns |= {name: pa.array(values, pa.int64()) for name, values in more.items()}
        fields = [replace(f, name=f"c{i}") for i, f in enumerate(self._schema)]
        fields += [Field(name, BIGINT, False) for name in more]
        return self._run(
            self.written.shown(), {_MATCHED: (Schema(tuple(fields)), pa.table(columns))}
        )

    def _run(self, query: exp.Select, tables: Mapping[str, tuple[Schema, pa.Table]]) -> Any:
        catalog = PartCatalog(self._core.catalog, {n: schema for n, (schema, _) in tables.items()})
        relation = lower(query, self.written.sql, catalog)
        engine, given = self._core.local_engine, {n: each for n, (_, each) in tables.items()}
        if aggregates_floats(relation):
            return engine.run_exactly(relation, given)
        return engine.run(relation, given)


# Dealing rows to variables.


def every_match(enter: Sequence[Sequence[bool]], stay: Sequence[Sequence[bool]]) -> list[Dealt]:
    """MATCH_RECOGNIZE over a group: the leftmost match, each variable as long as it can, then on.

    From the last row back it is known for each row and variable where the best match ends.
    """
    size, width = len(enter), len(enter[0]) if enter else 0
    # By row and variable, for the first row of it and for a later one.
    ends: list[list[tuple[int | None, int | None]]] = [[(None, None)] * width]
    for row in range(size - 1, -1, -1):
        after, found = ends[-1], []
        for variable in range(width):
            end = after[variable][1]
            if end is None and variable + 1 < width:
                end = after[variable + 1][0]
            if end is None and variable + 1 == width:
                end = row + 1
            found.append((end if enter[row][variable] else None,
                          end if stay[row][variable] else None))  # fmt: skip
        ends.append(found)
    ends.reverse()
    matches, start = [], 0
    while start < size:
        end = ends[start][0][0]
        if end is None:
            start += 1
            continue
        variables, variable = [0], 0
        for row in range(start + 1, end):
            if ends[row][variable][1] is None:
                variable += 1
            variables.append(variable)
        matches.append(Dealt(start, end, variables))
        start = end
    return matches


def match_at(
    enter: Sequence[Sequence[bool]],
    stay: Sequence[Sequence[bool]],
    ends: Sequence[int],
    known: Mapping[int, int],
) -> dict[int, Dealt]:
    """PATTERN over a group: for some last rows the match with the earliest start.

    `known` are runs that began before the rows, by variable: how many rows each has.
    """
    wanted, width = set(ends), len(enter[0]) if enter else 0
    # By variable: the start of the run, and the variables of its rows since, the last one first.
    runs: dict[int, tuple[int, Any]] = {v: (-rows, None) for v, rows in known.items()}
    found = {}
    for row in range(len(enter)):
        after: dict[int, tuple[int, Any]] = {}
        for variable in range(width):
            kept = runs.get(variable) if stay[row][variable] else None
            if enter[row][variable]:
                come = runs.get(variable - 1) if variable else (row, None)
                if come is not None and (kept is None or come[0] < kept[0]):
                    kept = come
            if kept is not None:
                after[variable] = (kept[0], (variable, kept[1]))
        runs = after
        if row in wanted and width - 1 in runs:
            start, chain = runs[width - 1]
            variables = []
            while chain is not None:
                variables.append(chain[0])
                chain = chain[1]
            found[row] = Dealt(start, row + 1, variables[::-1])
    return found


# Both kinds of view.


def expected_matches(core: Core, entry: ViewEntry) -> Delta:
    """What an automaton should show: matches that stay, and those of the rows left."""
    maintainer: Any = entry.block.maintainer
    checker = Checker(core, entry)
    tables = match_tables(maintainer, core.dictionary, entry.plan.program)
    width = len(checker.written.keys)
    ended = tables[2].to_pylist() if tables else []
    moments = {group_key(list(row.values())[:width]): list(row.values())[width] for row in ended}
    known = {
        group_key(list(row.values())[:width]): list(row.values())[width + 1 :] for row in ended
    }
    pieces = [maintainer.tail.rows, *rows_from(core, entry, maintainer.tail.end)]
    rows = _ordered(core, checker.written, pieces, moments)
    before = {}
    for j, i in enumerate(entry.plan.program.body.read_before):  # type: ignore[union-attr]
        before[i] = [known[key][j] if key in known else None for key in rows.keys]
    enter, stay = checker.tests(rows.table, rows.starts, before)
    found = []
    for low, high in rows.groups():
        for match in every_match(enter[low:high], stay[low:high]):
            found.append(Dealt(low + match.start, low + match.end, match.variables))
    shown = encode_columns(entry.schema, checker.shown(rows.table, found), core.dictionary)
    settled = maintainer.settled()
    stays = settled.take(settled.multiplicities() > 0)  # a row that lacks is not made up for
    return concat(entry.schema, [stays, shown])


def expected_parts(core: Core, entry: ViewEntry) -> dict[int, Delta]:
    """What the parts of a PATTERN view should show, as far as they can be computed again."""
    maintainer: Any = entry.block.maintainer
    checker = Checker(core, entry)
    limit, carried = maintainer.carried()
    first = limit if limit is not None else entry.since
    known, lasts = _carried(core, entry, carried)
    rows = _ordered(core, checker.written, list(rows_from(core, entry, first)))
    before = {}
    for j, i in enumerate(entry.plan.program.body.read_before):  # type: ignore[union-attr]
        before[i] = [lasts[key][j] if key in lasts else None for key in rows.keys]
    enter, stay = checker.tests(rows.table, rows.starts, before)
    subscripts = [maintainer.source.part_of(moment) for moment in rows.moments]
    oldest = maintainer.source.oldest_shown()
    found: list[tuple[int, Dealt]] = []
    taken: dict[int, list[int]] = {}
    for (low, high), key in zip(rows.groups(), rows.keys, strict=True):
        parts = [*subscripts[low:high], None]
        ends = [r for r in range(high - low) if parts[r + 1] != parts[r]]
        matches = match_at(enter[low:high], stay[low:high], ends, known.get(key, {}))
        for row, match in matches.items():
            part = subscripts[low + row]
            if oldest is not None and part < oldest:
                continue
            if match.start < 0:
                taken.setdefault(part, []).append(low)
            else:
                found.append((part, match._replace(start=low + match.start)))
    return _by_part(core, entry, checker, rows, found, taken)


def _by_part(
    core: Core, entry: ViewEntry, checker: Checker, rows: OrderedRows,
    found: list[tuple[int, Dealt]], taken: Mapping[int, list[int]],
) -> dict[int, Delta]:  # fmt: skip
    maintainer: Any = entry.block.maintainer
    result = checker.shown(rows.table, [match for _, match in found])
    width = result.num_columns - 1
    numbers = result.column(width).to_pylist()
    shown = encode_columns(entry.schema, result.select(range(width)), core.dictionary)
    places: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        places.setdefault(found[number][0], []).append(place)
    made = {part: [shown.take(np.array(at, np.int64))] for part, at in places.items()}
    keys = Schema(tuple(checker.written.schema[i] for i in checker.written.keys))
    for part, at in taken.items():
        chosen = rows.table.take(pa.array(at, pa.int64())).select(checker.written.keys)
        named = chosen.rename_columns(keys.names)
        own = encode_columns(keys, named, core.dictionary) if len(keys) else (
            Delta(keys, (), (), None, len(at)))  # fmt: skip
        made.setdefault(part, []).append(maintainer.rows_of_groups(part, own))
    return {part: concat(entry.schema, pieces) for part, pieces in made.items()}


def _carried(
    core: Core, entry: ViewEntry, carried: Sequence[Any]
) -> tuple[dict[Any, dict[int, int]], dict[Any, list[Any]]]:
    """By group: the variables of runs and how many rows each has; the values of the last row."""
    layout = RunsLayout(core.dictionary, entry.plan.program)
    width = len(entry.plan.program.body.keys)  # type: ignore[union-attr]
    runs: dict[Any, dict[int, int]] = {}
    lasts: dict[Any, list[Any]] = {}
    for each in carried:
        at = 0
        phases, sizes = each.runs.phase.tolist(), each.runs.rows.tolist()
        for row in layout.groups(each).to_pylist():
            _, count, *values = row.values()
            key = group_key(values[:width])
            lasts[key] = values[width:]
            runs[key] = {phases[i] - 1: sizes[i] for i in range(at, at + count)}
            at += count
    return runs, lasts


def rows_from(core: Core, entry: ViewEntry, first: int | None) -> Iterator[Delta]:
    """The rows that a pattern reads: those of the parts from one on, or all of a view."""
    (input_,), body = entry.plan.program.inputs, entry.plan.program.body
    assert isinstance(body, PatternQueries)
    if body.own_parts:
        yield core.contents(input_.source)
        return
    source = core.catalog.table(input_.source).table.parts
    assert source is not None
    low, high = source.first_part(), source.newest_part()
    if low is not None and high is not None:
        for part in source.parts_within(low if first is None else max(low, first), high):
            yield source.part(part)


def group_key(values: Sequence[Any]) -> Any:
    return tuple("NaN" if each != each else each for each in values)


class OrderedRows:
    """Rows by group and time; rows of one moment by their other values, NULL first."""

    def __init__(
        self, core: Core, schema: Schema, time_name: str, keys_at: Sequence[int],
        pieces: Sequence[Delta], after: Mapping[Any, int] = types.MappingProxyType({}),
        ties: Sequence[tuple[str, bool]] = (),
    ) -> None:  # fmt: skip
        """`after` says from which moment on rows of a group count; `ties` are ordered by first."""
        whole = expanded(concat(schema, [Delta.empty(schema), *pieces]), core.dictionary)
        columns = [whole.column(i).to_pylist() for i in range(whole.num_columns)]
        (time,) = [i for i, each in enumerate(schema) if each.name == time_name]
        others = [i for i, each in enumerate(schema) if not isinstance(each.type, Nested)]
        by = [(i, False) for i in (*keys_at, time)]
        for name, descending in ties:
            at = schema.find(name)
            assert at is not None
            by.append((at, descending))
        by += [(i, False) for i in others]
        moments = _moments(whole.column(time))
        keys = [group_key([columns[i][row] for i in keys_at]) for row in range(whole.num_rows)]
        left = [r for r, key in enumerate(keys) if key not in after or moments[r] > after[key]]
        order = left
        for i, descending in reversed(by):  # sorting is stable
            ranks = [_rank(each) for each in columns[i]]
            order = sorted(order, key=ranks.__getitem__, reverse=descending)
        self.table = whole.take(pa.array(order, pa.int64()))
        self.moments = [moments[row] for row in order]
        named = [keys[row] for row in order]
        self.starts = [r for r in range(len(named)) if not r or named[r] != named[r - 1]]
        self.keys = [named[start] for start in self.starts]

    def groups(self) -> Iterator[tuple[int, int]]:
        """Where the rows of each group start and end."""
        return zip(self.starts, [*self.starts[1:], self.table.num_rows], strict=False)


def _rank(value: Any) -> tuple[Any, ...]:
    """NULL comes first, NaN last."""
    is_number = value is not None and value == value
    return (value is not None, value is not None and value != value, value if is_number else "")


def _ordered(
    core: Core, written: WrittenPattern, pieces: Sequence[Delta],
    after: Mapping[Any, int] = types.MappingProxyType({}),
) -> OrderedRows:  # fmt: skip
    return OrderedRows(core, written.schema, written.time, written.keys, pieces, after)


def _moments(times: Any) -> list[int]:
    """Times as the table counts them."""
    is_date = pa.types.is_date(times.type)
    found: list[int] = times.cast(pa.int32() if is_date else pa.int64()).to_pylist()
    return found

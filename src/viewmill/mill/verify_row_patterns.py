"""Compare MATCH_RECOGNIZE with a matcher that reads its pattern as it is written.

takes  the view's SQL text, parsed again; the rows of its table
does   plain loops over lists go through the tree of the pattern; DuckDB computes what is read of
       rows, each condition and each measure
gives  the rows that the view should show

Nothing here is shared with what maintains the view: neither its lowering, nor steps, chains or the
loop that matches. A condition that depends on the match so far is asked of DuckDB together with all
others that are waiting; then the attempts are made again with the answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any, NamedTuple

import pyarrow as pa
from sqlglot import exp

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, STRING, Float
from viewmill.deltas.arrow import encode_columns
from viewmill.deltas.arrow_types import arrow_type
from viewmill.deltas.delta import Delta, concat
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.pattern_snapshots import match_tables
from viewmill.mill.verify_patterns import OrderedRows, group_key, rows_from
from viewmill.sql.intervals import lower_interval
from viewmill.sql.lower import lower
from viewmill.sql.lower_parts import PartCatalog
from viewmill.sql.parse import parse
from viewmill.sql.parse_match import PatternNode, RowPatternMatch, Semantics
from viewmill.sql.statements import CreateMaterializedView, CreateView

_TABLE = "rows to verify"
_DAY = 86_400_000_000
_KINDS: dict[type[exp.Expr], str] = {
    exp.Count: "count", exp.Sum: "sum", exp.Min: "min", exp.Max: "max"
}  # fmt: skip


@dataclass(frozen=True)
class Read:
    """What an expression reads of a match: the value of a row, an aggregate, a name, a number."""

    kind: str
    names: frozenset[str]  # empty: all
    argument: int = -1
    is_last: bool = True
    offset: int = 0
    shift: int = 0
    is_final: bool = False

    def is_near(self, name: str) -> bool:
        """Whether it is of a row at a fixed distance from a row that is `name`."""
        own = self.kind == "row" and self.is_last and not self.offset
        return own and (not self.names or name in self.names)


class Unknown(Exception):
    """DuckDB is to be asked first."""


class Found(NamedTuple):
    """A match: where it starts, and of each row the variable and whether it is hidden."""

    start: int
    labels: list[tuple[str, bool]]


@dataclass
class Written:
    """The clause as it is written, with what its expressions read."""

    sql: str
    match: RowPatternMatch
    select: exp.Select
    schema: Schema
    reads: list[Read] = field(default_factory=list)
    arguments: list[exp.Expr] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.subsets = {
            each.args["variable"].name.lower(): frozenset(m.name.lower() for m in each.expressions)
            for each in self.match.args.get("subsets") or []
        }
        self.shown: str = self.match.args["rows"]
        self.keys = [each.name for each in self.match.args.get("partition_by") or []]
        self.conditions: list[tuple[str, exp.Expr]] = []
        for each in self.match.args.get("define") or []:
            self.conditions += [(each.alias.lower(), self.read(c)) for c in _conjuncts(each.this)]
        self.measures = [(each.alias, self.read(each.this))
                         for each in self.match.args.get("measures") or []]  # fmt: skip

    def names(self, name: str) -> frozenset[str]:
        """The variables that a name stands for."""
        return (
            frozenset() if not name else self.subsets.get(name.lower(), frozenset([name.lower()]))
        )

    # Expressions over what is read.

    def read(self, node: exp.Expr, is_final: bool = False) -> exp.Expr:
        """The expression over columns r0, r1, ...: what it reads of a match."""
        if isinstance(node, Semantics):
            return self.read(node.this, bool(node.args["final"]))
        if isinstance(node, exp.Avg):
            pair = [self._aggregate(kind, node, is_final) for kind in ("sum", "count")]
            zero = exp.Literal.number(0)
            return exp.Paren(this=exp.Div(this=pair[0], expression=exp.Nullif(
                this=pair[1], expression=zero)))  # fmt: skip
        if type(node) in _KINDS:
            return self._aggregate(_KINDS[type(node)], node, is_final)
        call = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
        if call == "match_number":
            return self._column(Read("number", frozenset()))
        is_row = isinstance(
            node, exp.First | exp.Last | exp.FirstValue | exp.LastValue | exp.Column
        )
        if is_row or call in ("prev", "next", "classifier"):
            return self._column(replace(self._row(node), is_final=is_final))
        made = node.copy()
        for key, value in node.args.items():
            if isinstance(value, exp.Expr):
                made.set(key, self.read(value, is_final))
            elif isinstance(value, list):
                made.set(key, [self.read(v, is_final) if isinstance(v, exp.Expr) else v
                               for v in value])  # fmt: skip
        return made

    def _column(self, read: Read) -> exp.Expr:
        if read not in self.reads:
            self.reads.append(read)
        return _quoted(f"r{self.reads.index(read)}")

    def _aggregate(self, kind: str, call: exp.Expr, is_final: bool) -> exp.Expr:
        value = call.this
        names = self._variables(value)
        if kind == "count" and (
            isinstance(value, exp.Star | exp.Literal) or isinstance(value.this, exp.Star)
        ):
            return self._column(Read(kind, names, is_final=is_final))
        return self._column(Read(kind, names, self._argument(value), is_final=is_final))

    def _row(self, node: exp.Expr) -> Read:
        if isinstance(node, exp.First | exp.Last | exp.FirstValue | exp.LastValue):
            offset = node.args.get("expression")
            is_last = isinstance(node, exp.Last | exp.LastValue)
            by = 0 if offset is None else int(offset.name)
            return replace(self._row(node.this), is_last=is_last, offset=by)
        call = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
        if call in ("prev", "next"):
            inner, *rest = node.expressions
            by = int(rest[0].name) if rest else 1
            return replace(self._row(inner), shift=-by if call == "prev" else by)
        if call == "classifier":
            name = node.expressions[0].name if node.expressions else ""
            return Read("classifier", self.names(name))
        return Read("row", self._variables(node), self._argument(node))

    def _variables(self, node: exp.Expr) -> frozenset[str]:
        found = [self.names(each.table) for each in node.find_all(exp.Column)]
        return found[0] if found else frozenset()

    def _argument(self, node: exp.Expr) -> int:
        holder = exp.Paren(this=node.copy())
        for column in list(holder.find_all(exp.Column)):
            at = self.schema.find(column.name)
            assert at is not None
            column.replace(_quoted(f"c{at}"))
        if holder.this not in self.arguments:
            self.arguments.append(holder.this)
        return self.arguments.index(holder.this)


class Group:
    """The rows of one group, and what is known of them."""

    def __init__(self, low: int, high: int, start: int, number: int, is_whole: bool) -> None:
        self.low, self.high, self.start = low, high, start
        self.number, self.is_whole = number, is_whole


class Matcher:
    """Goes through the tree of a pattern, row by row."""

    def __init__(
        self, written: Written, moments: Sequence[int], values: Sequence[list[Any]]
    ) -> None:
        self.written, self._moments, self._values = written, moments, values
        self._within = self._length_within()
        self.conditions: dict[str, list[int]] = {}
        for i, (name, _) in enumerate(written.conditions):
            self.conditions.setdefault(name, []).append(i)
        self.used = [self._reads_of(each) for _, each in written.conditions]
        self.answers: dict[tuple[Any, ...], bool] = {}
        self.questions: dict[tuple[Any, ...], list[Any]] = {}
        self._is_near = all(
            written.reads[r].is_near(name)
            for (name, _), reads in zip(written.conditions, self.used, strict=True) for r in reads
        )  # fmt: skip
        self._todo: dict[tuple[Any, int], tuple[int, Any, Any]] = {}

    def _length_within(self) -> int | None:
        node = self.written.match.args.get("within")
        return None if node is None else int(lower_interval(node.this, None).value[1])  # type: ignore[index]

    def _reads_of(self, node: exp.Expr) -> list[int]:
        return [int(each.name[1:]) for each in node.find_all(exp.Column)]

    def matches(self, group: Group) -> Iterator[tuple[Found | None, int, int]]:
        """Each attempt: the match or None, its start and its number."""
        at, number = group.start, group.number
        failed: set[tuple[int, int]] = set()
        while at < group.high:
            if self._within is not None:
                failed = set()
            labels = self._attempt(group, at, number + 1, failed)
            if labels is None:
                yield None, at, number
                at += 1
                continue
            number, failed = number + 1, set()
            yield Found(at, labels), at, number
            at = self._following(at, labels)

    def _following(self, at: int, labels: list[tuple[str, bool]]) -> int:
        kind = self.written.match.args["after"]
        if not labels or kind == "next":
            return at + 1
        if kind == "past":
            return at + len(labels)
        wanted = self.written.names(self.written.match.args["skip_to"].name)
        places = [i for i, (name, _) in enumerate(labels) if name in wanted]
        return at + places[0 if kind == "first" else -1]

    def _then(self, item: Any, rest: Any) -> Any:
        """What is to be done, one thing before the rest; equal lists are one object."""
        key = (item if isinstance(item, tuple) else id(item), 0 if rest is None else rest[0])
        found = self._todo.get(key)
        if found is None:
            found = self._todo[key] = (len(self._todo) + 1, item, rest)
        return found

    def _attempt(
        self, group: Group, start: int, number: int, failed: set[tuple[int, int]]
    ) -> list[tuple[str, bool]] | None:
        # A state: what is to be done, the row, whether rows are hidden; the labels behind it.
        waiting: list[tuple[Any, int, bool, Any]] = [
            (self._then(self.written.match.args["pattern"], None), start, False, None)
        ]
        while waiting:
            todo, row, hidden, labels = waiting.pop()
            if self._is_near and todo is not None:
                if (todo[0], row) in failed:
                    continue
                failed.add((todo[0], row))
            if todo is None:
                return _listed(labels)
            _, item, rest = todo
            for way in reversed(self._ways(group, start, number, item, rest, row, hidden, labels)):
                waiting.append(way)
        return None

    def _ways(
        self, group: Group, start: int, number: int, item: Any, rest: Any, row: int, hidden: bool,
        labels: Any,
    ) -> list[tuple[Any, int, bool, Any]]:  # fmt: skip
        """What may be done next, the preferred first."""
        if isinstance(item, tuple):
            return self._rounds(item, rest, row, hidden, labels)
        match item.args["this"]:
            case "variable":
                name = item.args["variable"].name.lower()
                more = (name, hidden, labels)
                fits = row < group.high and self._fits(group, start, number, name, row, more)
                return [(rest, row + 1, hidden, more)] if fits else []
            case "start":
                is_first = group.is_whole and row == group.low
                return [(rest, row, hidden, labels)] if is_first else []
            case "end":
                return [(rest, row, hidden, labels)] if row == group.high else []
            case "choice":
                return [(self._then(e, rest), row, hidden, labels) for e in item.expressions]
            case "permute":
                return [(self._all(order, rest), row, hidden, labels)
                        for order in permutations(item.expressions)]  # fmt: skip
            case "exclude":
                after = self._then(("hidden", hidden), rest)
                return [(self._all(item.expressions, after), row, True, labels)]
            case "repeat":
                times = ("times", id(item), item.args["low"], item.args.get("high"))
                self._repeats[id(item)] = item
                return [(self._then(times, rest), row, hidden, labels)]
            case _:
                return [(self._all(item.expressions, rest), row, hidden, labels)]

    @property
    def _repeats(self) -> dict[int, PatternNode]:
        return self.__dict__.setdefault("_nodes", {})  # type: ignore[no-any-return]

    def _all(self, items: Sequence[Any], rest: Any) -> Any:
        for each in reversed(items):
            rest = self._then(each, rest)
        return rest

    def _rounds(
        self, item: tuple[Any, ...], rest: Any, row: int, hidden: bool, labels: Any
    ) -> list[tuple[Any, int, bool, Any]]:
        if item[0] == "hidden":
            return [(rest, row, item[1], labels)]
        if item[0] == "moved":  # of any number of rounds, each takes a row
            return [(rest, row, hidden, labels)] if row > item[1] else []
        _, node, low, high = item
        (inner,) = self._repeats[node].expressions
        fewer = ("times", node, max(low - 1, 0), None if high is None else high - 1)
        if low:
            return [(self._all([inner, fewer], rest), row, hidden, labels)]
        if high == 0:
            return [(rest, row, hidden, labels)]
        moved = [("moved", row)] if high is None else []
        on = (self._all([inner, *moved, fewer], rest), row, hidden, labels)
        out = (rest, row, hidden, labels)
        return [out, on] if self._repeats[node].args["reluctant"] else [on, out]

    # Conditions.

    def _fits(
        self, group: Group, start: int, number: int, name: str, row: int, labels: Any
    ) -> bool:
        if self._within is not None:
            unit = _DAY if self._is_days else 1
            if (self._moments[row] - self._moments[start]) * unit > self._within:
                return False
        for i in self.conditions.get(name, ()):
            reads = [self.written.reads[r] for r in self.used[i]]
            if all(each.is_near(name) for each in reads):
                values = [self._at(group, each, row + each.shift) for each in reads]
            else:
                known = _listed(labels)
                values = [self.value(group, each, Found(start, known), number, row)
                          for each in reads]  # fmt: skip
            key = (i, *("NaN" if v != v else (type(v), v) if _is_plain(v) else repr(v)
                        for v in values))  # fmt: skip
            if key not in self.answers:
                self.questions[key] = values
                raise Unknown
            if not self.answers[key]:
                return False
        return True

    _is_days = False

    def ask_for_days(self, is_days: bool) -> None:
        """Whether moments count days."""
        self._is_days = is_days

    def near_questions(self, groups: Sequence[Group]) -> None:
        """Ask all that is known to be asked: conditions on rows at fixed distances."""
        for i, (name, _) in enumerate(self.written.conditions):
            reads = [self.written.reads[r] for r in self.used[i]]
            if not all(each.is_near(name) for each in reads):
                continue
            for group in groups:
                for row in range(group.low, group.high):
                    values = [self._at(group, each, row + each.shift) for each in reads]
                    key = (i, *("NaN" if v != v else (type(v), v) if _is_plain(v) else repr(v)
                                for v in values))  # fmt: skip
                    self.questions[key] = values

    def _at(self, group: Group, read: Read, row: int) -> Any:
        inside = group.low <= row < group.high
        return self._values[read.argument][row] if inside else None

    def value(self, group: Group, read: Read, found: Found, number: int, row: int) -> Any:
        """What is read of a match, seen from a row of it."""
        if read.kind == "number":
            return number
        last = min(row, found.start + len(found.labels) - 1)
        places = [p for p in range(found.start, last + 1)
                  if not read.names or found.labels[p - found.start][0] in read.names]  # fmt: skip
        if read.kind in ("row", "classifier"):
            if len(places) <= read.offset:
                return None
            at = places[-1 - read.offset if read.is_last else read.offset] + read.shift
            if read.kind == "row":
                return self._at(group, read, at)
            inside = 0 <= at - found.start < len(found.labels)
            return self.spelled[found.labels[at - found.start][0]] if inside else None
        if read.argument < 0:
            return len(places)
        values = [v for p in places if (v := self._values[read.argument][p]) is not None]
        return _aggregated(read.kind, values)

    spelled: Mapping[str, str] = {}


def _aggregated(kind: str, values: list[Any]) -> Any:
    if kind == "count":
        return len(values)
    if not values:
        return None
    if kind == "sum":
        return math.fsum(values) if isinstance(values[0], float) else sum(values)
    ranked = sorted(values, key=lambda v: (v != v, v if v == v else 0))
    return ranked[0] if kind == "min" else ranked[-1]


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, int | float | str | bool)


def _listed(labels: Any) -> list[tuple[str, bool]]:
    found = []
    while labels is not None:
        found.append((labels[0], labels[1]))
        labels = labels[2]
    return found[::-1]


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    inner = node.unnest()
    if isinstance(inner, exp.And):
        yield from _conjuncts(inner.this)
        yield from _conjuncts(inner.expression)
    else:
        yield node


def _quoted(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


class _Verification:
    """What a view should show."""

    def __init__(self, core: Core, entry: ViewEntry) -> None:
        self._core, self._entry = core, entry
        self._maintainer: Any = entry.block.maintainer
        (self._input,) = entry.plan.program.inputs
        (statement,) = parse(entry.sql)
        assert isinstance(statement, CreateMaterializedView | CreateView)
        select = statement.query
        assert isinstance(select, exp.Select)
        match = select.args["match"]
        self.written = Written(entry.sql, match, select, self._input.schema)
        body: Any = entry.plan.program.body
        self._time = body.time
        order = match.args["order"].expressions
        self._ties = [(each.this.name, bool(each.args.get("desc"))) for each in order[1:]]

    def rows(self) -> Delta:
        """The rows of the view: those that stay, and those of the rows that are left."""
        maintainer = self._maintainer
        pieces = [maintainer.tail.rows, *rows_from(self._core, self._entry, maintainer.tail.end)]
        ended = self._ended()
        schema = self._input.schema
        keys = [i for i in (schema.find(each) for each in self.written.keys) if i is not None]
        contexts = {key: context for key, (_, context, _) in ended.items()}
        rows = OrderedRows(
            self._core, schema, schema[self._time].name, keys, pieces, contexts, self._ties
        )
        groups = []
        for (low, high), key in zip(rows.groups(), rows.keys, strict=True):
            moment, _, number = ended.get(key, (None, None, 0))
            start = low
            while moment is not None and start < high and rows.moments[start] <= moment:
                start += 1
            groups.append(Group(low, high, start, number, moment is None))
        matcher = self._matcher(rows)
        shown = self._shown(rows, groups, matcher)
        settled = maintainer.settled()
        stays = settled.take(settled.multiplicities() > 0)  # a row that lacks is not made up for
        return concat(self._entry.schema, [stays, shown])

    def _ended(self) -> dict[Any, tuple[int, int, int]]:
        """By group where it goes on behind what has ended: moment, context, number."""
        tables = match_tables(self._maintainer, self._core.dictionary, self._entry.plan.program)
        width, found = len(self.written.keys), {}
        for row in tables[2].to_pylist() if tables else []:
            values = list(row.values())
            found[group_key(values[:width])] = (values[width], values[-2], values[-1])
        return found

    def _matcher(self, rows: OrderedRows) -> Matcher:
        schema = Schema(tuple(replace(f, name=f"c{i}", nullable=True)
                              for i, f in enumerate(self._input.schema)))  # fmt: skip
        table = rows.table.rename_columns(schema.names)
        self._types: list[Any] = []
        values: list[list[Any]] = []
        if self.written.arguments:
            number = pa.array(range(table.num_rows), pa.int64())
            numbered = Schema((*schema.fields, Field("row", BIGINT, False)))
            query = exp.select(_quoted("row"), *(
                exp.alias_(each, f"a{i}", quoted=True)
                for i, each in enumerate(self.written.arguments)
            ))  # fmt: skip
            relation, found = self._run(query, numbered, table.append_column("row", number))
            by = found.sort_by(found.column_names[0])
            self._types = [each.type for each in relation.schema][1:]
            values = [by.column(1 + i).to_pylist() for i in range(len(self._types))]
        made = Matcher(self.written, rows.moments, values)
        names = [n.args["variable"].name for n in self.written.match.args["pattern"].find_all(
            PatternNode, bfs=False) if n.args["this"] == "variable"]  # fmt: skip
        made.spelled = {name.lower(): name for name in reversed(names)}
        made.ask_for_days(pa.types.is_date(rows.table.column(self._time).type))
        return made

    def _field(self, i: int) -> Field:
        """The type of what is read."""
        read = self.written.reads[i]
        if read.kind == "classifier":
            return Field(f"r{i}", STRING, True)
        if read.kind in ("count", "number"):
            return Field(f"r{i}", BIGINT, True)
        type_ = self._types[read.argument]
        if read.kind == "sum":
            schema = Schema((Field("x", type_, True),))
            query = exp.select(exp.alias_(exp.Sum(this=_quoted("x")), "x")).from_("t")
            type_ = lower(query, self.written.sql, PartCatalog(self._core.catalog, {"t": schema}))
            type_ = type_.schema[0].type
        return Field(f"r{i}", type_, True)

    def _run(self, query: exp.Select, schema: Schema, table: pa.Table) -> tuple[Relation, Any]:
        query = query.from_(exp.Table(this=exp.to_identifier(_TABLE, quoted=True)))
        catalog = PartCatalog(self._core.catalog, {_TABLE: schema})
        relation = lower(query, self.written.sql, catalog)
        return relation, self._core.local_engine.run(relation, {_TABLE: table})

    # Matching.

    def _found(
        self, groups: Sequence[Group], matcher: Matcher
    ) -> list[list[tuple[Found | None, int, int]]]:
        matcher.near_questions(groups)
        self._answer(matcher)
        found: dict[int, list[tuple[Found | None, int, int]]] = {}
        while len(found) < len(groups):
            for i, group in enumerate(groups):
                if i not in found:
                    try:
                        found[i] = list(matcher.matches(group))
                    except Unknown:
                        continue
            self._answer(matcher)
        return [found[i] for i in range(len(groups))]

    def _answer(self, matcher: Matcher) -> None:
        """Let DuckDB answer all questions."""
        questions, matcher.questions = matcher.questions, {}
        for i, (_, condition) in enumerate(self.written.conditions):
            own = [(key, values) for key, values in questions.items() if key[0] == i]
            if not own:
                continue
            reads = list(dict.fromkeys(matcher.used[i]))
            fields = [self._field(r) for r in reads]
            places = [matcher.used[i].index(r) for r in reads]
            columns = [[values[p] for _, values in own] for p in places]
            test = exp.Case(ifs=[exp.If(this=condition.copy(), true=exp.true())],
                            default=exp.false())  # fmt: skip
            query = exp.select(_quoted("number"), exp.alias_(test, "holds", quoted=True))
            schema = Schema((*fields, Field("number", BIGINT, False)))
            _, result = self._run(query, schema, self._table(schema, [*columns, range(len(own))]))
            for at, holds in zip(*(c.to_pylist() for c in result.columns), strict=True):
                matcher.answers[own[at][0]] = holds is True

    def _table(self, schema: Schema, columns: Sequence[Any]) -> pa.Table:
        types = {f.name: _arrow(f) for f in schema}
        return pa.table({f.name: pa.array(list(c), types[f.name])
                         for f, c in zip(schema, columns, strict=True)})  # fmt: skip

    # What is shown.

    def _shown(self, rows: OrderedRows, groups: Sequence[Group], matcher: Matcher) -> Delta:
        at: list[int] = []
        is_matched: list[bool] = []
        values: list[list[Any]] = []
        for group, attempts in zip(groups, self._found(groups, matcher), strict=True):
            covered = group.start
            for found, start, number in attempts:
                if found is None:
                    if self.written.shown == "unmatched" and start >= covered:
                        at.append(start)
                        is_matched.append(False)
                        values.append([None] * len(self.written.reads))
                    continue
                covered = max(covered, start + len(found.labels))
                for place, seen in self._places(found):
                    end = start + len(found.labels) - 1
                    at.append(place)
                    is_matched.append(True)
                    values.append([
                        matcher.value(group, each, found, number, end if each.is_final else seen)
                        for each in self.written.reads
                    ])  # fmt: skip
        return self._projected(rows, at, is_matched, values)

    def _places(self, found: Found) -> Iterator[tuple[int, int]]:
        """The rows that are shown of a match, and how far each sees it."""
        start, size, shown = found.start, len(found.labels), self.written.shown
        if not size:
            if shown != "omit empty":
                yield start, start - 1
        elif shown == "one":
            yield start + size - 1, start + size - 1
        else:
            for i, (_, hidden) in enumerate(found.labels):
                if not hidden:
                    yield start + i, start + i

    def _projected(
        self, rows: OrderedRows, at: list[int], is_matched: list[bool], values: list[list[Any]]
    ) -> Delta:
        written = self.written
        fields = [replace(f, name=f"c{i}", nullable=True) for i, f in enumerate(self._input.schema)]
        taken = rows.table.take(pa.array(at, pa.int64())).rename_columns([f.name for f in fields])
        fields += [self._field(i) for i in range(len(written.reads))]
        fields.append(Field("matched", BIGINT, False))
        columns = {f"c{i}": taken.column(i) for i in range(taken.num_columns)}
        for i in range(len(written.reads)):
            column = [each[i] for each in values]
            columns[f"r{i}"] = pa.array(column, _arrow(self._field(i)))
        columns["matched"] = pa.array([int(each) for each in is_matched], pa.int64())
        inner = exp.select(*self._outputs()).from_(
            exp.Table(this=exp.to_identifier(_TABLE, quoted=True))
        )
        outer = written.select.copy()
        outer.set("match", None)
        alias = written.match.args.get("alias")
        source = written.select.args["from_"].this
        under = alias.copy() if alias is not None else exp.TableAlias(
            this=exp.to_identifier(source.alias_or_name or "t", quoted=True))  # fmt: skip
        outer.set("from_", exp.From(this=exp.Subquery(this=inner, alias=under)))
        catalog = PartCatalog(self._core.catalog, {_TABLE: Schema(tuple(fields))})
        relation = lower(outer, written.sql, catalog)
        result = self._core.local_engine.run(relation, {_TABLE: pa.table(columns)})
        return encode_columns(self._entry.schema, result, self._core.dictionary)

    def _outputs(self) -> list[exp.Expr]:
        """The columns of the clause, in the order that SQL gives them."""
        written, schema = self.written, self._input.schema
        places = [schema.find(each) for each in written.keys]

        def own(i: int) -> exp.Expr:
            return exp.alias_(_quoted(f"c{i}"), schema[i].name, quoted=True)

        measures = []
        for name, node in written.measures:
            test = exp.EQ(this=_quoted("matched"), expression=exp.Literal.number(1))
            made = node if written.shown != "unmatched" else exp.Case(
                ifs=[exp.If(this=test, true=exp.Paren(this=node.copy()))])  # fmt: skip
            measures.append(exp.alias_(made, name, quoted=True))
        shown = [own(i) for i in places if i is not None]
        if written.shown == "one":
            return [*shown, *measures]
        order = [schema.find(e.this.name) for e in written.match.args["order"].expressions]
        first = [i for i in order if i is not None and i not in places]
        rest = [i for i in range(len(schema)) if i not in first and i not in places]
        return [*shown, *(own(i) for i in first), *measures, *(own(i) for i in rest)]


def _arrow(field_: Field) -> pa.DataType:
    return pa.float64() if isinstance(field_.type, Float) else arrow_type(field_.type)


def expected_rows(core: Core, entry: ViewEntry) -> Delta:
    """What a view over MATCH_RECOGNIZE should show."""
    return _Verification(core, entry).rows()

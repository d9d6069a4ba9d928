"""A pattern over shards: the runs of a group are where its rows are.

takes  the plan of a pattern view, the table that it reads
gives  `ShardPattern` for the workers, how rows are spread, and what the driver makes of the matches

A shard sees only its own rows, but which part is the newest and which rows come too late is said by
the time of all: each batch tells every shard how far it has come.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import Project, Relation, Scan
from viewmill.algebra.schema import Schema
from viewmill.mill.parted import PartOptions
from viewmill.planner.sharding.hypercube import hash_type
from viewmill.program.exchange import ByKey, Exchange, Route, Single
from viewmill.program.patterns import PatternQueries
from viewmill.program.program import Program
from viewmill.rewrite.rules import rewrite

_ALIAS = "part"


@dataclass(frozen=True)
class ShardPattern:
    """What shards run for a pattern view: its automaton over a table of its own. Data only."""

    view: str
    program: Program
    table: str  # its CREATE TABLE
    stream: str
    fill: str = ""  # it is always there from the start: the order of rows matters to it

    @property
    def key(self) -> str:
        """What its states are called in a slot."""
        return self.view

    @property
    def streams(self) -> frozenset[str]:
        """What it takes."""
        return frozenset([self.stream, clock_of(self.program.inputs[0].source)])

    @property
    def query(self) -> Relation:
        """What a shard computes."""
        return self.program.query

    @property
    def output(self) -> Schema:
        """The columns of what a shard gives: c0, c1, ..."""
        fields = enumerate(self.program.output)
        return Schema(tuple(replace(each, name=f"c{i}") for i, each in fields))

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """What must not change while the state lives."""
        return self.program.fingerprint, self.table


@dataclass(frozen=True)
class SpreadPattern:
    """A pattern, how its rows are spread, and by which parts time goes on for every shard."""

    pattern: ShardPattern
    exchange: Exchange
    route: Route
    cells: int
    clock: PartOptions | None


def clock_of(source: str) -> str:
    """The stream that tells how far the time of a source has come."""
    return f"{source}@time"


def spread_pattern(
    view: str, program: Program, table: str, options: PartOptions, slots: int
) -> SpreadPattern:
    """By group, if there are groups whose keys can be hashed; else all on one shard."""
    body = program.body
    assert isinstance(body, PatternQueries)
    (input_,) = program.inputs
    keys = [input_.schema[i] for i in body.keys]
    hashed = tuple(each.name for each in keys if hash_type(each.type))
    if hashed:
        exchange: Exchange = ByKey(hashed)
        route, cells = Route(input_.source, (slots,), (hashed,)), slots
    else:
        what = "its groups have no key that can be hashed" if keys else "it has no groups"
        exchange = Single(f"{what}, so a run may go on with any row")
        route, cells = Route(input_.source, (), ()), 1
    made = ShardPattern(view, program, table, route.stream)
    return SpreadPattern(made, exchange, route, cells, options if hashed else None)


def finish_pattern(query: Relation, table: str) -> Relation:
    """The view over the table that gathers the matches of all shards."""
    outputs = []
    fields = []
    for i, each in enumerate(query.schema):
        fields.append(replace(each, name=f"{_ALIAS}.c{i}"))
        outputs.append((each.name, Column(fields[i].name, each.type, each.nullable)))
    return rewrite(Project(Scan(table, _ALIAS, Schema(tuple(fields))), tuple(outputs)))

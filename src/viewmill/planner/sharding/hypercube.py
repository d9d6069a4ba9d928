"""Choose shares for the variables of a join, so that each result is on exactly one shard.

takes  a relation of inner joins, filters and projections over scans, the number of cells
gives  `Grid`: a share for each variable, and a route for every scan

A row is sent to every cell that agrees with it on the variables that it has (the shares algorithm
of Afrati and Ullman); the shares chosen are those that send the fewest rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from viewmill.algebra.relations import Filter, Join, Project, Relation, Scan
from viewmill.algebra.types import Boolean, Date, Decimal, Integer, String, Timestamp, Type, Wide
from viewmill.algebra.walk import expressions, has_subquery, scans
from viewmill.planner.sharding.placed import Names, variables
from viewmill.program.exchange import Route

_HASHED = Boolean | Integer | String | Date | Timestamp


@dataclass(frozen=True)
class Grid:
    """The shares, by the name of their variable, and a route for each alias of a scan."""

    shares: tuple[tuple[str, int], ...]
    routes: Mapping[str, Route]


@dataclass(frozen=True)
class _Variable:
    """What is hashed: a join column of some scans, or all columns of one scan."""

    name: str
    columns: Mapping[str, tuple[str, ...]]  # by alias
    is_row: bool = False


def is_plain_join(relation: Relation) -> bool:
    """Whether only inner joins, filters and projections stand above scans."""
    if any(has_subquery(each) for each in expressions(relation)):
        return False
    match relation:
        case Scan():
            return relation.window is None
        case Filter() | Project():
            return is_plain_join(relation.input)
        case Join():
            inner = relation.kind in ("inner", "cross")
            return inner and is_plain_join(relation.left) and is_plain_join(relation.right)
        case _:
            return False


def choose_grid(relation: Relation, cells: int, weights: Mapping[str, float]) -> Grid | None:
    """The grid that sends the fewest rows; None when no column can be hashed."""
    read = scans(relation)
    known = [*_join_variables(relation, read), *_row_variables(read)]
    if not known:
        return None
    vectors = list(_share_vectors(cells, len(known)))
    best = min(vectors, key=lambda vector: _load(vector, known, read, weights))
    chosen = [(each, share) for each, share in zip(known, best, strict=True) if share > 1]
    shares = tuple(share for _, share in chosen)
    routes = {}
    for scan in read:
        columns = tuple(own_names(scan, each.columns.get(scan.alias)) for each, _ in chosen)
        routes[scan.alias] = Route(scan.source, shares, columns)
    return Grid(tuple((each.name, share) for each, share in chosen), routes)


def own_names(scan: Scan, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Columns by their names in the source, without the alias."""
    if columns is None:
        return None
    return tuple(name.removeprefix(f"{scan.alias}.") for name in columns)


def hash_type(type_: Type) -> str | None:
    """The type to which values are cast for hashing, so that equal values have equal hashes; None
    if that cannot be guaranteed."""
    match type_:
        case Integer():
            return "BIGINT"
        case Decimal() | Wide():
            return f"DECIMAL(38,{type_.scale})"
        case _:
            return str(type_) if isinstance(type_, _HASHED) else None


def is_hashed_alike(variable: Names, relation: Relation) -> bool:
    """Whether equal values in the columns of a variable have equal hashes."""
    fields = [field for scan in scans(relation) for field in scan.schema if field.name in variable]
    kinds = {hash_type(field.type) for field in fields}
    return len(kinds) == 1 and None not in kinds


def _join_variables(relation: Relation, read: tuple[Scan, ...]) -> Iterator[_Variable]:
    for names in variables(relation):
        columns = {}
        for scan in read:
            own = [name for name in scan.schema.names if name in names]
            if own:
                columns[scan.alias] = (own[0],)
        if len(columns) > 1 and is_hashed_alike(names, relation):
            yield _Variable(min(names), columns)


def _row_variables(read: tuple[Scan, ...]) -> Iterator[_Variable]:
    for scan in read:
        columns = row_columns(scan)
        if columns:
            yield _Variable(f"rows of {scan.alias}", {scan.alias: columns}, is_row=True)


def row_columns(scan: Scan) -> tuple[str, ...]:
    """The columns of a scan that can be hashed."""
    return tuple(field.name for field in scan.schema if hash_type(field.type))


def _share_vectors(cells: int, count: int) -> Iterator[tuple[int, ...]]:
    """Every vector of so many shares whose product is `cells`."""
    if count == 1:
        yield (cells,)
        return
    for share in range(1, cells + 1):
        if cells % share == 0:
            for rest in _share_vectors(cells // share, count - 1):
                yield (share, *rest)


def _load(
    vector: tuple[int, ...],
    known: list[_Variable],
    read: tuple[Scan, ...],
    weights: Mapping[str, float],
) -> tuple[float, int]:
    """The rows sent, then how many variables are hashed, whole rows counting as ten."""
    pairs = [(each, share) for each, share in zip(known, vector, strict=True) if share > 1]
    sent = sum(
        weights.get(scan.source, 1.0)
        * prod(share for each, share in pairs if scan.alias not in each.columns)
        for scan in read
    )
    return sent, sum(10 if each.is_row else 1 for each, _ in pairs)

"""ASOF JOIN, and joins FOR SYSTEM_TIME AS OF: to each row the one that was the latest by its time.

takes  both sides of the join, its conditions
gives  a join with the rows of the right side that knows from when until when each of them counts

    prices at 9:00 and 9:30, a trade at 9:12: the price of 9:00 counts from 9:00 until 9:30

The end of a row is the time of the next row of its key. So a row that comes or goes changes its
own span and that of its neighbour, and the trades within these.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import NamedTuple

from sqlglot import exp

from viewmill.algebra.conditions import conjuncts, filtered, together
from viewmill.algebra.expressions import Call, Case, Column, Expression, Literal, Over, SortKey
from viewmill.algebra.relations import Join, Project, Relation, Window
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import BOOLEAN, INT, TIMESTAMP, Timestamp
from viewmill.algebra.walk import columns_of, has_subquery
from viewmill.errors import Span, TypeMismatch, UnsupportedQuery
from viewmill.sql import operators
from viewmill.sql.catalog import Streams
from viewmill.sql.coercion import unify
from viewmill.sql.environment import Environment
from viewmill.sql.lower_windows import break_ties

ASOF = "ASOF"
_ORDERS = (">=", ">", "<=", "<")
_TURNED = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}
_OPPOSITE = {">=": "<", ">": "<="}
_MATCHES: dict[type[exp.Expr], str] = {exp.GTE: ">=", exp.GT: ">", exp.LTE: "<=", exp.LT: "<"}
_HINT = "Write p ASOF JOIN q MATCH_CONDITION (p.ts >= q.ts) ON p.k = q.k."


class Times(NamedTuple):
    """The time of the left row, how it stands to that of the right row, and that."""

    left: Expression
    sign: str
    right: Expression


def version_of(node: exp.Expr) -> exp.Version | None:
    """The moment in q FOR SYSTEM_TIME AS OF p.ts."""
    found = node.args.get("version") if isinstance(node, exp.Table) else None
    if found is None or found.args.get("kind") != "AS OF" or found.name.upper() != "TIMESTAMP":
        return None
    return found if isinstance(found, exp.Version) else None


def with_match(node: exp.Join, version: exp.Version, environment: Environment) -> exp.Join:
    """The ASOF JOIN that a join with the versions of a table stands for."""
    made = node.copy()
    table = made.this
    table.set("version", None)
    made.set("match_condition", _match(table, version, environment))
    return made


def _match(table: exp.Table, version: exp.Version, environment: Environment) -> exp.Expr:
    name, span = ".".join(part.name for part in table.parts), environment.span(version)
    catalog = environment.catalog
    stream = catalog.stream(name) if isinstance(catalog, Streams) else None
    if stream is None or stream.timestamp_by is None:
        raise UnsupportedQuery(
            f'FOR SYSTEM_TIME AS OF needs to know from when the rows of "{name}" count',
            hint="Declare the table with TIMESTAMP BY column, or write ASOF JOIN.", span=span,
        )  # fmt: skip
    if not stream.keeps_versions:
        raise UnsupportedQuery(
            f'"{name}" keeps only the last row of each key',
            detail="What a key was before an update is not known any more.",
            hint=f"Make {stream.timestamp_by} a part of the PRIMARY KEY, and insert each version.",
            span=span,
        )  # fmt: skip
    column = exp.column(stream.timestamp_by, table=table.alias_or_name, quoted=True)
    return exp.GTE(this=version.expression.copy(), expression=column)


def asof_join(
    kind: str, sides: tuple[Relation, Relation], times: Times, condition: Expression | None,
    environment: Environment, span: Span | None,
) -> Relation | None:  # fmt: skip
    """The join; None if a condition is about both sides and not an equality."""
    left, right = sides
    names = set(left.schema.names), set(right.schema.names)
    keys: list[Expression] = []
    of_right: list[Expression] = []
    rest: list[Expression] = []
    for each in () if condition is None else conjuncts(condition):
        used = columns_of(each)
        key = _key_of(each, names)
        if has_subquery(each):
            return None
        if key is not None:
            keys.append(key)
        elif used <= names[1] and used:
            of_right.append(each)
            continue
        elif used & names[1]:
            return None
        rest.append(each)
    there = operators.negation(operators.is_null(times.right, span), span)
    right = filtered(right, [*of_right, there])
    spans, near = _with_end(right, times, tuple(keys), environment, span)
    met = together([*rest, *near])
    return Join("left" if kind == "left" else "inner", left, spans, met, span)


def _key_of(condition: Expression, names: tuple[set[str], set[str]]) -> Expression | None:
    """The right side of p.k = q.k, whichever way it is written."""
    if not isinstance(condition, Call) or condition.function != "=":
        return None
    one, other = condition.arguments
    for mine, theirs in ((one, other), (other, one)):
        a, b = columns_of(mine), columns_of(theirs)
        if a and b and a <= names[0] and b <= names[1]:
            return theirs
    return None


def _with_end(
    right: Relation, times: Times, keys: tuple[Expression, ...], environment: Environment,
    span: Span | None,
) -> tuple[Relation, list[Expression]]:  # fmt: skip
    """The rows with the time of the next of their key, and when a left row is between both."""
    is_past = times.sign in (">=", ">")
    name, own = environment.names.fresh("asof.end"), environment.names.fresh("asof.time")
    columns = right.schema
    kept = tuple((e.name, Column(e.name, e.type, e.nullable)) for e in columns)
    time = Column(own, times.right.type, False)
    right = Project(right, (*kept, (own, times.right)))
    call = Over("lead" if is_past else "lag", (time, Literal(1, INT)), keys, (SortKey(time),), None,
                time.type)  # fmt: skip
    end = Column(name, time.type, True)
    windowed = Window(right, ((name, break_ties(call, Schema(columns.fields))),), span)
    begun = operators.compare(times.sign, times.left, time, span)
    if not columns_of(times.left) and isinstance(time.type, Timestamp) and is_past:
        # now(), for which time that passes needs a plain comparison
        last = Call("coalesce", (end, Literal(dt.datetime.max, TIMESTAMP)), TIMESTAMP, False)
        return windowed, [begun, operators.compare(_OPPOSITE[times.sign], times.left, last, span)]
    passed = operators.compare(times.sign, times.left, end, span)
    still = Case(((operators.is_null(end, span), Literal(True, BOOLEAN)),),
                 operators.negation(passed, span), BOOLEAN)  # fmt: skip
    return windowed, [begun, still]


def times_of(
    match: exp.Expr, lower: Callable[[exp.Expr], Expression], sides: tuple[Schema, Schema],
    span: Span | None,
) -> Times:  # fmt: skip
    """What MATCH_CONDITION (...) compares."""
    while isinstance(match, exp.Paren):
        match = match.this
    sign = _MATCHES.get(type(match))
    if sign is None or not isinstance(match, exp.Binary):
        raise UnsupportedQuery("MATCH_CONDITION compares two times by >=, >, <= or <", hint=_HINT,
                               span=span)  # fmt: skip
    found = _turned(lower(match.this), sign, lower(match.expression), sides)
    if found is None:
        raise UnsupportedQuery(
            "MATCH_CONDITION compares a time of one side with one of the other", hint=_HINT,
            span=span,
        )  # fmt: skip
    return found


def taken_from(
    condition: Expression | None, sides: tuple[Schema, Schema], span: Span | None
) -> tuple[Times, Expression | None]:
    """The one inequality between both sides in ON, and the other conditions."""
    found: list[Times] = []
    rest: list[Expression] = []
    for each in () if condition is None else conjuncts(condition):
        times = None
        if _is_between(each, sides):
            assert isinstance(each, Call)
            times = _turned(each.arguments[0], each.function, each.arguments[1], sides)
        if times is None:
            rest.append(each)
        else:
            found.append(times)
    if len(found) != 1:
        raise UnsupportedQuery(
            f"ASOF JOIN needs one inequality between both sides, here are {len(found)}",
            hint=_HINT, span=span,
        )  # fmt: skip
    return found[0], together(rest)


def _is_between(condition: Expression, sides: tuple[Schema, Schema]) -> bool:
    """Whether it is an inequality of which each side has columns of one table only."""
    if not isinstance(condition, Call) or condition.function not in _ORDERS:
        return False
    return all(map(columns_of, condition.arguments))


def _turned(
    one: Expression, sign: str, other: Expression, sides: tuple[Schema, Schema]
) -> Times | None:
    a, b = columns_of(one), columns_of(other)
    left, right = (set(each.names) for each in sides)
    if has_subquery(one) or has_subquery(other):
        return None
    if b and a <= left and b <= right:
        mine, theirs = unify((one, other), "MATCH_CONDITION")
        return Times(mine, sign, theirs)
    if a and a <= right and b <= left:
        mine, theirs = unify((other, one), "MATCH_CONDITION")
        return Times(mine, _TURNED[sign], theirs)
    return None


def check_kind(kind: str, span: Span | None) -> None:
    """Only these pad, or not, the left side."""
    if kind not in ("inner", "left"):
        raise TypeMismatch(f"an ASOF JOIN is INNER or LEFT, not {kind.upper()}", span=span)

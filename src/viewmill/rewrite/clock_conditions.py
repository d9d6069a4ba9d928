"""Comparisons with the clock, brought into the one form that time can be kept for.

takes  a rewritten relation
gives  an equal one, in which every condition that reads the clock stands in a filter of its own,
       as near to its rows as possible, and compares a column with an expression of the clock alone
next   planner.blocks, which makes a block of such a filter
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viewmill.algebra.clock import clock_read, clock_reads, is_timed
from viewmill.algebra.conditions import conjuncts, filtered, together
from viewmill.algebra.expressions import Call, Cast, Column, Expression, Literal
from viewmill.algebra.relations import Filter, Join, Project, Relation
from viewmill.algebra.types import BIGINT, BOOLEAN, INT, Interval
from viewmill.algebra.walk import columns_of
from viewmill.errors import Span
from viewmill.rewrite.correlation import own_columns, transform_everywhere

_FLIPPED = {"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_NEGATED = {"<": ">=", ">": "<=", "<=": ">", ">=": "<"}


class NotIsolated(Exception):
    """The clock is read where no deadline of a row follows from it."""

    def __init__(self, reason: str, span: Span | None) -> None:
        super().__init__(reason)
        self.reason, self.span = reason, span


def clock_conditions(query: Relation) -> Relation:
    """Each comparison with the clock above the rows whose deadlines it says.

    before  Join inner: r.k = s.k AND now() < s.t + INTERVAL 1 DAY
            ├─ Scan: r
            └─ Scan: s
    after   Join inner: r.k = s.k
            ├─ Scan: r
            └─ Project: s.k, s.t
               └─ Filter: #deadline_1 > now()
                  └─ Project: s.k, s.t, s.t + INTERVAL 1 DAY AS #deadline_1
                     └─ Scan: s
    """
    if next(clock_reads(query), None) is None:
        return query
    return _Isolation().of(query)


class _Isolation:
    def __init__(self) -> None:
        self._count = 0

    def of(self, query: Relation) -> Relation:
        return transform_everywhere(query, self._isolated)

    def _isolated(self, relation: Relation) -> Relation:
        if isinstance(relation, Filter):
            if is_timed(relation) and all(map(_is_isolated, conjuncts(relation.condition))):
                return relation
            plain, timed = _split(relation.condition)
            if not timed:
                return relation
            return self._judged(filtered(relation.input, plain), timed)
        if isinstance(relation, Join) and relation.condition is not None:
            return self._join(relation)
        return relation

    def _join(self, join: Join) -> Relation:
        assert join.condition is not None
        plain, timed = _split(join.condition)
        if not timed:
            return join
        left, right, above = list[Expression](), list[Expression](), list[Expression]()
        for each in timed:
            if _reads_only(each, join.right) and join.kind not in ("right", "full"):
                right.append(each)
            elif _reads_only(each, join.left) and join.kind in ("inner", "cross", "right", "semi"):
                left.append(each)
            elif join.kind in ("inner", "cross"):
                above.append(each)
            else:
                raise NotIsolated(
                    f"a comparison with the clock in the condition of a {join.kind} join",
                    _place(each),
                )
        kind = "cross" if join.kind == "inner" and not plain else join.kind
        sides = self._judged(join.left, left), self._judged(join.right, right)
        made = replace(join, kind=kind, left=sides[0], right=sides[1], condition=together(plain))
        return self._judged(made, above)

    def _judged(self, relation: Relation, conditions: Sequence[Expression]) -> Relation:
        """The rows that meet conditions of the clock, judged below joins where that is equal."""
        if not conditions:
            return relation
        if isinstance(relation, Filter) and isinstance(relation.input, Join):
            below = self._judged(relation.input, conditions)
            if isinstance(below, Join):
                return replace(relation, input=below)
        if isinstance(relation, Join) and not relation.lateral:
            left = [e for e in conditions if _goes_left(relation, e)]
            right = [e for e in conditions if e not in left and _goes_right(relation, e)]
            if left or right:
                made = replace(
                    relation,
                    left=self._judged(relation.left, left),
                    right=self._judged(relation.right, right),
                )
                return self._judged(
                    made, [e for e in conditions if e not in left and e not in right]
                )
        return self._compared(relation, conditions)

    def _compared(self, relation: Relation, conditions: Sequence[Expression]) -> Relation:
        """The filter over a projection with what the clock is compared with."""
        columns: list[tuple[str, Expression]] = [
            (f.name, Column(f.name, f.type, f.nullable)) for f in relation.schema
        ]
        made = list[Expression]()
        for condition in conditions:
            for each in conjuncts(_positive(condition)):
                own, sign, clock = isolated(each)
                if not isinstance(own, Column):
                    self._count += 1
                    name = f"#deadline_{self._count}"
                    columns.append((name, own))
                    own = Column(name, own.type, own.nullable)
                made.append(Call(sign, (own, clock), BOOLEAN, own.nullable, each.span))
        below = relation
        if len(columns) > len(relation.schema):
            below = Project(relation, tuple(columns), relation.span)
        for read in dict.fromkeys(map(clock_read, made)):
            below = filtered(below, [each for each in made if clock_read(each) == read])
        return own_columns(below, relation)


def _split(condition: Expression) -> tuple[list[Expression], list[Expression]]:
    plain, timed = list[Expression](), list[Expression]()
    for each in conjuncts(condition):
        (plain if clock_read(each) is None else timed).append(each)
    return plain, timed


def _reads_only(expression: Expression, relation: Relation) -> bool:
    return columns_of(expression) <= set(relation.schema.names)


def _goes_left(join: Join, condition: Expression) -> bool:
    return join.kind in ("inner", "cross", "left", "semi", "anti") and _reads_only(
        condition, join.left
    )


def _goes_right(join: Join, condition: Expression) -> bool:
    return join.kind in ("inner", "cross", "right") and _reads_only(condition, join.right)


def _is_isolated(condition: Expression) -> bool:
    if not isinstance(condition, Call) or condition.function not in _FLIPPED:
        return False
    own, clock = condition.arguments
    return isinstance(own, Column) and not columns_of(clock)


def _positive(condition: Expression) -> Expression:
    """NOT (a < b) is a >= b, which is NULL where that is."""
    if isinstance(condition, Call) and condition.function == "not":
        inner = condition.arguments[0]
        if isinstance(inner, Call) and inner.function in _NEGATED:
            return replace(inner, function=_NEGATED[inner.function])
    return condition


def isolated(condition: Expression) -> tuple[Expression, str, Expression]:
    """A comparison as what the row says, a sign, and an expression of the clock alone."""
    if not isinstance(condition, Call) or condition.function not in _FLIPPED:
        raise NotIsolated("the clock is not compared by =, <, <=, > or >=", _place(condition))
    left, right = condition.arguments
    sign = condition.function
    if clock_read(left) is not None:
        if clock_read(right) is not None:
            raise NotIsolated("both sides of a comparison read the clock", _place(condition))
        left, right, sign = right, left, _FLIPPED[sign]
    return _moved(left, sign, right)


def _moved(own: Expression, sign: str, clock: Expression) -> tuple[Expression, str, Expression]:
    """Bring what belongs to the row to its side of the comparison."""
    if not columns_of(clock):
        return own, sign, clock
    if isinstance(clock, Call) and clock.function in ("-", "datediff"):
        first, second = clock.arguments
        is_first = clock_read(first) is not None
        read, other = (first, second) if is_first else (second, first)
        # clock - x < y is clock < x + y, and x - clock < y is clock > x - y.
        sign = sign if is_first else _FLIPPED[sign]
        if isinstance(own, Literal):
            shifted = _shifted(clock, read, own, later=not is_first)
            if shifted is not None:
                return _moved(other, sign, shifted)
        elif clock.function == "datediff":
            return _moved(_days_from(other, own, add=is_first), sign, read)
        elif clock.type in (INT, BIGINT):
            both = (other, own)
            moved = Call("+" if is_first else "-", both, clock.type, True, own.span)
            return _moved(moved, sign, read)
    raise NotIsolated(
        "the clock and columns stand in one expression of a form that is not known", _place(clock)
    )


def _shifted(clock: Call, read: Expression, by: Literal, *, later: bool) -> Expression | None:
    """The clock earlier or later by a constant, so that no column leaves the range of its type."""
    sign = "+" if later else "-"
    if clock.function == "datediff" and isinstance(by.value, int):
        days = Literal(by.value, INT, by.span)
        return Call("date_add" if later else "date_sub", (read, days), read.type, False, by.span)
    if isinstance(by.type, Interval) and isinstance(by.value, tuple) and not by.value[0]:
        return Call(sign, (read, by), read.type, False, by.span)
    if clock.type in (INT, BIGINT):
        return Call(sign, (read, by), clock.type, False, by.span)
    return None


def _days_from(day: Expression, number: Expression, *, add: bool) -> Expression:
    days = number if number.type == INT else Cast(number, INT, number.nullable)
    name = "date_add" if add else "date_sub"
    return Call(name, (day, days), day.type, day.nullable or number.nullable, number.span)


def _place(expression: Expression) -> Span | None:
    found = clock_read(expression)
    return None if found is None else found.span or expression.span


__all__ = ["NotIsolated", "clock_conditions", "isolated"]

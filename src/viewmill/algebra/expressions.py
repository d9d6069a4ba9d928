"""Expressions: what yields one value per row. Frozen, typed, with the span they came from.

Names of functions are Spark's in lower case; operators keep their sign ("+", "=", "and"). The types
of calls are decided by `sql.functions`, so an expression that exists is typed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from viewmill.algebra.types import BOOLEAN, Type
from viewmill.errors import Span

if TYPE_CHECKING:
    from viewmill.algebra.relations import Relation
    from viewmill.algebra.user_functions import UserFunction

Value = object  # int, float, bool, str, decimal.Decimal, date, datetime, timedelta-like or None


@dataclass(frozen=True)
class Column:
    """A column of the input, by its name there ("o.amount").

    `outer` counts the queries that stand between the column and where it is read: 0 is the query's
    own input, 1 the query around a correlated subquery.
    """

    name: str
    type: Type
    nullable: bool = True
    outer: int = 0
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Literal:
    """A constant. Decimals are `decimal.Decimal`, dates and timestamps `datetime` values.

    An INTERVAL literal is a pair (months, microseconds).
    """

    value: Value
    type: Type
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def nullable(self) -> bool:
        """Only NULL itself is."""
        return self.value is None


@dataclass(frozen=True)
class Call:
    """A function or an operator over arguments."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    nullable: bool = True
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class UserCall(Call):
    """A call of a user's Python function, which is given NULLs, too."""

    user: UserFunction


@dataclass(frozen=True)
class Cast:
    """`input` as another type; a value that does not fit is an error, or NULL with `lenient`."""

    input: Expression
    type: Type
    nullable: bool = True
    lenient: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Case:
    """The value of the first branch whose condition is true, else `otherwise`."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: Type
    nullable: bool = True
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function over the rows of a group."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    nullable: bool = True
    distinct: bool = False
    where: Expression | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class SortKey:
    """One key of an ORDER BY; Spark puts nulls first when ascending, last when descending."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class Frame:
    """ROWS or RANGE between two bounds: None is unbounded, 0 the current row, negative before."""

    unit: OneOf["rows", "range"]
    start: int | None
    end: int | None


@dataclass(frozen=True)
class Over:
    """A function over a window of the partition: sum(x) OVER (PARTITION BY ... ORDER BY ...)."""

    function: str
    arguments: tuple[Expression, ...]
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    frame: Frame | None
    type: Type
    nullable: bool = True
    ignore_nulls: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class ScalarSubquery:
    """The one value of a query of one column; NULL when it has no row, an error when several."""

    query: Relation
    type: Type
    nullable: bool = True
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Exists:
    """Whether a query has a row."""

    query: Relation
    type: Type = BOOLEAN
    nullable: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class InSubquery:
    """Whether `values` is among the rows of a query, with SQL's nulls."""

    values: tuple[Expression, ...]
    query: Relation
    type: Type = BOOLEAN
    nullable: bool = True
    span: Span | None = field(default=None, compare=False, repr=False)


Expression = (
    Column | Literal | Call | Cast | Case | Aggregate | Over | ScalarSubquery | Exists | InSubquery
)


_ENGINE = "engine "


def engine_function(name: str) -> str:
    """What a function is called that only the engine computes.

    Its first argument is the call as Spark SQL, in which the others stand as `@0`, `@1`.
    """
    return _ENGINE + name


def not_modelled(function: str) -> str:
    """Why a strategy does not take a function that only the engine computes."""
    return f"{function.removeprefix(_ENGINE)} is not modelled: only the engine computes it"


def is_engine_function(function: str) -> bool:
    """Whether only the engine computes the function."""
    return function.startswith(_ENGINE)


def parts(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside, queries left out."""
    match expression:
        case Column() | Literal() | ScalarSubquery() | Exists():
            return ()
        case Call():
            return expression.arguments
        case Cast():
            return (expression.input,)
        case Case():
            inside = [each for branch in expression.branches for each in branch]
            return (*inside, expression.otherwise)
        case Aggregate():
            where = () if expression.where is None else (expression.where,)
            return (*expression.arguments, *where)
        case Over():
            order = tuple(key.expression for key in expression.order)
            return (*expression.arguments, *expression.partition, *order)
        case InSubquery():
            return expression.values


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything inside it, from the outside in, queries left out."""
    ahead = [expression]
    while ahead:
        expression = ahead.pop()
        yield expression
        ahead += reversed(parts(expression))

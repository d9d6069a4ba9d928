"""What the lowering must know about the names that a query may use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sqlglot import exp

from viewmill.algebra.operations import Operation
from viewmill.algebra.rings import Ring
from viewmill.algebra.schema import Schema
from viewmill.algebra.user_functions import UserFunction
from viewmill.errors import Span, UnknownName, nearest


@dataclass(frozen=True)
class PlainView:
    """CREATE VIEW: a name for a query, put in where it is used. `sql` is the text `query` is in."""

    query: exp.Query | exp.Values
    sql: str


class Catalog(Protocol):
    """The tables and views there are."""

    def find(self, name: str) -> Schema | PlainView | None:
        """What `name` stands for, whatever its case, or None."""

    def names(self) -> Iterable[str]:
        """Every name, in its own case."""


@dataclass(frozen=True)
class Stream:
    """What a window must know of a table."""

    timestamp_by: str | None
    lateness: int  # microseconds
    only_grows: bool  # no row is deleted, and no retention ends one
    part_length: int | None = None  # microseconds
    keeps_versions: bool = True  # a key may have several rows, of several times


@runtime_checkable
class Streams(Protocol):
    """A catalog that knows how tables are declared."""

    def stream(self, name: str) -> Stream | None:
        """How a table is declared; None for what is no table."""

    def time_tables(self, name: str) -> tuple[str, ...]:
        """The tables with a time that the rows of a table or a view come from."""


@dataclass(frozen=True)
class RegisteredRing:
    """A ring or an operation under its name, with what was found out about it when it was
    registered."""

    name: str
    ring: Ring | Operation
    commutes: bool


@runtime_checkable
class Rings(Protocol):
    """A catalog that knows the rings of users."""

    def ring(self, name: str) -> RegisteredRing | None:
        """The ring of that name, whatever its case."""


def ring_in(catalog: Catalog, name: str) -> RegisteredRing | None:
    """The ring that a function's name stands for."""
    return catalog.ring(name) if isinstance(catalog, Rings) else None


@runtime_checkable
class Functions(Protocol):
    """A catalog that knows the functions of users."""

    def function(self, name: str) -> UserFunction | None:
        """The function of that name, whatever its case."""


def function_in(catalog: Catalog, name: str) -> UserFunction | None:
    """The user's function that a name stands for."""
    return catalog.function(name) if isinstance(catalog, Functions) else None


@runtime_checkable
class Spellings(Protocol):
    """A catalog that finds names without reading all of them."""

    def spelling(self, name: str) -> str:
        """A name in the case it was created with; unknown names unchanged."""


def spelled(catalog: Catalog, name: str) -> str:
    """`name` in the case it was created with."""
    if isinstance(catalog, Spellings):
        return catalog.spelling(name)
    wanted = name.lower()
    return next((each for each in catalog.names() if each.lower() == wanted), name)


@runtime_checkable
class Outside(Protocol):
    """A catalog that knows of tables it does not hold."""

    def outside(self, name: str) -> str | None:
        """How a table that is known elsewhere is read here; None when nobody knows it."""


def unknown_table(
    catalog: Catalog, name: str, known: Iterable[str], span: Span | None
) -> UnknownName:
    """The error for a name in FROM that stands for nothing."""
    outside = catalog.outside(name) if isinstance(catalog, Outside) else None
    hint = outside or nearest(name, [*known])
    return UnknownName(f'there is no table or view "{name}"', hint=hint, span=span)

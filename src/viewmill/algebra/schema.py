"""Schemas: the named, typed columns of a relation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from viewmill.algebra.types import Type


@dataclass(frozen=True)
class Field:
    """One column."""

    name: str
    type: Type
    nullable: bool = True

    def __str__(self) -> str:
        return f"{self.name} {self.type}" + ("" if self.nullable else " NOT NULL")


@dataclass(frozen=True)
class Schema:
    """Columns in order. Names are unique, compared without case by `find`."""

    fields: tuple[Field, ...]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, index: int) -> Field:
        return self.fields[index]

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(field.name for field in self.fields)

    def find(self, name: str) -> int | None:
        """The position of `name`, whatever its case, or None."""
        wanted = name.lower()
        for i, field in enumerate(self.fields):
            if field.name.lower() == wanted:
                return i
        return None

    def __str__(self) -> str:
        return ", ".join(map(str, self.fields))


def free_name(wish: str, taken: Iterable[str]) -> str:
    """`wish`, or `wish_2` and so on if a column has that name already, whatever its case."""
    return free_names((wish,), taken)[0]


def free_names(wishes: Iterable[str], taken: Iterable[str]) -> tuple[str, ...]:
    """A free name for each wish, as `free_name` finds it, all different from one another."""
    known, found = {each.lower() for each in taken}, []
    for wish in wishes:
        name, count = wish, 2
        while name.lower() in known:
            name, count = f"{wish}_{count}", count + 1
        known.add(name.lower())
        found.append(name)
    return tuple(found)

"""Views that cannot be opened: their query fails, a function is not registered, or the like.

takes  the record of a view, and what went wrong
does   keeps its name and text, so that the mill opens and everything else works; REFRESH and ALTER
       create it again, DROP forgets it, CREATE OR REPLACE puts another in its place
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from viewmill.algebra.names import quoted
from viewmill.algebra.refresh import Policy
from viewmill.errors import DamagedFile, UnknownName, ViewmillError
from viewmill.mill.catalog import BrokenEntry
from viewmill.mill.core import Core
from viewmill.mill.create import as_materialized, create_plain_view, create_view
from viewmill.mill.temporal import create_temporal_view
from viewmill.sql.parse import parse
from viewmill.sql.statements import (
    AlterRefresh,
    CreateMaterializedView,
    CreateTemporalView,
    CreateView,
)

_LOG = logging.getLogger("viewmill")

ViewStatement = CreateView | CreateMaterializedView | CreateTemporalView


def note_broken(
    core: Core, name: str, saved: dict[str, Any], reads: frozenset[str], why: Exception
) -> None:
    """Add a view that could not be opened to the catalog as broken."""
    reason = _reason(why)
    core.catalog.add(BrokenEntry(name, saved["sql"], reads, reason, saved))
    known = isinstance(why, ViewmillError)
    _LOG.warning("view %s cannot be opened: %s", name, reason, exc_info=None if known else why)


def _reason(why: Exception) -> str:
    if isinstance(why, UnknownName):
        return (
            f"{why.message} (a mill keeps no Python functions: give what was registered again, "
            "vm.connect(path, register={'name': ring}) or mill.function('name', function, type))"
        )
    return why.message if isinstance(why, ViewmillError) else f"{type(why).__name__}: {why}"


def statement_of(name: str, saved: dict[str, Any]) -> ViewStatement:
    """The statement that created a view, with the policies it has now."""
    statement = next(iter(parse(saved["sql"])), None) if saved["sql"] else None
    policies = saved.get("policies", [])
    if not isinstance(statement, ViewStatement) or not isinstance(policies, list):
        raise DamagedFile(
            f'the record of "{name}" in the catalog does not say what it is',
            hint="DROP VIEW forgets it, CREATE OR REPLACE puts another view in its place.",
        )
    if isinstance(statement, CreateView) and saved["kind"] == "view":
        statement = as_materialized(statement)
    if isinstance(statement, CreateView):
        return replace(statement, name=name)
    return replace(statement, name=name, policies=policies_of(name, policies))


def policies_of(name: str, texts: list[str]) -> tuple[Policy, ...]:
    """The policies in a view's record."""
    if not texts:
        return ()
    statement = parse(f"ALTER MATERIALIZED VIEW {quoted(name)} {' '.join(map(str, texts))}")[0]
    assert isinstance(statement, AlterRefresh)
    return statement.policies


@contextmanager
def replacing_broken(core: Core, name: str) -> Iterator[None]:
    """While a view is created: free its name from a broken view, which returns on failure."""
    entry = core.catalog.get(name)
    if not isinstance(entry, BrokenEntry):
        yield
        return
    core.catalog.remove(name)
    try:
        yield
    except BaseException:
        core.catalog.add(entry)
        raise
    _repair_readers(core, name)


def repair(core: Core, entry: BrokenEntry, policies: tuple[Policy, ...] | None = None) -> None:
    """Recreate a broken view, filled from the tables as they are, and the broken views that read
    it; an error leaves it broken."""
    statement = statement_of(entry.name, entry.saved)
    if policies is not None and not isinstance(statement, CreateView):
        statement = replace(statement, policies=policies)
    with replacing_broken(core, entry.name):
        match statement:
            case CreateView():
                create_plain_view(core, statement, entry.sql)
            case CreateTemporalView():
                create_temporal_view(core, statement, entry.sql)
            case _:
                create_view(core, statement, entry.sql)


def repair_callers(core: Core, name: str) -> None:
    """Recreate the broken views whose text mentions a name that was registered just now."""
    for entry in [] if core.read_only else core.catalog.broken():
        if name.lower() not in entry.sql.lower() or core.catalog.get(entry.name) is not entry:
            continue  # it has nothing to do with it, or was repaired with one that it reads
        try:
            repair(core, entry)
        except Exception as why:  # noqa: BLE001 (whatever is wrong with it, the function is there)
            note_broken(core, entry.name, entry.saved, entry.reads, why)


def _repair_readers(core: Core, name: str) -> None:
    for entry in core.catalog.readers(name):
        if isinstance(entry, BrokenEntry):
            with suppress(ViewmillError):
                repair(core, entry)

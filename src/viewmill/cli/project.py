"""A project's mill: the definitions of the spec, created where they are new or have changed.

takes  a `Spec` and its `Definition`s
gives  an open `Mill` whose tables and views are those of the spec

What was created is noted in the mill itself, after creating it. A table or view without a note is
what a killed process left half done: it is dropped and created again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import viewmill as vm
from viewmill.algebra.names import quoted
from viewmill.cli.definitions import Definition, dependents, read_definitions
from viewmill.cli.spec import Spec
from viewmill.errors import ForbiddenChange, InvalidArgument, ViewmillError, nearest

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill
    from viewmill.mill.readers import Result

FILES = "_viewmill_files"
DEFINITIONS = "_viewmill_definitions"
OWN = (
    f"CREATE TABLE {FILES} (source STRING NOT NULL, path STRING NOT NULL, size BIGINT NOT NULL, "
    "modified BIGINT NOT NULL, digest STRING NOT NULL, taken BIGINT NOT NULL, "
    "complete BOOLEAN NOT NULL, PRIMARY KEY (source, path))",
    f"CREATE TABLE {DEFINITIONS} (name STRING NOT NULL, kind STRING NOT NULL, "
    "sql STRING NOT NULL, PRIMARY KEY (name))",
)


@contextmanager
def scratch_mill(
    spec: Spec, definitions: Iterable[Definition], *, compile: str | None = None
) -> Iterator[Mill]:
    """A mill in memory with the project's tables and views, all empty."""
    with vm.connect(memory=spec.memory, compile=compile) as mill:
        for each in definitions:
            _create(mill, each)
        _check_names(spec, mill)
        set_policies(spec, mill)
        yield mill


@contextmanager
def durable_mill(spec: Spec, *, must_exist: bool = True) -> Iterator[Mill]:
    """The project's mill on disk; one that must exist is only read."""
    if must_exist and not spec.mill_path.exists():
        raise InvalidArgument(
            f"{spec.name} has not run yet: there is no {spec.mill_path}",
            hint=f"viewmill run --spec {spec.file}",
        )
    spec.storage.mkdir(parents=True, exist_ok=True)
    with vm.connect(spec.mill_path, memory=spec.memory, read_only=must_exist) as mill:
        yield mill


def check(spec: Spec) -> list[Definition]:
    """Create everything in a scratch mill, so that mistakes show before anything changes."""
    definitions = read_definitions(spec)
    with scratch_mill(spec, definitions):
        return definitions


def _check_names(spec: Spec, mill: Mill) -> None:
    tables, views = mill.tables(), mill.views()
    for source in spec.sources:
        if source.name.lower() not in _keys(tables):
            raise spec.error(
                f"sources.{source.name}",
                "it has no schema and no library creates it",
                hint=f'Add schema: "id BIGINT, ..." to sources.{source.name}.',
            )
    for sink in spec.sinks:
        if sink.view.lower() not in _keys(views):
            hint = nearest(sink.view, views)
            raise spec.error(f"sinks.{sink.view}", f"no view is called {sink.view!r}", hint=hint)


def set_policies(spec: Spec, mill: Mill) -> None:
    """The refresh policies that the spec gives to views; they replace those in the SQL."""
    for view, clauses in spec.refresh.items():
        if view.lower() not in _keys(mill.views()):
            hint = nearest(view, mill.views())
            raise spec.error(f"refresh.{view}", f"no view is called {view!r}", hint=hint)
        try:
            mill[view].set_policies(*clauses)
        except ViewmillError as error:
            raise spec.error(f"refresh.{view}", error.message, hint=error.hint) from error


def define(
    mill: Mill, definitions: list[Definition], *, start_over: Collection[str] = ()
) -> list[str]:
    """Bring the mill's tables and views in line; the remarks say what was done.

    Tables named in `start_over` (in lower case) are emptied, so that their files are taken again.
    """
    _create_own(mill)
    remarks: list[str] = []
    noted = _noted(mill)
    known = {each.key: each for each in definitions}
    changed = {
        each.key
        for each in definitions
        if each.key in start_over or noted.get(each.key, ("", ""))[1] != each.sql
    }
    _check_tables(known, noted, changed, start_over)
    gone = {name for name, (kind, _) in noted.items() if name not in known and kind != "TABLE"}
    outdated = dependents(changed | gone, definitions)
    _drop(mill, noted, outdated | gone, definitions)
    for name in gone:
        remarks.append(f"view {name} is no longer in the libraries: dropped")
    for each in definitions:
        if each.key in outdated:
            _create(mill, each)
            mill.upsert(DEFINITIONS, [(each.key, each.kind, each.sql)])
            word = "created" if each.key not in noted else "created again"
            remarks.append(f"{each.kind.lower()} {each.name}: {word}")
    return remarks


def _check_tables(
    known: dict[str, Definition],
    noted: dict[str, tuple[str, str]],
    changed: set[str],
    start_over: Collection[str],
) -> None:
    for key in changed - set(start_over):
        if key in noted and "TABLE" in (known[key].kind, noted[key][0]):
            each = known[key]
            raise ForbiddenChange(
                f"{each.where}: the table {each.name} is declared otherwise than before",
                detail=f"It was: {noted[key][1]}",
                hint=f"--full-refresh {each.name} makes it anew and takes its files again.",
            )


def _drop(
    mill: Mill,
    noted: dict[str, tuple[str, str]],
    names: set[str],
    definitions: list[Definition],
) -> None:
    """Drop those that exist, dependents first; a half-done drop is seen by its missing note."""
    tables, views = _keys(mill.tables()), _keys(mill.views())
    order = [name for name in noted if name not in {each.key for each in definitions}]
    order += [each.key for each in reversed(definitions)]
    kinds = {each.key: each.kind for each in definitions}
    gone = names & noted.keys()
    files = [each for each in select(mill, f"SELECT * FROM {FILES}").rows() if each[0] in gone]
    with mill.batch():
        mill.delete(DEFINITIONS, [(name, *noted[name]) for name in gone])
        mill.delete(FILES, files)
    for name in order:
        if name not in names:
            continue
        kind = noted[name][0] if name in noted else kinds[name]
        if name in tables:
            mill.sql(f"DROP TABLE {quoted(name)}")
        elif name in views or kind == "VIEW":
            mill.sql(
                f"DROP {'MATERIALIZED ' if name in views else ''}VIEW IF EXISTS {quoted(name)}"
            )


def _create_own(mill: Mill) -> None:
    tables = _keys(mill.tables())
    for name, sql in zip((FILES, DEFINITIONS), OWN, strict=True):
        if name not in tables:
            mill.sql(sql)


def select(mill: Mill, query: str) -> Result:
    """The rows of a SELECT."""
    result: Result | None = mill.sql(query)
    assert result is not None
    return result


def _noted(mill: Mill) -> dict[str, tuple[str, str]]:
    rows = select(mill, f"SELECT name, kind, sql FROM {DEFINITIONS}").rows()
    return {name: (kind, sql) for name, kind, sql in rows}


def _create(mill: Mill, definition: Definition) -> None:
    try:
        mill.sql(definition.placed_sql)
    except ViewmillError as error:
        raise definition.error(error) from error


def _keys(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}

"""`viewmill test`: unit tests of views. Given these rows, expect those.

    a refund is not revenue:
      given:
        orders: [{id: 1, customer: ann, amount: 10}, {id: 2, customer: ann, amount: -4}]
      then:
        - delete: {orders: [{id: 2, customer: ann, amount: -4}]}
      expect:
        revenue: [{customer: ann, revenue: 10}]

Each test runs in a mill of its own in memory with the project's tables and views, and every view
that it names is also compared with recompute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from viewmill.algebra.names import quoted
from viewmill.algebra.schema import Schema
from viewmill.cli.arguments import SPEC, SpecOption
from viewmill.cli.definitions import Definition, read_definitions
from viewmill.cli.project import scratch_mill
from viewmill.cli.spec import Spec, read_spec
from viewmill.cli.terminal import print_text
from viewmill.errors import InvalidArgument, ViewmillError
from viewmill.mill.catalog import PlainEntry
from viewmill.testing.oracle import differences

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill

DIFFERENT = 3
_DEFAULT = "tests/**/*.yml"
_KEYS = {"given", "then", "expect"}


def test(
    files: Annotated[
        list[Path] | None, typer.Argument(help=f"Files of tests; {_DEFAULT} if left out.")
    ] = None,
    spec: SpecOption = SPEC,
) -> None:
    """Run unit tests of views: given these rows, expect those. Exit code 3 if one fails."""
    project = read_spec(spec)
    definitions = read_definitions(project)
    found = files or project.files(_DEFAULT)
    if not found:
        raise InvalidArgument(
            f"there are no tests: no file matches {_DEFAULT}", hint="Name the files."
        )
    failures = 0
    for file in found:
        for name, case in _read(file):
            failures += _report(project, definitions, f"{file.name}: {name}", case)
    if failures:
        print_text(f"{failures} failed")
        raise typer.Exit(DIFFERENT)


def _report(spec: Spec, definitions: list[Definition], title: str, case: Any) -> bool:
    start = time.perf_counter()
    wrong = run_case(spec, definitions, title, case)
    print_text(f"{'FAILED' if wrong else 'ok':6} {title} ({time.perf_counter() - start:.2f} s)")
    for line in wrong:
        print_text(f"       {line}")
    return bool(wrong)


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice: of two tests with one name only one would be run."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and keys.count(key.value) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f'"{key.value}" is there twice', key.start_mark
                )
        return super().construct_mapping(node, deep)


def _read(file: Path) -> Iterator[tuple[str, Any]]:
    """The tests of a file, by name."""
    try:
        found = yaml.load(file.read_text("utf-8"), _Loader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as why:
        raise InvalidArgument(f"{file} cannot be read", detail=str(why)) from why
    if not isinstance(found, dict):
        raise InvalidArgument(f"{file} holds no tests", hint="a name: {given: ..., expect: ...}")
    for name, case in found.items():
        if not isinstance(case, dict) or not case.get("expect") or set(case) - _KEYS:
            raise InvalidArgument(
                f'{file}: "{name}" is no test', hint="It has given, then (if needed) and expect."
            )
        yield str(name), case


def run_case(spec: Spec, definitions: list[Definition], title: str, case: Any) -> list[str]:
    """What is wrong after a test; nothing if it holds."""
    with scratch_mill(spec, definitions, compile="off") as mill:
        try:
            for table, rows in _pairs(title, case.get("given") or {}):
                mill.insert(table, rows)
            steps = case.get("then") or []
            if not isinstance(steps, list):
                raise InvalidArgument(f"{title}: after `then` stands a list of steps")
            for step in steps:
                _change(title, mill, step)
            wrong: list[str] = []
            for view, rows in _pairs(title, case["expect"]):
                wrong += [f"{view}: {each}" for each in compare(mill, view, rows)]
            return wrong
        except ViewmillError as why:
            return [f"{type(why).__name__}: {why.message}", *filter(None, [why.detail, why.hint])]


def _pairs(title: str, given: Any) -> Iterator[tuple[str, list[Any]]]:
    is_right = isinstance(given, dict) and all(
        isinstance(name, str) and isinstance(rows, list) for name, rows in given.items()
    )
    if not is_right:
        raise InvalidArgument(f"{title}: expected lists of rows by table or view")
    return iter(given.items())


def _change(title: str, mill: Mill, step: Any) -> None:
    if not isinstance(step, dict) or len(step) != 1:
        raise InvalidArgument(f"{title}: a step is one of insert, delete, upsert and sql")
    ((kind, what),) = step.items()
    changes: dict[str, Callable[[str, Any], Any]] = {
        "insert": mill.insert, "delete": mill.delete, "upsert": mill.upsert,
    }  # fmt: skip
    if kind == "sql":
        mill.sql(str(what))
        return
    if kind not in changes:
        hint = "insert, delete, upsert, sql"
        raise InvalidArgument(f'{title}: there is no step "{kind}"', hint=hint)
    with mill.batch():
        for table, rows in _pairs(title, what):
            changes[kind](table, rows)


def compare(mill: Mill, view: str, rows: list[Any]) -> list[str]:
    """The differences between a view and the rows that are expected of it."""
    names = [str(name) for name in rows[0]] if rows and isinstance(rows[0], dict) else None
    chosen = "*" if names is None else ", ".join(quoted(name) for name in names)
    shown = mill.sql(f"SELECT {chosen} FROM {quoted(view)}")
    wrong = differences(_typed(mill, view, chosen, rows), shown.rows())
    if view.lower() in {each.lower() for each in mill.views()}:
        wrong += [f"not equal to recompute: {each}" for each in mill[view].verify()]
    return wrong


def _typed(mill: Mill, view: str, chosen: str, rows: list[Any]) -> list[tuple[Any, ...]]:
    """The expected rows as values of the view's types: a table of these columns reads them."""
    empty = mill.sql(f"SELECT {chosen} FROM {quoted(view)} WHERE false").to_arrow()
    own = "expected rows"
    columns = ", ".join(
        f"{quoted(each.name)} {type_}"
        for each, type_ in zip(empty.schema, _types(mill, view, empty.schema.names), strict=True)
    )
    mill.sql(f"CREATE TABLE {quoted(own)} ({columns})")
    try:
        mill.insert(own, rows)
        return list(mill.sql(f"SELECT * FROM {quoted(own)}").rows())
    finally:
        mill.sql(f"DROP TABLE {quoted(own)}")


def _types(mill: Mill, view: str, names: list[str]) -> list[str]:
    """The types of the columns in SQL."""
    schema = mill.core.catalog.find(view)
    if isinstance(schema, Schema):
        found = {each.name.lower(): str(each.type) for each in schema}
    else:  # a plain view
        found = {each.name.lower(): str(each.type) for each in _plain(mill, view)}
    return [found[name.lower()] for name in names]


def _plain(mill: Mill, view: str) -> Schema:
    entry = mill.core.catalog.get(view)
    if not isinstance(entry, PlainEntry):
        raise InvalidArgument(f'there is no view "{view}"')
    return entry.schema

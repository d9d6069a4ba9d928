"""`viewmill dead-letters`: the rows that a Spark project refused, and to take them again."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from json import JSONDecodeError, dumps, loads
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from viewmill.cli.arguments import SPEC, JsonOption, SpecOption
from viewmill.cli.definitions import read_definitions
from viewmill.cli.project import durable_mill
from viewmill.cli.run_on_spark import project_of
from viewmill.cli.spec import Spec, read_spec
from viewmill.cli.terminal import print_json, print_text, remark
from viewmill.errors import InvalidArgument

_LETTERS, _PROJECT = "viewmill.pipeline.replay_letters", "viewmill.pipeline.spec"


def dead_letters(
    action: Annotated[
        Literal["list", "replay"], typer.Argument(help="Show the rows, or take them again.")
    ] = "list",
    file: Annotated[
        Path | None, typer.Argument(help="Letters as `list` prints them, with rows repaired.")
    ] = None,
    spec: SpecOption = SPEC,
    json: JsonOption = False,
) -> None:
    """Show refused rows with the reason, a line of JSON each; or take them again when repaired."""
    project = read_spec(spec)
    if action == "list":
        for letter in _waiting(project):
            print_text(dumps(letter, ensure_ascii=False))
        return
    if project.spark is None:
        raise InvalidArgument(
            "only projects with runtime: spark have dead letters",
            hint="In process, a row that does not fit stops the run and is named.",
        )
    letters = [*_read(file)] if file is not None else _waiting(project)
    found = pkgutil.resolve_name(f"{_PROJECT}:replay")(
        project_of(project, read_definitions(project)),
        [(each["id"], each["row"]) for each in letters],
    )
    if json:
        print_json({"taken": found.taken, "refused": [each._asdict() for each in found.refused]})
    for each in [] if json else found.refused:
        print_text(f"{each.source}: {each.reason}: {each.row}")
    remark(f"{found.taken:,} rows were taken, {len(found.refused):,} still wait")


def _waiting(project: Spec) -> list[dict[str, Any]]:
    package = pkgutil.resolve_name(_LETTERS)
    with durable_mill(project) as mill:
        return [
            {"id": package.letter_id(each), **each._asdict(), "row": _parsed(each.row)}
            for each in package.waiting_letters(mill)
        ]


def _parsed(row: str) -> Any:
    """An object where it is one; a text that Spark could not read stays as it is."""
    try:
        found = loads(row)
    except JSONDecodeError:
        return row
    return found if isinstance(found, dict) else row


def _read(file: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found = loads(line)
        except JSONDecodeError as why:
            raise InvalidArgument(f"{file}, line {number} is no JSON", detail=str(why)) from why
        if not isinstance(found, dict) or not {"id", "row"} <= found.keys():
            raise InvalidArgument(
                f"{file}, line {number} is no letter: it has no id and row",
                hint="viewmill dead-letters > letters.jsonl, then repair the rows.",
            )
        yield found

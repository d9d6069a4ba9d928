"""`viewmill verify`: compare views with recompute, row by row."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from viewmill.cli.arguments import SPEC, JsonOption, MillOption, SpecOption
from viewmill.cli.open_mill import open_mill
from viewmill.cli.terminal import print_json, print_text, progress

SHOWN = 10


def verify(
    views: Annotated[list[str] | None, typer.Argument(help="Views to verify; all if none.")] = None,
    spec: SpecOption = SPEC,
    mill: MillOption = None,
    json: JsonOption = False,
) -> None:
    """Compare views with recompute. Exit code 3 if a row differs."""
    with open_mill(spec, mill) as opened, progress("views") as bar:
        names = views or sorted(opened.views())
        task = bar.add_task("verifying", total=len(names), note="")
        found: dict[str, list[Any]] = {}
        for name in names:
            bar.update(task, note=name)
            found[name] = list(opened[name].verify())
            bar.advance(task)
    if json:
        print_json({name: [str(each) for each in rows] for name, rows in found.items()})
    else:
        for name, differences in found.items():
            _print_differences(name, differences)
    if any(found.values()):
        raise typer.Exit(3)


def _print_differences(name: str, differences: list[Any]) -> None:
    if not differences:
        print_text(f"{name}: equal to recompute")
        return
    print_text(f"{name}: {len(differences)} differences")
    for each in differences[:SHOWN]:
        print_text(f"  {each}")
    if len(differences) > SHOWN:
        print_text(f"  and {len(differences) - SHOWN} more")

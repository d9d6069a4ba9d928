"""`viewmill explain`: how a view is kept fresh, and why in this way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viewmill.cli.arguments import SPEC, JsonOption, MillOption, SpecOption
from viewmill.cli.subject import open_subject
from viewmill.cli.terminal import print_text
from viewmill.cli.terminal import remark as say

SubjectArgument = Annotated[
    str, typer.Argument(metavar="NAME|FILE.sql", help="A view, or a file that creates one.")
]


def explain(
    subject: SubjectArgument,
    spec: SpecOption = SPEC,
    mill: MillOption = None,
    json: JsonOption = False,
    svg: Annotated[Path | None, typer.Option(help="Write a picture to this file.")] = None,
) -> None:
    """Show the chosen strategy, the others with their reasons, and what is kept."""
    with open_subject(subject, spec, mill) as (opened, name):
        view = opened[name]
        if svg is not None:
            svg.write_text(str(view.explain("svg")))
            say(f"{svg} was written")
        elif json:
            print_text(str(view.explain("json")))
        else:
            print_text(str(view.explain()))

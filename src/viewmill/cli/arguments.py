"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viewmill.cli.spec import DEFAULT_SPEC

SpecOption = Annotated[
    Path, typer.Option("--spec", help="The spec file of the project.", show_default=True)
]
SpecFile = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="The spec file; the same as --spec.")
]
MillOption = Annotated[
    Path | None,
    typer.Option("--mill", help="A mill directory to open instead of the project's."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

SPEC = DEFAULT_SPEC

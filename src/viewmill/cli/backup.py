"""`viewmill backup`: a copy of a mill at one version, also while another process writes it."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import Annotated

import typer

from viewmill.cli.terminal import print_text


def backup(
    mill: Annotated[Path, typer.Argument(help="The directory of the mill.")],
    target: Annotated[Path, typer.Argument(help="Where the copy goes; absent or empty.")],
) -> None:
    """Copy a mill, also while it is written. The copy is a mill: open it, or copy it back."""
    version = pkgutil.resolve_name("viewmill.mill.backup:back_up")(mill.absolute(), target)
    print_text(f"{target}: version {version}")

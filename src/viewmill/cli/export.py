"""`viewmill export`: the tables and views of a mill as Parquet files, and their definitions."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import viewmill as vm
from viewmill.algebra.names import folder_name, quoted
from viewmill.cli.terminal import print_text
from viewmill.errors import InvalidArgument, ViewmillError

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill

DEFINITIONS = "definitions.sql"


def export(
    mill: Annotated[Path, typer.Argument(help="The directory of the mill.")],
    folder: Annotated[Path, typer.Argument(help="Where to write; new or empty.")],
) -> None:
    """Write all tables and all views that can be read to Parquet, with their definitions.

    It reads the mill as it is now, also while another process writes it, and also if some of its
    views are broken.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidArgument(f"{folder} is not empty", hint="Name a new directory.")
    with vm.connect(mill, read_only=True) as opened:
        kinds = {"tables": opened.tables(), "views": opened.views()}
        left_out = dict(opened.broken())
        for kind, names in kinds.items():
            for name in names:
                why = _write(opened, name, folder / kind)
                if why is not None:
                    left_out[name] = why
        texts = opened.definitions()
        version = opened.version
    folder.mkdir(parents=True, exist_ok=True)
    whole = "".join(f"{text};\n" for text in texts)
    (folder / DEFINITIONS).write_bytes(whole.encode())  # line breaks in texts stay what they are
    print_text(f"{folder}: version {version}, {DEFINITIONS}")
    for name, why in left_out.items():
        print_text(f"left out: {name} ({why})")


def _write(mill: Mill, name: str, folder: Path) -> str | None:
    """Write a table or view to its file; why it cannot be read, None if it was written."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{folder_name(name)}.parquet"
    try:
        rows: Any = mill.sql(f"SELECT * FROM {quoted(name)}").to_arrow()
    except ViewmillError as why:
        return why.message
    pkgutil.resolve_name("pyarrow.parquet:write_table")(rows, path)
    print_text(f"{path}: {rows.num_rows} rows")
    return None

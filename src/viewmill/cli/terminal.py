"""Output of the commands: results to stdout, progress and remarks to stderr."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from viewmill.algebra.names import visible
from viewmill.errors import ViewmillError

PLAIN_WIDTH = 160  # where nobody measures the screen: pipes and files


def results() -> Console:
    """Where results go."""
    return _console(sys.stdout)


def remarks() -> Console:
    """Where progress and remarks go."""
    return _console(sys.stderr)


def _console(stream: Any) -> Console:
    width = None if stream.isatty() else PLAIN_WIDTH
    wraps = not stream.isatty()
    return Console(file=stream, width=width, highlight=False, emoji=False, soft_wrap=wraps)


def remark(text: str) -> None:
    """Say something that is not the result."""
    remarks().print(escape(visible(text)), style="dim" if sys.stderr.isatty() else None)


def own_name() -> str:
    """How to call this command from here: by name, or by path where it is not on the PATH."""
    return "viewmill" if shutil.which("viewmill") else os.path.relpath(sys.argv[0])


def print_text(text: str) -> None:
    """Print a result: as it is into files and pipes, without control characters to people."""
    shown = visible(text) if sys.stdout.isatty() else text
    sys.stdout.write(shown.rstrip("\n") + "\n")


def print_json(value: Any) -> None:
    """Print a result for programs."""
    sys.stdout.write(json.dumps(value, indent=2, default=_plain, ensure_ascii=False) + "\n")


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else str(value)


def print_error(error: ViewmillError) -> None:
    """The message in one line, then the underlined place, the reason and what to try."""
    console = remarks()
    first, *rest = visible(str(error)).split("\n")
    line = Text.assemble(("error: ", "bold red"), (first, "bold"))
    console.print(line, soft_wrap=True)
    for each in rest:
        console.print(Text(each), soft_wrap=True)


def grid(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Table:
    """A table; numbers stand to the right."""
    cells = [list(row) for row in rows]
    table = Table(title=title, box=None, pad_edge=False, header_style="bold", title_justify="left")
    for i, name in enumerate(columns):
        is_number = bool(cells) and all(isinstance(row[i], int | float | Decimal) for row in cells)
        table.add_column(
            escape(visible(name)), justify="right" if is_number else "left", overflow="fold"
        )
    for row in cells:
        table.add_row(*(escape(visible(show_value(value))) for value in row))
    return table


def show_value(value: Any) -> str:
    """A value as people read it.

    >>> show_value(1234567), show_value(0.123456), show_value(None), show_value(True)
    ('1,234,567', '0.123', 'NULL', 'yes')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.3f}" if abs(value) < 1000 else f"{value:,.0f}"
        case _:
            return str(value)


def show_bytes(count: float) -> str:
    """A size as people read it.

    >>> show_bytes(512), show_bytes(2_300_000)
    ('512 B', '2.3 MB')
    """
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} GB"


def progress(unit: str = "") -> Progress:
    """A progress bar on stderr; nothing is drawn where stderr is no terminal."""
    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("[dim]{task.fields[note]}"),
        TimeElapsedColumn(),
    ]
    console = remarks()
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)

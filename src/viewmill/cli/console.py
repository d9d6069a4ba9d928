"""`viewmill console`: a page in the browser that shows a mill as it changes."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

import viewmill as vm
from viewmill.cli.spec import DEFAULT_SPEC, read_spec
from viewmill.cli.terminal import print_text, remark
from viewmill.errors import InvalidArgument
from viewmill.mill.servers import FOLLOW_CONSOLE, server


def console(
    subject: Annotated[
        Path,
        typer.Argument(metavar="[MILL|PROJECT]", help="A mill, a project or its spec file."),
    ] = Path(),
    port: Annotated[int, typer.Option(help="The port on loopback; 0 takes a free one.")] = 0,
    write: Annotated[
        bool, typer.Option("--write", help="Open it for writing, and take every statement.")
    ] = False,
    browse: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Show a mill in the browser: tables, views, plans, refreshes, and a SQL editor.

    It listens on loopback only, and only who has the link can ask. Another process may be writing
    the mill: it is read again when it has changed. With --write it must not.
    """
    path = _mill_path(subject)
    if not write:
        _serve(server(FOLLOW_CONSOLE, "console")(path, port=port), browse)
        return
    with vm.connect(path) as mill:
        _serve(mill.console(port=port, write=True), browse)


def _mill_path(subject: Path) -> Path:
    """The directory of the mill that is meant."""
    spec = subject / DEFAULT_SPEC if subject.is_dir() else subject
    found = read_spec(spec).mill_path if spec.is_file() else subject
    if not found.is_dir() or found == Path():
        raise InvalidArgument(
            f"there is no mill at {found}", hint="Name its directory, or a project that has run."
        )
    return found.absolute()


def _serve(running: Any, browse: bool) -> None:
    """Say where it is, and wait for Ctrl-C."""
    with running:
        print_text(running.url)
        remark("Ctrl-C stops it")
        with _way_in(running.url) if browse else nullcontext():
            try:
                running.wait()
            except KeyboardInterrupt:
                remark("stopped")


@contextmanager
def _way_in(url: str) -> Iterator[None]:
    """Open a browser by a file that leads to the link.

    Others on this machine can read the command lines of programs, so that the link is not in one.
    """
    with TemporaryDirectory(prefix="viewmill-console-") as folder:
        page = Path(folder) / "console.html"
        page.write_text(f'<meta http-equiv="refresh" content="0; url={escape(url)}">\n')
        webbrowser.open(page.as_uri())
        yield

"""The `viewmill` command.

takes  the arguments of the command line
gives  an exit code: 0 fine, 1 the user can mend it, 2 wrong usage, 3 verify found differences
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from viewmill.cli.adopt import adopt
from viewmill.cli.backup import backup
from viewmill.cli.bench import bench
from viewmill.cli.console import console
from viewmill.cli.dead_letters import dead_letters
from viewmill.cli.demo import demo
from viewmill.cli.doctor import doctor
from viewmill.cli.dry_run import dry_run
from viewmill.cli.explain import explain
from viewmill.cli.export import export
from viewmill.cli.init import init
from viewmill.cli.plan import plan
from viewmill.cli.run import run
from viewmill.cli.serve import serve
from viewmill.cli.show import show
from viewmill.cli.status import status
from viewmill.cli.terminal import print_error
from viewmill.cli.test import test
from viewmill.cli.verify import verify
from viewmill.cli.warm import warm
from viewmill.errors import ViewmillError

COMMANDS = (
    init, run, dry_run, plan, explain, show, status, verify, console, doctor, export, backup,
    serve, test, warm, demo, bench, adopt, dead_letters,
)  # fmt: skip

app = typer.Typer(
    name="viewmill",
    help="Keeps SQL views fresh at the cost of the change, not the cost of the data.",
    epilog="Start with `viewmill demo`, or `viewmill init mybook && cd mybook && viewmill run`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in COMMANDS:
    app.command(name=command.__name__.replace("_", "-"))(command)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"viewmill {version('viewmill')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Keeps SQL views fresh at the cost of the change, not the cost of the data."""


def main() -> None:
    """Run a command; a mistake of the user is one message, never a traceback."""
    try:
        app()
    except ViewmillError as error:
        print_error(error)
        sys.exit(1)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        print_error(ViewmillError(f"{error.strerror or error}{where}"))
        sys.exit(1)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()

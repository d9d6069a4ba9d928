"""`viewmill serve`: the tables and views of a mill for clients of Postgres."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from viewmill.cli.arguments import SPEC, SpecOption
from viewmill.cli.open_mill import open_mill
from viewmill.cli.terminal import print_text
from viewmill.errors import InvalidArgument
from viewmill.serve.limits import Limits
from viewmill.serve.users import add_user

_DEFAULT = Limits()


def serve(
    mill: Annotated[Path | None, typer.Argument(help="The directory of a mill.")] = None,
    spec: SpecOption = SPEC,
    port: Annotated[int, typer.Option(help="Where to listen; 0 chooses a free port.")] = 5433,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    users: Annotated[Path | None, typer.Option(help="A file of users and secrets.")] = None,
    new_user: Annotated[
        str | None, typer.Option("--add-user", help="Add a user to the file, then stop.")
    ] = None,
    grants: Annotated[Path | None, typer.Option(help="A file of GRANT statements.")] = None,
    cert: Annotated[Path | None, typer.Option(help="A certificate: only TLS is taken.")] = None,
    key: Annotated[Path | None, typer.Option(help="The private key of --cert.")] = None,
    metrics: Annotated[
        int | None, typer.Option("--metrics-port", help="Serve /metrics and /health here.")
    ] = None,
    max_rows: Annotated[int, typer.Option(help="Rows of one result.")] = _DEFAULT.rows,
    max_bytes: Annotated[int, typer.Option(help="Bytes of one result.")] = _DEFAULT.bytes,
    timeout: Annotated[float, typer.Option(help="Seconds of one query.")] = _DEFAULT.seconds,
) -> None:
    """Serve the mill as it is now, read-only, to psql, BI tools and drivers of Postgres.

    Another process may be writing the mill; start again to serve what it wrote since. A program
    that has a mill open serves it live by mill.serve().
    """
    if new_user is not None:
        _add_user(users, new_user)
        return
    with (
        open_mill(spec, mill) as opened,
        opened.serve(
            port=port,
            host=host,
            users=users,
            max_rows=max_rows,
            max_bytes=max_bytes,
            timeout=timeout,
            cert=cert,
            key=key,
            grants=grants,
        ) as server,
    ):
        if metrics is not None:
            answering = opened.serve_metrics(port=metrics, host=host)
            print_text(f"metrics on port {answering.port}")
        print_text(f"listening on {server.address}:{server.port}, version {opened.version}")
        sys.stdout.flush()
        server.wait()


def _add_user(users: Path | None, name: str) -> None:
    if users is None:
        raise InvalidArgument("--add-user needs a file", hint="--users FILE names it.")
    if sys.stdin.isatty():
        password = typer.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    add_user(users, name, password)
    print_text(f"{name} can connect with --users {users}")

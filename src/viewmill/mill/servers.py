"""Servers of a mill, which live in rooms above and need libraries that not everyone has.

takes  the name of a function and the extra that brings what it needs
gives  the function, or an error that says what to install
"""

from __future__ import annotations

import pkgutil
from typing import Any

from viewmill.errors import MissingDependency

OPEN_CONSOLE = "viewmill.console.console:open_console"
PIPELINE_CONSOLE = "viewmill.console.console:pipeline_console"
FOLLOW_CONSOLE = "viewmill.console.console:follow_console"


def server(name: str, extra: str) -> Any:
    """The function that starts a server."""
    try:
        return pkgutil.resolve_name(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "viewmill":
            raise
        raise MissingDependency(
            f"{missing.name} is not installed", hint=f"pip install 'viewmill[{extra}]'"
        ) from missing

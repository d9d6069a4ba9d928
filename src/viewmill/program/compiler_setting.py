"""How kernels are made: compiled in the background, compiled at once, or interpreted for good."""

from __future__ import annotations

import os

from viewmill.errors import InvalidArgument

MODES = ("background", "now", "off")
_VARIABLE = "VIEWMILL_COMPILER"
_SPELLINGS = dict.fromkeys(("on", "1", "yes", "true"), "now") | dict.fromkeys(
    ("0", "no", "false"), "off"
)


def compiler_setting(asked: str | None = None) -> str:
    """As asked, else as the environment variable VIEWMILL_COMPILER says, else in the background."""
    said = asked if asked is not None else os.environ.get(_VARIABLE) or MODES[0]
    mode = _SPELLINGS.get(said.lower(), said.lower())
    if mode not in MODES:
        where = _VARIABLE if asked is None else "compile"
        raise InvalidArgument(f"{where}={said} is not known", hint=f"Say {' or '.join(MODES)}.")
    return mode

"""Collect the functions of trigger source from the modules of a package."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from viewmill.program.trigger_functions import FUNCTIONS


def collect(package: str, paths: list[str]) -> dict[str, Callable[..., Any]]:
    """The functions of `program.trigger_functions`, each from the module that defines it."""
    found: dict[str, Callable[..., Any]] = {}
    for each in iter_modules(paths):
        module = import_module(f"{package}.{each.name}")
        for name in FUNCTIONS.intersection(vars(module)):
            function = getattr(module, name)
            if function.__module__ == module.__name__:
                found[name] = function
    missing = FUNCTIONS - set(found)
    if missing:
        raise ImportError(f"{package} does not define {', '.join(sorted(missing))}")
    return found

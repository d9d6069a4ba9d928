"""The kernels of shared windows: compiled from one file each, or run as they are.

takes  the name of a file in `structures.windows`, of a function in it, and its argument types
gives  the function over arrays

A user's operations are written into the file, so that Numba can cache what it compiles.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numba import types

from viewmill.algebra.operation_calls import OperationCall
from viewmill.kernels import compiler
from viewmill.kernels.compiler import ROWS, WORD, WORDS
from viewmill.kernels.source import load_source
from viewmill.kernels.window_operations import given_names, user_source, with_names

REALS = types.float64[:, ::1]
_PAYLOAD = (ROWS, REALS)
# Panes, words, reals, more of both, links, mode, ops.
_STORE = (WORDS, *_PAYLOAD, *_PAYLOAD, ROWS, WORD, ROWS)
_ASKED = (WORDS, WORDS, WORDS, *_PAYLOAD, *_PAYLOAD)  # groups, firsts, ends, out, spare
_NEW = (WORD, WORDS, WORDS, WORDS, *_PAYLOAD, WORDS, *_PAYLOAD, *_PAYLOAD)
SIGNATURES = {
    "change": (*_NEW, ROWS, WORDS, *_STORE),
    "answer": (*_ASKED, ROWS, *_PAYLOAD, ROWS, *_STORE),
    "fold": (WORDS, *_PAYLOAD, *_PAYLOAD, ROWS),
    "forget": (WORDS, WORD, ROWS, WORDS, WORDS),
    "number_rows": (WORD, ROWS, WORDS, ROWS, WORDS, WORDS),
    "fill_slots": (ROWS, WORDS, WORDS),
}

Kernel = Callable[..., int]
# A file's functions may read those of others.
_BELOW = {"partials": ("payload_rows",), "stretches": ("payload_rows", "partials")}


@cache
def window_kernel(
    file: str, function: str, compiled: bool, operations: tuple[OperationCall, ...] = ()
) -> Kernel:
    """A function of a file of `structures.windows`."""
    functions = _functions(file, compiled, operations)
    if not compiled:
        plain: Kernel = np.errstate(over="ignore", invalid="ignore")(functions[function])
        return plain
    kind = "answer" if function.startswith("answer_") else function
    return compiler.compile_kernel(functions[function], SIGNATURES[kind])


@cache
def _functions(file: str, compiled: bool, operations: tuple[OperationCall, ...]) -> dict[str, Any]:
    header = f"Windows: {file}, {'compiled' if compiled else 'plain'}."
    files = (*_BELOW.get(file, ()), file)
    source = "\n\n\n".join(map(_source, files)) + user_source(operations)
    made: dict[str, Any] = dict(
        load_source(f"windows_{file}", source, None, header, given_names(operations))
    )
    names = next(iter(made.values())).__globals__
    names["U"], names["np"] = np.uint64 if compiled else int, np
    if not compiled and file == "numbers":
        names["U"] = np.uint64  # it multiplies words that wrap around
    with_names(names, operations, compiled)
    if compiled:
        for name, function in made.items():
            names[name] = compiler.inlined(function)
    return made


def _source(file: str) -> str:
    """The constants and functions of a file, without what it imports."""
    path = import_module(f"viewmill.kernels.structures.windows.{file}").__file__
    assert path is not None
    text = Path(path).read_text(encoding="utf-8")
    kept = [
        ast.get_source_segment(text, node) or ""
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.Assign) and _names(node) != ["U"])
    ]
    return "\n\n\n".join(kept)


def _names(node: ast.Assign) -> list[str]:
    return [each.id for each in node.targets if isinstance(each, ast.Name)]

"""Load all kernels of a program, compiling those that the cache does not have.

takes  a program of triggers, or ROW_KERNELS
gives  nothing: afterwards `build(program, ..., compiled=True)` neither compiles nor reads a file

A program that was warmed leaves a marker in the cache, so that the next process knows that loading
it takes a moment and compiling is not needed.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from pathlib import Path

from viewmill.deltas.dictionary import Dictionary
from viewmill.kernels.build import build
from viewmill.kernels.compiled_rows import load_row_kernels
from viewmill.kernels.source import cache_directory, library_hash, without_head
from viewmill.program.program import Program, Triggers

_LIBRARY = "viewmill.kernels.structures"
ROW_KERNELS = "row kernels"  # of all row indexes


def warm(what: Program | str) -> None:
    """Compile or load whatever a maintainer of the program calls, or a row index."""
    if isinstance(what, str):
        load_row_kernels()
    else:
        build(what, Dictionary(), compiled=True).load_kernels()
    marker = _marker(what)
    if marker is not None:
        marker.parent.mkdir(exist_ok=True)
        marker.touch()


def is_warm(what: Program | str) -> bool:
    """Whether this or another process has compiled it into the cache."""
    marker = _marker(what)
    return marker is not None and marker.exists()


def _marker(what: Program | str) -> Path | None:
    """The marker's file; None where user functions decide what is compiled."""
    text = what if isinstance(what, str) else _what_decides(what)
    if text is None:
        return None
    name = blake2b(f"{whole_library()}\n{text}".encode(), digest_size=12).hexdigest()
    return cache_directory() / "warm" / name


def _what_decides(program: Program) -> str | None:
    """All that the kernels of a program depend on, beside the library."""
    body = program.body
    if not isinstance(body, Triggers) or body.rings:
        return None
    kinds = repr([(each.name, each.kind) for each in program.states])
    schemas = repr([each.schema for each in program.inputs])
    return f"{kinds}\n{schemas}\n{without_head(body.source)}"


@cache
def whole_library() -> str:
    """Changes with any edit of the structures library."""
    folder = Path(__file__).parent.parent / "structures"
    return library_hash(*(f"{_LIBRARY}.{path.stem}" for path in sorted(folder.glob("[a-z]*.py"))))

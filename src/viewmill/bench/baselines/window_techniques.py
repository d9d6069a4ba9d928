"""A technique of final aggregation together with an operation, as a kernel.

takes  the name of a technique, an Operation, the number of partials in the longest window
gives  a Window: feed it partials, get answers

The technique's text and the operation are written into one file, so that a person can read what
runs and Numba can cache it. With the compiler off the same file runs as it is.
"""

from __future__ import annotations

import ast
import marshal
import time
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from viewmill.algebra.operations import Operation
from viewmill.errors import InvalidArgument, nearest
from viewmill.kernels import compiler
from viewmill.kernels.compiler import FLOATS, WORD, WORDS
from viewmill.kernels.source import load_source

TECHNIQUES = (
    "naive",
    "panes_inv",
    "flatfat",
    "bint",
    "flatfit",
    "twostacks",
    "daba",
    "slickdeque_inv",
    "slickdeque_noninv",
)

Array = npt.NDArray[Any]
Kernel = Callable[..., int]


class Window:
    """The last partials of a stream, and their aggregate after each new one."""

    def __init__(
        self,
        technique: str,
        operation: Operation,
        size: int,
        *,
        ranges: Sequence[int] | None = None,
        dtype: npt.DTypeLike = np.float64,
        compiled: bool | None = None,
    ) -> None:
        """One range of `size` partials; or several, ascending, none longer than `size`."""
        module = technique_module(technique)
        _check(technique, module, operation, size, ranges)
        self.technique, self.operation, self.size = technique, operation, size
        self.dtype = np.dtype(dtype)
        self.ranges = None if ranges is None else np.asarray(ranges, np.int64)
        self._identity = np.array(operation.identity, self.dtype)[()]
        values, cursors = module.space(size)
        self._values = np.full(values, self._identity, self.dtype)
        self._cursors = np.zeros(cursors, np.int64)
        self.compiled = is_on = compiler.is_on(compiled)
        self._slide = _kernel(technique, operation, "slide", self.dtype, is_on)
        if ranges is not None:
            self._all = _kernel(technique, operation, "slide_all", self.dtype, is_on)
            self._answers = np.full(len(ranges), self._identity, self.dtype)

    def slide(self, partials: Array) -> Array:
        """The aggregate of the last `size` partials after each of these."""
        partials = np.ascontiguousarray(partials, self.dtype)
        out = np.empty_like(partials)
        self._slide(partials, out, self._values, self._cursors, self.size, self._identity)
        return out

    def slide_into(self, partials: Array, out: Array) -> None:
        """`slide` without making an array; both are contiguous and of the window's type."""
        self._slide(partials, out, self._values, self._cursors, self.size, self._identity)

    def slide_all(self, partials: Array) -> tuple[Array, Any]:
        """The answer of each range after the last partial, and the sum of all answers given."""
        if self.ranges is None:
            raise InvalidArgument("this window was made for one range")
        partials = np.ascontiguousarray(partials, self.dtype)
        seen = np.zeros(1, self.dtype)
        memory = (self._values, self._cursors, self.size, self._identity)
        self._all(partials, self.ranges, self._answers, seen, *memory)
        return self._answers, seen[0]

    def time_each(self, partials: Array) -> Array:
        """Nanoseconds that each slide took."""
        kernel = _kernel(self.technique, self.operation, "time_each", self.dtype, self.compiled)
        ticks, out = np.zeros(len(partials), np.int64), np.empty_like(partials)
        arguments = (out, ticks, self._values, self._cursors, self.size, self._identity)
        start = time.perf_counter_ns()
        kernel(partials, *arguments)
        passed = time.perf_counter_ns() - start
        # The clock's unit is not known beforehand: all slides together took what passed, less the
        # reading of the clock itself.
        return ticks * min(1.0, passed / max(1, int(ticks.sum())))

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self._values.nbytes + self._cursors.nbytes


def technique_module(technique: str) -> ModuleType:
    """The file of a technique."""
    if technique not in TECHNIQUES:
        raise InvalidArgument(
            f"there is no technique {technique!r}", hint=nearest(technique, TECHNIQUES)
        )
    return import_module(f"viewmill.bench.baselines.windows.{technique}")


def has_ranges(technique: str) -> bool:
    """Whether the technique answers several ranges at once."""
    return hasattr(technique_module(technique), "slide_all")


def _check(
    technique: str,
    module: ModuleType,
    operation: Operation,
    size: int,
    ranges: Sequence[int] | None,
) -> None:
    if size < 1:
        raise InvalidArgument(f"a window has at least one partial, not {size}")
    if not operation.has(module.NEEDS):
        word = {"inverse": "an inverse", "selective": "a selective operation"}[module.NEEDS]
        raise InvalidArgument(
            f"{technique} needs {word}, which {operation.name} is not declared to have",
            hint="twostacks, daba, flatfit, flatfat, bint and naive take any associative operation",
        )
    if ranges is None:
        return
    if not has_ranges(technique):
        raise InvalidArgument(f"{technique} answers one range only")
    steps = [0, *ranges]
    if not ranges or any(a >= b for a, b in pairwise(steps)):
        raise InvalidArgument("ranges ascend, and start from one partial")
    if steps[-1] > size:
        raise InvalidArgument(f"a range of {steps[-1]} partials in a window of {size}")


@cache
def _kernel(
    technique: str, operation: Operation, function: str, dtype: np.dtype[Any], compiled: bool
) -> Kernel:
    functions = _functions(technique, operation, compiled)
    if not compiled:
        plain: Kernel = np.errstate(over="ignore", invalid="ignore")(functions[function])
        return plain
    values = FLOATS if dtype == np.float64 else WORDS
    value = types.float64 if dtype == np.float64 else types.int64
    memory = (values, WORDS, WORD, value)
    arguments = {
        "slide": (values, values, *memory),
        "time_each": (values, values, WORDS, *memory),
        "slide_all": (values, WORDS, values, values, *memory),
    }
    return compiler.compile_kernel(functions[function], arguments[function])


_GIVEN = ("COMMUTATIVE", "U", "np", "combine", "inverse", "wide_vectors", "cycles")


@cache
def _functions(technique: str, operation: Operation, compiled: bool) -> dict[str, Any]:
    """The technique's functions, reading this operation."""
    source = _source(technique)
    header = (
        f"Window technique {technique} for the operation {operation.name} "
        f"({_fingerprint(operation)}), {'compiled' if compiled else 'plain'}."
    )
    functions: dict[str, Any] = dict(
        load_source(f"window_{technique}", source, None, header, _GIVEN)
    )
    names = functions["slide"].__globals__
    names["COMMUTATIVE"] = operation.commutative
    names["U"], names["np"] = np.uint64 if compiled else int, np
    if not compiled:
        names.update(combine=operation.combine, inverse=operation.inverse, add_up=sum)
        names.update(wide_vectors=_nothing, cycles=time.perf_counter_ns)
        return functions
    names.update(wide_vectors=compiler.wide_vectors, cycles=compiler.cycles)
    names["combine"] = compiler.inlined(_copy(operation.combine))
    if operation.inverse is not None:
        names["inverse"] = compiler.inlined(_copy(operation.inverse))
    for name, function in functions.items():
        sums = name in ("add_up", "renew_all")
        names[name] = compiler.inlined(function, reorder_sums=sums)
    return functions


def _source(technique: str) -> str:
    """The functions of a technique's file and the reader's sum, without what imports them."""
    parts = []
    for name in ("operation", technique):
        path = import_module(f"viewmill.bench.baselines.windows.{name}").__file__
        assert path is not None
        text = Path(path).read_text(encoding="utf-8")
        wanted = ("add_up", "time_each") if name == "operation" else None
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and (wanted is None or node.name in wanted):
                parts.append(ast.get_source_segment(text, node) or "")
    return "\n\n\n".join(parts)


def _nothing() -> None:
    """What is only meant for the compiler."""


def _copy(function: Callable[..., Any]) -> FunctionType:
    """Numba keeps its mark on the function it is given; the user's own stays clean."""
    assert isinstance(function, FunctionType)
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, None, function.__closure__
    )


def _fingerprint(operation: Operation) -> str:
    """A hash of the operation's code, so that changed code never finds an old cached kernel."""
    digest = blake2b(digest_size=6)
    for function in (operation.combine, operation.inverse):
        if function is None:
            continue
        digest.update(marshal.dumps(function.__code__))
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        read = [function.__globals__.get(name) for name in function.__code__.co_names]
        digest.update(repr((cells, read)).encode())
    return digest.hexdigest()

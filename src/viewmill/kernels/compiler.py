"""Numba, and the private corners of it that make kernels fast.

takes  plain Python functions and their argument types
gives  compiled callables; with any corner gone, slower ones that mean the same

`_nrt=False`     compiles without reference counting; nothing in a kernel allocates
`no_*_wrapper`   leaves out what only calls from Python need
`entry_point`    calls compiled code without type dispatch. It checks neither dtype nor contiguity:
                 who calls a kernel with an array looks at it first
call templates   one for all constants, where Numba would compile a function for each of them
cache locators   let a structure be cached under the hash of all it reaches in the library, because
                 Numba notices edits in a function's own file only
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

from viewmill.kernels.checked_files import check_files
from viewmill.kernels.source import (
    cache_directory,
    is_kept,
    library_hash,
    load_source,
    one_writer,
)
from viewmill.program.compiler_setting import compiler_setting

try:
    from numba.core.caching import CompileResultCacheImpl, FunctionCache
    from numba.core.compiler import Flags
    from numba.core.cpu import CPUTargetOptions
except ImportError:
    CPUTargetOptions = CompileResultCacheImpl = FunctionCache = Flags = None

I64 = np.dtype(np.int64)
F64 = np.dtype(np.float64)
U8 = np.dtype(np.uint8)

WORD = types.int64
WORDS = types.int64[::1]
ROWS = types.int64[:, ::1]
FLOATS = types.float64[::1]
BYTES = types.uint8[::1]

FOLDERS: set[str] = set()  # of the cache, where functions of this process are


def is_on(compiled: bool | None = None) -> bool:
    """Whether triggers are compiled: as asked, else unless VIEWMILL_COMPILER=off."""
    return compiler_setting() != "off" if compiled is None else compiled


@cache
def _known(*options: str) -> dict[str, bool]:
    """The private compiler options that the installed Numba accepts."""
    wanted = {
        "_nrt": False,
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
        "forceinline": True,
    }
    known = {}
    for name in options:
        try:
            CPUTargetOptions.parse_as_flags(Flags(), {name: wanted[name]})
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
        known[name] = wanted[name]
    return known


def structure(function: Callable[..., Any]) -> Any:
    """A function of the structures library, compiled into the kernels that call it."""
    dispatcher = _dispatcher(function, "_nrt", "no_cpython_wrapper", "no_cfunc_wrapper")
    _cache_with_library(dispatcher, _LibraryLocator)
    return dispatcher


def inline_structure(function: Callable[..., Any]) -> Any:
    """A structure's function whose code is put where it is called, however long it is."""
    dispatcher = _dispatcher(
        function, "_nrt", "no_cpython_wrapper", "no_cfunc_wrapper", "forceinline"
    )
    _cache_with_library(dispatcher, _LibraryLocator)
    return dispatcher


def compile_structure(dispatcher: Any, arguments: tuple[Any, ...]) -> Callable[..., int]:
    """A function of the structures library as a kernel of its own."""
    own = _dispatcher(dispatcher.py_func, "_nrt")
    _cache_with_library(own, _KernelLocator)
    return _callable(own, arguments)


def compile_kernel(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[..., int]:
    """A kernel from a function in a real file, from Numba's cache when it is there."""
    dispatcher = _dispatcher(function, "_nrt", cache=is_kept(function))
    return _callable(dispatcher, arguments)


def compile_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one of our own modules, compiled for whatever it is called with."""
    dispatcher = numba.njit(function, nogil=True, error_model="numpy")
    _cache_with_library(dispatcher, _LoopLocator)
    loop: Callable[..., Any] = dispatcher
    return loop


def also_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that loops call, compiled into them; from Python it is called as it is."""
    made: Callable[..., Any] = register_jitable(function)
    return made


def inlined(function: Callable[..., Any], *, reorder_sums: bool = False) -> Any:
    """A function that kernels compile into themselves; it is not cached on its own."""
    fast = {"fastmath": {"reassoc"}} if reorder_sums else {}
    return numba.njit(function, nogil=True, error_model="numpy", **fast, **_known("_nrt"))


@intrinsic  # type: ignore[untyped-decorator]
def wide_vectors(typing_context: Any) -> Any:
    """Let the function that says so use the widest vectors the machine has.

    LLVM keeps to half of them, because short stretches of wide ones slow a core down. The attribute
    is put past llvmlite's list of known ones; without it the code is the same, and slower.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        use_wide_vectors(builder)
        return context.get_dummy_value()

    return types.void(), generate


def use_wide_vectors(builder: Any) -> None:
    """Let LLVM use wide vectors in the function that an intrinsic is written into."""
    set.add(builder.function.attributes, '"prefer-vector-width"="512"')


@intrinsic  # type: ignore[untyped-decorator]
def cycles(typing_context: Any) -> Any:
    """The processor's cycle counter, which ticks at a constant rate."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = context.get_value_type(types.int64)
        kind = ir.FunctionType(word, [])
        read = cgutils.get_or_insert_function(builder.module, kind, "llvm.readcyclecounter")
        return builder.call(read, [])

    return types.int64(), generate


def _dispatcher(function: Callable[..., Any], *private: str, cache: bool = False) -> Any:
    made = numba.njit(function, nogil=True, error_model="numpy", cache=cache, **_known(*private))
    if cache:
        check_files(getattr(made, "_cache", None))
    return _of_any_constant(made)


def _of_any_constant(dispatcher: Any) -> Any:
    """Compile one function for all constants that it is called with.

    Numba's own way is one for each constant, `word(e, 0)` and `word(e, 1)`, which come out the same
    and take four times as long together.
    """
    template = getattr(dispatcher, "get_call_template", None)
    if template is None:
        return dispatcher

    def call_template(args: Any, kws: Any) -> Any:
        named = {name: types.unliteral(each) for name, each in kws.items()}
        return template(tuple(map(types.unliteral, args)), named)

    dispatcher.get_call_template = call_template
    return dispatcher


def _callable(dispatcher: Any, arguments: tuple[Any, ...]) -> Callable[..., int]:
    entry = _compiled(dispatcher, arguments)
    return entry if entry is not None and _entry_points_work() else _public(dispatcher)


def _compiled(dispatcher: Any, arguments: tuple[Any, ...]) -> Callable[..., int] | None:
    with one_writer(dispatcher.py_func):
        dispatcher.compile(types.int64(*arguments))
    dispatcher.disable_compile()
    return _entry_point(dispatcher)


def _entry_point(dispatcher: Any) -> Callable[..., int] | None:
    try:
        (overload,) = dispatcher.overloads.values()
        entry: Callable[..., int] = overload.entry_point
    except (AttributeError, TypeError, ValueError):
        return None
    return entry if callable(entry) else None


def _public(dispatcher: Any) -> Callable[..., int]:
    """The dispatcher, for arrays it would otherwise take for another type."""

    def call(*arguments: Any) -> int:
        writeable = (
            each if not isinstance(each, np.ndarray) or each.flags.writeable else each.copy()
            for each in arguments
        )
        return int(dispatcher(*writeable))

    return call


_PROBE = """
def probe(start, size, words):
    total = 0
    for i in range(start, size):
        total += words[i] * (i + 1)
    return total
"""


@cache
def _entry_points_work() -> bool:
    """Whether a call by entry point reads numbers and (read-only) arrays rightly."""
    functions = load_source("probe", _PROBE, None, "Tests that entry points work.")
    dispatcher = _dispatcher(functions["probe"], "_nrt", cache=is_kept(functions["probe"]))
    call = _compiled(dispatcher, (WORD, WORD, WORDS))
    words = np.arange(5, 9)
    words.flags.writeable = False
    return call is not None and call(1, 4, words) == 6 * 2 + 7 * 3 + 8 * 4


class _LibraryLocator:
    """Tells Numba where a structure is cached, and that it changes with what it reaches."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._line = function.__code__.co_firstlineno
        self._hash = library_hash(function.__module__)

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> _LibraryLocator:
        return cls(function)

    def ensure_cache_path(self) -> None:
        with suppress(OSError):  # then nothing can be kept there, which is no reason to stop
            os.makedirs(self.get_cache_path(), exist_ok=True)

    def get_cache_path(self) -> str:
        return str(cache_directory() / f"structures_{self._hash}")

    def get_source_stamp(self) -> str:
        return self._hash

    def get_disambiguator(self) -> str:
        return str(self._line)


class _KernelLocator(_LibraryLocator):
    """Cache library functions that are compiled with wrappers to be called from Python."""

    def get_disambiguator(self) -> str:
        return f"{self._line}-kernel"


class _LoopLocator(_LibraryLocator):
    """Cache a function outside the library; its file and constants are part of the key."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        code, known = function.__code__, function.__globals__
        constants = {each: known[each] for each in code.co_names if type(known.get(each)) is int}
        text = Path(code.co_filename).read_bytes() + repr((self._hash, constants)).encode()
        self._hash = blake2b(text, digest_size=8).hexdigest()


def _cache_with_library(dispatcher: Any, locator: Any) -> None:
    """Cache under the library's hash; with a Numba of other internals nothing is cached."""
    if FunctionCache is None or not hasattr(dispatcher, "_cache"):
        return
    dispatcher._cache = _library_cache(locator)(dispatcher.py_func)
    FOLDERS.add(Path(dispatcher._cache.cache_path).name)
    check_files(dispatcher._cache)


@cache
def _library_cache(locator: Any) -> Any:
    implementation = type(
        "LibraryCacheImpl", (CompileResultCacheImpl,), {"_locator_classes": [locator]}
    )
    return type("LibraryCache", (FunctionCache,), {"_impl_class": implementation})

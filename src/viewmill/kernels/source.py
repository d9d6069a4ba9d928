"""Trigger source as a real file, which Numba can cache beside and a person can open.

takes  generated source that imports nothing, and the package whose functions it means
gives  its functions, loaded from `<cache>/kernels/<name>_<hash>.py`

The hash covers the source, the modules of the structures library that it reaches and the versions,
because Numba's cache does not notice an edit in a module that the file imports.
"""

from __future__ import annotations

import ast
import fcntl
import logging
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from hashlib import blake2b
from importlib import import_module, metadata
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from viewmill.program.generated_source import check_source, identifier, printable
from viewmill.program.trigger_functions import FUNCTIONS

_LOG = logging.getLogger("viewmill")
_SAID: set[str] = set()  # what this process has said that it compiles

STRUCTURES = "viewmill.kernels.structures"
PLAIN = "viewmill.kernels.plain"


# What functions of our own files read of arrays, and what of NumPy.
_ATTRIBUTES = ("size", "shape", "uint64", "int64", "isfinite")


def load_source(
    name: str, source: str, package: str | None, header: str = "", given: Collection[str] = ()
) -> dict[str, FunctionType]:
    """Check `source`, write it to its file, load it, and give the functions it defines.

    `given` are names that the caller puts among its globals.
    """
    names = FUNCTIONS if package else frozenset[str]()
    attributes = () if package else _ATTRIBUTES
    used = _names_used(check_source(source, {*names, *given}, attributes))
    text = _file_text(source, package, sorted(used & names), header)
    stem = f"{identifier(name)[:40]}_{_fingerprint(text, package, used)}"
    path = _kept(stem, text)
    module = ModuleType(f"viewmill_kernels.{stem}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # Numba looks functions up by module when it unpickles
    # The file is always compiled under its own name: tracebacks and Numba's cache go by it.
    exec(compile(text, path, "exec"), module.__dict__)
    return {
        each: value
        for each, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
    }


def _kept(stem: str, text: str) -> str:
    """The path of the file with this text; where it cannot be written, a name that is none."""
    try:
        return str(_write(stem, text))
    except OSError as why:
        _LOG.warning("%s: a kernel is compiled and not kept: %s", cache_directory(), why.strerror)
        return f"<{stem}>"


def is_kept(function: Callable[..., Any]) -> bool:
    """Whether a function is in a file, so that Numba can cache it."""
    return not function.__code__.co_filename.startswith("<")


def without_head(source: str) -> str:
    """Trigger source without the comment above it, which names a view and what it reads.

    Views that differ only there are one kernel, in one process and in the cache.
    """
    lines = source.splitlines()
    first = next((i for i, line in enumerate(lines) if line and not line.startswith("#")), 0)
    return "\n".join(lines[first:])


def cache_directory() -> Path:
    """Where kernels are kept: $VIEWMILL_CACHE, the user's cache, or a directory of this process."""
    return _writable(os.environ.get("VIEWMILL_CACHE"), os.environ.get("XDG_CACHE_HOME"))


@cache
def _writable(own: str | None, user: str | None) -> Path:
    base = Path(own) if own else (Path(user) if user else Path.home() / ".cache") / "viewmill"
    directory = base / "kernels"
    try:
        base.mkdir(parents=True, exist_ok=True)
        _make_private(directory)
        with tempfile.NamedTemporaryFile(dir=directory):
            pass
    except OSError:
        return Path(tempfile.mkdtemp(prefix="viewmill-kernels-"))
    return directory


def _make_private(directory: Path) -> None:
    """A directory that nobody else can write: what is in it is run.

    One of another user is refused. One of ours that others could write to is made anew.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        _LOG.warning("%s belongs to someone else: kernels are compiled again", directory)
        raise PermissionError(directory)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        _LOG.warning("%s could be written by others: kernels are compiled again", directory)
        shutil.rmtree(directory)
        directory.mkdir(mode=0o700)
    elif found.st_mode & 0o077:
        directory.chmod(0o700)


@contextmanager
def one_writer(function: FunctionType) -> Iterator[None]:
    """Let one process at a time compile a function; what was compiled before does not wait.

    Numba numbers the files of its cache without a lock: two processes that compile one function
    for different types could each write the other's file. A function waits for those it calls,
    which do not call it, so that nobody waits in a circle.
    """
    stem, directory = Path(function.__code__.co_filename).stem, cache_directory() / "compiled"
    done = directory / f"{stem}.{function.__qualname__}.{library_hash(function.__module__)}"
    if done.exists():
        yield
        return
    with ExitStack() as open_files:
        with suppress(OSError):  # without room for a lock, nothing that is compiled is kept either
            directory.mkdir(exist_ok=True)
            lock = (directory / f"{stem}.{function.__qualname__}.lock").open("w")
            fcntl.flock(open_files.enter_context(lock), fcntl.LOCK_EX)  # closing unlocks it
        if not done.exists():
            _say_compiling(stem, is_library=function.__module__.startswith(STRUCTURES))
        yield
        with suppress(OSError):
            done.touch()


def _say_compiling(stem: str, *, is_library: bool) -> None:
    """One line for what takes seconds, once for each file: to the log, and to a terminal."""
    what = "what all views share" if is_library else f"the triggers of a view ({stem})"
    if what in _SAID:
        return
    _SAID.add(what)
    line = f"compiling {what}: done once, then kept in {cache_directory()}"
    _LOG.info(line)
    if sys.stderr.isatty() and not _LOG.isEnabledFor(logging.INFO):
        sys.stderr.write(line + "\n")


def _file_text(source: str, package: str | None, names: list[str], header: str) -> str:
    about = printable(header).replace("\\", "\\\\").replace('"', "'").strip()
    docstring = (
        f'"""{about or "A kernel."}\n\nWritten by viewmill {_version()}; edits are lost.\n"""'
    )
    imports = [f"from {package} import ("] + [f"    {name}," for name in names] + [")"]
    return "\n".join([docstring, "", *(imports if names else []), "", "", source.strip(), ""])


def _names_used(module: ast.Module) -> set[str]:
    return {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}


def _write(stem: str, text: str) -> Path:
    """The file, written whole by whoever comes first; its time stamp stays, so caches stay good."""
    directory = cache_directory()
    path = directory / f"{stem}.py"
    if _holds(path, text):
        return path
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=f".{stem}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        os.unlink(temporary)
        raise
    if path.exists():
        os.replace(temporary, path)  # someone edited it
        return path
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError:
        os.replace(temporary, path)
        return path
    os.unlink(temporary)
    return path


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


def _fingerprint(text: str, package: str | None, used: set[str]) -> str:
    names = used & FUNCTIONS if package == STRUCTURES else ()
    modules = {getattr(import_module(STRUCTURES), name).__module__ for name in names}
    return blake2b(f"{library_hash(*sorted(modules))}\n{text}".encode(), digest_size=6).hexdigest()


def is_current(path: Path) -> bool:
    """Whether a kernel's file is what this version of the library would write."""
    try:
        text = path.read_text(encoding="utf-8")
        module = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return False
    packages = [node.module for node in module.body if isinstance(node, ast.ImportFrom)]
    if packages == [PLAIN]:
        return False  # it is not compiled
    found = _fingerprint(text, packages[0] if packages else None, _names_used(module))
    return path.stem.endswith(f"_{found}")


@cache
def library_hash(*modules: str) -> str:
    """Changes with any edit of these modules, of what they reach in the structures library, and of
    what compiles them."""
    here = Path(__file__).parent
    digest = blake2b((here / "compiler.py").read_bytes(), digest_size=8)
    for name in sorted(_reached(modules)):
        digest.update(name.encode() + b"\0" + _path(name).read_bytes())
    versions = [_version(), sys.version, *map(metadata.version, ("numba", "numpy", "llvmlite"))]
    digest.update("\n".join(versions).encode())
    return digest.hexdigest()


def _reached(modules: tuple[str, ...]) -> set[str]:
    """These modules and all that they import of the library, directly or not."""
    reached: set[str] = set()
    waiting = [name for name in modules if name.startswith("viewmill.")]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += _imports(name)
    return reached


@cache
def _imports(module: str) -> list[str]:
    nodes = ast.parse(_path(module).read_bytes()).body
    imported = (node.module or "" for node in nodes if isinstance(node, ast.ImportFrom))
    return [name for name in imported if name.startswith(f"{STRUCTURES}.")]


def _path(module: str) -> Path:
    path = Path(__file__).parent.parent / Path(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _version() -> str:
    try:
        return metadata.version("viewmill")
    except metadata.PackageNotFoundError:
        return "0"

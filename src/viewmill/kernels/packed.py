"""Compiled kernels that travel: the cache of this machine in one file, for machines like it.

takes  a file, or a directory with what such a file holds, that `pack` has written
does   `unpack` adds to the cache what it lacks, after checking who can write the file, which
       machine it was made for, and the checksum of everything in it

Kernels are machine code, and Numba reads them with pickle: a packed file runs code. That is why
one that somebody else could have written is refused before it is read.
"""

from __future__ import annotations

import io
import json
import logging
import os
import platform
import re
import stat
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from llvmlite import binding

from viewmill.errors import InvalidArgument, UnfitKernels
from viewmill.kernels import compiler
from viewmill.kernels.background.warm import whole_library
from viewmill.kernels.source import cache_directory, is_current

_LOG = logging.getLogger("viewmill")

MANIFEST = "kernels.json"
_FORMAT = 1
_MARKERS = ("compiled", "warm")
_NAME = re.compile(r"(?:(?:structures_[0-9a-f]+|__pycache__|compiled|warm)/)?[\w<>-][\w.<>-]*")


def machine() -> dict[str, str]:
    """What compiled kernels depend on; they fit where all of it is equal."""
    features = binding.get_host_cpu_features().flatten()
    return {
        "viewmill": metadata.version("viewmill"),
        "library": whole_library(),
        "Python": sys.version,
        **{name: metadata.version(name) for name in ("numba", "numpy", "llvmlite")},
        "system": f"{platform.system()} {platform.machine()}",
        "CPU": binding.get_host_cpu_name(),
        "CPU features": sha256(features.encode()).hexdigest()[:16],
    }


def pack(target: Path) -> int:
    """Write the kernels of this version that the cache has; gives how many files there are."""
    cache = cache_directory()
    files = {name: cache / name for name in _current_files(cache)}
    bodies = {name: path.read_bytes() for name, path in files.items()}
    listed = {
        name: {"sha256": sha256(body).hexdigest(), "modified": files[name].stat().st_mtime_ns}
        for name, body in bodies.items()
    }
    manifest = {"format": _FORMAT, "machine": machine(), "files": listed}
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr(MANIFEST, json.dumps(manifest, indent=1))
            for name, body in bodies.items():
                z.writestr(name, body)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return len(bodies)


def _current_files(cache: Path) -> Iterator[str]:
    """The files of the cache that this version of the library can use."""
    stems = {path.stem for path in cache.glob("*.py") if is_current(path)}
    yield from (f"{stem}.py" for stem in sorted(stems))
    for path in sorted((cache / "__pycache__").glob("*.nb[ic]")):
        if path.name.split(".")[0] in stems:
            yield f"__pycache__/{path.name}"
    for folder in sorted(compiler.FOLDERS):
        yield from (f"{folder}/{path.name}" for path in sorted((cache / folder).glob("*.nb[ic]")))
    for folder in _MARKERS:
        for path in sorted((cache / folder).glob("*")):
            if path.suffix != ".lock":
                yield f"{folder}/{path.name}"


def unpack(source: Path) -> int:
    """Add packed kernels to the cache; gives how many files it lacked.

    `UnfitKernels` says why they cannot be used here; nothing has been added then.
    """
    read = _reader(source)
    try:
        manifest = json.loads(read(MANIFEST))
        files: dict[str, Any] = manifest["files"]
        made_for, is_ours = manifest["machine"], manifest["format"] == _FORMAT
    except (KeyError, TypeError, ValueError) as why:
        raise UnfitKernels(f"{source} does not hold packed kernels", detail=str(why)) from why
    here = machine()
    differs = [name for name, value in here.items() if made_for.get(name) != value]
    if differs or not is_ours:
        raise UnfitKernels(
            f"the kernels in {source} were made for another {' and '.join(differs) or 'format'}",
            hint="viewmill warm --export writes a file for a machine like this one.",
        )
    bodies = {name: _checked(source, name, files[name], read) for name in files}
    cache = cache_directory()
    missing = [name for name in sorted(bodies, key=_order) if not _is_there(cache, name)]
    for name in missing:
        _write(cache / name, bodies[name], files[name]["modified"])
    return len(missing)


def add_kernels(source: str | os.PathLike[str]) -> None:
    """Add packed kernels to the cache; where they do not fit, views are compiled here as ever."""
    try:
        unpack(Path(source))
    except (UnfitKernels, OSError) as why:
        _LOG.warning("views are compiled on this machine: %s", why)


def _reader(source: Path) -> Callable[[str], bytes]:
    """How to read a file of the packed ones, by name."""
    if source.is_dir():
        _check_owner(source, os.stat(source))
        return lambda name: _read_own(source / name)
    try:
        with source.open("rb") as file:
            _check_owner(source, os.fstat(file.fileno()))
            whole = zipfile.ZipFile(io.BytesIO(file.read()))
    except FileNotFoundError:
        raise InvalidArgument(
            f"there are no kernels at {source}", hint="viewmill warm --export writes such a file."
        ) from None
    except zipfile.BadZipFile as why:
        raise UnfitKernels(f"{source} does not hold packed kernels", detail=str(why)) from why
    return whole.read


def _read_own(path: Path) -> bytes:
    with path.open("rb") as file:
        _check_owner(path, os.fstat(file.fileno()))
        return file.read()


def _check_owner(path: Path, found: os.stat_result) -> None:
    """What is in there will be run: nobody but this user and the system's may have written it."""
    if found.st_uid not in (os.getuid(), 0):
        who = "belongs to another user"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        who = "can be written by other users"
    else:
        return
    raise InvalidArgument(
        f"{path} {who}, and kernels are code that is run",
        hint="Copy it to a file of yours, or chmod go-w, if you trust who wrote it.",
    )


def _checked(source: Path, name: str, listed: Any, read: Callable[[str], bytes]) -> bytes:
    if not _NAME.fullmatch(name) or not isinstance(listed.get("modified"), int):
        raise UnfitKernels(f"{source} holds a file that no cache has: {name!r}")
    try:
        body = read(name)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as why:
        raise UnfitKernels(f"{source} is damaged at {name}", detail=str(why)) from why
    if sha256(body).hexdigest() != listed.get("sha256"):
        raise UnfitKernels(f"{source} is damaged at {name}")
    return body


def _order(name: str) -> tuple[int, str]:
    """Sources first, then code, then the index that names it, then the marker that it is there."""
    ranks = {".py": 0, ".nbc": 1, ".nbi": 2}
    is_marker = name.startswith(tuple(f"{each}/" for each in _MARKERS))
    return (3 if is_marker else ranks.get(Path(name).suffix, 3)), name


def _is_there(cache: Path, name: str) -> bool:
    """Whether the cache has a file, or the index or source that it would have to go with."""
    path = cache / name
    if path.exists():
        return True
    if path.suffix == ".nbc":
        return path.with_name(f"{path.name.rsplit('.', 2)[0]}.nbi").exists()
    return False


def _write(path: Path, body: bytes, modified: int) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        os.utime(temporary, ns=(modified, modified))  # Numba knows a source by its time
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise

"""Find files that Spark recorded for an uncommitted batch and that are gone.

takes  Spark's checkpoint: offsets and commits by batch, and the files that its sources recorded
gives  the paths of missing local files that a batch still needs

Spark does not report them: a file source skips recorded files that it does not find.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse


def lost_files(checkpoint: Path) -> list[str]:
    """Paths that the next batch would read and that do not exist."""
    done = _last(checkpoint / "commits")
    offsets = _offsets(checkpoint / "offsets" / str(done))
    lost = []
    for folder in sorted((checkpoint / "sources").glob("*")):
        number = int(folder.name) if folder.name.isdigit() else -1
        seen = offsets[number] if 0 <= number < len(offsets) else -1
        lost += [path for path in _noted(folder, seen) if not Path(path).exists()]
    return lost


def _last(folder: Path) -> int:
    """The largest number among the file names, -1 when there is none."""
    names = [each.name for each in folder.glob("*")] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def _offsets(file: Path) -> list[int]:
    """The log offset of each source; -1 for sources other than files."""
    if not file.exists():
        return []
    found = []
    for line in file.read_text().splitlines()[2:]:  # after the version and the batch's metadata
        said = _json(line)
        found.append(int(said["logOffset"]) if "logOffset" in said else -1)
    return found


def _noted(folder: Path, seen: int) -> Iterator[str]:
    """The local files that a source recorded after an offset."""
    for file in sorted(folder.glob("*")):
        name = file.name.removesuffix(".compact")
        if not name.isdigit() or int(name) <= seen:
            continue
        for line in file.read_text().splitlines()[1:]:  # after the version
            said = _json(line)
            place = urlparse(str(said.get("path", "")))
            if place.scheme == "file" and int(said.get("batchId", -1)) > seen:
                yield unquote(place.path)


def _json(line: str) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}

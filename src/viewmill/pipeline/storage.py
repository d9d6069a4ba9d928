"""The directory of a pipeline: which one it is, its mill, Spark's checkpoint, what is prepared.

takes  a path
gives  `Storage`; refuses a directory that is not a pipeline's or that another version wrote
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from viewmill.errors import DamagedFile, ForbiddenChange, InvalidArgument, WrongFormat
from viewmill.mill.storage import disk
from viewmill.mill.storage.files import NewFile, make_folders, sync_folder

# By placement: what shards keep in Spark's state store has a layout of its own.
FORMATS = {"driver": 1, "shards": 4}
_NAME = "pipeline.json"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


@dataclass(frozen=True)
class Storage:
    """The places in the directory. `id` names the pipeline for as long as the directory lives."""

    root: Path
    id: str

    @classmethod
    def open(cls, path: str | os.PathLike[str], placement: str = "driver") -> Storage:
        """The pipeline's directory, made when it is absent or empty."""
        root = local_path(path).absolute()
        try:
            make_folders(root)
        except OSError as why:
            raise WrongFormat(
                f"{root} cannot be the directory of a pipeline",
                detail=why.strerror or str(why),
                hint="Give a directory that can be made and written.",
            ) from why
        file = root / _NAME
        if not file.exists():
            _refuse_strangers(root)
            made = {"format": FORMATS[placement], "id": uuid.uuid4().hex, "placement": placement}
            write_file(file, json.dumps(made).encode())
        try:
            saved = json.loads(file.read_text())
            format_, id_ = saved["format"], str(saved["id"])
            before = saved.get("placement", "driver")
        except (ValueError, KeyError, TypeError) as why:
            raise DamagedFile(f"{file} is not what was written", detail=str(why)) from why
        if before != placement:
            raise ForbiddenChange(
                f"{root} was made with placement {before!r}, not {placement!r}",
                detail="Where views are kept decides what the storage holds.",
                hint=f'Say placement="{before}", or give another storage directory.',
            )
        if format_ != FORMATS[placement]:
            raise WrongFormat(
                f"{root} has the storage format {format_}, this version reads {FORMATS[placement]}",
                hint="Use the version that wrote it, or another storage directory.",
            )
        return cls(root, id_)

    @property
    def mill(self) -> Path:
        """The durable mill."""
        return self.root / "mill"

    @property
    def checkpoint(self) -> Path:
        """Spark's offsets."""
        return self.root / "checkpoint"

    @property
    def outbox(self) -> Path:
        """Changes on their way to sinks that cannot hold what is not committed."""
        return self.root / "outbox"

    def query_id(self) -> str | None:
        """The id of the streaming query, which Spark keeps in its checkpoint."""
        try:
            return str(read_json(self.checkpoint / "metadata")["id"])
        except FileNotFoundError:
            return None
        except (KeyError, TypeError) as why:
            raise DamagedFile(f"{self.checkpoint / 'metadata'} names no query") from why

    def in_order(self, streams: Sequence[str]) -> list[str]:
        """The streams in the order of the first start.

        Spark's offsets know sources by their place only: orders' offset must not become lines'.
        """
        known = self._known_streams()
        if known is None:
            return list(streams)
        if set(known) != set(streams):
            raise ForbiddenChange(
                f"the streaming sources were {', '.join(known)}, now they are {', '.join(streams)}",
                detail="Spark's checkpoint knows sources by their place, so none can come or go.",
                hint="Give the pipeline another storage directory.",
            )
        return known

    def keep_order(self, streams: Sequence[str]) -> None:
        """Note the order at the first start."""
        if self._known_streams() is None:
            write_file(self._streams_file, json.dumps(list(streams)).encode())

    def require_stream(self, name: str) -> None:
        """Refuse a streaming source that was not there at the first start."""
        known = self._known_streams()
        if known is not None and name not in known:
            self.in_order([*known, name])

    @property
    def _streams_file(self) -> Path:
        return self.root / "streams.json"

    def _known_streams(self) -> list[str] | None:
        if not self.checkpoint.exists() or not self._streams_file.exists():
            return None
        known = read_json(self._streams_file)
        if not isinstance(known, list):
            raise DamagedFile(f"{self._streams_file} is not what was written")
        return known

    def committed(self, version: int) -> int:
        """The last version that was committed with its sinks: the stored one, or the mill's."""
        if not self._committed_file.exists():
            return version
        noted = read_json(self._committed_file)
        if not isinstance(noted, int):
            raise DamagedFile(f"{self._committed_file} is not what was written")
        return noted

    def note_committed(self, version: int) -> None:
        """Store the version: the following versions are committed without sinks."""
        if not self._committed_file.exists():
            write_file(self._committed_file, json.dumps(version).encode())

    def forget_committed(self) -> None:
        """Remove the stored version: all sinks have dropped later prepared changes."""
        if self._committed_file.exists():
            disk.remove(self._committed_file)
            sync_folder(self.root)

    @property
    def _committed_file(self) -> Path:
        return self.root / "committed.json"

    def has_batches(self) -> bool:
        """Whether Spark's checkpoint says that batches were done."""
        return self.last_batch() >= 0

    def last_batch(self) -> int:
        """The last batch that Spark's checkpoint says was done, -1 when none was."""
        commits = self.checkpoint / "commits"
        names = [each.name for each in commits.iterdir()] if commits.is_dir() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def batch_without_offsets(self) -> int | None:
        """The last batch that was done if Spark's checkpoint does not say what it took."""
        batch = self.last_batch()
        has_offsets = batch < 0 or (self.checkpoint / "offsets" / str(batch)).is_file()
        return None if has_offsets else batch


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether it is a URL of something else than a file of this machine."""
    text = os.fspath(path)
    return _ADDRESS.match(text) is not None and not text.lower().startswith("file:")


def local_path(path: str | os.PathLike[str]) -> Path:
    """A local path, also of a file URL; raises for other URLs.

    `Path` would make a folder called `s3:` of them.
    """
    text = os.fspath(path)
    if not _ADDRESS.match(text):
        return Path(path)
    address = urlsplit(text)
    if address.scheme.lower() == "file" and address.netloc in ("", "localhost"):
        if address.query or address.fragment:
            raise InvalidArgument(
                f"{text!r} has a query or a fragment",
                hint="Write ? as %3F and # as %23 in a file URL, or give a path.",
            )
        return Path(unquote(address.path))
    raise InvalidArgument(
        f"{text!r} is not on this machine",
        detail="A storage holds a log that is synced to disk at each batch, and Delta is written"
        " by renames.",
        hint="Give a local directory, or a file URL (file:///data/out). Sinks of Parquet take URLs"
        " of object stores.",
    )


def _refuse_strangers(root: Path) -> None:
    names = sorted(each.name for each in root.iterdir())
    if names:
        raise WrongFormat(
            f"{root} is not the storage of a pipeline",
            detail=f"It holds {', '.join(names[:5])}, and no {_NAME}.",
            hint="Give an empty directory, or the one that the pipeline used before.",
        )


def read_json(file: Path) -> Any:
    """The content of a JSON file; DamagedFile if it is no JSON."""
    try:
        return json.loads(file.read_text())
    except ValueError as why:
        raise DamagedFile(f"{file} is not what was written", detail=str(why)) from why


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically, by a rename; it is on disk when this returns."""
    make_folders(path.parent)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with NewFile(fresh) as file:
        file.write(content)
        file.sync()
    put_in_place(fresh, path)


def put_in_place(fresh: Path, path: Path) -> None:
    """Rename a file durably."""
    disk.replace(fresh, path)
    sync_folder(path.parent)

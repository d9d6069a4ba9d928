"""Ownership of a sink's directory: a sink writes only to an empty directory or to its own.

takes  the directory of a sink, its view and the id of its pipeline
gives  an error for a directory with files of others; an ownership file in a directory of ours
"""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

from viewmill.errors import WrongFormat
from viewmill.mill.storage.files import make_folders
from viewmill.pipeline.storage import write_file

NOTE = "_viewmill.json"  # readers of a directory skip names that begin with _ or .
_FOREIGN = ("_delta_log", "_spark_metadata")  # of tables that others keep, also of empty ones


class Owner:
    """The ownership of one directory; `shown` are patterns for the files that readers see."""

    def __init__(self, folder: Path, *shown: str) -> None:
        self._folder, self._shown = folder, shown
        self._note: dict[str, str] = {}
        self.files: dict[str, int] = {}  # those of several that were noted, with their sizes
        self.has_begun = False  # whether the initial rows of the view are prepared completely

    def open(self, view: str, pipeline: str) -> None:
        """Make the directory, or check that it is ours."""
        self._note = {"pipeline": pipeline, "view": view.lower()}
        try:
            make_folders(self._folder)
        except FileExistsError:
            raise WrongFormat(
                f"{self._folder} is a file, not a directory", hint="Give another path."
            ) from None
        self.check()

    def check(self) -> None:
        """Raise if the directory belongs to others; another pipeline may have claimed it since."""
        saved = self._read()
        if saved is None:
            self._refuse_strangers(())
            return
        if {name: str(saved.get(name)).lower() for name in self._note} != self._note:
            raise WrongFormat(
                f"{self._folder} belongs to another pipeline or view",
                hint="Give another directory, or remove it.",
            )
        self._refuse_strangers(self._shown)
        self.files = _sizes(saved)
        self.has_begun = bool(saved.get("begun"))

    def _read(self) -> dict[str, object] | None:
        file = self._folder / NOTE
        if not file.exists():
            return None
        try:
            saved = json.loads(file.read_text())
        except ValueError:
            saved = {}
        return saved if isinstance(saved, dict) else {}

    def _refuse_strangers(self, shown: tuple[str, ...]) -> None:
        names = [
            each.name
            for each in self._folder.iterdir()
            if not any(fnmatch(each.name, pattern) for pattern in shown)
        ]
        others = sorted(each for each in names if each[0] not in "._" or each in _FOREIGN)
        if others:
            raise WrongFormat(
                f"{self._folder} holds files of others: {', '.join(others[:3])}",
                detail="A reader would take them for rows of the view, or they would be replaced.",
                hint="Give another directory, or remove them.",
            )

    def claim(self, *, begun: bool = False) -> None:
        """Mark the directory as ours."""
        if begun and self.has_begun:
            return
        self.has_begun = begun
        write_file(self._folder / NOTE, self.note(begun=begun))

    def note(self, **more: object) -> bytes:
        """The content of the ownership file."""
        return json.dumps({**self._note, **more}).encode()


def _sizes(saved: dict[str, object]) -> dict[str, int]:
    """The files that were noted, with their sizes."""
    files = saved.get("files")
    return files if isinstance(files, dict) else {}

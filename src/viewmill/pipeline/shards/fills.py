"""Fills: the states with which a view begins in slots that have been running for a while.

takes  the state of a slot's part of a view, as an executor made it from the archive
gives  it again to the worker that has the slot, whenever that is

A fill is a folder: a file for each slot that has rows, and a list of them that is written last.
"""

from __future__ import annotations

import shutil
from collections.abc import Container, Sequence
from pathlib import Path

from viewmill.errors import DamagedFile
from viewmill.pipeline.shards.slot_bytes import read_snapshot, write_snapshot
from viewmill.pipeline.storage import read_json, write_file

_SLOTS = "slots.json"


def write_slot(folder: str, slot: int, key: str, state: bytes) -> None:
    """Keep a slot's state; a task that is run again writes the same."""
    write_file(Path(folder) / f"slot-{slot}", write_snapshot({key: state}))


def end_fill(folder: str, slots: Sequence[int]) -> None:
    """All slots are written: these have rows."""
    write_file(Path(folder) / _SLOTS, b"[%s]" % b", ".join(b"%d" % each for each in sorted(slots)))


def read_fill(fills: str, fill: str, slot: int, key: str) -> bytes | None:
    """A slot's state; None if it had no rows."""
    folder = Path(fills) / fill
    try:
        if slot not in read_json(folder / _SLOTS):
            return None
        return read_snapshot((folder / f"slot-{slot}").read_bytes())[key]
    except (FileNotFoundError, KeyError, TypeError) as why:
        raise DamagedFile(
            f"the states with which a view began are not in {folder}",
            detail=str(why),
            hint="Bring the storage back from a copy, or leave the view out and add it again.",
        ) from why


def forget_fills(fills: Path, used: Container[str]) -> None:
    """Remove the fills that no view needs."""
    for folder in fills.iterdir() if fills.is_dir() else ():
        if folder.name not in used:
            shutil.rmtree(folder, ignore_errors=True)

"""What slots keep in the state store is data: damage is found, and nothing in it is run."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import viewmill
from viewmill.errors import DamagedFile, WrongFormat
from viewmill.pipeline.shards import slot as slots
from viewmill.pipeline.shards.slot_bytes import (
    Entry,
    Head,
    _sealed,
    read_entry,
    read_head,
    read_snapshot,
    write_entry,
    write_head,
    write_snapshot,
)
from viewmill.testing.local_shards import LocalShards

ENTRY = Entry("a token", [("t@k/4", True, b"rows"), ("t@one", False, b""), ("ü", True, b"\0" * 99)])
HEAD = Head(7, "token", 1 << 40, 3, "other", (("v@fill", 5), ("ü", 6)))
SNAPSHOT = {"v": b"states", "Of All": b"", "ü": bytes(range(256))}


def test_what_is_written_is_read():
    assert read_entry(write_entry(ENTRY)) == ENTRY
    assert read_head(write_head(HEAD)) == HEAD
    assert read_snapshot(write_snapshot(SNAPSHOT)) == SNAPSHOT


@pytest.mark.parametrize(
    ("content", "read"),
    [(write_entry(ENTRY), read_entry), (write_head(HEAD), read_head),
     (write_snapshot(SNAPSHOT), read_snapshot)],
    ids=["entry", "head", "snapshot"],
)  # fmt: skip
def test_every_changed_byte_and_every_missing_end_is_found(content, read):
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 0x40
        with pytest.raises((DamagedFile, WrongFormat)):
            read(bytes(changed))
        with pytest.raises(DamagedFile):
            read(content[:at])
    with pytest.raises(DamagedFile):
        read(content + b"\0")


def test_heads_of_storages_from_before_views_could_come_later_are_read():
    written = _sealed({"head": [7, "token", 99, 3, "other"]}, ())
    assert read_head(written) == Head(7, "token", 99, 3, "other")


def test_one_is_not_taken_for_another():
    for content in (write_head(HEAD), write_snapshot(SNAPSHOT)):
        with pytest.raises(DamagedFile, match="something else stands in its place"):
            read_entry(content)


class Trap:
    """Unpickling this makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)

    def __reduce__(self):
        return open, (self.file, "w")


def test_a_pickle_in_the_store_is_refused_and_does_not_run(tmp_path):
    for read in (read_entry, read_head, read_snapshot):
        with pytest.raises(DamagedFile):
            read(pickle.dumps(Trap(tmp_path / "sprung")))
    assert not (tmp_path / "sprung").exists()


def test_a_damaged_snapshot_is_told_and_leaves_the_view_as_it_was(
    tmp_path, uncompiled, monkeypatch
):
    monkeypatch.setattr(slots, "_LOG_ENTRIES", 1)
    shards = LocalShards(tmp_path, {"t": "k BIGINT"}, {"v": "SELECT k, count(*) FROM t GROUP BY k"})
    rows = pa.table({"k": [*range(20)], "m": pa.array([1] * 20, pa.int64())})
    for _ in range(4):
        shards.take({"t": rows})
    before = shards.mill["v"].rows()
    slots._MEMORY.clear()
    held = [store for store in shards.stores.values() if store._snapshot]
    assert held
    for store in held:
        store._snapshot = store._snapshot[:-3]
    with pytest.raises(DamagedFile, match="the snapshot of a shard is not what was written"):
        shards.take({"t": rows})
    assert shards.mill["v"].rows() == before


def test_no_file_is_unpickled_but_checked_kernels():
    """Only the kernel cache is, and its files are checked first.

    Programs go as pickles through a pipe to the process that compiles them, which is a child of the
    one that sends them: nobody else can write there.
    """
    found = set()
    root = Path(viewmill.__file__).parent
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "joblib"} & set(names):
                found.add(file.relative_to(root).as_posix())
    piped = {"kernels/background/process.py", "kernels/background/queue.py"}
    assert found - piped == {"kernels/checked_files.py"}

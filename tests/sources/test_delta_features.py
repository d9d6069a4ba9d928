"""Delta tables with what other writers use: deletion vectors, mapped columns.

deltalake writes neither, so the log is written here, by Delta's protocol.
"""

from __future__ import annotations

import base64
import json
import string
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from tests.sources.delta_writer import FEED

import viewmill as vm

_B85 = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"


def vector(*positions):
    """A deletion vector that stands in the log: a bitmap of 64 bits, with one of 32 bits."""
    head = struct.pack("<II", 12346, 1) + struct.pack("<HHI", 0, len(positions) - 1, 16)
    small = head + struct.pack(f"<{len(positions)}H", *positions)
    data = struct.pack("<IQI", 1681511377, 1, 0) + small
    padded = data + b"\0" * (-len(data) % 4)
    text = base64.b85encode(padded).decode().translate(str.maketrans(_B85, _Z85))
    return {
        "storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data),
        "cardinality": len(positions),
    }  # fmt: skip


def actions(lake, version):
    log = lake / "_delta_log" / f"{version:020d}.json"
    return [json.loads(line) for line in log.read_text().splitlines()]


def write_log(lake, version, *found):
    log = lake / "_delta_log" / f"{version:020d}.json"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("\n".join(json.dumps(each) for each in found))


def changed(lake, version, before, positions):
    """A commit that deletes rows of the table's only file by a vector."""
    (added,) = [each["add"] for each in actions(lake, 0) if "add" in each]
    removed = {"path": added["path"], "dataChange": True, "deletionTimestamp": 1}
    if before:
        removed["deletionVector"] = vector(*before)
    after = {**added, "deletionVector": vector(*positions)}
    write_log(lake, version, {"remove": removed}, {"add": after})


@pytest.mark.parametrize("feed", [True, False])
def test_deletion_vectors_are_read_in_the_first_snapshot_and_later(tmp_path, uncompiled, feed):
    lake = tmp_path / "lake"
    write_deltalake(lake, pa.table({"id": [*range(6)]}), configuration=FEED if feed else None)
    first = actions(lake, 0)
    for each in first:
        if "protocol" in each:
            features = ["deletionVectors", "changeDataFeed"]
            each["protocol"] = {
                "minReaderVersion": 3, "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"], "writerFeatures": features,
            }  # fmt: skip
    write_log(lake, 0, *first)
    changed(lake, 1, (), (1, 3))
    with vm.connect() as mill:
        mill.follow("t", vm.sources.delta(lake), background=False)
        assert mill.catch_up()
        assert sorted(mill.sql("SELECT * FROM t").rows()) == [(0,), (2,), (4,), (5,)]
        changed(lake, 2, (1, 3), (1, 3, 5))
        assert mill.catch_up()
        assert sorted(mill.sql("SELECT * FROM t").rows()) == [(0,), (2,), (4,)]
        assert "difference of files" in mill.status()["sources"]["t"]["reads"]


def test_mapped_columns_are_read_by_what_files_call_them(tmp_path, mill):
    lake, files = tmp_path / "lake", ["0.parquet", "1.parquet"]
    lake.mkdir()
    for number, name in enumerate(files):
        pq.write_table(pa.table({"c-1": [number], "c-2": [f"k{number}"]}), lake / name)
    fields = [
        {
            "name": name, "type": type_, "nullable": True,
            "metadata": {
                "delta.columnMapping.id": i, "delta.columnMapping.physicalName": f"c-{i}"
            },
        }
        for i, (name, type_) in enumerate([("id", "long"), ("k", "string")], start=1)
    ]  # fmt: skip
    added = [
        {"add": {
            "path": name, "partitionValues": {}, "size": (lake / name).stat().st_size,
            "modificationTime": 1, "dataChange": True,
        }}
        for name in files
    ]  # fmt: skip
    metadata = {
        "id": "one", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "configuration": {"delta.columnMapping.mode": "name", **FEED},
    }  # fmt: skip
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    write_log(lake, 0, {"protocol": protocol}, {"metaData": metadata}, added[0])
    mill.follow("t", vm.sources.delta(lake), background=False)
    assert mill.catch_up()
    assert mill.sql("SELECT * FROM t").rows() == [(0, "k0")]
    write_log(lake, 1, added[1])
    assert mill.catch_up()
    assert sorted(mill.sql("SELECT * FROM t").rows()) == [(0, "k0"), (1, "k1")]

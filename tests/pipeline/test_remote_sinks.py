"""Parquet sinks at URLs: in fsspec's memory, and in a local server that speaks S3."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.frames import Frame
from tests.pipeline.test_edited_pipelines import opened, rows

from viewmill.errors import InvalidArgument, MissingDependency, SinkBroken, WrongFormat
from viewmill.mill.storage import crash_points

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a server on loopback."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    made = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    made.start()
    host, port = made.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anyone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    files = fsspec.filesystem("s3", skip_instance_cache=True)
    files.mkdir("lake")
    fsspec.filesystem("s3").clear_instance_cache()
    try:
        yield "s3://lake"
    finally:
        made.stop()


def table_at(url: str) -> list[Any]:
    with fsspec.open(f"{url}/table.parquet", "rb") as file:
        return sorted(tuple(each.values()) for each in pq.read_table(file).to_pylist())


def net_at(url: str) -> Counter[Any]:
    files, root = fsspec.core.url_to_fs(url)
    files.invalidate_cache()
    bag: Counter[Any] = Counter()
    for name in sorted(files.glob(f"{root}/changes-*.parquet")):
        for row in pq.read_table(pa.BufferReader(files.cat_file(name))).to_pylist():
            word, _ = row.pop("_change_type"), row.pop("_commit_version")
            bag[tuple(row.values())] += 1 if word == "insert" else -1
    return +bag


def exercise(root: Any, base: str, monkeypatch: Any) -> None:
    """Two runs, a crash before the delivery, and files of others."""
    frame = Frame(rows((1, 10), (2, 7)))
    with opened(root, frame) as pipe:
        pipe.sink("spent", path=f"{base}/table")
        pipe.sink("spent", path=f"{base}/changes", mode="changes")
        pipe.run_once()
        assert table_at(f"{base}/table") == [(1, 10), (2, 7)]
        frame.table = rows((1, 10), (2, 9))

        def crash(name: str) -> None:
            if name == "change to deliver":
                raise KeyboardInterrupt

        monkeypatch.setattr(crash_points, "visit", crash)
        with pytest.raises(KeyboardInterrupt):
            pipe.run_once()
        monkeypatch.setattr(crash_points, "visit", None)
    with opened(root, frame) as pipe:
        pipe.sink("spent", path=f"{base}/table/")
        pipe.sink("spent", path=f"{base}/changes", mode="changes")
        pipe.run_once()
        assert table_at(f"{base}/table") == [(1, 10), (2, 9)]
        assert net_at(f"{base}/changes") == Counter([(1, 10), (2, 9)])
        files, place = fsspec.core.url_to_fs(f"{base}/table")
        files.pipe_file(f"{place}/table.parquet", b"precious")
        frame.table = rows((1, 11))
        with pytest.raises(SinkBroken, match="changed by others"):
            pipe.run_once()
        assert files.cat_file(f"{place}/table.parquet") == b"precious"
        files.pipe_file(f"{place}-2/other.parquet", b"precious")
        with pytest.raises(WrongFormat, match="files of others"):
            pipe.sink("spent", path=f"{base}/table-2")
    with (
        opened(root / "another", frame) as pipe,
        pytest.raises(WrongFormat, match="another pipeline"),
    ):
        pipe.sink("spent", path=f"{base}/table")


def test_memory_of_fsspec(tmp_path, monkeypatch):
    exercise(tmp_path, f"memory://{uuid.uuid4().hex}", monkeypatch)


def test_object_store(tmp_path, monkeypatch, s3):
    exercise(tmp_path, f"{s3}/views", monkeypatch)


def test_schemes_that_nobody_knows_and_other_formats_are_refused(tmp_path):
    with opened(tmp_path, Frame(rows((1, 10)))) as pipe:
        with pytest.raises((SinkBroken, MissingDependency), match="nosuch://x"):
            pipe.sink("spent", path="nosuch://x")
        with pytest.raises(InvalidArgument, match="not on this machine"):
            pipe.sink("spent", path="s3://bucket/x", format="delta")

"""Packed kernels: what one machine compiled, another one of its kind does not compile again."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import viewmill as vm
from viewmill.errors import InvalidArgument, UnfitKernels
from viewmill.kernels.packed import MANIFEST, pack, unpack
from viewmill.kernels.source import cache_directory, load_source

SOURCE = "def twice(n):\n    return n + n\n"


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with one kernel, whose code is a few bytes; then the cache is an empty one."""
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path / "first"))
    path = Path(load_source("twice", SOURCE, None)["twice"].__code__.co_filename)
    code = path.parent / "__pycache__"
    code.mkdir(exist_ok=True)
    for kind in ("1.nbc", "nbi"):
        (code / f"{path.stem}.twice-6.py311.{kind}").write_bytes(kind.encode())
    (path.parent / "old_0123456789ab.py").write_text("def old(): ...\n")  # of another version
    (code / "old_0123456789ab.old-1.py311.nbi").touch()
    assert pack(tmp_path / "kernels.zip") == 3
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path / "second"))
    return tmp_path / "kernels.zip"


def _contents(cache: Path) -> dict[str, bytes]:
    files = (path for path in cache.rglob("*") if path.is_file())
    return {str(path.relative_to(cache)): path.read_bytes() for path in files}


def test_a_cache_gets_what_it_lacks_with_its_times(tmp_path: Path, packed: Path) -> None:
    assert unpack(packed) == 3
    first = _contents(tmp_path / "first" / "kernels")
    second = _contents(cache_directory())
    assert second == {name: body for name, body in first.items() if "old" not in name}
    for name in second:
        before, after = tmp_path / "first" / "kernels" / name, cache_directory() / name
        assert before.stat().st_mtime_ns == after.stat().st_mtime_ns
    assert unpack(packed) == 0


def test_what_the_cache_has_stays(packed: Path) -> None:
    code = cache_directory() / "__pycache__"
    code.mkdir()
    with zipfile.ZipFile(packed) as file:
        index = next(name for name in file.namelist() if name.endswith(".nbi"))
    (cache_directory() / index).write_bytes(b"own")
    assert unpack(packed) == 1  # the source; its code would not go with the index that is there
    assert (cache_directory() / index).read_bytes() == b"own"


def test_a_directory_is_taken_as_well(tmp_path: Path, packed: Path) -> None:
    with zipfile.ZipFile(packed) as file:
        file.extractall(tmp_path / "folder")
    assert unpack(tmp_path / "folder") == 3


def _rewritten(packed: Path, **changes: str) -> Path:
    """The file with other contents for some names; `manifest` is that of the manifest."""
    with zipfile.ZipFile(packed) as file:
        bodies = {name: file.read(name) for name in file.namelist()}
    for name, body in changes.items():
        bodies[MANIFEST if name == "manifest" else name] = body.encode()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in bodies.items():
            file.writestr(name, content)
    return packed


def _manifest(packed: Path) -> dict[str, dict[str, object]]:
    with zipfile.ZipFile(packed) as file:
        found: dict[str, dict[str, object]] = json.loads(file.read(MANIFEST))
    return found


def test_kernels_of_another_machine_are_refused(packed: Path) -> None:
    manifest = _manifest(packed)
    manifest["machine"]["CPU"] = "pdp-11"
    with pytest.raises(UnfitKernels, match="made for another CPU"):
        unpack(_rewritten(packed, manifest=json.dumps(manifest)))
    assert _contents(cache_directory()) == {}


def test_a_damaged_file_is_refused_whole(packed: Path) -> None:
    name = next(iter(_manifest(packed)["files"]))
    with pytest.raises(UnfitKernels, match="is damaged"):
        unpack(_rewritten(packed, **{name: "something else"}))
    assert _contents(cache_directory()) == {}


@pytest.mark.parametrize("name", ["../evil.py", "/tmp/evil.py", "warm/../../evil", "", "a/b.py"])
def test_no_name_leads_out_of_the_cache(packed: Path, name: str) -> None:
    manifest = _manifest(packed)
    manifest["files"][name] = {"sha256": "", "modified": 0}
    with pytest.raises(UnfitKernels, match="a file that no cache has"):
        unpack(_rewritten(packed, manifest=json.dumps(manifest)))
    assert _contents(cache_directory()) == {}


@pytest.mark.parametrize("body", [b"", b"not a zip", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_packed_file_is_refused(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "kernels.zip"
    path.write_bytes(body)
    with pytest.raises(UnfitKernels, match="does not hold packed kernels"):
        unpack(path)
    with pytest.raises(InvalidArgument, match="no kernels at"):
        unpack(tmp_path / "absent.zip")


def test_a_file_that_others_can_write_is_refused(packed: Path) -> None:
    packed.chmod(0o666)
    with pytest.raises(InvalidArgument, match="can be written by other users"):
        unpack(packed)
    with pytest.raises(InvalidArgument):
        vm.connect(kernels=packed)


def test_a_mill_opens_without_kernels_that_do_not_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kernels.zip").write_bytes(b"nothing")
    with caplog.at_level(logging.WARNING), vm.connect(kernels=tmp_path / "kernels.zip") as mill:
        assert mill.sql("SELECT 1 AS one").rows() == [(1,)]
    assert "views are compiled on this machine" in caplog.text


_PROCESS = """
import sys, viewmill as vm
from viewmill.kernels.packed import pack
from pathlib import Path
kernels = sys.argv[1] if sys.argv[2] == "use" else None
with vm.connect(compile="now", kernels=kernels) as mill:
    before = sorted(Path(sys.argv[3]).rglob("*.nbc"))
    mill.sql("CREATE TABLE t (a BIGINT) UNCHECKED; "
             "CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a > 1")
    mill.insert("t", [(1,), (2,)])
    assert mill["v"].rows() == [(2,)] and mill["v"].status()["tier"] == "compiled"
    after = sorted(Path(sys.argv[3]).rglob("*.nbc"))
if sys.argv[2] == "make":
    assert len(after) > len(before) and pack(Path(sys.argv[1])) > 0
else:
    assert after == before != [], "something was compiled again"
"""


def test_what_was_packed_is_not_compiled_again(tmp_path: Path) -> None:
    for what in ("make", "use"):
        cache = tmp_path / what
        command = [sys.executable, "-c", _PROCESS, str(tmp_path / "k.zip"), what, str(cache)]
        environment = {**os.environ, "VIEWMILL_CACHE": str(cache)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr

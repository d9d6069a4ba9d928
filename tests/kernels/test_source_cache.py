"""Kernels are files that Numba caches beside, found again by the next process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import viewmill as vm
from viewmill.kernels import compiler, source
from viewmill.kernels.match_kernel import mark_chains

# Builds the program of the tests, feeds a row, and prints how many functions were compiled.
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    from kernel_programs import T, delta, rows_of, statistics
    from viewmill.deltas.dictionary import Dictionary
    from viewmill.kernels import build
    maintainer = build(statistics(), Dictionary())
    maintainer.apply("t", delta(T, [(1, 0.0, None, 5, 0.5)]))
    assert rows_of(maintainer.flush()) == [(1, 0.0, 1, 5, 0.5, 50000, 1)]
    maintainer.commit()
    maintainer.rollback()
    assert maintainer.contents().size == 1
print(len(recorder.buffer))
"""


def run(cache: Path, **environment: str) -> int:
    here = str(Path(__file__).parent)
    variables = {
        **os.environ,
        "VIEWMILL_CACHE": str(cache),
        "VIEWMILL_COMPILER": "now",
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, here], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert run(tmp_path) > 0
    written = sorted((tmp_path / "kernels").glob("statistics_*.py"))
    assert len(written) == 1
    assert written[0].read_text().startswith('"""Triggers of statistics.')
    assert run(tmp_path) == 0
    assert sorted((tmp_path / "kernels").glob("statistics_*.py")) == written


def test_what_takes_long_is_said_once_and_only_when_it_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path))
    text = "def first(x):\n    return x + 1\n\ndef second(x):\n    return x + 2\n"
    caplog.set_level("INFO", "viewmill")
    for _ in range(2):  # two functions of one file, then both again from the cache
        monkeypatch.setattr(source, "_SAID", set())
        functions = source.load_source("told", text, None)
        assert compiler.compile_kernel(functions["first"], (compiler.WORD,))(1) == 2
        assert compiler.compile_kernel(functions["second"], (compiler.WORD,))(1) == 3
        lines = [each for each in caplog.messages if "(told_" in each]
        assert len(lines) == 1
        assert str(tmp_path) in lines[0]


def test_with_the_compiler_off_nothing_is_compiled(tmp_path: Path) -> None:
    assert run(tmp_path, VIEWMILL_COMPILER="off") == 0


def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("VIEWMILL_CACHE", str(blocked))
    functions = source.load_source("tiny", "def one():\n    return 1\n", None)
    assert functions["one"]() == 1
    assert str(tmp_path) not in functions["one"].__code__.co_filename


def test_an_edited_file_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path))
    text = "def one():\n    return 1\n"
    path = Path(source.load_source("tiny", text, None)["one"].__code__.co_filename)
    path.write_text("def one():\n    return 2\n")
    assert source.load_source("tiny", text, None)["one"]() == 1


def test_without_entry_points_the_public_way_gives_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "def add(start, words):\n    return start + words[0]\n"
    function = source.load_source("public", text, None)["add"]
    monkeypatch.setattr(compiler, "_entry_points_work", lambda: False)
    slow = compiler.compile_kernel(function, (compiler.WORD, compiler.WORDS))
    monkeypatch.undo()
    fast = compiler.compile_kernel(function, (compiler.WORD, compiler.WORDS))
    words = np.arange(3, 6)
    words.flags.writeable = False
    assert slow(4, words) == fast(4, words) == 7


def test_entry_points_pass_their_test() -> None:
    assert compiler._entry_points_work()
    assert compiler._known("_nrt") == {"_nrt": False}


def test_views_that_differ_in_name_share_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path))
    mill = vm.connect()
    mill.sql("CREATE TABLE t (a INT, b INT)")
    for name in ("first", "second"):
        mill.sql(f"CREATE MATERIALIZED VIEW {name} REFRESH ON DEMAND AS "
                 "SELECT b, sum(n) AS n FROM (SELECT b, a, count(*) AS n FROM t GROUP BY b, a) "
                 "WHERE n > 1 GROUP BY b")  # fmt: skip
        written = len(list((tmp_path / "kernels").glob("*.py")))
        if name == "first":
            files = written
    assert written == files > 0


def test_the_cache_belongs_to_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path / "a"))
    text = "def one():\n    return 1\n"
    source.load_source("tiny", text, None)
    kernels = tmp_path / "a" / "kernels"
    assert kernels.stat().st_mode & 0o777 == 0o700
    for mode in (0o777, 0o770):  # others could have put something there
        monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path / str(mode)))
        kernels = tmp_path / str(mode) / "kernels"
        kernels.mkdir(parents=True)
        kernels.chmod(mode)
        (kernels / "planted.py").write_text("")
        source.load_source("tiny", text, None)
        assert kernels.stat().st_mode & 0o777 == 0o700
        assert not (kernels / "planted.py").exists()
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path / "b"))
    monkeypatch.setattr(os, "getuid", lambda: -1)
    function = source.load_source("tiny", text, None)["one"]
    assert str(tmp_path) not in function.__code__.co_filename


def test_a_damaged_cache_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path))
    text = "def add(x):\n    return x + 1\n"
    for damage in (None, b"", b"\x80\x05garbage" * 50):
        files = [each for each in tmp_path.rglob("*") if each.suffix in (".nbi", ".nbc")]
        assert bool(files) == (damage is not None)
        for each in files:
            each.write_bytes(damage or b"")
        function = source.load_source("frail", text, None)["add"]
        assert compiler.compile_kernel(function, (compiler.WORD,))(1) == 2


def test_a_loop_of_a_pattern_is_cached_where_only_we_write_and_damage_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files were in the folder of the package, and were read without a look at them."""
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path))
    last = np.array([1]), np.array([-1, 0])
    for damage in (None, b"", b"\x80\x05garbage" * 50):
        files = [each for each in tmp_path.rglob("*") if each.suffix in (".nbi", ".nbc")]
        assert bool(files) == (damage is not None)
        for each in files:
            each.write_bytes(damage or b"")
        kept = np.zeros(2, np.uint8)
        compiler.compile_loop(mark_chains)(*last, kept)
        assert kept.tolist() == [1, 1]


# No file can be written to from here on, as on a full disk.
FULL = """
import resource
from viewmill.kernels import compiler, source
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
function = source.load_source("tiny", "def add(x):\\n    return x + 1\\n", None)["add"]
print(compiler.compile_kernel(function, (compiler.WORD,))(1))
"""


def test_a_full_cache_stops_no_view(tmp_path: Path) -> None:
    """The source of the kernel could not be written, and the view was refused."""
    environment = {**os.environ, "VIEWMILL_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FULL], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    assert "not kept" in done.stderr
    assert not [each for each in tmp_path.rglob("*") if each.is_file() and each.stat().st_size]

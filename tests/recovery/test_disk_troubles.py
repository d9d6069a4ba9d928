"""Locked, damaged, read-only, full: a clear error, nothing changed, the mill works afterwards."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewmill as vm
from viewmill import errors


@pytest.fixture
def path(tmp_path: Path, uncompiled) -> Path:
    """A closed mill with a snapshot, a log behind it, and a view."""
    place = tmp_path / "m.mill"
    with vm.connect(place) as mill:
        mill.sql("CREATE TABLE t (k INT, s STRING)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
        mill.insert("t", [(i % 3, f"row {i}") for i in range(200)])
        mill.checkpoint()
        mill.insert("t", [(7, "after the checkpoint")])
        mill.insert("t", [(8, "and again")])
    return place


def sorted_rows(mill: vm.Mill) -> list[tuple[object, ...]]:
    return sorted(mill["v"].rows())


EXPECTED = [(0, 67), (1, 67), (2, 66), (7, 1), (8, 1)]


def test_two_openings_of_one_mill_are_refused(path):
    with vm.connect(path) as mill:
        with pytest.raises(errors.MillLocked):
            vm.connect(path)
        mill.insert("t", [(9, "x")])
    with vm.connect(path) as mill:
        assert (9, 1) in mill["v"].rows()


def test_two_processes_cannot_open_one_mill(path):
    source = str(Path(vm.__file__).parents[1])
    program = (
        "import sys, viewmill as vm\n"
        "try:\n    vm.connect(sys.argv[1])\n"
        "except vm.errors.MillLocked as why:\n    print('refused', why.message)"
    )
    with vm.connect(path):
        done = subprocess.run(
            [sys.executable, "-c", program, str(path)],
            env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert done.stdout.startswith("refused")
    assert str(os.getpid()) in done.stdout or str(path) in done.stdout


def files_of(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if each.is_file())


def is_refused_or_right(mill_path: Path, damaged: Path) -> bool:
    """Whether the damage is noticed; if not, it must not show."""
    said = ""
    try:
        with vm.connect(mill_path) as mill:
            assert sorted_rows(mill) == EXPECTED, damaged.name
            assert mill["v"].verify() == []
    except errors.StorageFailed as why:
        said = str(why)
    assert said == "" or mill_path.name in said or damaged.name in said
    return said != ""


def test_a_changed_byte_anywhere_is_noticed_or_harmless(path):
    """No byte of any file can be flipped so that other rows come out."""
    noticed = 0
    for file in files_of(path):
        whole = file.read_bytes()
        for at in sorted({len(whole) * part // 16 for part in range(16)}):
            if at >= len(whole):
                continue
            copy = path.with_name("copy.mill")
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(path, copy)
            broken = bytearray(whole)
            broken[at] ^= 0xFF
            (copy / file.relative_to(path)).write_bytes(broken)
            noticed += is_refused_or_right(copy, file)
    assert noticed > 5


def test_a_truncated_file_is_named_and_never_read_as_data(path):
    for file in files_of(path):
        size = file.stat().st_size
        if size < 100:
            continue
        copy = path.with_name("copy.mill")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path, copy)
        os.truncate(copy / file.relative_to(path), size // 2)
        is_refused_or_right(copy, file)


def test_a_directory_that_is_no_mill_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(errors.WrongFormat):
        vm.connect(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(errors.StorageFailed):
        vm.connect(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


@contextlib.contextmanager
def no_file_may_grow() -> Iterator[None]:
    """As on a full disk: writing more than a few bytes fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_an_error_that_changes_nothing(path):
    with vm.connect(path) as mill:
        mill.sql("CREATE TABLE other (x INT)")
        version = mill.status()["version"]
        heard: list[vm.Change] = []
        mill["v"].subscribe(heard.append)

        def write() -> None:
            with mill.batch():
                mill.insert("t", [(9, "x" * 100_000)])
                mill.insert("other", [(1,)])

        with no_file_may_grow(), pytest.raises(errors.StorageFailed):
            write()
        assert sorted_rows(mill) == EXPECTED
        assert len(mill.sql("SELECT * FROM other")) == 0
        assert (mill.status()["version"], heard) == (version, [])
        with no_file_may_grow(), pytest.raises(errors.StorageFailed):
            mill.sql("CREATE TABLE third (x INT)")
        assert "third" not in mill
        with no_file_may_grow(), pytest.raises(errors.StorageFailed):
            mill.checkpoint()
        mill.insert("t", [(9, "there is room again")])
        mill.checkpoint()
    with vm.connect(path) as mill:
        assert sorted_rows(mill) == [*EXPECTED, (9, 1)]
        assert mill["v"].verify() == []


def test_a_full_disk_while_a_view_is_replaced_keeps_the_old_one(path):
    with vm.connect(path) as mill:
        with no_file_may_grow(), pytest.raises(errors.StorageFailed):
            mill.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        mill.insert("t", [(9, "x")])
        assert sorted_rows(mill) == [*EXPECTED, (9, 1)]
        with no_file_may_grow(), pytest.raises(errors.StorageFailed):
            mill.sql("DROP MATERIALIZED VIEW v")
        assert sorted_rows(mill) == [*EXPECTED, (9, 1)]


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_directory_is_an_error(path):
    os.chmod(path, 0o500)
    for file in files_of(path):
        file.chmod(0o400)
    try:
        with pytest.raises(errors.StorageFailed):
            vm.connect(path)
    finally:
        os.chmod(path, 0o700)
        for file in files_of(path):
            file.chmod(0o600)
    with vm.connect(path) as mill:
        assert sorted_rows(mill) == EXPECTED


def test_a_mill_cannot_be_made_where_nothing_can_be_written(tmp_path):
    """A file system that refuses writes, to root as well."""
    with pytest.raises(errors.StorageFailed):
        vm.connect("/proc/viewmill.mill")


def test_dropped_and_recreated_tables_do_not_mix_their_rows(path):
    with vm.connect(path) as mill:
        mill.sql("DROP MATERIALIZED VIEW v")
        mill.sql("DROP TABLE t")
        mill.sql("CREATE TABLE t (k INT, s STRING)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
        mill.insert("t", [(1, "new")])
    with vm.connect(path) as mill:
        assert sorted_rows(mill) == [(1, 1)]


def test_reopening_keeps_policies_plain_views_replacements_and_order(path):
    with vm.connect(path) as mill:
        mill.sql("CREATE VIEW few AS SELECT * FROM t WHERE k > 6")
        mill.sql("CREATE MATERIALIZED VIEW late REFRESH ON DEMAND AS SELECT COUNT(*) AS n FROM few")
        mill.sql("CREATE MATERIALIZED VIEW above AS SELECT SUM(n) AS n FROM v")
        mill.sql(
            "CREATE OR REPLACE MATERIALIZED VIEW v AS "
            "SELECT k, COUNT(*) * 10 AS n FROM t GROUP BY k"
        )
        mill.sql("ALTER MATERIALIZED VIEW late REFRESH EVERY 2 ROWS")
    with vm.connect(path) as mill:
        assert mill["above"].rows() == [(2020,)]
        mill.insert("t", [(9, "x")])
        assert (mill["late"].rows(), mill["above"].rows()) == ([(2,)], [(2030,)])
        mill.insert("t", [(9, "y")])
        assert mill["late"].rows() == [(4,)]
        assert all(mill[name].verify() == [] for name in mill.views())
        status = mill["late"].status()
        assert status["policies"] == ["REFRESH EVERY 2 ROWS"]


def test_rows_deleted_before_they_came_are_still_owed_after_reopening(tmp_path, uncompiled):
    place = tmp_path / "m.mill"
    with vm.connect(place) as mill:
        mill.sql("CREATE TABLE t (k INT) UNCHECKED")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
        mill.sql("CREATE MATERIALIZED VIEW w AS SELECT k FROM t WHERE k > 0")
        mill.delete("t", [(1,)])
    for checkpoint in (False, True):
        with vm.connect(place) as mill:
            if checkpoint:
                mill.checkpoint()
    with vm.connect(place) as mill:
        mill.insert("t", [(1,), (2,)])
        assert (mill["v"].rows(), mill["w"].rows()) == ([(2, 1)], [(2,)])
        assert mill["v"].verify() == mill["w"].verify() == []

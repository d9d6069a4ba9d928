"""No name is a path: whatever a table or view is called, its files stay in their place."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import viewmill as vm
from viewmill.algebra.names import folder_name, quoted
from viewmill.errors import StorageFailed
from viewmill.mill.storage.files import remove_below

ODD = [
    "..", ".", "...", "/", "../..", "a/../../b", "/etc", "~", "-rf", "con", "%2E%2E", "a\nb",
    "a\rb", "ſ", "é" * 100, "x" * 300, "part.parquet", "_draft", " ", "a`b", '"', "'", "*",
    "\\..\\", "\u202e",
]  # fmt: skip


@given(st.lists(st.text(min_size=1), unique=True, max_size=20))
@example([*ODD, "%%", "é" * 99 + "e"])
def test_each_name_has_a_folder_of_its_own(names: list[str]) -> None:
    names = [each for each in names if ("\0" not in each and each.isprintable()) or each in ODD]
    folders = [folder_name(each) for each in names]
    assert len(set(folders)) == len(names)
    for folder in folders:
        assert Path("/mill/parts", folder).parent == Path("/mill/parts")
        assert folder not in (".", "..")
        assert folder.isascii()
        assert len(folder) < 200


def test_plain_names_are_folders_as_they_are() -> None:
    assert [folder_name(each) for each in ("orders", "Lines_2", "a.b")] == [
        "orders", "Lines_2", "a.b",
    ]  # fmt: skip


def test_nothing_outside_is_removed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "mill", tmp_path / "other"
    for folder in (inside / "parts", outside):
        folder.mkdir(parents=True)
        (folder / "file").write_text("kept")
    (inside / "link").symlink_to(outside)
    for wrong in (inside, tmp_path, outside, inside / "..", inside / "parts/../../other",
                  inside / "link" / "file", inside / "parts" / "..", inside / "."):  # fmt: skip
        with pytest.raises(StorageFailed):
            remove_below(inside, wrong)
    remove_below(inside, inside / "link")  # the link alone
    assert (outside / "file").read_text() == "kept"
    remove_below(inside, inside / "parts")
    remove_below(inside, inside / "parts")
    assert list(inside.iterdir()) == []


@pytest.mark.parametrize("name", ["", "\0", "a\0b"])
def test_what_no_file_can_be_called_is_no_name(name: str) -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        for sql in (
            f"CREATE TABLE {quoted(name)} (x BIGINT)",
            f"CREATE TABLE r ({quoted(name)} BIGINT)",
            f"CREATE VIEW {quoted(name)} AS SELECT x FROM t",
            f"CREATE VIEW v AS SELECT x AS {quoted(name)} FROM t",
            f"CREATE MATERIALIZED VIEW {quoted(name)} AS SELECT x FROM t",
            f"CREATE MATERIALIZED VIEW v AS SELECT x AS {quoted(name)} FROM t",
        ):
            with pytest.raises(vm.ViewmillError):
                mill.sql(sql)
        with pytest.raises(vm.ViewmillError):
            mill.table(pa.table({"x": [1]}), name=name)
        with pytest.raises(vm.ViewmillError):
            mill.table(pa.table({name: [1]}), name="r")
        assert mill.tables() == ["t"]


def test_half_a_character_is_no_sql() -> None:
    with vm.connect() as mill, pytest.raises(vm.MalformedSQL):
        mill.sql("SELECT '\ud800'")


def test_the_name_of_a_column_does_not_end_the_statement() -> None:
    name = "a` INT); DROP TABLE t; CREATE TABLE z (`b"
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        mill.table(pa.table({name: [1]}), name="r` (x INT); DROP TABLE t; --", key=name)
        assert sorted(mill.tables()) == ["r` (x INT); DROP TABLE t; --", "t"]
        assert mill.sql(f"SELECT {quoted(name)} FROM {quoted(mill.tables()[-1])}") is not None


def test_a_table_of_any_name_has_its_parts_and_leaves_the_rest_alone(
    tmp_path: Path, uncompiled: None
) -> None:
    path, archive = tmp_path / "m.mill", tmp_path / "outer" / "archive"
    (tmp_path / "stranger").mkdir()

    def at(minutes: int) -> dt.datetime:
        return dt.datetime(2024, 1, 1) + dt.timedelta(minutes=minutes)

    with vm.connect(path) as mill:
        mill.sql("CREATE TABLE kept (v BIGINT)")
        mill.insert("kept", [(1,), (2,)])
        for name in ODD:
            mill.sql(f"CREATE TABLE {quoted(name)} (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts "
                     "PARTITION LENGTH 60 RETENTION INTERVAL '2' MINUTES "
                     f"ARCHIVE '{archive}'")  # fmt: skip
            mill.insert(name, [(at(0), 1), (at(1), 2)])
        mill.checkpoint()
        for i, name in enumerate(ODD):
            mill.insert(name, [(at(10), i)])
    with vm.connect(path) as mill:
        for i, name in enumerate(ODD):
            if not set(name) & set("\n\r"):
                assert mill.sql(f"SELECT v FROM {quoted(name)}").rows() == [(i,)]
            mill.sql(f"DROP TABLE {quoted(name)}")
        mill.insert("kept", [(3,)])
    with vm.connect(path) as mill:
        assert sorted(mill.sql("SELECT v FROM kept").rows()) == [(1,), (2,), (3,)]
        assert mill.tables() == ["kept"]
    assert not any((path / "parts").iterdir())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.mill", "outer", "stranger"]
    assert [each.name for each in (tmp_path / "outer").iterdir()] == ["archive"]
    assert {each.name for each in archive.iterdir()} == {folder_name(each) for each in ODD}


@pytest.mark.parametrize("file", ["deltas.log", "mill.db", "HEAD", "LOCK"])
def test_a_link_in_a_mill_leads_nowhere(file: str, tmp_path: Path, uncompiled: None) -> None:
    """A mill from elsewhere wrote its log into whatever file its link named."""
    path, stranger = tmp_path / "m.mill", tmp_path / "stranger"
    with vm.connect(path) as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        mill.checkpoint()
    (path / file).rename(stranger)
    (path / file).symlink_to(stranger)
    before = stranger.read_bytes()
    with pytest.raises(StorageFailed, match=file):
        vm.connect(path)
    assert stranger.read_bytes() == before
    (tmp_path / "link.mill").symlink_to(path)  # the folder may be reached by one
    (path / file).unlink()
    stranger.rename(path / file)
    with vm.connect(tmp_path / "link.mill") as mill:
        mill.insert("t", [(1,)])


@pytest.mark.parametrize("file", ["deltas.log", "mill.db", "HEAD", "LOCK"])
def test_a_pipe_in_a_mill_is_not_waited_for(file: str, tmp_path: Path, uncompiled: None) -> None:
    path = tmp_path / "m.mill"
    with vm.connect(path) as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
    (path / file).unlink()
    os.mkfifo(path / file)
    with pytest.raises(vm.ViewmillError, match=file):
        vm.connect(path)


def test_a_new_mill_is_for_its_user_alone(tmp_path: Path, uncompiled: None) -> None:
    new, shared = tmp_path / "above" / "new.mill", tmp_path / "shared.mill"
    shared.mkdir(mode=0o750)
    for path in (new, shared):
        vm.connect(path).close()
    assert oct(new.stat().st_mode & 0o777) == oct(0o700)
    assert oct(shared.stat().st_mode & 0o777) == oct(0o750)

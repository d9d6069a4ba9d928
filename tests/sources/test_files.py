"""A mill follows files: each row once, also after the mill is opened again."""

import pytest

import viewmill as vm

TABLE = "CREATE TABLE t (k STRING, x BIGINT)"


def test_new_files_are_taken_once_also_after_reopening(tmp_path, uncompiled):
    (tmp_path / "a.csv").write_text("k,x\na,1\nb,2\n")
    source = vm.sources.files(tmp_path / "*.csv", batch_rows=1)
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(TABLE)
        mill.follow("t", source, background=False)
        assert mill.catch_up()
        assert mill.catch_up()
        assert sorted(mill.sql("SELECT * FROM t").rows()) == [("a", 1), ("b", 2)]
        assert mill.status()["sources"]["t"]["rows"] == 2
    (tmp_path / "b.csv").write_text("k,x\nc,3\n")
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.follow("t", source)
        assert mill.catch_up()
        assert sorted(mill.sql("SELECT * FROM t").rows()) == [("a", 1), ("b", 2), ("c", 3)]


def test_a_bad_file_changes_nothing_and_is_named(tmp_path, uncompiled):
    (tmp_path / "a.csv").write_text("k,x\na,one\n")
    with vm.connect() as mill:
        mill.sql(TABLE)
        mill.follow("t", vm.sources.files(tmp_path / "*.csv"), background=False)
        with pytest.raises(vm.ViewmillError, match="a.csv, row 1"):
            mill.catch_up()
        assert mill.sql("SELECT * FROM t").rows() == []
        assert mill.status()["sources"]["t"]["state"] == "retrying"

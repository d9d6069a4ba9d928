"""A mill follows files: each row once, also after the mill is opened again."""

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import viewmill as vm

TABLE = "CREATE TABLE t (k STRING, x BIGINT)"


def rows(mill, table="t"):
    return sorted(mill.sql(f"SELECT * FROM {table}").rows())


@pytest.fixture
def followed(tmp_path, uncompiled):
    """A durable mill whose table t follows a file with one row."""
    (tmp_path / "a.csv").write_text("k,x\na,1\n")
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(TABLE)
        mill.follow("T", vm.sources.files(tmp_path / "*.csv"), background=False)
        assert mill.catch_up()
        yield mill


def test_new_files_are_taken_once_also_after_reopening(tmp_path, uncompiled):
    (tmp_path / "a.csv").write_text("k,x\na,1\nb,2\n")
    source = vm.sources.files(tmp_path / "*.csv", batch_rows=1)
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(TABLE)
        mill.follow("t", source, background=False)
        assert mill.catch_up()
        assert mill.catch_up()
        assert rows(mill) == [("a", 1), ("b", 2)]
        assert mill.status()["sources"]["t"]["rows"] == 2
    (tmp_path / "b.csv").write_text("k,x\nc,3\n")
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.follow("t", source)
        assert mill.catch_up()
        assert rows(mill) == [("a", 1), ("b", 2), ("c", 3)]


def test_a_bad_file_changes_nothing_and_is_named(tmp_path, uncompiled):
    (tmp_path / "a.csv").write_text("k,x\na,one\n")
    with vm.connect() as mill:
        mill.sql(TABLE)
        mill.follow("t", vm.sources.files(tmp_path / "*.csv"), background=False)
        with pytest.raises(vm.ViewmillError, match=r"files .*a\.csv, row 1"):
            mill.catch_up()
        assert rows(mill) == []
        assert mill.status()["sources"]["t"]["state"] == "failed"


@pytest.mark.parametrize(
    "change",
    [
        lambda mill: mill.sql("DROP TABLE t"),
        lambda mill: mill.sql("DELETE FROM T"),
        lambda mill: mill.sql("INSERT INTO t VALUES ('b', 2)"),
        lambda mill: mill.sql("UPDATE t SET x = 5"),
        lambda mill: mill.insert("t", [("b", 2)]),
        lambda mill: mill.delete("t", [("a", 1)]),
        lambda mill: mill.apply("t", [("a", 1, -1)], multiplicity="m"),
        lambda mill: mill.sql("DELETE FROM _viewmill_offsets"),
        lambda mill: mill.sql("DROP TABLE _viewmill_offsets"),
        lambda mill: mill.upsert("_viewmill_offsets", [("t", "s", "p", "r")]),
    ],
)
def test_only_the_source_changes_a_table_that_follows_it(followed, change):
    before = rows(followed, "_viewmill_offsets")
    with pytest.raises(vm.ViewmillError, match="follows") as raised:
        change(followed)
    assert "unfollow" in raised.value.hint
    assert rows(followed) == [("a", 1)]
    assert rows(followed, "_viewmill_offsets") == before


def test_a_batch_cannot_change_a_table_that_follows_a_source(followed):
    with pytest.raises(vm.ViewmillError, match="follows"), followed.batch():
        followed.insert("t", [("b", 2)])
    assert rows(followed) == [("a", 1)]


def test_a_mill_that_is_opened_again_protects_the_table_before_it_follows(followed, tmp_path):
    followed.close()
    with vm.connect(tmp_path / "m.mill") as mill:
        with pytest.raises(vm.ViewmillError, match="follows"):
            mill.sql("DELETE FROM t")
        with pytest.raises(vm.ViewmillError, match=r"follows files .*\.csv"):
            mill.follow("t", vm.sources.files(tmp_path / "*.json"))
        mill.unfollow("T")
        mill.sql("DELETE FROM t")
        mill.follow("t", vm.sources.files(tmp_path / "*.csv"), background=False)
        assert mill.catch_up()
        assert rows(mill) == [("a", 1)]  # from the beginning again


def test_a_table_follows_one_source_however_its_name_is_spelled(followed, tmp_path):
    with pytest.raises(vm.ViewmillError, match="follows a source already"):
        followed.follow("t", vm.sources.files(tmp_path / "*.csv"))
    assert [*followed.status()["sources"]] == ["t"]
    followed.unfollow("t")
    with pytest.raises(vm.ViewmillError, match="follows no source"):
        followed.unfollow("t")
    with pytest.raises(vm.ViewmillError, match="has rows that did not come from"):
        followed.follow("t", vm.sources.files(tmp_path / "*.csv"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [("k STRING", "x"), ("k STRING, x DATE", "x"), ("k STRING, x BIGINT, y INT NOT NULL", "y")],
)
def test_a_table_whose_columns_do_not_fit_is_refused_at_once(tmp_path, mill, columns, message):
    pq.write_table(pa.table({"k": ["a"], "x": [1]}), tmp_path / "a.parquet")
    mill.sql(f"CREATE TABLE t ({columns})")
    with pytest.raises(vm.ViewmillError, match=f'"{message}"'):
        mill.follow("t", vm.sources.files(tmp_path / "*.parquet"))
    assert mill.tables() == ["t"]
    assert mill.status()["sources"] == {}


def test_a_table_is_made_with_the_columns_of_the_source(tmp_path, mill):
    pq.write_table(pa.table({"k": ["a"], "x": [1]}), tmp_path / "a.parquet")
    mill.follow("t", vm.sources.files(tmp_path / "*.parquet"), key="k", background=False)
    mill.catch_up()
    assert rows(mill) == [("a", 1)]


def test_one_source_that_fails_does_not_hold_up_the_others(tmp_path, uncompiled):
    (tmp_path / "a.csv").write_text("k,x\na,one\n")
    (tmp_path / "b.json").write_text('{"k": "b", "x": 2}\n')
    with vm.connect() as mill:
        for name, pattern in (("s", "*.csv"), ("t", "*.json")):
            mill.sql(f"CREATE TABLE {name} (k STRING, x BIGINT)")
            mill.follow(name, vm.sources.files(tmp_path / pattern), background=False)
        with pytest.raises(vm.ViewmillError, match=r"a\.csv"):
            mill.catch_up()
        assert rows(mill) == [("b", 2)]


def test_a_source_that_failed_is_tried_again_in_the_background(tmp_path, uncompiled):
    file = tmp_path / "a.csv"
    file.write_text("k,x\na,one\n")
    with vm.connect() as mill:
        mill.sql(TABLE)
        mill.follow("t", vm.sources.files(tmp_path / "*.csv"), every=0.01)
        assert _waits_for(lambda: mill.status()["sources"]["t"]["state"] == "retrying")
        assert "row 1" in mill.status()["sources"]["t"]["error"]
        file.write_text("k,x\na,1\n")
        assert _waits_for(lambda: rows(mill) == [("a", 1)])
        assert _waits_for(lambda: mill.status()["sources"]["t"]["state"] == "following")


def test_a_file_that_changed_after_it_was_taken_is_an_error(followed, tmp_path):
    (tmp_path / "a.csv").write_text("k,x\na,1\nb,2\n")
    with pytest.raises(vm.ViewmillError, match="has changed") as raised:
        followed.catch_up()
    assert "another one" in raised.value.hint
    assert rows(followed) == [("a", 1)]


def _waits_for(is_so):
    for _ in range(500):
        if is_so():
            return True
        time.sleep(0.01)
    return False

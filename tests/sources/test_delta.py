"""A mill follows a Delta table that someone else writes, with and without a change data feed."""

from __future__ import annotations

import random
import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.sources.delta_follower import assert_same, follow
from tests.sources.delta_writer import FEED, Writer

import viewmill as vm


@pytest.mark.parametrize("feed", [True, False])
@pytest.mark.parametrize("commits", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_the_view_equals_a_read_of_the_table_after_every_catch_up(
    tmp_path, uncompiled, feed, commits
):
    seed = random.randrange(1 << 30)
    print("seed", seed)  # noqa: T201
    chance = random.Random(seed)
    writer = Writer(tmp_path / "lake", chance, feed=feed)
    with vm.connect() as mill:
        follow(mill, writer.path)
        for i in range(commits):
            print(i, writer.commit())  # noqa: T201
            if chance.random() < 0.6:
                assert mill.catch_up()
                assert_same(mill, writer.path, ("id", "k", "x", "added_a"))
        assert mill.catch_up()
        assert_same(mill, writer.path, ("id", "k", "x", "added_a"))
        writer.append()
        assert mill.catch_up()
        reads = mill.status()["sources"]["t"]["reads"]
        assert ("no change data feed" in reads) is not feed


def test_a_mill_that_is_opened_again_goes_on_where_it_was(tmp_path, uncompiled):
    writer = Writer(tmp_path / "lake", random.Random(1), feed=True)
    for _ in range(4):
        with vm.connect(tmp_path / "m.mill") as mill:
            follow(mill, writer.path)
            assert_same(mill, writer.path)
        for _ in range(3):
            writer.commit()


def test_compaction_changes_nothing(tmp_path, mill):
    for values in ([1, 2], [3], [4]):
        rows = pa.table({"id": values, "k": ["a"] * len(values), "x": [1.0] * len(values)})
        write_deltalake(tmp_path / "lake", rows, mode="append")
    follow(mill, tmp_path / "lake")
    changes: list[vm.Change] = []
    mill["v"].subscribe(changes.append)
    DeltaTable(tmp_path / "lake").optimize.compact()
    assert mill.catch_up()
    assert changes == []
    assert_same(mill, tmp_path / "lake")


@pytest.mark.parametrize("feed", [True, False])
def test_history_that_was_vacuumed_is_an_error_that_says_what_to_do(tmp_path, mill, feed):
    writer = Writer(tmp_path / "lake", random.Random(1), feed=feed)
    follow(mill, writer.path)
    before = sorted(mill.sql("SELECT id FROM t").rows())
    for _ in range(3):
        writer.append()
        writer.overwrite()
    table = DeltaTable(writer.path)
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    with pytest.raises(vm.ViewmillError, match="no longer has the changes since") as raised:
        mill.catch_up()
    assert "unfollow" in raised.value.hint
    assert sorted(mill.sql("SELECT id FROM t").rows()) == before
    mill.unfollow("t")
    mill.sql("DELETE FROM t")
    follow(mill, writer.path)
    assert_same(mill, writer.path)


def test_a_table_that_was_created_anew_is_not_taken_for_the_old_one(tmp_path, mill):
    writer = Writer(tmp_path / "lake", random.Random(1), feed=True)
    follow(mill, writer.path)
    shutil.rmtree(writer.path)
    other = Writer(tmp_path / "lake", random.Random(2), feed=True)
    other.append()
    with pytest.raises(vm.ViewmillError, match="created anew"):
        mill.catch_up()


def test_a_table_that_is_not_there_is_named(tmp_path, mill):
    with pytest.raises(vm.ViewmillError, match=r"Delta table .*nowhere does not exist"):
        mill.follow("t", vm.sources.delta(tmp_path / "nowhere"))
    assert mill.tables() == []


def test_a_column_that_is_dropped_is_an_error(tmp_path, mill):
    path = tmp_path / "lake"
    write_deltalake(path, pa.table({"id": [1], "k": ["a"], "x": [1.0]}), configuration=FEED)
    follow(mill, path)
    write_deltalake(path, pa.table({"id": [1]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(vm.ViewmillError, match="no longer has the column k, x"):
        mill.catch_up()


def test_a_table_is_made_of_the_columns_whose_types_a_mill_has(tmp_path, mill):
    path = tmp_path / "lake"
    rows = pa.table({"id": [1], "k": ["a"], "x": [1.0], "tags": [["p"]], "b": [b"raw"]})
    write_deltalake(path, rows, partition_by=["k"])
    follow(mill, path, create="")
    write_deltalake(path, rows, mode="append")
    assert mill.catch_up()
    assert_same(mill, path)
    assert mill.sql("SELECT id, k, x FROM t").rows() == [(1, "a", 1.0)] * 2


def test_rows_that_become_equal_to_others_are_not_lost(tmp_path, mill):
    """deltalake 1.6 leaves the new row out of the feed, because it equals one that was there."""
    path = tmp_path / "lake"
    rows = pa.table({"id": [1, 2], "k": ["a", "a"], "x": [1.0, 1.0]})
    write_deltalake(path, rows, configuration=FEED)
    follow(mill, path)
    DeltaTable(path).update(predicate="id = 1", updates={"id": "2"})
    assert mill.catch_up()
    assert mill["v"].rows() == [("a", 2, 4, 2.0)]
    assert "UPDATE leaves rows out" in mill.status()["sources"]["t"]["reads"]


def test_a_feed_that_is_switched_off_and_on_again_is_not_trusted_in_between(tmp_path, mill):
    writer = Writer(tmp_path / "lake", random.Random(3), feed=True)
    follow(mill, writer.path)
    for is_on in ("false", "true"):
        DeltaTable(writer.path).alter.set_table_properties({"delta.enableChangeDataFeed": is_on})
        writer.delete()
        writer.merge()
    assert mill.catch_up()
    assert_same(mill, writer.path)


def test_a_feed_that_is_switched_on_later_is_used_from_then_on(tmp_path, mill):
    writer = Writer(tmp_path / "lake", random.Random(3), feed=False)
    follow(mill, writer.path)
    writer.update()
    DeltaTable(writer.path).alter.set_table_properties(FEED)
    writer.merge()
    assert mill.catch_up()
    assert_same(mill, writer.path)
    writer.delete()
    assert mill.catch_up()
    assert_same(mill, writer.path)
    assert mill.status()["sources"]["t"]["reads"] == "the change data feed"


@pytest.mark.parametrize("name", ["Bids", "my bids", 'a"b', "a.b", "s\u00e9lect"])
def test_the_feed_is_read_whatever_a_column_is_called(tmp_path, mill, name):
    write_deltalake(tmp_path / "lake", pa.table({name: [1, 2]}), configuration=FEED)
    mill.follow("t", vm.sources.delta(tmp_path / "lake"), background=False)
    assert mill.catch_up()
    write_deltalake(tmp_path / "lake", pa.table({name: [3]}), mode="append")
    assert mill.catch_up()
    assert sorted(mill.sql("SELECT * FROM t").rows()) == [(1,), (2,), (3,)]
    assert mill.status()["sources"]["t"]["reads"] == "the change data feed"


def test_partitions_with_spaces_are_followed_although_deltalake_finds_no_feed_of_them(
    tmp_path, mill
):
    days = pa.table({"day": ["1 May", "2 May"], "x": [1, 2]})
    write_deltalake(tmp_path / "lake", days, partition_by=["day"], configuration=FEED)
    mill.follow("t", vm.sources.delta(tmp_path / "lake"), background=False)
    assert mill.catch_up()
    DeltaTable(tmp_path / "lake").delete("x = 1")
    write_deltalake(tmp_path / "lake", days, mode="append")
    assert mill.catch_up()
    rows = mill.sql("SELECT * FROM t").rows()
    assert sorted(rows) == [("1 May", 1), ("2 May", 2), ("2 May", 2)]

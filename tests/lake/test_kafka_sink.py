"""A view as a topic of a real broker, read again by a mill that follows it."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import viewmill as vm

pytestmark = pytest.mark.lake

VIEW = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k"


def read(broker, topic):
    """The last rows of all keys."""
    with vm.connect() as reader:
        reader.sql("CREATE TABLE c (k STRING, n BIGINT, s DECIMAL(20, 4), PRIMARY KEY (k))")
        reader.follow("c", vm.sources.kafka(broker, topic), background=False)
        assert reader.catch_up()
        return Counter(reader.sql("SELECT * FROM c").rows())


def test_the_last_rows_of_the_topic_are_the_view_also_after_a_start(
    broker, topic, tmp_path, uncompiled
):
    name, chance = topic(2, cleanup_policy="compact"), random.Random(2)
    for _ in range(3):
        with vm.connect(tmp_path / "m.mill") as mill:
            if "t" not in mill:
                mill.sql("CREATE TABLE t (id BIGINT, k STRING, x DECIMAL(10, 4), PRIMARY KEY (id))")
                mill.sql(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
            mill.sink("v", vm.sinks.kafka(broker, name, key="k"))
            for _ in range(5):
                mill.upsert("t", [(chance.randrange(9), chance.choice("abcdef"), 1.5)])
                mill.sql(f"DELETE FROM t WHERE id = {chance.randrange(9)}")
            assert mill.flush(60)
            assert read(broker, name) == Counter(mill["v"].rows())
            mill.unsink("v")
            mill.sql("DELETE FROM t WHERE id % 2 = 0")


def test_changes_of_each_version_are_sent(broker, topic, uncompiled):
    name = topic()
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (id BIGINT) UNCHECKED")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        mill.sink("v", vm.sinks.kafka(broker, name, mode="changes"))
        assert mill.flush(60)
        mill.insert("t", [(1,)])
        assert mill.flush(60)
        mill.sql("CREATE TABLE c (n BIGINT, _change_type STRING) UNCHECKED")
        mill.follow("c", vm.sources.kafka(broker, name), background=False)
        assert mill.catch_up()
        assert Counter(mill.sql("SELECT * FROM c").rows()) == Counter(
            [(0, "insert"), (0, "delete"), (1, "insert")]
        )

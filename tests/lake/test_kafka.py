"""A mill follows topics of a real broker."""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.lake import kafka_follower
from tests.lake.kafka_follower import follow
from tests.sources.killed import killed_after

import viewmill as vm

pytestmark = pytest.mark.lake


class Writer:
    """Writes rows by key, and knows what should be there."""

    def __init__(self, broker: str, topic: str, chance: random.Random) -> None:
        self.topic, self._chance = topic, chance
        self._producer = Producer({"bootstrap.servers": broker})
        self.rows: dict[int, tuple[str, int]] = {}

    def commit(self) -> None:
        for _ in range(self._chance.randint(1, 40)):
            id_ = self._chance.randrange(300)
            key = json.dumps({"id": id_}).encode()
            if self._chance.random() < 0.2:
                self.rows.pop(id_, None)
                self._producer.produce(self.topic, None, key)
                continue
            k, x = f"k{self._chance.randrange(5)}", self._chance.randrange(1000)
            self.rows[id_] = (k, x)
            value = json.dumps({"id": id_, "k": k, "x": x, "more": [1]}).encode()
            self._producer.produce(self.topic, value, key)
        self._producer.flush()

    def assert_same(self, mill: vm.Mill) -> None:
        shown = mill.sql("SELECT id, k, x FROM t").rows()
        assert Counter(shown) == Counter((i, *row) for i, row in self.rows.items())
        groups = defaultdict(list)
        for k, x in self.rows.values():
            groups[k].append(x)
        assert Counter(mill["v"].rows()) == Counter(
            (k, sum(each), len(each)) for k, each in groups.items()
        )


@pytest.mark.parametrize("commits", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_the_view_equals_the_last_rows_of_all_keys(broker, topic, uncompiled, commits):
    seed = random.randrange(1 << 30)
    print("seed", seed)  # noqa: T201
    chance = random.Random(seed)
    writer = Writer(broker, topic(3, cleanup_policy="compact"), chance)
    with vm.connect() as mill:
        follow(mill, broker, writer.topic)
        for _ in range(commits):
            writer.commit()
            if chance.random() < 0.3:
                assert mill.catch_up()
                writer.assert_same(mill)
        assert mill.catch_up()
        writer.assert_same(mill)


def test_kills_lose_nothing_and_double_nothing(broker, topic, tmp_path, uncompiled):
    chance = random.Random()
    writer = Writer(broker, topic(2), chance)
    for _ in range(3):
        with killed_after(kafka_follower, tmp_path, broker, writer.topic):
            for _ in range(20):
                writer.commit()
                time.sleep(chance.uniform(0, 0.03))
    with vm.connect(tmp_path / "m.mill") as mill:
        follow(mill, broker, writer.topic)
        writer.assert_same(mill)


def test_transactions_that_are_aborted_or_open_are_not_read(broker, topic, uncompiled):
    name = topic()
    producer = Producer({"bootstrap.servers": broker, "transactional.id": name})
    producer.init_transactions()
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (id BIGINT) UNCHECKED")
        mill.follow("t", vm.sources.kafka(broker, name), background=False)
        for id_, ends in ((1, "commit"), (2, "abort"), (3, "open")):
            producer.begin_transaction()
            producer.produce(name, json.dumps({"id": id_}).encode())
            producer.flush()
            if ends == "commit":
                producer.commit_transaction()
            elif ends == "abort":
                producer.abort_transaction()
        assert mill.catch_up()
        assert mill.sql("SELECT * FROM t").rows() == [(1,)]
        producer.commit_transaction()
        assert mill.catch_up()
        assert sorted(mill.sql("SELECT * FROM t").rows()) == [(1,), (3,)]


def test_a_malformed_message_is_named_and_changes_nothing(broker, topic, uncompiled):
    name = topic()
    producer = Producer({"bootstrap.servers": broker})
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (id BIGINT) UNCHECKED")
        mill.follow("t", vm.sources.kafka(broker, name), background=False)
        for value in (b'{"id": 1}', b'{"id": 2', b'{"id": 3}'):
            producer.produce(name, value)
        producer.flush()
        for _ in range(2):
            with pytest.raises(
                vm.ViewmillError, match=f"topic {name}, partition 0, offset 1: it is"
            ):
                mill.catch_up()
        assert mill.sql("SELECT * FROM t").rows() == []


def test_messages_that_expired_are_an_error_that_says_what_to_do(
    broker, topic, tmp_path, uncompiled
):
    name = topic(1, retention_ms="1000", segment_ms="500")
    producer = Producer({"bootstrap.servers": broker})
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql("CREATE TABLE t (id BIGINT) UNCHECKED")
        mill.follow("t", vm.sources.kafka(broker, name), background=False)
        producer.produce(name, b'{"id": 1}')
        producer.flush()
        assert mill.catch_up()
        until = time.monotonic() + 60
        while time.monotonic() < until:  # old segments go one after the other
            producer.produce(name, b'{"id": 2}')
            producer.flush()
            time.sleep(0.5)
            try:
                source = vm.sources.kafka(broker, name)
                low = source._partitions() and source._marks(0)[0]
            finally:
                source.close()
            if low > 1:
                break
        with pytest.raises(vm.ViewmillError, match="are lost: offset 1 of partition 0") as why:
            mill.catch_up()
        assert "unfollow" in why.value.hint


def test_a_topic_that_is_missing_is_named(broker, uncompiled):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (id BIGINT) UNCHECKED")
        with pytest.raises(vm.ViewmillError, match="Kafka topic nothing does not exist"):
            mill.follow("t", vm.sources.kafka(broker, "nothing"), background=False)


def test_a_topic_that_was_created_anew_is_not_the_one_that_was_followed(
    broker, topic, tmp_path, uncompiled
):
    name, admin = topic(), AdminClient({"bootstrap.servers": broker})
    producer = Producer({"bootstrap.servers": broker})
    for round_ in range(2):
        for i in range(3 * (round_ + 1)):
            producer.produce(name, json.dumps({"id": i}).encode())
        producer.flush()
        with vm.connect(tmp_path / "m.mill") as mill:
            mill.sql("CREATE TABLE IF NOT EXISTS t (id BIGINT) UNCHECKED")
            mill.follow("t", vm.sources.kafka(broker, name), background=False)
            if round_:
                with pytest.raises(vm.ViewmillError, match="another topic of that name"):
                    mill.catch_up()
                break
            assert mill.catch_up()
        admin.delete_topics([name])[name].result()
        while name in admin.list_topics(timeout=5).topics:
            time.sleep(0.05)
        admin.create_topics([NewTopic(name, 1)])[name].result()
        time.sleep(0.5)

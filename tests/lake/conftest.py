"""A Kafka broker for the tests of this folder."""

import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.lake.kafka_broker import running, why_not


@pytest.fixture(scope="session")
def broker(tmp_path_factory) -> Iterator[str]:
    """The address of a broker."""
    if why_not():
        pytest.skip(why_not())
    with running(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture
def topic(broker) -> Callable[..., str]:
    """Makes topics."""
    admin = AdminClient({"bootstrap.servers": broker})

    def make(partitions: int = 1, **config: str) -> str:
        name = f"t{uuid.uuid4().hex}"
        named = {each.replace("_", "."): value for each, value in config.items()}
        (made,) = admin.create_topics([NewTopic(name, partitions, config=named)]).values()
        made.result()
        return name

    return make

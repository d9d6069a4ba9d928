"""Follow a topic of Kafka, and send a view to another: `make services` starts a broker for it."""

import json
import os
import uuid

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import viewmill as vm

SERVERS = os.environ["VIEWMILL_KAFKA"]
orders, revenue = f"orders-{uuid.uuid4().hex[:6]}", f"revenue-{uuid.uuid4().hex[:6]}"
admin = AdminClient({"bootstrap.servers": SERVERS})
for made in admin.create_topics([NewTopic(orders, 2), NewTopic(revenue, 1)]).values():
    made.result()

producer = Producer({"bootstrap.servers": SERVERS})
for number, customer, amount in [(1, "ann", 10), (2, "bob", 5), (1, "ann", 12)]:
    row = {"id": number, "customer": customer, "amount": amount}
    producer.produce(orders, json.dumps(row), json.dumps({"id": number}))
producer.produce(orders, None, json.dumps({"id": 2}))  # a tombstone: the order is gone
producer.flush()

mill = vm.connect()
mill.sql("CREATE TABLE orders (id INT, customer STRING, amount INT, PRIMARY KEY (id))")
mill.follow("orders", vm.sources.kafka(SERVERS, orders))
mill.sql(
    "CREATE MATERIALIZED VIEW revenue AS "
    "SELECT customer, SUM(amount) AS revenue FROM orders GROUP BY customer"
)
mill.sink("revenue", vm.sinks.kafka(SERVERS, revenue, key="customer"))
assert mill.catch_up(timeout=60)
assert mill.flush(timeout=60)
assert mill["revenue"].rows() == [("ann", 12)]

mill.sql("CREATE TABLE sent (customer STRING, revenue BIGINT, PRIMARY KEY (customer))")
mill.follow("sent", vm.sources.kafka(SERVERS, revenue), background=False)
assert mill.catch_up(timeout=60)
assert mill.sql("SELECT * FROM sent").rows() == [("ann", 12)]
print(mill["revenue"].rows())
mill.close()

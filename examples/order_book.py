"""Follow an order book: two views over a stream of inserts and deletes, then a look at one."""

import viewmill as vm
from viewmill.bench.order_book import COLUMNS, OrderBook

mill = vm.connect()
mill.sql(f"CREATE TABLE bids ({COLUMNS})")
mill.sql("""
    CREATE MATERIALIZED VIEW brokers AS
    SELECT broker, COUNT(*) AS orders, SUM(volume) AS volume FROM bids GROUP BY broker
""")
mill.sql("CREATE MATERIALIZED VIEW busy AS SELECT broker, volume FROM brokers WHERE orders > 90")

book = OrderBook("bids", depth=1_000)
for _ in range(20):
    mill.apply("bids", book.batch(200), multiplicity="m")

orders = sum(row[1] for row in mill["brokers"].rows())
assert orders == len(book.open_orders)
assert mill["brokers"].verify() == []
assert mill["busy"].verify() == []
for broker, volume in sorted(mill["busy"].rows()):
    print(f"broker {broker:2d} has {volume:,} on offer")

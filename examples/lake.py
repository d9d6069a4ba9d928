"""Follow a Delta table and an Iceberg table into one view, and write it back to both lakes."""

import tempfile
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import viewmill as vm

folder = Path(tempfile.mkdtemp())
orders = str(folder / "orders")
write_deltalake(
    orders,
    pa.table({"customer": [1, 1, 2], "amount": [10, 5, 7]}),
    configuration={"delta.enableChangeDataFeed": "true"},
)
catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}/lake")
catalog.create_namespace("shop")
names = pa.table({"id": [1, 2], "name": ["ann", "bob"]})
customers = catalog.create_table("shop.customers", names.schema)
customers.append(names)

mill = vm.connect()
mill.follow("orders", vm.sources.delta(orders))
mill.follow("customers", vm.sources.iceberg(catalog, "shop.customers"))
mill.sql(
    "CREATE MATERIALIZED VIEW revenue AS SELECT name, SUM(amount) AS revenue "
    "FROM orders JOIN customers ON orders.customer = customers.id GROUP BY name"
)
mill.sink("revenue", format="delta", path=folder / "revenue")
mill.sink("revenue", vm.sinks.iceberg(catalog, "shop.revenue"), name="iceberg")

DeltaTable(orders).delete("amount = 5")
customers.delete("id = 2")
assert mill.catch_up(timeout=60)
assert mill.flush(timeout=60)
assert mill["revenue"].rows() == [("ann", 10)]
expected = [{"name": "ann", "revenue": 10}]
assert pa.table(DeltaTable(str(folder / "revenue")).to_pyarrow_table()).to_pylist() == expected
assert catalog.load_table("shop.revenue").scan().to_arrow().to_pylist() == expected
print(mill["revenue"].rows())
mill.close()
catalog.close()

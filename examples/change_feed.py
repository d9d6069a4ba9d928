"""Feed a view from change rows and pass its own changes on."""

import pyarrow as pa

import viewmill as vm

mill = vm.connect()
mill.sql("CREATE TABLE stock (sku STRING, shelf INT, pieces BIGINT)")
mill.sql("CREATE MATERIALIZED VIEW totals AS SELECT sku, SUM(pieces) AS n FROM stock GROUP BY sku")

passed_on: list[vm.Change] = []
mill["totals"].subscribe(passed_on.append)

feed = pa.table(
    {
        "sku": ["tea", "jam", "tea", "tea"],
        "shelf": [1, 1, 2, 2],
        "pieces": [10, 4, 5, 5],
        "_change_type": ["insert", "insert", "insert", "delete"],
    }
)
mill.apply("stock", feed, change="_change_type")
mill.apply(
    "stock",
    [
        {"sku": "tea", "shelf": 1, "pieces": 10, "_change_type": "update_preimage"},
        {"sku": "tea", "shelf": 1, "pieces": 9, "_change_type": "update_postimage"},
    ],
    change="_change_type",
)
assert sorted(mill["totals"].rows()) == [("jam", 4), ("tea", 9)]
assert len(passed_on) == 2
print(mill["totals"].rows())

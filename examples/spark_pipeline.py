"""A Spark pipeline, end to end on files: growing directories in, a fresh table out.

Needs `pip install 'viewmill[spark]'`; Java comes with it when the machine has none.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

import viewmill as vm

SCHEMA = "id BIGINT, customer STRING, amount DECIMAL(12,2), op STRING, _corrupt_record STRING"

with TemporaryDirectory() as folder:
    root = Path(folder)
    (root / "orders").mkdir()
    spark = vm.spark.session()

    def pipeline() -> vm.Pipeline:
        """The same program on the first day and after every restart."""
        pipe = vm.Pipeline(spark, storage=root / "storage")
        orders = spark.readStream.schema(SCHEMA).option("header", "true").csv(str(root / "orders"))
        regions = spark.sql("VALUES ('ann', 'north'), ('bob', 'south')")
        pipe.source("orders", orders, change="op")
        pipe.source("regions", regions.toDF("customer", "region"))

        @pipe.materialized_view(name="revenue")
        def revenue() -> str:
            return """
                SELECT region, SUM(amount) AS revenue, COUNT(*) AS orders
                FROM orders JOIN regions USING (customer) GROUP BY region"""

        pipe.sink("revenue", path=root / "out" / "revenue")
        pipe.sink("revenue", path=root / "out" / "changes", mode="changes")
        return pipe

    (root / "orders" / "monday.csv").write_text(
        "id,customer,amount,op\n1,ann,10.00,insert\n2,bob,5.50,insert\n3,ann,oops,insert\n"
    )
    with pipeline() as pipe:
        pipe.run_once()
        print(pipe["revenue"])
        # The row that Spark could not read did not stop the stream.
        print(pipe.dead_letters())

    (root / "orders" / "tuesday.csv").write_text(
        "id,customer,amount,op\n1,ann,10.00,delete\n4,ann,12.00,insert\n"
    )
    with pipeline() as pipe:  # as after a restart: only Tuesday's file is read
        status = pipe.run_once().status()
        print(f"{status['rows_in']} rows in, {status['views']['revenue']['strategy']}")

    # Any engine reads the result: the visible files of the directory are one version.
    for row in pq.read_table(root / "out" / "revenue").to_pylist():
        print(row)
    spark.stop()

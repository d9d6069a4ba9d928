"""A process that writes batches over two tables and says which of them were acknowledged.

Run as `python writer.py DIRECTORY`; `batch` and `state` are also what the test compares with.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import viewmill as vm

Row = tuple[Any, ...]
KEYS = ("ann", "bob", "cy", None)


def create(mill: vm.Mill) -> None:
    mill.sql(
        "CREATE TABLE orders (id INT NOT NULL, customer STRING, amount BIGINT, PRIMARY KEY (id))"
    )
    mill.sql("CREATE TABLE lines (order_id INT, text STRING) UNCHECKED")
    mill.sql(
        "CREATE MATERIALIZED VIEW revenue AS "
        "SELECT customer, SUM(amount) AS s, COUNT(*) AS n FROM orders GROUP BY customer"
    )
    mill.sql(
        "CREATE MATERIALIZED VIEW joined REFRESH POLICY FULL AS "
        "SELECT o.customer, COUNT(*) AS n FROM orders o "
        "JOIN lines l ON o.id = l.order_id GROUP BY o.customer"
    )
    mill.sql(
        "CREATE MATERIALIZED VIEW last AS SELECT COUNT(*) AS n FROM lines WHERE text = 'batch'"
    )


def order(i: int) -> Row:
    return (i, KEYS[i % 4], (i * 37) % 1000 - 500)


def changed(i: int) -> Row:
    return (i, KEYS[(i + 1) % 4], i)


def line(i: int) -> Row:
    return (i, "batch")


def write(mill: vm.Mill, i: int) -> None:
    """Batch i: an order and a line come; sometimes an order is replaced, sometimes one goes."""
    with mill.batch():
        mill.insert("orders", [order(i)])
        mill.insert("lines", [line(i)])
        if i % 3 == 0 and i >= 3:
            mill.upsert("orders", [changed(i - 1)])
        if i % 5 == 0 and i >= 10:
            mill.delete("orders", [state_of(i - 5, i - 1)])
            mill.apply("lines", [(i, "extra", 2), (i - 5, "batch", 0)], multiplicity="m")


def state_of(id_: int, after: int) -> Row:
    """How order `id_` stands after a batch."""
    return changed(id_) if (id_ + 1) % 3 == 0 and id_ + 1 <= after and id_ + 1 >= 3 else order(id_)


def state(n: int) -> tuple[list[Row], list[Row]]:
    """The rows of both tables after batches 1 to n."""
    gone = {i - 5 for i in range(10, n + 1) if i % 5 == 0}
    orders = [state_of(i, n) for i in range(1, n + 1) if i not in gone]
    extra = [(i, "extra") for i in range(10, n + 1) if i % 5 == 0 for _ in range(2)]
    return orders, [line(i) for i in range(1, n + 1)] + extra


def main() -> None:
    mill = vm.connect(sys.argv[1])
    if "last" not in mill:
        for name in mill.tables() + mill.views():  # a kill between the statements of `create`
            assert name in ("orders", "lines", "revenue", "joined")
        if not mill.tables():
            create(mill)
        else:
            finish(mill)
    ((done,),) = mill["last"].rows()
    os.write(1, b"ready\n")
    i = done
    while True:
        i += 1
        write(mill, i)
        os.write(1, b"%d\n" % i)
        if i % 40 == 0:
            mill.checkpoint()


def finish(mill: vm.Mill) -> None:
    """Create what a kill left out."""
    for name in reversed(mill.views()):
        mill.sql(f"DROP MATERIALIZED VIEW {name}")
    for name in mill.tables():
        mill.sql(f"DROP TABLE {name}")
    create(mill)


if __name__ == "__main__":
    main()

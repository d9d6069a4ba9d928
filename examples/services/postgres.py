"""Follow a table of PostgreSQL, and write a view back: `make services` starts a server for it."""

import os

import psycopg
import sqlalchemy

import viewmill as vm

DSN = os.environ["VIEWMILL_POSTGRES"]
shop = psycopg.connect(DSN, autocommit=True)
shop.execute("DROP TABLE IF EXISTS orders, revenue, _viewmill_versions")
shop.execute("CREATE TABLE orders (id INT PRIMARY KEY, customer TEXT, amount INT)")
shop.execute("INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 5)")

mill = vm.connect()
mill.follow("orders", vm.sources.postgres(DSN, "orders"))
mill.sql(
    "CREATE MATERIALIZED VIEW revenue AS "
    "SELECT customer, SUM(amount) AS revenue FROM orders GROUP BY customer"
)
target = sqlalchemy.create_engine(DSN.replace("postgresql://", "postgresql+psycopg://"))
mill.sink("revenue", vm.sinks.sqlalchemy(target, "revenue", key="customer"))

with shop.transaction():
    shop.execute("UPDATE orders SET amount = 7 WHERE id = 2")
    shop.execute("DELETE FROM orders WHERE id = 1")
assert mill.catch_up(timeout=30)
assert mill.flush(timeout=30)
shown = shop.execute("SELECT customer, revenue FROM revenue").fetchall()
assert shown == [("bob", 7)], shown
print(shown)

mill.unfollow("orders")
mill.close()
target.dispose()
shop.close()

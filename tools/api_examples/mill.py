import viewmill as vm

with vm.connect() as mill:
    mill.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount BIGINT, PRIMARY KEY (id))")
    mill.sql("""
        CREATE MATERIALIZED VIEW revenue AS
        SELECT customer, SUM(amount) AS revenue FROM orders GROUP BY customer
    """)
    mill.insert("orders", [(1, "ann", 10), (2, "bob", 7)])
    with mill.batch():
        mill.upsert("orders", [(1, "ann", 11)])
        mill.delete("orders", [(2, "bob", 7)])
    assert mill["revenue"].rows() == [("ann", 11)]
    assert mill.status()["views"]["revenue"]["freshness"] == "fresh"

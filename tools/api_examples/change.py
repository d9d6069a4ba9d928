import viewmill as vm

with vm.connect() as mill:
    mill.sql("CREATE TABLE t (x BIGINT)")
    mill.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(x) AS x FROM t")
    mill.insert("t", [(1,)])
    seen: list[vm.Change] = []
    mill["total"].subscribe(seen.append)
    mill.insert("t", [(5,)])
    (change,) = seen
    assert change.inserted == [(6,)]
    assert change.deleted == [(1,)]

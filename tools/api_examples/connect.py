import viewmill as vm

with vm.connect() as mill:  # in memory; vm.connect("orders.mill") is durable
    mill.sql("CREATE TABLE t (x BIGINT)")
    mill.insert("t", [(1,), (2,)])
    assert mill.sql("SELECT sum(x) AS x FROM t").rows() == [(3,)]

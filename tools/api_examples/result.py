import viewmill as vm

with vm.connect() as mill:
    mill.sql("CREATE TABLE t (x BIGINT)")
    mill.insert("t", [(1,), (2,)])
    result = mill.sql("SELECT x FROM t ORDER BY x DESC")
    assert result.rows() == [(2,), (1,)]
    assert result.to_arrow().column_names == ["x"]

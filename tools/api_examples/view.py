import viewmill as vm

with vm.connect() as mill:
    mill.sql("CREATE TABLE t (k STRING, x BIGINT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, max(x) AS x FROM t GROUP BY k")
    view = mill["v"]
    seen: list[vm.Change] = []
    view.subscribe(seen.append)
    mill.insert("t", [("a", 1), ("a", 5)])
    assert view.rows() == [("a", 5)]
    assert view.verify() == []
    assert len(seen) == 1  # one change per refresh
    print(view.explain())

"""Nested aggregates over UNCHECKED tables, where deletes come before their inserts."""

import random

import pytest

import viewmill as vm

CONDITIONS = {
    "share": "(SELECT 0.25 * sum(b1.v) FROM b b1) < (SELECT sum(b2.v) FROM b b2 WHERE b2.p <= b.p)",
    "keyed": "v > (SELECT avg(b2.v) FROM b b2 WHERE b2.t = b.t)",
    "both": "(SELECT sum(b1.v) FROM b b1 WHERE b1.p <= b.p AND b1.t = b.t)"
    " < (SELECT 0.5 * sum(b2.v) FROM b b2 WHERE b2.t = b.t)",
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_it_equals_recompute_when_nothing_is_owed(uncompiled, condition):
    pick, mill = random.Random(11), vm.connect()
    mill.sql("CREATE TABLE b (t INT, p INT, v INT) UNCHECKED")
    mill.sql(f"""CREATE MATERIALIZED VIEW q REFRESH POLICY INCREMENTAL STRICT AS
        SELECT sum(p * v) AS s FROM b WHERE {condition}""")
    for _ in range(6):
        rows = [(pick.randrange(4), pick.randrange(6), pick.randrange(1, 5)) for _ in range(8)]
        owed, more = rows[:3], rows[3:]
        mill.delete("b", owed)
        mill.insert("b", more)
        mill.insert("b", owed)
        assert mill["q"].verify() == []

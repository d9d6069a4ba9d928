"""BINARY, STRUCT and ARRAY values as keys: groups, joins, DISTINCT, filters, kept by triggers."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import viewmill as vm

_COLUMNS = (
    "a INT, b BINARY, s STRUCT<x: DECIMAL(38,2), `y z`: STRING>, l ARRAY<INT>, "
    "p ARRAY<STRUCT<q: DATE, w: ARRAY<DECIMAL(5,2)>>>"
)
_DAY = dt.date(2024, 2, 29)
_CHOICES: tuple[list[object], ...] = (
    [0, 1, 2],
    [None, b"", b"\x00", b"\xff"],
    [None, {"x": Decimal("1.5"), "y z": "é"}, {"x": Decimal("1.50"), "y z": "é"},
     {"x": None, "y z": None}],
    [None, [], [1], [None], [1, 2], [2, 1]],
    [None, [], [None], [{"q": _DAY, "w": [Decimal("1.5")]}], [{"q": _DAY, "w": [Decimal("1.50")]}]],
)  # fmt: skip
_QUERIES = (
    "SELECT b, s, count(*) AS n, sum(a) AS t, max(a) AS x FROM r GROUP BY b, s",
    "SELECT DISTINCT l, p FROM r",
    "SELECT a, count(DISTINCT p) AS n FROM r GROUP BY a",
    "SELECT r.a, t.p FROM r JOIN t ON r.s = t.s",
    "SELECT r.p, t.a FROM r FULL JOIN t ON r.l = t.l AND r.b = t.b",
    "SELECT a FROM r WHERE l NOT IN (SELECT l FROM t WHERE l IS NOT NULL)",
    "SELECT s FROM r EXCEPT ALL SELECT s FROM t",
    "SELECT array(a) AS l, count(*) AS n FROM r GROUP BY 1 UNION SELECT l, a FROM t",
    "SELECT a FROM r WHERE s = named_struct('x', CAST(1.5 AS DECIMAL(38,2)), 'y z', 'é')",
    "SELECT greatest(b, X'00') AS g, l <=> array(1) AS e FROM r WHERE b > X'' OR b IS NULL",
)


@pytest.fixture
def mill(uncompiled):
    with vm.connect() as mill:
        mill.sql(f"CREATE TABLE r ({_COLUMNS})")
        mill.sql(f"CREATE TABLE t ({_COLUMNS})")
        yield mill


def create(mill, name, query):
    mill.sql(f"CREATE MATERIALIZED VIEW {name} REFRESH POLICY INCREMENTAL STRICT AS {query}")


def test_nested_keys_are_kept_up_to_date_under_inserts_and_deletes(mill):
    names = [f"v{i}" for i in range(len(_QUERIES))]
    for name, query in zip(names, _QUERIES, strict=True):
        create(mill, name, query)
    draw = random.Random(5)
    rows: dict[str, list[tuple[object, ...]]] = {"r": [], "t": []}
    for _ in range(4):
        for table, known in rows.items():
            new = [tuple(map(draw.choice, _CHOICES)) for _ in range(5)]
            gone = [known.pop(draw.randrange(len(known))) for _ in range(min(3, len(known)))]
            known += new
            mill.insert(table, new)
            mill.delete(table, gone)
    assert [mill[name].verify() for name in names] == [[]] * len(names)
    assert sum(bool(mill[name].rows()) for name in names) > 7


def test_values_are_one_key_however_they_come(mill):
    create(mill, "v", "SELECT b, s, l, count(*) AS n FROM r GROUP BY b, s, l")
    mill.insert("r", [(1, b"x", {"x": Decimal("1.5"), "y z": "k"}, [1, 2], None)])
    mill.insert(
        "r", [(1, bytearray(b"x"), (Decimal("1.50"), np.str_("k")), np.array([1, 2]), None)]
    )
    type_ = pa.struct([("y z", pa.large_string()), ("x", pa.decimal128(20, 1))])
    given = {"a": [1], "b": [b"x"], "s": pa.array([{"x": Decimal("1.5"), "y z": "k"}], type_)}
    mill.insert("r", pa.table(given | {"l": pa.array([[1, 2]], pa.large_list(pa.int64()))}))
    mill.sql(
        "INSERT INTO r VALUES (1, X'78', named_struct('x', 1.5, 'y z', 'k'), array(1, 2), NULL)"
    )
    assert mill["v"].rows() == [(b"x", {"x": Decimal("1.50"), "y z": "k"}, [1, 2], 4)]


def test_maps_are_carried_through_joins_but_are_no_keys(uncompiled):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (a INT, m MAP<STRING, INT>)")
        create(mill, "v", "SELECT x.m, y.m AS o FROM r x LEFT JOIN r y ON x.a = y.a + 1")
        mill.insert("r", [(1, {"k": 1, "l": 2}), (2, {"l": 2, "k": 1}), (2, None)])
        mill.delete("r", [(2, None)])
        assert mill["v"].verify() == []
        assert len(mill["v"].rows()) == 2
        with pytest.raises(vm.errors.UnsupportedQuery):
            create(mill, "w", "SELECT m, count(*) AS n FROM r GROUP BY m")


def test_zeros_of_either_sign_in_arrays_are_no_keys(uncompiled):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (a INT, d ARRAY<DOUBLE>)")
        with pytest.raises(vm.errors.UnsupportedQuery):
            create(mill, "w", "SELECT d, count(*) AS n FROM r GROUP BY d")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT d, count(*) AS n FROM r GROUP BY d")
        mill.insert("r", [(1, [0.0]), (2, [-0.0])])
        assert [row[1] for row in mill["v"].rows()] == [2]

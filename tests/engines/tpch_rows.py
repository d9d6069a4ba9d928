"""A few hundred random rows for TPC-H, from domains so small that its queries find some."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.sql.test_lower import tpch_catalog

from viewmill.algebra.schema import Field
from viewmill.bench.tpch import queries as tpch
from viewmill.deltas.arrow import arrow_schema

_COUNTS = {
    "region": 3, "nation": 5, "supplier": 6, "customer": 8, "part": 8, "partsupp": 40,
    "orders": 60, "lineitem": 400,
}  # fmt: skip
_KEYS = {
    "regionkey": 3, "nationkey": 5, "suppkey": 6, "custkey": 8, "partkey": 8, "orderkey": 60,
}  # fmt: skip
_WORDS = {
    "r_name": ["EUROPE", "ASIA", "AMERICA"],
    "n_name": ["GERMANY", "FRANCE", "SAUDI ARABIA", "BRAZIL", "CANADA"],
    "c_mktsegment": ["BUILDING", "AUTOMOBILE"],
    "p_type": ["LARGE BRASS", "ECONOMY ANODIZED STEEL", "PROMO STEEL", "MEDIUM POLISHED TIN"],
    "p_brand": ["Brand#12", "Brand#23", "Brand#34", "Brand#45"],
    "p_container": ["SM CASE", "MED BOX", "MED BAG", "JUMBO PKG", "LG CASE"],
    "p_name": ["green forest", "forest lime", "lime"],
    "l_shipmode": ["MAIL", "SHIP", "AIR", "AIR REG"],
    "l_shipinstruct": ["DELIVER IN PERSON", "NONE"],
    "l_returnflag": ["R", "A"],
    "l_linestatus": ["O", "F"],
    "o_orderstatus": ["F", "O"],
    "o_orderpriority": ["1-URGENT", "2-HIGH", "5-LOW"],
    "o_comment": ["special requests", "nothing"],
    "s_comment": ["Customer slept Complaints", "fine"],
}


def small_tables(seed: int = 7) -> dict[str, pa.Table]:
    """Every table of TPC-H."""
    chance, catalog, tables = random.Random(seed), tpch_catalog(), {}
    for name in tpch.TABLES:
        schema = catalog.find(name)
        rows = [{f.name: _value(f, chance) for f in schema} for _ in range(_COUNTS[name])]
        if name in ("region", "nation", "supplier", "customer", "part", "orders"):
            for i, row in enumerate(rows):
                row[schema.names[0]] = i  # the primary key
        tables[name] = pa.Table.from_pylist(rows, schema=arrow_schema(schema))
    return tables


def _value(field: Field, chance: random.Random) -> Any:
    name, type_ = field.name, str(field.type)
    if name in _WORDS:
        return chance.choice(_WORDS[name])
    if name.endswith("key"):
        return chance.randrange(_KEYS[name.split("_")[1]])
    if name.endswith("phone"):
        return chance.choice(["13", "31", "23", "29", "99"]) + "-123"
    if name == "p_size":
        return chance.choice([1, 5, 15, 49, 14, 23])
    if name in ("l_discount", "l_tax"):
        return Decimal(chance.randrange(11)).scaleb(-2)
    if type_ == "DATE":
        return dt.date(1993, 1, 1) + dt.timedelta(chance.randrange(2000))
    if type_.startswith("DECIMAL"):
        return Decimal(chance.randrange(100, 500_000)).scaleb(-2)
    return chance.randrange(50) if type_ in ("INT", "BIGINT") else chance.choice(["a", "bb"])

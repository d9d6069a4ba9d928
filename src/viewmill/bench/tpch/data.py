"""Rows of TPC-H at any scale, from a seed: our own generator, with dbgen's domains and ratios.

takes  a scale (1 is six million line items) and a seed
gives  Arrow tables, new orders with their line items, and rows to delete

The values are not dbgen's own, but drawn as the specification says: keys with gaps that new orders
fill, a third of the customers without orders, prices and states that depend on one another.
`focus` draws that share of the values from those that the 22 queries ask for, so that a few hundred
rows give every query something to find.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from viewmill.bench.tpch import words

Ints = npt.NDArray[np.int64]

_FIRST_DAY = (dt.date(1992, 1, 1) - dt.date(1970, 1, 1)).days
_LAST_DAY = (dt.date(1998, 8, 2) - dt.date(1970, 1, 1)).days
_TODAY = (dt.date(1995, 6, 17) - dt.date(1970, 1, 1)).days

# What the queries ask for.
_ASKED_NATIONS = (2, 3, 6, 7, 8, 20)  # BRAZIL, CANADA, FRANCE, GERMANY, INDIA, SAUDI ARABIA
_ASKED_BRANDS = ("Brand#12", "Brand#23", "Brand#34", "Brand#45")
_ASKED_CONTAINERS = ("SM CASE", "MED BOX", "LG CASE")
_ASKED_TYPES = ("ECONOMY ANODIZED STEEL", "PROMO PLATED TIN", "LARGE PLATED BRASS",
                "MEDIUM POLISHED TIN")  # fmt: skip
_ASKED_SIZES = (15, 49, 14, 3, 5)
_ASKED_DAYS = ("1993-07-20", "1993-10-10", "1994-03-03", "1995-01-10", "1995-03-10", "1995-08-20",
               "1996-01-20")  # fmt: skip


class TpchData:
    """The rows of all tables, drawn one after another from one source of chance."""

    def __init__(self, scale: float, seed: int, focus: float = 0.0) -> None:
        self._random = np.random.default_rng(seed)
        self._focus = focus
        self.counts = {
            "supplier": max(int(10_000 * scale), 30),
            "customer": max(int(150_000 * scale), 30),
            "part": max(int(200_000 * scale), 40),
            "orders": max(int(1_500_000 * scale), 10),
        }
        self._next_order = self.counts["orders"]

    def tables(self) -> dict[str, pa.Table]:
        """What is loaded first: every table."""
        made = {
            "region": self._region(),
            "nation": self._nation(),
            "supplier": self._supplier(),
            "customer": self._customer(),
            "part": self._part(),
            "partsupp": self._partsupp(),
        }
        orders, lines = self._orders(self._order_keys(np.arange(self.counts["orders"])))
        return {**made, "orders": orders, "lineitem": lines}

    def new_orders(self, count: int) -> tuple[pa.Table, pa.Table]:
        """Refresh function 1: new orders and their line items."""
        start, self._next_order = self._next_order, self._next_order + count
        loaded, turn = self.counts["orders"], start // self.counts["orders"]
        # dbgen leaves 24 of 32 keys free; each round of new orders takes the next ones.
        return self._orders(self._order_keys(np.arange(start, start + count) % loaded) + 8 * turn)

    def old_orders(
        self, orders: pa.Table, lines: pa.Table, count: int
    ) -> tuple[pa.Table, pa.Table]:
        """Refresh function 2: some orders of a table and their line items, to be deleted."""
        gone = orders.take(self.some(orders.num_rows, count))
        theirs = pc.is_in(lines["l_orderkey"], value_set=gone["o_orderkey"].combine_chunks())
        return gone, lines.filter(theirs)

    def some(self, rows: int, count: int) -> Ints:
        """Positions of rows, drawn without repetition."""
        return np.sort(self._random.choice(rows, min(count, rows), replace=False))

    @staticmethod
    def _order_keys(numbers: Ints) -> Ints:
        return (numbers >> 3 << 5) + (numbers & 7) + 1

    # Columns.

    def _ints(self, low: int, high: int, count: int) -> Ints:
        return self._random.integers(low, high, count, endpoint=True)

    def _pick(self, values: Sequence[Any], count: int, asked: Sequence[Any] = ()) -> Any:
        """Values drawn evenly; a share of `focus` from those that are asked for."""
        drawn = pa.array(values).take(pa.array(self._ints(0, len(values) - 1, count)))
        if not self._focus or not asked:
            return drawn
        wanted = pa.array(asked).take(pa.array(self._ints(0, len(asked) - 1, count)))
        return pc.if_else(pa.array(self._random.random(count) < self._focus), wanted, drawn)

    def _join(self, *parts: Any, by: str = " ") -> Any:
        return pc.binary_join_element_wise(*parts, by)

    def _comment(self, count: int) -> Any:
        lists = (words.ADJECTIVES, words.NOUNS, words.VERBS, words.ADJECTIVES, words.NOUNS)
        return self._join(*(self._pick(each, count) for each in lists))

    def _comment_with(self, count: int, share: float, text: str) -> Any:
        marked = pa.array(self._random.random(count) < max(share, self._focus / 4))
        return pc.if_else(
            marked, self._join(self._comment(count), pa.scalar(text)), self._comment(count)
        )

    def _money(self, low: float, high: float, count: int) -> Any:
        return _decimals(self._ints(round(low * 100), round(high * 100), count))

    def _address(self, count: int) -> Any:
        street = pc.cast(pa.array(self._ints(1, 99_999, count)), pa.string())
        return self._join(street, self._pick(words.COLORS, count), self._pick(words.NOUNS, count))

    def _nations(self, count: int) -> Any:
        return self._pick(range(25), count, _ASKED_NATIONS).cast(pa.int32())

    def _phone(self, nations: Any) -> Any:
        parts = [nations.to_numpy() + 10]
        parts += [
            self._ints(low, high, len(nations))
            for low, high in ((100, 999), (100, 999), (1000, 9999))
        ]
        texts = (pc.cast(pa.array(each), pa.string()) for each in parts)
        return self._join(*texts, by="-")

    # Tables.

    def _region(self) -> pa.Table:
        count = len(words.REGIONS)
        keys = pa.array(range(count), pa.int32())
        return _table(r_regionkey=keys, r_name=list(words.REGIONS), r_comment=self._comment(count))

    def _nation(self) -> pa.Table:
        names, regions = zip(*words.NATIONS, strict=True)
        return _table(
            n_nationkey=pa.array(range(25), pa.int32()),
            n_name=list(names),
            n_regionkey=pa.array(regions, pa.int32()),
            n_comment=self._comment(25),
        )

    def _supplier(self) -> pa.Table:
        count = self.counts["supplier"]
        keys, nations = np.arange(1, count + 1), self._nations(count)
        return _table(
            s_suppkey=keys,
            s_name=_numbered("Supplier", keys),
            s_address=self._address(count),
            s_nationkey=nations,
            s_phone=self._phone(nations),
            s_acctbal=self._money(-999.99, 9999.99, count),
            s_comment=self._comment_with(count, 0.0005, "Customer slept Complaints"),
        )

    def _customer(self) -> pa.Table:
        count = self.counts["customer"]
        keys, nations = np.arange(1, count + 1), self._nations(count)
        return _table(
            c_custkey=keys,
            c_name=_numbered("Customer", keys),
            c_address=self._address(count),
            c_nationkey=nations,
            c_phone=self._phone(nations),
            c_acctbal=self._money(-999.99, 9999.99, count),
            c_mktsegment=self._pick(words.SEGMENTS, count, ("BUILDING",)),
            c_comment=self._comment(count),
        )

    def _part(self) -> pa.Table:
        count = self.counts["part"]
        keys = np.arange(1, count + 1)
        brands = self._pick(words.BRANDS, count, _ASKED_BRANDS)
        colors = [self._pick(words.COLORS, count, each) for each in (("forest",), ("green",), ())]
        return _table(
            p_partkey=keys,
            p_name=self._join(*colors),
            p_mfgr=self._join(pa.scalar("Manufacturer#"), pc.utf8_slice_codeunits(brands, 6, 7),
                              by=""),
            p_brand=brands,
            p_type=self._pick(words.TYPES, count, _ASKED_TYPES),
            p_size=self._pick(range(1, 51), count, _ASKED_SIZES).cast(pa.int32()),
            p_container=self._pick(words.CONTAINERS, count, _ASKED_CONTAINERS),
            p_retailprice=_decimals(_retail_prices(keys)),
            p_comment=self._comment(count),
        )  # fmt: skip

    def _partsupp(self) -> pa.Table:
        parts = np.repeat(np.arange(1, self.counts["part"] + 1), 4)
        count = len(parts)
        return _table(
            ps_partkey=parts,
            ps_suppkey=self._supplier_of(parts, np.tile(np.arange(4), count // 4)),
            ps_availqty=pa.array(self._ints(1, 9999, count).astype(np.int32)),
            ps_supplycost=self._money(1, 1000, count),
            ps_comment=self._comment(count),
        )

    def _supplier_of(self, parts: Ints, which: Ints) -> Ints:
        """One of the four suppliers of each part."""
        count = self.counts["supplier"]
        found: Ints = (parts + which * (count // 4 + (parts - 1) // count)) % count + 1
        return found

    def _orders(self, keys: Ints) -> tuple[pa.Table, pa.Table]:
        """Orders with these keys, and one to seven line items for each."""
        count = len(keys)
        days = self._order_days(count)
        lines = self._random.integers(1, 7, count, endpoint=True)
        items, of_line = self._lines(keys, days, lines)
        charged = _per_order(of_line, count, items["price"])
        shipped = _per_order(of_line, count, items["is_shipped"].astype(np.int64))
        status = np.where(shipped == lines, 0, np.where(shipped == 0, 1, 2))
        customers = self._ints(1, self.counts["customer"], count)
        customers -= customers % 3 == 0  # every third one never orders
        clerks = self._ints(1, max(self.counts["orders"] // 1500, 1), count)
        orders = _table(
            o_orderkey=keys,
            o_custkey=customers,
            o_orderstatus=pa.array(("F", "O", "P")).take(pa.array(status)),
            o_totalprice=_decimals(charged),
            o_orderdate=_dates(days),
            o_orderpriority=self._pick(words.PRIORITIES, count),
            o_clerk=_numbered("Clerk", clerks),
            o_shippriority=pa.array(np.zeros(count, np.int32)),
            o_comment=self._comment_with(count, 0.01, "special packages requests"),
        )
        return orders, items["table"]

    def _order_days(self, count: int) -> Ints:
        days = self._ints(_FIRST_DAY, _LAST_DAY - 151, count)
        if self._focus:
            asked = np.array(_ASKED_DAYS, "datetime64[D]").astype(np.int64)
            wanted = asked[self._ints(0, len(asked) - 1, count)]
            days = np.where(self._random.random(count) < self._focus, wanted, days)
        return days

    def _lines(self, keys: Ints, days: Ints, lines: Ints) -> tuple[dict[str, Any], Ints]:
        of_line = np.repeat(np.arange(len(keys)), lines)
        count = len(of_line)
        number = np.arange(count) - np.repeat(np.cumsum(lines) - lines, lines) + 1
        parts = self._ints(1, self.counts["part"], count)
        quantity = self._ints(1, 50, count)
        if self._focus:  # some orders of more than 300 pieces (Q18)
            is_large = (self._random.random(len(keys)) < self._focus / 4)[of_line]
            quantity = np.where(is_large, self._ints(44, 50, count), quantity)
        discount, tax = self._ints(0, 10, count), self._ints(0, 8, count)
        price = quantity * _retail_prices(parts)
        shipped = days[of_line] + self._ints(1, 121, count)
        due = days[of_line] + self._ints(30, 90, count)
        received = shipped + self._ints(1, 30, count)
        came, is_shipped = received <= _TODAY, shipped <= _TODAY
        returned = np.where(came, self._ints(0, 1, count), 2)
        table = _table(
            l_orderkey=keys[of_line],
            l_partkey=parts,
            l_suppkey=self._supplier_of(parts, self._ints(0, 3, count)),
            l_linenumber=pa.array(number.astype(np.int32)),
            l_quantity=_decimals(quantity * 100),
            l_extendedprice=_decimals(price),
            l_discount=_decimals(discount),
            l_tax=_decimals(tax),
            l_returnflag=pa.array(("R", "A", "N")).take(pa.array(returned)),
            l_linestatus=pa.array(("O", "F")).take(pa.array(is_shipped.astype(np.int64))),
            l_shipdate=_dates(shipped),
            l_commitdate=_dates(due),
            l_receiptdate=_dates(received),
            l_shipinstruct=self._pick(words.INSTRUCTIONS, count, ("DELIVER IN PERSON",)),
            l_shipmode=self._pick(words.MODES, count, ("AIR", "MAIL")),
            l_comment=self._comment(count),
        )
        charged = price * (100 + tax) * (100 - discount) // 10_000
        return {"table": table, "price": charged, "is_shipped": is_shipped}, of_line


def _table(**columns: Any) -> pa.Table:
    return pa.table(columns)


def _retail_prices(parts: Ints) -> Ints:
    """In cents, as clause 4.2.3 computes them."""
    return 90_000 + (parts // 10) % 20_001 + 100 * (parts % 1_000)


def _per_order(of_line: Ints, orders: int, values: Ints) -> Ints:
    return np.bincount(of_line, weights=values, minlength=orders).astype(np.int64)


def _numbered(word: str, numbers: Ints) -> Any:
    padded = pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), 9, "0")
    return pc.binary_join_element_wise(pa.scalar(word), padded, "#")


def _dates(days: Ints) -> Any:
    return pa.array(days.astype(np.int32)).view(pa.date32())


def _decimals(cents: Ints) -> Any:
    """DECIMAL(12,2) from hundredths."""
    limbs = np.empty((len(cents), 2), np.int64)
    limbs[:, 0], limbs[:, 1] = cents, cents >> 63
    return pa.Array.from_buffers(pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(limbs)])

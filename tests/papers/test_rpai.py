"""The queries of the RPAI paper (sections 2 and 5.2.1) against loops over lists.

The loops say what SQL means and share no code with Viewmill. Every view must keep up without
asking the engine, whatever plan it takes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

import pytest

import viewmill as vm

Row = tuple[int, int | None, Decimal | None]  # broker, volume, price
Rows = list[Row]
Book = dict[str, Rows]
Answer = Callable[[Book], Counter[tuple[object, ...]]]

ORDERS = "broker INT NOT NULL, volume BIGINT, price DECIMAL(6,1)"
S = "(SELECT sum(s.volume) FROM bids s)"
_MISSED = (
    "{shown}sum(a.price * a.volume - b.price * b.volume) AS missed FROM bids b, asks a WHERE "
    "0.25 * (SELECT sum(x.volume) FROM asks x) > {above_a} AND 0.25 * {s} > {above_b}{group}"
)
_ABOVE = "(SELECT sum(y.volume) FROM {table} y WHERE y.price > {alias}.price)"


def mst(*, coalesce: bool, by_broker: bool) -> str:
    above = [_ABOVE.format(table=t, alias=t[0]) for t in ("asks", "bids")]
    if coalesce:
        above = [f"coalesce({each}, 0)" for each in above]
    shown, group = ("b.broker, ", " GROUP BY b.broker") if by_broker else ("", "")
    text = _MISSED.format(shown=shown, s=S, above_a=above[0], above_b=above[1], group=group)
    return f"SELECT {text}"


MONEY = "SELECT sum(b.price * b.volume) AS money FROM bids b WHERE "
QUERIES = {
    "example 2.1": f"{MONEY} 0.5 * {S} = "
    "(SELECT sum(x.volume) FROM bids x WHERE x.price = b.price)",
    "vwap": f"{MONEY} 0.75 * {S} < (SELECT sum(x.volume) FROM bids x WHERE x.price <= b.price)",
    "mst": mst(coalesce=False, by_broker=False),
    "mst, coalesce": mst(coalesce=True, by_broker=False),
    "mst by broker": mst(coalesce=True, by_broker=True),
    "psp": "SELECT sum(a.price - b.price) AS spread FROM bids b, asks a WHERE "
    f"b.volume > 0.1 * {S} AND a.volume > 0.1 * (SELECT sum(x.volume) FROM asks x)",
    "sq1": f"{MONEY} 0.75 * (SELECT sum(y.volume) FROM bids y WHERE y.volume <= b.volume) < "
    "(SELECT sum(x.volume) FROM bids x WHERE x.price <= b.price)",
    "sq2": f"{MONEY} 0.75 * {S} < "
    "(SELECT sum(x.volume) FROM bids x WHERE x.price + x.volume <= 2 * b.price)",
    "nq1": f"{MONEY} 0.75 * {S} < (SELECT sum(x.volume) FROM bids x WHERE x.price <= b.price "
    "AND 0.75 * (SELECT sum(t.volume) FROM bids t) < "
    "(SELECT sum(z.volume) FROM bids z WHERE z.price <= x.price))",
    "nq2": f"{MONEY} 0.75 * {S} < (SELECT sum(x.volume) FROM bids x WHERE x.price <= b.price "
    "AND 0.75 * (SELECT sum(t.volume) FROM bids t) < "
    "(SELECT sum(z.volume) FROM bids z WHERE z.price <= x.price AND z.volume <= b.volume))",
}
PLANS = {
    "example 2.1": "aggregate index over b: groups of price",
    "vwap": "aggregate index over b: levels of price",
    "mst": "aggregate index over b: levels of price",
    "mst, coalesce": "aggregate index over b: levels of price",
    "mst by broker": "aggregate index over b: levels of price",
    "psp": "aggregate index over b: ordered by volume",
    "sq1": "general algorithm",
    "sq2": "aggregate index over b: levels of CAST(2 * price",
    "nq1": "aggregate index over b: levels of price",
    "nq2": "general algorithm",
}


# What SQL means, by loops.


def total(values: list[Decimal]) -> Decimal | None:
    return sum(values, Decimal(0)) if values else None


def volume_of(rows: Rows) -> Decimal | None:
    return total([Decimal(row[1]) for row in rows if row[1] is not None])


def less(x: Decimal | None, y: Decimal | None) -> bool:
    return x is not None and y is not None and x < y


def no_more(x: Decimal | None, y: Decimal | None) -> bool:
    return x is not None and y is not None and x <= y


def part(share: str, value: Decimal | None) -> Decimal | None:
    return None if value is None else Decimal(share) * value


def cheaper(rows: Rows, than: Row) -> Rows:
    return [row for row in rows if no_more(row[2], than[2])]


def number(x: int | None) -> Decimal | None:
    return None if x is None else Decimal(x)


def money(rows: Rows) -> Decimal | None:
    return total([p * v for _, v, p in rows if p is not None and v is not None])


def where(test: Callable[[Row, Rows], bool]) -> Answer:
    def answer(book: Book) -> Counter[tuple[object, ...]]:
        bids = book["bids"]
        return Counter([(money([b for b in bids if test(b, bids)]),)])

    return answer


def half(b: Row, rows: Rows) -> bool:
    same = [row for row in rows if row[2] is not None and row[2] == b[2]]
    mine, whole = volume_of(same), part("0.5", volume_of(rows))
    return mine is not None and mine == whole


def is_vwap(b: Row, rows: Rows) -> bool:
    return less(part("0.75", volume_of(rows)), volume_of(cheaper(rows, b)))


def is_sq1(b: Row, rows: Rows) -> bool:
    smaller = [row for row in rows if no_more(number(row[1]), number(b[1]))]
    return less(part("0.75", volume_of(smaller)), volume_of(cheaper(rows, b)))


def is_sq2(b: Row, rows: Rows) -> bool:
    found = [
        row for row in rows
        if row[1] is not None and row[2] is not None and b[2] is not None
        and row[2] + row[1] <= 2 * b[2]
    ]  # fmt: skip
    return less(part("0.75", volume_of(rows)), volume_of(found))


def is_nq1(b: Row, rows: Rows) -> bool:
    found = [x for x in cheaper(rows, b) if is_vwap(x, rows)]
    return less(part("0.75", volume_of(rows)), volume_of(found))


def is_nq2(b: Row, rows: Rows) -> bool:
    seen = [row for row in rows if no_more(number(row[1]), number(b[1]))]
    limit = part("0.75", volume_of(rows))
    found = [x for x in cheaper(rows, b) if less(limit, volume_of(cheaper(seen, x)))]
    return less(limit, volume_of(found))


def missed(*, coalesce: bool, by_broker: bool) -> Answer:
    def is_missed(row: Row, rows: Rows) -> bool:
        above = [each for each in rows if less(row[2], each[2])]
        found = volume_of(above)
        if coalesce and found is None:
            found = Decimal(0)
        return less(found, part("0.25", volume_of(rows)))

    def answer(book: Book) -> Counter[tuple[object, ...]]:
        groups: dict[tuple[int, ...], list[Decimal]] = {} if by_broker else {(): []}
        asks = [a for a in book["asks"] if is_missed(a, book["asks"])]
        for b in (b for b in book["bids"] if is_missed(b, book["bids"])):
            for a in asks:
                sums = groups.setdefault((b[0],) if by_broker else (), [])
                if None not in (a[1], a[2], b[1], b[2]):
                    sums.append(a[1] * a[2] - b[1] * b[2])  # type: ignore[operator,arg-type]
        return Counter([(*key, total(sums)) for key, sums in groups.items()])

    return answer


def spread(book: Book) -> Counter[tuple[object, ...]]:
    bids, asks = (
        [row for row in book[t] if less(part("0.1", volume_of(book[t])), number(row[1]))]
        for t in ("bids", "asks")
    )
    pairs = [(a[2], b[2]) for a in asks for b in bids]
    return Counter([(total([x - y for x, y in pairs if x is not None and y is not None]),)])


ANSWERS: dict[str, Answer] = {
    "example 2.1": where(half),
    "vwap": where(is_vwap),
    "mst": missed(coalesce=False, by_broker=False),
    "mst, coalesce": missed(coalesce=True, by_broker=False),
    "mst by broker": missed(coalesce=True, by_broker=True),
    "psp": spread,
    "sq1": where(is_sq1),
    "sq2": where(is_sq2),
    "nq1": where(is_nq1),
    "nq2": where(is_nq2),
}


# Streams: orders come in small batches and are taken back; at the end all go and some come again.


def order(choice: random.Random, *, signed: bool) -> Row:
    volumes = [None, -3, -1, 0, 1, 2, 5] if signed else [None, 0, 1, 1, 2, 3, 8]
    prices = [None, *(Decimal(n) / 2 for n in range(1, 8))]
    return choice.randint(1, 3), choice.choice(volumes), choice.choice(prices)


def play(mill: vm.Mill, choice: random.Random, steps: int, *, signed: bool):
    """Change the tables step by step; gives what is live after each."""
    book: Book = {"bids": [], "asks": []}
    for _ in range(steps):
        table = choice.choice(["bids", "bids", "asks"])
        live = book[table]
        if live and choice.random() < 0.45:
            mill.delete(table, [live.pop(choice.randrange(len(live)))])
        else:
            new = [order(choice, signed=signed) for _ in range(choice.randint(1, 3))]
            live += new
            mill.insert(table, new)
        yield book
    for table, live in book.items():
        mill.delete(table, list(live))
        live.clear()
    yield book
    book["bids"] = [order(choice, signed=signed) for _ in range(3)]
    mill.insert("bids", book["bids"])
    yield book


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("signed", [False, True], ids=["volumes >= 0", "any volumes"])
@pytest.mark.parametrize("name", list(QUERIES))
def test_order_book_query_equals_the_loops(mill, name, signed):
    choice = random.Random(f"{name} {signed}")
    for table in ("bids", "asks"):
        mill.sql(f"CREATE TABLE {table} ({ORDERS})")
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {QUERIES[name]}")
    asked = mill["v"].status()["engine_calls"]
    notes = mill["v"].explain()["chosen"]["notes"]
    assert any(note.startswith(PLANS[name]) for note in notes), notes
    for book in play(mill, choice, 30, signed=signed):
        assert Counter(mill["v"].rows()) == ANSWERS[name](book)
    assert mill["v"].status()["engine_calls"] == asked


# TPC-H Q17 and Q18, on tables small enough for loops.

Q17 = (
    "SELECT sum(l.extendedprice) / 7.0 AS avg_yearly FROM lineitem l, part p "
    "WHERE p.partkey = l.partkey AND p.brand = 'Brand#23' AND l.quantity < "
    "(SELECT 0.2 * avg(m.quantity) FROM lineitem m WHERE m.partkey = p.partkey)"
)
Q18 = (
    "SELECT l.orderkey, sum(l.quantity) AS quantity FROM lineitem l WHERE l.orderkey IN "
    "(SELECT m.orderkey FROM lineitem m GROUP BY m.orderkey HAVING sum(m.quantity) > 30) "
    "GROUP BY l.orderkey"
)
Line = tuple[int, int, Decimal, Decimal]  # orderkey, partkey, quantity, extendedprice


def q17(lines: list[Line], brands: dict[int, str]) -> Counter[tuple[object, ...]]:
    prices = []
    for _, partkey, quantity, price in lines:
        mine = [line[2] for line in lines if line[1] == partkey]
        mean = (sum(mine) / len(mine)).quantize(Decimal("0.000001"), ROUND_HALF_UP)
        if brands.get(partkey) == "Brand#23" and quantity < Decimal("0.2") * mean:
            prices.append(price)
    if not prices:
        return Counter([(None,)])
    return Counter([((sum(prices) / 7).quantize(Decimal("0.000001"), ROUND_HALF_UP),)])


def q18(lines: list[Line], brands: dict[int, str]) -> Counter[tuple[object, ...]]:
    sums: dict[int, Decimal] = {}
    for orderkey, _, quantity, _ in lines:
        sums[orderkey] = sums.get(orderkey, Decimal(0)) + quantity
    return Counter({(key, each): 1 for key, each in sums.items() if each > 30})


def rounded(rows) -> Counter[tuple[object, ...]]:
    """To four digits: a division may differ in its last one."""
    return Counter(tuple(x if x is None else round(Decimal(x), 4) for x in row) for row in rows)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(("sql", "answer"), [(Q17, q17), (Q18, q18)], ids=["q17", "q18"])
def test_tpch_query_equals_the_loops(mill, sql, answer):
    choice = random.Random(17)
    mill.sql("CREATE TABLE part (partkey INT NOT NULL, brand STRING NOT NULL)")
    mill.sql(
        "CREATE TABLE lineitem (orderkey INT NOT NULL, partkey INT NOT NULL, "
        "quantity DECIMAL(12,2) NOT NULL, extendedprice DECIMAL(12,2) NOT NULL)"
    )
    brands = {1: "Brand#23", 2: "Brand#23", 3: "Brand#11"}
    mill.insert("part", list(brands.items()))
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {sql}")
    asked, lines = mill["v"].status()["engine_calls"], list[Line]()
    for _ in range(40):
        if lines and choice.random() < 0.4:
            mill.delete("lineitem", [lines.pop(choice.randrange(len(lines)))])
        else:
            quantity = Decimal(choice.choice([1, 2, 20, 30]))
            line = (choice.randint(1, 3), choice.randint(1, 4), quantity, Decimal(10))
            lines.append(line)
            mill.insert("lineitem", [line])
        assert rounded(mill["v"].rows()) == rounded(answer(lines, brands).elements())
    assert mill["v"].status()["engine_calls"] == asked

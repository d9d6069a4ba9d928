"""cofactor() over numbers and categories, and the models over it, against rows in plain lists."""

import datetime as dt
import math
import random
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import viewmill as vm

CREATE = """CREATE TABLE t (
    g INT, y DOUBLE, x DOUBLE, colour STRING, sold DATE, shop INT) UNCHECKED"""
VIEW = "cofactor(y, x, colour, sold, category(shop)) AS m"


def make_row(pick):
    return (
        pick.choice([1, 2, None]),
        pick.choice([None, *range(5)]) and float(pick.randrange(5)),
        pick.choice([0.5, 1.25, -3.0, float("nan")]),
        pick.choice(["red", "blue", "gr'een", None]),
        dt.date(2024, 1, pick.randrange(1, 4)),
        pick.randrange(3),
    )


def whole(rows):
    """The rows that have every column."""
    return [r for r in rows if None not in r[1:] and not math.isnan(r[2])]


def brute(rows):
    """What cofactor() shows of some rows, by loops."""
    kept = whole(rows)
    texts = [[str(v) for v in (r[3], r[4], r[5])] for r in kept]
    kinds = [("colour", "STRING"), ("sold", "DATE"), ("shop", "INT")]
    categories, pairs = [], []
    for i, (name, kind) in enumerate(kinds):
        levels = []
        for value in sorted({t[i] for t in texts}):
            own = [r for r, t in zip(kept, texts, strict=True) if t[i] == value]
            sums = [sum(r[1] for r in own), sum(r[2] for r in own)]
            levels.append({"value": value, "n": len(own), "sums": sums})
        categories.append({"name": name, "type": kind, "levels": levels})
    for i, j in combinations(range(3), 2):
        counts = Counter((t[i], t[j]) for t in texts)
        shown = [{"a": a, "b": b, "n": n} for (a, b), n in sorted(counts.items())]
        pairs.append({"a": kinds[i][0], "b": kinds[j][0], "counts": shown})
    y, x = [r[1] for r in kept], [r[2] for r in kept]
    products = [sum(a * b for a, b in zip(*both, strict=True)) for both in ((y, y), (y, x), (x, x))]
    return {
        "n": len(kept), "names": ["y", "x"], "sums": [sum(y), sum(x)], "products": products,
        "categories": categories, "pairs": pairs,
    }  # fmt: skip


def test_it_shows_what_loops_count_after_each_change(uncompiled, tmp_path):
    pick = random.Random(5)
    rows: list[Any] = []
    mill = vm.connect(str(tmp_path / "m"))
    mill.sql(CREATE)
    mill.sql(f"CREATE MATERIALIZED VIEW whole AS SELECT {VIEW} FROM t")
    mill.sql(f"CREATE MATERIALIZED VIEW by_g AS SELECT g, count(*) AS n, {VIEW} FROM t GROUP BY g")
    seen: list[Any] = []
    mill["by_g"].subscribe(seen.append)
    for step in range(8):
        gone = pick.sample(rows, len(rows) // 3)
        came = [make_row(pick) for _ in range(pick.randrange(1, 6))]
        with mill.batch():
            if gone:
                mill.delete("t", gone)
            mill.insert("t", came)
        for each in gone:
            rows.remove(each)
        rows += came
        if step == 4:
            mill.close()
            mill = vm.connect(str(tmp_path / "m"))
        assert mill["whole"].rows() == [(brute(rows),)]
        groups = {r[0] for r in rows}
        wanted = [(g, [r for r in rows if r[0] == g]) for g in groups]
        shown = sorted(mill["by_g"].rows(), key=repr)
        assert shown == sorted(((g, len(own), brute(own)) for g, own in wanted), key=repr)
    assert mill["whole"].verify() == mill["by_g"].verify() == []
    assert mill["by_g"].status()["refresh_kind"] == "incremental"
    assert len([row for change in seen for row in change.rows()]) > 10


def test_a_refresh_asks_no_engine_and_a_failing_batch_changes_nothing(uncompiled):
    mill = vm.connect()
    mill.sql("CREATE TABLE t (y DOUBLE, colour STRING, size STRING, n BIGINT)")
    mill.sql("CREATE MATERIALIZED VIEW m AS SELECT cofactor(y, colour, size) AS c FROM t")
    mill.sql("CREATE MATERIALIZED VIEW s AS SELECT sum(n) AS n FROM t")
    mill.insert("t", [(1.0, "a", "s", 1), (2.0, "b", "s", 2**62)])
    before, calls = mill["m"].rows(), mill["m"].status()["engine_calls"]
    with pytest.raises(vm.ViewmillError):
        mill.insert("t", [(3.0, "c", "l", 2**62)])
    assert mill["m"].rows() == before
    mill.insert("t", [(4.0, "a", "l", 1)])
    mill.delete("t", [(2.0, "b", "s", 2**62)])
    ((value,),) = mill["m"].rows()
    assert [each["value"] for each in value["categories"][0]["levels"]] == ["a"]
    assert mill["m"].status()["engine_calls"] == calls
    assert mill.sql("SELECT c.n FROM m").rows() == [(2,)]


def test_a_subscriber_that_looks_late_sees_its_own_versions(uncompiled):
    mill = vm.connect()
    mill.sql("CREATE TABLE t (y DOUBLE, colour STRING)")
    mill.sql("CREATE MATERIALIZED VIEW m AS SELECT cofactor(y, colour) AS c FROM t")
    kept: list[Any] = []
    mill["m"].subscribe(kept.append)
    for i in range(3):
        mill.insert("t", [(float(i), "a")])
    counts = [sorted((value["n"], m) for value, m in change.rows()) for change in kept]
    assert counts == [[(0, -1), (1, 1)], [(1, -1), (2, 1)], [(2, -1), (3, 1)]]


def make_sales(mill, rows):
    mill.sql("CREATE TABLE sales (item INT, shop INT, units DOUBLE, promo BOOLEAN)")
    mill.sql("CREATE TABLE items (item INT, price DOUBLE, family STRING)")
    mill.sql("CREATE TABLE shops (shop INT, town STRING, area DOUBLE)")
    mill.sql("""CREATE MATERIALIZED VIEW m AS
        SELECT cofactor(units, price, area, family, town, promo) AS c
        FROM sales JOIN items ON sales.item = items.item JOIN shops ON sales.shop = shops.shop""")
    mill.insert("items", [(i, 1.0 + i % 7, "fmb"[i % 3]) for i in range(9)])
    mill.insert("shops", [(s, f"town {s % 4}", 10.0 * s) for s in range(6)])
    mill.insert("sales", rows)


def joined(rows):
    return [(u, 1.0 + i % 7, 10.0 * s, "fmb"[i % 3], f"town {s % 4}", p) for i, s, u, p in rows]


def one_hot(rows, columns):
    """A column of ones, then numbers as they are and categories as columns of 0 and 1."""
    made = [np.ones(len(rows))]
    for at in columns:
        values = [row[at] for row in rows]
        if isinstance(values[0], float):
            made.append(np.array(values))
        else:
            made += [np.array([v == w for v in values], float) for w in sorted(set(values))]
    return np.stack(made, axis=1)


def sales(pick, n):
    return [
        (pick.randrange(9), pick.randrange(6), pick.gauss(5, 2), pick.random() < 0.3)
        for _ in range(n)
    ]


def test_a_regression_over_a_join_equals_one_hot_least_squares(uncompiled):
    pick = random.Random(3)
    mill, rows = vm.connect(), sales(pick, 150)
    make_sales(mill, rows)
    names = ["price", "area", "family", "town", "promo"]
    model = vm.models.LinearRegression(mill["m"], "units", names)
    ridge = vm.models.LinearRegression(mill["m"], "units", names, l2=2.0)
    steps = vm.models.LinearRegression(mill["m"], "units", names, method="gradient")
    for _ in range(3):
        given = joined(rows)
        y, x = np.array([r[0] for r in given]), one_hot(given, [1, 2, 3, 4, 5])
        free = x @ np.linalg.lstsq(x, y, rcond=None)[0]
        asked = [dict(zip(names, r[1:], strict=True)) for r in given]
        assert np.allclose(model.predict(asked), free, atol=1e-9)
        assert np.allclose(steps.predict(asked), free, atol=1e-6)
        penalty = 2.0 * np.eye(x.shape[1])
        penalty[0, 0] = 0.0
        b = np.linalg.solve(x.T @ x + penalty, x.T @ y)
        assert np.allclose(ridge.predict(asked), x @ b, atol=1e-9)
        assert ridge.coefficients["town"]["town 2"] == pytest.approx(b[3 + 3 + 2], abs=1e-9)
        more, gone = sales(pick, 5), rows[:7]
        mill.insert("sales", more)
        mill.delete("sales", gone)
        rows = rows[7:] + more
        for each in (model, ridge, steps):
            each.refresh()
    assert mill["m"].verify() == []


def test_any_label_and_features_can_be_chosen_afterwards(uncompiled):
    mill, rows = vm.connect(), sales(random.Random(4), 80)
    make_sales(mill, rows)
    given = joined(rows)
    model = vm.models.LinearRegression(mill["m"], "price", ["units", "town"], drop="first")
    x = np.delete(one_hot(given, [0, 4]), 2, axis=1)
    y = np.array([r[1] for r in given])
    b = np.linalg.lstsq(x, y, rcond=None)[0]
    assert model.intercept == pytest.approx(b[0])
    assert list(model.coefficients["town"].values()) == pytest.approx(b[2:])
    free = len(y) - x.shape[1]
    spread = float(np.sum((y - x @ b) ** 2)) / free * np.linalg.inv(x.T @ x)
    assert model.intercept_error == pytest.approx(math.sqrt(spread[0, 0]))
    assert model.standard_errors["units"] == pytest.approx(math.sqrt(spread[1, 1]))
    errors = list(model.standard_errors["town"].values())
    assert errors == pytest.approx(np.sqrt(np.diagonal(spread))[2:])
    path = vm.models.LinearRegression(mill["m"], "price", ["units", "town"]).ridge_path([0.5, 8])
    again = vm.models.LinearRegression(mill["m"], "price", ["units", "town"], l2=8)
    assert path[1]["coefficients"]["town"] == pytest.approx(again.coefficients["town"])
    with pytest.raises(vm.ViewmillError, match="is a category"):
        vm.models.LinearRegression(mill["m"], "town", ["units"])
    with pytest.raises(vm.ViewmillError, match='no column "twon"'):
        vm.models.LinearRegression(mill["m"], "units", ["twon"])


def plain_information(a, b):
    n, both = len(a), Counter(zip(a, b, strict=True))
    left, right = Counter(a), Counter(b)
    return sum(c / n * math.log(c * n / (left[i] * right[j])) for (i, j), c in both.items())


def test_mutual_information_and_the_tree_follow_the_rows(uncompiled):
    pick, mill = random.Random(6), vm.connect()
    mill.sql("CREATE TABLE t (a STRING, b STRING, c STRING, d BOOLEAN)")
    mill.sql("CREATE MATERIALIZED VIEW m AS SELECT cofactor(a, b, c, d) AS c FROM t")
    rows = []
    tree, known = vm.models.ChowLiuTree(mill["m"]), vm.models.MutualInformation(mill["m"])
    for _ in range(3):
        more = []
        for _ in range(60):
            a = pick.choice("xyz")
            b = a if pick.random() < 0.8 else pick.choice("xyz")
            c = b if pick.random() < 0.7 else pick.choice("xyz")
            more.append((a, b, c, (c == "x") != (pick.random() < 0.2)))
        mill.insert("t", more)
        rows += more
        columns = list(zip(*rows, strict=True))
        known.refresh()
        tree.refresh()
        for i, j in combinations(range(4), 2):
            wanted = plain_information(columns[i], columns[j])
            assert known.between("abcd"[i], "abcd"[j]) == pytest.approx(wanted)
        best = max(
            sum(plain_information(columns[i], columns[j]) for i, j in edges)
            for edges in combinations(list(combinations(range(4), 2)), 3)
            if len({v for e in edges for v in e}) == 4
            and len({frozenset(e) for e in edges}) == 3
            and is_tree(edges)
        )
        assert sum(each for _, _, each in tree.edges) == pytest.approx(best)
        assert known.ranking("d")[0][0] == "c"
    every = [(a, b, c, d) for a in "xyz" for b in "xyz" for c in "xyz" for d in (True, False)]
    assert sum(tree.probability(dict(zip("abcd", r, strict=True))) for r in every) == (
        pytest.approx(1.0)
    )


def is_tree(edges):
    reached = {edges[0][0]}
    for _ in edges:
        reached |= {v for e in edges if reached & set(e) for v in e}
    return len(reached) == 4


def test_components_equal_those_of_the_rows(uncompiled):
    mill, rows = vm.connect(), sales(random.Random(7), 60)
    make_sales(mill, rows)
    given = joined(rows)
    x = np.array([r[:3] for r in given])
    found = vm.models.PrincipalComponents(mill["m"])
    values, vectors = np.linalg.eigh(np.cov(x.T))
    assert found.variances == pytest.approx(values[::-1])
    assert np.abs(found.components @ vectors[:, ::-1]) == pytest.approx(np.eye(3), abs=1e-7)
    shares = found.transform(x)
    assert shares.var(axis=0, ddof=1) == pytest.approx(values[::-1])
    scaled = vm.models.PrincipalComponents(mill["m"], ["units", "town"], scaled=True, count=2)
    x = one_hot(given, [0, 4])[:, 1:]
    assert scaled.variances == pytest.approx(
        np.linalg.eigvalsh(np.corrcoef(x.T))[::-1][:2] * len(x) / (len(x) - 1)
    )


def test_selection_takes_what_explains_and_stops(uncompiled):
    pick, mill = random.Random(8), vm.connect()
    mill.sql("CREATE TABLE t (y DOUBLE, a DOUBLE, b DOUBLE, noise DOUBLE, kind STRING)")
    mill.sql("CREATE MATERIALIZED VIEW m AS SELECT cofactor(y, a, b, noise, kind) AS c FROM t")
    rows = []
    for _ in range(200):
        a, b, kind = pick.gauss(0, 1), pick.gauss(0, 1), pick.choice("uvw")
        y = 3 * a + b + 5 * (kind == "u") + pick.gauss(0, 0.1)
        rows.append((y, a, b, pick.gauss(0, 1), kind))
    mill.insert("t", rows)
    features = ["noise", "a", "b", "kind"]
    found = vm.models.FeatureSelection(mill["m"], "y", features)
    assert found.selected == ["a", "kind", "b"]
    assert vm.models.FeatureSelection(mill["m"], "y", features, count=1).selected == ["a"]
    alone = vm.models.LinearRegression(mill["m"], "y", ["a"])
    assert found.steps[0][1] == pytest.approx(alone.r2)


def test_a_view_over_the_view_is_learnt_from_too(uncompiled):
    mill, rows = vm.connect(), sales(random.Random(9), 60)
    make_sales(mill, rows)
    mill.sql("CREATE MATERIALIZED VIEW again AS SELECT c AS moments, 1 AS one FROM m")
    mill.insert("sales", rows[:3])
    own = vm.models.LinearRegression(mill["m"], "units", ["price", "family", "promo"])
    above = vm.models.LinearRegression(mill["again"], "units", ["price", "family", "promo"])
    assert above.coefficients["promo"] == pytest.approx(own.coefficients["promo"], abs=1e-8)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("cofactor(y, category(x))", "cannot be DOUBLE"),
        ("cofactor(y, stamp)", "takes columns of numbers, got TIMESTAMP"),
        ("cofactor(stamp, colour)", "cannot be TIMESTAMP"),
        ("linear_regression(y, colour)", "takes columns of numbers"),
        ("cofactor(DISTINCT y, colour)", "takes columns of numbers|no place"),
    ],
)
def test_what_is_no_category_is_refused(uncompiled, call, said):
    mill = vm.connect()
    mill.sql("CREATE TABLE t (y DOUBLE, x DOUBLE, colour STRING, stamp TIMESTAMP)")
    with pytest.raises(vm.ViewmillError, match=said):
        mill.sql(f"CREATE MATERIALIZED VIEW m AS SELECT {call} AS c FROM t")


@pytest.mark.parametrize(
    "rest",
    [
        "GROUP BY g HAVING count(*) > 1",
        "GROUP BY g ORDER BY g",
        "GROUP BY ROLLUP(g)",
    ],
)
def test_what_reads_the_struct_row_by_row_is_recomputed_and_right(uncompiled, rest):
    mill = vm.connect()
    mill.sql("CREATE TABLE t (g INT, y DOUBLE, colour STRING)")
    mill.insert("t", [(1, 0.5, "a"), (1, 0.1, "b"), (2, 0.2, "a")])
    query = f"SELECT g, cofactor(y, colour) AS m FROM t {rest}"
    mill.sql(f"CREATE MATERIALIZED VIEW m AS {query}")
    for row in [(2, 0.3, "b"), (1, 0.7, "a"), (3, 0.1, "c")]:
        mill.insert("t", [row])
        mill.delete("t", [row])
        mill.insert("t", [row])
        assert mill["m"].verify() == []
    counts = sorted(((g, m["n"]) for g, m in mill["m"].rows()), key=repr)
    whole = [(None, 6)] if "ROLLUP" in rest else []
    alone = [] if "HAVING" in rest else [(3, 1)]
    assert counts == sorted([(1, 3), (2, 2), *alone, *whole], key=repr)
    with pytest.raises(vm.ViewmillError, match="cannot be maintained incrementally"):
        mill.sql(f"CREATE MATERIALIZED VIEW s REFRESH POLICY INCREMENTAL STRICT AS {query}")

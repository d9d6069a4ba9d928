"""Functions that users write in Python, against the same functions over rows in plain lists."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import viewmill as vm
from viewmill.errors import (
    BrokenView,
    EvaluationFailed,
    InvalidArgument,
    NameInUse,
    TypeMismatch,
    UnsupportedQuery,
)

TABLE = "CREATE TABLE t (id INT, x DOUBLE, c STRING, d DECIMAL(12,2), day DATE, at TIMESTAMP)"
Row = tuple[Any, ...]


def label(x: float | None, c: str | None) -> str | None:
    return None if c is None else f"{c}:{x}"


def twice(x: int | None) -> int:
    return -1 if x is None else 2 * x


@pytest.fixture
def mill(uncompiled):
    with vm.connect() as mill:
        mill.sql(TABLE)
        yield mill


def drawn(rng: random.Random, n: int) -> list[Row]:
    days = [dt.date(2024, 1, 1), dt.date(2023, 12, 31), None]
    return [
        (rng.randrange(5), rng.choice([0.0, -0.0, 1.5, None]), rng.choice(["a", "b", None]),
         decimal.Decimal(rng.randrange(-9, 9)), rng.choice(days), dt.datetime(2024, 1, 1, 0, i % 3))
        for i in range(n)
    ]  # fmt: skip


VIEWS = {
    "shown": "SELECT id, label(x, c) AS l, twice(id) AS n FROM t",
    "kept": "SELECT id, c FROM t WHERE twice(id) > 3 AND label(x, c) IS NOT NULL",
    "grouped": "SELECT label(NULL, c) AS g, count(*) AS n, sum(twice(twice(id))) AS s "
    "FROM t GROUP BY label(NULL, c)",
    "joined": "SELECT a.id FROM t a JOIN t b ON twice(a.id) = b.id",
}


def expected(name: str, rows: list[Row]) -> list[Row]:
    match name:
        case "shown":
            return [(r[0], label(r[1], r[2]), twice(r[0])) for r in rows]
        case "kept":
            return [(r[0], r[2]) for r in rows if twice(r[0]) > 3 and label(r[1], r[2]) is not None]
        case "grouped":
            groups = defaultdict(list)
            for r in rows:
                groups[label(None, r[2])].append(twice(twice(r[0])))
            return [(g, len(each), sum(each)) for g, each in groups.items()]
        case _:
            return [(a[0],) for a in rows for b in rows if twice(a[0]) == b[0]]


def require_right(mill: Any, rows: list[Row]) -> None:
    for name in VIEWS:
        assert Counter(mill[name].rows()) == Counter(expected(name, rows)), name
        assert mill[name].verify() == [], name


def register(mill: Any, *, vectorized: bool) -> None:
    if vectorized:
        mill.function("label", lambda xs, cs: [label(x.as_py(), c.as_py())
                      for x, c in zip(xs, cs, strict=True)], "STRING", vectorized=True)  # fmt: skip
        doubled = lambda xs: pc.fill_null(pc.multiply(xs.cast(pa.int64()), 2), -1)  # noqa: E731
        mill.function("twice", doubled, "BIGINT", vectorized=True)
    else:
        mill.function("label", label, "STRING")
        mill.function("Twice", twice, "BIGINT")


@pytest.mark.parametrize("vectorized", [False, True])
def test_views_equal_the_functions_over_rows_through_changes_and_restarts(
    uncompiled, tmp_path, vectorized
):
    rng, rows = random.Random(3), list[Row]()
    with vm.connect(tmp_path / "m") as mill:
        register(mill, vectorized=vectorized)
        mill.sql(TABLE)
        rows += drawn(rng, 20)
        mill.insert("t", rows)
        for name, query in VIEWS.items():
            policy = "REFRESH POLICY INCREMENTAL STRICT"
            mill.sql(f"CREATE MATERIALIZED VIEW {name} {policy} AS {query}")
        require_right(mill, rows)
    for turn in range(3):
        with vm.connect(tmp_path / "m") as mill:
            if turn == 1:  # a change while the views wait
                rows.append(drawn(rng, 1)[0])
                mill.insert("t", rows[-1:])
            register(mill, vectorized=vectorized)
            require_right(mill, rows)
            calls = {name: mill[name].status()["engine_calls"] for name in VIEWS}
            for _ in range(3):
                new = drawn(rng, 6)
                gone = rng.sample(rows, 5)
                with mill.batch():
                    mill.insert("t", new)
                    mill.delete("t", gone)
                rows += new
                for each in gone:
                    rows.remove(each)
            assert {name: mill[name].status()["engine_calls"] for name in VIEWS} == calls
            require_right(mill, rows)


def test_a_function_is_called_once_for_equal_arguments(mill):
    calls = list[Row]()

    def noted(*values: Any) -> float:
        calls.append(values)
        return 1.0

    mill.function("noted", noted, "DOUBLE")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT noted(x, c) AS y FROM t WHERE noted(x, c) > 0")
    row = (1, 0.5, "a", None, None, None)
    mill.insert("t", [row, row])
    mill.insert("t", [(2, 0.5, "a", None, None, None)])
    mill.delete("t", [row])
    assert calls == [(0.5, "a")]
    mill.insert("t", [(1, z, "a", None, None, None) for z in (0.0, -0.0)])
    assert len(calls) == 3  # the zeros are two inputs
    assert mill["v"].verify() == []
    assert len(calls) == 6  # verify asks again


def test_a_vectorized_function_is_called_with_all_new_inputs_of_a_change(mill):
    sizes = list[int]()

    def halved(xs: pa.Array) -> np.ndarray[Any, Any]:
        sizes.append(len(xs))
        return xs.to_numpy(zero_copy_only=False) / 2  # type: ignore[no-any-return]

    mill.function("halved", halved, "DOUBLE", vectorized=True)
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT halved(id) AS h FROM t WHERE id > 2")
    mill.insert("t", [(i % 10, None, None, None, None, None) for i in range(40)])
    assert sizes == [7]
    assert Counter(mill["v"].rows()) == Counter((i / 2,) for i in range(3, 10) for _ in range(4))


def test_an_error_names_the_function_and_the_input_and_changes_nothing(mill):
    mill.function("ratio", lambda x: 1 / x, "DOUBLE")
    mill.function("ratios", lambda xs: pa.array([1 / x.as_py() for x in xs]), "DOUBLE",
                  vectorized=True)  # fmt: skip
    mill.sql("CREATE MATERIALIZED VIEW a AS SELECT sum(ratio(id)) AS s FROM t WHERE x IS NULL")
    mill.sql("CREATE MATERIALIZED VIEW b AS SELECT ratios(id) AS s FROM t WHERE x IS NOT NULL")
    mill.insert("t", [(2, None, None, None, None, None), (4, 1.0, None, None, None, None)])
    for row, said in (((0, None), "ratio(0) raised"), ((0, 1.0), "ratios(0) raised")):
        with pytest.raises(EvaluationFailed, match="ZeroDivisionError") as failed:
            mill.insert("t", [(3, *row[1:], *[None] * 4), (*row, *[None] * 4)])
        assert failed.value.message.startswith(said)
        assert failed.value.span is not None
    assert (mill["a"].rows(), mill["b"].rows()) == ([(0.5,)], [(0.25,)])
    with pytest.raises(EvaluationFailed, match=r"ratio\(0\) raised ZeroDivisionError"):
        mill.sql("SELECT ratio(id - id) FROM t")


@pytest.mark.parametrize(
    ("type_", "given", "shown"),
    [
        ("INT", 2**31, None), ("INT", "7", None), ("INT", 7.0, 7), ("INT", True, None),
        ("TINYINT", np.int64(7), 7), ("DOUBLE", 7, 7.0), ("STRING", 7, None), ("STRING", "é", "é"),
        ("STRING", "\ud800", None), ("BOOLEAN", np.bool_(True), True), ("BOOLEAN", 1, None),
        ("DECIMAL(4,1)", decimal.Decimal("1.25"), decimal.Decimal("1.3")),
        ("DECIMAL(4,1)", decimal.Decimal("1000"), None),
        ("DECIMAL(30,2)", decimal.Decimal(10) ** 25, decimal.Decimal(10) ** 25),
        ("DATE", dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
        ("TIMESTAMP", dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
         dt.datetime(2024, 1, 1)),
        ("TIMESTAMP", "soon", None),
    ],
)  # fmt: skip
def test_what_a_function_gives_fits_its_type_or_is_an_error(mill, type_, given, shown):
    mill.function("given", lambda x: given if x else None, type_)
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT given(id) AS y FROM t")
    mill.insert("t", [(0, *[None] * 5)])
    if shown is None:
        with pytest.raises(EvaluationFailed, match=r"given\(1\) gave .* which is no"):
            mill.insert("t", [(1, *[None] * 5)])
        assert mill["v"].rows() == [(None,)]
    else:
        mill.insert("t", [(1, *[None] * 5)])
        assert Counter(mill["v"].rows()) == Counter([(None,), (shown,)])
        assert mill["v"].verify() == []


def test_arguments_come_as_python_values_in_views_and_in_queries(mill):
    seen = set[Row]()

    def noted(*values: Any) -> int:
        seen.add(tuple((type(each), each) for each in values))
        return 0

    mill.function("noted", noted, "INT")
    row = (1, 0.5, "a", decimal.Decimal("1.50"), dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3))
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT noted(id, x, c, d, day, at, NULL) AS n FROM t")
    mill.insert("t", [row])
    assert mill["v"].verify() == []  # by DuckDB
    assert seen == {tuple((type(each), each) for each in (*row, None))}


def test_lazy_branches_do_not_call_the_function(mill):
    for name, vectorized in (("one", False), ("many", True)):
        code = (lambda xs: [1 // x.as_py() for x in xs]) if vectorized else (lambda x: 1 // x)
        mill.function(name, code, "INT", vectorized=vectorized)
        mill.sql(f"CREATE MATERIALIZED VIEW v_{name} AS "
                 f"SELECT CASE WHEN id <> 0 THEN {name}(id) END AS y FROM t")  # fmt: skip
    mill.insert("t", [(i, *[None] * 5) for i in (0, 1, 2)])
    for name in ("one", "many"):
        assert Counter(mill[f"v_{name}"].rows()) == Counter([(None,), (1,), (0,)])


def test_a_function_that_is_not_deterministic_is_refused_in_views_only(mill):
    mill.function("chance", lambda: 4, "INT", deterministic=False)
    with pytest.raises(UnsupportedQuery, match="chance cannot be used in a view") as refused:
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT chance() AS x FROM t")
    assert refused.value.span.text == "chance"
    mill.insert("t", [(1, *[None] * 5)] * 2)
    assert mill.sql("SELECT CHANCE() AS x FROM t").rows() == [(4,), (4,)]


def test_verify_finds_a_function_that_does_not_keep_its_word(mill):
    values = iter(range(100))
    mill.function("next_one", lambda x: next(values), "INT")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT next_one(id) AS x FROM t")
    mill.insert("t", [(1, *[None] * 5)])
    assert mill["v"].verify() != []


def test_names_of_sql_functions_and_functions_in_use_are_refused(mill):
    for name in ("upper", "SUM", "row_number", "hash", "explode", "window", "select"):
        with pytest.raises(NameInUse):
            mill.function(name, twice, "INT")
    mill.function("f", twice, "INT")
    mill.function("F", lambda x: 3, "BIGINT")  # nobody uses it yet
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT f(id) AS x FROM t")
    mill.function("f", lambda x: 3, "BIGINT")  # the same
    with pytest.raises(NameInUse, match='view "v" uses it'):
        mill.function("f", lambda x: 4, "BIGINT")
    mill.sql("DROP MATERIALIZED VIEW v")
    mill.function("f", lambda x: 4, "BIGINT")
    assert mill.sql("SELECT f(1)").rows() == [(4,)]


def test_what_cannot_be_registered_or_called_says_why(mill):
    with pytest.raises(InvalidArgument, match="no type 'MONEY'"):
        mill.function("f", twice, "MONEY")
    with pytest.raises(InvalidArgument, match="needs the type"):
        mill.function("f", twice)
    with pytest.raises(InvalidArgument, match="no function"):
        mill.function("f", 3, "INT")
    with pytest.raises(InvalidArgument, match="ARRAY"):
        mill.function("f", twice, "ARRAY<INT>")
    mill.function("f", twice, "INT")
    for call, why in (("f()", "cannot take 0"), ("f(id, id)", "cannot take 2"),
                      ("f(INTERVAL 1 DAY)", "INTERVAL")):  # fmt: skip
        with pytest.raises(TypeMismatch, match=why) as refused:
            mill.sql(f"SELECT {call} FROM t")
        assert refused.value.span is not None
    with pytest.raises(UnsupportedQuery, match="f cannot be called in this query"):
        mill.sql("SELECT f(id) AS x FROM t TABLESAMPLE (10 PERCENT)")


def test_a_mill_without_its_functions_says_which_one_is_missing(uncompiled, tmp_path):
    with vm.connect(tmp_path / "m") as mill:
        mill.function("twice", twice, "INT")
        mill.sql(TABLE)
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT twice(id) AS y FROM t")
        mill.sql("CREATE MATERIALIZED VIEW w AS SELECT sum(y) AS y FROM v")
    with vm.connect(tmp_path / "m") as mill:
        mill.insert("t", [(1, *[None] * 5)])
        with pytest.raises(BrokenView) as waits:
            mill["v"].rows()
        assert 'there is no function "twice"' in (waits.value.detail or "")
        mill.function("TWICE", twice, "INT")
        assert (mill["v"].rows(), mill["w"].rows()) == ([(2,)], [(2,)])
    for read_only in (False, True):
        given = {"twice": vm.Function(twice, "INT")}
        with vm.connect(tmp_path / "m", register=given, read_only=read_only) as mill:
            assert (mill["v"].rows(), mill["w"].rows()) == ([(2,)], [(2,)])
    stored = b"".join(each.read_bytes() for each in (tmp_path / "m").rglob("*") if each.is_file())
    assert b"test_user_functions" not in stored  # neither code nor where it is


def test_a_udf_of_pyspark_brings_its_type_along(mill):
    functions = pytest.importorskip("pyspark.sql.functions")
    types = pytest.importorskip("pyspark.sql.types")
    mill.function("plus", functions.udf(lambda x: x + 1, types.LongType()))
    chance = functions.udf(lambda x: x, types.IntegerType()).asNondeterministic()
    mill.function("chance", chance)
    assert mill.sql("SELECT plus(1) AS x").to_arrow().schema.field("x").type == pa.int64()
    with pytest.raises(UnsupportedQuery, match="deterministic"):
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT chance(id) AS x FROM t")
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT plus(id) AS x FROM t")
    mill.insert("t", [(1, *[None] * 5)])
    assert mill["w"].rows() == [(2,)]

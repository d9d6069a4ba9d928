"""The worked examples of ViewDF, with the numbers as printed or as the errata correct them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

import viewmill as vm

TEN = datetime.datetime(2015, 1, 1, 10)
LOSSES = (6, 12, 15, 24, 20, 16, 7)
M = (
    "CREATE TABLE m (ts TIMESTAMP, src STRING, dest STRING, loss BIGINT) "
    "TIMESTAMP BY ts PARTITION LENGTH 60"
)
VIEW1 = """
CREATE VIEW View1 AS
  SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss
  FROM M PATTERN [a, b, c, d+]
  WHERE a.loss>10 AND b.loss>10 AND c.loss>10 AND d.loss>10
  GROUP BY src, dest
"""
HELPER = """
CREATE VIEW Helper AS
INITIALIZE Helper[i] AS
  SELECT src, dest, 1 AS ct, loss AS sum_loss FROM M[i] WHERE loss>10
UPDATE Helper[j] AS
  SELECT src, dest, COALESCE(ct, 0) + 1, COALESCE(sum_loss, 0) + loss
  FROM (
    SELECT New.src AS src, New.dest AS dest, Prev.ct AS ct, Prev.sum_loss AS sum_loss,
           New.loss AS loss
    FROM M[j] AS New LEFT OUTER JOIN Helper[j-1] AS Prev
      ON New.src <=> Prev.src AND New.dest <=> Prev.dest
    WHERE New.loss>10 )
PARTITION LENGTH 60
"""
VIEW2 = """
CREATE VIEW View2 AS
INITIALIZE View2[i] AS SELECT src, dest, ct, sum_loss FROM Helper[i] WHERE ct >= 4
UPDATE View2[j] AS SELECT src, dest, ct, sum_loss FROM Helper[j] WHERE ct >= 4
PARTITION LENGTH 60
"""
# What Algorithms 2 and 3 write for View1, as V1 to V4 correct them: the outer join gives 0, the
# CASE is computed inside and filtered outside, and a run that starts has the values of its row.
GENERATED_HELPER = """
CREATE VIEW H4 AS
INITIALIZE H4[i] AS
  SELECT New.src AS src, New.dest AS dest, New.loss AS sum_loss, 1 AS ct, 1 AS state
  FROM M[i] AS New WHERE New.loss > 10
UPDATE H4[j] AS
  SELECT src, dest, sum_loss, ct, state FROM (
    SELECT New.src, New.dest,
      CASE WHEN COALESCE(state, 0) = 0 THEN New.loss ELSE Prev.sum_loss + New.loss END AS sum_loss,
      CASE WHEN COALESCE(state, 0) = 0 THEN 1 ELSE 1 + ct END AS ct,
      CASE WHEN COALESCE(state, 0) = 0 AND New.loss > 10 THEN 1
           WHEN state = 1 AND New.loss > 10 THEN 2
           WHEN state = 2 AND New.loss > 10 THEN 3
           WHEN state = 3 AND New.loss > 10 THEN 4
           WHEN state = 4 AND New.loss > 10 THEN 4 ELSE 0 END AS state
    FROM M[j] AS New LEFT OUTER JOIN H4[j-1] AS Prev
      ON New.src <=> Prev.src AND New.dest <=> Prev.dest) AS t
  WHERE state <> 0
PARTITION LENGTH 60
"""
VIEW4 = """
CREATE VIEW View4 AS
INITIALIZE View4[i] AS SELECT src, dest, ct, sum_loss FROM H4[i] WHERE state=4
UPDATE View4[j] AS SELECT src, dest, ct, sum_loss FROM H4[j] WHERE state=4
PARTITION LENGTH 60
"""
DEFINITIONS = {
    "View1": [VIEW1],
    "View2": [HELPER, VIEW2],
    "View4": [GENERATED_HELPER, VIEW4],
}


def minute(i: int, second: int = 0) -> datetime.datetime:
    return TEN + datetime.timedelta(minutes=i, seconds=second)


@pytest.fixture(params=DEFINITIONS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ON_SPARK = pytest.mark.parametrize(
    "connect", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)], indirect=True
)


@pytest.fixture(
    params=["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]
)
def connect(request: pytest.FixtureRequest) -> Any:
    """Both engines run the same text."""
    spark = request.getfixturevalue("spark") if request.param == "spark" else None
    return lambda: vm.connect(spark=spark)


def opened(connect: Any, name: str) -> Any:
    mill = connect()
    mill.sql(M)
    for definition in DEFINITIONS[name]:
        mill.sql(definition)
    return mill


@ON_SPARK
def test_section_2_reports_at_1004_and_1005_and_no_longer_at_1006(connect, name):
    mill = opened(connect, name)
    shown = []
    for i, loss in enumerate(LOSSES):
        mill.insert("m", [(minute(i), "s", "d", loss)])
        shown.append(mill[name].rows())
    assert shown == [[], [], [], [], [("s", "d", 4, 71)], [("s", "d", 5, 87)], []]
    at = f'SELECT * FROM {name} WHERE PART_TIMESTAMP="2015/01/01 10:04"'
    assert mill.sql(at).rows() == [("s", "d", 4, 71)]
    assert mill[name].verify() == []


def test_figure_3_late_rows_go_on_until_a_part_is_unchanged(connect, name):
    """V14: the paper stops at View2[5], but Helper[6] depends on Helper[5]."""
    mill = opened(connect, name)
    for i in (0, 1, 2, 3, 4, 6, 7, 8, 9):
        mill.insert("m", [(minute(i), "s", "d", 20 if i < 9 else 1)])
    version = mill.version
    mill.insert("m", [(minute(5), "s", "d", 20)])
    history = mill.sql(f"SELECT PART_TIMESTAMP, ct FROM {name}").rows()
    assert sorted(history) == [(minute(i), i + 1) for i in range(3, 9)]
    changed = [part["part_timestamp"] for part in mill[name].parts(changed_since=version)]
    assert changed == [minute(i) for i in range(5, 9)]


def test_section_2_subscripts(connect):
    mill = opened(connect, "View1")
    mill.insert("m", [(datetime.datetime(2015, 1, 1), "s", "d", 1)])
    assert [part["subscript"] for part in mill.parts("m")] == [23667840]


def test_view3_is_hourly(connect):
    """V8: hour i is the minutes i*60 to i*60+59."""
    mill = connect()
    mill.sql(M)
    query = "SELECT src, dest, sum(loss) AS sum_loss FROM M[i*60 .. i*60+59] GROUP BY src, dest"
    mill.sql(
        f"CREATE VIEW View3 AS INITIALIZE View3[i] AS {query} UPDATE View3[i] AS {query} "
        "PARTITION LENGTH 3600"
    )
    midnight = datetime.datetime(2015, 1, 1)
    rows = [(midnight + datetime.timedelta(minutes=i), "s", "d", i) for i in range(121)]
    mill.insert("m", rows)
    assert [part["subscript"] for part in mill["View3"].parts()] == [394464, 394465]
    assert mill["View3"].rows() == [("s", "d", sum(range(60, 120)))]


def test_band_join(connect):
    mill = connect()
    mill.sql(M)
    mill.sql(M.replace("TABLE m", "TABLE n").replace("loss", "delay"))
    query = "SELECT src, dest, loss, delay FROM M[{0}] JOIN N[{0}] USING (src, dest)"
    mill.sql(
        f"CREATE VIEW J AS INITIALIZE J[i] AS {query.format('i')} "
        f"UPDATE J[j] AS {query.format('j')} PARTITION LENGTH 60"
    )
    mill.insert("m", [(minute(0), "s", "d", 1), (minute(1), "s", "d", 2)])
    mill.insert("n", [(minute(0, 30), "s", "d", 10), (minute(1, 59), "s", "d", 20)])
    assert mill.sql("SELECT * FROM J[23668440..23668441]").rows() == [
        ("s", "d", 1, 10), ("s", "d", 2, 20),
    ]  # fmt: skip


WINDOW = 4
VIEW5 = f"""
CREATE VIEW H5 AS
INITIALIZE H5[i] AS SELECT src, max(loss) AS max_a FROM M[i] GROUP BY src
UPDATE H5[j] AS SELECT src, max(loss) FROM M[j] GROUP BY src
PARTITION LENGTH 60;
CREATE VIEW View5 AS
INITIALIZE View5[i] AS SELECT src, max(max_a) AS max_a FROM H5[i-{WINDOW}+1..i] GROUP BY src
UPDATE View5[j] AS SELECT src, max(max_a) FROM H5[j-{WINDOW}+1..j] GROUP BY src
PARTITION LENGTH 60 DEFINED BY SELECT src, max(loss) FROM M[j-{WINDOW}+1..j] GROUP BY src
"""
# V10: liveness by count, never by sum.
VIEW6 = f"""
CREATE VIEW H6 AS
INITIALIZE H6[i] AS SELECT src, sum(loss) AS sum_a, count(*) AS n FROM M[i] GROUP BY src
UPDATE H6[j] AS SELECT src, sum(sum_a), sum(n) FROM (
  SELECT src, loss AS sum_a, 1 AS n FROM M[j] UNION ALL SELECT src, sum_a, n FROM H6[j-1]) AS t
  GROUP BY src
PARTITION LENGTH 60;
CREATE VIEW View6 AS
INITIALIZE View6[i] AS SELECT src, sum_a FROM H6[i]
UPDATE View6[j] AS SELECT src, sum(sum_a) FROM (
  SELECT src, sum_a, n FROM H6[j] UNION ALL SELECT src, -sum_a, -n FROM H6[j-{WINDOW}]) AS t
  GROUP BY src HAVING sum(n) > 0
PARTITION LENGTH 60 DEFINED BY SELECT src, sum(loss) FROM M[j-{WINDOW}+1..j] GROUP BY src
"""


@pytest.mark.parametrize("definition", [VIEW5, VIEW6], ids=["View5", "View6"])
def test_sliding_windows_of_section_5_2(connect, definition):
    mill = connect()
    mill.sql(M)
    mill.sql(definition)
    view = mill["View5"] if definition is VIEW5 else mill["View6"]
    summary = max if definition is VIEW5 else sum
    held: list[tuple[int, str, int]] = []
    for i in range(8):
        rows = [(i, "ann", i % 5 - 2)] * (i < 3) + [(i, "bob", -i)]
        held += rows
        mill.insert("m", [(minute(at), src, "d", loss) for at, src, loss in rows])
        window = [row for row in held if row[0] > i - WINDOW]
        groups = {src: summary(r[2] for r in window if r[1] == src) for _, src, _ in window}
        assert sorted(view.rows()) == sorted(groups.items())
    mill.insert("m", [(minute(3, 30), "cy", "d", 7)])
    assert len(view.rows()) == 1  # ann and cy have no row in the last four minutes
    assert view.verify() == []


ACME = {58: "5.00", 59: "4.95", 60: "4.97", 61: "4.98"}


def test_acme_reports_the_first_row_of_an_hour(connect):
    """V15: a helper with the last row per group carries over the border of the part."""
    mill = connect()
    mill.sql(
        "CREATE TABLE quotes (ts TIMESTAMP, stock STRING, price DECIMAL(8,2)) "
        "TIMESTAMP BY ts PARTITION LENGTH 3600"
    )
    last = "SELECT stock, max_by(price, ts) AS price FROM {} GROUP BY stock"
    carried = (
        "(SELECT stock, ts, price FROM quotes[j] "
        "UNION ALL SELECT stock, NULL, price FROM tail[j-1])"
    )
    mill.sql(
        f"CREATE VIEW tail AS INITIALIZE tail[i] AS {last.format('quotes[i]')} "
        f"UPDATE tail[j] AS SELECT stock, coalesce(max_by(price, ts), max(price)) FROM {carried} "
        "GROUP BY stock PARTITION LENGTH 3600"
    )
    rises = (
        "SELECT ts, stock FROM "
        "(SELECT *, lag(price) OVER (PARTITION BY stock ORDER BY ts) AS before FROM {}) "
        "WHERE price > before AND ts IS NOT NULL"
    )
    carried = carried.replace("NULL", "CAST(NULL AS TIMESTAMP)")
    mill.sql(
        f"CREATE VIEW rises AS INITIALIZE rises[i] AS {rises.format('quotes[i]')} "
        f"UPDATE rises[j] AS {rises.format(carried)} PARTITION LENGTH 3600"
    )
    mill.sql(
        "CREATE VIEW up AS SELECT stock, last(ts) AS ts FROM quotes PATTERN [a, b] "
        "WHERE b.price > a.price GROUP BY stock"
    )
    for i, price in ACME.items():
        mill.insert("quotes", [(minute(i), "Acme", Decimal(price))])
    assert mill["rises"].rows() == [(minute(60), "Acme"), (minute(61), "Acme")]
    assert mill["up"].rows() == [("Acme", minute(61))]
